"""When old turns are replaced by summaries, how many, and what that does to the requests around it.

A segment is nine turns of 1,000 tokens, its summary counts as 1,350, and the user's messages in it stay (91 tokens
each): each one frees about 6,800 tokens, less 1,350 once for how things stand and for messages that it refers to.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextSettings, Strategy
from open_webui_openrouter_pipe.conversation.commands import Aim
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
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
    call,
    history,
    output,
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
    return requested_of(talk(turns), settings or ContextSettings())


def requested_of(chat: History, settings: ContextSettings) -> Plan:
    """The same for any chat."""
    return plan_with(chat, settings, MODEL, new_memory(), missing="request")


def agent_talk(turns: int, output_tokens: int = 1_500) -> History:
    """Turns of 2,500 tokens, of which so many are an output."""
    asked = [
        [
            user(words(96)),
            call(f"c{at}"),
            output(f"c{at}", words(output_tokens - 10, f"R{at}")),
            answer(words(2_400 - output_tokens, f"A{at}")),
        ]
        for at in range(turns)
    ]
    return history(*asked, talk(0).items)


@pytest.mark.parametrize(
    ("settings", "turns", "summarized_turns"),
    [
        (ContextSettings(), 70, 18),
        (ContextSettings(summary_trigger_ratio=0.50), 50, 18),
        (ContextSettings(summary_trigger_ratio=0.80), 80, 18),
        (ContextSettings(tool_output_retention_turns=5), 70, 9),
        (ContextSettings(tool_output_retention_turns=6), 70, 18),
        (ContextSettings(tool_output_retention_turns=40), 70, 27),
        (ContextSettings(summary_trigger_ratio=0.99), 90, 9),
        (ContextSettings(protected_recent_turns=60), 70, 9),
        (ContextSettings(summary_turn_trigger=12), 12, 9),
        (ContextSettings(context_strategy="prune"), 98, 0),
        (ContextSettings(context_aim="thrifty"), 12, 9),
    ],
    ids=[
        "default",
        "earlier",
        "later",
        "room for five turns",
        "room for six turns",
        "retained turns stay",
        "when pruning is due",
        "protected turns stay",
        "every twelve turns",
        "another strategy",
        "thrifty",
    ],
)
def test_the_trigger_decides_when_and_the_growth_of_the_chat_how_many(
    settings: ContextSettings, turns: int, summarized_turns: int
) -> None:
    """Nothing one turn earlier; then as many segments as make room for as many turns as keep their outputs."""
    before, at = requested(turns - 1, settings), requested(turns, settings)
    assert (before.required_summaries, before.summarized_turns) == ((), 0)
    assert at.summarized_turns == summarized_turns
    assert sum(target.segment.turns for target in at.required_summaries) == summarized_turns
    assert [each.reason for each in at.new_breaks] == (["summary"] if summarized_turns else [])


@pytest.mark.parametrize(("retained", "summarized_turns"), [(7, 10), (8, 0)])
def test_a_summary_that_would_not_last_a_turn_waits(retained: int, summarized_turns: int) -> None:
    """Nine turns of 1,000 tokens and seven of 9,000: the first segment alone frees less than one turn brings."""
    small, large = talk(9).items[:-1], talk(7, 9_000).items
    chat = History((*small, *large), (*talk(9).turn_of_item[:-1], *(9 + at for at in talk(7).turn_of_item)))
    settings = ContextSettings(tool_output_retention_turns=retained)
    fitted = plan_with(chat, settings, MODEL, new_memory(), missing="request")
    assert fitted.summarized_turns == summarized_turns


@pytest.mark.parametrize(
    ("retained", "turns", "output_tokens", "reasons"),
    [
        (4, 28, 1_500, ["retention"]),
        (4, 29, 1_000, ["retention"]),
        (12, 31, 1_500, []),
        (12, 32, 1_500, ["retention", "summary"]),
    ],
)
def test_where_facts_make_enough_room_nothing_is_summarized(
    retained: int, turns: int, output_tokens: int, reasons: list[str]
) -> None:
    """Old outputs become facts first, once that pays; turns are summarized then, when that leaves too little room."""
    settings = ContextSettings(tool_output_retention_turns=retained)
    fitted = requested_of(agent_talk(turns, output_tokens), settings)
    assert [each.reason for each in fitted.new_breaks] == reasons


def test_summaries_do_not_wait_for_facts_that_never_come() -> None:
    """Where outputs stay as they are, the trigger alone decides."""
    settings = ContextSettings(tool_output_retention_turns=4, tool_output_pruning="off")
    fitted = requested_of(agent_talk(28), settings)
    assert [(each.turn, each.reason) for each in fitted.prefix_breaks] == [(28, "summary")]


def test_a_turn_that_grows_beyond_the_trigger_is_not_summarized_before_the_next() -> None:
    """What it has sent stays as it was, and is found in the provider's cache, until pruning is due."""
    begun, result = talk(FIRST - 1), [call("c"), output("c", words(3_000, "R"))]
    grown = (*begun.items, *result)
    later = (*grown, answer("Done."), user("And now?"))
    turns = [*begun.turn_of_item, *[FIRST - 1] * 3, FIRST]
    within = requested_of(History(grown, tuple(turns[: len(grown)])), ContextSettings())
    assert (within.required_summaries, within.new_breaks) == ((), ())
    assert within.tokens > 0.7 * within.limit_tokens
    assert requested_of(History(later, tuple(turns)), ContextSettings()).summarized_turns > 0


