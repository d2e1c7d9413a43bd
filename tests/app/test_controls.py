"""What users and administrators switch, through the app to the stand-in."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.permission import permit
from open_webui_openrouter_pipe.ports import Failed
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import notice
from scripts.standin.state import account_of
from tests.app.chat import NewChat, app_on, sent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

CLAUDE, GROK, MYTHOMAX = "anthropic/claude-sonnet-4.5", "x-ai/grok-4.1-fast", "gryphe/mythomax-l2-13b"
SCHEMA = {"type": "object", "properties": {}}
LOOK, SEARCH_WEB = (
    {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("look", "search_web")
)
SEARCHES = ["openrouter:web_fetch", "openrouter:web_search"]
HOST_SWITCH = {"features": {"web_search": True}, "tools": {"search_web": {"type": "builtin"}}}
FOUND = {"files": [{"type": "web_search", "urls": []}]}
JOINED = {
    "user": UserValves(ZDR=True, PROVIDER_SORT="price"),
    "PROVIDER_IGNORE": "deepseek, x",
    "MAX_PRICE_INPUT": 5,
    "USER_PARAMETERS": "provider",
    "model": CLAUDE,
}
OWN = {"provider": {"zdr": False, "ignore": ["y"], "max_price": {"prompt": "9"}}}
BOTH = {"sort": "price", "zdr": True, "ignore": ["deepseek", "x", "y"], "max_price": {"prompt": "5"}}
IDS = {"session_id", "prompt_cache_key", "user", "trace"}
MOST = UserValves(REASONING_EFFORT="max", REASONING_SUMMARY="off")
NONE = UserValves(REASONING_EFFORT="none")
HIDDEN = UserValves(REASONING_EFFORT="max", ZDR=True)


def tools_of(body: Mapping[str, Any]) -> list[str]:
    """The names of the tools in a body, those of OpenRouter by their types."""
    return [each.get("name", each["type"]) for each in body.get("tools", [])]


@pytest.mark.parametrize(
    ("chosen", "parameters", "field", "expected"),
    [
        ({"WEB_SEARCH": "on", "REASONING_EFFORT": "high", "model": CLAUDE}, {}, "tools", SEARCHES),
        ({"WEB_SEARCH": "on", "model": MYTHOMAX}, {}, "plugins", [{"id": "web", "max_results": 5}]),
        ({"WEB_SEARCH": "on", "user": UserValves(WEB_SEARCH="off")}, {}, "tools", []),
        ({"user": UserValves(WEB_SEARCH="auto")}, {}, "tools", SEARCHES),
        ({"WEB_SEARCH": "on", "WEB_SEARCH_BY": "openrouter", "metadata": FOUND}, {}, "tools", []),
        ({"WEB_SEARCH": "on", "chat_id": ""}, {}, "tools", []),
        *(
            ({"WEB_SEARCH": "auto", "WEB_SEARCH_BY": by, "metadata": HOST_SWITCH}, offered, "tools", names)
            for offered in [{"tools": [LOOK, SEARCH_WEB]}]
            for by, names in [("host", ["look", "search_web"]), ("openrouter", ["look", *SEARCHES])]
        ),
        ({"user": MOST, "REASONING_EFFORT": "low", "model": GROK}, {}, "reasoning", {"effort": "high"}),
        ({"user": NONE, "model": GROK}, {}, "reasoning", {"effort": "none", "summary": "auto"}),
        (
            {"user": NONE, "model": "google/gemini-3-pro"},
            {},
            "reasoning",
            {"effort": "minimal", "summary": "auto"},
        ),
        ({"user": HIDDEN, "USER_CONTROLS": "WEB_SEARCH"}, {}, "reasoning", {"summary": "auto"}),
        ({"user": HIDDEN, "USER_CONTROLS": "WEB_SEARCH"}, {}, "provider", None),
        (JOINED, OWN, "provider", BOTH),
        ({"PROVIDER_ONLY": "anthropic", "FALLBACK_MODELS": f"b/unknown, {CLAUDE}"}, {}, "models", [CLAUDE]),
        *(
            ({"SEND_IDENTITY": level}, {}, "ids", names)
            for level, names in [("none", set()), ("session", IDS - {"user", "trace"}), ("trace", IDS)]
        ),
    ],
)
async def test_a_request_follows_the_valves(
    new_chat: NewChat, standin: StandIn, chosen: Any, parameters: Any, field: str, expected: Any
) -> None:
    """Those of the administrator and of the user, as far as it may choose; the provider takes it."""
    answer = await new_chat(**chosen).ask("Hello", **parameters)
    body = sent(standin)
    found = {**body, "tools": tools_of(body), "ids": IDS & set(body)}
    assert (answer.error, found.get(field)) == (None, expected)


# --- web search


@pytest.mark.parametrize("search", ["auto", "on"])
async def test_a_search_is_announced_and_replayed(new_chat: NewChat, standin: StandIn, search: str) -> None:
    """The next turn holds the search and the page as the router sent them, and is accepted."""
    chat = new_chat(WEB_SEARCH=search)
    first = await chat.ask("Read https://example.com/a and search the web for tall cats.")
    second = await chat.ask("Thank you.")
    assert (first.error, second.error) == (None, None)
    assert first.notices == (
        "Reading a web page...",
        "Read https://example.com/a",
        "Searching the web...",
        "Searched the web for: tall cats.",
    )
    given, replayed = (
        [item for item in items if item["type"].startswith("openrouter:")]
        for items in (standin.responses[0].output, sent(standin)["input"])
    )
    assert [item["type"] for item in replayed] == SEARCHES
    assert replayed == given
    assert "example.org/found" in first.text


@pytest.mark.parametrize(
    ("search", "model", "notices", "finds"),
    [("on", GROK, 2, True), ("auto", GROK, 0, False), ("on", MYTHOMAX, 0, True)],
)
async def test_a_model_that_must_search_does(
    new_chat: NewChat, search: str, model: str, notices: int, *, finds: bool
) -> None:
    """With every question, by the plugin where it has no tools; one that may does so where it wants to."""
    answer = await new_chat(WEB_SEARCH=search, model=model).ask("Hello")
    assert (answer.error, len(answer.notices), "example.org/found" in answer.text) == (None, notices, finds)


async def test_where_nothing_may_be_kept_only_the_provider_searches(
    new_chat: NewChat, standin: StandIn
) -> None:
    """A model whose provider has no search gets none, which is said; PDFs are read by the model or not at all."""
    private = {"ZDR": True, "WEB_SEARCH": "auto", "WEB_SEARCH_ENGINE": "exa"}
    assert (await new_chat(**private, model=CLAUDE).ask("Hello")).error is None
    engines = {each["type"]: each["parameters"]["engine"] for each in sent(standin)["tools"]}
    assert engines == {"openrouter:web_search": "native", "openrouter:web_fetch": "openrouter"}
    answer = await new_chat(**private, model="deepseek/deepseek-v3.2").ask("Hello")
    assert (answer.notices, tools_of(sent(standin))) == ((notice("search_keeps_data"),), [])
    by_call = new_chat(model=CLAUDE, role="admin", WEB_SEARCH="auto")
    call = by_call.call(provider={"zdr": "true"})
    for chosen in (new_chat(**private).settings, by_call.settings):
        permitted = await permit(new_chat.app.worker, call, chosen)
        assert permitted is not None
        found = permitted.settings
        assert (found.pdf_engine, found.media.parses_pdf) == ("native", False)
        assert found.controls.search.keeps_nothing
    unbound = await permit(new_chat.app.worker, replace(call, parameters={}), by_call.settings)
    assert unbound is not None
    assert (unbound.settings.media, unbound.settings.controls) == (
        by_call.settings.media,
        by_call.settings.controls,
    )


# --- routing


async def test_no_provider_left_is_said_before_anything_is_sent(new_chat: NewChat, standin: StandIn) -> None:
    """In one line; where nobody keeps nothing, the request is refused, and not sent to another one."""
    chat = new_chat(PROVIDER_ONLY="openai", USER_PARAMETERS="provider")
    answer = await chat.ask("Hello", provider={"only": ["azure"]})
    assert (answer.error, standin.responses) == (notice("no_provider_left"), [])
    answer = await new_chat(user=UserValves(ZDR=True)).ask("Hello")
    assert "provider" in (answer.error or "")
    assert [each.status for each in standin.responses] == [404]


async def test_a_task_goes_to_the_same_providers(new_chat: NewChat, standin: StandIn) -> None:
    """It holds the chat's text as well; but no fallbacks, tools or effort."""
    chat = new_chat(PROVIDER_ONLY="openai", FALLBACK_MODELS=CLAUDE, WEB_SEARCH="on")
    assert not [output for output in await chat.title() if isinstance(output, Failed)]
    assert sent(standin)["provider"] == {"only": ["openai"]}
    assert not {"models", "tools", "session_id"} & set(sent(standin))


