"""The cache: the contract over each store, a Redis that stops or holds anything, and what never comes back."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.ports import LoadedArtifacts
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.cache import (
    DELETED,
    CachedRows,
    GuardedRedis,
    build_rows,
    decode_row,
    encode_row,
)
from open_webui_openrouter_pipe.store.table import FoundRows, RowStore, SqlRows
from tests.store.conftest import PATIENT_SECONDS
from tests.store.contract import KEYRING, StoreContract, artifact, row, sql_rows
from tests.store.fakes import MemoryRows, SwitchedRows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from open_webui_openrouter_pipe.store.database import Database
    from scripts.harness.servers import PostgresServer, RedisServer

pytestmark = pytest.mark.anyio
servers = pytest.mark.servers


class CachedContract(StoreContract):
    """Inherit this, and bring a fixture `below`: what the cache stands in front of."""

    @pytest.fixture
    async def rows(self, below: RowStore, guarded_redis: GuardedRedis) -> AsyncIterator[RowStore]:
        cached = CachedRows(below, guarded_redis)
        yield cached
        await cached.aclose()


@servers
class TestCacheOverMemory(CachedContract):
    @pytest.fixture
    def below(self) -> RowStore:
        return MemoryRows()


@servers
class TestCacheOverSqlite(CachedContract):
    @pytest.fixture
    def below(self, sqlite_database: Database) -> RowStore:
        return sql_rows(sqlite_database)


@servers
class TestCacheOverPostgres(CachedContract):
    @pytest.fixture
    def below(self, postgres_database: Database) -> RowStore:
        return sql_rows(postgres_database)


@servers
class TestCacheInACluster(CachedContract):
    """One node that refuses commands across slots, as every cluster does."""

    @pytest.fixture
    def below(self) -> RowStore:
        return MemoryRows()

    @pytest.fixture
    async def guarded_redis(self, redis_cluster_url: str, redis_prefix: str) -> AsyncIterator[GuardedRedis]:
        client = RedisCluster.from_url(redis_cluster_url)
        yield GuardedRedis(cast("Any", client), prefix=redis_prefix, timeout_seconds=PATIENT_SECONDS)
        await client.aclose()


async def test_rows_are_cached_where_there_is_a_redis(sqlite_database: Database) -> None:
    """Without one the database stands alone."""
    redis = GuardedRedis(FakeRedis(), prefix="x")
    assert isinstance(build_rows(sqlite_database), SqlRows)
    assert isinstance(build_rows(sqlite_database, redis=redis), CachedRows)


@servers
async def test_a_cached_row_needs_no_database(guarded_redis: GuardedRedis) -> None:
    """Whether it was put or read before; what is not cached is unavailable then."""
    below = SwitchedRows(memory := MemoryRows())
    await memory.put([row(1)])
    cached = CachedRows(below, guarded_redis)
    await cached.put([row(2)])
    await cached.load("ada", [row(1).id])
    await cached.idle()
    below.below = None
    found = await cached.load("ada", [row(1).id, row(2).id, row(3).id])
    assert set(found.rows) == {row(1).id, row(2).id}
    assert found.unavailable == frozenset({row(3).id})
    assert (await cached.load("eve", [row(1).id])).rows == {}
    await cached.aclose()


@servers
async def test_redis_keeps_nothing_that_the_database_does_not_have(
    redis_client: Redis, guarded_redis: GuardedRedis
) -> None:
    """While the database is unavailable a put raises, and leaves no value in Redis."""
    cached = CachedRows(SwitchedRows(), guarded_redis)
    with pytest.raises(StoreUnavailable):
        await cached.put([row(1)])
    with pytest.raises(StoreUnavailable):
        await cached.delete("ada", [row(1).id])
    [key] = guarded_redis.row_keys("ada", [row(1).id])
    assert await redis_client.get(key) is None
    await cached.aclose()


@servers
async def test_redis_holds_sealed_bytes_that_expire(redis_client: Redis, guarded_redis: GuardedRedis) -> None:
    """Nothing readable is in Redis, each value ends by itself, and no name shows the user."""
    store = SealedArtifacts(CachedRows(MemoryRows(), guarded_redis), KEYRING)
    created = artifact(1, {"type": "reasoning", "text": "visible " * 1000})
    await store.put([created])
    [key] = guarded_redis.row_keys("ada", [created.id])
    assert "ada" not in key
    assert b"visible" not in cast("bytes", await redis_client.get(key))
    assert 0 < await redis_client.ttl(key) <= 3600


@servers
async def test_a_value_of_another_user_is_not_a_row(redis_client: Redis, guarded_redis: GuardedRedis) -> None:
    """Even a value that someone copies to his own name in Redis finds nothing."""
    cached = CachedRows(MemoryRows(), guarded_redis)
    await cached.put([row(1)])
    [mine], [theirs] = (guarded_redis.row_keys(user, [row(1).id]) for user in ("ada", "eve"))
    await redis_client.set(theirs, cast("bytes", await redis_client.get(mine)))
    assert await cached.load("eve", [row(1).id]) == FoundRows()
    await cached.aclose()


def with_column(index: int, value: Any) -> bytes:
    """The value of a row with another column in it."""
    columns, _, payload = encode_row(row(1)).partition(b"\0")
    fields = json.loads(columns)
    fields[index] = value
    return json.dumps(fields).encode() + b"\0" + payload


COLUMNS = json.loads(encode_row(row(1)).partition(b"\0")[0])
POISON = {
    "empty": b"",
    "only the separator": b"\0",
    "a mark and a separator": b"-\0",
    "an empty list": b"[]\0x",
    "text": b"nonsense",
    "noise": b"\xff\xfe\0abc",
    "an object": json.dumps({"a": 1}).encode() + b"\0x",
    "deep JSON": b"[" * 100_000 + b"\0x",
    "a huge integer": b"[" + b"9" * 6000 + b"]\0x",
    "a column more": json.dumps([*COLUMNS, 1]).encode() + b"\0x",
    "a column fewer": json.dumps(COLUMNS[:-1]).encode() + b"\0x",
    "packing as text": with_column(7, "1"),
    "packing null": with_column(7, None),
    "packing as a truth value": with_column(7, True),  # noqa: FBT003 - a value
    "packing as a fraction": with_column(7, 1.0),
    "kind as a list": with_column(4, [1]),
    "key as a list": with_column(6, [1]),
    "model as a number": with_column(5, 5),
    "last use null": with_column(9, None),
    "last use as text": with_column(9, "x"),
    "last use as an object": with_column(9, {}),
    "creation before all time": with_column(8, -1),
    "creation after all time": with_column(8, 2**63),
    "another owner": with_column(0, "eve"),
    "another id": with_column(1, "0" * 20),
}


@pytest.mark.parametrize("value", POISON.values(), ids=POISON)
def test_a_value_that_is_not_this_row_is_not_read(value: bytes) -> None:
    """Nothing raises, whatever Redis holds."""
    assert decode_row(value, user_id="ada", row_id=row(1).id) is None


@pytest.mark.parametrize("index", range(len(COLUMNS)))
def test_a_column_of_another_type_is_not_read(index: int) -> None:
    """Each column, with each shape of JSON that it does not have."""
    wrong: list[Any] = [
        None,
        True,
        1.5,
        [],
        {},
        [COLUMNS[index]],
        1 if isinstance(COLUMNS[index], str) else "1",
    ]
    for value in wrong:
        assert decode_row(with_column(index, value), user_id="ada", row_id=row(1).id) is None


def test_a_row_is_read_as_it_was_written() -> None:
    """Each column, and each byte of the payload, up to the largest numbers that the database holds."""
    for created in (row(1), row(1, now=2**63 - 1), row(1, now=0)):
        assert decode_row(encode_row(created), user_id="ada", row_id=created.id) == created


class FakeRedis:
    """A Redis in memory whose values a test sets."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.values.get(key) for key in keys]

    def pipeline(self, *, transaction: bool) -> FakePipeline:
        assert not transaction
        return FakePipeline(self.values)


