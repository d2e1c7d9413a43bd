"""When old turns are replaced by summaries, how many, and what that does to the requests around it.

A segment is nine turns of 1,000 tokens, and its summary counts as 1,350: each one frees 7,650 tokens.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings, Strategy
from open_webui_openrouter_pipe.conversation.calibration import Calibration
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.summaries.segments import Segment
from tests.planning.exact import MODEL, UNCACHED, new_memory, talk, with_window
from tests.support.chats import SYSTEM, History, call, output, plan_with, summary_of, user

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


@pytest.mark.parametrize(
    ("settings", "turns", "summarized_turns"),
    [
        (ContextSettings(), 70, 54),
        (ContextSettings(summary_trigger_ratio=0.50), 50, 36),
        (ContextSettings(summary_trigger_ratio=0.80), 80, 54),
        (ContextSettings(summary_trigger_ratio=0.81), 81, 63),
        (ContextSettings(summary_trigger_ratio=0.99), 90, 63),
        (ContextSettings(protected_recent_turns=20), 70, 45),
        (ContextSettings(protected_recent_turns=60), 77, 18),
        (ContextSettings(summary_turn_trigger=12), 12, 9),
        (ContextSettings(context_strategy="prune"), 98, 0),
    ],
    ids=[
        "default",
        "earlier",
        "just enough for six segments",
        "just too much for six segments",
        "when pruning is due",
        "protected turns stay",
        "one segment alone frees too little",
        "every twelve turns",
        "another strategy",
    ],
)
def test_the_trigger_decides_when_and_the_low_water_mark_how_many(
    settings: ContextSettings, turns: int, summarized_turns: int
) -> None:
    """Nothing one turn earlier; then as many segments as bring the request down to 3/7 of the trigger."""
    before, at = requested(turns - 1, settings), requested(turns, settings)
    assert (before.required_summaries, before.summarized_turns) == ((), 0)
    assert at.summarized_turns == summarized_turns
    assert sum(target.segment.turns for target in at.required_summaries) == summarized_turns
    assert [each.reason for each in at.new_breaks] == (["summary"] if summarized_turns else [])


def test_calibration_does_not_move_the_decision() -> None:
    """A provider that counts more lowers the limit, but not the size at which a chat is summarized."""
    coarse = replace(MODEL, calibration=Calibration(1.15, 0.01, 5))
    plans = [
        plan_with(talk(turns), ContextSettings(), coarse, new_memory(), missing="request")
        for turns in (69, 70)
    ]
    assert [fitted.limit_tokens for fitted in plans] == [83_333, 83_333]
    assert [fitted.summarized_turns for fitted in plans] == [0, 54]


def test_summaries_stand_between_the_instructions_and_the_other_turns() -> None:
    """One message holds them all; what follows is as it was."""
    chat, whole = Chat(), talk(FIRST)
    sent = chat.ask(whole)
    assert sent.items[0] == SYSTEM
    summaries = json.dumps(sent.items[1])
    assert all(summary.by_model.summary_text in summaries for summary in chat.memory.summaries.values())
    assert sent.items[2:] == whole.items[2 * 54 :]
    assert [step.name for step in sent.steps if step.triggered] == ["summary"]
    assert (sent.tokens_without_new_summaries, sent.steps[1].tokens) == (70_100, 70_100)
    assert sent.tokens < 30_000


def test_a_long_chat_summarizes_each_segment_once() -> None:
    """Between summaries the prefix stays the same; of many segments, four neighbors share a summary."""
    chat = Chat()
    sent = [chat.ask(talk(turns, 4_000)) for turns in range(1, 60)]
    breaks = [
        (request.prefix_breaks[-1].turn, request.summarized_turns) for request in sent if request.new_breaks
    ]
    assert breaks == [(18, 15), (31, 27), (43, 39), (53, 48)]
    assert sorted(segment.turns for segment in chat.written) == [3] * 13 + [12] * 3
    assert len(set(chat.written)) == len(chat.written)
    items = [list(map(json.dumps, request.items)) for request in sent]
    for before, after, request in zip(items, items[1:], sent[1:], strict=False):
        assert request.new_breaks or after[: len(before)] == before


def test_an_edit_keeps_what_lies_before_it() -> None:
    """Of the summaries that the edited chat requires, those of the turns before the edit are available."""
    chat = Chat()
    chat.ask(talk(FIRST))
    items = list(talk(FIRST).items)
    items[2 * 30] = user("Another question 30?")
    edited = History(tuple(items), talk(FIRST).turn_of_item)
    required = plan_with(edited, chat.settings, MODEL, chat.memory, missing="request").required_summaries
    assert [target.segment.turns for target in required] == [9, 9, 9]


def test_a_larger_window_sends_the_originals_again() -> None:
    """And the smaller one finds its summaries again."""
    chat = Chat()
    sent = chat.ask(talk(FIRST))
    large = plan_with(talk(FIRST), chat.settings, with_window(400_000), chat.memory, missing="request")
    assert (large.summarized_turns, large.items) == (0, (SYSTEM, *talk(FIRST).items))
    assert chat.ask(talk(FIRST)).items == sent.items
    assert len(chat.written) == 6


def test_the_decision_is_the_same_before_and_after_the_summaries_are_written() -> None:
    """It follows from the turns, not from the size of what was written."""
    for turns in (FIRST, FIRST + 9):
        chat = Chat()
        first = plan_with(talk(turns), chat.settings, MODEL, chat.memory, missing="request")
        sent = chat.ask(talk(turns))
        assert first.required_summaries
        assert (first.summarized_turns, first.prefix_breaks) == (sent.summarized_turns, sent.prefix_breaks)


@pytest.mark.parametrize(("turns", "reasons"), [(FIRST, []), (99, []), (100, ["evict"])])
def test_where_missing_summaries_are_skipped_the_chat_is_shortened_otherwise(
    turns: int, reasons: list[str]
) -> None:
    """Nothing is required, and over the limit the oldest turns are dropped."""
    alone = plan_with(talk(turns), ContextSettings(), MODEL, new_memory(), missing="skip")
    assert (alone.required_summaries, alone.prefetch_summaries, alone.summarized_turns) == ((), (), 0)
    assert [each.reason for each in alone.prefix_breaks] == reasons


def test_of_missing_summaries_only_those_are_skipped() -> None:
    """Where the summaries of the oldest segments are available, these are used."""
    memory = new_memory()
    for target in requested(FIRST).required_summaries[:2]:
        memory.summaries[target.segment] = summary_of(target)
    fitted = plan_with(talk(FIRST), ContextSettings(), MODEL, memory, missing="skip")
    assert (fitted.summarized_turns, fitted.required_summaries) == (18, ())


@pytest.mark.parametrize(
    ("settings", "turns", "prefetched_turns"),
    [
        (ContextSettings(), 60, 54),
        (ContextSettings(summary_ahead_ratio=0.65), 65, 54),
        (ContextSettings(summary_ahead_ratio=0.50, summary_trigger_ratio=0.55), 50, 45),
    ],
)
def test_summaries_are_made_ahead_of_time(
    settings: ContextSettings, turns: int, prefetched_turns: int
) -> None:
    """From the ahead ratio on: those that will be required when the chat reaches the trigger."""
    before, ahead = requested(turns - 1, settings), requested(turns, settings)
    assert (before.prefetch_summaries, ahead.required_summaries) == ((), ())
    assert sum(target.segment.turns for target in ahead.prefetch_summaries) == prefetched_turns
    due = requested(round(settings.summary_trigger_ratio * 100), settings)
    assert due.required_summaries == ahead.prefetch_summaries


def test_nothing_is_made_ahead_of_time_at_a_ratio_of_one() -> None:
    """The setting's way to switch it off."""
    assert requested(69, ContextSettings(summary_ahead_ratio=1.0)).prefetch_summaries == ()


