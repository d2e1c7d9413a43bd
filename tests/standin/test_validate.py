"""Which requests the stand-in accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.standin.errors import RefusalError
from scripts.standin.validate import check
from tests.standin.client import CLOCK, WEATHER, output, user

CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Rome"}'}
ASSISTANT = {
    "type": "message",
    "role": "assistant",
    "id": "msg_1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
}
IMAGE = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x", "format": "unknown"}
GOOD = {
    "model": "openai/gpt-5.2",
    "input": [
        {"role": "developer", "content": "Be brief."},
        user("Hello"),
        REASONING,
        CALL,
        output(CALL),
        ASSISTANT,
        {"type": "message", "role": "assistant", "content": "Hi again."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "See", "prompt_cache_breakpoint": {"mode": "explicit"}},
                IMAGE,
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                {"type": "input_video", "video_url": "https://example.org/a.mp4"},
            ],
        },
    ],
    "instructions": None,
    "stream": True,
    "store": False,
    "previous_response_id": None,
    "tools": [WEATHER, CLOCK, {"type": "openrouter:web_search", "parameters": {"max_results": 3}}],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": True,
    "reasoning": {"effort": "high", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "max_output_tokens": 500,
    "temperature": 1,
    "top_p": 0.5,
    "top_k": 40,
    "text": {"format": {"type": "json_schema", "name": "a", "schema": {}}, "verbosity": "low"},
    "provider": {"sort": "price", "order": ["openai"], "max_price": {"prompt": "1"}},
    "plugins": [{"id": "context-compression", "enabled": False}, {"id": "web", "max_results": 3}],
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "prompt_cache_key": "chat-1",
    "session_id": "s" * 256,
    "user": "someone",
    "metadata": {"chat": "1"},
    "trace": {"trace_id": "t", "mine": "kept"},
    "service_tier": "flex",
    "truncation": "auto",
    "stop": ["a", "b", "c", "d"],
    "image_config": {"aspect_ratio": "1:1"},
    "modalities": ["text"],
}


def refusal(body: Any) -> dict[str, Any]:
    """The body of the error that a request gets."""
    with pytest.raises(RefusalError) as caught:
        check(body)
    assert caught.value.refusal.status == 400
    answer: dict[str, Any] = json.loads(caught.value.refusal.body())
    return answer


def with_input(*items: Any) -> dict[str, Any]:
    """A request of a user message and these items."""
    return {"input": [user("Hello"), *items]}


def part(**content: Any) -> dict[str, Any]:
    """A request whose user message has this one content part."""
    return {"input": [{"role": "user", "content": [content]}]}


def test_a_full_good_request_is_accepted() -> None:
    """Every documented field at once, without a warning."""
    assert check(GOOD) == []


def test_unknown_top_level_keys_are_ignored_with_a_warning() -> None:
    """The service answers 200 to them, so the stand-in only notes them."""
    assert check({"input": "Hi", "client_metadata": {}}) == ["unknown top-level key: client_metadata"]


@pytest.mark.parametrize("body", [{}, {"input": ""}, {"input": []}])
def test_no_input_has_its_value_text(body: dict[str, Any]) -> None:
    """Missing and empty input are named."""
    assert refusal(body) == {
        "error": {"code": "invalid_prompt", "message": "No input provided"},
        "metadata": None,
    }


def test_too_many_models_are_named() -> None:
    """At most three fallbacks."""
    message = refusal({"input": "Hi", "models": ["a", "b", "c", "d"]})["error"]["message"]
    assert message == "'models' array must have 3 items or fewer"


BAD: dict[str, tuple[Any, list[str | int]]] = {
    "no object": ([], []),
    "input null": ({"input": None}, ["input"]),
    "input object": ({"input": {}}, ["input"]),
    "store": ({"input": "Hi", "store": True}, ["store"]),
    "store null": ({"input": "Hi", "store": None}, ["store"]),
    "previous response": ({"input": "Hi", "previous_response_id": "gen-1"}, ["previous_response_id"]),
    "bad effort": ({"input": "Hi", "reasoning": {"effort": "huge"}}, ["reasoning"]),
    "exclude": ({"input": "Hi", "reasoning": {"exclude": True}}, ["reasoning", "exclude"]),
    "service tier": ({"input": "Hi", "service_tier": "royal"}, ["service_tier"]),
    "truncation": ({"input": "Hi", "truncation": "sometimes"}, ["truncation"]),
    "provider extra": ({"input": "Hi", "provider": {"fastest": True}}, ["provider", "fastest"]),
    "provider sort": ({"input": "Hi", "provider": {"sort": "beauty"}}, ["provider"]),
    "session too long": ({"input": "Hi", "session_id": "s" * 257}, ["session_id"]),
    "user too long": ({"input": "Hi", "user": "s" * 257}, ["user"]),
    "temperature": ({"input": "Hi", "temperature": 2.1}, ["temperature"]),
    "top_p": ({"input": "Hi", "top_p": -0.1}, ["top_p"]),
    "penalty": ({"input": "Hi", "presence_penalty": 3}, ["presence_penalty"]),
    "stop": ({"input": "Hi", "stop": ["a"] * 5}, ["stop"]),
    "metadata pairs": ({"input": "Hi", "metadata": {str(n): "" for n in range(17)}}, ["metadata"]),
    "metadata key": ({"input": "Hi", "metadata": {"a[0]": ""}}, ["metadata"]),
    "metadata long key": ({"input": "Hi", "metadata": {"k" * 65: ""}}, ["metadata"]),
    "metadata value": ({"input": "Hi", "metadata": {"a": "v" * 513}}, ["metadata"]),
    "metadata type": ({"input": "Hi", "metadata": {"a": 1}}, ["metadata"]),
    "output limit": ({"input": "Hi", "max_output_tokens": 0}, ["max_output_tokens"]),
    "stop conditions": ({"input": "Hi", "stop_server_tools_when": []}, ["stop_server_tools_when"]),
    "include": ({"input": "Hi", "include": ["everything"]}, ["include"]),
    "format": ({"input": "Hi", "text": {"format": {"type": "yaml"}}}, ["text"]),
    "nested tool": (
        {"input": "Hi", "tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}]},
        ["tools", 0, "name"],
    ),
    "tool without parameters": (
        {"input": "Hi", "tools": [{"type": "function", "name": "a"}]},
        ["tools", 0, "parameters"],
    ),
    "tool name": ({"input": "Hi", "tools": [{**CLOCK, "name": "a b"}]}, ["tools", 0, "name"]),
    "long tool name": ({"input": "Hi", "tools": [{**CLOCK, "name": "a" * 65}]}, ["tools", 0, "name"]),
    "same tool twice": ({"input": "Hi", "tools": [CLOCK, CLOCK]}, ["tools", 1, "name"]),
    "tool schema": (
        {"input": "Hi", "tools": [{**CLOCK, "parameters": {"type": "array"}}]},
        ["tools", 0, "parameters"],
    ),
    "unknown tool": ({"input": "Hi", "tools": [{"type": "magic"}]}, ["tools", 0, "type"]),
    "tool role": (with_input({"role": "tool", "content": "x"}), ["input", 1]),
    "unknown item": (with_input({"type": "thought"}), ["input", 1, "type"]),
    "message without content": ({"input": [{"role": "user"}]}, ["input", 0, "content"]),
    "message with empty content": ({"input": [{"role": "user", "content": []}]}, ["input", 0, "content"]),
    "assistant without id": (
        with_input({key: value for key, value in ASSISTANT.items() if key != "id"}),
        ["input", 1],
    ),
    "assistant without status": (
        with_input({key: value for key, value in ASSISTANT.items() if key != "status"}),
        ["input", 1, "status"],
    ),
    "assistant with input_text": (
        with_input({**ASSISTANT, "content": [{"type": "input_text", "text": "x"}]}),
        ["input", 1],
    ),
    "plain assistant with input_text": (
        with_input({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        ["input", 1, "content"],
    ),
    "image without detail": (part(type="input_image", image_url="https://example.org/a.png"), ["input", 0]),
    "image without source": (
        part(type="input_image", detail="auto"),
        ["input", 0, "content", 0, "image_url"],
    ),
    "image from disk": (part(**{**IMAGE, "image_url": "file:///a"}), ["input", 0, "content", 0, "image_url"]),
    "chat-style image": (part(type="image_url", image_url={"url": "https://example.org"}), ["input", 0]),
    "part cache_control": (
        part(type="input_text", text="x", cache_control={"type": "ephemeral"}),
        ["input", 0, "content", 0, "cache_control"],
    ),
    "file without source": (
        part(type="input_file", filename="a"),
        ["input", 0, "content", 0, "file_data"],
    ),
    "bare base64": (part(type="input_file", file_data="AAAA"), ["input", 0, "content", 0, "file_data"]),
    "audio format": (part(type="input_audio", input_audio={"data": "A", "format": "ogg"}), ["input", 0]),
    "arguments as object": (with_input({**CALL, "arguments": {}}, output(CALL)), ["input", 1, "arguments"]),
    "extra in call": (with_input({**CALL, "note": "x"}, output(CALL)), ["input", 1, "note"]),
    "long call id": (
        with_input({**CALL, "call_id": "c" * 65}, output({"call_id": "c" * 65})),
        ["input", 1, "call_id"],
    ),
    "output as object": (with_input(CALL, {**output(CALL), "output": {}}), ["input", 2, "output"]),
    "reasoning without id": (
        with_input({key: value for key, value in REASONING.items() if key != "id"}),
        ["input", 1, "id"],
    ),
    "reasoning format": (with_input({**REASONING, "format": "mine"}), ["input", 1, "format"]),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_with_its_path(name: str) -> None:
    """Family B, with an issue whose path leads to the fault."""
    body, path = BAD[name]
    answer = refusal(body)
    issues = json.loads(answer["metadata"]["raw"])
    assert answer["error"] == {"code": "invalid_prompt", "message": "Invalid Responses API request"}
    assert any(issue["path"][: len(path)] == path for issue in issues), issues


NULL_REFUSED = (
    "cache_control debug deferred_tools image_config input modalities model models plugins session_id "
    "stop_server_tools_when stream text tool_choice tools top_k trace user"
)


@pytest.mark.parametrize("name", NULL_REFUSED.split())
def test_explicit_null_is_refused_where_documented(name: str) -> None:
    """These keys are to be omitted instead."""
    issues = json.loads(refusal({"input": "Hi", name: None})["metadata"]["raw"])
    assert [issue["path"] for issue in issues] == [[name]]


NULL_ACCEPTED = (
    "instructions max_output_tokens parallel_tool_calls reasoning include temperature provider metadata "
    "prompt_cache_key truncation service_tier background"
)


@pytest.mark.parametrize("name", NULL_ACCEPTED.split())
def test_explicit_null_is_accepted_where_documented(name: str) -> None:
    """These keys are nullable."""
    assert check({"input": "Hi", name: None}) == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((CALL,), "No tool output found for function call call_1."),
        ((output(CALL),), "No tool call found for function call output with call_id call_1."),
        ((output(CALL), CALL), "No tool call found for function call output with call_id call_1."),
        ((CALL, CALL, output(CALL)), "Duplicate function call with call_id call_1."),
        ((CALL, output(CALL), output(CALL)), "Duplicate output for call_id call_1."),
    ],
)
def test_calls_and_outputs_come_in_pairs(items: tuple[Any, ...], message: str) -> None:
    """Call before output, one of each."""
    assert refusal(with_input(*items))["error"]["message"] == message
