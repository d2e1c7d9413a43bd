"""A read cache of rows in Redis, in front of another RowStore: the same sealed bytes, for an hour at most.

Redis may fail, or hold or answer anything, at any time: reads and writes then go straight to the store below. Only
`delete` reports a failure, because it promises that the row cannot be found anywhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from ..errors import StoreUnavailable
from ..responses.values import read_json
from .database import passing_cancellation
from .schema import SealedRow
from .table import FoundRows, RowStore

TIME_TO_LIVE_SECONDS: Final = 60 * 60
TIMEOUT_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 10.0

DELETED: Final = b"-"
"""The value of a row that was deleted."""

# JSON text holds no NUL byte, so the first one ends the columns.
_SEPARATOR: Final = b"\0"
_COLUMN_TYPES: Final = (*[str] * 7, int, int, int)
_MAX_INTEGER: Final = 2**63 - 1

# Writing to Redis costs time in the event loop; between slices others run.
_SLICE_ROWS: Final = 32

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class GuardedRedis:
    """redis-py's asyncio client (plain, Sentinel or Cluster) in bytes mode, which stays its owner's.

    There is a time limit, and a pause after a failure: a Redis that is down costs requests the limit once per pause,
    and not once per command.
    """

    def __init__(
        self,
        client: Any,
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

    def row_keys(self, user_id: str, ids: Sequence[str]) -> list[str]:
        """Return the names of a user's rows; they are in one slot of a cluster, and do not show the user."""
        owner = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return [f"{self._prefix}:{{{owner}}}:row:{row_id}" for row_id in ids]

    async def run(self, work: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """Do the work unless Redis has just failed. Raises StoreUnavailable."""
        if self._clock() < self._resume_at:
            raise StoreUnavailable("Redis cannot be reached.", detail="it has just failed")
        try:
            with passing_cancellation():
                async with asyncio.timeout(self._timeout_seconds):
                    answer = await work(self._client)
        except Exception as error:  # noqa: BLE001 - of Redis, of the network, or of a client that cannot read the answer
            self._resume_at = self._clock() + self._pause_seconds
            raise StoreUnavailable("Redis cannot be reached.", detail=repr(error)) from None
        self._resume_at = 0.0
        return answer


class CachedRows:
    """A RowStore that asks Redis first.

    A deleted row leaves a mark behind, and what was read from the store below is kept only where there is nothing
    yet: a slow reader cannot bring back what was deleted or replaced meanwhile.
    """

    def __init__(
        self, below: RowStore, redis: GuardedRedis, start: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        """`start` begins work beside the request."""
        self._below = below
        self._redis = redis
        self._start = start

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make the rows durable below, then cache them."""
        await self._below.put(rows)
        await self._copy(rows, only_new=False)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows in Redis with one command, and the rest below. Never raises."""
        keys, values = self._redis.row_keys(user_id, ids), dict[str, object]()
        try:
            answer = await self._redis.run(lambda client: client.mget(keys))
            if isinstance(answer, list) and len(answer) == len(ids):
                values = dict(zip(ids, answer, strict=True))
        except StoreUnavailable as error:
            _log.debug("cache skipped: %s", error)
        cached = {
            row_id: row
            for row_id, value in values.items()
            if (row := decode_row(value, user_id=user_id, row_id=row_id))
        }
        rest = [row_id for row_id in ids if row_id not in cached and values.get(row_id) != DELETED]
        if not rest:
            return cached
        found = await self._below.load(user_id, rest)
        if rows := list(filter(None, found.values())):
            self._start(self._copy(rows, only_new=True))
        return {**cached, **found}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete below, then in Redis. Raises StoreUnavailable when either is unavailable."""
        await self._below.delete(user_id, ids)
        await self._write(dict.fromkeys(self._redis.row_keys(user_id, ids), DELETED), only_new=False)

    async def _copy(self, rows: Sequence[SealedRow], *, only_new: bool) -> None:
        try:
            for start in range(0, len(rows), _SLICE_ROWS):
                part = rows[start : start + _SLICE_ROWS]
                keys = (self._redis.row_keys(row.user_id, [row.id])[0] for row in part)
                await self._write(dict(zip(keys, map(encode_row, part), strict=True)), only_new=only_new)
        except StoreUnavailable as error:
            _log.debug("not cached: %s", error)

    async def _write(self, values: Mapping[str, bytes], *, only_new: bool) -> None:
        def send(client: Any) -> Awaitable[object]:
            pipeline = client.pipeline(transaction=False)
            for name, value in values.items():
                pipeline.set(name, value, ex=TIME_TO_LIVE_SECONDS, nx=only_new)
            sent: Awaitable[object] = pipeline.execute()
            return sent

        answer = await self._redis.run(send)
        if not only_new and answer != [True] * len(values):
            raise StoreUnavailable("Redis cannot be reached.", detail="its answer is not that of SET")


def encode_row(row: SealedRow) -> bytes:
    """Write a row as one value: its columns as JSON, and the sealed bytes behind them."""
    columns = json.dumps([*row[:8], *row[9:]]).encode()
    return columns + _SEPARATOR + row.payload


def decode_row(value: object, *, user_id: str, row_id: str) -> SealedRow | None:
    """Read a row; None when the value is not a row, or not this one of this owner."""
    if not isinstance(value, bytes):
        return None
    columns, separator, payload = value.partition(_SEPARATOR)
    fields = read_json(columns) if separator else None
    if not isinstance(fields, list) or tuple(map(type, fields)) != _COLUMN_TYPES:
        return None
    readable = fields[:2] == [user_id, row_id] and all(0 <= number <= _MAX_INTEGER for number in fields[7:])
    return SealedRow._make([*fields[:8], payload, *fields[8:]]) if readable else None
