"""The beginning of requests: what differs from the one before is found, named and priced, and nothing else is."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.budget import ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache, digest_item, is_model_input
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.money.prefix import (
    Announced,
    Digests,
    FoundBreak,
    LastRequest,
    digests_of,
    find_break,
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
PROMPT = "You are a helper."


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
    return find_break([as_sent(last, model)], now, now_seconds=math.inf)


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
@example(history([user("the"), system("brief")], [user("the")]), random.Random(1))
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
        moved = replace(plan.marks, completed=plan.marks.completed + len(changed) - len(items))
        compared = min(end, len(changed) if same_turn else moved.completed)
        if changed[:compared] == items[:compared]:
            continue  # what was sent goes on with less, or the next item is the same
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


def test_reasoning_that_is_kept_for_its_turn_alone_is_no_change() -> None:
    """The next turn does without it, as was said; unless it was said, its place is named."""
    before = history([user("one"), reasoning(), call("c1"), output("c1", "rows")])
    after = history(
        [user("one"), call("c1"), output("c1", "rows"), answer("first")],
        [user("two")],
    )
    plan, now = planned(before), digests(after)
    last = digests_of(
        {"tools": TOOLS}, plan, [1.0] * 5, answer="0", announced=Announced(drops_reasoning=True)
    )
    assert found(last, now) is None
    assert found(digests(before), now) == FoundBreak("turn 1", "edit")


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


BEFORE_ALL_TURNS = {
    "one": TOOLS[:1],
    "turned round": [*reversed(TOOLS)],
    "one more": [*TOOLS, {"type": "function", "name": "recall"}],
    "looking": frozenset({"look"}),
}


@pytest.mark.parametrize(("request_of", "announced", "expected"), rows(TABLES, "before", BEFORE_ALL_TURNS))
def test_what_stands_before_all_turns_is_found_unless_it_is_announced(
    request_of: dict[str, Any], announced: dict[str, Any], expected: list[Any] | None
) -> None:
    """The settings first, then the tools, then the instructions."""
    prompt, plans = request_of.pop("prompt", PROMPT), (planned(BEFORE), planned(CHAT))
    last, now = ([system(text), *plan.items[1:]] for text, plan in zip((PROMPT, prompt), plans, strict=True))
    if "breaks" in announced:
        announced["breaks"] = tuple(map(tuple, announced["breaks"]))
    request = replace(sent(now, plans[1], turn=3, **request_of), **announced)
    broken = found(sent(last, plans[0], turn=2), request)
    assert ([broken.position, broken.cause, list(broken.names)] if broken else None) == expected


@pytest.mark.parametrize(("kept", "parameters", "by_openai", "by_anthropic"), rows(TABLES, "parameters"))
def test_parameters_count_where_a_cache_depends_on_them(
    kept: Mapping[str, Any], parameters: Mapping[str, Any], by_openai: list[str], by_anthropic: list[str]
) -> None:
    """Whether they come or go."""
    last, now = digests(BEFORE, **kept), digests(CHAT, **{**kept, **parameters})
    for model, names in ((GPT, by_openai), (CLAUDE, by_anthropic)):
        expected = FoundBreak("settings", "settings", tuple(names)) if names else None
        assert found(last, now, model) == found(now, replace(last, answer="5"), model) == expected


def test_what_the_plan_decides_otherwise_now_is_named() -> None:
    """A setting or a limit that changed moves what was decided about earlier turns: no break says so."""
    last = replace(digests(BEFORE), breaks=((5, 1, "retention"),))
    plan = planned(CHAT)
    items = [*plan.items[:4], output("c1", "[Tool: rows]"), *plan.items[5:]]
    assert found(last, sent(items, plan, turn=3)) == FoundBreak("turn 1", "plan")


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(("since", "starts_at"), [(1, 4), (2, 1)])
def test_a_break_of_the_plan_announces_what_comes_behind_it(before: int, since: int, starts_at: int) -> None:
    """This request's own begins where the plan says; of another worker's, only the instructions stay for certain."""
    plan = planned(CHAT)
    breaks = [PrefixBreak(7 + at, 2 + at, "prune", 10) for at in range(before + since)]
    marks = CacheMarks(1, unchanged=4, frontier=5, completed=plan.marks.completed)
    broken = replace(plan, prefix_breaks=tuple(breaks), new_breaks=tuple(breaks[-1:]), marks=marks)
    for index in range(8):
        changed = [*plan.items[:index], user("changed"), *plan.items[index + 1 :]]
        now = sent(changed, broken, turn=3)
        last = replace(digests(BEFORE), breaks=now.breaks[:before])
        assert (found(last, now) is not None) == (index < starts_at)


def test_an_older_request_is_compared_where_more_of_it_is_shared() -> None:
    """An answer that is written beside another one continues its own history."""
    plan = planned(BEFORE)
    mine, theirs = (
        sent([*plan.items[:-2], answer(text), plan.items[-1]], plan, turn=text) for text in ("mine", "theirs")
    )
    plan = planned(CHAT)
    now = sent([*plan.items[:7], answer("mine"), *plan.items[8:]], plan, turn=3)
    assert find_break([as_sent(theirs), as_sent(mine)], now, now_seconds=0) is None
    assert found(theirs, now) == FoundBreak("turn 2", "edit")
    assert find_break([], now, now_seconds=0) is None


def priced(last: Digests, now: Digests, rule: CacheRule, *, seconds: float = 0) -> FoundBreak:
    """What is found, with its price."""
    broken = find_break([as_sent(last, CLAUDE, rule)], now, now_seconds=seconds)
    assert broken is not None
    return broken


def large(chat: History) -> History:
    """The same with long texts."""
    items = tuple(user("word " * 2000) if item.get("role") == "user" else item for item in chat.items)
    return History(items, chat.turn_of_item)


@pytest.mark.parametrize(
    ("changed_item", "parameters", "kept_items"),
    [(6, {}, 6), (None, {"tools": []}, None), (None, {"reasoning": {"effort": "low"}}, None)],
    ids=["a question", "the tools", "the effort: tools and prompt alone are too short to be cached"],
)
def test_a_break_costs_what_is_read_anew(
    changed_item: int | None, parameters: dict[str, Any], kept_items: int | None
) -> None:
    """As much as the cache had beyond what both share, at the price of writing instead of reading."""
    last, plan = digests(large(BEFORE)), planned(large(CHAT))
    items = [user("changed") if at == changed_item else item for at, item in enumerate(plan.items)]
    now = sent(items, plan, turn=3, **parameters)
    broken = priced(last, now, CacheRule("explicit", bills_writes=True))
    whole, kept = int(last.tokens_before(99)), int(last.tokens_before(kept_items)) if kept_items else 0
    assert (broken.lost_tokens, whole > 6000) == (whole - kept, True)
    assert broken.lost_cost == pytest.approx(broken.lost_tokens * (3.75e-6 - 0.3e-6))


@pytest.mark.parametrize(
    ("rule", "seconds", "is_lost"),
    [
        (AUTOMATIC, 299, True),
        (AUTOMATIC, 300, False),
        (CacheRule("none"), 0, False),
        (replace(AUTOMATIC, minimum_tokens=100_000), 0, False),
    ],
    ids=["just kept", "forgotten", "never cached", "too short"],
)
def test_nothing_is_lost_where_nothing_was_cached(rule: CacheRule, seconds: float, *, is_lost: bool) -> None:
    """By blocks of 128 tokens, where the provider caches by itself."""
    plan = planned(large(CHAT))
    broken = priced(digests(large(BEFORE)), sent(plan.items, plan, turn=3, tools=[]), rule, seconds=seconds)
    assert (broken.lost_tokens % 128, broken.lost_cost > 0, broken.lost_tokens > 0) == (0, is_lost, is_lost)


def test_whatever_is_sent_is_compared_and_kept_without_its_text() -> None:
    """Nothing, too, and items whose content is of any shape; numbers, kinds and names of parameters alone."""
    plan = planned(CHAT)
    inputs: list[Any] = [
        [],
        [{"type": "message", "role": "user", "content": [1, None, {}]}],
        [{"type": None}],
    ]
    inputs.append([system("secret\n" * 20_000), *plan.items[1:]])
    requests = [
        sent(items, plan, at % 2, session_id="secret")
        for at, items in enumerate([*inputs, *reversed(inputs)])
    ]
    requests += [replace(each, answer="") for each in requests]
    for last, now in product([*requests, digests(CHAT)], repeat=2):
        found(last, now)
    assert "secret" not in repr(requests)
