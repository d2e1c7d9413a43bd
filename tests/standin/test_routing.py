"""Provider preferences, fallbacks, choices of tools and server tools, as strict as the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scripts.standin import sdk_schema
from scripts.standin.routing import NO_ENDPOINT, NO_POLICY, NO_PROVIDER
from tests.standin.client import WEATHER, user

if TYPE_CHECKING:
    from tests.standin.client import Client

CLAUDE = "anthropic/claude-sonnet-4.5"
SEARCH, FETCH = {"type": "openrouter:web_search"}, {"type": "openrouter:web_fetch"}
MUST = {"type": "allowed_tools", "mode": "required", "tools": [SEARCH]}


@pytest.mark.parametrize(
    ("preferences", "message"),
    [
        ({"only": ["openai"]}, None),
        ({"only": ["OpenAI/fast"]}, None),
        ({"only": ["azure"]}, NO_PROVIDER),
        ({"ignore": ["openai"]}, NO_PROVIDER),
        ({"order": ["azure"], "sort": "price"}, None),
        ({"zdr": True}, NO_POLICY),
        ({"zdr": False, "data_collection": "deny"}, None),
        ({"quantizations": ["fp8"]}, NO_ENDPOINT),
        ({"quantizations": ["unknown", "fp8"]}, None),
        ({"max_price": {"prompt": "1.75"}}, None),
        ({"max_price": {"prompt": "1.74"}}, NO_ENDPOINT),
        ({"max_price": {"completion": "1"}}, NO_ENDPOINT),
    ],
)
def test_preferences_are_followed(client: Client, preferences: dict[str, Any], message: str | None) -> None:
    """404 where the model's provider is not one that may answer."""
    answer = client.post("Hi", model="openai/gpt-5.2", provider=preferences)
    assert answer.status_code == (404 if message else 200)
    assert answer.json().get("error") == ({"code": 404, "message": message} if message else None)


@pytest.mark.parametrize(
    "preferences",
    [
        {"onyl": ["openai"]},
        {"sort": "cheapest"},
        {"only": "openai"},
        {"max_price": {"prompt": 1.5}},
        {"zdr": "yes"},
    ],
)
def test_malformed_preferences_are_refused(client: Client, preferences: dict[str, Any]) -> None:
    """By the SDK's own types."""
    assert client.post("Hi", model="openai/gpt-5.2", provider=preferences).status_code == 400


def test_a_fallback_answers(client: Client) -> None:
    """The first of the models whose provider may."""
    done = client.done(
        "Hi", model="openai/gpt-5.2", models=["x-ai/grok-4.1-fast", CLAUDE], provider={"zdr": True}
    )
    assert done["model"] == CLAUDE


@pytest.mark.parametrize(
    ("tools", "choice", "kinds"),
    [
        ([SEARCH, FETCH], "auto", ["openrouter:web_fetch", "openrouter:web_search", "message"]),
        ([SEARCH, FETCH], "none", ["message"]),
        ([WEATHER, SEARCH], MUST, ["openrouter:web_search", "message"]),
        ([FETCH], "auto", ["openrouter:web_fetch", "message"]),
        ([], None, ["message"]),
    ],
)
def test_server_tools_run_inside(client: Client, tools: list[Any], choice: Any, kinds: list[str]) -> None:
    """As valid items before the answer, which names what was found; each is billed."""
    fields = {"tools": tools, "tool_choice": choice} if choice else {}
    events = client.stream([user("Read https://a.example and search for cats.")], **fields)
    assert not [issue for event in events for issue in sdk_schema.event_issues(event)]
    done = events[-1]["response"]
    assert [item["type"] for item in done["output"]] == kinds
    searched = "openrouter:web_search" in kinds
    annotations = done["output"][-1]["content"][0]["annotations"]
    assert [one["url"] for one in annotations] == ["https://example.org/found"] * searched
    used = done["usage"].get("server_tool_use_details", {})
    assert used.get("tool_calls_executed", 0) == len(kinds) - 1
    assert used.get("web_search_requests", 0) == searched


def test_the_plugin_always_searches(client: Client) -> None:
    """And shows it by its citations alone."""
    done = client.done("Hi", plugins=[{"id": "web"}])
    (item,) = done["output"]
    assert [one["type"] for one in item["content"][0]["annotations"]] == ["url_citation"]


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("standin/script", {"tools": [FETCH], "tool_choice": MUST}),
        ("standin/script", {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}),
        (CLAUDE, {"tools": [SEARCH], "tool_choice": MUST, "reasoning": {"effort": "low"}}),
    ],
)
def test_a_choice_that_cannot_be_had_is_refused(client: Client, model: str, fields: dict[str, Any]) -> None:
    """Of a tool that is not there, or of any by a model of Anthropic's that thinks."""
    assert client.post("Hi", model=model, **fields).status_code == 400


def test_an_hour_comes_before_five_minutes(client: Client) -> None:
    """Anthropic takes no longer lifetime after a shorter one, which breakpoints have."""
    part = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    marked = [{"type": "message", "role": "user", "content": [part]}, user("Go on")]
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert client.post(marked, model=CLAUDE, cache_control=hour).status_code == 400
    assert client.post(marked, model=CLAUDE, cache_control={"type": "ephemeral"}).status_code == 200
    assert client.post([user("Go on")], model=CLAUDE, cache_control=hour).status_code == 200
