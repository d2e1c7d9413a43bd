"""What one turn sends to PostgreSQL and to Redis: statements, transactions, round trips, bytes and connections.

A warm worker on real servers, one turn after the other, each of which writes its bill by itself: in use the turns of
a second share that. All goes through a listener that reads the messages and counts; figures are the fewest of several
turns, since what is learned of a model is written now and then. The pipe alone is counted, without what Open WebUI
itself asks. `pings` are its pool's, one whenever a connection is taken.

`tool` has two requests, with a tool of the host between them, `long` is the same in a chat of a hundred such turns.
`cold` is a plain turn of that chat by a worker that has just started, with an empty Redis. `limits` is a plain turn
under spending limits.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch
from urllib.parse import urlsplit

from redis.asyncio import Redis

from open_webui_openrouter_pipe.store.beside import BatchWriter
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from scripts.harness.page import Page, PipeInProcess
from scripts.harness.servers import PostgresServer, RedisServer
from scripts.standin import StandIn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

MODEL: Final = "openai/gpt-5.2"
QUESTION: Final = "Please go on with the story of the lighthouse. " * 10
THINKING: Final = " [[standin: reasoning=encrypted]]"
CALLING: Final = "What is the weather?" + THINKING + " [[standin: call=weather args={}]]"
TOOLS: Final = {"weather": lambda _: "It rains."}
LONG_TURNS: Final = 100
REPEATS: Final = 9
_PASSING: Final = 64 * 1024


class Counting:
    """A listener before a server that counts what passes; `read` finds the names of a client's whole messages."""

    def __init__(self, url: str, read: Callable[[bytes], tuple[list[str], bytes]]) -> None:
        parts = urlsplit(url)
        self._target, self._url, self._read = (str(parts.hostname), parts.port or 0), url, read
        self.counts = Counter[str]()
        self.open = 0
        self._server: asyncio.Server | None = None
        self._passing = set[asyncio.Task[None]]()

    async def start(self) -> str:
        """Listen, and return the address that leads here."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return self._url.replace(f":{self._target[1]}", f":{port}", 1)

    async def stop(self) -> None:
        """End all connections."""
        if self._server:
            self._server.close()
        for task in self._passing:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.counts["connections"] += 1
        to_reader, to_writer = await asyncio.open_connection(*self._target)
        ways = (self._pass(reader, to_writer, is_sent=True), self._pass(to_reader, writer, is_sent=False))
        tasks = [asyncio.create_task(way) for way in ways]
        self._passing.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for each in (writer, to_writer):
            each.close()
        self.open -= 1

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_sent: bool
    ) -> None:
        rest = b""
        while portion := await reader.read(_PASSING):
            self.counts["bytes_sent" if is_sent else "bytes_received"] += len(portion)
            if is_sent:
                names, rest = self._read(rest + portion)
                self.counts.update(names)
            writer.write(portion)
            await writer.drain()


def read_postgres(sent: bytes) -> tuple[list[str], bytes]:
    """The messages of PostgreSQL's protocol: a letter and a length; without a letter at a connection's start."""
    names, at = list[str](), 0
    while len(sent) - at >= 5:
        has_letter = sent[at] != 0
        length = int.from_bytes(sent[at + has_letter : at + has_letter + 4], "big") + has_letter
        if len(sent) - at < length:
            break
        kind, text = sent[at : at + 1], sent[at + 5 : at + length].upper()
        if kind == b"Q":
            word = re.match(rb"[^A-Z;]*([A-Z]*)", text)
            of_word = {b"BEGIN": "transactions", b"COMMIT": "", b"ROLLBACK": "", b"": "pings"}
            names += ["round_trips", of_word.get(word[1] if word else b"", "statements")]
        elif kind == b"E":
            names.append("statements")
        elif kind == b"S":
            names.append("round_trips")
        at += length
    return [name for name in names if name], sent[at:]


def read_redis(sent: bytes) -> tuple[list[str], bytes]:
    """The commands of Redis's protocol: a list of texts, each behind its length."""
    names, at = list[str](), 0
    while (head := re.compile(rb"\*(\d+)\r\n").match(sent, at)) is not None:
        words, place = list[bytes](), head.end()
        for _ in range(int(head[1])):
            size = re.compile(rb"\$(\d+)\r\n").match(sent, place)
            if size is None or len(sent) < size.end() + int(size[1]) + 2:
                return names, sent[at:]
            words.append(sent[size.end() : size.end() + int(size[1])])
            place = size.end() + int(size[1]) + 2
        names += ["commands", words[0].decode()]
        at = place
    return names, sent[at:]


