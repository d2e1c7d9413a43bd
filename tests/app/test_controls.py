"""What users and administrators switch, through the app to the stand-in."""

from __future__ import annotations

import logging
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.permission import permit
from open_webui_openrouter_pipe.ports import Failed
from open_webui_openrouter_pipe.settings import Settings, read_settings
from open_webui_openrouter_pipe.valves import UserValves, Valves
from open_webui_openrouter_pipe.words.lines import notice
from scripts.standin.state import account_of
from tests.app.chat import Answer, Chat, app_on, settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

CLAUDE = "anthropic/claude-sonnet-4.5"
GROK = "x-ai/grok-4.1-fast"


def tool(name: str) -> dict[str, Any]:
    """One of the host's tools."""
    schema = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


LOOK = tool("look")


def with_user(standin: StandIn, user: UserValves, **valves: Any) -> Settings:
    """Settings for the stand-in, with these valves of the user."""
    return read_settings(Valves(API_KEY="sk-or-test", BASE_URL=standin.base_url, **valves), user)


async def asked(folder: Path, chosen: Settings, text: str = "Hello", **more: Any) -> Answer:
    """The answer to one question; the rest is a chat's fields, and of the host what `host` holds."""
    parameters, host = more.pop("parameters", {}), more.pop("host", {})
    async with app_on(folder, **host) as app:
        return await Chat(app, chosen, **more).ask(text, **parameters)


def sent(standin: StandIn) -> dict[str, Any]:
    """The body of the last request."""
    body: dict[str, Any] = standin.responses[-1].body
    return body


# --- web search


@pytest.mark.parametrize("search", ["auto", "on"])
async def test_a_search_is_announced_and_replayed(tmp_path: Path, standin: StandIn, search: str) -> None:
    """The next turn holds the search and the page as the router sent them, and is accepted."""
    async with app_on(tmp_path) as app:
        chat = Chat(app, settings(standin, WEB_SEARCH=search))
        first = await chat.ask("Read https://example.com/a and search the web for tall cats.")
        second = await chat.ask("Thank you.")
    assert (first.error, second.error) == (None, None)
    assert first.notices == (
        "Reading a web page...",
        "Read https://example.com/a",
        "Searching the web...",
        "Searched the web for: tall cats.",
    )
    given = [item for item in standin.responses[0].output if item["type"].startswith("openrouter:")]
    replayed = [item for item in sent(standin)["input"] if item["type"].startswith("openrouter:")]
    assert [item["type"] for item in replayed] == ["openrouter:web_fetch", "openrouter:web_search"]
    assert replayed == given
    assert "example.org/found" in first.text


async def test_a_model_that_must_search_does(tmp_path: Path, standin: StandIn) -> None:
    """With every question; one that may does so where it wants to."""
    assert (await asked(tmp_path, settings(standin, WEB_SEARCH="on"))).notices[0] == "Searching the web..."
    assert (await asked(tmp_path, settings(standin, WEB_SEARCH="auto"))).notices == ()


async def test_a_claude_that_thinks_is_not_forced(tmp_path: Path, standin: StandIn) -> None:
    """Its provider refuses that; it is offered the search."""
    chosen = settings(standin, WEB_SEARCH="on", REASONING_EFFORT="high")
    assert (await asked(tmp_path, chosen, model=CLAUDE)).error is None
    assert "openrouter:web_search" in [tool["type"] for tool in sent(standin)["tools"]]


async def test_a_model_without_tools_searches_by_the_plugin(tmp_path: Path, standin: StandIn) -> None:
    """Where it must."""
    chosen = settings(standin, WEB_SEARCH="on")
    answer = await asked(tmp_path, chosen, model="gryphe/mythomax-l2-13b")
    assert (answer.error, sent(standin)["plugins"]) == (None, [{"id": "web", "max_results": 5}])
    assert "example.org/found" in answer.text


