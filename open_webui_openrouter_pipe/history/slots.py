"""A turn in the making: its places in order, and what each of them may become.

Owns the values that `turns` notes and `settling` turns into items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..responses.items import InputMessage, Item
from .artifacts import Artifacts
from .entries import Instruction, Origin, Repair, RepairKind, UserMessage
from .tool_pairs import Pair

SlotKind = Literal["ready", "text", "reasoning", "opaque", "call", "output", "images"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all turns of a request.

    `target` is the family of the model that will read it, None when unknown. The instructions and the latest user
    message come with the items that they become, since the host mixes into these.
    """

    artifacts: Artifacts
    target: str | None = None
    strip_reasoning: bool = False
    instructions: Mapping[Instruction, Sequence[InputMessage]] = field(default_factory=dict)
    latest_user: UserMessage | None = None
    latest_items: Sequence[InputMessage] = ()


@dataclass(slots=True)
class Slot:
    """A place in a turn: `content` is its item, text or parts; `dropped` says why it stays empty."""

    kind: SlotKind
    origin: Origin
    content: Any = None
    pair: Pair | None = None
    phase: str | None = None
    dropped: str | None = None


@dataclass(slots=True)
class Draft:
    """The places of one turn. `missing` and `repairs` are those of the whole request, for adding to."""

    number: int
    missing: dict[str, str | None]
    repairs: list[Repair]
    slots: list[Slot] = field(default_factory=list)
    has_holes: bool = False

    def repair(self, kind: RepairKind, origin: Origin, detail: str) -> None:
        """Remember what was mended."""
        self.repairs.append(Repair(kind, origin, detail))


@dataclass(slots=True)
class Written:
    """The items of a request as far as they are written, and for each its turn and origin."""

    items: list[Item] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    replayed: list[tuple[str, int]] = field(default_factory=list)
    """The ULID and turn of each reasoning item."""
