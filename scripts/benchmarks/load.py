"""How one worker bears many answers that begin at once, and what each of them costs it.

Lone requests beside bare httpx, in turns; and bursts of answers that begin together, first short ones, which show what
a request costs, then long ones side by side. Each of these in a process of its own, with uvloop and a SQLite file like
Open WebUI's. `bare` is httpx alone.

The stand-in thinks about each request, which on a small machine takes longer than what is measured. So it is asked once
for each kind of answer, and another process sends its bytes again: an event at a time, paced where the request says so.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import httpx
import uvloop
from starlette.requests import Request
from starlette.responses import Response

from scripts.benchmarks._chats import message
from scripts.harness.page import KEY, PipeInProcess
from scripts.launch.process import printing_server, resident_kb
from scripts.standin import StandIn
from scripts.standin.server import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import Receive, Scope, Send

    from open_webui_openrouter_pipe.pipe import Pipe

MODEL = "openai/gpt-5.2"
BURSTS = (30, 100, 300)
DELTAS = 200
PACE_SECONDS = 0.1
LONE_REQUESTS = 40
_WATCH_SECONDS = 0.005
_FINISH_SECONDS = 3.0
"""What is written beside the requests is written by then."""
_HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
_AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
_DIRECTIVES = re.compile(rb"deltas=(\d+)\D+delay=([\d.]+)")


def run() -> dict[str, Any]:
    """Milliseconds, processor milliseconds, kilobytes and counts."""
    module = "scripts.benchmarks.load"
    with printing_server(module, "serve") as base_url:
        parts = {"lone": "lone", **{f"burst_of_{streams}": str(streams) for streams in BURSTS}}
        command = [sys.executable, "-m", module]
        return {
            name: json.loads(subprocess.check_output([*command, what, base_url]))
            for name, what in parts.items()
        }


# --- the answers ---------------------------------------------------------------------------------------------


def prompt(deltas: int, pace_seconds: float = 0.0) -> str:
    """What a user writes to get sealed reasoning and an answer of so many deltas."""
    directives = ("reasoning=encrypted", f"deltas={deltas}", f"delay={pace_seconds}")
    return " ".join(f"[[standin: {each}]]" for each in directives)


def request_body(text: str) -> dict[str, Any]:
    """The body of POST /responses for one question."""
    return {"model": MODEL, "input": [message("user", text)], "stream": True}


class Replies:
    """The list of models, and answers by how many deltas they have."""

    def __init__(self) -> None:
        with StandIn() as standin, httpx.Client(base_url=standin.base_url, headers=_AUTHORIZED) as client:
            self._models = client.get("/models").content
            self._answers: dict[int, list[bytes]] = {}
            for deltas in (1, DELTAS):
                answer = client.post("/responses", json=request_body(prompt(deltas))).raise_for_status()
                frames = answer.content.split(b"\n\n")
                self._answers[deltas] = [frame + b"\n\n" for frame in frames if frame]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        if request.method == "GET":
            await Response(self._models, media_type="application/json")(scope, receive, send)
            return
        named = _DIRECTIVES.search(await request.body())
        assert named
        await send(_HEAD)
        for frame in self._answers[int(named[1])]:
            if (pace_seconds := float(named[2])) and b"output_text.delta" in frame:
                await asyncio.sleep(pace_seconds)
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _serve() -> None:
    with LoopbackServer(Replies()) as server:
        print(f"{server.url}/api/v1", flush=True)
        signal.pause()


# --- the worker ----------------------------------------------------------------------------------------------


async def _work(what: str, base_url: str) -> dict[str, Any]:
    """Measure in a worker that was just started and has answered once."""
    with tempfile.TemporaryDirectory() as folder:
        host = PipeInProcess(Path(folder), base_url=base_url, COST_LINE="forecast")
        async with host as pipe:
            await _first_token(pipe, "warm", prompt(1))
            await host.app.idle()
            await asyncio.sleep(_FINISH_SECONDS)
            return await (_lone(pipe, base_url) if what == "lone" else _burst(pipe, base_url, int(what)))


async def _first_token(pipe: Pipe, chat_id: str, text: str) -> float:
    """Seconds from the host's call to the first text, 0 where none came; the answer is read to its end."""
    messages = [{"role": "user", "content": text}]
    body = {"model": f"openrouter.{MODEL}", "stream": True, "messages": messages}
    metadata = {"chat_id": chat_id, "message_id": f"message of {chat_id}"}
    began, first = time.perf_counter(), 0.0
    async for event in await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata):
        if not first and event.get("type") == "response.output_text.delta":
            first = time.perf_counter() - began
    return first


async def _bare_first_token(client: httpx.AsyncClient, base_url: str) -> float:
    body, began, first = request_body(prompt(1)), time.perf_counter(), 0.0
    async with client.stream("POST", f"{base_url}/responses", json=body, headers=_AUTHORIZED) as response:
        async for portion in response.aiter_bytes():
            if not first and b"output_text.delta" in portion:
                first = time.perf_counter() - began
    assert first
    return first


async def _lone(pipe: Pipe, base_url: str) -> dict[str, float]:
    ours, bare = [], []
    async with httpx.AsyncClient() as client:
        for number in range(LONE_REQUESTS):
            bare.append(await _bare_first_token(client, base_url))
            ours.append(await _first_token(pipe, f"lone {number}", prompt(1)))
    over = median(mine - other for mine, other in zip(ours, bare, strict=True))
    times = {"first_token": median(ours), "bare_first_token": median(bare), "over_bare": over}
    return {f"{name}_ms": _ms(seconds) for name, seconds in times.items()}


async def _burst(pipe: Pipe, base_url: str, streams: int) -> dict[str, float]:
    began = time.process_time()
    await asyncio.gather(*(_first_token(pipe, f"short {n}", prompt(1)) for n in range(streams)))
    await asyncio.sleep(_FINISH_SECONDS)
    short_seconds = time.process_time() - began
    long, lags = prompt(DELTAS, PACE_SECONDS), list[float]()
    before_kb = peak_kb = resident_kb()

    async def watch() -> None:
        nonlocal peak_kb
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_WATCH_SECONDS)
            lags.append(time.perf_counter() - began - _WATCH_SECONDS)
            peak_kb = max(peak_kb, resident_kb())

    watcher = asyncio.create_task(watch())
    began = time.process_time()
    firsts = await asyncio.gather(*(_first_token(pipe, f"chat {n}", long) for n in range(streams)))
    await asyncio.sleep(_FINISH_SECONDS)
    seconds = time.process_time() - began
    watcher.cancel()
    with suppress(asyncio.CancelledError):
        await watcher
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60) as client:
        bare = await asyncio.gather(*(_bare_first_token(client, base_url) for _ in range(streams)))
    answered = [each for each in firsts if each]
    first, lag, bare_first = (_percentiles(values) for values in (answered, lags, bare))
    return {
        "failed": streams - len(answered),
        "first_token_p50_ms": first[0],
        "first_token_p99_ms": first[1],
        "bare_first_token_p50_ms": bare_first[0],
        "loop_lag_p99_ms": lag[1],
        "processor_ms_per_request": _ms(seconds / streams),
        "processor_ms_per_short_request": _ms(short_seconds / streams),
        "memory_kb_per_stream": round((peak_kb - before_kb) / streams, 1),
    }


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(seconds, n=100, method="inclusive")
    return _ms(cuts[49]), _ms(cuts[98])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


BENCHMARKS = {"load": run}

if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve()
    else:
        json.dump(uvloop.run(_work(*sys.argv[1:])), sys.stdout)
