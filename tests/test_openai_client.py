"""The official OpenAI client as a caller of Open WebUI's API, whose part between both is played here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, RateLimitError

from scripts.harness.page import PipeInProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

MODEL = "openrouter.standin/script"


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


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("", "stop"),
        ("[[standin: incomplete=max_output_tokens]]", "length"),
        ("[[standin: incomplete=content_filter]]", "content_filter"),
    ],
)
async def test_a_stream_has_one_beginning_and_one_end(client: AsyncOpenAI, order: str, reason: str) -> None:
    """The role first, one finish reason at the end, and where it is asked for a last chunk with the usage.

    Without streaming the same is read of one object.
    """
    text = f'[[standin: text="one two"]] {order}'
    *chunks, last = await stream(client, text, stream_options={"include_usage": True})
    deltas = [chunk.choices[0].delta for chunk in chunks]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert [delta.role for delta in deltas] == ["assistant", *[None] * (len(deltas) - 1)]
    assert (reasons[:-1], reasons[-1]) == ([None] * (len(reasons) - 1), reason)
    assert (last.choices, last.usage.total_tokens > 0) == ([], True)
    assert last.usage.prompt_tokens_details.cached_tokens is not None
    assert all(chunk.usage is None for chunk in chunks)
    answer = await client.chat.completions.create(model=MODEL, messages=[user(text)])
    (choice,) = answer.choices
    said = "".join(delta.content or "" for delta in deltas)
    assert "one two".startswith(said.strip())
    assert (choice.message.content, choice.finish_reason) == (said, reason)
    assert answer.usage
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


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
