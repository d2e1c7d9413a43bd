"""What it takes to replay stored artifacts: chats become input, and rows are found among a million.

`history`: how long a chat takes to become input, beside the time that merely writing the result as JSON takes: 400
messages, 100 pairs of calls and outputs, 199 reasoning artifacts, about 840 KB of input. The goal: at most 2.5 times
`json.dumps` plus one latency of the loader, and a flat cost per message. `replay`: the same with the artifacts in a
real, sealed store on SQLite.

`artifacts`: loads of 300 artifacts of one to four kilobytes out of a table of a million rows, on SQLite and PostgreSQL,
with and without Redis. Many chats run side by side, so a chat's rows lie scattered. Each load is measured beside a bare
SELECT of the same rows with the same driver, in turns. `BENCH_ARTIFACT_ROWS` makes the table smaller for a quick look.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import secrets
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import sqlalchemy as sa
from redis.asyncio import Redis

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.markers import item_id, leading_markers
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.replay.exports import transform_messages_to_input
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts, seal
from open_webui_openrouter_pipe.store.cache import GuardedRedis, build_rows
from open_webui_openrouter_pipe.store.schema import SealedRow
from open_webui_openrouter_pipe.store.sealing import Keyring, encode_item
from scripts.benchmarks._chats import call_and_output
from scripts.harness.database import open_database
from scripts.harness.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from open_webui_openrouter_pipe.history.build import BuiltHistory
    from open_webui_openrouter_pipe.store.database import Database

    Work = Callable[[], Awaitable[object]]
    Select = Callable[[str, Sequence[str]], Awaitable[object]]

Messages: TypeAlias = tuple[list[dict[str, Any]], dict[str, LoadedArtifact]]

MODEL = "openai/gpt-5"
KEYRING = Keyring(["benchmark"])


async def _milliseconds(work: Work) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1e3


# --- history and replay --------------------------------------------------------------------------------------

MESSAGES = 400
SIZES = (40, 400, 4_000)
LATENCY_SECONDS = 0.010
REPEATS = 30
_TEXT = 'The quick brown fox said "jumps" over the lazy dog, and then it wrote a report about it.\n'


async def measure_history() -> dict[str, float]:
    """Milliseconds, kilobytes and the ratio to `json.dumps`; the best of several repeats, as noise only adds."""
    one = chat(MESSAGES)
    items = (await _transform(one)).items

    async def write() -> str:
        return json.dumps(items)

    works: list[Work] = [write, partial(_transform, one), partial(_transform, one, LATENCY_SECONDS)]
    writing, instant, slow = await _best(works)
    times = await _best([partial(_transform, chat(size)) for size in SIZES])
    results = {
        "items": float(len(items)),
        "payload_kb": len(json.dumps(items)) / 1e3,
        "json_dumps_ms": writing,
        "instant_loader_ms": instant,
        "instant_loader_per_json_dumps": instant / writing,
        "slow_loader_ms": slow,
    }
    for size, taken in zip(SIZES, times, strict=True):
        results[f"microseconds_per_message_of_{size}"] = taken / size * 1e3
    return {name: round(value, 3) for name, value in results.items()}


def chat(messages: int) -> Messages:
    """Build a chat: every answer has reasoning, every second one a call and its output."""
    shown: list[dict[str, Any]] = []
    artifacts: dict[str, LoadedArtifact] = {}
    for turn in range(messages // 2):
        shown.append({"role": "user", "content": f"Question {turn}? " + _TEXT * 6})
        stored: list[Any] = [_reasoning(f"rs_{turn}")] if turn else []
        if turn % 2:
            arguments = {"query": f"foxes {turn}", "limit": 10}
            call, output = call_and_output(f"call_{turn}", "search", arguments, _TEXT * 18)
            stored += [{**call, "id": f"fc_{turn}"}, output]
        markers = [item_id(turn * 10 + index, 0) for index in range(len(stored))]
        artifacts |= {ulid: LoadedArtifact(item, MODEL) for ulid, item in zip(markers, stored, strict=True)}
        shown.append({"role": "assistant", "content": leading_markers(markers) + _TEXT * 14})
    return shown, artifacts


def _reasoning(item_id_: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": item_id_,
        "summary": [{"type": "summary_text", "text": _TEXT * 2}],
        "encrypted_content": "gAAAAABo" * 100,
        "format": "openai-responses-v1",
        "status": "completed",
    }


async def _transform(chat: Messages, latency_seconds: float = 0.0) -> BuiltHistory:
    messages, artifacts = chat

    async def load(_chat_id: str | None, _message_id: str | None, ulids: Sequence[str]) -> Mapping[str, Any]:
        if latency_seconds:
            await asyncio.sleep(latency_seconds)
        return {ulid: artifacts[ulid] for ulid in ulids}

    return await transform_messages_to_input(messages, artifact_loader=load, options=Options(model_id=MODEL))


async def _best(works: Sequence[Work]) -> list[float]:
    """Milliseconds of the fastest repeat of each; they take turns, so that all meet the same machine."""
    times = [[await _milliseconds(work) for work in works] for _ in range(REPEATS)]
    return list(map(min, zip(*times, strict=True)))


async def measure_replay() -> dict[str, float]:
    """Everything a request does before it is sent: read the messages, load and open the artifacts, build the input."""
    messages, loaded = chat(MESSAGES)
    with tempfile.TemporaryDirectory() as folder:
        rows = build_rows(open_database(f"sqlite:///{folder}/webui.db"))
        try:
            store = SealedArtifacts(rows, KEYRING)
            kept = {ulid: held.item for ulid, held in loaded.items()}
            await store.put(
                [
                    Artifact(ulid, "user", "chat", "message", item["type"], MODEL, item)
                    for ulid, item in kept.items()
                ]
            )

            async def replay() -> None:
                history = read_history(messages)
                found = await store.load("user", history.wanted)
                build_input(history, found.artifacts, Options(model_id=MODEL))

            times = [await _milliseconds(replay) for _ in range(REPEATS)]
        finally:
            await rows.aclose()
    return {
        "artifacts": float(len(loaded)),
        "best_ms": round(min(times), 3),
        "median_ms": round(statistics.median(times), 3),
    }


# --- artifacts -----------------------------------------------------------------------------------------------

ROWS = int(os.environ.get("BENCH_ARTIFACT_ROWS", "1000000"))
ROWS_AT_ONCE = 10_000
ARTIFACTS_OF_A_CHAT = 300
CHATS_AT_ONCE = 64
CHATS_MEASURED = 40
ROUNDS = 8
TURNS_WRITTEN = 300
ARTIFACTS_OF_A_TURN = 4

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


def measure_artifacts() -> dict[str, Any]:
    """Milliseconds of loading and writing, queries of a request, and stored bytes per byte of payload."""
    chats = _measured_chats()
    with tempfile.TemporaryDirectory(prefix="artifacts-") as name:
        folder = Path(name)
        # PostgreSQL runs as another account where this runs as root.
        folder.chmod(0o755)
        for each in ("redis", "postgres"):
            (folder / each).mkdir()
        redis, postgres = RedisServer(folder / "redis"), PostgresServer(folder / "postgres")
        try:
            return {
                "rows": ROWS,
                "artifacts_of_a_load": ARTIFACTS_OF_A_CHAT,
                "stored_bytes_per_payload_byte": _stored_share(chats),
                "sqlite": asyncio.run(_measure(f"sqlite:///{folder}/rows.db", redis.url, chats)),
                "postgres": asyncio.run(_measure(postgres.url, redis.url, chats)),
            }
        finally:
            redis.stop()
            postgres.stop()


async def _measure(url: str, redis_url: str, chats: dict[int, Chat]) -> dict[str, Any]:
    database, client = open_database(url), Redis.from_url(redis_url)
    try:
        await _fill(database, chats)
        store = SealedArtifacts(build_rows(database), KEYRING)
        cache = GuardedRedis(cast("Any", client), prefix=secrets.token_hex(4))
        cached = SealedArtifacts(build_rows(database, redis=cache), KEYRING)
        numbers = {
            "queries_of_a_load": await _queries(database, store, chats),
            **await _loading(database, store, chats),
            "longest_hold_of_the_event_loop_ms": await _longest_hold(store, chats),
            "writing_a_turn_ms": await _writing(store),
            "first_load_with_redis_ms": await _timed_loads(cached, chats),
        }
        await asyncio.sleep(1)
        return {
            **numbers,
            "queries_of_a_load_from_redis": await _queries(database, cached, chats),
            "load_from_redis_ms": await _timed_loads(cached, chats),
            "writing_a_turn_with_redis_ms": await _writing(cached),
        }
    finally:
        await client.aclose()
        await database.aclose()


async def _fill(database: Database, chats: dict[int, Chat]) -> None:
    values = ", ".join(f":{name}" for name in SealedRow._fields)
    insert = sa.text(f"INSERT INTO {TABLE} ({COLUMNS}) VALUES ({values})")  # noqa: S608 - constants
    rows = _rows(chats)
    while some := [row._asdict() for row in islice(rows, ROWS_AT_ONCE)]:
        await database.change(insert, some)
    if database.dialect == "postgresql":
        async with _engine(database).execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            await connection.execute(sa.text(f"VACUUM ANALYZE {TABLE}"))


def _engine(database: Database) -> Any:
    return database._engine  # noqa: SLF001 - counting and bare statements are not the store's business


async def _queries(database: Database, store: SealedArtifacts, chats: dict[int, Chat]) -> float:
    """Statements that the database sees, for each load."""
    seen: list[str] = []

    def note(*details: Any) -> None:
        seen.append(details[2])

    engine = _engine(database).sync_engine
    sa.event.listen(engine, "before_cursor_execute", note)
    for chat in chats.values():
        await _load(store, chat)
    sa.event.remove(engine, "before_cursor_execute", note)
    return len(seen) / len(chats)


async def _loading(database: Database, store: SealedArtifacts, chats: dict[int, Chat]) -> dict[str, Any]:
    """Loads and bare selects in turns; each goes first in every second round."""
    async with _engine(database).connect() as connection:
        bare = (await connection.get_raw_connection()).driver_connection
        mark = "%s" if database.dialect == "postgresql" else "?"

        async def select(chat: Chat) -> None:
            marks = ", ".join([mark] * len(chat.ids))
            text = f"SELECT {COLUMNS} FROM {TABLE} WHERE user_id = {mark} AND id IN ({marks})"  # noqa: S608 - constants
            cursor = await bare.execute(text, [chat.user_id, *chat.ids])
            await cursor.fetchall()

        for chat in chats.values():
            await select(chat)
        ours: list[float] = []
        theirs: list[float] = []
        for number in range(ROUNDS):
            for chat in chats.values():
                pair = [(ours, partial(_load, store, chat)), (theirs, partial(select, chat))]
                for times, work in pair if number % 2 else reversed(pair):
                    times.append(await _milliseconds(work))
    loads, selects = _percentiles(ours), _percentiles(theirs)
    ratio = round(loads["p50"] / selects["p50"], 2)
    return {"load_ms": loads, "bare_select_ms": selects, "load_per_bare_select": ratio}


async def _timed_loads(store: SealedArtifacts, chats: dict[int, Chat]) -> dict[str, float]:
    order = [*chats.values()] * ROUNDS
    return _percentiles([await _milliseconds(partial(_load, store, chat)) for chat in order])


async def _writing(store: SealedArtifacts) -> dict[str, float]:
    chance = random.Random(2)  # noqa: S311 - the same table every time
    times = []
    for number in range(TURNS_WRITTEN):
        ids = [secrets.token_hex(10) for _ in range(ARTIFACTS_OF_A_TURN)]
        turn = [_artifact(each, f"user-{number % 50}", "new", chance) for each in ids]
        times.append(await _milliseconds(partial(store.put, turn)))
    return _percentiles(times)


async def _longest_hold(store: SealedArtifacts, chats: dict[int, Chat]) -> float:
    """The longest time in milliseconds that other tasks waited during loads."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            longest = max(longest, await _milliseconds(partial(asyncio.sleep, 0)))

    watcher = asyncio.create_task(watch())
    for chat in chats.values():
        await _load(store, chat)
    watcher.cancel()
    return round(longest, 2)


