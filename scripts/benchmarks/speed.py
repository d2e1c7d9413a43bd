"""What the way of an answer costs without a network, and the first list of models after a restart.

`stream` and `pipe`: an answer of many small deltas as OpenRouter writes them, cut into portions as a socket gives them.
`stream` measures what one delta costs between the socket and the effect: bytes, frame, event, effect; `pipe` the whole
pipe, from the host's call to the host's events, with one sealed reasoning item in front, so that something is sealed,
stored (in SQLite) and marked. Both are processor time, not the time for which deltas are batched.

`catalog`: how long the first list of models takes after a restart while OpenRouter cannot be reached. Each repeat is a
new app that finds the last good list of 700 models on disk. The administrator's filters and variants are those of a
busy server. The collector runs before: its pass over all that Open WebUI has imported belongs to the start.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.responses.effects import Decoder, parse_event
from open_webui_openrouter_pipe.responses.reducer import Reducer
from open_webui_openrouter_pipe.settings import read_settings
from open_webui_openrouter_pipe.valves import Valves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import KEY, SECRET_KEY, FakeRecords, PipeInProcess
from scripts.standin import catalogue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from open_webui_openrouter_pipe.pipe import Pipe

BASE_URL = "http://openrouter.invalid/api/v1"
DELTAS = 2_000
PORTION_BYTES = 1_400
STREAM_REPEATS = 15
PIPE_REPEATS = 9

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk" * 100}
MODEL = {
    "id": "openai/gpt-5.2",
    "name": "A model",
    "context_length": 400_000,
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "supported_parameters": ["reasoning", "tools"],
}


def portions_of(deltas: int, *earlier: dict[str, Any]) -> list[bytes]:
    """The stream of an answer of so many deltas after some other items."""
    text, index = " word", len(earlier)
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": text * deltas, "annotations": [], "logprobs": []}
    whole = {**item, "status": "completed", "content": [part]}
    where = {"output_index": index, "item_id": item["id"], "content_index": 0}
    delta = {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
    end = {"id": "gen-1", "status": "completed", "output": [*earlier, whole]}
    events = [
        *(
            {"type": f"response.output_item.{what}", "output_index": at, "item": other}
            for at, other in enumerate(earlier)
            for what in ("added", "done")
        ),
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *({**delta, "sequence_number": number} for number in range(deltas)),
        {"type": "response.output_item.done", "output_index": index, "item": whole},
        {"type": "response.completed", "response": end},
    ]
    stream = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"
    return [stream[at : at + PORTION_BYTES] for at in range(0, len(stream), PORTION_BYTES)]


def measure_stream() -> dict[str, float]:
    """Microseconds of processor time per delta (median): the whole way, and each station alone."""
    portions = portions_of(DELTAS)
    frames = _frames(portions)
    events = [parse_event(frame) for frame in frames]
    works: dict[str, Callable[[], object]] = {
        "total": lambda: _reduce([parse_event(frame) for frame in _frames(portions)]),
        "sse": lambda: _frames(portions),
        "events": lambda: [parse_event(frame) for frame in frames],
        "reducer": lambda: _reduce(events),
    }
    times = {f"{name}_us_per_delta": round(_median_us(work) / DELTAS, 2) for name, work in works.items()}
    return {"deltas": DELTAS, **times}


def _median_us(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(STREAM_REPEATS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return median(seconds) * 1e6


def _frames(portions: Sequence[bytes]) -> list[str]:
    decoder = Decoder()
    frames = [frame for portion in portions for frame in decoder.feed(portion)]
    return [*frames, *decoder.flush()]


def _reduce(events: Sequence[dict[str, Any]]) -> int:
    reducer = Reducer()
    return sum(len(reducer.feed(event)) for event in events) + len(reducer.close())


async def measure_pipe() -> dict[str, float]:
    """Medians: microseconds per delta of a long answer, and milliseconds per request of an answer of one delta."""
    streams = {deltas: portions_of(deltas, REASONING) for deltas in (1, DELTAS)}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [MODEL]})
        stream = _Portions(streams[int(json.loads(request.content)["user"])])
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)

    with tempfile.TemporaryDirectory() as folder:
        transport = httpx.MockTransport(answer)
        host = PipeInProcess(Path(folder), base_url=BASE_URL, transport=transport, COST_LINE="forecast")
        async with host as pipe:
            await _seconds(pipe, 1)
            await host.app.idle()
            long, short = [
                median([await _seconds(pipe, deltas) for _ in range(PIPE_REPEATS)]) for deltas in (DELTAS, 1)
            ]
    return {
        "deltas": DELTAS,
        "us_per_delta": round((long - short) / DELTAS * 1e6, 2),
        "ms_per_request": round(short * 1e3, 2),
    }


async def _seconds(pipe: Pipe, deltas: int) -> float:
    """How long the pipe's own process works on one answer; the body's `user` tells the network its length."""
    messages = [{"role": "user", "content": "Go."}]
    body = {"model": f"openrouter.{MODEL['id']}", "stream": True, "messages": messages, "user": str(deltas)}
    metadata = {"chat_id": "chat", "message_id": "message"}
    started = time.process_time()
    events = await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata)
    async for _ in cast("AsyncGenerator[Any]", events):
        pass
    return time.process_time() - started


class _Portions(httpx.AsyncByteStream):
    """Bytes in the portions in which a socket gives them."""

    def __init__(self, portions: Sequence[bytes]) -> None:
        self._portions = portions

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for portion in self._portions:
            yield portion
            await asyncio.sleep(0)


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
    "stream": measure_stream,
    "pipe": lambda: asyncio.run(measure_pipe()),
    "catalog": lambda: asyncio.run(measure_catalog()),
}
