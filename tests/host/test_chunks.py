"""Callers without a page get Chat Completions objects."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ModelNotFound,
    PaymentRequired,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)
from open_webui_openrouter_pipe.host.chunks import ChunkWriter, CompletionWriter, error_response
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.ports import Failed, Notice, Output, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import (
    ItemFinished,
    ItemStarted,
    ResponseFinished,
    TextDelta,
)
from open_webui_openrouter_pipe.responses.items import FunctionCall
from tests.host.test_native import CALL, CALL_BEGUN, CALLS, HOST_USAGE, REASONED_ANSWER, TEXT, TEXT_BEGUN

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.errors import PipeError

pytestmark = pytest.mark.anyio

NO = {"error": {"message": "No.", "type": "server_error", "param": None, "code": None}}
BARE_USAGE = {
    **HOST_USAGE,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
HEAD: dict[str, Any] = {"completion_id": "chatcmpl-1", "model": "openai/gpt-5", "created": 7}


def chunks(outputs: list[Output], *, include_usage: bool = False) -> list[dict[str, Any]]:
    writer = ChunkWriter(**HEAD, include_usage=include_usage)
    return [chunk for output in outputs for chunk in writer.render(output)]


def completion(outputs: list[Output], *, with_output: bool = False) -> dict[str, Any]:
    ids = count(1)
    native = NativeWriter(new_id=lambda: f"N{next(ids)}", clock=lambda: 0.0)
    writer = CompletionWriter(native, **HEAD)
    for output in outputs:
        writer.take(output)
    return writer.result(with_output=with_output)


def test_text_and_reasoning_stream_as_deltas_and_the_last_chunk_has_the_usage() -> None:
    """Markers and statuses are not sent there."""
    given = [*REASONED_ANSWER[:3], Notice("x"), *REASONED_ANSWER[4:]]
    received = chunks(given)
    choices = [chunk["choices"][0] for chunk in received]
    assert [choice["delta"] for choice in choices] == [
        {"role": "assistant", "reasoning_content": "First."},
        {"reasoning_content": "\n\nSec"},
        {"content": "H"},
        {"content": "i"},
        {},
    ]
    assert (choices[-1]["finish_reason"], received[-1]["usage"]) == ("stop", BARE_USAGE)


def test_who_asks_for_the_usage_gets_it_in_a_chunk_of_its_own() -> None:
    """As OpenAI's API has it: behind the finish reason, and without choices."""
    *_, finish, last = chunks(REASONED_ANSWER, include_usage=True)
    assert (finish["choices"][0]["finish_reason"], "usage" in finish) == ("stop", False)
    assert (last["choices"], last["usage"], last["object"]) == ([], BARE_USAGE, "chat.completion.chunk")


def test_calls_stream_whole() -> None:
    """The client of the bare API runs them itself."""
    function = {"name": "f", "arguments": '{"a": 1}'}
    calls = [chunk["choices"][0]["delta"] for chunk in chunks(CALLS)]
    assert calls[0] == {
        "role": "assistant",
        "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}],
    }
    assert chunks(CALLS)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_an_error_is_the_last_chunk() -> None:
    """It is a plain line in the form of OpenAI's API."""
    assert chunks([Failed("No.")]) == [NO]


def test_a_completion_collects_text_and_usage() -> None:
    """A bare caller sees the text alone, without markers, because nothing is kept for it."""
    outputs: list[Output] = [output for output in REASONED_ANSWER if not isinstance(output, StoredMarkers)]
    assert completion(outputs) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "openai/gpt-5",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
        "usage": BARE_USAGE,
    }


def test_a_page_also_gets_the_native_items() -> None:
    """Open WebUI stores `output` and replays it on the next turn."""
    result = completion(REASONED_ANSWER, with_output=True)
    assert [item["type"] for item in result["output"]] == ["reasoning", "message"]


def test_calls_are_part_of_a_completion() -> None:
    """In the form of Chat Completions."""
    message = completion(CALLS)["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    ]


def test_an_incomplete_answer_says_so() -> None:
    """The finish reason is the one that Chat Completions knows."""
    cut = ResponseFinished("incomplete", "max_output_tokens", None, None, (TEXT,), None)
    outputs: list[Output] = [ItemStarted(0, TEXT_BEGUN), TextDelta(0, 0, "Hi"), ItemFinished(0, TEXT), cut]
    assert completion(outputs)["choices"][0]["finish_reason"] == "length"


def test_a_failed_completion_is_an_error_in_the_hosts_form() -> None:
    """Open WebUI shows `detail`, and a task that gets it makes no title of it."""
    outputs: list[Output] = [ItemStarted(0, CALL_BEGUN), ItemFinished(0, CALL), Failed("No.")]
    assert completion(outputs, with_output=True) == {"error": {"detail": "No."}}


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (RequestRejected("No."), "invalid_request_error", None),
        (AuthenticationFailed("No."), "authentication_error", "invalid_api_key"),
        (PaymentRequired("No."), "insufficient_quota", "insufficient_quota"),
        (ContextTooLong("No."), "invalid_request_error", "context_length_exceeded"),
        (ModelNotFound("No."), "invalid_request_error", "model_not_found"),
        (RateLimited("No."), "rate_limit_error", "rate_limit_exceeded"),
        (ProviderUnavailable("No."), "server_error", None),
    ],
)
async def test_a_bare_callers_error_is_one_of_openais_api(
    error: PipeError, kind: str, code: str | None
) -> None:
    """In a stream and as a response with its status, which the host hands on as it is."""
    expected = {"error": {"message": "No.", "type": kind, "param": None, "code": code}}
    failed = Failed("No.", error)
    response = error_response(failed)
    sent = b"".join([part async for part in response.body_iterator])
    assert (chunks([failed]), completion([failed]), json.loads(sent)) == ([expected], expected, expected)
    assert (response.status_code, response.media_type, response.body) == (
        error.status,
        "application/json",
        sent,
    )


def test_an_incomplete_call_is_not_sent() -> None:
    """Its arguments are half a JSON text."""
    cut = FunctionCall({**CALL, "arguments": '{"a', "status": "incomplete"})
    assert chunks([ItemStarted(0, CALL_BEGUN), ItemFinished(0, cut), Failed("No.")]) == [NO]


def test_two_messages_are_joined_alike_with_and_without_streaming() -> None:
    """Each begins on a line of its own."""
    outputs: list[Output] = [
        output
        for index in (0, 1)
        for output in (ItemStarted(index, TEXT_BEGUN), TextDelta(index, 0, "Hi"), ItemFinished(index, TEXT))
    ]
    streamed = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks(outputs))
    assert streamed == completion(outputs)["choices"][0]["message"]["content"] == "Hi\nHi"


def test_a_page_keeps_what_was_written_before_an_error() -> None:
    """Open WebUI stores both; a bare caller gets the error alone."""
    outputs: list[Output] = [*REASONED_ANSWER[:-1], Failed("No.")]
    kept = completion(outputs, with_output=True)
    assert (kept["error"], [item["type"] for item in kept["output"]]) == (
        {"detail": "No."},
        ["reasoning", "message"],
    )
    assert completion(outputs) == NO
