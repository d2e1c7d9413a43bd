"""Bodies are built from the host's parameters."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openrouter.components import ResponsesRequest
from openrouter.utils import marshal_json
from pydantic import TypeAdapter

from open_webui_openrouter_pipe.openrouter.fields import read_parameters
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.responses.values import wire_name

MODEL = Model(
    id="a/m",
    name="M",
    context_tokens=128_000,
    max_output_tokens=8_000,
    input_modalities=frozenset({"text"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset(
        {
            "tools",
            "tool_choice",
            "temperature",
            "top_p",
            "reasoning",
            "response_format",
            "verbosity",
            "max_tokens",
        }
    ),
    reasons=True,
    supported_efforts=("low", "medium", "high"),
)
PLAIN = replace(MODEL, reasons=False, supported_efforts=None, supported_parameters=frozenset({"temperature"}))
USER: Any = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
NESTED_TOOL = {"type": "function", "function": {"name": "look", "description": "Looks", "parameters": SCHEMA}}
FLAT_TOOL = {"type": "function", "name": "look", "description": "Looks", "parameters": SCHEMA}


def build(host: dict[str, Any], model: Model | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the body for one item, and the names of the parameters that are not in it."""
    template = read_parameters(host, model=model, model_id="a/m")
    return template.with_input([USER]), template.dropped


def fields(host: dict[str, Any], model: Model | None = None) -> dict[str, Any]:
    """What the host's parameters add to an empty body."""
    body, _ = build(host, model)
    return {key: value for key, value in body.items() if key not in ("model", "input")}


def assert_valid(body: dict[str, Any]) -> None:
    """The official SDK's model accepts the body and returns it unchanged, but for its constant `store`."""
    text = json.dumps(body)
    request = TypeAdapter(ResponsesRequest).validate_json(text, strict=True)
    back = marshal_json(request, ResponsesRequest)  # type: ignore[no-untyped-call]
    assert json.loads(back) == {**body, "store": False}


def test_the_smallest_body() -> None:
    """Without parameters only model and input are sent."""
    assert build({"model": "x.y", "messages": [{"role": "user"}], "stream": False}) == (
        {"model": "a/m", "input": [USER]},
        (),
    )


def test_a_full_body_is_valid_and_ordered() -> None:
    """All parameters together make a body that the official schema takes, the lasting parts before the input."""
    host = {
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning_effort": "high",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
        },
        "verbosity": "low",
        "tools": [NESTED_TOOL, {"type": "openrouter:datetime", "parameters": {"timezone": "UTC"}}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": True,
        "provider": {"order": ["openai"]},
        "plugins": [{"id": "context-compression", "enabled": False}],
        "models": ["a/1", "a/2", "a/3", "a/4"],
        "metadata": {"k": "v"},
        "user": "u",
        "session_id": "s",
        "service_tier": "flex",
        "truncation": "auto",
        "prompt_cache_key": "p",
    }
    body, dropped = build(host, MODEL)
    assert_valid({**body, "stream": True})
    assert list(body)[:5] == ["model", "models", "tools", "tool_choice", "input"]
    assert dropped == ()


