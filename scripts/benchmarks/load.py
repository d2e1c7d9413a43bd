"""How one worker bears many answers that begin at once, and what each of them costs it.

Lone requests beside bare httpx, in turns; a hundred short answers one after the other; and bursts of answers that begin
together, first short ones, which show what a request costs, then long ones side by side. Each of these in a process of
its own, with the stand-in's bytes from another one (`_replies`), uvloop, and a SQLite file with the pool and the
settings of Open WebUI's own (`internal/db.py`). `bare` is httpx alone.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import httpx
import sqlalchemy as sa
import uvloop
from sqlalchemy.ext.asyncio import create_async_engine

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.worker import HostResources
from scripts.benchmarks._replies import MODEL, prompt, request_body
from scripts.harness.page import KEY, FakeRecords

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

NAME = "load"

BURSTS = (30, 100, 300)
DELTAS = 200
PACE_SECONDS = 0.1
LONE_REQUESTS = 40
SEQUENTIAL_REQUESTS = 100
_WATCH_SECONDS = 0.005
_FINISH_SECONDS = 3.0
"""What is written beside the requests is written by then."""
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "busy_timeout=5000",
    "cache_size=-65536",
    "temp_store=MEMORY",
    "mmap_size=268435456",
    "journal_size_limit=67108864",
)


def run() -> dict[str, Any]:
    """Milliseconds, processor milliseconds, kilobytes and counts."""
    with _server() as base_url:
        results = {"lone": _measure("lone", base_url), "sequential": _measure("sequential", base_url)}
        return results | {f"burst_of_{streams}": _measure(str(streams), base_url) for streams in BURSTS}


@contextmanager
def _server() -> Iterator[str]:
    command = [sys.executable, "-m", "scripts.benchmarks._replies", "1", str(DELTAS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(15)


def _measure(what: str, base_url: str) -> dict[str, Any]:
    """In a process of its own: one worker that was just started and has answered once."""
    command = [sys.executable, "-m", "scripts.benchmarks.load", what, base_url]
    results: dict[str, Any] = json.loads(subprocess.check_output(command))
    return results


async def _main(what: str, base_url: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        engine = _engine(Path(folder) / "webui.db")
        app = App(HostResources(Database(engine), FakeRecords(), "a secret"))
        pipe = Pipe(lambda: app)
        pipe.valves = Pipe.Valves(API_KEY=KEY, BASE_URL=base_url)
        try:
            await pipe.pipes()
            await _first_token(pipe, "warm", prompt(1))
            await app.idle()
            await asyncio.sleep(_FINISH_SECONDS)
            if what == "lone":
                return await _lone(pipe, base_url)
            if what == "sequential":
                return await _sequential(pipe, base_url, engine.sync_engine)
            return await _burst(pipe, base_url, engine.sync_engine, int(what))
        finally:
            await app.idle()
            await app.aclose()
            await engine.dispose()


def _engine(path: Path) -> Any:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        connect_args={"check_same_thread": False},
        pool_size=512,
        pool_timeout=30,
        pool_recycle=3600,
    )

    @sa.event.listens_for(engine.sync_engine, "connect")
    def tune(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    return engine


async def _first_token(pipe: Pipe, chat_id: str, text: str) -> float:
    """Seconds from the host's call to the first text, 0 where none came; the answer is read to its end."""
    body = {
        "model": f"openrouter.{MODEL}",
        "stream": True,
        "messages": [{"role": "user", "content": text}],
    }
    metadata = {"chat_id": chat_id, "message_id": f"message of {chat_id}"}
    began, first = time.perf_counter(), 0.0
    async for event in await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata):
        if not first and event.get("type") == "response.output_text.delta":
            first = time.perf_counter() - began
    return first


async def _bare_first_token(client: httpx.AsyncClient, base_url: str, text: str) -> float:
    body = request_body(text)
    headers, began, first = {"Authorization": f"Bearer {KEY}"}, time.perf_counter(), 0.0
    async with client.stream("POST", f"{base_url}/responses", json=body, headers=headers) as response:
        async for portion in response.aiter_bytes():
            if not first and b"output_text.delta" in portion:
                first = time.perf_counter() - began
    assert first
    return first


