"""The cache: the contract over each store, a Redis that stops, and what never comes back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import LoadedArtifacts
from open_webui_openrouter_pipe.store.artifacts import ArtifactLimits, SealedArtifacts
from open_webui_openrouter_pipe.store.cache import CachedRows, GuardedRedis
from open_webui_openrouter_pipe.store.memory import MemoryRows
from open_webui_openrouter_pipe.store.rows import FoundRows, RowStore, SqlRows
from tests.store.contract import NOW, SEALING, AwayRows, StoreContract, artifact, row
from tests.store.waiting import answering

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from open_webui_openrouter_pipe.store.database import Database
    from scripts.harness.servers import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


class CachedContract(StoreContract):
    """Inherit this, and bring a fixture `below`: what the cache stands in front of."""

    @pytest.fixture
    async def rows(self, below: RowStore, redis_link: GuardedRedis) -> AsyncIterator[RowStore]:
        cached = CachedRows(below, redis_link)
        yield cached
        await cached.aclose()


class TestCacheOverMemory(CachedContract):
    @pytest.fixture
    def below(self) -> RowStore:
        return MemoryRows()


class TestCacheOverSqlite(CachedContract):
    @pytest.fixture
    def below(self, sqlite_database: Database) -> RowStore:
        return SqlRows(sqlite_database)


class TestCacheOverPostgres(CachedContract):
    @pytest.fixture
    def below(self, postgres_database: Database) -> RowStore:
        return SqlRows(postgres_database)


class TestCacheInACluster(CachedContract):
    """One node that refuses commands across slots, as every cluster does."""

    @pytest.fixture
    def below(self) -> RowStore:
        return MemoryRows()

    @pytest.fixture
    async def redis_link(self, redis_cluster_url: str, redis_prefix: str) -> AsyncIterator[GuardedRedis]:
        client = RedisCluster.from_url(redis_cluster_url)
        yield GuardedRedis(cast("Any", client), prefix=redis_prefix)
        await client.aclose()


async def test_what_was_put_or_read_is_not_read_below_again(redis_link: GuardedRedis) -> None:
    """With all rows in the cache, the store below may be away."""
    below = AwayRows(MemoryRows())
    assert below.below is not None
    await below.put([row(1)])
    cached = CachedRows(below, redis_link)
    await cached.put([row(2)])
    await cached.load("ada", [row(1).id])
    await cached.idle()
    below.below = None
    found = await cached.load("ada", [row(1).id, row(2).id, row(3).id])
    assert set(found.rows) == {row(1).id, row(2).id}
    assert found.away == frozenset({row(3).id})
    assert (await cached.load("eve", [row(1).id])).rows == {}
    await cached.aclose()


async def test_redis_holds_sealed_bytes_that_expire(redis_client: Redis, redis_link: GuardedRedis) -> None:
    """Nothing readable lies in Redis, each value ends by itself, and no name shows the user."""
    store = SealedArtifacts(
        CachedRows(MemoryRows(), redis_link, time_to_live_seconds=60), SEALING, ArtifactLimits()
    )
    await store.put([artifact(1, {"type": "reasoning", "text": "visible " * 1000})])
    keys = await redis_client.keys(redis_link.key("*"))
    assert len(keys) == 1
    assert b"ada" not in keys[0]
    assert b"visible" not in cast("bytes", await redis_client.get(keys[0]))
    assert 0 < await redis_client.ttl(keys[0]) <= 60


async def test_a_value_of_another_user_is_no_row(redis_client: Redis, redis_link: GuardedRedis) -> None:
    """Even a value that someone copies to his own name in Redis finds nothing."""
    cached = CachedRows(MemoryRows(), redis_link)
    await cached.put([row(1)])
    value = await redis_client.get(redis_link.user_key("ada", "row", row(1).id))
    await redis_client.set(redis_link.user_key("eve", "row", row(1).id), cast("bytes", value))
    assert await cached.load("eve", [row(1).id]) == FoundRows()
    await cached.aclose()


@pytest.mark.parametrize("value", [b"", b"-\0", b"[]\0x", b"nonsense", b'["ada"]\0x', b"{}\0"])
async def test_a_value_that_is_no_row_is_passed_over(
    redis_client: Redis, redis_link: GuardedRedis, value: bytes
) -> None:
    """Damage in the cache costs a query and nothing else."""
    below = MemoryRows()
    await below.put([row(1)])
    await redis_client.set(redis_link.user_key("ada", "row", row(1).id), value)
    cached = CachedRows(below, redis_link)
    assert (await cached.load("ada", [row(1).id])).rows.keys() == {row(1).id}
    await cached.aclose()


class SlowRows(MemoryRows):
    """Reads what is there, and hands it over when told."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.reading = asyncio.Event()

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        found = await super().load(user_id, ids)
        self.reading.set()
        await self.go_on.wait()
        return found


