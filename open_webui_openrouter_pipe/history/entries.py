"""What a host's messages say, as typed entries: the values between reading a history and building its input.

Owns the shapes only. Entries stand in the order of the chat, grouped by turn; markers are found, not yet filled. Those
of which a long chat has many are tuples, which cost half of what frozen dataclasses do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..responses.items import InputPart

CallSource = Literal["artifact", "host", "folded"]
"""Who reports a call or a result: our store, the host's tool messages, or a block folded into text."""

RepairKind = Literal[
    "message", "call", "call_id", "call_name", "output", "duplicate", "reasoning", "artifact"
]
"""What was repaired: an unreadable message, half a call, a call's id or name, half an output or one that came too
early, a duplicate, reasoning that cannot be sent, an artifact that is broken or cannot be sent.
"""


class Origin(NamedTuple):
    """Where an item comes from: the index and role of the host's message, and the marker in it, if any.

    `part` counts the messages that a folded answer unfolds into.
    """

    message: int
    role: str
    marker: str | None = None
    part: int = 0

    @property
    def message_part(self) -> tuple[int, int]:
        """The key of the message that the model sees, the same for a folded and an unfolded chat."""
        return self.message, self.part


@dataclass(frozen=True, slots=True)
class Repair:
    """What was repaired, where, and how: for the replay command and the log, never for the model."""

    kind: RepairKind
    origin: Origin
    detail: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """Consecutive system and developer messages; `role` is developer only if all of them are."""

    texts: tuple[str, ...]
    role: Literal["system", "developer"]
    origin: Origin


class UserMessage(NamedTuple):
    """What the user says; begins a turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolImages:
    """Images of tool results, which the host sends as a user message within the same turn."""

    parts: tuple[InputPart, ...]
    origin: Origin


class AssistantText(NamedTuple):
    """Text of the assistant."""

    text: str
    origin: Origin
    phase: str | None = None


class ArtifactRef(NamedTuple):
    """The position of an artifact; its id is also the origin's marker."""

    ulid: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the host or a folded block shows it: `arguments` is JSON text of an object."""

    call_id: str
    name: str
    arguments: str
    source: CallSource
    origin: Origin


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result as the host or a folded block shows it."""

    call_id: str
    output: str | list[InputPart]
    source: CallSource
    origin: Origin


Entry: TypeAlias = (
    Instruction | UserMessage | ToolImages | AssistantText | ArtifactRef | ToolCall | ToolResult
)


@dataclass(frozen=True, slots=True)
class History:
    """A chat, read: its turns, the ULIDs of its markers in order and once each, and what was repaired.

    The first turn also holds what stands before the first user message. `summaries` are the texts of messages that
    are nothing but someone's summary; they belong to no turn.
    """

    turns: tuple[tuple[Entry, ...], ...]
    wanted: tuple[str, ...]
    repairs: tuple[Repair, ...]
    summaries: tuple[str, ...] = ()
