"""Renders outputs for callers without a web page: Chat Completions chunks while streaming, or one completion.

Open WebUI passes what a pipe yields straight to the client of its bare API, and expects a completion object from a
call that does not stream; its tasks (titles, tags, follow-ups) read `choices` as well. A stream has begun with HTTP
200 before the pipe is called, so only a call that does not stream can end with the status of its error. To chunks the
host adds a last one with the finish reason "stop"; so a stream is a response of its own, of which the host hands on
each byte (`functions.py: generate_function_chat_completion` of 0.12).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from ..ports import Failed, Output, RoundEnded
from ..responses.effects import (
    TEXT_KINDS,
    ItemFinished,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    Usage,
)
from ..responses.items import is_function_call
from .native import HostEvent, NativeWriter, host_usage

_BREAKS = {"content": "\n", "reasoning_content": "\n\n"}
"""What separates two messages, and two paragraphs of reasoning."""
_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ERROR_TYPES = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    429: "rate_limit_error",
}
"""OpenAI's words by HTTP status; the others of 4xx are "invalid_request_error", those of 5xx "server_error"."""


class ChunkWriter:
    """Turns one round's outputs into `chat.completion.chunk` objects; `head` is what all of them begin with.

    The usage is on the last chunk; with `include_usage` of the caller's `stream_options` on one of its own behind it.
    """

    def __init__(self, head: Mapping[str, Any], *, include_usage: bool = False) -> None:
        self._include_usage = include_usage
        self._begun = False
        self._head = {**head, "object": "chat.completion.chunk"}
        self._calls = 0
        self._round = 0
        self._earlier_usage: Usage | None = None
        self._last_parts: dict[str, tuple[int, int, int]] = {}

    def render(self, output: Output) -> list[HostEvent]:
        """Return the chunks for this output; the bare API knows neither statuses nor markers."""
        match output:
            case TextDelta():
                return self._text(output)
            case ItemFinished(item=item) if is_function_call(item) and item.get("status") == "completed":
                call = {"index": self._calls, **_tool_call(item)}
                self._calls += 1
                return [self._chunk({"tool_calls": [call]})]
            case ResponseFinished():
                return self._end(output)
            case Failed():
                return [error_object(output)]
            case RoundEnded(usage=usage):  # what our own tools did in it is not the caller's
                self._round += 1
                self._earlier_usage = _sum(self._earlier_usage, usage)
        return []

    def _end(self, effect: ResponseFinished) -> list[HostEvent]:
        chunk = self._chunk({}, finish_reason=_finish_reason(effect, calls=self._calls))
        if (total := _sum(self._earlier_usage, effect.usage)) is None:
            return [chunk]
        if self._include_usage:
            return [chunk, {**self._head, "choices": [], "usage": _usage(total)}]
        return [{**chunk, "usage": _usage(total)}]

    def _text(self, effect: TextDelta) -> list[HostEvent]:
        """A delta; one of another message or paragraph than the last begins on a new line."""
        match TEXT_KINDS[effect.kind].item_type:
            case "message":
                key, numbers = "content", (self._round, effect.index, 0)
            case "reasoning":
                key, numbers = "reasoning_content", (self._round, effect.index, effect.part)
            case _:
                return []
        last = self._last_parts.get(key, numbers)
        self._last_parts[key] = numbers
        return [self._chunk({key: effect.delta if last == numbers else f"{_BREAKS[key]}{effect.delta}"})]

    def _chunk(self, delta: dict[str, Any], *, finish_reason: str | None = None) -> HostEvent:
        if not self._begun:
            self._begun, delta = True, {"role": "assistant", **delta}
        return {**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


class CompletionWriter:
    """Collects one round's outputs in a `chat.completion` object; for a page, `output` holds the native items."""

    def __init__(self, native: NativeWriter, head: Mapping[str, Any]) -> None:
        self._native = native
        self._head = {**head, "object": "chat.completion"}
        self._reason = "stop"

    @property
    def failed(self) -> Failed | None:
        """Why there is no whole answer, if there is none."""
        return self._native.failed

    def take(self, output: Output) -> None:
        """Take the next output."""
        self._native.render(output)
        if isinstance(output, ResponseFinished):
            self._reason = _finish_reason(output, calls=len(self._calls()))
        elif isinstance(output, ResponseFailed):
            self._reason = "error"

    def result(self, *, with_output: bool) -> dict[str, Any]:
        """Return the completion; after an error that, for a page as the host reads it and beside what was written."""
        failed, error = self.failed, {}
        if failed is not None and not with_output:
            return error_object(failed)
        if failed is not None:
            error = {"error": {"detail": failed.message}}
            if not self._text():
                return error
        message: dict[str, Any] = {"role": "assistant", "content": self._text()}
        if calls := self._calls():
            message["tool_calls"] = calls
        choice = {"index": 0, "finish_reason": self._reason, "message": message}
        completion = {**self._head, **error, "choices": [choice]}
        if with_output:
            completion["output"] = self._native.items
        if (usage := self._native.usage) is not None:
            completion["usage"] = self._native.host_usage if with_output else _usage(usage)
        return completion

    def _text(self) -> str:
        texts = [item["content"][0]["text"] for item in self._native.items if item["type"] == "message"]
        return _BREAKS["content"].join(filter(None, texts))

    def _calls(self) -> list[dict[str, Any]]:
        return [*map(_tool_call, self._native.open_calls)]


def error_object(failed: Failed) -> dict[str, Any]:
    """Return a failure as OpenAI's API words it."""
    status, code = _status(failed), failed.error.code if failed.error else None
    kind = _ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": failed.message, "type": kind, "param": None, "code": code}}


def error_response(failed: Failed) -> Any:
    """Return a failure as a response of the host's web framework, with its HTTP status.

    Of such responses Open WebUI passes only streaming ones on as they are, and reads the `body` for its own log.
    """
    from starlette.responses import StreamingResponse

    body = json.dumps(error_object(failed)).encode()
    response = StreamingResponse(iter((body,)), _status(failed), media_type="application/json")
    response.body = body
    return response


def chunk_response(chunks: AsyncGenerator[HostEvent]) -> Any:
    """Return chunks as a streamed response of the host's web framework."""
    from starlette.responses import StreamingResponse

    async def lines() -> AsyncGenerator[str]:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield f"data: {json.dumps(chunk)}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


def _usage(usage: Usage) -> dict[str, Any]:
    """The usage with the details where Chat Completions and OpenRouter have them."""
    wire = host_usage(usage)
    paid = {"cost_details": {"upstream_inference_cost": usage.provider_cost}}
    return {
        **wire,
        **(paid if usage.byok_requests else {}),
        "prompt_tokens_details": wire["input_tokens_details"],
        "completion_tokens_details": wire["output_tokens_details"],
    }


def _sum(earlier: Usage | None, usage: Usage | None) -> Usage | None:
    return earlier.plus(usage) if earlier and usage else earlier or usage


def _status(failed: Failed) -> int:
    return failed.error.status if failed.error else 500


def _tool_call(item: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _finish_reason(effect: ResponseFinished, *, calls: int) -> str:
    if effect.status == "incomplete":
        return _FINISH_REASONS.get(effect.reason or "", "length")
    return "tool_calls" if calls else "stop"
