"""Artifacts out of a table of a million rows, on SQLite and PostgreSQL, with and without Redis, and into it.

Many chats run side by side, each with 300 artifacts of one to four kilobytes, so a chat's rows lie scattered. Each
load is measured beside a bare SELECT of the same rows with the same driver, in turns. `BENCH_ARTIFACT_ROWS` makes
the table smaller for a quick look.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import sqlite3
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, cast

import aiosqlite
import psycopg
import sqlalchemy as sa
from redis.asyncio import Redis

from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts, seal
from open_webui_openrouter_pipe.store.cache import GuardedRedis, build_rows
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.sealing import Keyring, Sealing, encode_item
from open_webui_openrouter_pipe.store.table import SealedRow
from scripts.harness.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

NAME = "artifacts"

ROWS = int(os.environ.get("BENCH_ARTIFACT_ROWS", "1000000"))
ARTIFACTS_OF_A_CHAT = 300
CHATS_AT_ONCE = 64
CHATS_MEASURED = 40
ROUNDS = 8
TURNS_WRITTEN = 300
ARTIFACTS_OF_A_TURN = 4

SEALING = Sealing(Keyring(["benchmark"]))
COLUMNS = ", ".join(SealedRow._fields)
TABLE = "openrouter_pipe_artifact"
WORDS = "the tool found that of all rows in the table only some have been in use since they were written "


@dataclass(frozen=True)
class Chat:
    """One measured chat: whose it is, and its artifacts in order."""

    user_id: str
    artifacts: list[Artifact]

    @property
    def ids(self) -> list[str]:
        """The ids as a request has them."""
        return [each.id for each in self.artifacts]


def run() -> dict[str, Any]:
    """Milliseconds of loading and writing, queries of a request, and stored bytes per byte of payload."""
    chats = _measured_chats()
    with tempfile.TemporaryDirectory(prefix="artifacts-") as name:
        folder = Path(name)
        # PostgreSQL runs as another account where this runs as root.
        folder.chmod(0o755)
        redis = RedisServer(_new_folder(folder / "redis"))
        postgres = PostgresServer(_new_folder(folder / "postgres"))
        try:
            return {
                "rows": ROWS,
                "artifacts_of_a_load": ARTIFACTS_OF_A_CHAT,
                "stored_bytes_per_payload_byte": _stored_share(chats),
                "sqlite": asyncio.run(_measure_sqlite(folder / "rows.db", redis.url, chats)),
                "postgres": asyncio.run(_measure_postgres(postgres.url, redis.url, chats)),
            }
        finally:
            redis.stop()
            postgres.stop()


def _new_folder(directory: Path) -> Path:
    directory.mkdir()
    return directory


async def _measure_sqlite(path: Path, redis_url: str, chats: dict[int, Chat]) -> dict[str, Any]:
    database = Database.from_url(f"sqlite:///{path}")
    await database.fetch(sa.text("SELECT 1"))  # creates the tables
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        marks = ", ".join("?" * len(SealedRow._fields))
        connection.executemany(f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ({marks})", _rows(chats))  # noqa: S608 - constants
        connection.commit()
    connection.close()
    async with aiosqlite.connect(path) as bare:

        async def select(user_id: str, ids: list[str]) -> Any:
            text = f"SELECT {COLUMNS} FROM {TABLE} WHERE user_id = ? AND id IN ({', '.join('?' * len(ids))})"  # noqa: S608
            async with bare.execute(text, [user_id, *ids]) as cursor:
                return await cursor.fetchall()

        numbers = await _measure(database, redis_url, chats, select)
    await database.aclose()
    return numbers


async def _measure_postgres(url: str, redis_url: str, chats: dict[int, Chat]) -> dict[str, Any]:
    database = Database.from_url(url)
    await database.fetch(sa.text("SELECT 1"))  # creates the tables
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as bare:
        async with (
            bare.cursor() as cursor,
            cursor.copy(f"COPY {TABLE} ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types(["text"] * 7 + ["int4", "bytea", "int8", "int8"])
            for row in _rows(chats):
                await copy.write_row(row)
        await bare.execute(f"VACUUM ANALYZE {TABLE}")

        async def select(user_id: str, ids: list[str]) -> Any:
            text = (
                f"SELECT {COLUMNS} FROM {TABLE} WHERE user_id = %s AND id IN ({', '.join(['%s'] * len(ids))})"  # noqa: S608
            )
            return await (await bare.execute(text, [user_id, *ids])).fetchall()

        numbers = await _measure(database, redis_url, chats, select)
    await database.aclose()
    return numbers


async def _measure(
    database: Database,
    redis_url: str,
    chats: dict[int, Chat],
    select: Callable[[str, list[str]], Awaitable[Any]],
) -> dict[str, Any]:
    async with _store(database) as store:
        numbers = {
            "queries_of_a_load": await _queries(database, store, chats),
            **await _loading(store, chats, select),
            "longest_hold_of_the_event_loop_ms": await _longest_hold(store, chats),
            "writing_a_turn_ms": await _writing(store),
        }
    client = Redis.from_url(redis_url)
    async with _store(database, GuardedRedis(cast("Any", client), prefix=secrets.token_hex(4))) as store:
        numbers["first_load_with_redis_ms"] = await _timed_loads(store, chats)
        await asyncio.sleep(1)
        numbers["queries_of_a_load_from_redis"] = await _queries(database, store, chats)
        numbers["load_from_redis_ms"] = await _timed_loads(store, chats)
        numbers["writing_a_turn_with_redis_ms"] = await _writing(store)
    await client.aclose()
    return numbers


@asynccontextmanager
async def _store(database: Database, redis: GuardedRedis | None = None) -> AsyncIterator[SealedArtifacts]:
    rows = build_rows(database, redis=redis)
    yield SealedArtifacts(rows, SEALING)


async def _queries(database: Database, store: SealedArtifacts, chats: dict[int, Chat]) -> float:
    """Statements that the database sees, for each load."""
    seen: list[str] = []

    def note(*details: Any) -> None:
        seen.append(details[2])

    engine = database._engine.sync_engine  # noqa: SLF001 - counting is not the store's business
    sa.event.listen(engine, "before_cursor_execute", note)
    for chat in chats.values():
        await _load(store, chat)
    sa.event.remove(engine, "before_cursor_execute", note)
    return len(seen) / len(chats)


async def _loading(
    store: SealedArtifacts, chats: dict[int, Chat], select: Callable[[str, list[str]], Awaitable[Any]]
) -> dict[str, Any]:
    """Loads and bare selects in turns; each goes first in every second round."""
    ours: list[float] = []
    bare: list[float] = []
    for chat in chats.values():
        await select(chat.user_id, chat.ids)
    for number in range(ROUNDS):
        for chat in chats.values():
            pair: list[tuple[list[float], Callable[[], Awaitable[Any]]]] = [
                (ours, partial(_load, store, chat)),
                (bare, partial(select, chat.user_id, chat.ids)),
            ]
            for times, work in pair if number % 2 else reversed(pair):
                times.append(await _milliseconds(work))
    ratio = round(_percentiles(ours)["p50"] / _percentiles(bare)["p50"], 2)
    return {
        "load_ms": _percentiles(ours),
        "bare_select_ms": _percentiles(bare),
        "load_per_bare_select": ratio,
    }


async def _timed_loads(store: SealedArtifacts, chats: dict[int, Chat]) -> dict[str, float]:
    order = [*chats.values()] * ROUNDS
    return _percentiles([await _milliseconds(partial(_load, store, chat)) for chat in order])


async def _writing(store: SealedArtifacts) -> dict[str, float]:
    chance = random.Random(2)  # noqa: S311 - the same table every time
    times = []
    for number in range(TURNS_WRITTEN):
        turn = [
            _artifact(secrets.token_hex(10), f"user-{number % 50}", "new", chance)
            for _ in range(ARTIFACTS_OF_A_TURN)
        ]
        times.append(await _milliseconds(partial(store.put, turn)))
    return _percentiles(times)


async def _longest_hold(store: SealedArtifacts, chats: dict[int, Chat]) -> float:
    """The longest time in milliseconds that other tasks waited during loads."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - began)

    watcher = asyncio.create_task(watch())
    for chat in chats.values():
        await _load(store, chat)
    watcher.cancel()
    return round(longest * 1000, 2)


