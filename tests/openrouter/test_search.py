"""Web search: who searches, what a request carries for it, and for how long it has to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.openrouter.search import (
    HostSearch,
    SearchMode,
    SearchSettings,
    most_searches,
    search_mode,
    with_search,
)

MODEL = read_models({"data": [{"id": "openai/gpt", "supported_parameters": ["tools"]}]})[0]
TOOLLESS = replace(MODEL, supported_parameters=frozenset({"temperature"}))
AUTO, ON = SearchSettings("auto"), SearchSettings("on")
SEARCH = {"type": "openrouter:web_search", "parameters": {"max_results": 5, "max_uses": 5}}
FETCH = {"type": "openrouter:web_fetch", "parameters": {"max_uses": 5}}
MUST = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "openrouter:web_search"}]}
PLUGIN = {"id": "web", "max_results": 5}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("mode", "by", "host", "expected"),
    [
        ("off", "host", "", "off"),
        ("auto", "host", "", "auto"),
        ("on", "openrouter", "", "on"),
        ("off", "host", "offered", "off"),
        ("on", "host", "offered", "off"),
        ("off", "openrouter", "offered", "auto"),
        ("on", "openrouter", "offered", "on"),
        ("on", "openrouter", "done", "off"),
        ("auto", "host", "done", "off"),
    ],
)
def test_who_searches(mode: SearchMode, by: Any, host: HostSearch, expected: SearchMode) -> None:
    """Never both: what Open WebUI has found is not sought again, and its switch has the searcher of the valve."""
    assert search_mode(SearchSettings(mode, host_switch_by=by), host) == expected


@pytest.mark.parametrize(
    ("settings", "given", "model_id", "expected"),
    [
        (SearchSettings(), {"a": 1}, "openai/gpt", {"a": 1}),
        (AUTO, {"a": 1}, "openai/gpt", {"a": 1, "tools": [SEARCH, FETCH]}),
        (AUTO, {"tools": [tool("look")]}, "openai/gpt", {"tools": [tool("look"), SEARCH, FETCH]}),
        (ON, {}, "openai/gpt", {"tools": [SEARCH, FETCH], "tool_choice": MUST}),
        (ON, {"tool_choice": "none"}, "openai/gpt", {"tools": [SEARCH, FETCH], "tool_choice": "none"}),
        (ON, {}, "~anthropic/claude", {"tools": [SEARCH, FETCH]}),
        (ON, {}, "openai/gpt:online", {}),
        (ON, {"plugins": [{"id": "web"}]}, "openai/gpt", {"plugins": [{"id": "web"}]}),
        (ON, {"tools": [SEARCH]}, "openai/gpt", {"tools": [SEARCH]}),
        (ON, {"tools": [{"type": "web_search_preview"}]}, "x/y", {"tools": [{"type": "web_search_preview"}]}),
        (replace(AUTO, fetches=False), {}, "openai/gpt", {"tools": [SEARCH]}),
        (
            SearchSettings("auto", "exa", 3, 2, fetches=False),
            {},
            "openai/gpt",
            {
                "tools": [
                    {**SEARCH, "parameters": {"engine": "exa", "max_results": 3, "max_uses": 2}},
                ]
            },
        ),
    ],
)
def test_what_a_request_carries(
    settings: SearchSettings, given: dict[str, Any], model_id: str, expected: dict[str, Any]
) -> None:
    """The tools, and where the model must search the choice of one; nothing where it searches already."""
    assert with_search(given, settings, "", model=MODEL, model_id=model_id) == expected


@pytest.mark.parametrize(("settings", "expected"), [(AUTO, {}), (ON, {"plugins": [PLUGIN]})])
def test_a_model_without_tools_searches_by_the_plugin(
    settings: SearchSettings, expected: dict[str, Any]
) -> None:
    """Which always searches, so only where it must."""
    assert with_search({}, settings, "", model=TOOLLESS, model_id="a/b") == expected


def test_the_tools_of_the_host_make_room() -> None:
    """Where OpenRouter searches in its place; its other tools stay."""
    given = {"tools": [tool("search_web"), tool("look"), tool("fetch_url")]}
    by_openrouter = SearchSettings(host_switch_by="openrouter", fetches=False)
    sent = with_search(given, by_openrouter, "offered", model=MODEL, model_id="openai/gpt")
    assert sent == {"tools": [tool("look"), SEARCH]}
    assert with_search(given, SearchSettings("on"), "offered", model=MODEL, model_id="openai/gpt") == given


def test_a_model_has_to_search_once_a_turn() -> None:
    """A request that goes on after a tool's result would be forced again and again."""
    composer = Composer({"tools": [SEARCH], "tool_choice": MUST}, model=MODEL, model_id="openai/gpt")
    question: Any = {"type": "message", "role": "user", "content": []}
    output: Any = {"type": "function_call_output", "call_id": "1", "output": ""}
    answer: Any = {"type": "message", "role": "assistant", "content": []}
    picture: Any = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
    chats: Any = (
        [question],
        [question, output],
        [answer],
        [question, output, picture],
        [answer, question],
        [],
    )
    choices = [composer.build(items).body.get("tool_choice") for items in chats]
    assert choices == [MUST, None, None, None, MUST, None]