async def test_users_choose_their_search(tmp_path: Path, standin: StandIn) -> None:
    """Also against the administrator's default."""
    await asked(tmp_path, with_user(standin, UserValves(WEB_SEARCH="off"), WEB_SEARCH="on"))
    assert "tools" not in sent(standin)
    await asked(tmp_path, with_user(standin, UserValves(WEB_SEARCH="auto")))
    assert len(sent(standin)["tools"]) == 2


HOST_SWITCH = {"features": {"web_search": True}, "tools": {"search_web": {"type": "builtin"}}}


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("host", ["look", "search_web"]),
        ("openrouter", ["look", "openrouter:web_fetch", "openrouter:web_search"]),
    ],
)
async def test_the_host_s_switch_has_one_searcher(
    tmp_path: Path, standin: StandIn, by: str, names: list[str]
) -> None:
    """That of the valve."""
    chosen = settings(standin, WEB_SEARCH="auto", WEB_SEARCH_BY=by)
    parameters = {"tools": [LOOK, tool("search_web")]}
    await asked(tmp_path, chosen, metadata=HOST_SWITCH, parameters=parameters)
    assert [tool.get("name", tool["type"]) for tool in sent(standin)["tools"]] == names


async def test_what_the_host_has_found_is_not_sought_again(tmp_path: Path, standin: StandIn) -> None:
    """With legacy function calling it searches before it calls the pipe."""
    chosen = settings(standin, WEB_SEARCH="on", WEB_SEARCH_BY="openrouter")
    await asked(tmp_path, chosen, metadata={"files": [{"type": "web_search", "urls": []}]})
    assert "tools" not in sent(standin)


async def test_a_bare_caller_gets_no_search(tmp_path: Path, standin: StandIn) -> None:
    """Nobody would show its sources."""
    await asked(tmp_path, settings(standin, WEB_SEARCH="on"), chat_id="")
    assert "tools" not in sent(standin)


# --- reasoning


async def test_the_user_s_effort(tmp_path: Path, standin: StandIn) -> None:
    """The nearest that the model supports, before the administrator's; `none` where it need not think."""
    most = UserValves(REASONING_EFFORT="max", REASONING_SUMMARY="off")
    await asked(tmp_path, with_user(standin, most, REASONING_EFFORT="low"), model=GROK)
    assert sent(standin)["reasoning"] == {"effort": "high"}
    none = UserValves(REASONING_EFFORT="none")
    for model, effort in ((GROK, "none"), ("google/gemini-3-pro", "minimal")):
        answer = await asked(tmp_path, with_user(standin, none), model=model)
        assert (answer.error, sent(standin)["reasoning"]["effort"]) == (None, effort)


async def test_a_hidden_valve_is_not_followed(tmp_path: Path, standin: StandIn) -> None:
    """Whatever the user had set while it was shown."""
    chosen = with_user(standin, UserValves(REASONING_EFFORT="max", ZDR=True), USER_CONTROLS="WEB_SEARCH")
    await asked(tmp_path, chosen)
    assert (sent(standin)["reasoning"], "provider" in sent(standin)) == ({"summary": "auto"}, False)


# --- routing


async def test_preferences_are_joined_with_the_user_s(tmp_path: Path, standin: StandIn) -> None:
    """Those of a call that may have any."""
    chosen = with_user(
        standin,
        UserValves(ZDR=True, PROVIDER_SORT="price"),
        PROVIDER_IGNORE="deepseek, x",
        MAX_PRICE_INPUT=5,
        USER_PARAMETERS="provider",
    )
    parameters = {"provider": {"zdr": False, "ignore": ["y"], "max_price": {"prompt": "9"}}}
    answer = await asked(tmp_path, chosen, model=CLAUDE, parameters=parameters)
    assert answer.error is None
    assert sent(standin)["provider"] == {
        "sort": "price",
        "zdr": True,
        "ignore": ["deepseek", "x", "y"],
        "max_price": {"prompt": "5"},
    }


