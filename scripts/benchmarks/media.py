"""What attachments cost: a chat of 20 turns with ten images of 1 MB and a PDF of 5 MB, from call to request.

The images come as Open WebUI sends them, as data URLs, and the PDF by its id in the host's storage. For each turn: how
long the request takes until it is on its way, how much is newly encoded, the longest time for which the event loop does
nothing else, and whether the parts of earlier turns have the same bytes as before. The network is a function.

That time is measured twice: by the clock, which on a busy machine counts what other processes take, and by how much
processor time this process takes meanwhile, which does not.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import time
import tracemalloc
from base64 import b64encode
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx

from open_webui_openrouter_pipe.ports import FileContent
from scripts.harness.page import PipeInProcess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from open_webui_openrouter_pipe.pipe import Pipe

TURNS = 20
IMAGES = 10
IMAGE_BYTES = 1_000_000
PDF_BYTES = 5_000_000
_BASE_URL = "http://openrouter.invalid/api/v1"
_MODEL = {
    "id": "openai/gpt-5.2",
    "name": "A model",
    "context_length": 400_000,
    "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
}
_LOOK_SECONDS = 0.001


def run() -> dict[str, float]:
    """Medians and maxima over the turns of a chat, in milliseconds and megabytes."""
    return asyncio.run(_measure())


@dataclass
class _Storage:
    """The host's storage, with one PDF."""

    pdf: bytes
    read_bytes: int = 0

    async def read(self, user_id: str, file_id: str, *, max_bytes: int) -> FileContent:
        """Read the PDF."""
        del user_id, file_id, max_bytes
        self.read_bytes += len(self.pdf)
        return FileContent("report.pdf", "application/pdf", self.pdf)

    def id_of(self, user_id: str, key: str) -> str:
        """Nothing is downloaded here."""
        raise AssertionError((user_id, key))

    async def store(
        self, user_id: str, chat_id: str, message_id: str, file: FileContent, *, key: str | None = None
    ) -> str:
        """Nothing is drawn here."""
        raise AssertionError((user_id, chat_id, message_id, file, key))


@dataclass
class _Network(httpx.AsyncBaseTransport):
    """The catalogue, and an answer to every request; keeps when each arrived, and its body in portions."""

    bodies: list[list[bytes]] = field(default_factory=list)
    arrived_seconds: float = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [_MODEL]})
        self.bodies.append([portion async for portion in cast("httpx.AsyncByteStream", request.stream)])
        self.arrived_seconds = time.perf_counter()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=_ANSWER)


async def _measure() -> dict[str, float]:
    storage, network = _Storage(_pdf()), _Network()
    with tempfile.TemporaryDirectory() as folder:
        host = PipeInProcess(
            Path(folder), base_url=_BASE_URL, transport=network, files=storage, COST_LINE="forecast"
        )
        async with host as pipe:
            turns = [await _ask(pipe, network, messages) for messages in _chats()]
            peak_mb = await _peak_mb(pipe, network, _chats()[-1])
    milliseconds, stalls, floors, own_stalls = zip(*turns, strict=True)
    inputs = [json.loads(b"".join(body))["input"] for body in network.bodies]
    changed = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(inputs))
    results = {
        "request_mb": sum(map(len, network.bodies[-1])) / 1e6,
        "first_ms": milliseconds[0],
        "last_ms": milliseconds[-1],
        "median_ms": statistics.median(milliseconds),
        "longest_stall_ms": max(stalls),
        "median_stall_ms": statistics.median(stalls),
        "stall_of_an_idle_loop_ms": max(floors),
        "longest_stall_processor_ms": max(own_stalls),
        "median_stall_processor_ms": statistics.median(own_stalls),
        "peak_mb": peak_mb,
        "read_mb": storage.read_bytes / 1e6,
        "turns_with_changed_parts": float(changed),
    }
    return {name: round(value, 1) for name, value in results.items()}


async def _ask(pipe: Pipe, network: _Network, messages: list[Any]) -> tuple[float, float, float, float]:
    """How long until the request is there, and the longest stalls of the loop: in the request, and in an idle loop."""
    floor, _ = await _longest_stalls_ms(asyncio.create_task(asyncio.sleep(0.2)))
    started = time.perf_counter()
    stall, own_stall = await _longest_stalls_ms(asyncio.create_task(_answer(pipe, messages)))
    return (network.arrived_seconds - started) * 1e3, stall, floor, own_stall


async def _answer(pipe: Pipe, messages: list[Any]) -> None:
    body = {"model": f"openrouter.{_MODEL['id']}", "stream": True, "messages": messages}
    metadata = {"chat_id": "chat", "message_id": "message"}
    async for _ in cast(
        "AsyncGenerator[Any]", await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata)
    ):
        pass


async def _longest_stalls_ms(work: asyncio.Task[None]) -> tuple[float, float]:
    """While something is done, by the clock, and by the processor time of this process."""
    longest = own = 0.0
    while not work.done():
        began, own_began = time.perf_counter(), time.process_time()
        await asyncio.sleep(_LOOK_SECONDS)
        longest = max(longest, time.perf_counter() - began - _LOOK_SECONDS)
        own = max(own, time.process_time() - own_began)
    await work
    return longest * 1e3, own * 1e3


async def _peak_mb(pipe: Pipe, network: _Network, messages: list[Any]) -> float:
    """What one request of the whole chat needs at most, beside the chat itself."""
    tracemalloc.start()
    try:
        await _answer(pipe, messages)
        network.bodies.pop()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _chats() -> list[list[Any]]:
    """The messages of each turn: the PDF with the first, an image with each of the next ten."""
    messages: list[Any] = []
    chats = []
    for turn in range(TURNS):
        parts: list[Any] = [{"type": "text", "text": f"Question {turn}."}]
        if turn == 0:
            parts.append({"type": "file", "file": {"file_id": "pdf", "filename": "report.pdf"}})
        elif turn <= IMAGES:
            url = f"data:image/png;base64,{b64encode(_png(turn)).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        messages.append({"role": "user", "content": parts})
        chats.append(list(messages))
        messages.append({"role": "assistant", "content": "An answer."})
    return chats


def _png(number: int) -> bytes:
    """The head of a PNG of 1,024 by 1,024 pixels, and bytes that nothing can compress."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1024).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    return head + random.Random(number).randbytes(IMAGE_BYTES)  # noqa: S311 - any bytes


def _pdf() -> bytes:
    page = b"1 0 obj<</Type/Pages/Count 40>>endobj\n"
    return b"%PDF-1.7\n" + page + random.Random(0).randbytes(PDF_BYTES) + b"\n%%EOF"  # noqa: S311 - as above


_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "An answer.", "annotations": []}],
}
_EVENTS = [
    {"type": "response.output_item.done", "output_index": 0, "item": _MESSAGE},
    {"type": "response.completed", "response": {"id": "gen-1", "status": "completed", "output": [_MESSAGE]}},
]
_ANSWER = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in _EVENTS) + b"data: [DONE]\n\n"


BENCHMARKS = {"media": run}
