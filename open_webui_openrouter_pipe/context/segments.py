"""Where summaries stand in for turns.

Owns the names of segments (by chain digests, never by index), the replacement of whole turns by what stands
in for them, and the choice of the turns that should be summarised next. It must not write a summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..responses.items import InputMessage
from .settings import ContextSettings
from .turns import Conversation, entry_of


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole turns by the chain digests before and at its end; `turns` says how many they are."""

    start: bytes
    end: bytes
    turns: int


@dataclass(frozen=True, slots=True)
class StandIn:
    """A message that stands in for a segment."""

    segment: Segment
    message: InputMessage


def with_stand_ins(conversation: Conversation, stand_ins: Sequence[StandIn]) -> Conversation:
    """Replace the conversation's oldest turns, as far as stand-ins cover them without a gap.

    A stand-in whose segment is not a part of this conversation (an edit, another branch) is passed over. The
    current turn is never replaced.
    """
    by_start = {stand_in.segment.start: stand_in for stand_in in stand_ins}
    place = {turn.chain: at for at, turn in enumerate(conversation.turns[:-1], start=1)}
    chain, covered, standing = conversation.before, 0, list(conversation.standing)
    while (found := by_start.pop(chain, None)) and place.get(found.segment.end, 0) > covered:
        chain = found.segment.end
        covered = place[chain]
        standing.append(entry_of(found.message))
    return replace(conversation, turns=conversation.turns[covered:], standing=tuple(standing), before=chain)


def wanted_segment(
    conversation: Conversation, settings: ContextSettings, *, tokens: int, limit_tokens: int
) -> Segment | None:
    """Name the turns to summarise: all but the protected ones, once the request is large or long enough."""
    if settings.context_strategy != "summarize":
        return None
    every = settings.summary_turn_trigger
    large = tokens >= settings.summary_trigger_ratio * limit_tokens
    long = 0 < every <= len(conversation.turns) - 1
    turns = conversation.turns[: -max(1, settings.protected_recent_turns)]
    if not turns or not (large or long):
        return None
    return Segment(conversation.before, turns[-1].chain, len(turns))
