"""The beginning of requests: what differs from the one before is found, named and priced, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, digest_item, is_model_input
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.money.prefix import (
    Digests,
    FoundBreak,
    LastRequest,
    digests_of,
    find_break,
    nearest,
    price_break,
)
from open_webui_openrouter_pipe.money.prices import CacheRule, Prices
from open_webui_openrouter_pipe.planning.plan import CacheMarks, Plan
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices, PrefixBreak
from open_webui_openrouter_pipe.responses.effects import Usage
from open_webui_openrouter_pipe.responses.items import Item
from tests.support.cases import HISTORIES
from tests.support.chats import (
    History,
    Memory,
    answer,
    call,
    histories,
    history,
    output,
    reasoning,
    summarized,
    system,
    user,
)
from tests.support.rows import rows

TABLES = Path(__file__).parent / "money.txt"
GPT, CLAUDE = "openai/gpt-5.2", "anthropic/claude-sonnet-4.5"
FITS = ModelTerms(CLAUDE, window_tokens=1_000_000)
AUTOMATIC = CacheRule("automatic")
PRICES = Prices(input=3e-6, output=15e-6, read=0.3e-6, write=3.75e-6)
TOOLS = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("ask", "look")]
PROMPT = """You are a helper.
It is 2026-11-22 11:40:31 PM, Sunday.
<memory_context>
1. [2026-01-02] Likes tea.
</memory_context>
Be brief."""


def requests_of(chat: History) -> Iterator[History]:
    """The beginnings of a chat that were sent, in their order."""
    for end in range(1, len(chat.items) + 1):
        following = chat.items[end] if end < len(chat.items) else None
        goes_on = following is not None and is_model_input(following)
        same_turn = end < len(chat.items) and chat.turn_of_item[end] == chat.turn_of_item[end - 1]
        if is_model_input(chat.items[end - 1]) and not (goes_on and same_turn):
            yield chat.upto(end)


def planned(chat: History, policy: ContextSettings | None = None, model: ModelTerms = FITS) -> Plan:
    """The plan of a chat's last request."""
    return summarized(chat, policy or ContextSettings(), model, Memory())


def sent(
    items: Sequence[Any], plan: Plan, turn: int | str, *, tools: Sequence[Any] = TOOLS, **parameters: Any
) -> Digests:
    """A request with these items."""
    counter = TokenCounter(ContentCache())
    sizes = [500.0, *(float(counter.item(item).tokens) for item in plan.items)]
    changed = replace(plan, entries=tuple(map(digest_item, items)))
    body = {"tools": list(tools), **parameters}
    return digests_of(body, changed, [*accumulate(sizes)], answer=str(turn))


def digests(chat: History, plan: Plan | None = None, **parameters: Any) -> Digests:
    """A chat's last request as it is sent."""
    plan = plan or planned(chat)
    return sent(plan.items, plan, chat.turn_of_item[-1], **parameters)


def as_sent(digests: Digests, model: str = GPT, rule: CacheRule = AUTOMATIC) -> LastRequest:
    """A request that was answered at second 0."""
    return LastRequest(digests, model, model, PRICES, rule, Usage(), was_read_once=True, sent_seconds=0)


def found(last: Digests, now: Digests, model: str = GPT) -> FoundBreak | None:
    """What is found without a price."""
    comparison = nearest([as_sent(last, model)], now)
    assert comparison is not None
    return find_break(comparison, now)


CHAT = history(
    [user("one"), reasoning(), call("c1"), output("c1", "rows"), answer("first")],
    [user("two"), answer("second", "msg_2")],
    [user("three"), answer("third", "msg_3")],
    [user("four")],
)
BEFORE = CHAT.upto(8)
"""As it was sent a turn earlier."""


_policies = st.builds(
    ContextSettings,
    tool_output_retention_turns=st.integers(1, 4),
    tool_output_pruning=st.sampled_from(["batched", "every_turn", "off"]),
    context_strategy=st.sampled_from(["summarize", "prune", "clip"]),
    context_aim=st.sampled_from(["faithful", "thrifty"]),
    protected_recent_turns=st.integers(1, 4),
    clip_last_messages=st.integers(1, 6),
)
_models = st.builds(
    ModelTerms,
    id=st.just(CLAUDE),
    window_tokens=st.sampled_from([4000, 8000, 30_000, 1_000_000]),
    prices=st.sampled_from([CachePrices(), CachePrices(0.1, 1.25), CachePrices(0.5, 1.0)]),
)
thorough = settings(max_examples=HISTORIES * 2, deadline=None, suppress_health_check=list(HealthCheck))


def plans_of(chat: History, policy: ContextSettings, model: ModelTerms) -> Iterator[tuple[History, Plan]]:
    """The plans of all requests of a chat, made by one worker; those that are refused are not sent."""
    memory = Memory()
    for request in requests_of(chat):
        try:
            yield request, summarized(request, policy, model, memory)
        except ContextOverflow:
            continue


