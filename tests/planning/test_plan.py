"""What the table of plans does not show: the items of a request, their order, and how it goes on from turn to turn."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow
from open_webui_openrouter_pipe.conversation.conversation import build_conversation, reference_of
from open_webui_openrouter_pipe.money.prefix import digests_of
from open_webui_openrouter_pipe.planning.plan import STEPS, CacheMarks, Plan, Step
from open_webui_openrouter_pipe.planning.planner import PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.items import is_function_call_output
from open_webui_openrouter_pipe.summaries.segments import Segment
from tests.planning.language import COUNTER, MODEL, Case, new_memory, planned, words
from tests.support.chats import SYSTEM, History, simulated_requests, summary_of, system, user


def test_a_chat_that_fits_is_sent_as_it_is() -> None:
    """Instructions, then every item in its order; nothing is announced."""
    chat, fits = Case.read("3 turns").chat, planned("3 turns")
    assert fits.items == (SYSTEM, *chat.items)
    assert fits.marks == CacheMarks(instructions=1, unchanged=1, frontier=1, completed=7, current=7)
    assert fits.steps == tuple(Step(name, fits.tokens, triggered=False) for name in STEPS)


def test_clipping_is_a_step_that_is_said() -> None:
    """Also the request that first leaves the oldest messages out says that it has done so, as evicting does."""
    assert [step.name for step in planned("12 turns context_strategy=clip").steps if step.triggered] == [
        "evict"
    ]


def test_an_empty_conversation_is_planned() -> None:
    """Nothing in, nothing out."""
    empty = build_conversation([], [])
    sent = plan(empty, Case.read("now").settings, model=MODEL, counter=COUNTER, caches=PlanCaches())
    assert sent.items == ()


def test_what_changes_stands_before_the_question() -> None:
    """What the instructions now read is never omitted, and comes first; retrieved text is cut, then goes."""
    note, sources = system(words(7)), system(words(30_000))
    chat = Case.read("2 turns").chat.items
    assert planned("2 turns sources 30000 note 7").items == (SYSTEM, *chat[:-1], note, sources, chat[-1])
    cut, alone = planned("2 turns sources 105000 note 7").items, planned("2 turns sources 105000").items
    assert cut == (*alone[:5], note, *alone[5:])
    line = "now ask 89000 {} context_strategy=prune"
    assert planned(line.format("sources 30000 note 7")).items == planned(line.format("note 7")).items


def test_summaries_stand_between_the_instructions_and_the_other_turns() -> None:
    """One message holds them all; what follows is as it was."""
    memory, case = new_memory(), Case.read("70 turns")
    sent = case.plan_written(memory)
    assert len(memory.summaries) == 2
    assert all(each.by_model.summary_text in json.dumps(sent.items[1]) for each in memory.summaries.values())
    assert (sent.items[0], *sent.items[2:]) == (SYSTEM, *case.chat.items[2 * 18 :])


def test_an_edit_keeps_what_lies_before_it() -> None:
    """Of the summaries that the edited chat requires, those of the turns before the edit are available."""
    memory, case = new_memory(), Case.read("70 turns")
    case.plan_written(memory)
    items = list(case.chat.items)
    items[2 * 15] = user("Another question 15?")
    edited = replace(case, chat=History(tuple(items), case.chat.turn_of_item))
    assert [target.segment.turns for target in edited.plan(memory).required_summaries] == [9]


def test_of_missing_summaries_only_those_are_skipped() -> None:
    """Where the summaries of the oldest segments are available, these are used."""
    memory = new_memory()
    for target in planned("70 turns tool_output_retention_turns=40").required_summaries[:2]:
        memory.summaries[target.segment] = summary_of(target)
    fitted = Case.read("70 turns tool_output_retention_turns=40 skip").plan(memory)
    assert (fitted.summarized_turns, fitted.required_summaries) == (18, ())


def test_summaries_are_requested_after_what_was_sent_before() -> None:
    """The chat up to the current turn, which the provider has in its cache, without what changes with the question."""
    chat = Case.read("70 turns").chat
    assert planned("69 turns").cached_prefix is None
    for line in ("70 turns", "70 turns sources 30 note 7"):
        before = planned(line).cached_prefix
        assert before is not None
        assert before.items == (SYSTEM, *chat.items[:-1])
        assert before.marks.has_volatile == ("note" in line)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("{} turns of 4000", range(1, 60)),
        ("{} turns context_aim=thrifty", range(1, 50)),
        ("{} turns context_aim=thrifty cache=1/1", range(1, 40)),
        ("{} turns context_strategy=prune recall_tool=True", range(90, 130, 3)),
        ("{} turns of 200 window=8000 writes=1600 builtin 6050 skip", range(1, 20)),
    ],
)
def test_a_longer_chat_goes_on_as_the_shorter_one_was_sent(line: str, counts: range) -> None:
    """Or says where its prefix changes; each summary was to be made ahead of time, and hardly any is made in vain."""
    memory = new_memory()
    ahead, plans = set[Segment](), list[Plan]()
    for count in counts:
        known = set(memory.summaries)
        plans.append(Case.read(line.format(count)).plan_written(memory))
        assert ahead >= memory.summaries.keys() - known
        ahead |= {target.segment for target in plans[-1].prefetch_summaries}
    assert len(ahead - memory.summaries.keys()) <= 2
    for before, after in pairwise(plans):
        assert after.prefix_breaks == (*before.prefix_breaks, *after.new_breaks) or counts.step > 1
        assert after.prefix_breaks[: len(before.prefix_breaks)] == before.prefix_breaks
        assert after.new_breaks or counts.step > 1 or after.items[: len(before.items)] == before.items


def test_reductions_are_equal_when_the_same_is_lacking() -> None:
    """However long the chat has become; the next batch is another reduction."""
    first, same, more = (planned(f"{turns} turns skip").reductions for turns in (100, 101, 150))
    assert first == same != more


# --- commands ---


def test_a_command_changes_nothing_that_was_decided_before_it() -> None:
    """Not even where the segment that it ends would have paid a turn earlier."""
    for turns in range(8, 34):
        before = planned(f"{turns - 1} turns context_aim=thrifty").prefix_breaks
        after = planned(f"{turns} turns context_aim=thrifty; {turns} /compact").prefix_breaks
        assert tuple(each for each in after if each.turn < turns) == before


def test_what_is_to_be_kept_reaches_the_writer_of_the_summary() -> None:
    """It is about the turns before the command alone."""
    required = planned("30 turns; 20 /compact the names; 30 /compact").required_summaries
    assert [(each.first_turn, each.keep) for each in required] == [
        (1, "the names"),
        (10, "the names"),
        (19, ""),
    ]


def test_the_guardian_of_the_prefix_finds_a_commanded_break_announced() -> None:
    """The numbers that it compares go by the plan's breaks."""
    lines = ("20 turns; 20 /compact", "21 turns; 20 /compact; 21 /restore 2-3")
    plans = [Case.read(line).plan_written() for line in lines]
    assert [len(digests_of({}, each, (), answer="").breaks) for each in plans] == [1, 2]


