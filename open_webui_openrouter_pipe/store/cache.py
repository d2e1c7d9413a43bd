"""Rows that were written or read a short while ago, in Redis, in front of another RowStore.

The cache holds the same sealed bytes as the database, under names that contain the owner. Redis may fail at
any time: reads and writes then go straight to the store below; only `delete` reports it, because it promises
that the row is gone everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from ..errors import StoreUnavailable
from .background import Background
from .link import RedisClient, RedisLink
from .parcel import GONE, unwrap, wrap
from .rows import FoundRows, RowStore, SealedRow

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
        self, below: RowStore, link: RedisLink, *, time_to_live_seconds: int = TIME_TO_LIVE_SECONDS
    ) -> None:
        self._below = below
        self._link = link
        self._seconds = time_to_live_seconds
        self._background = Background()

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
