"""Segments: where they end, which share a summary, and what the index says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    CHAIN_START,
    ContentCache,
    Conversation,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.responses.items import is_message
from open_webui_openrouter_pipe.summaries.completion import complete_summary
from open_webui_openrouter_pipe.summaries.prompt import SummaryAssignment
from open_webui_openrouter_pipe.summaries.segments import (
    NO_SEGMENTS,
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
from open_webui_openrouter_pipe.summaries.summary import (
    Entry,
    ModelSummary,
    Summary,
    max_summary_tokens,
    message_text,
)
from tests.support.chats import History, answer, histories, history, reasoning, user

SIZES = SegmentSizes(min_tokens=20, closing_tokens=40, max_tokens=80, max_turns=0, max_summaries=4)


@pytest.mark.parametrize(
    ("source_tokens", "compactions", "ends"),
    [
        ([1_000] * 8, [], ()),
        ([1_000] * 8, [8], (4,)),
        ([1_000] * 12, [8, 12], (4, 8)),
        ([1_000] * 9, [8, 9], (4, 7)),
        ([1_000] * 4, [4], (2,)),
        ([1_000] * 2, [2], ()),
        ([1_000] * 30, [11], ()),
        ([1_000] * 30, [15], (11,)),
        ([9_000] * 2, [2], ()),
    ],
    ids=[
        "no command",
        "the newest turns stay",
        "the second one goes on from the first",
        "a turn later",
        "a short chat keeps fewer",
        "too short",
        "a segment ends by itself among the newest",
        "after one that has ended",
        "a large turn is a segment by itself",
    ],
)
def test_a_command_ends_a_segment_early(
    source_tokens: list[int], compactions: list[int], ends: tuple[int, ...]
) -> None:
    """And never divides one that may have been summarized."""
    sizes = SegmentSizes(4_000, 9_000, 16_000, max_turns=0, max_summaries=4, kept_turns=4)
    assert early_ends(source_tokens, sizes, compactions) == ends
    natural = segment_ends(source_tokens, sizes)
    divided = segment_ends(source_tokens, sizes, ends)
    first = min(ends, default=len(source_tokens))
    assert set(ends) <= set(divided)
    assert [end for end in divided if end < first] == [end for end in natural if end < first]
    assert early_ends(source_tokens, NO_SEGMENTS, compactions) == ()


@pytest.mark.parametrize(
    ("source_tokens", "ends"),
    [
        ([], ()),
        ([39], ()),
        ([40], (1,)),
        ([10, 10, 10, 10, 39], (4,)),
        ([30, 60, 1], (1, 2)),
        ([10, 200], (2,)),
        ([100, 100], (1, 2)),
    ],
    ids=[
        "nothing",
        "too little",
        "one turn that is enough",
        "the rest stays open",
        "a large turn begins its own",
        "too little to stand alone",
        "turns that are larger than a segment",
    ],
)
def test_a_segment_ends_when_it_is_large_enough(source_tokens: list[int], ends: tuple[int, ...]) -> None:
    """At half of its maximum, or before a turn that would bring it over."""
    assert segment_ends(source_tokens, SIZES) == ends


def test_a_segment_also_ends_after_a_number_of_turns() -> None:
    """If the administrator wants summaries by turns, however small these are."""
    assert segment_ends([1] * 9, replace(SIZES, max_turns=4)) == (4, 8)


@given(st.lists(st.integers(0, 200), max_size=40), st.data())
def test_a_longer_chat_is_divided_like_a_shorter_one(sources: list[int], data: st.DataObject) -> None:
    """The ends of a prefix are the first ends, except for the one that the next turn decides."""
    shorter = sources[: data.draw(st.integers(0, len(sources)))]
    ends = segment_ends(shorter, SIZES)
    assert tuple(end for end in segment_ends(sources, SIZES) if end < len(shorter)) == tuple(
        end for end in ends if end < len(shorter)
    )
    assert set(ends) <= set(segment_ends(sources, SIZES))


@given(st.integers(0, 300), st.integers(2, 20))
def test_segments_are_grouped_when_there_are_too_many(count: int, most: int) -> None:
    """The groups cover all segments in order, are powers of four, and are few."""
    groups = group_segments(count, most)
    assert [number for group in groups for number in group] == list(range(count))
    assert {len(group) for group in groups} <= {1, 4, 16, 64, 256}
    assert len(groups) <= max(most, 3 * 4) + 1


def test_a_group_stays_until_the_next_grouping() -> None:
    """With four at most, the fifth makes a group of the first four, and others follow beside it."""
    sizes = [list(map(len, group_segments(count, 4))) for count in range(10)]
    assert sizes[:5] == [[1] * count for count in range(5)]
    assert sizes[5:] == [[4, 1], [4, 1, 1], [4, 1, 1, 1], [4, 4], [4, 4, 1]]


def test_windows_of_similar_size_have_equal_segments() -> None:
    """From 128,000 tokens on a segment has 8,192 to 32,768 tokens; smaller windows have smaller segments."""
    settings = ContextSettings()
    cuts = [SegmentSizes.of(settings, window) for window in (8_000, 16_384, 128_000, 1_000_000)]
    assert [size.max_tokens for size in cuts] == [2048, 4096, 32_768, 32_768]
    assert [size.closing_tokens for size in cuts] == [2000, 2048, 16_384, 16_384]
    assert [size.min_tokens for size in cuts] == [1000, 1024, 8192, 8192]
    assert [size.max_summaries for size in cuts] == [2, 3, 5, 40]


@given(st.lists(st.integers(1, 3_000), min_size=1), st.sampled_from([8_000, 8_192, 12_000, 16_384, 32_768]))
def test_a_segment_of_a_small_window_is_worth_a_summary(turns: list[int], window: int) -> None:
    """Its summary is at most half as large."""
    ends = segment_ends(turns, SegmentSizes.of(ContextSettings(), window))
    sources = [sum(turns[start:end]) for start, end in zip((0, *ends), ends, strict=False)]
    assert all(max_summary_tokens(source) <= source / 2 for source in sources)


@pytest.mark.parametrize(
    ("window", "turns", "source_tokens"), [(8_192, 4, 2_040), (16_384, 3, 2_586), (32_768, 2, 4_140)]
)
def test_a_summary_in_a_small_window_replaces_several_turns(
    window: int, turns: int, source_tokens: int
) -> None:
    """There an item counts for a twelfth of a segment at most; 2,070 tokens in three items make 510 or 862."""
    said = [user("w " * 176), answer("w " * 896), answer("w " * 986)]
    chat = history(*[said] * 10, [user("now?")])
    conversation = build_conversation(chat.items, chat.turn_of_item)
    counter = TokenCounter(ContentCache(), lambda text: range(len(text.split())))
    index = SummaryIndex(conversation, counter, SegmentSizes.of(ContextSettings(), window), {})
    first = index.missing(1)[0]
    assert (first.segment.turns, first.source_tokens) == (turns, source_tokens)


def test_a_tiny_window_has_no_segments() -> None:
    """A summary would be about as large as its source."""
    assert segment_ends([1000] * 20, SegmentSizes.of(ContextSettings(), 7_500)) == ()


def chat_of(turns: int) -> Conversation:
    """Turns of about forty tokens, and a last question."""
    said = [[user(f"Q{at}"), reasoning("A" * 4000), answer("word " * 40, f"m{at}")] for at in range(turns)]
    chat = history(*said, [user("now?")])
    return build_conversation(chat.items, chat.turn_of_item)


def index(chat: Conversation, *available: Segment) -> SummaryIndex:
    """An index in which the named segments have summaries."""
    summaries = {segment: Summary(ModelSummary(f"About {segment.turns} turns.")) for segment in available}
    return SummaryIndex(chat, TokenCounter(ContentCache()), SIZES, summaries)


def segment(chat: Conversation, first: int, end: int) -> Segment:
    """The segment of some turns."""
    return Segment(
        chat.turns[first - 1].chain if first else CHAIN_START, chat.turns[end - 1].chain, end - first
    )


def test_the_current_turn_is_not_in_a_segment() -> None:
    """Reasoning counts for nothing: the division does not depend on what a provider accepts again."""
    chat = chat_of(3)
    assert index(chat).ends == (1, 2, 3)
    assert index(chat).count(2) == 2


def test_missing_summaries_are_named_by_chain_digests() -> None:
    """Available ones are not asked for again."""
    chat = chat_of(3)
    partly = index(chat, segment(chat, 0, 1))
    assert [target.segment for target in partly.missing(3)] == [segment(chat, 1, 2), segment(chat, 2, 3)]
    assert partly.missing(1) == ()
    assert len(partly.entries(1)) == 1
    assert partly.tokens(1) > partly.tokens(0) == partly.max_tokens(0) == 0
    assert partly.max_tokens(1) < partly.max_tokens(3) == index(chat).max_tokens(3)


def text_of(index: SummaryIndex, count: int) -> str:
    """The text of the message for the first segments."""
    (entry,) = index.entries(count)
    assert is_message(entry.item)
    return message_text(entry.item)


def test_the_message_begins_with_what_the_user_wrote() -> None:
    """Of the turns that are replaced alone, within the room for it, whether or not they have a summary."""
    chat = chat_of(3)
    counter = TokenCounter(ContentCache())
    recorded = SummaryIndex(chat, counter, SIZES, {}, record_tokens=100)
    parts = [part["text"] for part in recorded.entries(2)[0].item["content"]]  # type: ignore[typeddict-item]
    assert parts[1].splitlines()[1:] == ["The user wrote, turn 1:", "> Q0", "The user wrote, turn 2:", "> Q1"]
    assert len(parts) == 2
    assert recorded.max_tokens(2) - index(chat).max_tokens(2) == counter.text(parts[1])
    assert index(chat).entries(2) == ()


def test_targets_know_their_position_in_the_chat() -> None:
    """The number of the first turn, and the ends of the segments before."""
    chat = chat_of(5)
    group, single = index(chat).missing(5)
    ends = (CHAIN_START, *(turn.chain for turn in chat.turns))
    assert (group.first_turn, group.chains_before) == (1, ends[:1])
    assert (single.first_turn, single.chains_before) == (5, ends[:5])


def test_earlier_summaries_are_found_by_the_ends_of_segments() -> None:
    """The largest one that ends there; where there is none, the next one before."""
    chat = chat_of(6)
    target = SummaryTarget(
        segment(chat, 5, 6), (), 0, 6, (CHAIN_START, *(turn.chain for turn in chat.turns[:5]))
    )
    found = {
        segment(chat, first, end): Summary(ModelSummary(f"{first}-{end}"))
        for first, end in [(0, 1), (1, 2), (0, 2), (2, 3), (4, 5), (5, 6)]
    }
    texts = [summary.by_model.summary_text for summary in summaries_before(target, found)]
    assert texts == ["0-2", "2-3", "4-5"]
    assert summaries_before(target, {}) == ()


def test_summaries_of_the_parts_of_a_target_are_found() -> None:
    """Those that lie in it as a whole, in the order of the chat; not its own."""
    chat = chat_of(6)
    target = SummaryTarget(segment(chat, 1, 4), tuple(chat.turns[1:4]), 0, 2)
    found = {
        segment(chat, first, end): Summary(ModelSummary(f"{first}-{end}"))
        for first, end in [(0, 1), (3, 4), (1, 2), (1, 4), (3, 5), (0, 2), (2, 3), (1, 3)]
    }
    texts = [summary.by_model.summary_text for summary in summaries_within(target, found)]
    assert texts == ["1-2", "1-3", "2-3", "3-4"]


def test_a_group_is_summarized_from_the_original_turns() -> None:
    """At once if nothing is available; summaries of its parts serve until the group has one."""
    chat = chat_of(5)
    nothing = index(chat)
    assert [target.segment.turns for target in nothing.missing(5)] == [4, 1]
    assert [len(target.turns) for target in nothing.missing(5)] == [4, 1]
    parts = [segment(chat, at, at + 1) for at in range(5)]
    served = index(chat, *parts)
    assert served.missing(5) == ()
    assert [target.segment for target in served.desired(5)] == [segment(chat, 0, 4)]
    joined = index(chat, *parts, segment(chat, 0, 4))
    assert (joined.missing(5), joined.desired(5)) == ((), ())
    assert joined.tokens(5) < served.tokens(5)


def test_only_the_missing_parts_of_a_group_are_summarized() -> None:
    """Available summaries of the other parts are used."""
    chat = chat_of(5)
    partly = index(chat, segment(chat, 0, 1))
    assert [target.segment for target in partly.missing(5)] == [
        segment(chat, at, at + 1) for at in range(1, 5)
    ]


def test_a_summary_of_another_branch_is_not_used() -> None:
    """An edit changes the chain from its turn on."""
    chat, other = chat_of(3), chat_of(2)
    elsewhere = Segment(segment(other, 0, 1).start, b"elsewhere", 1)
    assert [target.segment.turns for target in index(chat, elsewhere).missing(1)] == [1]


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
    empty = SummaryIndex(conversation, counter, sizes, {}, record_tokens=record_tokens)
    count = len(empty.ends)
    listed = tuple(written)
    by_model = ModelSummary("They met. " * 90, listed, listed, listed, listed, listed, listed, "To go. " * 30)
    summaries = {
        target.segment: complete_summary(
            by_model,
            SummaryAssignment(target.turns, target.first_turn),
            count=counter.text,
            max_tokens=target.max_tokens,
        )
        for target in empty.missing(count)
    }
    full = SummaryIndex(conversation, counter, sizes, summaries, record_tokens=record_tokens)
    assert full.missing(count) == ()
    assert full.tokens(count) <= full.max_tokens(count) == empty.max_tokens(count)
