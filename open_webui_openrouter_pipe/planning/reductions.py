"""What a request lacks of its conversation, by kind and with sizes: what its user should know.

It must not decide what is shortened, nor when a user is informed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from ..conversation.budget import ContextSettings
from ..responses.items import is_function_call_output
from .detail import DetailLevel, PartsByDetail
from .policies import count_messages
from .simulate import Cutoffs

ReductionKind = Literal[
    "tools",
    "capped",
    "facts",
    "summarized",
    "shortened",
    "clipped",
    "omitted",
    "retrieved_cut",
    "retrieved_omitted",
]
"""In the order in which they are shown: what the answer suffers from most comes last, where the page shows it."""

_KINDS: Final[tuple[ReductionKind, ...]] = get_args(ReductionKind)


@dataclass(frozen=True, slots=True)
class Reduction:
    """One kind of what a request lacks: `count` turns, tool results or tools, and how many `tokens` that saves.

    `of` is how many there are: earlier turns, or tokens of retrieved text. Reductions of two requests are equal when
    the same is lacking, however long the chat has become meanwhile. Of a clipped chat, `count` is the number of
    messages that are sent, since it lacks more with every turn.
    """

    kind: ReductionKind
    count: int
    tokens: int
    of: int = field(default=0, compare=False)


def chat_reductions(parts: PartsByDetail, cutoffs: Cutoffs, settings: ContextSettings) -> Iterator[Reduction]:
    """Yield what the request lacks of the chat's turns."""
    earlier_turns = len(parts.turns) - 1
    lost_tokens = dict.fromkeys(_KINDS, 0)
    counts = dict.fromkeys(_KINDS, 0)
    counted_turns: set[int] = set()
    for index, part in enumerate(parts.parts):
        level = cutoffs.level_of(index)
        sent = parts.entries(level, index)
        if sent == part.entries:
            continue
        kind = _kind(level, is_current=index >= parts.current)
        lost_tokens[kind] += parts.counter.entries(part.entries).tokens - parts.counter.entries(sent).tokens
        if kind in {"facts", "capped"}:
            kept = {entry.digest for entry in sent}
            counts[kind] += sum(
                is_function_call_output(entry.item) and entry.digest not in kept for entry in part.entries
            )
        elif part.turn not in counted_turns:
            counted_turns.add(part.turn)
            counts[kind] += 1
    summaries, segments = parts.summaries, parts.segments_before(cutoffs.replaced)
    lost_tokens["summarized"] -= summaries.tokens(segments) - summaries.tokens(0)
    if counts["omitted"] and _is_clipped_alone(parts, cutoffs, settings):
        counts["clipped"], counts["omitted"] = settings.clip_limit or 0, 0
        lost_tokens["clipped"] = 0
    for kind in _KINDS:
        if counts[kind]:
            yield Reduction(kind, counts[kind], lost_tokens[kind], earlier_turns)


def retrieved_reduction(whole_tokens: int, sent_tokens: int) -> Iterator[Reduction]:
    """Yield what is lacking of retrieved text of `whole_tokens`, if anything is."""
    if sent_tokens < whole_tokens:
        kind: ReductionKind = "retrieved_cut" if sent_tokens else "retrieved_omitted"
        yield Reduction(kind, 1, whole_tokens - sent_tokens, whole_tokens)


def in_order(reductions: Iterator[Reduction]) -> tuple[Reduction, ...]:
    """Return them in the order in which they are shown."""
    return tuple(sorted(reductions, key=lambda each: _KINDS.index(each.kind)))


def _kind(level: DetailLevel, *, is_current: bool) -> ReductionKind:
    if level == DetailLevel.SUMMARIZED:
        return "summarized"
    if level == DetailLevel.DROPPED:
        return "omitted"
    if level == DetailLevel.FULL:
        return "capped"
    return "facts" if is_current or level == DetailLevel.TOOL_FACTS else "shortened"


def _is_clipped_alone(parts: PartsByDetail, cutoffs: Cutoffs, settings: ContextSettings) -> bool:
    """Whether clipping alone omits turns: the messages that it keeps are all sent."""
    limit = settings.clip_limit
    if limit is None:
        return False
    kept = parts.turns[parts.turns_before(cutoffs.dropped) : -1]
    return sum(map(count_messages, kept)) + 1 >= limit