def run() -> dict[str, Any]:
    """Counts of one turn by its kind."""
    with tempfile.TemporaryDirectory(prefix="traffic-") as folder:
        Path(folder).chmod(0o755)
        for name in ("postgres", "redis", "pipe"):
            Path(folder, name).mkdir()
        postgres, redis = PostgresServer(Path(folder, "postgres")), RedisServer(Path(folder, "redis"))
        try:
            # what a turn writes beside it goes together, however slow the machine is
            with StandIn() as standin, patch.object(BatchWriter, "gathering_seconds", 60.0):
                return asyncio.run(_measure(Path(folder, "pipe"), postgres, redis, standin.base_url))
        finally:
            postgres.stop()
            redis.stop()


async def _measure(
    folder: Path, postgres: PostgresServer, redis: RedisServer, base_url: str
) -> dict[str, Any]:
    database, cache = Counting(postgres.url, read_postgres), Counting(redis.url, read_redis)
    address, cache_address = await database.start(), await cache.start()
    watched = {"postgresql": database.counts, "redis": cache.counts}

    @asynccontextmanager
    async def worker(**valves: Any) -> AsyncIterator[PipeInProcess]:
        async with aclosing(Redis.from_url(cache_address)) as client:
            driver = PipeInProcess(folder, base_url=base_url, **valves)
            driver.database_url, driver.redis = address, GuardedRedis(client, prefix="traffic")
            async with driver:
                yield driver

    async def turns(driver: PipeInProcess, page: Page, text: str, repeats: int = REPEATS) -> dict[str, Any]:
        found = []
        for _ in range(repeats):
            before = {name: Counter(counts) for name, counts in watched.items()}
            answer = await page.ask(text)
            assert answer.error is None, answer.error
            await _settle(driver)
            found.append({name: counts - before[name] for name, counts in watched.items()})
            del page.turns[-1:]
        return {name: _fewest([each[name] for each in found]) for name in watched}

    results: dict[str, Any] = {}
    plain = QUESTION + THINKING
    async with worker() as driver:
        long = Page(driver.pipe, MODEL, tools=TOOLS, chat_id="long")
        for _ in range(LONG_TURNS):
            await long.ask(CALLING)
        await _settle(driver)
        for name, text in (("plain", plain), ("tool", CALLING)):
            page = Page(driver.pipe, MODEL, tools=TOOLS, chat_id=name)
            await page.ask(text)
            results[name] = await turns(driver, page, text)
        results["long"] = await turns(driver, long, CALLING)
        results["connections"] = {"postgresql": database.open, "redis": cache.open}
    async with aclosing(Redis.from_url(redis.url)) as client:
        await client.flushall()
    async with worker() as driver:
        page = Page(driver.pipe, MODEL, tools=TOOLS, chat_id="long")
        page.turns = long.turns
        results["cold"] = await turns(driver, page, plain, repeats=1)
    async with worker(SPENDING_LIMITS="user: 50/day; all: 500/month") as driver:
        page = Page(driver.pipe, MODEL, chat_id="limits")
        await page.ask(plain)
        results["limits"] = await turns(driver, page, plain)
    await database.stop()
    await cache.stop()
    return results


async def _settle(driver: PipeInProcess) -> None:
    """Have everything written."""
    await driver.app.idle()
    await driver.app.worker.own.ledger.idle()
    await driver.app.worker.own.calibrations.idle()


def _fewest(found: Sequence[Counter[str]]) -> dict[str, int]:
    return {key: min(each[key] for each in found) for key in sorted(set().union(*found))}


BENCHMARKS = {"traffic": run}