async def _load(store: SealedArtifacts, chat: Chat) -> None:
    loaded = await store.load(chat.user_id, chat.ids)
    if len(loaded.artifacts) != ARTIFACTS_OF_A_CHAT:
        raise RuntimeError(f"missing artifacts: {dict(loaded.missing)}")


async def _milliseconds(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


def _percentiles(times: list[float]) -> dict[str, float]:
    cuts = quantiles(times, n=100, method="inclusive")
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2)}


def _measured_chats() -> dict[int, Chat]:
    """Chats evenly spread over the table, by their number."""
    chance = random.Random(1)  # noqa: S311 - the same table every time
    step = max(1, _chats() // CHATS_MEASURED)
    chats: dict[int, Chat] = {}
    for number in range(0, _chats(), step):
        first = number // CHATS_AT_ONCE * CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT + number % CHATS_AT_ONCE
        indexes = range(first, first + CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT, CHATS_AT_ONCE)
        user_id = f"user-{number % 500}"
        chats[number] = Chat(
            user_id, [_artifact(f"{index:020d}", user_id, f"chat-{number}", chance) for index in indexes]
        )
    return chats


def _chats() -> int:
    """The number of chats; the table holds whole groups of chats that run side by side."""
    return max(1, ROWS // (CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT)) * CHATS_AT_ONCE


def _artifact(row_id: str, user_id: str, chat_id: str, chance: random.Random) -> Artifact:
    """Reasoning or a tool's output, of one to four kilobytes."""
    length = chance.randrange(1000, 3900)
    if chance.random() < 0.5:
        sealed = base64.b64encode(chance.randbytes(length * 3 // 4)).decode()
        item: Any = {"type": "reasoning", "id": f"rs_{row_id}", "summary": [], "encrypted_content": sealed}
    else:
        start = chance.randrange(len(WORDS))
        text = " ".join(
            f"{WORDS[start:]}{chance.random()}" for _ in range(length // (len(WORDS) - start + 20))
        )
        item = {
            "type": "function_call_output",
            "call_id": f"call_{row_id}",
            "output": text.ljust(length, "."),
        }
    return Artifact(row_id, user_id, chat_id, "message", item["type"], "openai/gpt-5", item)


def _rows(chats: dict[int, Chat]) -> Iterator[SealedRow]:
    """All rows in the order of their time; those of chats that are not measured hold noise."""
    chance = random.Random(3)  # noqa: S311 - the same table every time
    noise = chance.randbytes(1_000_000)
    now = int(time.time())
    for index in range(_chats() * ARTIFACTS_OF_A_CHAT):
        group, rest = divmod(index, CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT)
        turn, number = rest // CHATS_AT_ONCE, group * CHATS_AT_ONCE + rest % CHATS_AT_ONCE
        if number in chats:
            artifact = chats[number].artifacts[turn]
            yield seal(artifact, encode_item(artifact.item), SEALING, now=now)
        else:
            start = chance.randrange(900_000)
            payload = noise[start : start + chance.randrange(1000, 4000)]
            names = (
                f"user-{number % 500}",
                f"{index:020d}",
                f"chat-{number}",
                "message",
                "reasoning",
                "openai/gpt-5",
            )
            yield SealedRow(*names, SEALING.keyring.first_id, 1, payload, now, now)


def _stored_share(chats: dict[int, Chat]) -> dict[str, float]:
    """Stored bytes for each byte of JSON: of the measured artifacts, and of a tool's output of 40 kilobytes."""
    chance = random.Random(4)  # noqa: S311 - the same table every time
    text = " ".join(f"{WORDS} {chance.random()}" for _ in range(350))
    large: Any = {"type": "function_call_output", "call_id": "call_1", "output": text}
    report = Artifact("0" * 20, "ada", "chat", "message", "function_call_output", "openai/gpt-5", large)
    small = [artifact for chat in chats.values() for artifact in chat.artifacts]
    return {"small": _share(small), "large_text": _share([report])}


def _share(artifacts: list[Artifact]) -> float:
    encoded = [encode_item(each.item) for each in artifacts]
    stored = sum(
        len(seal(each, data, SEALING, now=0).payload) for each, data in zip(artifacts, encoded, strict=True)
    )
    return round(stored / sum(map(len, encoded)), 3)