def test_calibration_does_not_move_the_decision() -> None:
    """A provider that counts more lowers the limit, but not the size at which a chat is summarized."""
    coarse = replace(MODEL, calibration=Calibration(ratio=1.2, bills=5))
    plans = [
        plan_with(talk(turns), ContextSettings(), coarse, new_memory(), missing="request")
        for turns in (69, 70)
    ]
    assert [fitted.limit_tokens for fitted in plans] == [83_333, 83_333]
    assert [fitted.summarized_turns for fitted in plans] == [0, 18]


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
        (ContextSettings(), 60, 18),
        (ContextSettings(summary_ahead_ratio=0.65), 65, 18),
        (ContextSettings(summary_ahead_ratio=0.50, summary_trigger_ratio=0.55), 50, 18),
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
    assert due.required_summaries[: len(ahead.prefetch_summaries)] == ahead.prefetch_summaries


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


@pytest.mark.parametrize(
    ("retained", "turns", "prefetched_turns"), [(4, 27, 0), (12, 27, 0), (12, 30, 0), (12, 31, 20)]
)
def test_nothing_is_made_ahead_of_time_where_facts_will_do(
    retained: int, turns: int, prefetched_turns: int
) -> None:
    """One turn before old outputs become facts, and while these wait."""
    settings = ContextSettings(tool_output_retention_turns=retained)
    ahead = requested_of(agent_talk(turns), settings).prefetch_summaries
    assert sum(target.segment.turns for target in ahead) == prefetched_turns


@pytest.mark.parametrize(("aim", "turns"), [("faithful", 1), ("thrifty", 6)])
def test_when_protected_turns_must_be_summarized_a_thrifty_chat_makes_room_for_a_turn(
    aim: Aim, turns: int
) -> None:
    """Ten turns of 9,000 tokens: one summary frees less than a turn. It is made ahead of time, too."""
    settings = ContextSettings(context_aim=aim, protected_recent_turns=10)
    before = requested_of(talk(9, 9_000), settings)
    full = requested_of(talk(10, 9_000), settings)
    assert (before.summarized_turns, full.summarized_turns) == (0, turns)
    assert before.prefetch_summaries == full.required_summaries


def test_nothing_is_made_ahead_of_time_at_a_ratio_of_one() -> None:
    """The setting's way to switch it off."""
    assert requested(69, ContextSettings(summary_ahead_ratio=1.0)).prefetch_summaries == ()


def test_prices_do_not_matter_to_a_faithful_chat() -> None:
    """Its size alone decides when turns are summarized."""
    plans = [
        plan_with(
            talk(turns), ContextSettings(), replace(MODEL, prices=UNCACHED), new_memory(), missing="request"
        )
        for turns in (69, 70)
    ]
    assert [fitted.summarized_turns for fitted in plans] == [0, 18]


def test_summaries_can_be_made_every_so_many_turns() -> None:
    """However small the chat is; the newest turns stay."""
    chat = Chat(ContextSettings(summary_turn_trigger=8))
    summarized = [chat.ask(talk(turns, 400)).summarized_turns for turns in range(7, 30)]
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


