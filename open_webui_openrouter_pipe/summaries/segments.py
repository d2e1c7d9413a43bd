"""Where summaries may stand in for turns.

Owns the cut of a chat into segments, their names (by chain digests, never by index), and the shelf: which
segments the summaries at hand cover, what they come to, and which are missing. The cut follows from the content
of the turns alone, so that a chat finds its summaries again after an edit, on another branch, and under another
model with a window of the same order. It must not write a summary, nor decide when one is due.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from ..conversation.budget import OUTPUT_SHARE, ContextSettings
from ..conversation.conversation import Conversation, DigestedItem, Turn, digest_item
from ..conversation.rules import RULE_OVERHEAD_TOKENS, user_rules
from ..conversation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter, TokenCounts
from ..responses.items import is_reasoning
from .summary import SUMMARY_HEADER, Summary, max_summary_tokens, summary_message

MOST_SOURCE_TOKENS = 32_768
CLOSING_SHARE = 0.50
LEAST_SHARE = 0.25
WINDOW_SHARE = 1 / 3
"""A segment is at most this share of the budget; rounded down to a power of two, so that windows of the same
order cut alike."""

BLOCK_SHARE = 0.12
LEAST_SUMMARIES = 2
LEAST_CLOSING_TOKENS = 2_048
JOINED = 4
"""How many neighbours share a summary when there are too many."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole turns by the chain digests before and at its end; `turns` says how many they are."""

    start: bytes
    end: bytes
    turns: int


@dataclass(frozen=True, slots=True)
class SegmentSizes:
    """How large segments are, in tokens of source, and how many summaries stand beside each other at most.

    A segment ends with the turn that brings it to `closing_tokens`, or before one that would bring it over
    `most_tokens` once it has `least_tokens`; with `most_turns` also after so many turns (0: any number).
    """

    least_tokens: int
    closing_tokens: int
    most_tokens: int
    most_turns: int
    most_summaries: int

    @classmethod
    def of(cls, settings: ContextSettings, window_tokens: int) -> SegmentSizes:
        """The sizes for a window; what a request reserves of it for its answer does not move them."""
        budget_tokens = window_tokens * (1 - OUTPUT_SHARE)
        fitting = 1 << max(0, int(budget_tokens * WINDOW_SHARE).bit_length() - 1)
        most = min(MOST_SOURCE_TOKENS, fitting)
        closing = int(most * CLOSING_SHARE)
        if closing < LEAST_CLOSING_TOKENS:
            return NO_SEGMENTS
        return cls(
            least_tokens=int(most * LEAST_SHARE),
            closing_tokens=closing,
            most_tokens=most,
            most_turns=settings.summary_turn_trigger,
            most_summaries=max(
                LEAST_SUMMARIES, int(budget_tokens * BLOCK_SHARE) // max_summary_tokens(closing)
            ),
        )


NO_SEGMENTS = SegmentSizes(sys.maxsize, sys.maxsize, sys.maxsize, 0, LEAST_SUMMARIES)
"""Of a window in which a summary would be about as large as its source."""


@dataclass(frozen=True, slots=True)
class SummaryTarget:
    """Neighbouring turns that one summary covers: their segment, what they are, and how large both sides are.

    `rules_tokens` is what the user's rules in them come to, which are kept in any case.
    """

    segment: Segment
    turns: tuple[Turn, ...]
    source_tokens: int
    rules_tokens: int = 0

    @property
    def words_tokens(self) -> int:
        """How large the summary may be beside the rules."""
        return max_summary_tokens(self.source_tokens)

    @property
    def max_tokens(self) -> int:
        """How large the summary may be."""
        return self.words_tokens + self.rules_tokens


def segment_ends(sources_tokens: Sequence[int], sizes: SegmentSizes) -> tuple[int, ...]:
    """Where segments end, as numbers of turns; turns after the last end belong to no segment yet."""
    ends: list[int] = []
    begun, tokens = 0, 0
    for at, source_tokens in enumerate(sources_tokens):
        if at > begun and tokens >= sizes.least_tokens and tokens + source_tokens > sizes.most_tokens:
            ends.append(at)
            begun, tokens = at, 0
        tokens += source_tokens
        if tokens >= sizes.closing_tokens or 0 < sizes.most_turns <= at + 1 - begun:
            ends.append(at + 1)
            begun, tokens = at + 1, 0
    return tuple(ends)


def group_segments(count: int, most: int) -> tuple[range, ...]:
    """Which of the oldest `count` segments share a summary, so that there are hardly more than `most`.

    Each time there would be more, runs of equal neighbours are joined, so that a segment is summarised anew only
    as often as the number of segments quadruples. A longer chat keeps the groups of a shorter one in between.
    """
    groups: list[int] = []
    for _ in range(count):
        groups.append(1)
        if len(groups) > most:
            groups = _joined(groups)
    ends = [sum(groups[: at + 1]) for at in range(len(groups))]
    return tuple(range(end - size, end) for size, end in zip(groups, ends, strict=True))


def _joined(groups: Sequence[int]) -> list[int]:
    joined: list[int] = []
    for size, run in groupby(groups):
        whole, rest = divmod(len(list(run)), JOINED)
        joined += [size * JOINED] * whole + [size] * rest
    return joined


