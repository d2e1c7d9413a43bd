"""Sealed rows in SQLite or PostgreSQL: the queries of requests, and the stamp of their last use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final, Generic, Protocol, TypeAlias

import sqlalchemy as sa

from ..errors import StoreError, StoreUnavailable
from .database import Database, epoch_seconds
from .schema import Row, SealedRow

STAMP_INTERVAL_SECONDS: Final = 24 * 60 * 60
MAX_STAMPS: Final = 64
"""Of one table at the same time: behind a slow database, a use is stamped the next time."""
"""`last_used` is only as exact as this, so that a busy chat writes each of its rows once a day at most."""

FoundRows: TypeAlias = Mapping[str, SealedRow | None]
"""The answer to one load, by id; None for a row of which an unavailable store could not tell."""


class SealedTable(Generic[Row]):
    """The rows of one table, for the whole life of a process.

    All methods that wait raise StoreUnavailable. While a transaction of `put` writes, whoever comes waits for the next
    one, which writes the rows of all of them: SQLite has one writer at a time anyway, and hundreds of answers that
    begin at once need neither as many transactions nor as many connections.
    """

    def __init__(self, database: Database, row: type[Row], *, clock: Callable[[], int] | None = None) -> None:
        """`clock` gives the time of rows in epoch seconds."""
        self.clock: Final = clock or epoch_seconds
        self._database = database
        self._row = row
        self._table = table = database.tables.of_rows(row)
        self._next: tuple[list[Row], asyncio.Task[int]] | None = None
        self._writing = asyncio.Lock()
        self._stamping = 0
        self._key_of = itemgetter(slice(len(table.primary_key)))
        owner, first, *others = table.primary_key
        # Not by the index: the databases would look up each further part for each first one, which are many in a chat.
        unindexed = [column.concat(sa.literal_column("''")) for column in others]
        among = [database.among_ids(column) for column in (first, *unindexed)]
        self._named: Final = (owner == sa.bindparam("owner"), *among)
        self._select = sa.select(table).where(*self._named)
        unstamped = table.c.last_used <= sa.bindparam("before")
        self._stamp = sa.update(table).where(*self._named, unstamped).values(last_used=sa.bindparam("now"))
        self._upsert = database.prepared_upsert(table)

    async def find(self, user_id: str, ids: Sequence[str]) -> list[Row]:
        """Find the owner's rows whose key consists of these ids, with one query however many ids there are."""
        found = await self._database.read(self._select, {"owner": user_id, "ids": list(ids)})
        return [self._row(*each) for each in found]

    async def get(self, key: Sequence[str]) -> Row | None:
        """Return the row with this key."""
        found = await self.find(key[0], key[1:])
        return next((row for row in found if self._key_of(row) == tuple(key)), None)

    def stamp(self, rows: Iterable[Row], **changes: str) -> None:
        """Note beside the request, once a day, that rows of one owner were used; `changes` are written with it."""
        now = self.clock()
        before = now - STAMP_INTERVAL_SECONDS
        stale = [row for row in rows if row.last_used <= before]
        if stale and self._stamping < MAX_STAMPS:
            ids = sorted({part for row in stale for part in self._key_of(row)[1:]})
            named = {"owner": stale[0].user_id, "ids": ids, "now": now, "before": before}
            self._stamping += 1
            stamp = self._database.start(self._database.change(self._stamp.values(changes), named))
            stamp.add_done_callback(self._stamped)

    def _stamped(self, _: asyncio.Task[int]) -> None:
        self._stamping -= 1

    async def add(self, row: Row, *, instead_of: Row | None) -> bool:
        """Write a row, unless its place is taken by another than the one it replaces; return whether it was written."""
        is_replaced = self._table.c.payload == instead_of.payload if instead_of else sa.false()
        insert = self._database.upsert(self._table, where=is_replaced)
        return bool(await self._database.change(insert, row._asdict()))

    async def discard(self, row: Row) -> None:
        """Delete a row, unless its payload is another one by now."""
        has_key = sa.tuple_(*self._table.primary_key) == self._key_of(row)
        await self._database.change(
            sa.delete(self._table).where(has_key, self._table.c.payload == row.payload)
        )

    async def put(self, rows: Sequence[Row]) -> None:
        """Write all rows in one transaction, others' rows with them; the same key is replaced."""
        if self._next is None:
            waiting: list[Row] = []
            self._next = waiting, self._database.start(self._commit(waiting))
        waiting, committed = self._next
        waiting += rows
        try:
            async with asyncio.timeout(self._database.limit_seconds):
                await asyncio.shield(committed)
        except TimeoutError as error:  # with the commit before it, it takes twice as long
            raise StoreUnavailable("The database cannot be reached.", detail="no answer in time") from error
        except StoreUnavailable:
            raise
        except StoreError:
            if len(waiting) == len(rows):
                raise
            await self._write(rows)  # the refused row may be another's

    async def _commit(self, waiting: Sequence[Row]) -> int:
        async with self._writing:
            self._next = None
            return await self._write(waiting)

    async def _write(self, rows: Sequence[Row]) -> int:
        # All workers write in the same order, so that two of them cannot wait for each other.
        ordered = sorted(rows, key=self._key_of)
        return await self._database.change(self._upsert, [row._asdict() for row in ordered])


class RowStore(Protocol):
    """Rows of artifacts by owner and id. Every layer has this interface. No list is empty."""

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make all of them durable together, or raise StoreUnavailable. The same owner and id is replaced."""

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows; `ids` holds no id twice. Never raises."""

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows, or raise StoreUnavailable. Absent ids are not an error."""


class SqlRows(SealedTable[SealedRow]):
    """A RowStore in SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(database, SealedRow, clock=clock)
        self._delete = sa.delete(self._table).where(*self._named)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows, and stamp their use."""
        try:
            found = await self.find(user_id, ids)
        except StoreError:
            return dict.fromkeys(ids)
        self.stamp(found)
        return {row.id: row for row in found}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows in one transaction, or raise StoreUnavailable."""
        await self._database.change(self._delete, {"owner": user_id, "ids": list(ids)})
