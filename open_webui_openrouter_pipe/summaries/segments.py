"""Which runs of turns summaries may replace.

Owns the division of a chat into segments, their names (by chain digests, never by index), and the index of which
segments have a summary, how large these are, and which are missing. The division follows from the content of the
turns alone, so that a chat finds its summaries again after an edit, on another branch, and under another model with a
window of similar size. It must not write a summary, nor decide when one is due.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, groupby, islice

from ..conversation.budget import ContextSettings
from ..conversation.conversation import Conversation, DigestedItem, Turn, digest_item
from ..conversation.record import UserRecord
from ..conversation.slash import Compact
from ..conversation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounts
from ..responses.items import is_reasoning
from .summary import (
    MAX_SIZE_TOKENS,
    MIN_SIZE_TOKENS,
    NOTHING_EARLIER,
    STATE_SHARE,
    SUMMARY_HEADER,
    EarlierState,
    Summary,
    max_summary_tokens,
    summary_message,
)

MAX_SOURCE_TOKENS = 32_768
WINDOW_SHARE = 4 / 15
"""A segment is at most this share of the window; rounded down to a power of two, so that windows of similar size
divide a chat alike."""
CLOSING_SHARE = 0.50
MIN_SHARE = 0.25
MIN_SOURCE_TOKENS = 1_000
"""Of a segment that ends early, before a large turn: its summary is at most a third as large."""
MIN_CLOSING_TOKENS = 2_000
"""Of any other: its summary is at most a sixth. Windows under 7,680 have no room for such segments."""
SMALL_SEGMENT_TOKENS = 4_096
ITEMS_PER_SMALL_SEGMENT = 12
"""In segments up to that size (of windows under 30,720) no item counts for more than this part of one. Long items are
cut there before turns are dropped, so that a summary is worth its room only if it replaces several turns."""
MESSAGE_SHARE = 0.20
"""Of the input budget: the most that the message which replaces old turns may take, with the record in it."""
FILLED_SHARE = 0.5
"""What a summary usually takes of its allowance, as far as costs go: models are asked to fill half."""
MAX_COMPACTIONS = 50
"""How many of a user's commands a chat is divided by, the first ones: each of them takes time with every request."""
MAX_SEGMENTS_AT_ONCE = 100
GROUP_SIZE = 4
"""How many neighbours share a summary when there are too many."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole turns, named by the chain digests before it and at its end; `turns` is their number."""

    start: bytes
    end: bytes
    turns: int


@dataclass(frozen=True, slots=True)
class SegmentSizes:
    """How large segments are, in tokens of source, and how many summaries stand beside each other at most.

    A segment ends with the turn that brings it to `closing_tokens`, or before one that would bring it over
    `max_tokens` once it has `min_tokens`; with `max_turns` also after so many turns (0: any number). An item counts
    for `max_item_tokens` at most.
    """

    min_tokens: int
    closing_tokens: int
    max_tokens: int
    max_turns: int
    max_summaries: int
    max_summary_tokens: int = MAX_SIZE_TOKENS
    max_item_tokens: int = sys.maxsize
    kept_turns: int = 1
    """The newest turns that a segment leaves out which a user's command ends early, as far as that is possible."""

    @classmethod
    def of(
        cls, settings: ContextSettings, window_tokens: int, *, summaries_tokens: int = sys.maxsize
    ) -> SegmentSizes:
        """Return the sizes for a window, with `summaries_tokens` for all summaries that stand at once.

        What a request reserves of its window for the answer moves no end of a segment.
        """
        power_of_two = 1 << max(0, int(window_tokens * WINDOW_SHARE).bit_length() - 1)
        max_tokens = min(MAX_SOURCE_TOKENS, power_of_two)
        if max_tokens < MIN_CLOSING_TOKENS or summaries_tokens < MIN_SIZE_TOKENS * (1 + STATE_SHARE):
            return NO_SEGMENTS
        closing_tokens = max(MIN_CLOSING_TOKENS, int(max_tokens * CLOSING_SHARE))
        is_small = max_tokens <= SMALL_SEGMENT_TOKENS
        # The newest summary also gives the state of the chat, in half as much.
        usual_tokens = max_summary_tokens(closing_tokens)
        max_summaries = max(1, int(summaries_tokens / usual_tokens - STATE_SHARE))
        room_tokens = int(summaries_tokens / (max_summaries + STATE_SHARE))
        return cls(
            min_tokens=max(MIN_SOURCE_TOKENS, int(max_tokens * MIN_SHARE)),
            closing_tokens=closing_tokens,
            max_tokens=max_tokens,
            max_turns=settings.summary_turn_trigger,
            max_summaries=max_summaries,
            max_summary_tokens=min(MAX_SIZE_TOKENS, room_tokens),
            max_item_tokens=max_tokens // ITEMS_PER_SMALL_SEGMENT if is_small else sys.maxsize,
            kept_turns=settings.protected_turns,
        )