class FakePipeline:
    """Sets all its values at once."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self._values = values
        self._new: list[tuple[str, bytes]] = []

    def set(self, name: str, value: bytes, *, ex: int, nx: bool) -> FakePipeline:
        if not (nx and name in self._values):
            self._new.append((name, value))
        return self

    async def execute(self) -> list[bool]:
        self._values.update(self._new)
        return [True] * len(self._new)


@pytest.mark.parametrize("value", POISON.values(), ids=POISON)
async def test_a_poisoned_value_costs_a_query_and_nothing_else(value: bytes) -> None:
    """The artifact is loaded from the database, and the next put mends the cache."""
    redis, memory = FakeRedis(), MemoryRows()
    guarded = GuardedRedis(redis, prefix="x")
    cached = CachedRows(memory, guarded)
    store = SealedArtifacts(cached, KEYRING)
    await store.put([artifact(1)])
    [key] = guarded.row_keys("ada", [artifact(1).id])
    redis.values[key] = value
    assert await store.load("ada", [artifact(1).id]) == LoadedArtifacts({artifact(1).id: artifact(1)})
    await store.put([artifact(1)])
    assert decode_row(redis.values[key], user_id="ada", row_id=artifact(1).id) is not None
    await cached.aclose()


async def test_a_forged_payload_is_missing() -> None:
    """Columns of the right types around other bytes open no artifact."""
    redis = FakeRedis()
    guarded = GuardedRedis(redis, prefix="x")
    store = SealedArtifacts(CachedRows(MemoryRows(), guarded), KEYRING)
    await store.put([artifact(1)])
    [key] = guarded.row_keys("ada", [artifact(1).id])
    columns = redis.values[key].partition(b"\0")[0]
    redis.values[key] = columns + b'\0{"type":"function_call"}'
    missing = {artifact(1).id: MissingArtifact("function_call", "unreadable")}
    assert await store.load("ada", [artifact(1).id]) == LoadedArtifacts({}, missing)


@servers
async def test_a_key_of_another_type_costs_a_query_and_nothing_else(
    redis_client: Redis, guarded_redis: GuardedRedis
) -> None:
    """Redis holds a list where a row should be."""
    below, created = MemoryRows(), row(1)
    await below.put([created])
    [key] = guarded_redis.row_keys("ada", [created.id])
    await cast("Any", redis_client.lpush(key, "x"))
    cached = CachedRows(below, guarded_redis)
    for _ in range(2):
        assert (await cached.load("ada", [created.id])).rows == {created.id: created}
        await cached.idle()
    await cached.put([created])
    assert await redis_client.type(key) == b"string"
    await cached.aclose()


class SlowRows(MemoryRows):
    """Reads what is there, and returns it when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.reading = asyncio.Event()

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        found = await super().load(user_id, ids)
        self.reading.set()
        await self.go_on.wait()
        return found


