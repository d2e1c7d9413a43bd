"""Cache breakpoints and the chat's cache key."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.money.prices import needs_breakpoints
from open_webui_openrouter_pipe.openrouter.request import cache_key, with_breakpoints
from open_webui_openrouter_pipe.planning.plan import CacheMarks
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from tests.support.chats import SYSTEM, History, answer, call, histories, output, planned, system, user


def marked(items: Any) -> list[int]:
    """The indexes of the items with a breakpoint."""
    return [at for at, item in enumerate(items) if "prompt_cache_breakpoint" in json.dumps(item)]


ITEMS = [
    SYSTEM,
    *(user("Q1"), call("1"), output("1", "fact"), answer("A1")),
    *(user("Q2"), call("2"), output("2", "whole"), answer("A2")),
    *(user("Q3"), call("3"), output("3", "new")),
]


def test_breakpoints_end_the_stable_blocks() -> None:
    """After the instructions, the frontier and the last completed turn, on the next message that can."""
    items = with_breakpoints(ITEMS, CacheMarks(instructions=1, unchanged=5, frontier=5, completed=9))
    assert marked(items) == [0, 5, 9]
    (part,) = user("Q3")["content"]
    assert items[9] == {**user("Q3"), "content": [{**part, "prompt_cache_breakpoint": {"mode": "explicit"}}]}


def test_a_changed_prefix_is_read_up_to_the_change() -> None:
    """When the prefix changes, the first breakpoint stands where the change begins, not after the instructions."""
    items = with_breakpoints(ITEMS, CacheMarks(instructions=1, unchanged=2, frontier=5, completed=9))
    assert marked(items) == [1, 5, 9]


def test_nothing_is_marked_behind_what_changes() -> None:
    """The last two messages before it: what the next request finds, and what this one finds of the one before."""
    items = [*ITEMS[:9], system("it is noon"), *ITEMS[9:]]
    marks = CacheMarks(instructions=1, unchanged=5, frontier=5, completed=9, current=10)
    assert marked(with_breakpoints(items, marks)) == [0, 1, 5]
    begun = CacheMarks(instructions=1, unchanged=1, frontier=1, completed=1, current=2)
    assert marked(with_breakpoints([SYSTEM, system("it is noon"), user("Q1")], begun)) == [0]
    bare = CacheMarks(instructions=0, unchanged=0, frontier=0, completed=0, current=1)
    assert marked(with_breakpoints([system("it is noon"), user("Q1")], bare)) == []


def test_nothing_is_marked_in_a_question_that_the_host_has_added_to() -> None:
    """Its text will be gone in the next request, and whatever stands behind it."""
    marks = CacheMarks(instructions=1, unchanged=5, frontier=5, completed=9, current=9, has_additions=True)
    assert marked(with_breakpoints(ITEMS, marks)) == [0, 1, 5]


def test_a_request_finds_what_the_one_before_has_marked() -> None:
    """Also where both have something before the question that the other has not."""
    earlier = with_breakpoints(
        [*ITEMS[:5], system("it is ten"), ITEMS[5]], CacheMarks(1, 1, 1, completed=5, current=6)
    )
    later = with_breakpoints(
        [*ITEMS[:9], system("it is noon"), ITEMS[9]], CacheMarks(1, 1, 1, completed=9, current=10)
    )
    left = marked(earlier)[-1]
    assert left in marked(later)
    assert json.dumps(earlier[: left + 1]) == json.dumps(later[: left + 1])


@given(histories(most_turns=5))
def test_breakpoints_change_nothing_that_the_model_reads(chat: History) -> None:
    """At most three, as the end of the request is the provider's; without them the items are the same."""
    fitted = planned(
        chat, ContextSettings(tool_output_pruning="every_turn"), ModelTerms("anthropic/m", 900_000)
    )
    items: Any = json.loads(json.dumps(with_breakpoints(fitted.items, fitted.marks)))
    assert len(marked(items)) <= 3
    for item in items:
        for part in item.get("content", []):
            part.pop("prompt_cache_breakpoint", None)
    assert items == json.loads(json.dumps(fitted.items))


def test_only_explicit_caches_need_breakpoints() -> None:
    """Anthropic and Alibaba; the others cache by themselves."""
    models = ["anthropic/claude", "~anthropic/claude", "qwen/qwen3", "openai/gpt", "google/gemini"]
    assert [needs_breakpoints(model) for model in models] == [True, True, True, False, False]
    assert CachePrices() == ModelTerms("a").prices


def test_the_key_is_of_the_chat_and_reveals_nothing() -> None:
    """The same for the same chat, another for any other user, chat or secret; short enough for each provider."""
    key = cache_key(b"secret", "user", "chat")
    others = [(b"other", "user", "chat"), (b"secret", "us", "erchat"), (b"secret", "user", "chat2")]
    assert key == cache_key(b"secret", "user", "chat")
    assert len({key, *(cache_key(*other) for other in others)}) == 4
    assert len(key) <= 64
    assert "user" not in key