NO_SEGMENTS = SegmentSizes(sys.maxsize, sys.maxsize, sys.maxsize, 0, 1)
"""Of a window that has no room for a summary, or in which it would be about as large as its source."""


@dataclass(frozen=True, slots=True)
class SummaryTarget:
    """A segment that one summary covers, with its turns; sizes are tokens.

    `first_turn` is the number of the first one, counted from one; `chains_before` name the ends of all turns before
    it, with which summaries of earlier segments are found.
    """

    segment: Segment
    turns: tuple[Turn, ...]
    source_tokens: int
    first_turn: int = 1
    chains_before: tuple[bytes, ...] = ()
    keep: str = ""
    """What its user wants to find in the summary, "" for nothing special."""
    most_tokens: int = MAX_SIZE_TOKENS
    earlier: EarlierState = NOTHING_EARLIER
    """What the summaries of the turns before leave, once they are read."""

    @property
    def last_turn(self) -> int:
        """The number of the last turn."""
        return self.first_turn + len(self.turns) - 1

    @property
    def max_tokens(self) -> int:
        """How large what the summary says of the segment may be, at most `most_tokens`."""
        return min(self.most_tokens, max_summary_tokens(self.source_tokens))

    @property
    def max_state_tokens(self) -> int:
        """How large the state of the chat may be that the summary gives while it is the newest."""
        return int(self.max_tokens * STATE_SHARE)


