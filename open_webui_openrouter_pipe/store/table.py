"""Rows of artifacts in SQLite or PostgreSQL: their shape, the queries of requests, the stamp of their last use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

import sqlalchemy as sa

from ..errors import StoreError, StoreUnavailable
from .beside import BackgroundTasks
from .database import Database, epoch_seconds

STAMP_INTERVAL_SECONDS: Final = 24 * 60 * 60
"""`last_used` is only as exact as this, so that a busy chat writes each of its rows once a day at most."""


class SealedRow(NamedTuple):
    """One stored artifact; the fields are in the order of the table's columns, which makes reading cheap.

    `key_id` names the key of the seal or signature, `packing` holds the flags of `sealing`, `created` and `last_used`
    are whole seconds since the epoch.
    """

    user_id: str
    id: str
    chat_id: str
    message_id: str
    kind: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The answer to one load: rows by id, and the ids that could not be looked up because the store is unavailable."""

    rows: Mapping[str, SealedRow] = field(default_factory=dict)
    unavailable: frozenset[str] = frozenset()


class RowStore(Protocol):
    """Rows by owner and id. Every layer has this interface. No list is empty."""

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make all of them durable together, or raise StoreUnavailable. The same owner and id is replaced."""

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows; `ids` holds no id twice. Never raises."""

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows, or raise StoreUnavailable. Absent ids are not an error."""

    async def aclose(self) -> None:
        """End the layer's own tasks and those of the layers below."""


@dataclass(eq=False, slots=True)
class _Group:
    """The rows of all who wait for the same transaction; `puts` is how many of them there are."""

    rows: list[SealedRow] = field(default_factory=list)
    puts: int = 0
    committed: asyncio.Task[int] | None = None


class SqlRows(BackgroundTasks):
    """A RowStore in SQLite or PostgreSQL.

    While a transaction writes, whoever comes waits for the next one, which writes the rows of all of them: SQLite has
    one writer at a time anyway, and hundreds of answers that begin at once need neither as many transactions nor as
    many connections.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._next: _Group | None = None
        self._writing = asyncio.Lock()
        self._commits: set[asyncio.Task[int]] = set()
        table = database.tables.artifact
        named = (table.c.user_id == sa.bindparam("owner"), database.among_ids(table.c.id))
        self._upsert = database.upsert(table)
        self._select = sa.select(table).where(*named)
        self._delete = sa.delete(table).where(*named)
        earlier = table.c.last_used < sa.bindparam("now")
        self._stamp = sa.update(table).where(*named, earlier).values(last_used=sa.bindparam("now"))

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Write all rows in one transaction, others' rows with them, or raise StoreUnavailable."""
        group = self._next = self._next or _Group()
        group.rows += rows
        group.puts += 1
        if group.committed is None:
            group.committed = asyncio.create_task(self._commit(group))
            self._commits.add(group.committed)
            group.committed.add_done_callback(self._commits.discard)
        try:
            async with asyncio.timeout(self._database.interrupt_seconds):
                await asyncio.shield(group.committed)
        except TimeoutError as error:
            raise StoreUnavailable("The database cannot be reached.", detail="no answer in time") from error
        except StoreUnavailable:
            raise
        except StoreError:
            if group.puts == 1:
                raise
            await self._write(rows)  # the refused row may be another's

    async def _commit(self, group: _Group) -> int:
        async with self._writing:
            self._next = None
            return await self._write(group.rows)

    async def _write(self, rows: Sequence[SealedRow]) -> int:
        # All workers write in the same order, so that two of them cannot wait for each other.
        ordered = sorted(rows, key=lambda row: (row.user_id, row.id))
        return await self._database.change(self._upsert, [row._asdict() for row in ordered])

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows with one query, however many ids there are, and stamp their use beside the request."""
        try:
            found = await self._database.read(self._select, {"owner": user_id, "ids": list(ids)})
        except StoreError:
            return FoundRows(unavailable=frozenset(ids))
        rows = {row.id: row for row in map(SealedRow._make, found)}
        now = self._clock()
        stale = [key for key, row in rows.items() if row.last_used <= now - STAMP_INTERVAL_SECONDS]
        if stale:
            used = {"owner": user_id, "ids": stale, "now": now}
            self.start(partial(self._database.change, self._stamp, used))
        return FoundRows(rows)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows in one transaction, or raise StoreUnavailable."""
        await self._database.change(self._delete, {"owner": user_id, "ids": list(ids)})

    async def aclose(self) -> None:
        """End what runs beside requests, and close what the database opened itself."""
        await super().aclose()
        if self._commits:
            await asyncio.wait(self._commits)
        await self._database.aclose()