async def _lone(pipe: Pipe, base_url: str) -> dict[str, float]:
    ours, bare = [], []
    async with httpx.AsyncClient() as client:
        for number in range(LONE_REQUESTS):
            bare.append(await _bare_first_token(client, base_url, prompt(1)))
            ours.append(await _first_token(pipe, f"lone {number}", prompt(1)))
    over = median(mine - other for mine, other in zip(ours, bare, strict=True))
    return {
        "first_token_ms": _ms(median(ours)),
        "bare_first_token_ms": _ms(median(bare)),
        "over_bare_ms": _ms(over),
    }


async def _sequential(pipe: Pipe, base_url: str, engine: sa.Engine) -> dict[str, float]:
    """Answers of one delta, so that what a request costs shows beside what its deltas cost."""
    async with httpx.AsyncClient() as client:
        before = (await client.get(f"{base_url}/connections")).json()
    async with _counted(engine) as counts:
        began = time.process_time()
        for number in range(SEQUENTIAL_REQUESTS):
            await _first_token(pipe, f"sequential {number}", prompt(1))
        await asyncio.sleep(_FINISH_SECONDS)
        seconds = time.process_time() - began
    async with httpx.AsyncClient() as client:
        connections = (await client.get(f"{base_url}/connections")).json() - 1
    return {
        "requests": SEQUENTIAL_REQUESTS,
        "new_connections": connections - before,
        "processor_ms_per_request": _ms(seconds / SEQUENTIAL_REQUESTS),
        **{f"{name}_per_request": count / SEQUENTIAL_REQUESTS for name, count in counts.items()},
    }


async def _burst(pipe: Pipe, base_url: str, engine: sa.Engine, streams: int) -> dict[str, float]:
    short_ms = await _short_burst(pipe, streams)
    long, lags = prompt(DELTAS, PACE_SECONDS), list[float]()
    before_kb = peak_kb = _resident_kb()

    async def watch() -> None:
        nonlocal peak_kb
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_WATCH_SECONDS)
            lags.append(time.perf_counter() - began - _WATCH_SECONDS)
            peak_kb = max(peak_kb, _resident_kb())

    async with _counted(engine) as counts:
        watcher = asyncio.create_task(watch())
        began = time.process_time()
        firsts = await asyncio.gather(*(_first_token(pipe, f"chat {n}", long) for n in range(streams)))
        await asyncio.sleep(_FINISH_SECONDS)
        seconds = time.process_time() - began
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=60) as client:
        short = prompt(1)
        bare = await asyncio.gather(*(_bare_first_token(client, base_url, short) for _ in range(streams)))
    answered = [each for each in firsts if each]
    first, lag, bare_first = (_percentiles(values) for values in (answered, lags, bare))
    return {
        "failed": streams - len(answered),
        "first_token_p50_ms": first[0],
        "first_token_p99_ms": first[1],
        "bare_first_token_p50_ms": bare_first[0],
        "loop_lag_p99_ms": lag[1],
        "processor_ms_per_request": _ms(seconds / streams),
        "processor_ms_per_short_request": short_ms,
        "memory_kb_per_stream": round((peak_kb - before_kb) / streams, 1),
        **{f"{name}_per_request": round(count / streams, 3) for name, count in counts.items()},
    }


async def _short_burst(pipe: Pipe, streams: int) -> float:
    """Processor milliseconds of each of so many answers of one delta."""
    began = time.process_time()
    await asyncio.gather(*(_first_token(pipe, f"short {n}", prompt(1)) for n in range(streams)))
    await asyncio.sleep(_FINISH_SECONDS)
    return _ms((time.process_time() - began) / streams)


@asynccontextmanager
async def _counted(engine: sa.Engine) -> AsyncIterator[dict[str, int]]:
    """Count what is executed and committed meanwhile."""
    counts = {"statements": 0, "transactions": 0}

    def execute(*_: Any) -> None:
        counts["statements"] += 1

    def commit(*_: Any) -> None:
        counts["transactions"] += 1

    listeners = (("before_cursor_execute", execute), ("commit", commit))
    for name, listener in listeners:
        sa.event.listen(engine, name, listener)
    yield counts
    for name, listener in listeners:
        sa.event.remove(engine, name, listener)


def _resident_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(seconds, n=100, method="inclusive")
    return _ms(cuts[49]), _ms(cuts[98])


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


if __name__ == "__main__":
    json.dump(uvloop.run(_main(*sys.argv[1:])), sys.stdout)
