"""The shelter: writes while the database is away, the way back, and what must not come back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import LoadedArtifacts
from open_webui_openrouter_pipe.store.artifacts import ArtifactLimits, SealedArtifacts
from open_webui_openrouter_pipe.store.build import build_rows
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.memory import MemoryRows
from open_webui_openrouter_pipe.store.rows import FoundRows, RowStore, SealedRow, SqlRows
from open_webui_openrouter_pipe.store.shelter import ShelteredRows
from tests.store.contract import SEALING, AwayRows, StoreContract, artifact, row
from tests.store.waiting import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from redis.asyncio import Redis

    from open_webui_openrouter_pipe.store.database import Database
    from scripts.harness.servers import PostgresServer, RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

NEVER = 3600.0
"""Seconds between flushes where the test itself says when."""


class ShelteredContract(StoreContract):
    """Inherit this, and bring a fixture `below`: what the shelter stands in front of."""

    @pytest.fixture
    async def rows(self, below: RowStore, redis_link: GuardedRedis) -> AsyncIterator[RowStore]:
        sheltered = ShelteredRows(below, redis_link)
        yield sheltered
        await sheltered.aclose()


class TestShelterOverSqlite(ShelteredContract):
    @pytest.fixture
    def below(self, sqlite_database: Database) -> RowStore:
        return SqlRows(sqlite_database)


class TestShelterOverPostgres(ShelteredContract):
    @pytest.fixture
    def below(self, postgres_database: Database) -> RowStore:
        return SqlRows(postgres_database)


class ForgetfulOfUse(AwayRows):
    """Away for reading and writing; finds nothing rather than reporting it, as an empty database would."""

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        return FoundRows()


class TestShelterAlone(ShelteredContract):
    """With the database away all the time, the shelter itself keeps the contract."""

    @pytest.fixture
    def below(self) -> RowStore:
        return ForgetfulOfUse()

    async def test_touching_moves_the_last_use_forward(self, rows: RowStore) -> None:
        """Rows that wait are new: noting their use is the database's business, and it is away."""
        with pytest.raises(StoreUnavailable):
            await rows.touch("ada", [row(1).id], now=1)


class TestWholeStack(StoreContract):
    """All layers as they are composed for Open WebUI with Redis."""

    @pytest.fixture
    async def rows(self, sqlite_database: Database, redis_link: GuardedRedis) -> AsyncIterator[RowStore]:
        composed = build_rows(sqlite_database, redis=redis_link)
        yield composed
        await composed.aclose()


class TestWholeStackOnPostgres(StoreContract):
    """The same on PostgreSQL."""

    @pytest.fixture
    async def rows(self, postgres_database: Database, redis_link: GuardedRedis) -> AsyncIterator[RowStore]:
        composed = build_rows(postgres_database, redis=redis_link)
        yield composed
        await composed.aclose()


@pytest.fixture
async def away() -> AwayRows:
    """A database that is away until the test brings it back."""
    return AwayRows()


@pytest.fixture
async def sheltered(away: AwayRows, redis_link: GuardedRedis) -> AsyncIterator[ShelteredRows]:
    """A shelter in front of it that flushes when told."""
    made = ShelteredRows(away, redis_link, flush_seconds=NEVER)
    yield made
    await made.aclose()


async def waiting(redis_client: Redis, redis_link: GuardedRedis) -> int:
    """How many writes wait in Redis."""
    return await redis_client.hlen(redis_link.key("{shelter}", "rows"))


async def test_what_waits_reaches_the_database(
    away: AwayRows, sheltered: ShelteredRows, redis_client: Redis, redis_link: GuardedRedis
) -> None:
    """Rows and deletions wait without a time to live, and are gone from Redis once they are below."""
    database = MemoryRows()
    await database.put([row(1)])
    rows = [row(number) for number in range(2, 500)]
    await sheltered.put(rows)
    await sheltered.delete("ada", [row(1).id, row(2).id])
    assert await waiting(redis_client, redis_link) == 499
    assert await redis_client.ttl(redis_link.key("{shelter}", "rows")) == -1
    away.below = database
    await sheltered.flush()
    assert await waiting(redis_client, redis_link) == 0
    found = await database.load("ada", [row(number).id for number in range(1, 500)])
    assert found.rows == {each.id: each for each in rows[1:]}


