"""The cache: the contract over each store, a Redis that stops or holds anything, and what never comes back."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.cache import (
    DELETED,
    CachedRows,
    GuardedRedis,
    decode_row,
    encode_row,
)
from open_webui_openrouter_pipe.store.table import FoundRows, RowStore
from tests.store.contract import KEYRING, Clock, StoreContract, artifact, row, sql_rows
from tests.store.fakes import FakeRedis, MemoryRows, SwitchedRows
from tests.store.workers import PATIENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from open_webui_openrouter_pipe.store.database import Database

pytestmark = pytest.mark.anyio
servers = pytest.mark.servers

ROW, SECOND = row(1), row(2)
COLUMNS = json.loads(encode_row(ROW).partition(b"\0")[0])


@servers
class TestCacheOverMemory(StoreContract):
    @pytest.fixture
    def below(self) -> RowStore:
        """What the cache stands in front of."""
        return MemoryRows()

    @pytest.fixture
    def rows(self, below: RowStore, guarded_redis: GuardedRedis) -> RowStore:
        return CachedRows(below, guarded_redis, asyncio.create_task)


@servers
class TestCacheOverDatabases(TestCacheOverMemory):
    @pytest.fixture
    def below(self, database: Database) -> RowStore:
        return sql_rows(database)


@servers
class TestCacheInACluster(TestCacheOverMemory):
    """Three nodes, which refuse commands across slots."""

    @pytest.fixture
    async def guarded_redis(self, redis_cluster_url: str, redis_prefix: str) -> AsyncIterator[GuardedRedis]:
        client = RedisCluster.from_url(redis_cluster_url)
        yield GuardedRedis(cast("Any", client), prefix=redis_prefix, timeout_seconds=PATIENT_SECONDS)
        await client.aclose()


def fake_cache(below: RowStore | None = None, **limits: Any) -> tuple[FakeRedis, GuardedRedis, CachedRows]:
    """A Redis in memory, and what goes by it."""
    redis = FakeRedis()
    guarded = GuardedRedis(redis, prefix="x", **limits)
    return redis, guarded, CachedRows(below or MemoryRows(), guarded, asyncio.create_task)


async def test_a_cached_row_needs_no_database() -> None:
    """Whether it was put or read before; what is not cached is unavailable then, and another user finds nothing."""
    below = SwitchedRows(memory := MemoryRows())
    await memory.put([ROW])
    cached = fake_cache(below)[2]
    await cached.put([second := row(2)])
    await cached.load("ada", [ROW.id])
    await asyncio.sleep(0)
    below.below = None
    found = await cached.load("ada", [ROW.id, second.id, "none"])
    assert found == {ROW.id: ROW, second.id: second, "none": None}
    assert await cached.load("eve", [ROW.id]) == {ROW.id: None}


async def test_redis_keeps_nothing_that_the_database_does_not_have() -> None:
    """While the database is unavailable a put and a deletion raise, and leave no value in Redis."""
    redis, _, cached = fake_cache(SwitchedRows())
    for work in (cached.put([ROW]), cached.delete("ada", [ROW.id])):
        with pytest.raises(StoreUnavailable):
            await work
    assert redis.values == {}


async def test_a_redis_that_is_down_fails_neither_reads_nor_writes() -> None:
    """Only deleting raises, because the row may still be in the cache."""
    redis, _, cached = fake_cache()
    redis.down = True
    await cached.put([ROW])
    assert await cached.load("ada", [ROW.id]) == {ROW.id: ROW}
    with pytest.raises(StoreUnavailable):
        await cached.delete("ada", [ROW.id])
    assert await cached.load("ada", [ROW.id]) == {}


@servers
async def test_redis_holds_sealed_bytes_that_expire(redis_client: Redis, guarded_redis: GuardedRedis) -> None:
    """Nothing readable is in Redis, each value ends by itself, and no name shows the user."""
    store = SealedArtifacts(CachedRows(MemoryRows(), guarded_redis, asyncio.create_task), KEYRING)
    created = artifact(1, {"type": "reasoning", "text": "visible " * 1000})
    await store.put([created])
    [key] = guarded_redis.row_keys("ada", [created.id])
    assert "ada" not in key
    assert b"visible" not in cast("bytes", await redis_client.get(key))
    assert 0 < await redis_client.ttl(key) <= 3600


def with_column(index: int, value: Any) -> bytes:
    """The value of a row with another column in it."""
    columns = [*COLUMNS[:index], value, *COLUMNS[index + 1 :]]
    return json.dumps(columns).encode() + b"\0" + ROW.payload


WRONG: dict[str, bytes] = {
    **{
        repr(value): value
        for value in (b"", b"\0", b"-\0", b"[]\0x", b"nonsense", b"\xff\xfe\0a", b'{"a": 1}\0x')
    },
    "deep JSON": b"[" * 100_000 + b"\0x",
    "a huge integer": b"[" + b"9" * 6000 + b"]\0x",
    "a column more": json.dumps([*COLUMNS, 1]).encode() + b"\0x",
    "a column fewer": json.dumps(COLUMNS[:-1]).encode() + b"\0x",
    "creation before all time": with_column(8, -1),
    "creation after all time": with_column(8, 2**63),
    "another owner": with_column(0, "eve"),
    "another id": with_column(1, "0" * 20),
    **{
        f"column {at} is {value}": with_column(at, value)
        for at, column in enumerate(COLUMNS)
        for value in list[Any]([None, True, 1.5, [], {}, [column], 1 if isinstance(column, str) else "1"])
    },
}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_a_value_that_is_not_this_row_is_not_read(value: bytes) -> None:
    """Nothing raises, whatever Redis holds; a row is read as it was written, up to the largest numbers."""
    assert decode_row(value, user_id="ada", row_id=ROW.id) is None
    for created in (ROW, row(1, now=2**63 - 1), row(1, now=0)):
        assert decode_row(encode_row(created), user_id="ada", row_id=created.id) == created


@pytest.mark.parametrize(
    ("columns", "payload", "is_read"),
    [(COLUMNS[:-1], b"x", False), (COLUMNS, b'{"type":"reasoning"}', True)],
    ids=["not a row", "a forged payload"],
)
async def test_whatever_redis_holds_opens_no_artifact(
    columns: list[Any], payload: bytes, *, is_read: bool
) -> None:
    """What is no row costs a query, a forged row is unreadable, and the next put mends the cache."""
    redis, guarded, cached = fake_cache()
    store = SealedArtifacts(cached, KEYRING)
    created = artifact(1, {"type": "reasoning", "text": "x"})
    whole = {created.id: created}
    await store.put([created])
    [key] = guarded.row_keys("ada", [created.id])
    redis.values[key] = json.dumps(columns).encode() + b"\0" + payload
    unreadable = {created.id: MissingArtifact("reasoning", "unreadable")}
    assert await store.load("ada", [created.id]) == (unreadable if is_read else whole)
    await store.put([created])
    assert decode_row(redis.values[key], user_id="ada", row_id=created.id) is not None


@servers
async def test_a_key_of_another_type_costs_a_query_and_nothing_else(
    redis_client: Redis, guarded_redis: GuardedRedis
) -> None:
    """Redis holds a list where a row should be."""
    await (below := MemoryRows()).put([ROW])
    [key] = guarded_redis.row_keys("ada", [ROW.id])
    await cast("Any", redis_client.lpush(key, "x"))
    cached = CachedRows(below, guarded_redis, asyncio.create_task)
    for _ in range(2):
        assert await cached.load("ada", [ROW.id]) == {ROW.id: ROW}
    await cached.put([ROW])
    assert await redis_client.type(key) == b"string"


class OddRedis(FakeRedis):
    """Answers each command with something, or raises it."""

    def __init__(self, odd: object) -> None:
        super().__init__()
        self.odd = odd

    async def mget(self, keys: Sequence[str]) -> Any:
        await super().mget(keys)
        return self._odd()

    async def execute(self) -> Any:
        await super().execute()
        return self._odd()

    def _odd(self) -> object:
        if isinstance(self.odd, Exception):
            raise self.odd
        return self.odd


ERRORS = (
    exceptions.ResponseError("NOAUTH Authentication required."),
    exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    exceptions.MovedError("3999 127.0.0.1:6381"),
    exceptions.AskError("3999 127.0.0.1:6381"),
    exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
    exceptions.ReadOnlyError("You can't write against a read only replica."),
    cast("Any", exceptions.RedisClusterException)("no node"),
    exceptions.InvalidResponse("?"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    AttributeError("'NoneType' object has no attribute 'decode'"),
    IndexError("list index out of range"),
    RecursionError(),
    OSError("reset"),
)
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(ERRORS),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)


def check_that_nothing_breaks(odd: object) -> None:
    """Use a cache over a Redis that answers this."""
    rows = [ROW, SECOND]

    async def use() -> None:
        guarded = GuardedRedis(OddRedis(odd), prefix="x", pause_seconds=0)
        cached = CachedRows(memory := MemoryRows(), guarded, asyncio.create_task)
        await cached.put(rows)
        assert await cached.load("ada", [each.id for each in rows]) == {each.id: each for each in rows}
        with pytest.raises(StoreUnavailable) if odd != [True] else nullcontext():
            await cached.delete("ada", [ROW.id])
        assert await memory.load("ada", [ROW.id]) == {}

    asyncio.run(use())


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_whatever_redis_raises_is_a_row_that_it_does_not_have(error: Exception) -> None:
    """Redis, its client, or the network; only a deletion reports it."""
    check_that_nothing_breaks(error)


@given(odd=ODD, in_place=st.none() | st.integers(0, 1))
def test_whatever_redis_answers_is_a_row_that_it_does_not_have(odd: object, in_place: int | None) -> None:
    """An answer of any type or length, or with anything in one of its places."""
    answer: list[object] = [encode_row(ROW), encode_row(SECOND)]
    if in_place is None:
        check_that_nothing_breaks(odd)
    else:
        answer[in_place] = odd
        check_that_nothing_breaks(answer)


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


@pytest.mark.parametrize("change", ["delete", "put"])
async def test_a_slow_reader_brings_nothing_back(change: str) -> None:
    """What was read before a deletion or a later put does not enter the cache after it; a deletion leaves a mark."""
    await (below := SlowRows()).put([row(1, text="old")])
    redis, _, cached = fake_cache(below)
    reader = asyncio.create_task(cached.load("ada", [ROW.id]))
    await below.reading.wait()
    newer = row(1, text="new")
    await (cached.delete("ada", [ROW.id]) if change == "delete" else cached.put([newer]))
    below.go_on.set()
    await reader
    await asyncio.sleep(0)
    expected = (DELETED, {}) if change == "delete" else (encode_row(newer), {ROW.id: newer})
    assert (*redis.values.values(), await cached.load("ada", [ROW.id])) == expected


async def test_a_redis_that_comes_back_is_used_again() -> None:
    """After ten seconds the next request tries it."""
    redis, _, cached = fake_cache(clock=(clock := Clock()))
    commands = []
    for clock.now, redis.down in ((0, True), (9, False), (10, False)):
        await cached.load("ada", ["1"])
        commands.append(redis.commands)
    assert commands == [1, 1, 2]


async def test_a_silent_redis_is_waited_for_once() -> None:
    """A server that accepts and never answers delays the first request only."""
    redis, _, cached = fake_cache(memory := MemoryRows(), timeout_seconds=0.05, clock=lambda: 0.0)
    redis.silent = True
    for number in range(20):
        await memory.put([each := row(number)])
        assert await cached.load("ada", [each.id]) == {each.id: each}
    assert redis.commands == 1