@pytest.mark.parametrize("change", ["delete", "put"])
async def test_a_slow_reader_brings_nothing_back(redis_link: GuardedRedis, change: str) -> None:
    """What was read before a deletion or a later put does not enter the cache after it."""
    below = SlowRows()
    await MemoryRows.put(below, [row(1, text="old")])
    cached = CachedRows(below, redis_link)
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


async def test_a_touched_row_is_read_below_again(redis_link: GuardedRedis) -> None:
    """The cache does not keep the old time, by which the row would be touched again and again."""
    cached = CachedRows(MemoryRows(), redis_link)
    await cached.put([row(1)])
    await cached.touch("ada", [row(1).id], now=NOW + 9)
    assert (await cached.load("ada", [row(1).id])).rows[row(1).id].last_used == NOW + 9
    await cached.aclose()


async def test_a_redis_that_stops_fails_neither_reads_nor_writes(
    redis_server: RedisServer, redis_link: GuardedRedis
) -> None:
    """Only deleting reports it, because the row may still be in the cache."""
    cached = CachedRows(MemoryRows(), redis_link)
    store = SealedArtifacts(cached, SEALING, ArtifactLimits())
    await store.put([artifact(1)])
    redis_server.stop()
    await store.put([artifact(2)])
    assert await store.load("ada", [artifact(1).id, artifact(2).id]) == LoadedArtifacts(
        {artifact(1).id: artifact(1), artifact(2).id: artifact(2)}
    )
    with pytest.raises(StoreUnavailable):
        await store.delete("ada", [artifact(1).id])
    assert (await store.load("ada", [artifact(1).id])).missing == {artifact(1).id: "missing"}
    await cached.aclose()


async def test_a_redis_that_comes_back_is_used_again(redis_server: RedisServer, redis_client: Redis) -> None:
    """After the pause the next request tries it."""
    now = [0.0]
    link = GuardedRedis(cast("Any", redis_client), prefix="x", pause_seconds=10, clock=lambda: now[0])
    redis_server.stop()
    with pytest.raises(StoreUnavailable):
        await link.run(lambda client: client.hlen("x"))
    redis_server.start()
    await answering(redis_client)
    now[0] = 9.9
    with pytest.raises(StoreUnavailable):
        await link.run(lambda client: client.hlen("x"))
    now[0] = 10.0
    assert await link.run(lambda client: client.hlen("x")) == 0


async def test_a_silent_redis_costs_its_time_limit_once() -> None:
    """A server that accepts and never answers delays the first request only."""
    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = Redis.from_url(f"redis://127.0.0.1:{port}/0")
    cached = CachedRows(MemoryRows(), GuardedRedis(cast("Any", client), prefix="x", timeout_seconds=0.3))
    began = time.monotonic()
    for number in range(20):
        await cached.put([row(number)])
        assert (await cached.load("ada", [row(number).id])).rows.keys() == {row(number).id}
    assert 0.3 <= time.monotonic() - began < 0.9
    await cached.aclose()
    await client.aclose()
    await ended.wait()
    server.close()
    await server.wait_closed()
