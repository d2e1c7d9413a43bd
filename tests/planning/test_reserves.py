"""What gives way before a request is refused: half of the reserves, then tools that the user did not choose."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import Budget, ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    Conversation,
    Tool,
    build_conversation,
)
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms, PlanCaches, plan
from tests.planning.exact import split_words, talk, words
from tests.support.chats import call, history, output, user

SMALL = ModelTerms("vendor/small", 8_000, max_output_tokens=1_600)
"""1,600 and 400 tokens are reserved for the output and as a margin: 6,000 are left, or 7,000 by halves."""
FULL, HALF = 6_000, 7_000
COUNTER = TokenCounter(ContentCache(), split_words)


def tools(tokens: int, *names: str) -> tuple[Tool, ...]:
    """Tools of so many tokens together."""
    share = tokens // len(names)
    empty = COUNTER.tools([{"name": "x", "description": ""}]).tokens
    return tuple({"name": name, "description": words(share - empty + 1)} for name in names)


def chat(turns: int, offered: tuple[Tool, ...], *optional: str, turn_tokens: int = 200) -> Conversation:
    """Turns of 200 tokens and a last question of 91, without instructions."""
    said = talk(turns, turn_tokens)
    conversation = build_conversation(said.items, said.turn_of_item)
    return replace(conversation, tools=offered, optional_tools=frozenset(optional))


def planned(conversation: Conversation, strategy: str = "summarize", model: ModelTerms = SMALL) -> Plan:
    """The plan without summaries."""
    settings = ContextSettings(context_strategy=strategy)  # type: ignore[arg-type]
    return plan(conversation, settings, model=model, counter=COUNTER, caches=PlanCaches())


@pytest.mark.parametrize(
    ("turns", "builtin_tokens", "chosen_tokens", "limit_tokens", "omitted", "sent_tokens"),
    [
        pytest.param(0, 5_000, 0, FULL, False, 5_091, id="all fits"),
        pytest.param(0, 6_050, 0, HALF, False, 6_141, id="Hello with the default tools of the host"),
        pytest.param(0, 6_908, 0, HALF, False, HALF - 1, id="the last token of the halved reserves"),
        pytest.param(0, 6_910, 0, FULL, True, 91, id="more built-in tools than the window holds"),
        pytest.param(1, 5_000, 0, FULL, False, 5_291, id="a short chat beside them"),
        pytest.param(6, 6_050, 0, FULL, True, 1_291, id="a longer chat is worth more than they are"),
        pytest.param(5, 5_100, 0, FULL, True, 1_091, id="no turn is evicted for them"),
        pytest.param(16, 3_002, 0, FULL, True, 3_291, id="from half of the limit on"),
        pytest.param(16, 3_000, 0, FULL, False, 5_943, id="not for less"),
        pytest.param(0, 6_000, 6_050, HALF, True, 6_141, id="chosen tools in the halved reserves"),
        pytest.param(5, 0, 5_100, FULL, False, 5_843, id="chosen tools stay, and turns are evicted"),
        pytest.param(30, 1_000, 0, FULL, False, 5_938, id="few tools stay, and turns are evicted"),
    ],
)
def test_what_gives_way(
    turns: int,
    builtin_tokens: int,
    chosen_tokens: int,
    limit_tokens: int,
    omitted: bool,  # noqa: FBT001 - a table
    sent_tokens: int,
) -> None:
    """By what the chat, the built-in and the chosen tools take of a window of 8,000 tokens."""
    offered = tools(builtin_tokens, "get_time", "search_notes") if builtin_tokens else ()
    offered += tools(chosen_tokens, "weather") if chosen_tokens else ()
    sent = planned(chat(turns, offered, "get_time", "search_notes"))
    assert (sent.limit_tokens, sent.omitted_tools, sent.tokens) == (
        limit_tokens,
        frozenset({"get_time", "search_notes"}) if omitted else frozenset(),
        sent_tokens,
    )


def test_the_halved_reserves_are_in_the_plan() -> None:
    """The audit records the budget that the request was fitted to."""
    assert planned(chat(0, tools(6_050, "get_time"))).budget == Budget(8_000, 800, 200)


def test_a_longer_chat_goes_on_without_the_tools() -> None:
    """Once they are omitted they stay so, and each request begins like the one before."""
    offered = tools(6_050, "get_time")
    plans = [planned(chat(turns, offered, "get_time")) for turns in range(1, 20)]
    assert {sent.omitted_tools for sent in plans} == {frozenset({"get_time"})}
    for before, after in pairwise(plans):
        assert after.items[: len(before.items)] == before.items


@pytest.mark.parametrize("later", [[], [user("and then?")]], ids=["this turn", "an earlier turn"])
def test_a_tool_that_was_called_stays(later: list[Any]) -> None:
    """A call in the input needs its tool; the others go."""
    said = history([user("now?"), call("call_1", "{}"), output("call_1", words(500)), *later])
    conversation = replace(
        build_conversation(said.items, said.turn_of_item),
        tools=tools(8_000, "search", "get_time"),
        optional_tools=frozenset({"search", "get_time"}),
    )
    assert planned(conversation).omitted_tools == frozenset({"get_time"})


def test_no_summary_is_requested_behind_a_chat_without_its_tools() -> None:
    """A request for a summary carries all tools, and would be too large."""
    model = ModelTerms("vendor/small", 20_000)
    conversation = chat(40, tools(12_000, "get_time"), "get_time", turn_tokens=400)
    sent = planned(conversation, model=model)
    assert (sent.omitted_tools, sent.cached_prefix) == (frozenset({"get_time"}), None)


@pytest.mark.parametrize("strategy", ["summarize", "prune", "clip", "refuse"])
def test_what_does_not_fit_without_them_is_refused(strategy: str) -> None:
    """By the limit that the halved reserves leave."""
    conversation = replace(chat(0, tools(6_050, "get_time"), "get_time"))
    said = history([user(words(7_000))])
    turns = build_conversation(said.items, said.turn_of_item).turns
    with pytest.raises(ContextOverflow) as refused:
        planned(replace(conversation, turns=turns), strategy)
    assert (refused.value.limit_tokens, refused.value.shares[0].name) == (HALF, "latest message")


def test_output_that_the_request_asks_for_stays_reserved() -> None:
    """Providers count it with the input; the margin alone gives way."""
    model = replace(SMALL, output_tokens=1_600)
    conversation = chat(0, tools(6_050, "get_time"))
    assert planned(conversation, model=model).budget == Budget(8_000, 1_600, 200)


@pytest.mark.parametrize(
    ("asked", "setting", "of_model", "reserved"),
    [
        pytest.param(None, 0, 1_200, 1_200, id="what the model can write"),
        pytest.param(None, 0, 64_000, 2_000, id="at most a quarter of the window"),
        pytest.param(None, 0, None, 2_000, id="a model that names no limit"),
        pytest.param(None, 900, 1_200, 900, id="the administrator's choice goes first"),
        pytest.param(500, 900, 1_200, 500, id="and the request's own before that"),
        pytest.param(4_000, 900, 1_200, 2_000, id="at most a quarter of the window, too"),
    ],
)
def test_the_reserve_for_an_answer(
    asked: int | None, setting: int, of_model: int | None, reserved: int
) -> None:
    """What the request asks for, else the setting, else what the model can write."""
    model = ModelTerms("vendor/model", 8_000, output_tokens=asked, max_output_tokens=of_model)
    settings = ContextSettings(context_max_output_tokens=setting)
    sent = plan(chat(0, ()), settings, model=model, counter=COUNTER, caches=PlanCaches())
    assert sent.budget == Budget(8_000, reserved, 400)