async def test_a_summary_by_another_model_goes_to_the_same_providers(
    new_chat: NewChat, standin: StandIn
) -> None:
    """In the same user's name: it holds what the user wrote. The administrator's price limit is for all models."""
    valves = {"PROVIDER_IGNORE": "x", "PROVIDER_SORT": "price", "MAX_PRICE_INPUT": 100}
    chat = new_chat(model="standin/small", SUMMARY_MODEL="standin/plain", SEND_IDENTITY="user", **valves)
    for turn in range(8):
        await chat.ask(f"{turn} " + "a house by the sea " * 500)
    summaries = [response.body for response in standin.responses if response.is_summary]
    provider = {"ignore": ["x"], "max_price": {"prompt": "100"}}
    assert {(body["user"], str(body["provider"])) for body in summaries} == {
        (standin.responses[0].body["user"], str(provider))
    }


# --- the user's own key


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("sk-or-mine", None),
        ("sk-or-bad-secret", "own_key_rejected"),
        ("sk-or-poor-secret", "own_key_without_credits"),
        ("sk-or-schlüssel", "own_key_rejected"),
        ("", "own_key_unreadable"),
    ],
)
async def test_the_user_s_own_key_pays(
    new_chat: NewChat, standin: StandIn, caplog: pytest.LogCaptureFixture, key: str, line: str | None
) -> None:
    """It never falls back to the administrator's, by which models are listed; no log shows it."""
    caplog.set_level(logging.DEBUG)
    chat = new_chat()
    chat.settings = replace(chat.settings, controls=replace(chat.settings.controls, own_api_key=key))
    answer = await chat.ask("Hello")
    assert answer.error == (notice(line) if line else None)
    accounts = {(each.path, each.account) for each in standin.requests if each.path != "/responses"}
    assert accounts <= {("/models", account_of("sk-or-test"))}
    assert {each.account for each in standin.responses} <= {account_of(key)}
    assert bool(standin.responses) or line is not None
    assert not key or key not in caplog.text


