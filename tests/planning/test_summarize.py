"""When old turns are replaced by summaries, how many, and what that does to the requests around it.

A segment is nine turns of 1,000 tokens, its summary counts as 1,350, and the user's messages in it stay (91 tokens
each): each one frees about 6,800 tokens, less 1,350 once for how things stand and for messages that it refers to.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.slash import Aim
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import (
    AvailableSummaries,
    PlanCaches,
    may_need_summaries,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.summaries.segments import Segment
from tests.planning.exact import CACHED, MODEL, UNCACHED, new_memory, split_words, talk, with_window, words
from tests.support.chats import (
    SYSTEM,
    History,
    answer,
    history,
    plan_with,
    summary_of,
    system,
    user,
)

FIRST = 70
"""Turns at which a chat of 1,000 tokens a turn reaches 70 % of its budget."""


class Chat:
    """A chat whose summaries are made as soon as they are required."""

    def __init__(self, settings: ContextSettings | None = None) -> None:
        self.settings = settings or ContextSettings()
        self.memory = new_memory()
        self.written: list[Segment] = []

    def ask(self, chat: History) -> Plan:
        """The plan of a request, made with all the summaries that it requires."""
        first = plan_with(chat, self.settings, MODEL, self.memory, missing="request")
        for target in first.required_summaries:
            self.written.append(target.segment)
            self.memory.summaries[target.segment] = summary_of(target)
        if not first.required_summaries:
            return first
        return plan_with(chat, self.settings, MODEL, self.memory, missing="request")


def requested(turns: int, settings: ContextSettings | None = None) -> Plan:
    """The plan of a chat of so many turns that has no summaries yet."""
    return plan_with(talk(turns), settings or ContextSettings(), MODEL, new_memory(), missing="request")


def test_summaries_stand_between_the_instructions_and_the_other_turns() -> None:
    """One message holds them all; what follows is as it was."""
    chat, whole = Chat(), talk(FIRST)
    sent = chat.ask(whole)
    assert sent.items[0] == SYSTEM
    summaries = json.dumps(sent.items[1])
    assert all(summary.by_model.summary_text in summaries for summary in chat.memory.summaries.values())
    assert sent.items[2:] == whole.items[2 * 18 :]
    assert [step.name for step in sent.steps if step.triggered] == ["summary"]
    assert (sent.tokens_without_new_summaries, sent.steps[1].tokens) == (70_100, 70_100)
    assert sent.tokens < 60_000


def test_a_long_chat_summarizes_each_segment_once() -> None:
    """Between summaries the prefix stays the same; of many segments, four neighbors share a summary."""
    chat = Chat()
    sent = [chat.ask(talk(turns, 4_000)) for turns in range(1, 60)]
    breaks = [
        (request.prefix_breaks[-1].turn, request.summarized_turns) for request in sent if request.new_breaks
    ]
    assert breaks == [
        *[(18, 9), (25, 15), (30, 21), (35, 24), (38, 27), (42, 33)],
        *[(47, 36), (50, 39), (52, 42), (55, 45), (58, 48)],
    ]
    assert sorted(segment.turns for segment in chat.written) == [3] * 16 + [12] * 3
    assert len(set(chat.written)) == len(chat.written)
    items = [list(map(json.dumps, request.items)) for request in sent]
    for before, after, request in zip(items, items[1:], sent[1:], strict=False):
        assert request.new_breaks or after[: len(before)] == before


def test_an_edit_keeps_what_lies_before_it() -> None:
    """Of the summaries that the edited chat requires, those of the turns before the edit are available."""
    chat = Chat()
    chat.ask(talk(FIRST))
    items = list(talk(FIRST).items)
    items[2 * 15] = user("Another question 15?")
    edited = History(tuple(items), talk(FIRST).turn_of_item)
    required = plan_with(edited, chat.settings, MODEL, chat.memory, missing="request").required_summaries
    assert [target.segment.turns for target in required] == [9]


def test_a_larger_window_sends_the_originals_again() -> None:
    """And the smaller one finds its summaries again."""
    chat = Chat()
    sent = chat.ask(talk(FIRST))
    large = plan_with(talk(FIRST), chat.settings, with_window(400_000), chat.memory, missing="request")
    assert (large.summarized_turns, large.items) == (0, (SYSTEM, *talk(FIRST).items))
    assert chat.ask(talk(FIRST)).items == sent.items
    assert len(chat.written) == 2


@pytest.mark.parametrize(("aim", "least"), [("faithful", FIRST), ("thrifty", 21)])
def test_the_decision_is_the_same_before_and_after_the_summaries_are_written(aim: Aim, least: int) -> None:
    """It follows from the turns, not from the size of what was written."""
    for turns in (least, least + 18):
        chat = Chat(ContextSettings(context_aim=aim))
        first = plan_with(talk(turns), chat.settings, MODEL, chat.memory, missing="request")
        sent = chat.ask(talk(turns))
        assert first.required_summaries
        assert (first.summarized_turns, first.prefix_breaks) == (sent.summarized_turns, sent.prefix_breaks)


def test_of_missing_summaries_only_those_are_skipped() -> None:
    """Where the summaries of the oldest segments are available, these are used."""
    memory = new_memory()
    for target in requested(FIRST).required_summaries[:2]:
        memory.summaries[target.segment] = summary_of(target)
    fitted = plan_with(talk(FIRST), ContextSettings(), MODEL, memory, missing="skip")
    assert (fitted.summarized_turns, fitted.required_summaries) == (18, ())


@pytest.mark.parametrize(
    ("aim", "prices", "turns", "tokens"),
    [
        ("faithful", CACHED, 45, 4_000),
        ("thrifty", CACHED, 50, 1_000),
        ("thrifty", UNCACHED, 40, 1_000),
    ],
)
def test_what_a_chat_will_need_is_made_ahead_of_time(
    aim: Aim, prices: CachePrices, turns: int, tokens: int
) -> None:
    """Each summary was to be made after an answer before; hardly any is made that is not used."""
    settings, model, memory = ContextSettings(context_aim=aim), replace(MODEL, prices=prices), new_memory()
    required, prefetched = set[Segment](), set[Segment]()
    for turn in range(1, turns):
        chat = talk(turn, tokens)
        fitted = plan_with(chat, settings, model, memory, missing="request")
        needed = {target.segment: summary_of(target) for target in fitted.required_summaries}
        assert prefetched >= needed.keys()
        memory.summaries.update(needed)
        required |= needed.keys()
        if needed:
            fitted = plan_with(chat, settings, model, memory, missing="request")
        prefetched |= {target.segment for target in fitted.prefetch_summaries}
    assert len(required) >= 4
    assert len(prefetched - required) <= 2


def test_summaries_are_requested_after_what_was_sent_before() -> None:
    """The chat up to the current turn, as the request before sent it: the provider has it in its cache."""
    before, at = requested(FIRST - 1), requested(FIRST)
    assert at.cached_prefix is not None
    assert before.cached_prefix is None
    assert at.cached_prefix.items[: len(before.items)] == before.items
    assert at.cached_prefix.items == (SYSTEM, *talk(FIRST).items[:-1])
    assert at.cached_prefix.tokens == 70_009


def test_the_cached_prefix_has_nothing_that_changes_with_the_question() -> None:
    """Neither sources nor what the instructions now read: the request before had others, in another place."""
    chat = talk(FIRST)
    noted = build_conversation(
        chat.items, chat.turn_of_item, instructions=[SYSTEM], volatile=[system("noon"), system("source")]
    )
    at = plan(
        replace(noted, corrections=1),
        ContextSettings(),
        model=MODEL,
        counter=TokenCounter(ContentCache(), split_words),
        caches=PlanCaches(),
        summaries=AvailableSummaries({}, "request"),
    )
    assert at.cached_prefix is not None
    assert at.cached_prefix.items == (SYSTEM, *chat.items[:-1])


# --- thrifty ---

THRIFTY = ContextSettings(context_aim="thrifty")


def test_a_thrifty_chat_that_hardly_grows_waits_as_long_as_a_change_costs() -> None:
    """Only while segments are completed does it reckon with what waiting for the next one will cost."""
    large = [[user(words(96)), answer(words(900, f"A{at}"), f"m{at}")] for at in range(21)]
    small = [[user("More?"), answer("Yes.", f"n{at}")] for at in range(60)]
    model = replace(with_window(400_000), prices=CachePrices(0.1, 4.0))
    fitted = plan_with(history(*large, *small, [user("?")]), THRIFTY, model, new_memory(), missing="request")
    assert [each.turn for each in fitted.prefix_breaks] == [44]


def test_the_size_of_a_turn_does_not_change_what_was_decided_in_it() -> None:
    """A large turn ends the segment before it, but not before the turn is complete."""
    turns = [[user(f"Q{at}"), answer(words(tokens), f"m{at}")] for at, tokens in enumerate((7_000, 12_000))]
    settings, model = replace(THRIFTY, protected_recent_turns=1), replace(MODEL, prices=UNCACHED)
    fitted = plan_with(history(*turns, [user("Q2")]), settings, model, new_memory(), missing="request")
    assert [each.turn for each in fitted.prefix_breaks] == [2]


@pytest.mark.parametrize(("turns", "needed"), [(3, False), (12, True)])
def test_summaries_are_looked_up_for_a_thrifty_chat_that_has_a_segment(
    turns: int,
    needed: bool,  # noqa: FBT001 - the expected verdict
) -> None:
    """However far it is from the trigger."""
    conversation = build_conversation(talk(turns).items, talk(turns).turn_of_item)
    counter = TokenCounter(ContentCache(), split_words)
    assert may_need_summaries(conversation, THRIFTY, model=MODEL, counter=counter) is needed
    assert not may_need_summaries(conversation, ContextSettings(), model=MODEL, counter=counter)