def test_the_bytes_do_not_depend_on_the_host() -> None:
    """The order of the host's parameters changes nothing."""
    host = {"temperature": 1, "top_p": 0.5, "tools": [NESTED_TOOL], "user": "u"}
    turned = dict(reversed(host.items()))
    assert json.dumps(build(host)) == json.dumps(build(turned))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({"max_tokens": "50"}, {"max_output_tokens": 50}),
        ({"max_completion_tokens": 60, "max_tokens": 50}, {"max_output_tokens": 60}),
        ({"max_output_tokens": 0}, {}),
        ({"temperature": "0.7"}, {"temperature": 0.7}),
        ({"temperature": 9}, {"temperature": 2}),
        ({"temperature": 1.0}, {"temperature": 1}),
        ({"temperature": float("nan")}, {}),
        ({"temperature": True}, {}),
        ({"top_p": -1}, {"top_p": 0}),
        ({"top_k": "40.0"}, {"top_k": 40}),
        ({"top_k": -1}, {}),
        ({"top_logprobs": 99}, {"top_logprobs": 20}),
        (
            {"presence_penalty": -3, "frequency_penalty": "3"},
            {"presence_penalty": -2, "frequency_penalty": 2},
        ),
        ({"stop": "END"}, {"stop": "END"}),
        ({"stop": ["a", "", 7, "b", "c", "d", "e"]}, {"stop": ["a", "b", "c", "d"]}),
        ({"stop": []}, {}),
        ({"user": "u" * 300}, {"user": "u" * 256}),
        ({"session_id": ""}, {}),
        ({"service_tier": "gold"}, {}),
        ({"modalities": ["image", "text", "audio"]}, {"modalities": ["image", "text"]}),
        (
            {"metadata": {"ok": "v" * 600, "b[ad]": "v", "n": 1, "x" * 65: "v"}},
            {"metadata": {"ok": "v" * 512}},
        ),
        ({"metadata": {str(n): "v" for n in range(20)}}, {"metadata": {str(n): "v" for n in range(16)}}),
        ({"verbosity": "high"}, {"text": {"verbosity": "high"}}),
        ({"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}),
        ({"response_format": {"type": "json_schema"}}, {}),
        ({"cache_control": {"type": "ephemeral"}}, {"cache_control": {"type": "ephemeral"}}),
        ({"image_config": {"aspect_ratio": "1:1"}}, {"image_config": {"aspect_ratio": "1:1"}}),
        ({"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}),
        ({"reasoning": {"effort": "low", "exclude": True}}, {"reasoning": {"effort": "low"}}),
        ({"reasoning": {"max_tokens": "2000", "effort": "low"}}, {"reasoning": {"max_tokens": 2000}}),
        ({"parallel_tool_calls": " False "}, {"parallel_tool_calls": False}),
        ({"parallel_tool_calls": "true"}, {"parallel_tool_calls": True}),
        ({"parallel_tool_calls": 1}, {}),
        ({"tool_choice": "auto"}, {}),
        ({"temperature": None, "tools": None, "text": None}, {}),
    ],
)
def test_parameters(host: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each parameter is renamed, coerced, clamped or dropped as its field demands."""
    assert fields(host) == expected


@pytest.mark.parametrize(
    ("effort", "sent"),
    [
        ("high", "high"),
        ("max", "high"),
        ("minimal", "low"),
        ("none", "none"),
        ("xhigh", "high"),
        ("huge", None),
    ],
)
def test_the_nearest_effort(effort: str, sent: str | None) -> None:
    """An effort that the model does not support becomes the nearest one that it does."""
    reasoning = fields({"reasoning_effort": effort}, MODEL)["reasoning"]
    assert reasoning == {**({"effort": sent} if sent else {}), "summary": "auto"}


def test_a_model_that_reasons() -> None:
    """Reasoning is asked for in sealed form, and with a summary unless the host rules it out."""
    assert [fields({}, MODEL), fields({"reasoning": {"summary": None}, "include": ["x"]}, MODEL)] == [
        {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}},
        {"include": ["reasoning.encrypted_content", "x"]},
    ]


def test_an_unknown_model_gets_what_was_asked_for() -> None:
    """Nobody knows whether it reasons; without a wish nothing is included."""
    wanted = ["reasoning.encrypted_content", "x"]
    assert [fields({"include": wanted}, None).get("include"), fields({}, None).get("include")] == [
        wanted,
        None,
    ]


def test_what_a_model_does_not_support_is_dropped() -> None:
    """A parameter that the catalogue does not list for the model stays out, and is named."""
    host = {
        "temperature": 1,
        "top_p": 1,
        "tools": [NESTED_TOOL],
        "reasoning_effort": "low",
        "verbosity": "low",
    }
    assert build(host, PLAIN) == (
        {"model": "a/m", "input": [USER], "temperature": 1},
        ("reasoning_effort", "tools", "top_p", "verbosity"),
    )


def test_the_limit_of_output() -> None:
    """No more output is asked for than the model allows."""
    assert fields({"max_tokens": 100_000}, MODEL)["max_output_tokens"] == 8_000


def test_parameters_of_the_host_alone_are_not_sent() -> None:
    """Parameters that only Open WebUI understands, and what the stateless API refuses, are never sent."""
    host = {
        "function_calling": "native",
        "stream_delta_chunk_size": 3,
        "reasoning_tags": ["<think>"],
        "compact_token_threshold": 1,
        "tool_approval_mode": "ask",
        "stream_options": {"include_usage": True},
        "chat_id": "c",
        "store": True,
        "previous_response_id": "r",
        "seed": 1,
    }
    assert build(host) == ({"model": "a/m", "input": [USER]}, tuple(sorted(host)))


def test_tools_are_flattened() -> None:
    """Functions become flat ones by their names, each once; other tools come behind; the rest is omitted."""
    server_tool = {"type": "openrouter:web_search"}
    bare = {"type": "function", "function": {"name": "bare", "strict": None}}
    tools = [NESTED_TOOL, FLAT_TOOL, server_tool, bare, {"type": "function"}, "x", {"function": {}}]
    assert fields({"tools": tools})["tools"] == [
        {"type": "function", "name": "bare", "parameters": {"type": "object", "properties": {}}},
        FLAT_TOOL,
        server_tool,
    ]


def test_function_names_that_providers_refuse_are_changed() -> None:
    """A function name that is not accepted is changed everywhere alike, and can be changed back."""
    name = "server/look.up"
    sent = wire_name(name)
    call: Any = {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}
    function = {"type": "function", "function": {"name": name}}
    template = read_parameters({"tools": [function], "tool_choice": function}, model=None, model_id="a/m")
    body = template.with_input([call])
    assert (
        body["tools"][0]["name"],
        body["tool_choice"],
        body["input"],
        template.host_tool_names,
        call["name"],
    ) == (sent, {"type": "function", "name": sent}, [{**call, "name": sent}], {sent: name}, name)


def test_names_are_changed_back_even_if_the_tools_cannot_be_sent() -> None:
    """The calls of earlier turns have the changed names, and a model may call by one all the same."""
    function = {"type": "function", "function": {"name": "server/look.up"}}
    template = read_parameters({"tools": [function]}, model=PLAIN, model_id="a/m")
    assert "tools" not in template.body
    assert template.host_tool_names == {wire_name("server/look.up"): "server/look.up"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "function", "effort", "format", "schema"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
KEYS = [
    "tools",
    "tool_choice",
    "reasoning",
    "text",
    "response_format",
    "temperature",
    "stop",
    "metadata",
    "top_k",
    "x",
]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING), st.sampled_from([None, MODEL, PLAIN]))
def test_any_parameters_build(host: dict[str, Any], model: Model | None) -> None:
    """Whatever the host hands over, a body is built, and nothing in it is null."""
    assert None not in build(host, model)[0].values()


def test_a_description_that_is_not_a_text_is_omitted() -> None:
    """Providers refuse the whole request for it."""
    tool = {"type": "function", "function": {"name": "look", "description": 5, "parameters": SCHEMA}}
    nested = {"name": "n", "schema": SCHEMA, "description": {"a": 1}}
    host = {"tools": [tool], "response_format": {"type": "json_schema", "json_schema": nested}}
    body, _ = build(host, MODEL)
    assert body["tools"] == [{"type": "function", "name": "look", "parameters": SCHEMA}]
    assert body["text"] == {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}
