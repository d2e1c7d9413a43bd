"""The host's parameters become the fields of a body: see `bodies.txt`."""

from __future__ import annotations

import json
import logging
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openrouter.components import ResponsesRequest
from openrouter.utils import marshal_json
from pydantic import TypeAdapter

from open_webui_openrouter_pipe.openrouter.fields import RESTRICTED, in_order_of_keys, read_parameters
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.responses.values import wire_name
from open_webui_openrouter_pipe.valves import Advanced, text_of
from tests.support.rows import rows

BODIES: Final = Path(__file__).parent / "bodies.txt"
MODEL = Model(
    id="a/m",
    name="M",
    context_tokens=128_000,
    max_output_tokens=8_000,
    input_modalities=frozenset({"text"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset(
        {"tools", "temperature", "top_p", "reasoning", "response_format", "verbosity", "max_tokens"}
    ),
    reasons=True,
    supported_efforts=("low", "medium", "high"),
)
PLAIN = replace(MODEL, reasons=False, supported_efforts=None, supported_parameters=frozenset({"temperature"}))
MODELS: Final[dict[str, Model | None]] = {
    "unknown": None,
    "thinks": MODEL,
    "must think": replace(MODEL, reasoning_is_mandatory=True),
    "plain": PLAIN,
    "draws": Model("a/d", "D", output_modalities=frozenset({"image"})),
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks", "parameters": SCHEMA}}
NAMES: Final = {
    "LOOK": LOOK,
    "FLAT": {"type": "function", "name": "look", "description": "Looks", "parameters": SCHEMA},
    "SERVER": {"type": "openrouter:web_search"},
    "BARE": {"type": "function", "function": {"name": "bare", "strict": None}},
    "EMPTY": {"type": "function", "name": "bare", "parameters": {"type": "object", "properties": {}}},
    "ODD": {"type": "function", "function": {"name": "look", "description": 5, "parameters": SCHEMA}},
    "UNDESCRIBED": {"type": "function", "name": "look", "parameters": SCHEMA},
    "OWN": {"type": "function", "name": "recall", "parameters": {"type": "object", "properties": {}}},
    "SEARCH": {"type": "openrouter:web_search", "parameters": {"max_results": 5, "max_uses": 5}},
    "NATIVE": {
        "type": "openrouter:web_search",
        "parameters": {"engine": "native", "max_results": 5, "max_uses": 5},
    },
    "FETCH": {"type": "openrouter:web_fetch", "parameters": {"max_uses": 5}},
    "MUST": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "openrouter:web_search"}]},
}


def read(host: dict[str, Any], model: Model | None = None) -> dict[str, Any]:
    """The body for the host's parameters, its input empty."""
    return dict(read_parameters(host, model=model, model_id="a/m").body)


def test_long_values_are_cut() -> None:
    """To what OpenRouter takes."""
    metadata = {str(number): "v" * 600 for number in range(20)} | {"x" * 65: "v"}
    body = read({"user": "u" * 300, "metadata": metadata})
    cut = {str(number): "v" * 512 for number in range(16)}
    assert (body["user"], body["metadata"]) == ("u" * 256, cut)


@pytest.mark.parametrize("host", rows(BODIES, "all parameters", {**NAMES, "SCHEMA": SCHEMA}))
def test_a_full_body_is_valid_and_ordered(host: dict[str, Any]) -> None:
    """All parameters together make a body that the official schema takes, the lasting parts before the input."""
    user: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    body = {**read(host, MODEL), "input": [user], "stream": True}
    request = TypeAdapter(ResponsesRequest).validate_json(json.dumps(body), strict=True)
    # the official SDK returns the body unchanged, but for its constant `store`
    back = marshal_json(request, ResponsesRequest)  # type: ignore[no-untyped-call]
    assert json.loads(back) == {**body, "store": False}
    assert list(body)[:5] == ["model", "models", "tools", "tool_choice", "input"]
    assert json.dumps(read(dict(reversed(host.items())), MODEL)) == json.dumps(read(host, MODEL))


def test_what_is_not_sent_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """By its name, for whoever wonders where a parameter has gone."""
    host = {"temperature": 1, "top_p": 1, "reasoning_effort": "low", "seed": 1, "tools": [LOOK]}
    with caplog.at_level(logging.DEBUG, logger="open_webui_openrouter_pipe"):
        read(host, PLAIN)
    assert caplog.messages == [
        "parameters that 'a/m' does not take: ['reasoning_effort', 'seed', 'tools', 'top_p']"
    ]