async def test_what_waits_survives_a_failed_flush(
    away: AwayRows, sheltered: ShelteredRows, redis_client: Redis, redis_link: GuardedRedis
) -> None:
    """A database that is still away changes nothing, and the lock is free again."""
    await sheltered.put([row(1)])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await sheltered.flush()
    assert await waiting(redis_client, redis_link) == 1
    assert await redis_client.exists(redis_link.key("{shelter}", "lock")) == 0


async def test_anyone_brings_it_in(
    away: AwayRows, sheltered: ShelteredRows, redis_link: GuardedRedis
) -> None:
    """The flush of another worker, which never wrote anything, does it by itself."""
    await sheltered.put([row(1)])
    database = MemoryRows()
    other = ShelteredRows(database, redis_link, flush_seconds=0.05)
    await other.load("ada", ["anything"])
    for _ in range(100):
        if (await database.load("ada", [row(1).id])).rows:
            break
        await asyncio.sleep(0.05)
    assert (await database.load("ada", [row(1).id])).rows.keys() == {row(1).id}
    await other.aclose()


class CountingRows(MemoryRows):
    """Counts writes and takes its time over them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def put(self, rows: Sequence[SealedRow]) -> None:
        await asyncio.sleep(0.02)
        self.written += [each.id for each in rows]
        await super().put(rows)


async def test_workers_flush_once(sheltered: ShelteredRows, redis_link: GuardedRedis) -> None:
    """Of many workers that begin at once, one writes, and it writes each row once."""
    rows = [row(number) for number in range(200)]
    await sheltered.put(rows)
    database = CountingRows()
    workers = [ShelteredRows(database, redis_link, flush_seconds=NEVER) for _ in range(6)]
    await asyncio.gather(*(worker.flush() for worker in workers))
    assert sorted(database.written) == [each.id for each in rows]


class HeldRows(MemoryRows):
    """Holds a write back until told."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = asyncio.Event()
        self.go_on = asyncio.Event()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        if not self.go_on.is_set():
            self.writing.set()
            await self.go_on.wait()
        await super().put(rows)


@pytest.mark.parametrize("change", ["delete", "put"])
async def test_a_slow_flush_brings_nothing_back(
    sheltered: ShelteredRows, redis_link: GuardedRedis, change: str
) -> None:
    """What is deleted or replaced while an older write is on its way stays so."""
    await sheltered.put([row(1, text="old")])
    database = HeldRows()
    worker = ShelteredRows(database, redis_link, flush_seconds=NEVER)
    flush = asyncio.create_task(worker.flush())
    await database.writing.wait()
    newer = row(1, text="new")
    other = ShelteredRows(ahead := MemoryRows(), redis_link, flush_seconds=NEVER)
    await (other.delete("ada", [newer.id]) if change == "delete" else other.put([newer]))
    database.go_on.set()
    await flush
    await worker.flush()
    expected = {} if change == "delete" else {newer.id: newer}
    assert (await database.load("ada", [newer.id])).rows == expected
    assert (
        (await other.load("ada", [newer.id])).rows == (await ahead.load("ada", [newer.id])).rows == expected
    )
    for each in (worker, other):
        await each.aclose()


async def test_a_later_write_goes_before_what_waits(
    away: AwayRows, sheltered: ShelteredRows, redis_link: GuardedRedis
) -> None:
    """With the database back and an older write still waiting, the newer one is read, and remains."""
    await sheltered.put([row(1, text="old")])
    away.below = MemoryRows()
    newer = row(1, text="new")
    await sheltered.put([newer])
    assert (await sheltered.load("ada", [newer.id])).rows == {newer.id: newer}
    await sheltered.flush()
    assert (await away.below.load("ada", [newer.id])).rows == {newer.id: newer}