async def test_no_provider_left_is_said_before_anything_is_sent(tmp_path: Path, standin: StandIn) -> None:
    """In one line."""
    chosen = settings(standin, PROVIDER_ONLY="openai", USER_PARAMETERS="provider")
    answer = await asked(tmp_path, chosen, parameters={"provider": {"only": ["azure"]}})
    assert (answer.error, standin.responses) == (notice("no_provider_left"), [])


async def test_a_task_goes_to_the_same_providers(tmp_path: Path, standin: StandIn) -> None:
    """It holds the chat's text as well; but no fallbacks, tools or effort."""
    chosen = settings(standin, PROVIDER_ONLY="openai", FALLBACK_MODELS=CLAUDE, WEB_SEARCH="on")
    body = {"model": "openrouter.openai/gpt-5.2", "messages": [{"role": "user", "content": "Title?"}]}
    call = read_call(body, user={"id": "ada"}, metadata={"chat_id": "c"}, task="title_generation")
    async with app_on(tmp_path) as app, aclosing(app.answer(call, chosen)) as outputs:
        assert not [output async for output in outputs if isinstance(output, Failed)]
    assert sent(standin)["provider"] == {"only": ["openai"]}
    assert not {"models", "tools", "session_id"} & set(sent(standin))


async def test_a_fallback_answers(tmp_path: Path, standin: StandIn) -> None:
    """Where no provider of the chosen model may."""
    chosen = settings(standin, PROVIDER_ONLY="anthropic", FALLBACK_MODELS=f"b/unknown, {CLAUDE}")
    answer = await asked(tmp_path, chosen)
    assert (answer.error, sent(standin)["models"]) == (None, [CLAUDE])
    assert CLAUDE in answer.text


async def test_nobody_who_keeps_nothing_is_an_error(tmp_path: Path, standin: StandIn) -> None:
    """The request is refused, and not sent to another one."""
    answer = await asked(tmp_path, with_user(standin, UserValves(ZDR=True)))
    assert "provider" in (answer.error or "")
    assert standin.responses[-1].status == 404


async def test_where_nothing_may_be_kept_only_the_provider_searches(tmp_path: Path, standin: StandIn) -> None:
    """A model whose provider has no search gets none, which is said; PDFs are read by the model or not at all."""
    private = settings(standin, ZDR=True, WEB_SEARCH="auto", WEB_SEARCH_ENGINE="exa")
    assert (await asked(tmp_path, private, model=CLAUDE)).error is None
    engines = {each["type"]: each["parameters"]["engine"] for each in sent(standin)["tools"]}
    assert engines == {"openrouter:web_search": "native", "openrouter:web_fetch": "openrouter"}
    answer = await asked(tmp_path, private, model="deepseek/deepseek-v3.2")
    assert answer.notices == (notice("search_keeps_data"),)
    assert "tools" not in sent(standin)
    by_call = settings(standin, WEB_SEARCH="auto")
    call = read_call(
        {"model": f"x.{CLAUDE}", "messages": [], "provider": {"zdr": "true"}},
        user={"id": "ada", "role": "admin"},
        metadata={"chat_id": "c", "message_id": "m"},
        task=None,
    )
    async with app_on(tmp_path) as app:
        for chosen in (private, by_call):
            permitted = await permit(app.worker, call, chosen)
            assert permitted is not None
            found = permitted.settings
            assert (found.pdf_engine, found.media.parses_pdf) == ("native", False)
            assert found.controls.search.keeps_nothing
        unbound = await permit(app.worker, replace(call, parameters={}), by_call)
        assert unbound is not None
        assert (unbound.settings.media, unbound.settings.controls) == (by_call.media, by_call.controls)


# --- the user's own key


def with_key(standin: StandIn, key: str) -> Settings:
    """Settings of a user with this key."""
    chosen = settings(standin)
    return replace(chosen, controls=replace(chosen.controls, own_api_key=key))