# --- the tool that looks things up ---

OFFERED = (
    "context_strategy=prune tool_output_pruning=every_turn tool_output_retention_turns=2 recall_tool=True"
)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (f"4 turns results 600 {OFFERED}", [True, True, True, False]),
        (f"now rounds 1 each 60000 {OFFERED}", [True]),
        (
            f"3 turns ask 1 rounds 1 each 900 say 1 + now ask 1 window=8000 writes=1600 {OFFERED}",
            [True, True, False],
        ),
        ("4 turns results 600 context_strategy=prune tool_output_pruning=every_turn", [False] * 4),
        ("now rounds 1 each 60000", [False]),
    ],
)
def test_what_stands_for_a_result_names_it(line: str, named: list[bool]) -> None:
    """Facts and cut texts bear the name of the whole item, where it can be asked for."""
    case = Case.read(line)
    whole = [
        each.digest
        for turn in case.conversation.turns
        for each in turn.entries
        if is_function_call_output(each.item)
    ]
    sent = [str(item["output"]) for item in case.plan().items if is_function_call_output(item)]
    names = [[reference_of(digest)] * is_named for digest, is_named in zip(whole, named, strict=True)]
    assert [[*dict.fromkeys(re.findall(r"#\d{6}", text))] for text in sent] == names


@pytest.mark.parametrize(
    ("tool", "said"), [("", "[13 earlier turns"), (" recall_tool=True", "[13 earlier turns (1 to 13)")]
)
def test_a_note_says_which_turns_it_is_for(tool: str, said: str) -> None:
    """Before all turns that are sent, with what the user wrote; by their numbers where they can be asked for."""
    note = str(planned(f"101 turns context_strategy=prune{tool}").items[1])
    assert f"{said} omitted to fit the model" in note
    assert "The user wrote, turn 1:\\n> Q0 word" in note


# --- prices, and how much work a plan is ---


@pytest.mark.parametrize(
    ("row", "read", "write"),
    [
        ((3e-6, 3e-7, 3.75e-6), 0.1, 1.25),
        ((3.0, 0.303, 3.762), 0.1, 1.25),
        ((2e-6, 5e-7, None), 0.25, 1.0),
        ((2e-6, None, None), 1.0, 1.0),
        ((0.0, 0.0, 0.0), 1.0, 1.0),
        ((None, None, None), 1.0, 1.0),
    ],
)
def test_prices_are_relative_to_plain_input(row: tuple[float | None, ...], read: float, write: float) -> None:
    """Rounded to hundredths of it; without a price for reads there is no cache."""
    assert CachePrices.of(*row) == CachePrices(read, write)


@pytest.mark.parametrize(
    ("read", "write", "coming_tokens", "pays"),
    [(1.0, 1.0, 10, True), (0.1, 1.25, 574_000, False), (0.1, 1.25, 576_000, True)],
)
def test_with_a_cheap_cache_a_change_waits(
    read: float,
    write: float,
    coming_tokens: int,
    pays: bool,  # noqa: FBT001 - the expected verdict
) -> None:
    """Until what would be read of it is what writing the rest anew costs more."""
    assert CachePrices(read, write).pays(coming_tokens, 1, 50_000, tokens=coming_tokens) is pays


def test_a_cheap_cache_is_shared_with_summary_requests() -> None:
    """Up to a quarter of the input price, reading the whole chat costs less than reading its old turns alone."""
    assert [CachePrices(read, 1.0).shares_cache for read in (0.1, 0.25, 0.26, 1.0)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("line", "simulations"),
    [
        ("10 turns", 0),
        ("69 turns", 1),
        ("70 turns", 1),
        ("100 turns context_strategy=prune", 1),
        ("10 turns + now ask 120000 context_strategy=refuse", 1),
        ("10 turns + now ask 120000 context_strategy=prune", 2),
        ("10 turns + now ask 120000", 3),
    ],
)
def test_a_plan_simulates_the_chat_at_most_once(line: str, simulations: int) -> None:
    """Not at all far below any trigger; again only where it does not fit, for each thing that may give way.

    That is here: summaries and the record.
    """
    case = Case.read(line)
    with simulated_requests() as found, suppress(ContextOverflow):
        plan(case.conversation, case.settings, model=MODEL, counter=COUNTER, caches=PlanCaches())
    assert len(found) == simulations * (case.chat.turn_of_item[-1] + 1)
