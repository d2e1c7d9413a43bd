"""Web search: who searches, what a request carries for it, and for how long it has to: see `bodies.txt`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.openrouter.search import (
    HostSearch,
    SearchMode,
    SearchSettings,
    most_searches,
    search_mode,
    with_search,
)
from open_webui_openrouter_pipe.ports import Model
from tests.openrouter.test_fields import BODIES
from tests.support.rows import rows

MODEL = Model("openai/gpt", "G", supported_parameters=frozenset({"tools"}))
MODELS: Final = {
    "a/toolless": replace(MODEL, supported_parameters=frozenset({"temperature"})),
    "a/searches": replace(MODEL, price_search=0.01),
    "a/unknown": None,
}
MUST = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "openrouter:web_search"}]}
NAMES: Final = {
    "SEARCH": {"type": "openrouter:web_search", "parameters": {"max_results": 5, "max_uses": 5}},
    "NATIVE": {
        "type": "openrouter:web_search",
        "parameters": {"engine": "native", "max_results": 5, "max_uses": 5},
    },
    "FETCH": {"type": "openrouter:web_fetch", "parameters": {"max_uses": 5}},
    "LOOK": {"type": "function", "function": {"name": "look"}},
    "MUST": MUST,
}


@pytest.mark.parametrize(("mode", "by", "host", "expected"), rows(BODIES, "who searches"))
def test_who_searches(mode: SearchMode, by: Any, host: HostSearch, expected: SearchMode) -> None:
    """Never both: what Open WebUI has found is not sought again, and its switch has the searcher of the valve."""
    assert search_mode(SearchSettings(mode, host_switch_by=by), host) == expected


@pytest.mark.parametrize(("given", "settings", "model_id", "expected"), rows(BODIES, "searching", NAMES))
def test_what_a_request_carries(
    given: dict[str, Any], settings: dict[str, Any], model_id: str, expected: dict[str, Any]
) -> None:
    """The tools, and where the model must search the choice of one; nothing where it searches already.

    A model without tools can only be made to search, by the plugin. Where nothing may be kept, the provider searches
    itself, whoever the administrator has chosen, and pages are read directly.
    """
    model = MODELS.get(model_id, MODEL)
    assert with_search(given, SearchSettings(**settings), "", model=model, model_id=model_id) == expected


def test_the_tools_of_the_host_make_room() -> None:
    """Where OpenRouter searches in its place; its other tools stay."""
    look = NAMES["LOOK"]
    host = [{"type": "function", "function": {"name": name}} for name in ("search_web", "fetch_url")]
    given = {"tools": [host[0], look, host[1]]}
    by_openrouter = SearchSettings(host_switch_by="openrouter", fetches=False)
    sent = with_search(given, by_openrouter, "offered", model=MODEL, model_id="openai/gpt")
    assert sent == {"tools": [look, NAMES["SEARCH"]]}
    assert with_search(given, SearchSettings("on"), "offered", model=MODEL, model_id="openai/gpt") == given


def test_a_model_has_to_search_once_a_turn() -> None:
    """A request that goes on after a tool's result would be forced again and again; any other choice stays."""
    question: Any = {"type": "message", "role": "user", "content": []}
    output: Any = {"type": "function_call_output", "call_id": "1", "output": ""}
    answer: Any = {"type": "message", "role": "assistant", "content": []}
    picture: Any = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
    chats: Any = [
        *([question], [question, output], [answer], [question, output, picture], [answer, question], []),
    ]
    for choice, kept in ((MUST, [MUST, None, None, None, MUST, None]), ("required", ["required"] * 6)):
        parameters = {"tools": [NAMES["SEARCH"], NAMES["LOOK"]], "tool_choice": choice}
        composer = Composer(parameters, model=MODEL, model_id="openai/gpt")
        assert [composer.build(items).body.get("tool_choice") for items in chats] == kept


@pytest.mark.parametrize(("parameters", "model_id", "searches"), rows(BODIES, "searches of a request", NAMES))
def test_how_often_a_request_may_search(parameters: dict[str, Any], model_id: str, searches: int) -> None:
    """As often as its tools and plugins say; once where they do not."""
    assert most_searches(parameters, model_id) == searches