@pytest.mark.parametrize("name", sorted(RESTRICTED))
def test_the_valve_names_every_restricted_parameter(name: str) -> None:
    """So that an administrator knows what there is to allow."""
    assert f"`{name}`" in text_of(Advanced, "USER_PARAMETERS").help


def test_function_names_that_providers_refuse_are_changed() -> None:
    """Everywhere alike, and they can be changed back, also where the tools cannot be sent."""
    name = "server/look.up"
    sent = wire_name(name)
    call: Any = {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}
    function = {"type": "function", "function": {"name": name}}
    composer = Composer({"tools": [function], "tool_choice": function}, model=None, model_id="a/m")
    request = composer.build([call])
    assert request.body["tools"][0]["name"] == sent
    assert request.body["tool_choice"] == {"type": "function", "name": sent}
    assert (request.body["input"], call["name"]) == ([{**call, "name": sent}], name)
    toolless = read_parameters({"tools": [function]}, model=PLAIN, model_id="a/m")
    assert "tools" not in toolless.body
    assert toolless.host_tool_names == request.host_tool_names == {sent: name}


INNER = ["type", "name", "function", "effort", "format", "schema"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["tools", "tool_choice", "reasoning", "text", "response_format", "temperature", "stop", "metadata"]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING), st.sampled_from([None, MODEL, PLAIN]))
def test_any_parameters_build(host: dict[str, Any], model: Model | None) -> None:
    """Whatever the host hands over, a body is built, and nothing in it is null."""
    assert None not in read(host, model).values()


# --- the order of tools


def function(name: str, **parameters: Any) -> dict[str, Any]:
    """A function as the host passes it."""
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


SEARCH = {"type": "openrouter:web_search", "parameters": {"max_results": 5, "engine": "exa"}}
FETCH = {"type": "openrouter:web_fetch", "parameters": {"max_uses": 5}}


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same JSON with the keys of all objects in another order."""
    if isinstance(value, list):
        return [shuffled(each, chance) for each in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    chance.shuffle(names)
    return {name: shuffled(value[name], chance) for name in names}


WORDS = st.sampled_from(["a", "b", "c", "properties", "required", "default", "type", "é"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(WORDS, inner, min_size=1, max_size=4)
    required = st.lists(WORDS, max_size=3, unique=True)
    fields = {"type": st.just("object"), "properties": properties, "required": required}
    return st.fixed_dictionaries(fields, optional={"default": VALUES, "$defs": properties, "anyOf": VALUES})


SCHEMAS = st.recursive(st.just({"type": "string", "enum": ["x", "y"]}), _objects, max_leaves=6)


@given(st.lists(SCHEMAS, min_size=1, max_size=4), st.randoms())
def test_the_same_tools_are_the_same_bytes(schemas: list[Any], chance: random.Random) -> None:
    """Any order of the tools, and any order of the keys in them, is sent alike."""
    tools = [function(f"tool_{at}", **schema) for at, schema in enumerate(schemas)] + [SEARCH, FETCH]
    others = [shuffled(tool, chance) for tool in tools]
    chance.shuffle(others)
    assert json.dumps(read({"tools": others})) == json.dumps(read({"tools": tools}))


@given(SCHEMAS)
def test_the_order_changes_nothing_that_is_said(schema: Any) -> None:
    """As JSON, the schema is equal to what the host passed; ordered once more, it is the same to the byte."""
    ordered = in_order_of_keys(schema)
    assert ordered == schema
    assert json.dumps(in_order_of_keys(ordered)) == json.dumps(ordered)


def test_a_model_reads_required_properties_first_and_as_their_list_names_them() -> None:
    """It writes its arguments in this order, and the list is the one place where an author can state one."""
    properties: dict[str, Any] = {"z": {}, "a": {}, "required": {}, "reasons": {}, "answer": {}}
    required = ["reasons", "answer", "absent"]
    ordered = in_order_of_keys({"type": "object", "required": required, "properties": properties})
    assert list(ordered["properties"]) == ["reasons", "answer", "a", "required", "z"]
