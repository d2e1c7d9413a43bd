"""Writes that wait in Redis while the database is away, and the way back.

What waits lies in one Redis hash without a time to live, one field for each row, as a row or as the note that
it was deleted: of several writes of one row the last remains. Any worker brings it to the database, one at a
time by a lock, though nothing breaks when two do: writing twice changes nothing, and a field is removed only
if it still holds what was written.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from ..errors import StoreError, StoreUnavailable
from .cache import GONE, GuardedRedis, RedisClient, unwrap, wrap
from .rows import FoundRows, RowStore, SealedRow

FLUSH_SECONDS: Final = 5.0

_TOKEN_BYTES: Final = 16
_LOCK_MILLISECONDS: Final = 30_000
_BATCH_FIELDS: Final = 50
_BETWEEN_OWNER_AND_ID: Final = "\0"

# Each takes the hash as its key; the arguments are pairs of field and value, or of field and token.
_SUPERSEDE: Final = """
for i = 1, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
"""
_REMOVE_UNCHANGED: Final = """
for i = 1, #ARGV, 2 do
  local value = redis.call('HGET', KEYS[1], ARGV[i])
  if value and string.sub(value, 1, string.len(ARGV[i + 1])) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
"""
_RELEASE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

_log = logging.getLogger(__name__)


class ShelteredRows:
    """A RowStore whose writes succeed as long as the store below or Redis is there.

    A row that waits in Redis is always dealt with there first, so that a slow flush cannot bring back what
    was replaced or deleted meanwhile.
    """

    def __init__(self, below: RowStore, link: GuardedRedis, *, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._below = below
        self._link = link
        self._flush_seconds = flush_seconds
        self._hash = link.key("{shelter}", "rows")
        self._lock = link.key("{shelter}", "lock")
        self._flusher: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._closing = False

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Write the rows below, or into the shelter. Raises StoreUnavailable when both are away."""
        self._watch()
        entries = {_field(row.user_id, row.id): _entry(wrap(row)) for row in rows}
        try:
            await self._supersede(entries)
        except StoreUnavailable as error:
            _log.debug("shelter passed over: %s", error)
        try:
            await self._below.put(rows)
        except StoreUnavailable as error:
            await self._shelter(entries, error)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows that wait, and the rest below."""
        self._watch()
        waiting = await self._waiting(user_id, ids)
        rows = {
            key: row for key, value in waiting.items() if (row := unwrap(value, user_id=user_id, row_id=key))
        }
        rest = [key for key in ids if key not in waiting]
        found = await self._below.load(user_id, rest) if rest else FoundRows()
        return FoundRows({**found.rows, **rows}, found.away)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete here and below, or leave a note in the shelter. Raises StoreUnavailable."""
        self._watch()
        entries = {_field(user_id, key): _entry(GONE) for key in ids}
        try:
            await self._supersede(entries)
        finally:
            await self._delete_below(user_id, ids, entries)

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note the use below; rows that wait are new enough."""
        await self._below.touch(user_id, ids, now=now)

    async def flush(self) -> None:
        """Bring what waits to the store below, unless another worker is at it. Raises StoreUnavailable."""
        if not await self._link.run(lambda client: client.hlen(self._hash)):
            return
        token = secrets.token_hex(_TOKEN_BYTES)
        taken = await self._link.run(
            lambda client: client.set(self._lock, token, nx=True, px=_LOCK_MILLISECONDS)
        )
        if not taken:
            return
        try:
            await self._move_all()
        finally:
            await self._link.run(lambda client: client.eval(_RELEASE, 1, self._lock, token))

    async def aclose(self) -> None:
        """End the flushing after its current batch, and the store below. The rest waits for the next worker."""
        self._closing = True
        if self._flusher is not None:
            async with self._flushing:
                self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        await self._below.aclose()

    def _watch(self) -> None:
        """Have someone look after what waits, from the first use in a running event loop."""
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_forever())

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(self._flush_seconds)
            try:
                async with self._flushing:
                    await self.flush()
            except StoreError as error:
                _log.debug("the shelter keeps what waits: %s", error)

    async def _move_all(self) -> None:
        cursor = 0
        while not self._closing:
            cursor, entries = await self._link.run(partial(self._some_waiting, cursor))
            await self._move(entries)
            if not cursor:
                return

    def _some_waiting(self, cursor: int, client: RedisClient) -> Awaitable[tuple[int, Mapping[bytes, bytes]]]:
        return client.hscan(self._hash, cursor=cursor, count=_BATCH_FIELDS)

    async def _move(self, entries: Mapping[bytes, bytes]) -> None:
        rows: list[SealedRow] = []
        gone: dict[str, list[str]] = {}
        for field, entry in entries.items():
            user_id, _, row_id = field.decode(errors="replace").partition(_BETWEEN_OWNER_AND_ID)
            value = entry[_TOKEN_BYTES:]
            if value == GONE:
                gone.setdefault(user_id, []).append(row_id)
            elif row := unwrap(value, user_id=user_id, row_id=row_id):
                rows.append(row)
        if rows:
            await self._below.put(rows)
        for user_id, ids in gone.items():
            await self._below.delete(user_id, ids)
        pairs = [part for field, entry in entries.items() for part in (field, entry[:_TOKEN_BYTES])]
        await self._link.run(lambda client: client.eval(_REMOVE_UNCHANGED, 1, self._hash, *pairs))

    async def _waiting(self, user_id: str, ids: Sequence[str]) -> dict[str, bytes]:
        """The rows and notes that wait; none when Redis is away."""
        fields = [_field(user_id, key) for key in ids]
        try:
            if not await self._link.run(lambda client: client.hlen(self._hash)):
                return {}
            entries = await self._link.run(lambda client: client.hmget(self._hash, fields))
        except StoreUnavailable as error:
            _log.debug("shelter passed over: %s", error)
            return {}
        return {
            key: entry[_TOKEN_BYTES:] for key, entry in zip(ids, entries, strict=True) if entry is not None
        }

    async def _supersede(self, entries: Mapping[str, bytes]) -> None:
        """Replace those entries that wait; the others do not begin to."""
        if await self._link.run(lambda client: client.hlen(self._hash)):
            pairs = [part for pair in entries.items() for part in pair]
            await self._link.run(lambda client: client.eval(_SUPERSEDE, 1, self._hash, *pairs))

    async def _delete_below(self, user_id: str, ids: Sequence[str], entries: Mapping[str, bytes]) -> None:
        try:
            await self._below.delete(user_id, ids)
        except StoreUnavailable as error:
            await self._shelter(entries, error)

    async def _shelter(self, entries: Mapping[str, bytes], reason: StoreUnavailable) -> None:
        _log.warning("%d writes wait in Redis: %s", len(entries), reason)
        await self._link.insist(lambda client: client.hset(self._hash, mapping=entries))


def _field(user_id: str, row_id: str) -> str:
    return user_id + _BETWEEN_OWNER_AND_ID + row_id


def _entry(value: bytes) -> bytes:
    """A value with a token of its own before it, by which this very write is recognised."""
    return secrets.token_bytes(_TOKEN_BYTES) + value