@servers
@pytest.mark.parametrize("change", ["delete", "put"])
async def test_a_slow_reader_brings_nothing_back(guarded_redis: GuardedRedis, change: str) -> None:
    """What was read before a deletion or a later put does not enter the cache after it."""
    below = SlowRows()
    await below.put([row(1, text="old")])
    cached = CachedRows(below, guarded_redis)
    reader = asyncio.create_task(cached.load("ada", [row(1).id]))
    await below.reading.wait()
    newer = row(1, text="new")
    await (cached.delete("ada", [row(1).id]) if change == "delete" else cached.put([newer]))
    below.go_on.set()
    await reader
    await cached.idle()
    expected = {} if change == "delete" else {row(1).id: newer}
    assert (await cached.load("ada", [row(1).id])).rows == expected
    await cached.aclose()


async def test_a_deleted_row_leaves_a_mark() -> None:
    """By which a slow reader cannot bring it back."""
    redis = FakeRedis()
    cached = CachedRows(MemoryRows(), GuardedRedis(redis, prefix="x"))
    await cached.put([row(1)])
    await cached.delete("ada", [row(1).id])
    assert list(redis.values.values()) == [DELETED]


@servers
async def test_a_redis_that_stops_fails_neither_reads_nor_writes(
    redis_server: RedisServer, guarded_redis: GuardedRedis
) -> None:
    """Only deleting raises, because the row may still be in the cache."""
    cached = CachedRows(MemoryRows(), guarded_redis)
    store = SealedArtifacts(cached, KEYRING)
    await store.put([artifact(1)])
    redis_server.stop()
    await store.put([artifact(2)])
    assert await store.load("ada", [artifact(1).id, artifact(2).id]) == LoadedArtifacts(
        {artifact(1).id: artifact(1), artifact(2).id: artifact(2)}
    )
    with pytest.raises(StoreUnavailable):
        await store.delete("ada", [artifact(1).id])
    assert (await store.load("ada", [artifact(1).id])).missing == {artifact(1).id: MissingArtifact()}
    await cached.aclose()