async def _load(store: SealedArtifacts, chat: Chat) -> None:
    loaded = await store.load(chat.user_id, chat.ids)
    if len(loaded.artifacts) != ARTIFACTS_OF_A_CHAT:
        raise RuntimeError(f"missing artifacts: {dict(loaded.missing)}")


def _percentiles(times: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2)}


def _measured_chats() -> dict[int, Chat]:
    """Chats evenly spread over the table, by their number."""
    chance = random.Random(1)  # noqa: S311 - the same table every time
    chats: dict[int, Chat] = {}
    for number in range(0, _chats(), max(1, _chats() // CHATS_MEASURED)):
        first = number // CHATS_AT_ONCE * CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT + number % CHATS_AT_ONCE
        indexes = range(first, first + CHATS_AT_ONCE * ARTIFACTS_OF_A_CHAT, CHATS_AT_ONCE)
        user_id = f"user-{number % 500}"
        artifacts = [_artifact(f"{index:020d}", user_id, f"chat-{number}", chance) for index in indexes]
        chats[number] = Chat(user_id, artifacts)
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
        pieces = length // (len(WORDS) - start + 20)
        text = " ".join(f"{WORDS[start:]}{chance.random()}" for _ in range(pieces)).ljust(length, ".")
        item = {"type": "function_call_output", "call_id": f"call_{row_id}", "output": text}
    return Artifact(row_id, user_id, chat_id, "message", item["type"], MODEL, item)


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
            yield seal(artifact, encode_item(artifact.item), KEYRING, now=now)
        else:
            start = chance.randrange(900_000)
            payload = noise[start : start + chance.randrange(1000, 4000)]
            whose = (f"user-{number % 500}", f"{index:020d}", f"chat-{number}", "message")
            yield SealedRow(*whose, "reasoning", MODEL, KEYRING.first_id, 1, payload, now, now)


def _stored_share(chats: dict[int, Chat]) -> dict[str, float]:
    """Stored bytes for each byte of JSON: of the measured artifacts, and of a tool's output of 40 kilobytes."""
    chance = random.Random(4)  # noqa: S311 - the same table every time
    text = " ".join(f"{WORDS} {chance.random()}" for _ in range(350))
    large: Any = {"type": "function_call_output", "call_id": "call_1", "output": text}
    report = Artifact("0" * 20, "ada", "chat", "message", "function_call_output", MODEL, large)
    small = [artifact for chat in chats.values() for artifact in chat.artifacts]
    return {"small": _share(small), "large_text": _share([report])}


def _share(artifacts: Sequence[Artifact]) -> float:
    encoded = [encode_item(each.item) for each in artifacts]
    sealed = [seal(each, data, KEYRING, now=0) for each, data in zip(artifacts, encoded, strict=True)]
    return round(sum(len(row.payload) for row in sealed) / sum(map(len, encoded)), 3)


BENCHMARKS = {
    "history": lambda: asyncio.run(measure_history()),
    "replay": lambda: asyncio.run(measure_replay()),
    "artifacts": measure_artifacts,
}
