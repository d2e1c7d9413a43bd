"""However large a request is, the event loop looks at others between short pieces of work: they are counted."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx
import pytest

from scripts.harness.page import PipeInProcess
from scripts.standin.drawing import draw
from tests.support.files import data_url
from tests.support.profiling import loop_work
from tests.support.shapes import ASKED, Json, assistant, calls, image, joined, user
from tests.test_counts import model_row

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.anyio

MODEL = "maker/model-0"
MOST_LINES = 20_000
"""Between two looks: 100 ms are about 500,000 lines of Python."""
MEGABYTE = 1_000_000
SAID = "The keeper counts the gulls. " * 35
"""A thousand characters."""


def picture(size_bytes: int) -> Json:
    return image(data_url("image/png", draw("red").ljust(size_bytes, b"x")))


REQUESTS: dict[str, Callable[[int], list[Json]]] = {
    "messages": lambda size: [
        *joined([user(f"{at} {SAID}"), assistant(f"{at} {SAID}")] for at in range(size * 500)),
        ASKED,
    ],
    "one text": lambda size: [user(SAID * 1_000 * size)],
    "one line": lambda size: [user("x" * MEGABYTE * size)],
    "one text of an answer": lambda size: [ASKED, assistant(SAID * 1_000 * size), ASKED],
    "one text of instructions": lambda size: [{"role": "system", "content": SAID * 1_000 * size}, ASKED],
    "calls": lambda size: [ASKED, *calls(range(400 * size))],
    "pictures": lambda size: [user([picture(100_000 + at) for at in range(10 * size)])],
    "one picture": lambda size: [user([picture(MEGABYTE * size)])],
}
"""Messages of so many megabytes; of calls, so many times four hundred."""


class Provider(httpx.AsyncBaseTransport):
    """Lists one model with a large window, and answers each request with one word."""

    def __init__(self) -> None:
        self.received_bytes = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/responses"):
            async for piece in request.stream:  # type: ignore[union-attr]  # that of an AsyncClient
                self.received_bytes += len(piece)
                await asyncio.sleep(0)
            content = [{"type": "output_text", "text": "Yes.", "annotations": []}]
            item = {
                "type": "message",
                "id": "m",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            end = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
            head = {"content-type": "text/event-stream"}
            return httpx.Response(200, headers=head, content=f"data: {json.dumps(end)}\n\n".encode())
        if request.url.path.endswith(("/models", "/models/user")):
            reads = {"input_modalities": ["text", "image"], "output_modalities": ["text"]}
            row = {**model_row(0), "context_length": 10**8, "architecture": reads}
            return httpx.Response(200, json={"data": [row]})
        return httpx.Response(404)


async def most_work(folder: Path, messages: list[Json]) -> tuple[int, object, int]:
    """The most that was done between two looks while a request was answered, by what, and how many bytes were sent."""
    provider = Provider()
    body = {"model": f"openrouter.{MODEL}", "messages": messages, "stream": True}
    metadata = {"chat_id": "chat", "message_id": "m1"}
    async with PipeInProcess(folder, base_url="https://example.org/api/v1", transport=provider) as pipe:
        for sent in ([ASKED], messages):  # the first request of a worker loads and compiles
            provider.received_bytes = 0
            with loop_work() as work:
                events = await pipe.pipe(
                    {**body, "messages": sent}, __user__={"id": "ada"}, __metadata__=metadata
                )
                shown = [event async for event in events]
    assert "response.completed" in str(shown), shown
    by = [(code.co_qualname, lines) for code, lines in work.by.most_common(5)]
    return work.most, by, provider.received_bytes


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_event_loop_never_stands_still(tmp_path: Path, name: str) -> None:
    """From the host's messages to the end of the answer."""
    most, by, sent_bytes = await most_work(tmp_path, REQUESTS[name](2))
    assert most < MOST_LINES, by
    assert sent_bytes > 100_000


async def test_the_context_of_a_large_chat_is_shown_beside_others(tmp_path: Path) -> None:
    """Nothing is sent for it."""
    said = REQUESTS["messages"](2)[:-1]
    most, by, sent_bytes = await most_work(tmp_path, [*said, user("/context")])
    assert most < MOST_LINES, by
    assert sent_bytes == 0


@pytest.mark.thorough
@pytest.mark.parametrize("name", REQUESTS)
async def test_it_does_not_with_twenty_megabytes(tmp_path: Path, name: str) -> None:
    """The same work for ten times as much, but for what each message takes in a list: and 8,000 calls."""
    most, by, _ = await most_work(tmp_path, REQUESTS[name](20))
    assert most < 5 * MOST_LINES, by