class SummaryIndex:
    """The segments of a conversation, and the summaries of them that are at hand."""

    def __init__(
        self,
        conversation: Conversation,
        counter: TokenCounter,
        sizes: SegmentSizes,
        at_hand: Mapping[Segment, Summary],
    ) -> None:
        """Nothing is cut or counted yet. The current turn is in no segment."""
        self._conversation = conversation
        self._counter = counter
        self._sizes = sizes
        self._at_hand = at_hand
        self._stretches: dict[range, SummaryTarget] = {}
        self._rooms: dict[int, int] = {}
        self._missing: dict[int, tuple[SummaryTarget, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no summary is at hand."""
        return not self._at_hand

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many turns the first, the first two, ... segments hold."""
        return segment_ends(self._sources_tokens, self._sizes)

    def count(self, turns: int) -> int:
        """How many segments lie within the oldest `turns` turns."""
        return bisect_right(self.ends, turns) if turns > 0 else 0

    def source_tokens(self, first: int, end: int) -> int:
        """What the segments from `first` to before `end` come to as sources."""
        start = self.ends[first - 1] if first else 0
        return sum(self._sources_tokens[start : self.ends[end - 1]])

    def max_tokens(self, count: int) -> int:
        """What the block may come to that stands in for the first `count` segments.

        Decisions go by the room, not by the summaries: they are the same before and after these are written.
        """
        if count not in self._rooms:
            rooms = sum(stretch.max_tokens for stretch in self._layout(count))
            external = summary_message((), self._conversation.external_summaries)
            header = self._counter.text(SUMMARY_HEADER) + MESSAGE_OVERHEAD_TOKENS if rooms else 0
            fixed = self._counter.entry(digest_item(external)).tokens if external else header
            self._rooms[count] = rooms + fixed
        return self._rooms[count]

    def tokens(self, count: int) -> int:
        """What the block comes to, as far as its summaries are at hand."""
        return sum(self._counter.entry(entry).tokens for entry in self.entries(count))

    def entries(self, count: int) -> tuple[DigestedItem, ...]:
        """The block for the first `count` segments, as far as their summaries are at hand; none when it is empty."""
        present = [self._at_hand[stretch.segment] for stretch in self._cover(count) if self._has(stretch)]
        message = summary_message(present, self._conversation.external_summaries)
        return (digest_item(message),) if message else ()

    def missing(self, count: int) -> tuple[SummaryTarget, ...]:
        """The stretches whose summaries must be made before the first `count` segments can be told."""
        if count not in self._missing:
            cover = self._cover(count)
            self._missing[count] = tuple(stretch for stretch in cover if not self._has(stretch))
        return self._missing[count]

    def wished(self, count: int) -> tuple[SummaryTarget, ...]:
        """The stretches that should have one summary each, and have none; several may be at hand for their parts."""
        return tuple(stretch for stretch in self._layout(count) if not self._has(stretch))

    @cached_property
    def _sources_tokens(self) -> tuple[int, ...]:
        return tuple(map(self._source_tokens, self._conversation.turns[:-1]))

    def _source_tokens(self, turn: Turn) -> int:
        """What a turn says. Reasoning comes and goes, and media are counted by each family in its own way."""
        tallies = (self._counter.entry(entry) for entry in turn.entries if not is_reasoning(entry.item))
        return sum(tally.tokens - tally.media for tally in tallies)

    def _rules_tokens(self, turn: Turn) -> int:
        def count() -> TokenCounts:
            return TokenCounts(
                sum(self._counter.text(rule) + RULE_OVERHEAD_TOKENS for rule in user_rules(turn))
            )

        return self._counter.counts.get_or_compute(turn.chain + b"rules", count).tokens

    def _layout(self, count: int) -> Iterator[SummaryTarget]:
        return map(self._stretch, group_segments(count, self._sizes.most_summaries))

    def _cover(self, count: int) -> tuple[SummaryTarget, ...]:
        groups = group_segments(count, self._sizes.most_summaries)
        return tuple(stretch for group in groups for stretch in self._resolved(group))

    def _resolved(self, group: range) -> Iterator[SummaryTarget]:
        """The group as one, unless only its parts (or theirs) are at hand."""
        whole = self._stretch(group)
        if self._has(whole) or len(group) == 1:
            yield whole
            return
        each = len(group) // JOINED
        parts = [
            part
            for start in range(group.start, group.stop, each)
            for part in self._resolved(range(start, start + each))
        ]
        yield from parts if any(map(self._has, parts)) else [whole]

    def _stretch(self, group: range) -> SummaryTarget:
        if group not in self._stretches:
            self._stretches[group] = self._cut_out(group)
        return self._stretches[group]

    def _cut_out(self, group: range) -> SummaryTarget:
        turns = self._conversation.turns
        first, end = self.ends[group.start - 1] if group.start else 0, self.ends[group.stop - 1]
        start = turns[first - 1].chain if first else self._conversation.before
        segment = Segment(start, turns[end - 1].chain, end - first)
        rules_tokens = sum(map(self._rules_tokens, turns[first:end]))
        return SummaryTarget(
            segment, turns[first:end], self.source_tokens(group.start, group.stop), rules_tokens
        )

    def _has(self, stretch: SummaryTarget) -> bool:
        return stretch.segment in self._at_hand
