"""Rows as single values, for Redis: the sealed bytes with their names before them.

Pure: bytes in, bytes out. A value that does not read is None, never an error.

The connection to Redis as the store's layers use it: with a time limit, and a pause after a failure.

A Redis that is down costs a request the time limit once per pause, not once per command. Owns the waiting,
the key names and the translation of Redis' errors; what is kept in Redis is the business of `cache` and
`shelter`.

Rows that were written or read a short while ago, in Redis, in front of another RowStore.

The cache holds the same sealed bytes as the database, under names that contain the owner. Redis may fail at
any time: reads and writes then go straight to the store below; only `delete` reports it, because it promises
that the row is gone everywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from redis.exceptions import RedisError

from ..errors import StoreUnavailable
from .database import passing_cancellation
from .rows import FoundRows, RowStore, SealedRow
from .tasks import BackgroundTasks

GONE: Final = b"-"
"""The value of a row that was deleted."""

# JSON text holds no NUL byte, so the first one ends the names.
_SEPARATOR: Final = b"\0"


def wrap(row: SealedRow) -> bytes:
    """Write a row as one value."""
    names = json.dumps([*row[:8], *row[9:]], separators=(",", ":")).encode()
    return names + _SEPARATOR + row.payload


def unwrap(value: bytes, *, user_id: str, row_id: str) -> SealedRow | None:
    """Read a row; None when the value is no row, or not this one of this owner."""
    names, separator, payload = value.partition(_SEPARATOR)
    if not separator:
        return None
    try:
        fields = json.loads(names)
        row = SealedRow._make([*fields[:8], payload, *fields[8:]])
    except (ValueError, TypeError, KeyError):
        return None
    return row if (row.user_id, row.id) == (user_id, row_id) else None


TIMEOUT_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 10.0

Answer = TypeVar("Answer")


class RedisClient(Protocol):
    """The commands in use, of redis-py's asyncio client (plain, Sentinel or Cluster) in bytes mode."""

    def mget(self, keys: Sequence[str]) -> Awaitable[list[Any]]:
        """Several values; all keys lie in one slot."""

    def delete(self, *names: str) -> Awaitable[Any]:
        """Delete values; all names lie in one slot."""

    def hlen(self, name: str) -> Awaitable[int]:
        """The number of fields of a hash."""

    def hmget(self, name: str, keys: Sequence[str]) -> Awaitable[list[Any]]:
        """Several fields of a hash."""

    def hset(self, name: str, *, mapping: Mapping[str, bytes]) -> Awaitable[Any]:
        """Set fields of a hash."""

    def hscan(self, name: str, *, cursor: int, count: int) -> Awaitable[tuple[int, Mapping[bytes, bytes]]]:
        """Some fields of a hash, and where to go on; 0 at the end."""

    def set(self, name: str, value: str, *, nx: bool, px: int) -> Awaitable[Any]:
        """Set a value that expires."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Awaitable[Any]:
        """Run a Lua script on keys of one slot."""


class GuardedRedis:
    """One Redis, shared by the layers that use it. The client stays its owner's."""

    def __init__(
        self,
        client: RedisClient,
        *,
        prefix: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout_seconds = timeout_seconds
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._resume_at = 0.0

    def key(self, *parts: str) -> str:
        """A name inside the store's part of Redis."""
        return ":".join((self._prefix, *parts))

    def user_key(self, user_id: str, *parts: str) -> str:
        """A name that belongs to a user; all names of one user lie in one slot of a cluster."""
        owner = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self.key(f"{{{owner}}}", *parts)

    async def run(self, work: Callable[[RedisClient], Awaitable[Answer]]) -> Answer:
        """Do the work unless Redis failed a moment ago. Raises StoreUnavailable."""
        if self._clock() < self._resume_at:
            raise StoreUnavailable("Redis cannot be reached.", detail="it failed a moment ago")
        return await self.insist(work)

    async def insist(self, work: Callable[[RedisClient], Awaitable[Answer]]) -> Answer:
        """Do the work even if Redis failed a moment ago. Raises StoreUnavailable."""
        try:
            with passing_cancellation():
                async with asyncio.timeout(self._timeout_seconds):
                    answer = await work(self._client)
        except (RedisError, OSError, TimeoutError) as error:
            self._resume_at = self._clock() + self._pause_seconds
            raise StoreUnavailable("Redis cannot be reached.", detail=repr(error)) from error
        self._resume_at = 0.0
        return answer


TIME_TO_LIVE_SECONDS: Final = 60 * 60

# Writing to Redis costs time in the event loop; between slices others run.
_SLICE_ROWS: Final = 32

# All keys of one call belong to one user, so they lie in one slot of a cluster.
_REPLACE: Final = """
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 1], 'EX', ARGV[1]) end
"""
_KEEP_NEW: Final = """
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[i + 1], 'EX', ARGV[1], 'NX') end
"""

_log = logging.getLogger(__name__)


class CachedRows:
    """A RowStore that asks Redis first.

    A deleted row leaves a note behind, and what was read from the store below is kept only where there is
    nothing yet: a slow reader cannot bring back what was deleted or replaced meanwhile.
    """

    def __init__(
        self, below: RowStore, link: GuardedRedis, *, time_to_live_seconds: int = TIME_TO_LIVE_SECONDS
    ) -> None:
        self._below = below
        self._link = link
        self._seconds = time_to_live_seconds
        self._background = BackgroundTasks()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make the rows durable below, then keep them here."""
        await self._below.put(rows)
        owned: dict[str, dict[str, bytes]] = {}
        for row in rows:
            owned.setdefault(row.user_id, {})[row.id] = wrap(row)
        try:
            for user_id, values in owned.items():
                await self._write(_REPLACE, user_id, values)
        except StoreUnavailable as error:
            _log.debug("not cached: %s", error)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows here with one command, and the rest below."""
        values = await self._read(user_id, ids)
        kept = {
            key: row for key, value in values.items() if (row := unwrap(value, user_id=user_id, row_id=key))
        }
        rest = [key for key in ids if key not in kept and values.get(key) != GONE]
        if not rest:
            return FoundRows(kept)
        found = await self._below.load(user_id, rest)
        self._background.start(lambda: self._keep_new(user_id, list(found.rows.values())))
        return FoundRows({**kept, **found.rows}, found.away)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete below, then here. Raises StoreUnavailable when either is away."""
        await self._below.delete(user_id, ids)
        await self._write(_REPLACE, user_id, dict.fromkeys(ids, GONE))

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note the use below, and drop the rows with the old time from here."""
        await self._below.touch(user_id, ids, now=now)
        prefix = self._prefix(user_id)
        keys = [prefix + key for key in ids]
        await self._link.run(lambda client: client.delete(*keys))

    async def idle(self) -> None:
        """Wait until what was read below is kept here."""
        await self._background.idle()

    async def aclose(self) -> None:
        """End what runs beside requests, here and below."""
        await self._background.aclose()
        await self._below.aclose()

    def _prefix(self, user_id: str) -> str:
        return self._link.user_key(user_id, "row", "")

    async def _read(self, user_id: str, ids: Sequence[str]) -> dict[str, bytes]:
        """What Redis has; nothing when it is away."""
        prefix = self._prefix(user_id)
        keys = [prefix + key for key in ids]
        try:
            values = await self._link.run(lambda client: client.mget(keys))
        except StoreUnavailable as error:
            _log.debug("cache passed over: %s", error)
            return {}
        return {key: value for key, value in zip(ids, values, strict=True) if value is not None}

    async def _keep_new(self, user_id: str, rows: Sequence[SealedRow]) -> None:
        for start in range(0, len(rows), _SLICE_ROWS):
            values = {row.id: wrap(row) for row in rows[start : start + _SLICE_ROWS]}
            await self._write(_KEEP_NEW, user_id, values)

    async def _write(self, script: str, user_id: str, values: Mapping[str, bytes]) -> None:
        prefix = self._prefix(user_id)
        remaining = iter(values.items())
        while part := dict(islice(remaining, _SLICE_ROWS)):
            keys = [prefix + key for key in part]
            words = (len(keys), *keys, self._seconds, *part.values())
            await self._link.run(partial(_evaluate, script, words))


def _evaluate(script: str, words: Sequence[Any], client: RedisClient) -> Awaitable[Any]:
    return client.eval(script, *words)
