"""The official OpenAI client as a caller of Open WebUI's API, whose part between both is played here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, RateLimitError
from openai.lib.streaming.chat import ChatCompletionStreamState

from scripts.harness.page import PipeInProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

MODEL = "openrouter.standin/script"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather by city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


class Host(httpx.AsyncBaseTransport):
    """What `generate_function_chat_completion` of Open WebUI 0.12 does for a caller without a chat."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread())
        given = await self._pipe.pipe(
            body, __user__={"id": "ada", "role": "user"}, __metadata__={"chat_id": "", "message_id": None}
        )
        if isinstance(given, dict):
            return httpx.Response(200, json=given)
        content = "".join(
            [part if isinstance(part, str) else part.decode() async for part in given.body_iterator]
        )
        status = 200 if body.get("stream") else given.status_code
        return httpx.Response(status, text=content, headers={"content-type": given.media_type})


@pytest.fixture
async def client(standin: StandIn, tmp_path: Path) -> AsyncIterator[AsyncOpenAI]:
    async with (
        PipeInProcess(tmp_path, base_url=standin.base_url, RETRY_SECONDS=0.0) as pipe,
        httpx.AsyncClient(transport=Host(pipe)) as http,
    ):
        yield AsyncOpenAI(base_url="http://host/api", api_key="x", http_client=http, max_retries=0)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


async def stream(client: AsyncOpenAI, text: str, **options: Any) -> list[Any]:
    chunks = await client.chat.completions.create(model=MODEL, messages=[user(text)], stream=True, **options)
    return [chunk async for chunk in cast("AsyncIterator[Any]", chunks)]


async def test_an_answer_is_read(client: AsyncOpenAI) -> None:
    """Whole, with its reason and its usage."""
    answer = await client.chat.completions.create(model=MODEL, messages=[user('[[standin: text="one two"]]')])
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == (
        "assistant",
        "one two",
        "stop",
    )
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ('[[standin: text="one two"]]', "stop"),
        ('[[standin: text="one two"]] [[standin: incomplete=max_output_tokens]]', "length"),
        ('[[standin: text="one two"]] [[standin: incomplete=content_filter]]', "content_filter"),
    ],
)
async def test_a_stream_has_one_beginning_and_one_end(client: AsyncOpenAI, order: str, reason: str) -> None:
    """The role first, one finish reason at the end, and where it is asked for a last chunk with the usage."""
    *chunks, last = await stream(client, order, stream_options={"include_usage": True})
    deltas = [chunk.choices[0].delta for chunk in chunks]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert [delta.role for delta in deltas] == ["assistant", *[None] * (len(deltas) - 1)]
    assert "one two".startswith("".join(delta.content or "" for delta in deltas).strip())
    assert (reasons[:-1], reasons[-1]) == ([None] * (len(reasons) - 1), reason)
    assert (last.choices, last.usage.total_tokens > 0) == ([], True)
    assert last.usage.prompt_tokens_details.cached_tokens is not None
    assert all(chunk.usage is None for chunk in chunks)


async def test_tools_are_called(client: AsyncOpenAI) -> None:
    """Streamed or not, with a reason by which the client knows that it is its turn."""
    order = '[[standin: call=get_weather args={"city":"Paris"}]]'
    state = ChatCompletionStreamState()
    for chunk in await stream(client, order, tools=[TOOL]):
        state.handle_chunk(chunk)
    whole = await client.chat.completions.create(model=MODEL, messages=[user(order)], tools=[TOOL])
    for completion in (state.get_final_completion(), whole):
        choice: Any = completion.choices[0]
        (call,) = choice.message.tool_calls
        assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
        assert choice.finish_reason == "tool_calls"


async def test_a_tools_result_goes_back(client: AsyncOpenAI, standin: StandIn) -> None:
    """The client's own messages are a valid request."""
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    messages: list[Any] = [
        user("Weather?"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    await client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
    kinds = [item["type"] for item in standin.responses[-1].body["input"]]
    assert (kinds, standin.responses[-1].status) == (
        ["message", "function_call", "function_call_output"],
        200,
    )


@pytest.mark.parametrize(
    ("order", "kind"), [("error=429", RateLimitError), ("error=400 family=B", BadRequestError)]
)
async def test_an_error_has_its_status(client: AsyncOpenAI, order: str, kind: type[Exception]) -> None:
    """Without a stream the client raises its own class for it."""
    with pytest.raises(kind):
        await client.chat.completions.create(model=MODEL, messages=[user(f"[[standin: {order}]]")])


@pytest.mark.parametrize("order", ["error=402", "fail=failed after=2", "fail=eof after=2"])
async def test_an_error_in_a_stream_is_raised(client: AsyncOpenAI, order: str) -> None:
    """Before or after the first words; nothing that broke off looks like a whole answer."""
    with pytest.raises(APIError, match=r"reference [A-Z]{6}"):
        await stream(client, f'[[standin: text="one two three four"]] [[standin: {order}]]')