@thorough
@given(histories(), _policies, _models)
def test_what_the_plan_announces_is_not_found(
    chat: History, policy: ContextSettings, model: ModelTerms
) -> None:
    """Whatever is shortened, summarized or dropped as a chat grows: nothing is found that nobody announced."""
    requests = [digests(request, plan) for request, plan in plans_of(chat, policy, model)]
    assert [found(last, now) for last, now in pairwise(requests)] == [None] * max(0, len(requests) - 1)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the texts, numbers and empty objects of a JSON value are."""
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    inner = [leaf for key, member in members for leaf in leaves(member, (*path, key))]
    yield from inner or [path]


def with_change(items: Sequence[Item], chance: random.Random, index: int) -> list[Any]:
    """The items with one value changed in one of them: a text by a character."""
    changed = deepcopy(list[Any](items))
    named = [path for path in leaves(changed[index]) if path[0] not in {"id", "status", "type", "role"}]
    *way, last = chance.choice(named)
    inner = changed[index]
    for key in way:
        inner = inner[key]
    inner[last] = f"{inner[last]}!" if isinstance(inner[last], str) else [inner[last]]
    return changed


@thorough
@given(histories(), st.randoms())
def test_every_change_before_the_current_turn_is_found(chat: History, chance: random.Random) -> None:
    """One character is enough, in any of the items that were sent before; so is an item less, or one more."""
    requests = [*requests_of(chat)]
    earlier = chance.choice(requests)
    last, now = digests(earlier), digests(chat)
    same_turn = earlier.turn_of_item[-1] == chat.turn_of_item[-1]
    end = len(last.items) if same_turn else min(now.completed, len(last.items))
    index, plan = chance.randrange(end), planned(chat)
    items, turn = [*plan.items], chat.turn_of_item[-1]
    assert found(last, sent(items, plan, turn)) is None
    assert found(last, sent(with_change(items, chance, index), plan, turn)) is not None
    more = [*items[:index], user("more"), *items[index:]]
    less = [*items[:index], *items[index + 1 :]]
    for changed in (more, less):
        if changed[:end] == items[: len(changed)][:end]:
            continue  # it only ends earlier, or the next item is the same
        moved = replace(plan.marks, completed=plan.marks.completed + len(changed) - len(items))
        if not same_turn and moved.completed <= last.completed:
            continue  # a question without an answer is gone: this is another question in its place
        assert found(last, sent(changed, replace(plan, marks=moved), turn)) is not None


@pytest.mark.parametrize("model", [GPT, CLAUDE])
def test_the_next_turn_and_the_next_round_continue_what_was_sent(model: str) -> None:
    """From request to request, from an older one to a later one, where an answer is repeated, or a question edited."""
    chats = [digests(request) for request in requests_of(CHAT)]
    for at, last in enumerate(chats):
        assert [found(last, now, model) for now in chats[at:]] == [None] * (len(chats) - at)
    assert found(chats[-1], replace(chats[-1], answer="again"), model) is None
    assert found(chats[1], replace(chats[0], answer="again"), model) is None
    for kept in (0, 5, 7, 9):
        edited = History((*CHAT.items[:kept], user("otherwise")), (*CHAT.turn_of_item[:kept], 9))
        assert found(chats[-1], digests(edited), model) is None


def test_what_stands_there_for_one_turn_alone_is_no_change() -> None:
    """Volatile text before the question, and what the host wrote behind its words, are gone in the next turn."""
    plan = planned(BEFORE)
    question: Any = deepcopy(plan.items[-1])
    question["content"].append({"type": "input_text", "text": "<source>a page</source>"})
    items = [*plan.items[:-1], system("Retrieved: a page."), question]
    last = sent(items, plan, turn=2)
    now = digests(CHAT)
    assert found(last, now) is None
    assert found(last, sent([*items, call("c9"), output("c9", "x")], plan, turn=2)) is None
    other = [*items[:-2], system("Retrieved: another page."), question]
    assert found(last, sent(other, plan, turn=2)) == FoundBreak("turn 3", "edit")


def test_a_question_that_is_gone_is_found() -> None:
    """Though the same words follow it in an instruction: they do not begin a turn."""
    chat = history([user("the"), system("the")], [user("the")])
    last, plan = digests(chat.upto(2)), planned(chat)
    assert found(last, digests(chat)) is None
    shorter = replace(plan, marks=replace(plan.marks, completed=2))
    assert found(last, sent([*plan.items[:1], *plan.items[2:]], shorter, turn=1)) is not None


IMAGE = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,eA=="}
INSTEAD = {
    "a user's words": user("Otherwise"),
    "another thought": reasoning("b3RoZXI="),
    "another call": call("c1", '{"q":1}'),
    "another output": output("c1", "rows!"),
    "another answer": answer("First"),
    "with a picture": {**user("two"), "content": [*user("two")["content"], IMAGE]},
}


@pytest.mark.parametrize(("index", "replaced", "position"), rows(TABLES, "changes", INSTEAD))
def test_a_change_is_named_by_where_it_is(index: int, replaced: Any, position: str) -> None:
    """An edit, whatever has changed there."""
    plan, items = planned(CHAT), list[Any](planned(CHAT).items)
    items[index] = replaced
    assert found(digests(BEFORE), sent(items, plan, turn=3)) == FoundBreak(position, "edit")


@pytest.mark.parametrize(
    "prompt",
    [
        PROMPT.replace("11:40:31 PM, Sunday", "12:01:02 AM, Monday"),
        PROMPT.replace("Likes tea.", "Has a cat."),
        PROMPT.replace("Be brief.", ""),
    ],
)
def test_instructions_that_differ_are_found(prompt: str) -> None:
    """Whatever has changed in them; no text of them is kept."""
    plan = planned(CHAT)
    last, now = (sent([system(text), *plan.items[1:]], plan, turn=3) for text in (PROMPT, prompt))
    assert found(last, now) == FoundBreak("instructions", "prompt")
    assert "tea" not in repr(last)


def test_the_tools_come_first() -> None:
    """Another tool, or the same in another order, changes what stands before everything."""
    last = digests(BEFORE)
    assert found(last, digests(CHAT, tools=TOOLS)) is None
    for tools in (TOOLS[:1], [*reversed(TOOLS)], [], [*TOOLS, {"type": "function", "name": "new"}]):
        assert found(last, digests(CHAT, tools=tools)) == FoundBreak("tools", "tools")
        assert found(last, digests(CHAT, tools=tools, provider={"order": ["x"]})) == FoundBreak(
            "settings", "settings", ("provider",)
        )


def test_a_prompt_that_is_announced_is_not_found() -> None:
    """Whoever decides that it is another one from now on says so; what stands before it is found all the same."""
    plan = planned(CHAT)
    now = replace(sent([system("Anew."), *plan.items[1:]], plan, turn=3), new_prompt=True)
    assert found(digests(BEFORE), now) is None
    assert found(digests(BEFORE, tools=[]), now) == FoundBreak("tools", "tools")
    assert found(digests(BEFORE), replace(now, new_prompt=False)) == FoundBreak("instructions", "prompt")


def test_tools_that_the_plan_omits_or_adds_are_announced() -> None:
    """It says which it omits; one that comes last comes with a change that it announces."""
    last, less = digests(BEFORE), digests(CHAT, tools=TOOLS[:1])
    assert found(last, replace(less, omitted_tools=frozenset({"look"}))) is None
    more = digests(CHAT, tools=[*TOOLS, {"type": "function", "name": "recall"}])
    announced = replace(more, breaks=((7, 3, "prune"),), own_breaks=1, unchanged=1)
    assert found(last, announced) is None
    assert found(announced, replace(announced, answer="5")) is None


@pytest.mark.parametrize(("parameters", "by_openai", "by_anthropic"), rows(TABLES, "parameters"))
def test_parameters_count_where_a_cache_depends_on_them(
    parameters: Mapping[str, Any], by_openai: list[str], by_anthropic: list[str]
) -> None:
    """Whether they come or go."""
    last, now = digests(BEFORE), digests(CHAT, **parameters)
    for model, names in ((GPT, by_openai), (CLAUDE, by_anthropic)):
        expected = FoundBreak("settings", "settings", tuple(names)) if names else None
        assert found(last, now, model) == found(now, replace(last, answer="5"), model) == expected


def test_an_effort_is_a_share_of_the_output() -> None:
    """So that another limit of output is another budget for thinking, at Anthropic."""
    last = digests(BEFORE, reasoning={"effort": "high"}, max_output_tokens=1000)
    now = digests(CHAT, reasoning={"effort": "high"}, max_output_tokens=2000)
    assert found(last, now, CLAUDE) == FoundBreak("settings", "settings", ("thinking_tokens",))
    assert found(last, now, GPT) is None


def test_what_the_plan_decides_otherwise_now_is_named() -> None:
    """A setting or a limit that changed moves what was decided about earlier turns: no break says so."""
    last = replace(digests(BEFORE), breaks=((5, 1, "retention"),))
    plan = planned(CHAT)
    items = [*plan.items[:4], output("c1", "[Tool: rows]"), *plan.items[5:]]
    assert found(last, sent(items, plan, turn=3)) == FoundBreak("turn 1", "plan")


@pytest.mark.parametrize(("since", "starts_at"), [(1, 4), (2, 1)])
def test_a_break_of_the_plan_announces_what_comes_behind_it(since: int, starts_at: int) -> None:
    """This request's own begins where the plan says; of another worker's, only the instructions stay for certain."""
    plan = planned(CHAT)
    breaks = [PrefixBreak(7 + at, 2 + at, "prune", 10) for at in range(since)]
    marks = CacheMarks(1, unchanged=4, frontier=5, completed=plan.marks.completed)
    broken = replace(plan, prefix_breaks=tuple(breaks), new_breaks=tuple(breaks[-1:]), marks=marks)
    for index in range(8):
        changed = [*plan.items[:index], user("changed"), *plan.items[index + 1 :]]
        is_found = found(digests(BEFORE), sent(changed, broken, turn=3)) is not None
        assert is_found == (index < starts_at)


def test_an_older_request_is_compared_where_more_of_it_is_shared() -> None:
    """An answer that is written beside another one continues its own history."""
    plan = planned(BEFORE)
    mine, theirs = (
        sent([*plan.items[:-2], answer(text), plan.items[-1]], plan, turn=text) for text in ("mine", "theirs")
    )
    plan = planned(CHAT)
    now = sent([*plan.items[:7], answer("mine"), *plan.items[8:]], plan, turn=3)
    both = nearest([as_sent(theirs), as_sent(mine)], now)
    assert both is not None
    assert find_break(both, now) is None
    assert found(theirs, now) == FoundBreak("turn 2", "edit")
    assert nearest([], now) is None


def priced(last: Digests, now: Digests, rule: CacheRule, *, seconds: float = 0) -> FoundBreak:
    """What is found, with its price."""
    comparison = nearest([as_sent(last, CLAUDE, rule)], now)
    assert comparison is not None
    broken = find_break(comparison, now)
    assert broken is not None
    return price_break(broken, comparison, now, now_seconds=seconds)


def large(chat: History) -> History:
    """The same with long texts."""
    items = tuple(user("word " * 2000) if item.get("role") == "user" else item for item in chat.items)
    return History(items, chat.turn_of_item)


def test_a_break_costs_what_is_read_anew() -> None:
    """As much as the cache had beyond what both share, at the price of writing instead of reading."""
    rule = CacheRule("explicit", bills_writes=True)
    last, plan = digests(large(BEFORE)), planned(large(CHAT))
    assert last.tokens_before(99) > 6000
    items = [*plan.items[:6], user("changed"), *plan.items[7:]]
    kept = last.tokens_before(6)
    broken = priced(last, sent(items, plan, turn=3), rule)
    assert broken.lost_tokens == int(last.tokens_before(len(last.items))) - int(kept)
    assert broken.lost_cost == pytest.approx(broken.lost_tokens * (3.75e-6 - 0.3e-6))
    everything = priced(last, sent(plan.items, plan, turn=3, tools=[]), rule)
    assert everything.lost_tokens == int(last.tokens_before(99))
    effort = priced(last, sent(plan.items, plan, turn=3, reasoning={"effort": "low"}), rule)
    assert effort.lost_tokens == int(
        last.tokens_before(99)
    )  # tools and prompt alone are too short to be cached


def test_nothing_is_lost_where_nothing_was_cached() -> None:
    """When the provider has forgotten it, when it does not cache at all, or only what is longer."""
    last, plan = digests(large(BEFORE)), planned(large(CHAT))
    now = sent(plan.items, plan, turn=3, tools=[])
    rule = CacheRule("automatic")
    assert priced(last, now, rule, seconds=299).lost_tokens % 128 == 0 < priced(last, now, rule).lost_cost
    assert priced(last, now, rule, seconds=300) == FoundBreak("tools", "tools")
    assert priced(last, now, CacheRule("none")) == FoundBreak("tools", "tools")
    assert priced(last, now, replace(rule, minimum_tokens=100_000)) == FoundBreak("tools", "tools")


def test_whatever_is_sent_is_compared() -> None:
    """Nothing, too, and items whose content is of any shape."""
    plan = planned(CHAT)
    inputs: list[Any] = [
        [],
        [{"type": "message", "role": "user", "content": [1, None, {}]}],
        [{"type": None}],
    ]
    requests = [sent(items, plan, turn=at % 2) for at, items in enumerate([*inputs, *reversed(inputs)])]
    requests += [replace(each, answer="") for each in requests]
    for last in [*requests, digests(CHAT)]:
        for now in [*requests, digests(CHAT)]:
            found(last, now)


def test_digests_hold_no_text() -> None:
    """Numbers, kinds and the names of parameters alone."""
    plan = planned(CHAT)
    secret = sent([system("secret\n" * 20_000), *plan.items[1:]], plan, turn=3, session_id="secret")
    assert "secret" not in repr(secret)
