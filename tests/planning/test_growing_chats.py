"""What a request of a growing chat costs: what is new, not what is old. Instructions are counted, no clock is read."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import build_conversation, is_model_input
from open_webui_openrouter_pipe.conversation.slash import ChatCommand, Compact
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.planner import (
    AvailableSummaries,
    ModelTerms,
    may_be_shortened,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL
from tests.planning.language import new_memory, words
from tests.support.chats import (
    SYSTEM,
    History,
    Memory,
    answer,
    call,
    history,
    output,
    reasoning,
    summary_of,
    user,
)
from tests.support.profiling import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.responses.items import Item

MODEL = ModelTerms("vendor/model", 8_000, prices=CachePrices(0.1, 1.25))
WHOLE = ContextSettings(recall_tool=True)
SETTINGS = {
    "summaries": WHOLE,
    "thrifty": replace(WHOLE, context_aim="thrifty"),
    "recall": replace(WHOLE, recall=True),
    "no summaries": replace(WHOLE, context_strategy="prune"),
    "clipped": replace(WHOLE, context_strategy="clip"),
}
SHORT, LONG = 40, 160
"""Turns; the shorter chat is larger than the window, too."""
REQUESTS = 8
"""So many are counted together: some change the prefix, most do not."""
MAX_WARM_GROWTH = 2.0
"""By far less than the chat."""
MAX_COLD_GROWTH = 1.3 * LONG / SHORT
"""The first turns, which all fit, cost less than others."""


def turn(number: int, *, rounds: int = 0) -> Sequence[Item]:
    """A question of forty tokens about what another turn said, calls of a tool, and an answer."""
    items: list[Item] = [user(f"What is the value of item{number // 2}? {words(33)}")]
    for at in range(rounds):
        name = f"c{number}.{at}"
        items += [reasoning(), call(name), output(name, words(200, f"row{name}"))]
    return [*items, answer(words(200, f"item{number} has the value {number}."), f"m{number}")]


def large_round(at: int) -> Sequence[Item]:
    """What a model says before a call, and a result of which few fit into the window."""
    return (
        answer(words(400, f"Let me look at {at}.")),
        call(f"l{at}"),
        output(f"l{at}", words(1_500, f"page{at}")),
    )


def chat(turns: int, *, rounds: int = 0) -> History:
    """So many turns, and the question of the next one."""
    return history(*(turn(at, rounds=rounds) for at in range(turns)), turn(turns)[:1])


def planned(
    asked: History,
    settings: ContextSettings,
    memory: Memory,
    commands: tuple[ChatCommand, ...] = (),
    *,
    model: ModelTerms = MODEL,
    work: list[int] | None = None,
) -> Plan:
    """The plan of a request, with the instructions that it took; the summaries that it wants are written behind it."""
    built = build_conversation(asked.items, asked.turn_of_item, instructions=[SYSTEM])
    conversation = replace(built, tools=(RECALL_TOOL,), commands=commands)
    counter = TokenCounter(memory.counts, memory.encode)
    may_need = partial(may_be_shortened, conversation, settings, model=model)
    fit = partial(plan, conversation, settings, model=model)
    with nullcontext() if work is None else counted(work):
        may_need(counter=counter, caches=memory.caches)
        available = AvailableSummaries(dict(memory.summaries), "request")
        fitted = fit(counter=counter, caches=memory.caches, summaries=available)
    wanted = (*fitted.required_summaries, *fitted.prefetch_summaries)
    memory.summaries.update({target.segment: summary_of(target) for target in wanted})
    return fitted


def forgotten(memory: Memory) -> Memory:
    """A worker that has never seen the chat; its summaries stand in the database."""
    return replace(new_memory(), summaries=dict(memory.summaries))


@pytest.mark.parametrize("rounds", [0, 1], ids=["plain", "tools"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_request_costs_what_is_new(settings: ContextSettings, rounds: int) -> None:
    """On a worker that knows the chat; on one that does not, it costs what the chat is long."""
    cold, warm = list[int](), list[int]()
    for turns in (SHORT, LONG):
        seen, later = new_memory(), list[int]()
        planned(chat(turns, rounds=rounds), settings, seen)
        memory = forgotten(seen)
        planned(chat(turns, rounds=rounds), settings, memory, work=cold)
        for at in range(1, REQUESTS + 1):
            planned(chat(turns + at, rounds=rounds), settings, memory, work=later)
        warm.append(sum(later))
    assert warm[1] <= MAX_WARM_GROWTH * warm[0], (warm, cold)
    assert cold[1] <= MAX_COLD_GROWTH * cold[0], (warm, cold)


def test_a_round_costs_what_is_new() -> None:
    """Also in the chat's first turn: a worker that knows the rounds before does not count them again."""
    memory, work = new_memory(), list[int]()
    for rounds in (LONG, LONG + 1):
        asked = history(turn(0, rounds=rounds)[:-1])
        planned(asked, WHOLE, memory, model=replace(MODEL, window_tokens=60_000), work=work)
    cold, warm = work
    assert warm < cold / 3


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_memory_moves_no_byte(settings: ContextSettings) -> None:
    """Not when a chat grows, has a message or its thinking changed, goes on from an earlier turn, or is compacted."""
    memory = new_memory()
    longer, branch = chat(70, rounds=1), chat(50, rounds=2)
    ends = [end for end, item in enumerate(longer.items, start=1) if is_model_input(item)]
    edited, thought = list(longer.items), list(longer.items)
    edited[40] = answer("Something else.")
    thought[-5] = reasoning("b3RoZXI=" * 400)
    looked_up = [user("Look it up."), *(item for at in range(6) for item in large_round(at))]
    commands = (ChatCommand(20, Compact("")), ChatCommand(60, Compact("")))
    seen: list[tuple[History, tuple[ChatCommand, ...]]] = [
        *((longer.upto(end), ()) for end in ends[::7]),
        (longer, ()),
        (History(tuple(thought), longer.turn_of_item), ()),
        (History(tuple(edited), longer.turn_of_item), ()),
        *((history(turn(0), looked_up[: 1 + 3 * rounds]), ()) for rounds in range(7)),
        (branch, ()),
        (longer, commands),
        (longer, commands[:1]),
        (longer, ()),
    ]
    for asked, given in seen:
        cold = planned(asked, settings, forgotten(memory), given)
        known = replace(memory, summaries=dict(memory.summaries))
        warm = planned(asked, settings, known, given)
        assert (warm.items, warm) == (cold.items, cold)
        memory.summaries.update(known.summaries)


@pytest.mark.parametrize("size", [1_500, 4_000])
def test_a_chat_that_ended_with_an_answer_goes_on_as_a_new_one(size: int) -> None:
    """An answer that was to be continued is no request of the longer chat: nothing is decided by it."""
    turns = [[*turn(at, rounds=1)[:-1], answer(words(size, str(at)), f"m{at}")] for at in range(4)]
    seen, model = new_memory(), replace(MODEL, window_tokens=16_000)
    planned(history(*turns), WHOLE, seen, model=model)
    asked = history(*turns, turn(4)[:1])
    assert planned(asked, WHOLE, seen, model=model) == planned(asked, WHOLE, new_memory(), model=model)