async def test_the_lock_is_released_by_its_holder_only(
    sheltered: ShelteredRows, redis_client: Redis, redis_link: GuardedRedis
) -> None:
    """A worker that was held up longer than its lock does not free the next worker's."""
    await sheltered.put([row(1)])
    database = HeldRows()
    worker = ShelteredRows(database, redis_link, flush_seconds=NEVER)
    flush = asyncio.create_task(worker.flush())
    await database.writing.wait()
    lock = redis_link.key("{shelter}", "lock")
    assert 0 < await redis_client.pttl(lock) <= 30_000
    await redis_client.set(lock, "another worker")
    database.go_on.set()
    await flush
    assert await redis_client.get(lock) == b"another worker"
    await worker.aclose()


async def test_a_damaged_entry_stops_nobody(
    away: AwayRows, sheltered: ShelteredRows, redis_client: Redis, redis_link: GuardedRedis
) -> None:
    """What cannot be read is dropped, and the rest arrives."""
    await sheltered.put([row(1)])
    await redis_client.hset(redis_link.key("{shelter}", "rows"), "ada\0x", "nonsense")
    away.below = MemoryRows()
    await sheltered.flush()
    assert await waiting(redis_client, redis_link) == 0
    assert (await away.below.load("ada", [row(1).id])).rows.keys() == {row(1).id}


async def test_with_both_away_a_write_fails(
    sheltered: ShelteredRows, redis_server: RedisServer, redis_client: Redis
) -> None:
    """Then nothing durable can be promised: no marker may be shown."""
    redis_server.stop()
    with pytest.raises(StoreUnavailable):
        await sheltered.put([row(1)])
    with pytest.raises(StoreUnavailable):
        await sheltered.delete("ada", [row(1).id])
    assert await sheltered.load("ada", [row(1).id]) == FoundRows(away=frozenset({row(1).id}))
    redis_server.start()
    await answering(redis_client)
    await sheltered.put([made := row(1)])
    assert (await sheltered.load("ada", [made.id])).rows == {made.id: made}


async def test_without_redis_the_database_is_enough(
    away: AwayRows, sheltered: ShelteredRows, redis_server: RedisServer
) -> None:
    """A Redis that is down fails no write and no read; only deleting reports it, having deleted below."""
    away.below = MemoryRows()
    redis_server.stop()
    await sheltered.put([row(1)])
    assert (await sheltered.load("ada", [row(1).id])).rows.keys() == {row(1).id}
    with pytest.raises(StoreUnavailable):
        await sheltered.delete("ada", [row(1).id])
    assert (await sheltered.load("ada", [row(1).id])).rows == {}


async def test_postgres_stops_in_the_middle_of_a_chat(
    postgres_database: Database, postgres_server: PostgresServer, redis_link: GuardedRedis
) -> None:
    """Artifacts of before, during and after the outage are all there, cached and in the database."""
    rows = build_rows(postgres_database, redis=redis_link)
    store = SealedArtifacts(rows, SEALING, ArtifactLimits())
    ids = [artifact(number).id for number in range(3)]
    await store.put([artifact(0)])
    postgres_server.stop()
    await store.put([artifact(1)])
    assert (await store.load("ada", ids)).missing == {ids[2]: "unavailable"}
    assert await store.load("eve", ids[1:2]) == LoadedArtifacts({}, {ids[1]: "unavailable"})
    postgres_server.start()
    await store.put([artifact(2)])
    expected = LoadedArtifacts({artifact(number).id: artifact(number) for number in range(3)})
    assert await store.load("ada", ids) == expected
    bare = SealedArtifacts(SqlRows(postgres_database), SEALING, ArtifactLimits())
    for _ in range(200):
        if not (await bare.load("ada", ids)).missing:
            break
        await asyncio.sleep(0.05)
    assert await bare.load("ada", ids) == expected
    await rows.aclose()
