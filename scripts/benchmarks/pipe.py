"""What the whole pipe costs: from the host's call to the host's events, without a network.

An answer of many small deltas, led by one sealed reasoning item, so that something is sealed, stored (in SQLite) and
marked. It is the process's time that counts, not the time for which deltas are batched.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.worker import HostResources
from scripts.harness.page import FakeRecords

NAME = "pipe"

_DELTAS = 2_000
_PORTION_BYTES = 1_400
_REPETITIONS = 9
_BASE_URL = "http://openrouter.invalid/api/v1"
_MODEL = {
    "id": "openai/gpt-5.2",
    "name": "A model",
    "context_length": 400_000,
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "supported_parameters": ["reasoning", "tools"],
}


def run() -> dict[str, float]:
    """Medians: microseconds per delta of a long answer, and milliseconds per request of an answer of one delta."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database.from_url(f"sqlite:///{Path(folder) / 'rows.db'}")
        streams = {deltas: _portions(deltas) for deltas in (1, _DELTAS)}
        app = App(
            HostResources(database, FakeRecords(), "a secret"),
            transport=httpx.MockTransport(_handler(streams)),
        )
        pipe = Pipe(lambda: app)
        pipe.valves = Pipe.Valves(API_KEY="sk-or-none", BASE_URL=_BASE_URL)
        await pipe.pipes()
        await _seconds(pipe, 1)
        await app.idle()
        try:
            long, short = [await _median_seconds(pipe, deltas) for deltas in (_DELTAS, 1)]
        finally:
            await app.aclose()
            await database.aclose()
    return {
        "deltas": _DELTAS,
        "us_per_delta": round((long - short) / _DELTAS * 1e6, 2),
        "ms_per_request": round(short * 1e3, 2),
    }


async def _median_seconds(pipe: Pipe, deltas: int) -> float:
    return statistics.median([await _seconds(pipe, deltas) for _ in range(_REPETITIONS)])


async def _seconds(pipe: Pipe, deltas: int) -> float:
    """How long the pipe's own process works on one answer."""
    body = {
        "model": f"openrouter.{_MODEL['id']}",
        "stream": True,
        "messages": [{"role": "user", "content": "Go."}],
        "user": str(deltas),
    }
    metadata = {"chat_id": "chat", "message_id": "message"}
    started = time.process_time()
    events = await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata)
    async for _ in cast("AsyncGenerator[Any]", events):
        pass
    return time.process_time() - started


def _handler(streams: Mapping[int, Sequence[bytes]]) -> Any:
    """The network: the catalogue, and the prepared stream whose length the body's `user` asks for."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"data": [_MODEL]})
        deltas = int(json.loads(request.content)["user"])
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, stream=_Portions(streams[deltas])
        )

    return answer


class _Portions(httpx.AsyncByteStream):
    """Bytes in the portions in which a socket gives them."""

    def __init__(self, portions: Sequence[bytes]) -> None:
        self._portions = portions

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for portion in self._portions:
            yield portion
            await asyncio.sleep(0)


def _portions(deltas: int) -> list[bytes]:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk" * 100}
    item = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    text = " word"
    part = {"type": "output_text", "text": text * deltas, "annotations": []}
    whole = {**item, "status": "completed", "content": [part]}
    delta = {
        "type": "response.output_text.delta",
        "output_index": 1,
        "item_id": item["id"],
        "content_index": 0,
        "delta": text,
        "logprobs": [],
    }
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": thought},
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        *({**delta, "sequence_number": number} for number in range(deltas)),
        {"type": "response.output_item.done", "output_index": 1, "item": whole},
        {
            "type": "response.completed",
            "response": {"id": "gen-1", "status": "completed", "output": [thought, whole]},
        },
    ]
    stream = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"
    return [stream[at : at + _PORTION_BYTES] for at in range(0, len(stream), _PORTION_BYTES)]


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
