"""What users and administrators switch, through the app to the stand-in."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.openrouter.catalog import LISTS
from open_webui_openrouter_pipe.ports import Failed
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import notice
from scripts.standin.state import account_of
from tests.app.chat import NewChat, app_on, sent
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

CLAUDE, GROK, MYTHOMAX = "anthropic/claude-sonnet-4.5", "x-ai/grok-4.1-fast", "gryphe/mythomax-l2-13b"
LOOK, SEARCH = (
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "search_web")
)
NAMES = {
    "CLAUDE": CLAUDE,
    "LOOK": LOOK,
    "SEARCH": SEARCH,
    "HOST_SEARCHES": {"features": {"web_search": True}, "tools": {"search_web": {"type": "builtin"}}},
    "WIDE": {"IMAGE_ASPECT_RATIO": "16:9", "IMAGE_SIZE": "2K"},
}
"""Values that many rows have."""
IDS = ("prompt_cache_key", "session_id", "trace", "user")


@pytest.mark.parametrize(
    ("chosen", "parameters", "part", "expected"),
    rows(
        Path(__file__).with_name("requests.txt"),
        "valves and what else a chat has | parameters of the call => a part of the request | its value",
        NAMES,
    ),
)
async def test_a_request_follows_the_valves(
    new_chat: NewChat, standin: StandIn, chosen: Any, parameters: Any, part: str, expected: Any
) -> None:
    """Those of the administrator and of the user, as far as it may choose; the provider takes it."""
    chosen = {**chosen, "user": UserValves(**chosen.get("user", {}))}
    answer = await new_chat(**chosen).ask("Hello", **parameters)
    body, offered = sent(standin), sent(standin).get("tools", [])
    found = {
        **body,
        "tools": [each.get("name", each["type"]) for each in offered],
        "engines": [each["parameters"].get("engine") for each in offered if ":" in each["type"]],
        "ids": [name for name in IDS if name in body],
        "renamed": body.get("user") == "somebody else",
        "images": [body.get("modalities"), body.get("image_config")],
        **standin.responses[-1].headers,
    }
    assert (answer.error, found.get(part)) == (None, expected)


# --- web search


async def test_a_search_is_announced_and_replayed(new_chat: NewChat, standin: StandIn) -> None:
    """The next turn holds the search and the page as the router sent them, and is accepted."""
    chat = new_chat(WEB_SEARCH="auto")
    first = await chat.ask("Read https://example.com/a and search the web for tall cats.")
    second = await chat.ask("Thank you.")
    assert (first.error, second.error, "example.org/found" in first.text) == (None, None, True)
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
    assert replayed == given
    assert [item["type"] for item in given] == ["openrouter:web_fetch", "openrouter:web_search"]


@pytest.mark.parametrize(
    ("valves", "model", "notices", "finds"),
    [
        ({"WEB_SEARCH": "on"}, GROK, 2, True),
        ({"WEB_SEARCH": "auto"}, GROK, 0, False),
        ({"WEB_SEARCH": "on"}, MYTHOMAX, 0, True),
    ],
)
async def test_a_model_that_must_search_does(
    new_chat: NewChat, valves: Any, model: str, notices: int, *, finds: bool
) -> None:
    """With every question, by the plugin where it has no tools; one that may does so where it wants to."""
    answer = await new_chat(**valves, model=model).ask("Hello")
    assert (answer.error, len(answer.notices), "example.org/found" in answer.text) == (None, notices, finds)


# --- routing


async def test_no_provider_left_is_said_before_anything_is_sent(new_chat: NewChat, standin: StandIn) -> None:
    """In one line; where nobody keeps nothing, no search is offered, and the request is not sent elsewhere."""
    chat = new_chat(PROVIDER_ONLY="openai", USER_PARAMETERS="provider")
    answer = await chat.ask("Hello", provider={"only": ["azure"]})
    assert (answer.error, standin.responses) == (notice("no_provider_left"), [])
    valves = UserValves(ZDR=True, WEB_SEARCH="auto")
    answer = await new_chat(user=valves, model="deepseek/deepseek-v3.2").ask("Hello")
    assert ("provider" in (answer.error or ""), answer.notices) == (
        True,
        (notice("tools_keep_data", names=(notice("switch_web_search"),)),),
    )
    assert "tools" not in sent(standin)
    assert [each.status for each in standin.responses] == [404]


async def test_tasks_and_summaries_go_to_the_same_providers(new_chat: NewChat, standin: StandIn) -> None:
    """They hold the chat's text as well, in the same user's name; but no fallbacks, tools, effort or sorting."""
    valves = {
        "PROVIDER_IGNORE": "x",
        "PROVIDER_SORT": "price",
        "MAX_PRICE_INPUT": 100,
        "SEND_IDENTITY": "user",
    }
    chat = new_chat(
        model="standin/small",
        SUMMARY_MODEL="standin/plain",
        FALLBACK_MODELS=CLAUDE,
        WEB_SEARCH="on",
        **valves,
    )
    for turn in range(8):
        await chat.ask(f"{turn} " + "a house by the sea " * 500)
    provider = {"ignore": ["x"], "max_price": {"prompt": "100"}}
    summaries = [each.body for each in standin.responses if each.is_summary]
    assert [(each["user"], each["provider"]) for each in summaries] == [
        (standin.responses[0].body["user"], provider)
    ] * len(summaries)
    assert summaries
    assert not [output for output in await chat.title() if isinstance(output, Failed)]
    assert sent(standin)["provider"] == {**provider, "sort": "price"}
    assert not {"models", "tools", "session_id"} & set(sent(standin))


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
    chat.settings = replace(chat.settings, controls=replace(chat.settings.controls, own_api_key=Secret(key)))
    answer = await chat.ask("Hello")
    assert answer.error == (notice(line) if line else None)
    accounts = {(each.path, each.account) for each in standin.requests if each.path != "/responses"}
    assert {path for path, _ in accounts} <= {"/models/user", *LISTS.values()}
    assert {account for _, account in accounts} <= {account_of("sk-or-test")}
    assert {each.account for each in standin.responses} <= {account_of(key)}
    assert bool(standin.responses) or line is not None
    assert not key or key not in caplog.text


# --- the cache of Anthropic


@pytest.mark.parametrize(("pauses", "ttl"), [((), None), ((10.0, 20.0), None), ((900.0, 900.0), "1h")])
async def test_the_pauses_of_a_chat_choose_the_lifetime(
    tmp_path: Path, standin: StandIn, pauses: Sequence[float], ttl: str | None
) -> None:
    """Unless the valve does; the provider takes it, and another one is never asked."""

    async def find(_call: Any) -> Sequence[float]:
        return pauses

    async with app_on(tmp_path, chat_pauses=find) as app:
        new_chat = NewChat(app, standin)
        for valve, expected in (("auto", ttl), ("5m", None)):
            chat = new_chat(CACHE_TTL=valve, model=CLAUDE, chat_id=valve)
            assert [(await chat.ask(text)).error for text in ("One", "Two", "Three")] == [None] * 3
            assert sent(standin)["cache_control"].get("ttl") == expected
        await new_chat().ask("Hello")
    assert "cache_control" not in sent(standin)