def test_where_nothing_may_be_kept_the_provider_searches_itself() -> None:
    """Whoever the administrator has chosen; no model searches whose provider does not, and pages are read directly."""
    private = SearchSettings("on", "exa", keeps_nothing=True)
    searching = replace(MODEL, price_search=0.01)
    sent = with_search({}, private, "", model=searching, model_id="openai/gpt")
    search, fetch = sent["tools"]
    assert search["parameters"] == {"engine": "native", "max_results": 5, "max_uses": 5}
    assert fetch["parameters"] == {"engine": "openrouter", "max_uses": 5}
    toolless = replace(TOOLLESS, price_search=0.01)
    plugin = {**PLUGIN, "engine": "native"}
    assert with_search({}, private, "", model=toolless, model_id="a/b") == {"plugins": [plugin]}
    for model in (MODEL, TOOLLESS, None, replace(MODEL, price_search=0.0)):
        assert with_search({}, private, "", model=model, model_id="a/b") == {}


@pytest.mark.parametrize(
    ("parameters", "model_id", "searches"),
    [
        ({}, "a/b", 0),
        ({"tools": [SEARCH, FETCH, tool("look")]}, "a/b", 5),
        ({"tools": [{"type": "openrouter:web_search"}]}, "a/b", 1),
        ({"plugins": [PLUGIN, {"id": "file-parser", "max_uses": 9}]}, "a/b", 1),
        ({"plugins": [{**PLUGIN, "max_uses": 3}]}, "a/b:online", 4),
        ({"tools": [{"type": "openrouter:web_search", "parameters": {"max_uses": "many"}}]}, "a/b", 1),
        ({"tools": "x", "plugins": None}, "a/b", 0),
    ],
)
def test_how_often_a_request_may_search(parameters: dict[str, Any], model_id: str, searches: int) -> None:
    """As often as its tools and plugins say; once where they do not."""
    assert most_searches(parameters, model_id) == searches


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "look"}])
def test_a_caller_s_own_choice_stays(choice: Any) -> None:
    """However far the turn has gone."""
    composer = Composer({"tools": [tool("look")], "tool_choice": choice}, model=MODEL, model_id="openai/gpt")
    output: Any = {"type": "function_call_output", "call_id": "1", "output": ""}
    assert composer.build([output]).body["tool_choice"] == choice


def test_a_search_adds_to_the_bill_of_the_input() -> None:
    """So that it does not teach how the model counts."""
    assert Composer({"tools": [SEARCH]}, model=MODEL, model_id="openai/gpt").has_added_input
    assert not Composer({"tools": [tool("look")]}, model=MODEL, model_id="openai/gpt").has_added_input
