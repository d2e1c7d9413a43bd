"""What attachments cost a request, and how long the first list of models takes; the network is a function.

`media`: a chat of 20 turns with ten images of 1 MB and a PDF of 5 MB. The images come as Open WebUI sends them, as data
URLs, and the PDF by its id in the host's storage. For each turn: how long the request takes until it is on its way, how
much is newly encoded, the longest time for which the event loop does nothing else, and whether the parts of earlier
turns have the same bytes as before. That time is measured twice: by the clock, which on a busy machine counts what
other processes take, and by how much processor time this process takes meanwhile, which does not.

`catalog`: how long the first list of models takes after a restart while OpenRouter cannot be reached. Each repeat is a
new app that finds the last good list of 700 models on disk. The administrator's filters and variants are those of a
busy server. The collector runs before: its pass over all that Open WebUI has imported belongs to the start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import tempfile
import time
import tracemalloc
from base64 import b64encode
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.ports import FileContent
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.valves import Valves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import KEY, SECRET_KEY, FakeRecords, PipeInProcess
from scripts.standin import catalogue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from open_webui_openrouter_pipe.pipe import Pipe

BASE_URL = "http://openrouter.invalid/api/v1"
MODEL = {
    "id": "openai/gpt-5.2",
    "name": "A model",
    "context_length": 400_000,
    "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
    "supported_parameters": ["reasoning", "tools"],
}


# --- attachments ---------------------------------------------------------------------------------------------

TURNS = 20
IMAGES = 10
IMAGE_BYTES = 1_000_000
PDF_BYTES = 5_000_000
LOOK_SECONDS = 0.001

_ENDED = {"type": "response.completed", "response": {"id": "gen-1", "status": "completed", "output": []}}
ANSWER = f"data: {json.dumps(_ENDED)}\n\ndata: [DONE]\n\n"


@dataclass
class _Network(httpx.AsyncBaseTransport):
    """The catalogue, and an answer to every request; keeps when the last one arrived, and the bodies in portions."""

    bodies: list[list[bytes]] = field(default_factory=list)
    arrived_seconds: float = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [MODEL]})
        self.bodies.append([portion async for portion in cast("httpx.AsyncByteStream", request.stream)])
        self.arrived_seconds = time.perf_counter()
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=ANSWER)


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

    def __getattr__(self, name: str) -> Any:
        """Nothing is downloaded or drawn here."""
        raise AssertionError(name)


async def measure_media() -> dict[str, float]:
    """Medians and maxima over the turns of a chat, in milliseconds and megabytes."""
    storage, network = _Storage(_pdf()), _Network()
    files = cast("Any", storage)
    with tempfile.TemporaryDirectory() as folder:
        host = PipeInProcess(
            Path(folder), base_url=BASE_URL, transport=network, files=files, COST_LINE="forecast"
        )
        async with host as pipe:
            turns = [await _turn(pipe, network, messages) for messages in _chats()]
            sent = network.bodies[:]
            peak_mb = await _peak_mb(pipe, _chats()[-1])
    milliseconds, stalls, floors, own_stalls = zip(*turns, strict=True)
    inputs = [json.loads(b"".join(body))["input"] for body in sent]
    changed = sum(later[: len(earlier)] != earlier for earlier, later in pairwise(inputs))
    results = {
        "request_mb": sum(map(len, sent[-1])) / 1e6,
        "first_ms": milliseconds[0],
        "last_ms": milliseconds[-1],
        "median_ms": median(milliseconds),
        "longest_stall_ms": max(stalls),
        "median_stall_ms": median(stalls),
        "stall_of_an_idle_loop_ms": max(floors),
        "longest_stall_processor_ms": max(own_stalls),
        "median_stall_processor_ms": median(own_stalls),
        "peak_mb": peak_mb,
        "read_mb": storage.read_bytes / 1e6,
        "turns_with_changed_parts": float(changed),
    }
    return {name: round(value, 1) for name, value in results.items()}


async def _turn(pipe: Pipe, network: _Network, messages: list[Any]) -> tuple[float, float, float, float]:
    """How long until the request is there, and the longest stalls of the loop: in the request, and in an idle loop."""
    floor, _ = await _longest_stalls_ms(asyncio.create_task(asyncio.sleep(0.2)))
    started = time.perf_counter()
    stall, own_stall = await _longest_stalls_ms(asyncio.create_task(_answer(pipe, messages)))
    return (network.arrived_seconds - started) * 1e3, stall, floor, own_stall


async def _answer(pipe: Pipe, messages: list[Any]) -> None:
    body = {"model": f"openrouter.{MODEL['id']}", "stream": True, "messages": messages}
    metadata = {"chat_id": "chat", "message_id": "message"}
    events = await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata)
    async for _ in cast("AsyncGenerator[Any]", events):
        pass


async def _longest_stalls_ms(work: asyncio.Task[None]) -> tuple[float, float]:
    """While something is done, by the clock, and by the processor time of this process."""
    longest = own = 0.0
    while not work.done():
        began, own_began = time.perf_counter(), time.process_time()
        await asyncio.sleep(LOOK_SECONDS)
        longest = max(longest, time.perf_counter() - began - LOOK_SECONDS)
        own = max(own, time.process_time() - own_began)
    await work
    return longest * 1e3, own * 1e3


async def _peak_mb(pipe: Pipe, messages: list[Any]) -> float:
    """What one request of the whole chat needs at most, beside the chat itself."""
    tracemalloc.start()
    try:
        await _answer(pipe, messages)
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


# --- the first list of models --------------------------------------------------------------------------------

MODELS = 700
RESTARTS = 20
DESCRIPTION = "It reads long documents, calls tools, and answers in many languages. " * 12
"""About as long as in the real list."""


async def measure_catalog() -> dict[str, float]:
    """The number of models, and milliseconds: of the wall, and of the processor, which is less noisy."""
    logging.disable(logging.WARNING)  # each repeat says that the network is down
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed, *_ = await _restart(folder, httpx.MockTransport(_list_models))
        times = [await _restart(folder, httpx.MockTransport(_refuse)) for _ in range(RESTARTS)]
    counts, first, of_processor = zip(*times, strict=True)
    assert set(counts) == {listed}
    return {
        "models": float(listed),
        "first_best_ms": round(min(first), 2),
        "first_median_ms": round(median(first), 2),
        "first_worst_ms": round(max(first), 2),
        "first_processor_median_ms": round(median(of_processor), 2),
    }


async def _restart(folder: Path, transport: httpx.AsyncBaseTransport) -> tuple[int, float, float]:
    """The number of entries in the first list of a new app, and its milliseconds of wall and processor."""
    database = open_database(f"sqlite:///{folder / 'webui.db'}")
    resources = Host(database, FakeRecords(), SECRET_KEY, cache_folder=folder)
    valves = Valves(
        API_KEY=KEY,
        BASE_URL=BASE_URL,
        MODELS="*, !nobody/*",
        MODEL_FILTERS="context>=1k",
        VARIANTS="author-1/*:nitro, @preset/team",
    )
    async with aclosing(database), aclosing(App(resources, transport=transport)) as app:
        gc.collect()
        started, used = time.perf_counter(), time.process_time()
        entries = await app.models(read_settings(valves))
        of_wall, of_processor = time.perf_counter() - started, time.process_time() - used
        await app.idle()
    return len(entries), of_wall * 1e3, of_processor * 1e3


def _list_models(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/key"):
        return httpx.Response(200, json={"data": {"limit": None, "usage": 1}})
    rows = [
        {**catalogue.MODELS[at % 20].wire(), "id": f"author-{at % 60}/model-{at}", "description": DESCRIPTION}
        for at in range(MODELS)
    ]
    return httpx.Response(200, json={"data": rows})


def _refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


BENCHMARKS = {
    "media": lambda: asyncio.run(measure_media()),
    "catalog": lambda: asyncio.run(measure_catalog()),
}
