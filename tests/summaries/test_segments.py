"""Segments: where they end, which share a summary, and what the index says of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from sys import maxsize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextSettings, split_window
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.record import UserRecord
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.segments import (
    NO_SEGMENTS,
    KnownSegments,
    Segment,
    SegmentSizes,
    SummaryIndex,
    SummaryTarget,
    early_ends,
    group_segments,
    segment_ends,
    summaries_before,
    summaries_within,
)
from open_webui_openrouter_pipe.summaries.summary import Entry, ModelSummary, Summary, max_summary_tokens
from tests.support.chats import History, answer, histories, history, reasoning, split_words, user
from tests.support.rows import rows

TABLES = Path(__file__).with_name("segments.txt")
SIZES = SegmentSizes(min_tokens=20, closing_tokens=40, max_tokens=80, max_turns=0, max_summaries=4)


@pytest.mark.parametrize(("sources", "max_turns", "ends"), rows(TABLES, "ends"))
def test_a_segment_ends_when_it_is_large_enough(sources: list[int], max_turns: int, ends: list[int]) -> None:
    """At half of its maximum, before a turn that would bring it over, or after a number of turns."""
    assert segment_ends(sources, replace(SIZES, max_turns=max_turns)) == tuple(ends)


@pytest.mark.parametrize(("turns", "tokens", "compactions", "ends"), rows(TABLES, "commands"))
def test_a_command_ends_a_segment_early(
    turns: int, tokens: int, compactions: list[int], ends: list[int]
) -> None:
    """And never divides one that may have been summarized."""
    sources = [tokens] * turns
    sizes = SegmentSizes(4_000, 9_000, 16_000, max_turns=0, max_summaries=4, kept_turns=4)
    assert early_ends(sources, sizes, compactions) == tuple(ends)
    natural, divided = segment_ends(sources, sizes), segment_ends(sources, sizes, ends)
    first = min(ends, default=turns)
    assert set(ends) <= set(divided)
    assert [end for end in divided if end < first] == [end for end in natural if end < first]
    assert early_ends(sources, NO_SEGMENTS, compactions) == ()


@given(st.lists(st.integers(0, 200), max_size=40), st.data())
def test_a_longer_chat_is_divided_like_a_shorter_one(sources: list[int], data: st.DataObject) -> None:
    """The ends of a prefix are the first ends, except for the one that the next turn decides: others are not sought."""
    shorter = sources[: data.draw(st.integers(0, len(sources)))]
    ends, all_ends = segment_ends(shorter, SIZES), segment_ends(sources, SIZES)
    assert [end for end in all_ends if end < len(shorter)] == [end for end in ends if end < len(shorter)]
    assert set(ends) <= set(all_ends)
    before = data.draw(st.lists(st.integers(0, 200), max_size=9))
    earlier = KnownSegments([*shorter, *before], [*segment_ends([*shorter, *before], SIZES)])
    known = earlier.beginning(len(shorter))
    assert (known.sources_tokens, segment_ends(sources, SIZES, (), known.ends)) == (shorter, all_ends)


@given(st.integers(0, 120), st.integers(1, 20))
def test_segments_are_grouped_when_there_are_too_many(count: int, most: int) -> None:
    """The groups cover all segments in order, are never too many, and seldom new."""
    groups = group_segments(count, most)
    assert [number for group in groups for number in group] == list(range(count))
    assert len(groups) <= most
    summaries = {group for at in range(count + 1) for group in group_segments(at, most)}
    assert len(summaries) <= 2 * count


def test_a_group_stays_until_the_next_grouping() -> None:
    """With four at most, the fifth makes a group of the first four, and others follow beside it."""
    sizes = [list(map(len, group_segments(count, 4))) for count in range(10)]
    assert sizes[:5] == [[1] * count for count in range(5)]
    assert sizes[5:] == [[4, 1], [4, 1, 1], [4, 1, 1, 1], [4, 4], [4, 4, 1]]
    assert [*map(len, group_segments(11, 4))] == [10, 1]


@pytest.mark.parametrize(("window", "sizes"), rows(TABLES, "windows"))
def test_windows_of_similar_size_have_equal_segments(window: int, sizes: list[int] | None) -> None:
    """They are powers of two."""
    room_tokens = int(split_window(window).input_tokens * 0.12)
    found = SegmentSizes.of(ContextSettings(), window, summaries_tokens=room_tokens)
    item_tokens = found.max_item_tokens % maxsize
    tokens = found.min_tokens, found.closing_tokens, found.max_tokens
    allowed = found.max_summaries, found.max_summary_tokens
    assert (found == NO_SEGMENTS) if sizes is None else ([*tokens, *allowed, item_tokens] == sizes)


@given(st.lists(st.integers(1, 3_000), min_size=1), st.sampled_from([8_000, 8_192, 12_000, 16_384, 32_768]))
def test_a_segment_of_a_small_window_is_worth_a_summary(turns: list[int], window: int) -> None:
    """Its summary is at most half as large."""
    ends = segment_ends(turns, SegmentSizes.of(ContextSettings(), window))
    sources = [sum(turns[start:end]) for start, end in zip((0, *ends), ends, strict=False)]
    assert all(max_summary_tokens(source) <= source / 2 for source in sources)


@pytest.mark.parametrize(("window", "turns", "source_tokens"), rows(TABLES, "small windows"))
def test_a_summary_in_a_small_window_replaces_several_turns(
    window: int, turns: int, source_tokens: int
) -> None:
    """There an item counts for a twelfth of a segment at most."""
    said = [user("w " * 176), answer("w " * 896), answer("w " * 986)]
    chat = history(*[said] * 10, [user("now?")])
    conversation = build_conversation(chat.items, chat.turn_of_item)
    record = UserRecord(conversation.turns, TokenCounter(ContentCache(), split_words))
    index = SummaryIndex(conversation, record, SegmentSizes.of(ContextSettings(), window), {})
    first = index.missing(1)[0]
    assert (first.segment.turns, first.source_tokens) == (turns, source_tokens)


_SAID = [[user(f"Q{at}"), reasoning("A" * 4000), answer("word " * 40, f"m{at}")] for at in range(6)]
_ITEMS = history(*_SAID, [user("now?")])
CHAT = build_conversation(_ITEMS.items, _ITEMS.turn_of_item)
"""Turns of about forty tokens, and a last question."""
CHAINS = CHAT.chains
COUNTER = TokenCounter(ContentCache())


def segment(name: str) -> Segment:
    """The segment of turns like "0-4", of another branch at its end when its name begins with "other"."""
    first, end = map(int, name.removeprefix("other ").split("-"))
    return Segment(CHAINS[first], b"elsewhere" if "other" in name else CHAINS[end], end - first)


def summaries(*names: str) -> dict[Segment, Summary]:
    """Summaries that tell their segments."""
    return {segment(name): Summary(ModelSummary(name)) for name in names}


def index(*available: str, record_tokens: int = 0) -> SummaryIndex:
    """An index in which the named segments have summaries."""
    record = UserRecord(CHAT.turns, COUNTER)
    return SummaryIndex(CHAT, record, SIZES, summaries(*available), record_tokens=record_tokens)


@pytest.mark.parametrize(("available", "missing", "desired"), rows(TABLES, "missing"))
def test_segments_without_a_summary_are_named_by_their_chains(
    available: list[str], missing: list[str], desired: list[str]
) -> None:
    """A group is summarized as a whole from its turns, unless parts of it have summaries; these serve for it."""
    found = index(*available)
    assert [target.segment for target in found.missing(5)] == [*map(segment, missing)]
    assert [target.segment for target in found.desired(5)] == [*map(segment, desired)]
    assert all(len(target.turns) == target.segment.turns for target in found.missing(5))


def test_a_group_takes_less_room_than_its_parts() -> None:
    """Reasoning counts for nothing, the current turn is in no segment, and nothing takes no room."""
    parts = [f"{at}-{at + 1}" for at in range(5)]
    nothing, served, joined = index(), index(*parts), index(*parts, "0-4")
    assert (nothing.ends, nothing.count(2)) == ((1, 2, 3, 4, 5, 6), 2)
    assert served.tokens(5) > joined.tokens(5) > joined.tokens(0) == joined.max_tokens(0) == 0
    assert served.max_tokens(1) < served.max_tokens(3) == nothing.max_tokens(3)


def test_the_message_begins_with_what_the_user_wrote() -> None:
    """Of the turns that are replaced alone, within the room for it, whether or not they have a summary."""
    recorded = index(record_tokens=100)
    _, record = [part["text"] for part in recorded.entries(2)[0].item["content"]]  # type: ignore[typeddict-item]
    assert record.splitlines()[1:] == ["The user wrote, turn 1:", "> Q0", "The user wrote, turn 2:", "> Q1"]
    assert recorded.max_tokens(2) - index().max_tokens(2) == COUNTER.text(record)
    assert index().entries(2) == ()


def target(name: str) -> SummaryTarget:
    """A segment with its turns and the ends of those before."""
    first, end = map(int, name.split("-"))
    return SummaryTarget(segment(name), CHAT.turns[first:end], 0, first + 1, tuple(CHAINS[: first + 1]))


def told(found: Sequence[Summary]) -> Collection[str]:
    """The names of segments that have these summaries."""
    return [summary.by_model.summary_text for summary in found]


@pytest.mark.parametrize(("name", "available", "before"), rows(TABLES, "before"))
def test_earlier_summaries_are_found_by_the_ends_of_segments(
    name: str, available: list[str], before: list[str]
) -> None:
    """The largest one that ends there; where there is none, the next one before. A target knows these ends."""
    assert told(summaries_before(target(name), summaries(*available))) == before
    group, single = index().missing(5)
    assert (group.first_turn, group.chains_before) == (1, tuple(CHAINS[:1]))
    assert (single.first_turn, single.chains_before) == (5, tuple(CHAINS[:5]))


@pytest.mark.parametrize(("name", "available", "within"), rows(TABLES, "within"))
def test_summaries_of_the_parts_of_a_target_are_found(
    name: str, available: list[str], within: list[str]
) -> None:
    """Those that lie in it as a whole, in the order of the chat, none of which overlap; not its own."""
    assert told(summaries_within(target(name), summaries(*available))) == within


_ENTRY = st.builds(Entry, st.sampled_from(["Go.", "word " * 30, "数据" * 20]), st.integers(0, 9))
_WRITTEN = st.lists(_ENTRY, max_size=9, unique_by=lambda entry: (entry.text, entry.turn))


@settings(max_examples=25, deadline=None)
@given(histories(most_turns=6), _WRITTEN, st.sampled_from([0, 90, 1_000]), st.booleans())
def test_the_message_is_never_larger_than_what_decisions_count(
    chat: History,
    written: list[Entry],
    record_tokens: int,
    external: bool,  # noqa: FBT001 - drawn
) -> None:
    """However much the user wrote and whatever a model writes; and that does not depend on the summaries."""
    conversation = build_conversation(chat.items, chat.turn_of_item)
    conversation = replace(conversation, external_summaries=("They met.",) if external else ())
    counter, sizes = TokenCounter(ContentCache()), replace(SIZES, max_summaries=3)
    record = UserRecord(conversation.turns, counter)
    empty = SummaryIndex(conversation, record, sizes, {}, record_tokens=record_tokens)
    count = len(empty.ends)
    listed = tuple(written)
    by_model = ModelSummary("They met. " * 90, listed, listed, listed, listed, listed, listed, "To go. " * 30)
    summaries = {
        target.segment: complete_summary(
            by_model,
            target,
            count=counter.text,
            max_tokens=target.max_tokens,
        )
        for target in empty.missing(count)
    }
    full = SummaryIndex(conversation, record, sizes, summaries, record_tokens=record_tokens)
    assert full.missing(count) == ()
    assert full.tokens(count) <= full.max_tokens(count) == empty.max_tokens(count)