# --- the cache of Anthropic, thinking, identity


def without_marks(items: Any) -> Any:
    """The prompt as the model reads it."""
    if isinstance(items, list):
        return [without_marks(item) for item in items]
    if not isinstance(items, dict):
        return items
    return {key: without_marks(value) for key, value in items.items() if key != "prompt_cache_breakpoint"}


@pytest.mark.parametrize(("pauses", "ttl"), [((), None), ((10.0, 20.0), None), ((900.0, 900.0), "1h")])
async def test_the_pauses_of_a_chat_choose_the_lifetime(
    tmp_path: Path, standin: StandIn, pauses: Sequence[float], ttl: str | None
) -> None:
    """What the model reads is the same, and the provider takes it; another one is never asked."""

    async def find(_call: Any) -> Sequence[float]:
        return pauses

    bodies = []
    async with app_on(tmp_path, chat_pauses=find) as app:
        new_chat = NewChat(app, standin)
        for valve in ("auto", "5m"):
            chat = new_chat(CACHE_TTL=valve, model=CLAUDE, chat_id=valve)
            assert [(await chat.ask(text)).error for text in ("One", "Two", "Three")] == [None] * 3
            bodies.append(sent(standin))
        await new_chat().ask("Hello")
    assert [body["cache_control"].get("ttl") for body in bodies] == [ttl, None]
    first, second = ([item for item in body["input"] if item.get("role") == "user"] for body in bodies)
    assert without_marks(first) == without_marks(second)
    assert (first == second) is (ttl is None)
    assert "cache_control" not in sent(standin)


@pytest.mark.parametrize(
    ("valves", "parameters", "expected"),
    [
        ({}, {"tools": [LOOK]}, "interleaved-thinking-2025-05-14"),
        ({}, {}, None),
        ({"INTERLEAVED_THINKING": False}, {"tools": [LOOK]}, None),
    ],
)
async def test_a_claude_with_tools_thinks_between_calls(
    new_chat: NewChat, standin: StandIn, valves: Any, parameters: Any, expected: str | None
) -> None:
    """By a header of its own; without tools, or without the valve, there is none."""
    await new_chat(model=CLAUDE, **valves).ask("Hello", **parameters)
    assert standin.responses[-1].headers.get("x-anthropic-beta") == expected


@pytest.mark.parametrize(("level", "is_own"), [("none", True), ("session", True), ("trace", False)])
async def test_nobody_takes_another_name(
    new_chat: NewChat, standin: StandIn, level: str, *, is_own: bool
) -> None:
    """Where the valve sends the user, it is under no other name that the user gives."""
    await new_chat(SEND_IDENTITY=level).ask("Hello", user="somebody else")
    assert (sent(standin)["user"] == "somebody else") is is_own