@servers
async def test_postgres_stops_in_the_middle_of_a_chat(
    postgres_database: Database, postgres_server: PostgresServer, guarded_redis: GuardedRedis
) -> None:
    """What is cached is read on, nothing is written, and afterwards all goes on."""
    rows = build_rows(postgres_database, redis=guarded_redis)
    store = SealedArtifacts(rows, KEYRING)
    ids = [artifact(number).id for number in range(3)]
    await store.put([artifact(0)])
    await asyncio.to_thread(postgres_server.stop)
    with pytest.raises(StoreUnavailable):
        await store.put([artifact(1)])
    unavailable = MissingArtifact(reason="unavailable")
    during = LoadedArtifacts({ids[0]: artifact(0)}, {ids[1]: unavailable, ids[2]: unavailable})
    assert await store.load("ada", ids) == during
    postgres_server.start()
    await store.put([artifact(2)])
    after = LoadedArtifacts({ids[0]: artifact(0), ids[2]: artifact(2)}, {ids[1]: MissingArtifact()})
    assert await store.load("ada", ids) == after
    await rows.aclose()


class FailingRedis(FakeRedis):
    """Raises while it is down, or never answers while it is silent; counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self.silent = False
        self.commands = 0

    async def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        self.commands += 1
        if self.down:
            raise ConnectionError("down")
        if self.silent:
            await asyncio.Event().wait()
        return await super().mget(keys)

    def pipeline(self, *, transaction: bool) -> FakePipeline:
        self.commands += 1
        if self.down:
            raise ConnectionError("down")
        return super().pipeline(transaction=transaction)


async def test_a_redis_that_comes_back_is_used_again() -> None:
    """After the pause the next request tries it."""
    now = 0.0
    redis = FailingRedis()
    cached = CachedRows(MemoryRows(), GuardedRedis(redis, prefix="x", pause_seconds=10, clock=lambda: now))
    redis.down = True
    await cached.load("ada", ["1"])
    redis.down = False
    now = 9.9
    await cached.load("ada", ["1"])
    assert redis.commands == 1
    now = 10.0
    await cached.load("ada", ["1"])
    assert redis.commands == 2


async def test_a_silent_redis_is_waited_for_once() -> None:
    """A server that accepts and never answers delays the first request only."""
    redis = FailingRedis()
    redis.silent = True
    guarded = GuardedRedis(redis, prefix="x", timeout_seconds=0.05, clock=lambda: 0.0)
    cached = CachedRows(memory := MemoryRows(), guarded)
    for number in range(20):
        await memory.put([row(number)])
        assert (await cached.load("ada", [row(number).id])).rows.keys() == {row(number).id}
    assert redis.commands == 1
    await cached.aclose()