async def test_the_user_s_own_key_pays(tmp_path: Path, standin: StandIn) -> None:
    """For the request; the list of models is the administrator's."""
    await asked(tmp_path, with_key(standin, "sk-or-mine"))
    accounts = {record.path: record.account for record in standin.requests}
    assert accounts == {"/models": account_of("sk-or-test"), "/responses": account_of("sk-or-mine")}


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("sk-or-bad-secret", "own_key_rejected"),
        ("sk-or-poor-secret", "own_key_without_credits"),
        ("sk-or-schlüssel", "own_key_rejected"),
        ("", "own_key_unreadable"),
    ],
)
async def test_what_is_wrong_with_an_own_key_is_said_to_its_owner(
    tmp_path: Path, standin: StandIn, caplog: pytest.LogCaptureFixture, key: str, line: str
) -> None:
    """It never falls back to the administrator's, and no log shows it."""
    caplog.set_level(logging.DEBUG)
    error = (await asked(tmp_path, with_key(standin, key))).error
    assert error == notice(line)
    assert account_of("sk-or-test") not in [record.account for record in standin.responses]
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
    for valve in ("auto", "5m"):
        async with app_on(tmp_path, chat_pauses=find) as app:
            chat = Chat(app, settings(standin, CACHE_TTL=valve), model=CLAUDE)
            assert [(await chat.ask(text)).error for text in ("One", "Two", "Three")] == [None] * 3
        bodies.append(sent(standin))
    assert [body["cache_control"].get("ttl") for body in bodies] == [ttl, None]
    first, second = ([item for item in body["input"] if item.get("role") == "user"] for body in bodies)
    assert without_marks(first) == without_marks(second)
    assert (first == second) is (ttl is None)
    await asked(tmp_path, settings(standin), host={"chat_pauses": find})
    assert "cache_control" not in sent(standin)


async def test_a_claude_with_tools_thinks_between_calls(tmp_path: Path, standin: StandIn) -> None:
    """By a header of its own; without tools, or without the valve, there is none."""
    header = "x-anthropic-beta"
    await asked(tmp_path, settings(standin), model=CLAUDE, parameters={"tools": [LOOK]})
    assert standin.responses[-1].headers[header] == "interleaved-thinking-2025-05-14"
    await asked(tmp_path, settings(standin), model=CLAUDE)
    assert header not in standin.responses[-1].headers
    off = settings(standin, INTERLEAVED_THINKING=False)
    await asked(tmp_path, off, model=CLAUDE, parameters={"tools": [LOOK]})
    assert header not in standin.responses[-1].headers


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("none", set()),
        ("session", {"session_id", "prompt_cache_key"}),
        ("trace", {"session_id", "prompt_cache_key", "user", "trace"}),
    ],
)
async def test_what_is_sent_of_who_asks(
    tmp_path: Path, standin: StandIn, level: str, names: set[str]
) -> None:
    """As the valve has it, and under no other name that the user gives."""
    chosen = settings(standin, SEND_IDENTITY=level)
    await asked(tmp_path, chosen)
    assert set(sent(standin)) & {"session_id", "prompt_cache_key", "user", "trace"} == names
    await asked(tmp_path, chosen, parameters={"user": "somebody else"})
    assert (sent(standin)["user"] == "somebody else") is (level != "trace")


async def test_a_summary_by_another_model_goes_to_the_same_providers(
    tmp_path: Path, standin: StandIn
) -> None:
    """In the same user's name: it holds what the user wrote. The administrator's price limit is for all models."""
    chosen = settings(
        standin,
        SUMMARY_MODEL="standin/plain",
        PROVIDER_IGNORE="x",
        PROVIDER_SORT="price",
        MAX_PRICE_INPUT=100,
        SEND_IDENTITY="user",
    )
    async with app_on(tmp_path) as app:
        chat = Chat(app, chosen, model="standin/small")
        for turn in range(8):
            await chat.ask(f"{turn} " + "a house by the sea " * 500)
    summaries = [response.body for response in standin.responses if response.is_summary]
    assert summaries
    user = standin.responses[0].body["user"]
    provider = {"ignore": ["x"], "max_price": {"prompt": "100"}}
    assert {(body["user"], str(body["provider"])) for body in summaries} == {(user, str(provider))}