def summary_turns(
    turns: int, prices: CachePrices, *, window_tokens: int = 110_000, tokens: int = 1_000
) -> list[int]:
    """The turns at which a thrifty chat is summarized."""
    model = replace(with_window(window_tokens), prices=prices)
    fitted = plan_with(talk(turns, tokens), THRIFTY, model, new_memory(), missing="request")
    return [each.turn for each in fitted.prefix_breaks]


@pytest.mark.parametrize(
    ("prices", "turns"),
    [
        (CachePrices(0.1, 2.0), [21, 39, 66]),
        (CachePrices(0.1, 1.25), [12, 30, 48, 66]),
        (CachePrices(0.1, 1.0), [12, 21, 39, 57]),
        (CachePrices(0.25, 1.0), [12, 21, 30, 39, 48, 57, 66]),
        (CachePrices(), [12, 21, 30, 39, 48, 57, 66]),
    ],
    ids=["dear writes", "cheap reads", "cheaper writes", "dearer reads", "no cache"],
)
def test_prices_decide_when_a_thrifty_chat_is_summarized(prices: CachePrices, turns: list[int]) -> None:
    """The cheaper it is to read old turns again, and the dearer to rewrite the rest, the longer they stay.

    Nine turns make a segment, of which the first can be summarized in turn 12; each nine turns bring another one.
    """
    assert summary_turns(69, prices) == turns


def test_a_thrifty_chat_that_hardly_grows_waits_as_long_as_a_change_costs() -> None:
    """Only while segments are completed does it reckon with what waiting for the next one will cost."""
    large = [[user(words(96)), answer(words(900, f"A{at}"), f"m{at}")] for at in range(21)]
    small = [[user("More?"), answer("Yes.", f"n{at}")] for at in range(60)]
    model = replace(with_window(400_000), prices=CachePrices(0.1, 4.0))
    fitted = plan_with(history(*large, *small, [user("?")]), THRIFTY, model, new_memory(), missing="request")
    assert [each.turn for each in fitted.prefix_breaks] == [44]


def test_a_thrifty_chat_is_as_small_in_a_large_window() -> None:
    """The window does not matter once segments are of full size."""
    breaks = [summary_turns(90, CACHED, window_tokens=tokens) for tokens in (128_000, 200_000, 1_000_000)]
    assert breaks[0] == breaks[1] == breaks[2] == [20, 37, 54, 71, 88]


def test_summaries_of_a_thrifty_chat_stay_few_in_a_large_window() -> None:
    """They may stand side by side as in a window of 128,000 tokens: they are carried with every request, too."""
    chats = [Chat(THRIFTY), Chat(THRIFTY)]
    plans = [
        plan_with(talk(240), THRIFTY, with_window(tokens), chat.memory, missing="request")
        for chat, tokens in zip(chats, (128_000, 2_000_000), strict=True)
    ]
    assert [fitted.tokens for fitted in plans] == [plans[0].tokens] * 2


def test_protected_turns_of_a_thrifty_chat_are_never_summarized() -> None:
    """Everything before them may be."""
    for turns in range(1, 60):
        fitted = requested(turns, THRIFTY)
        assert fitted.summarized_turns <= max(0, turns + 1 - THRIFTY.protected_turns)
    assert requested(12, THRIFTY).summarized_turns == 9 == 12 + 1 - THRIFTY.protected_turns


def test_the_size_of_a_turn_does_not_change_what_was_decided_in_it() -> None:
    """A large turn ends the segment before it, but not before the turn is complete."""
    turns = [[user(f"Q{at}"), answer(words(tokens), f"m{at}")] for at, tokens in enumerate((7_000, 12_000))]
    settings, model = replace(THRIFTY, protected_recent_turns=1), replace(MODEL, prices=UNCACHED)
    fitted = plan_with(history(*turns, [user("Q2")]), settings, model, new_memory(), missing="request")
    assert [each.turn for each in fitted.prefix_breaks] == [2]


def test_a_thrifty_chat_is_summarized_before_it_comes_to_the_trigger() -> None:
    """Where reading old turns again costs nearly nothing: when the next segment would bring it there."""
    model = replace(MODEL, prices=CachePrices(0.001, 1.25))
    plans = [plan_with(talk(turns), THRIFTY, model, new_memory(), missing="request") for turns in (65, 66)]
    assert [fitted.summarized_turns for fitted in plans] == [0, 63]


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
