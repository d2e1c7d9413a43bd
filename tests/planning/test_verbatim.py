"""How much of a request completed turns hold word for word, and which tools give way to them."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings, Strategy
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, build_conversation
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import AvailableSummaries, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.recall.search import item_text
from open_webui_openrouter_pipe.responses.items import Item
from tests.planning.test_own_text import longest
from tests.support.chats import SYSTEM, Memory, answer, call, history, output, plan_with, user
from tests.support.long_chats import words

TURNS = 40
COUNTER = TokenCounter(ContentCache())
WINDOWS_TOKENS = [4_096, 8_192, 16_384, 131_072]


def turn_items(turn: int, count: int) -> tuple[Item, ...]:
    """A turn of sizes that differ; every fifth calls a tool."""
    said = (user(words(count // 8 + turn % 4 * count // 8, turn)),)
    called = (call(f"c{turn}"), output(f"c{turn}", words(count, turn + 1)))
    return (*said, *(called if turn % 5 == 4 else ()), answer(words(count, turn + 2), f"m{turn}"))


def tokens(*items: Item) -> int:
    """The size of some items."""
    return sum(COUNTER.item(item).tokens for item in items)


@pytest.mark.parametrize("strategy", ["summarize", "prune"])
@pytest.mark.parametrize("turns_in_a_window", [6, 24])
@pytest.mark.parametrize("window_tokens", WINDOWS_TOKENS)
def test_the_newest_turns_hold_their_share(
    window_tokens: int, turns_in_a_window: int, strategy: Strategy
) -> None:
    """At every request of a chat that grows, of what the budget leaves beside the instructions and the open turn.

    Two fifths, in windows below 10,000 tokens a third, or all there are. The last completed turn is always whole.
    """
    memory, policy = Memory(), ContextSettings(context_strategy=strategy)
    model = ModelTerms("vendor/model", window_tokens)
    turns = [turn_items(at, window_tokens // turns_in_a_window // 2) for at in range(TURNS)]
    for number in range(1, TURNS):
        for end in range(1, len(turns[number]), 2):
            chat, current = history(*turns[:number], turns[number][:end]), turns[number][:end]
            first = plan_with(chat, policy, model, memory, missing="request")
            memory.summaries.update({each.segment: longest(each) for each in first.required_summaries})
            sent = plan_with(chat, policy, model, memory, missing="request")
            lines = {json.dumps(item) for item in sent.items}
            whole = 0
            while whole < number and all(json.dumps(item) in lines for item in turns[number - whole - 1]):
                whole += 1
            room_tokens = sent.budget.input_tokens - tokens(SYSTEM, *current)
            held_tokens = tokens(*(item for turn in turns[number - whole : number] for item in turn))
            share = 1 / 3 if window_tokens < 10_000 else 0.4
            assert whole == number or held_tokens >= share * room_tokens
            assert whole


@pytest.mark.parametrize("strategy", ["summarize", "prune"])
@pytest.mark.parametrize("window_tokens", WINDOWS_TOKENS)
@pytest.mark.parametrize(("share", "left"), [(0.6, 1.0), (0.75, 1.0), (0.9, 1.0), (1.2, 0.35), (3.0, 0.14)])
def test_the_last_completed_turn_stays_while_it_fits(
    window_tokens: int, share: float, left: float, strategy: Strategy
) -> None:
    """Of so large a share of the room, whole or shortened in its middle: the summaries give way before it does."""
    memory, policy = Memory(), ContextSettings(context_strategy=strategy, recall=True)
    model = ModelTerms("vendor/model", window_tokens)
    asked, turns = (user("And?"),), [turn_items(at, window_tokens // 24) for at in range(30)]
    room_tokens = plan_with(
        history(asked), policy, model, memory, missing="skip"
    ).budget.input_tokens - tokens(SYSTEM, *asked)
    said = " ".join(f"w{at}" for at in range(window_tokens * 3))
    longest_said = bisect_left(
        range(len(said)), share * room_tokens, key=lambda end: COUNTER.text(said[:end])
    )
    last = (user("Write."), answer(said[: longest_said - window_tokens // 40], "long"))
    for chat in (history(*turns, asked), history(*turns, last, asked)):
        first = plan_with(chat, policy, model, memory, missing="request")
        memory.summaries.update({each.segment: longest(each) for each in first.required_summaries})
    sent = plan_with(chat, policy, model, memory, missing="request")
    (held,) = [item for item in sent.items if item.get("id") == "long"]
    assert (held == last[1]) == (left == 1.0)
    assert tokens(held) >= left * tokens(last[1]) * 0.9
    text, whole = item_text(held), item_text(last[1])
    assert whole.startswith(text[:40])
    assert whole.endswith(text[-40:])


TOOLS = tuple({"type": "function", "name": f"tool_{at}", "description": words(90, at)} for at in range(30))
NAMES = tuple(str(tool["name"]) for tool in TOOLS)


def test_tools_that_nobody_called_give_way_in_their_order() -> None:
    """Where the prefix changes anyway; one that the chat has called stays, and so does what remains until a break."""
    model, caches = ModelTerms("vendor/model", 16_384), PlanCaches()
    ask = partial(plan, settings=ContextSettings(), model=model, counter=COUNTER, caches=caches)
    items: list[Item] = []
    turn_of_item: list[int] = []
    plans: list[Plan] = []
    for turn in range(40):
        for length, item in enumerate(turn_items(turn, 150)):
            called = {**item, "name": "tool_1"} if item["type"] == "function_call" else item
            items.append(called)  # type: ignore[arg-type]
            turn_of_item.append(turn)
            if length == 0 or item["type"] == "function_call_output":
                built = build_conversation(items, turn_of_item, instructions=[SYSTEM])
                conversation = replace(built, tools=TOOLS, optional_tools=NAMES)
                plans.append(ask(conversation, summaries=AvailableSummaries()))
    omitted = [each.omitted_tools for each in plans]
    assert omitted[0] == frozenset() != omitted[-1]
    for before, after in pairwise(plans):
        assert after.new_breaks or after.omitted_tools == before.omitted_tools
    uncalled = [name for name in NAMES if name != "tool_1"]
    assert all(names == frozenset(uncalled[: len(names)]) for names in omitted if "tool_1" not in names)
    assert "tool_1" not in omitted[-1]
    assert all(each.tokens <= 0.9 * each.limit_tokens or not each.new_breaks for each in plans)