def segment_ends(
    sources_tokens: Sequence[int],
    sizes: SegmentSizes,
    early: Collection[int] = (),
    known: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return where segments end, as numbers of turns; turns after the last end belong to no segment yet.

    At the `early` ends one ends whatever its size. The first ends may be `known`.
    """
    ends = [*known]
    start, tokens = ends[-1] if ends else 0, 0
    for turn, source_tokens in enumerate(sources_tokens[start:], start):
        if turn > start and tokens >= sizes.min_tokens and tokens + source_tokens > sizes.max_tokens:
            ends.append(turn)
            start, tokens = turn, 0
        tokens += source_tokens
        if turn + 1 in early or tokens >= sizes.closing_tokens or 0 < sizes.max_turns <= turn + 1 - start:
            ends.append(turn + 1)
            start, tokens = turn + 1, 0
    return tuple(ends)


def early_ends(
    sources_tokens: Sequence[int], sizes: SegmentSizes, compactions: Iterable[int]
) -> tuple[int, ...]:
    """Return where segments end early because a user has the chat summarized, after these numbers of turns.

    It does not where one ends by itself among the turns that are kept: no segment that may have a summary already is
    divided. A short chat keeps fewer turns, so that there is enough to summarize.
    """
    found: list[int] = []
    for turns in compactions if sizes != NO_SEGMENTS else ():
        ends = segment_ends(sources_tokens[:turns], sizes, found)
        start = max((end for end in ends if end < turns), default=0)
        kept = 0 if 0 < turns - sizes.kept_turns <= start else sizes.kept_turns
        while kept and sum(sources_tokens[start : max(start, turns - kept)]) < MIN_CLOSING_TOKENS:
            kept //= 2
        found += [turns - kept] if kept else []
    return tuple(found)


def group_segments(count: int, max_groups: int) -> tuple[range, ...]:
    """Return which of the oldest `count` segments share a summary, so that there are at most `max_groups`.

    Whenever there would be more, each four neighbours of equal size become one group; where there are none, the oldest
    groups do. With `max_groups` 4:

        segments    groups
        4           1 1 1 1
        5           4       1
        8           4       4
        11          10                  1

    A longer chat keeps the groups of a shorter one in between.
    """
    for earlier in range(0, count, MAX_SEGMENTS_AT_ONCE):  # each goes on from the one before, not too deep
        _group_sizes(earlier, max_groups)
    sizes = _group_sizes(count, max_groups)
    return tuple(range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True))


@lru_cache(maxsize=4_096)
def _group_sizes(count: int, max_groups: int) -> tuple[int, ...]:
    sizes = [*_group_sizes(count - 1, max_groups), 1] if count else []
    if len(sizes) > max_groups:
        runs = [(size, *divmod(len(list(run)), GROUP_SIZE)) for size, run in groupby(sizes)]
        sizes = [part for size, groups, rest in runs for part in [size * GROUP_SIZE] * groups + [size] * rest]
    if len(sizes) > max_groups:
        oldest = max(2, min(GROUP_SIZE, max_groups))
        sizes[:oldest] = [sum(sizes[:oldest])]
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """The sizes of a chat's first turns, as segments count them, and where its first segments end by themselves."""

    sources_tokens: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def beginning(self, turns: int) -> KnownSegments:
        """Return what holds for a chat with these first turns."""
        return KnownSegments(self.sources_tokens[:turns], self.ends[: bisect_left(self.ends, turns)])


class SummaryIndex:
    """The segments of a conversation, and which summaries of them are available."""

    def __init__(
        self,
        conversation: Conversation,
        record: UserRecord,
        sizes: SegmentSizes,
        available: Mapping[Segment, Summary],
        *,
        record_tokens: int = 0,
    ) -> None:
        """Divide and count on demand. The current turn is in no segment.

        `record` is that of the user's messages, `record_tokens` the most that it may take.
        """
        self._conversation = conversation
        self._counter = record.counter
        self._sizes = sizes
        self._available = available
        self.known = KnownSegments()
        """Of the division; it gets to know the rest when that is asked for."""
        self.record = record
        self._record_tokens = record_tokens
        commands = ((each.turn, each.command) for each in conversation.commands)
        keeps = {turn: command.keep for turn, command in commands if isinstance(command, Compact)}
        self._compactions = dict(islice(keeps.items(), MAX_COMPACTIONS))
        """What the user wants to be kept, by the number of turns after which the chat is summarized."""
        self._earlier: dict[int, SummaryIndex] = {}
        self._targets: dict[range, SummaryTarget] = {}
        self._entries: dict[int, tuple[DigestedItem, ...]] = {}
        self._max_tokens: dict[int, int] = {}
        self._missing: dict[int, tuple[SummaryTarget, ...]] = {}

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many turns the first, the first two, ... segments hold."""
        known = () if self._compactions else self.known.ends
        ends = segment_ends(self._sources_tokens, self._sizes, self._early_ends, known)
        self.known.ends[:] = () if self._compactions else ends
        return ends

    @cached_property
    def _early_ends(self) -> tuple[int, ...]:
        return early_ends(self._sources_tokens, self._sizes, sorted(self._compactions))

    def as_of(self, turn: int) -> SummaryIndex:
        """Return the index as it was known in a turn, before later commands; itself where there are none."""
        known = sum(each <= turn for each in self._compactions)
        if known == len(self._compactions):
            return self
        if known not in self._earlier:
            commands = tuple(each for each in self._conversation.commands if each.turn <= turn)
            self._earlier[known] = earlier = SummaryIndex(
                replace(self._conversation, commands=commands),
                self.record,
                self._sizes,
                self._available,
                record_tokens=self._record_tokens,
            )
            earlier.known = KnownSegments(self.known.sources_tokens)
        return self._earlier[known]

    def terms(self, *, with_available: bool) -> Hashable:
        """Return what the sizes of its messages go by; with which summaries there are, where that counts."""
        available = frozenset(self._available) if with_available else None
        return self._sizes, self._record_tokens, self._conversation.external_summaries, available

    def count(self, turns: int) -> int:
        """Return how many segments lie within the oldest `turns` turns."""
        return bisect_right(self.ends, turns) if turns > 0 else 0

    def count_completed(self, turns: int, *, current_turn: int) -> int:
        """Return the same as it was known in a turn: the size of that turn ends no segment before it."""
        count = self.count(turns)
        if count and self.ends[count - 1] == current_turn:
            before = self._turns(count - 1).stop
            completed = segment_ends(self._sources_tokens[before:current_turn], self._sizes)
            is_early = current_turn in self._early_ends
            count -= not (is_early or completed == (current_turn - before,))
        return count

    def max_tokens(self, count: int) -> int:
        """Return how large the message may be that replaces the first `count` segments.

        Decisions go by this, not by the summaries: they are the same before and after these are written. The record of
        the user's messages is counted as it is.
        """
        if count not in self._max_tokens:
            header = self._counter.text(SUMMARY_HEADER) + MESSAGE_OVERHEAD_TOKENS if count else 0
            fixed = self.tokens(0) or header
            record = self.record.tokens(self._turns(count), self._record_tokens)
            self._max_tokens[count] = self._allowances_tokens(count) + record + fixed
        return self._max_tokens[count]

    def unfilled_tokens(self, count: int) -> int:
        """Return by how much that message is usually smaller, whatever its summaries turn out to be."""
        return int(self._allowances_tokens(count) * (1 - FILLED_SHARE))

    def _allowances_tokens(self, count: int) -> int:
        """What all summaries may take, with the state that the newest of them gives."""
        targets = [*self._grouped(count)]
        state_tokens = targets[-1].max_state_tokens if targets else 0
        return sum(target.max_tokens for target in targets) + state_tokens

    def tokens(self, count: int) -> int:
        """Return the size of the message for the first `count` segments, as far as summaries are available."""
        return self._counter.entries(self.entries(count)).tokens

    def entries(self, count: int) -> tuple[DigestedItem, ...]:
        """Return the message that replaces the first `count` segments, with the available summaries; () if empty."""
        if not (count or self._conversation.external_summaries):
            return ()
        if count not in self._entries:
            summaries = [summary for _, summary in self.cover(count) if summary]
            record = self.record.text(self._turns(count), self._record_tokens)
            message = summary_message(summaries, self._conversation.external_summaries, record)
            self._entries[count] = (digest_item(message),) if message else ()
        return self._entries[count]

    def cover(self, count: int) -> Iterator[tuple[SummaryTarget, Summary | None]]:
        """Yield what replaces the first `count` segments: targets with their summaries, None where one is missing."""
        groups = group_segments(count, self._sizes.max_summaries)
        found = self._found() if groups else {}
        for group in groups:
            for target in map(self._target, _cover_group(group, found)):
                yield target, self._available.get(target.segment)

    def missing(self, count: int) -> tuple[SummaryTarget, ...]:
        """Return what must be summarized before the first `count` segments can be replaced."""
        if count not in self._missing:
            cover = self.cover(count)
            self._missing[count] = tuple(target for target, summary in cover if summary is None)
        return self._missing[count]

    def desired(self, count: int) -> tuple[SummaryTarget, ...]:
        """Return the groups that should have one summary and have none; parts of them may have summaries."""
        return tuple(target for target in self._grouped(count) if target.segment not in self._available)

    @cached_property
    def _sources_tokens(self) -> Sequence[int]:
        """The size of each turn but the current one, without reasoning and media: models differ in these."""
        most, counter = self._sizes.max_item_tokens, self._counter

        def count(turn: Turn) -> TokenCounts:
            counts = [counter.entry(entry) for entry in turn.entries if not is_reasoning(entry.item)]
            return TokenCounts(sum(min(each.tokens - each.media, most) for each in counts))

        found = self.known.sources_tokens
        for turn in self._conversation.turns[len(found) : -1]:
            key = turn.sent_chain + b"source%d" % most
            found.append(counter.counts.get_or_compute(key, partial(count, turn)).tokens)
        return found

    def _turns(self, count: int) -> range:
        """The turns of the first `count` segments."""
        return range(self.ends[count - 1] if count else 0)

    def _grouped(self, count: int) -> Iterator[SummaryTarget]:
        return map(self._target, group_segments(count, self._sizes.max_summaries))

    @cached_property
    def _chains(self) -> tuple[bytes, ...]:
        """The names of the chat before the first segment, and at the end of each."""
        chains = self._conversation.chains
        return tuple(chains[end] for end in (0, *self.ends))

    def _found(self) -> Mapping[int, Sequence[int]]:
        """Return, by the number of segments before them, where runs of segments end that have a summary."""
        number = dict(zip(self._chains, range(len(self._chains)), strict=True))
        found: dict[int, list[int]] = {}
        for segment in self._available:
            if segment.start in number and segment.end in number:
                found.setdefault(number[segment.start], []).append(number[segment.end])
        return found

    def _target(self, group: range) -> SummaryTarget:
        if group not in self._targets:
            turns = self._conversation.turns
            first, end = self._turns(group.start).stop, self.ends[group.stop - 1]
            self._targets[group] = SummaryTarget(
                Segment(self._chains[group.start], self._chains[group.stop], end - first),
                turns[first:end],
                sum(self._sources_tokens[first:end]),
                first + 1,
                self._chains[: group.start + 1],
                "\n".join(keep for turn, keep in self._compactions.items() if keep and end <= turn),
                self._sizes.max_summary_tokens,
            )
        return self._targets[group]


def _cover_group(group: range, found: Mapping[int, Sequence[int]]) -> Iterator[range]:
    """Yield the group as one, unless only parts of it have summaries: then the largest of these, and the rest."""
    at, is_divided = group.start, any(start in group and min(found[start]) <= group.stop for start in found)
    while at < group.stop:
        ends = [end for end in found.get(at, ()) if end <= group.stop]
        end = max(ends, default=at + 1) if is_divided else group.stop
        yield range(at, end)
        at = end


def summaries_before(target: SummaryTarget, found: Mapping[Segment, Summary]) -> tuple[Summary, ...]:
    """Return the summaries of the segments before a target, oldest first; a segment without one is passed over."""
    by_end = sorted(found, key=lambda segment: segment.turns)
    ends = {segment.end: segment for segment in by_end}
    number = {chain: index for index, chain in enumerate(target.chains_before)}
    before: list[Summary] = []
    index = len(target.chains_before) - 1
    while index > 0:
        segment = ends.get(target.chains_before[index])
        if segment and segment.start in number:
            before.insert(0, found[segment])
            index = number[segment.start]
        else:
            index -= 1
    return tuple(before)


def summaries_within(target: SummaryTarget, found: Mapping[Segment, Summary]) -> tuple[Summary, ...]:
    """Return the summaries of parts of a target in the order of the chat; of those that overlap, the larger ones."""
    chains = (target.segment.start, *(turn.chain for turn in target.turns))
    number = {chain: index for index, chain in enumerate(chains)}
    inside = [each for each in found if {each.start, each.end} <= number.keys() and each != target.segment]
    parts, at = list[Summary](), 0
    for each in sorted(inside, key=lambda each: (number[each.start], -each.turns)):
        if number[each.start] >= at:
            parts.append(found[each])
            at = number[each.end]
    return tuple(parts)
