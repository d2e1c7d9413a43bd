"""What a host's messages say, as typed entries: the values between reading a history and building its input.

Owns the shapes only. Entries stand in the order of the chat, grouped by turn; markers are found, not yet
filled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..responses.items import InputPart

CallSource = Literal["artifact", "host", "folded"]
"""Who tells of a call or an output: our store, the host's tool messages, or a block folded into text."""

RepairKind = Literal["message", "call", "call_id", "call_name", "output", "double", "reasoning", "artifact"]
"""What was mended: an unreadable message, half a call, a call's id or name, half an output or one that came too
early, a double, reasoning that cannot be sent, an artifact that is broken or cannot be sent.
"""


class Origin(NamedTuple):
    """Where an item comes from: the index and role of the host's message, and the marker in it, if any.

    `part` counts the messages that a folded answer unfolds into. A tuple, since there is one for each message and
    each marker, and it costs half of what a frozen dataclass does.
    """

    message: int
    role: str
    marker: str | None = None
    part: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """What tells one message from another, folded or not."""
        return self.message, self.part


@dataclass(frozen=True, slots=True)
class Repair:
    """What was mended, where, and how: for the replay command and the log, never for the model."""

    kind: RepairKind
    origin: Origin
    detail: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """What the gathered system and developer messages say; `role` is developer only if all of them are."""

    texts: tuple[str, ...]
    role: Literal["system", "developer"]
    origin: Origin


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says; begins a turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolImages:
    """Images of tool results, which the host hands over as a user message within the same turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class AssistantText:
    """Text of the assistant."""

    text: str
    origin: Origin
    phase: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A place where an artifact belongs; its id is the origin's marker."""

    ulid: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in the host's words: `arguments` is JSON text of an object."""

    call_id: str
    name: str
    arguments: str
    source: CallSource
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer in the host's words."""

    call_id: str
    output: str | list[InputPart]
    source: CallSource
    origin: Origin


Entry: TypeAlias = (
    Instruction | UserMessage | ToolImages | AssistantText | ArtifactRef | ToolCall | ToolResult
)


@dataclass(frozen=True, slots=True)
class History:
    """A chat, read: its turns, the ULIDs of its markers in order and once each, and what was mended.

    The first turn also holds what stands before the first user message. `summaries` are the texts of messages that
    are nothing but someone's summary; they are no part of any turn.
    """

    turns: tuple[tuple[Entry, ...], ...]
    wanted: tuple[str, ...]
    repairs: tuple[Repair, ...]
    summaries: tuple[str, ...] = ()