def test_prices_do_not_matter() -> None:
    """The size alone decides when turns are summarized."""
    plans = [
        plan_with(
            talk(turns), ContextSettings(), replace(MODEL, prices=UNCACHED), new_memory(), missing="request"
        )
        for turns in (69, 70)
    ]
    assert [fitted.summarized_turns for fitted in plans] == [0, 54]


def test_summaries_can_be_made_every_so_many_turns() -> None:
    """However small the chat is; the newest turns stay."""
    chat = Chat(ContextSettings(summary_turn_trigger=8))
    summarized = [chat.ask(talk(turns, 200)).summarized_turns for turns in range(7, 30)]
    assert summarized == [0] * 4 + [8] * 8 + [16] * 8 + [24] * 3


@pytest.mark.parametrize("strategy", ["prune", "clip", "refuse", "off"])
def test_other_strategies_do_not_summarize(strategy: Strategy) -> None:
    """Whatever the size."""
    fitted = requested(80, ContextSettings(context_strategy=strategy))
    assert (fitted.summarized_turns, fitted.required_summaries, fitted.prefetch_summaries) == (0, (), ())


def test_when_pruning_is_due_protected_turns_are_summarized_as_well() -> None:
    """Their number is halved until that frees something; within a turn, too."""
    settings = ContextSettings(protected_recent_turns=100, summary_trigger_ratio=0.80)
    assert requested(89, settings).summarized_turns == 0
    full = requested(90, settings)
    assert full.summarized_turns == 36
    turn = [*(item for at in range(9) for item in (call(f"{at}"), output(f"{at}", "word " * 2_300)))]
    grown = History(talk(70).items + tuple(turn), talk(70).turn_of_item + (70,) * len(turn))
    within = plan_with(grown, settings, MODEL, new_memory(), missing="request")
    assert [each.reason for each in within.prefix_breaks] == ["summary"]


def test_summaries_are_requested_after_what_was_sent_before() -> None:
    """The chat up to the current turn, as the request before sent it: the provider has it in its cache."""
    before, at = requested(FIRST - 1), requested(FIRST)
    assert at.cached_prefix is not None
    assert before.cached_prefix is None
    assert at.cached_prefix.items[: len(before.items)] == before.items
    assert at.cached_prefix.items == (SYSTEM, *talk(FIRST).items[:-1])
    assert at.cached_prefix.tokens == 70_009
