"""Parameters of one call, joined with the input of each of its requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.planning.plan import CacheMarks
from open_webui_openrouter_pipe.responses.values import wire_name
from tests.openrouter.test_request import MODEL


def test_the_same_parameters_for_each_input() -> None:
    """Each input gets the call's parameters, and the host's names of tools that were renamed."""
    name = "server.look"
    parameters = {"temperature": 0.5, "tools": [{"type": "function", "function": {"name": name}}]}
    composer = Composer(parameters, model=None, model_id="a/m")
    items: Any = [{"type": "message", "role": "user", "content": []}]
    built = composer.build(items)
    assert (built.body["input"], built.body["temperature"]) == (items, 0.5)
    assert built.host_tool_names == {wire_name(name): name}


def test_what_a_planner_needs_is_read_from_the_parameters() -> None:
    """The models that may answer, the tools, the output limit and the plugins, in the form in which they are sent."""
    parameters = {
        "models": ["a/n"],
        "tools": [{"type": "function", "function": {"name": "look"}}],
        "max_tokens": "50",
        "plugins": [{"id": "web"}],
    }
    given = Composer(parameters, model=None, model_id="a/m")
    none = Composer({}, model=None, model_id="a/m")
    body = given.build([]).body
    assert (given.model_ids, given.tools) == (("a/m", "a/n"), tuple(body["tools"]))
    assert (given.max_output_tokens, given.has_added_input) == (50, True)
    assert (none.model_ids, none.tools) == (("a/m",), ())
    assert (none.max_output_tokens, none.has_added_input) == (None, False)
    assert Composer({}, model=None, model_id="a/m:online").has_added_input


MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def text(role: str, words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": words, **fields}]}


def test_explicit_caches_get_breakpoints() -> None:
    """Only where the provider needs them, and only when it is known where the stable blocks end."""
    items: Any = [text("system", "brief"), text("user", "one")]
    marked = [text("system", "brief", **MARK), text("user", "one")]
    two, none = CacheMarks(1, 1, 1, 1), CacheMarks(0, 0, 0, 0)
    claude = Composer({}, model=None, model_id="anthropic/claude")
    other = Composer({}, model=None, model_id="openai/gpt")
    inputs = [
        composer.build(items, marks).body["input"]
        for composer, marks in ((claude, two), (claude, none), (claude, None), (other, two))
    ]
    assert inputs == [marked, items, items, items]


def test_what_is_kept_an_hour_gets_breakpoints_where_text_changes() -> None:
    """Then it is kept five minutes: without them nothing would be found again, with them no longer time is taken."""
    items: Any = [text("system", "brief"), text("system", "it is noon"), text("user", "one")]
    marked = [text("system", "brief", **MARK), *items[1:]]
    hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    claude = Composer(hour, model=None, model_id="anthropic/claude")
    bodies = [claude.build(items, CacheMarks(1, 1, 1, 1, current)).body for current in (1, 2)]
    assert [body["cache_control"] for body in bodies] == [hour["cache_control"], {"type": "ephemeral"}]
    assert [body["input"] for body in bodies] == [items, marked]


PARAMETERS = {
    "temperature": 0.5,
    "tools": [{"type": "function", "function": {"name": "look"}}],
    "tool_choice": "required",
    "max_tokens": 50,
    "plugins": [{"id": "web"}],
    "response_format": {"type": "json_object"},
    "stop": ["END"],
    "session_id": "s",
    "modalities": ["image", "text"],
    "image_config": {"aspect_ratio": "16:9"},
}


def test_a_summary_request_keeps_what_the_cache_depends_on() -> None:
    """Nothing that would force a call, search the web, ask for a form, or cut the answer short."""
    items: Any = [text("user", "one")]
    composer = Composer(PARAMETERS, model=None, model_id="openai/gpt")
    live, summary = composer.build(items).body, composer.build_summary_request(items, output_tokens=900)
    changed = {"tool_choice": "none", "max_output_tokens": 900}
    omitted = {"plugins", "text", "stop", "modalities", "image_config"}
    assert omitted <= set(live)
    assert summary == {**{name: value for name, value in live.items() if name not in omitted}, **changed}


@pytest.mark.parametrize(
    ("effort", "limit"),
    [({}, 900), ({"reasoning_effort": "high"}, None), ({"reasoning": {"effort": "low"}}, None)],
    ids=["no effort", "effort", "effort of reasoning"],
)
def test_anthropic_is_asked_with_the_same_choice_and_budget(
    effort: dict[str, Any], limit: int | None
) -> None:
    """Both belong to what its cache is found by, where an effort is a share of the output limit."""
    items: Any = [text("system", "brief"), text("user", "one")]
    parameters = {
        name: value for name, value in PARAMETERS.items() if name not in {"max_tokens", "tool_choice"}
    }
    composer = Composer({**parameters, **effort}, model=None, model_id="anthropic/claude")
    summary = composer.build_summary_request(items, CacheMarks(1, 1, 1, 1), output_tokens=900)
    assert (summary.get("tool_choice"), summary.get("max_output_tokens")) == (None, limit)
    assert summary["input"] == [text("system", "brief", **MARK), text("user", "one")]


def test_a_question_of_its_own_has_what_was_asked_for_such() -> None:
    """A form, say; without marks nothing is cached, and no choice has to be the same."""
    form = {"text": {"format": {"type": "json_object"}}}
    composer = Composer({"session_id": "s"}, model=None, model_id="anthropic/claude", summary_parameters=form)
    body = composer.build_summary_request([], output_tokens=900)
    assert (body["text"], body["max_output_tokens"]) == (form["text"], 900)
    assert "text" not in composer.build([]).body


def test_a_tool_that_is_omitted_is_not_the_choice() -> None:
    """A provider refuses a choice of a tool that the request does not have; any other choice stays."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("get_time", "weather")]
    choice = {"type": "function", "function": {"name": "get_time"}}
    chosen = Composer({"tools": tools, "tool_choice": choice}, model=None, model_id="a/m")
    required = Composer({"tools": tools, "tool_choice": "required"}, model=None, model_id="a/m")
    assert "tool_choice" not in chosen.build([], omitted_tools={"get_time"}).body
    assert chosen.build([], omitted_tools={"weather"}).body["tool_choice"]["name"] == "get_time"
    assert required.build([], omitted_tools={"get_time"}).body["tool_choice"] == "required"


LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
OWN = {"type": "function", "name": "recall", "parameters": {"type": "object", "properties": {}}}


def names(body: Mapping[str, Any]) -> list[str]:
    return [tool["name"] for tool in body.get("tools", [])]


def test_tools_of_ours_stand_behind_all_others() -> None:
    """In summary requests as well, which share the chat's cache; without them both are as they always were."""
    parameters = {name: value for name, value in PARAMETERS.items() if name != "tool_choice"}
    plain = Composer(parameters, model=None, model_id="openai/gpt")
    composer = Composer(parameters, model=None, model_id="openai/gpt", own_tools=[OWN])
    assert names(composer.build([]).body) == ["look", "recall"]
    assert names(composer.build_summary_request([], output_tokens=9)) == ["look", "recall"]
    omitted = {"recall"}
    assert list(composer.build([], omitted_tools=omitted).body.items()) == list(plain.build([]).body.items())
    without = composer.build_summary_request([], output_tokens=9, omitted_tools=omitted)
    assert without == plain.build_summary_request([], output_tokens=9)


def test_a_chat_without_tools_is_the_same_until_ours_comes() -> None:
    """A choice that was meant for other tools does not force a call of ours."""
    parameters = {"tool_choice": "required", "temperature": 0.5}
    plain = Composer(parameters, model=MODEL, model_id="openai/gpt")
    composer = Composer(parameters, model=MODEL, model_id="openai/gpt", own_tools=[OWN])
    without = composer.build([], omitted_tools={"recall"}).body
    assert list(without.items()) == list(plain.build([]).body.items())
    offered = composer.build([]).body
    assert (names(offered), offered.get("tool_choice")) == (["recall"], None)


@pytest.mark.parametrize("tools", [[], [LOOK]], ids=["alone", "beside another"])
def test_ours_are_sent_like_any_other(tools: list[Any]) -> None:
    """Byte for byte as if the host had sent them; fallback models come before all tools."""
    parameters = {"models": ["a/n"], "temperature": 0.5}
    composer = Composer({**parameters, "tools": tools}, model=MODEL, model_id="openai/gpt", own_tools=[OWN])
    of_host = Composer({**parameters, "tools": [*tools, OWN]}, model=MODEL, model_id="openai/gpt")
    assert json.dumps(composer.build([]).body) == json.dumps(of_host.build([]).body)


@pytest.mark.parametrize(
    ("supported", "tools", "offers"),
    [
        ({"tools"}, [], True),
        ({"reasoning"}, [], False),
        (set(), [], False),
        (set(), [LOOK], True),
        ({"tools"}, [LOOK, OWN], False),
    ],
    ids=["takes tools", "takes none", "unknown", "unknown with tools", "has one of that name"],
)
def test_ours_are_offered_to_models_that_call_tools(
    supported: set[str], tools: list[Any], *, offers: bool
) -> None:
    """And not beside another tool of the same name."""
    served = replace(MODEL, supported_parameters=frozenset(supported))
    composer = Composer({"tools": tools}, model=served, model_id="a/m", own_tools=[OWN])
    assert composer.offers_own_tools is offers
