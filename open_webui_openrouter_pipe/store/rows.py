"""Rows of artifacts: their shape, the repository, and the stamp of their last use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError
from .database import DIALECTS, Database
from .tasks import BackgroundTasks

PLAIN: Final = 0

SEALED: Final = 1

COMPRESSED: Final = 2

"""How a payload is to be opened: the sum of these. Plain integers, because each row of a request asks."""


class SealedRow(NamedTuple):
    """One stored artifact; the fields stand in the order of the table's columns, which makes reading cheap.

    `key_id` names the key of a sealed payload and is empty for a plain one, `packing` holds the flags above,
    `created` and `last_used` are whole seconds since the epoch.
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
    """The answer to one load: rows by id, and the ids that nobody could look up at the moment."""

    rows: Mapping[str, SealedRow] = field(default_factory=dict)
    away: frozenset[str] = frozenset()


class RowStore(Protocol):
    """Rows by owner and id. Every layer has this interface, and most wrap another one. No list is empty."""

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make all of them durable together, or raise StoreUnavailable. The same owner and id is replaced."""

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows; `ids` holds no id twice. Never raises."""

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Forget the owner's rows, or raise StoreUnavailable. Absent ids are no error."""

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note that the rows were in use at `now` (epoch seconds), or raise StoreUnavailable."""

    async def aclose(self) -> None:
        """End the layer's own tasks and those of the layers below."""


class SqlRows:
    """A RowStore in SQLite or PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect = DIALECTS[database.dialect]
        table = database.tables.artifact
        named = (table.c.user_id == sa.bindparam("owner"), dialect.is_one_of(table.c.id))
        self._id_list = dialect.id_list
        self._upsert = database.replacing(table)
        self._select = sa.select(table).where(*named)
        self._delete = sa.delete(table).where(*named)
        earlier = table.c.last_used < sa.bindparam("now")
        self._touch = sa.update(table).where(*named, earlier).values(last_used=sa.bindparam("now"))

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Write all rows in one transaction, or raise StoreUnavailable."""
        # All workers write in the same order, so that two of them cannot wait for each other.
        values = [row._asdict() for row in sorted(rows, key=lambda row: (row.user_id, row.id))]
        await self._database.run(lambda connection: connection.execute(self._upsert, values))

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows with one query, however many ids there are."""

        async def work(connection: AsyncConnection) -> dict[str, SealedRow]:
            result = await connection.execute(self._select, {"owner": user_id, "ids": self._id_list(ids)})
            return {row.id: row for row in map(SealedRow._make, result)}

        try:
            return FoundRows(await self._database.read(work))
        except StoreError:
            return FoundRows(away=frozenset(ids))

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows in one transaction, or raise StoreUnavailable."""
        named = {"owner": user_id, "ids": self._id_list(ids)}
        await self._database.run(lambda connection: connection.execute(self._delete, named))

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note the use of the rows, or raise StoreUnavailable."""
        named = {"owner": user_id, "ids": self._id_list(ids), "now": now}
        await self._database.run(lambda connection: connection.execute(self._touch, named))

    async def aclose(self) -> None:
        """Close what the database opened itself."""
        await self._database.aclose()


TOUCH_INTERVAL_SECONDS: Final = 24 * 60 * 60

"""`last_used` is only as exact as this, so that a busy chat writes each of its rows once a day at most."""


class LastUsedRows:
    """A RowStore that notes the use of what it loads."""

    def __init__(self, below: RowStore, clock: Callable[[], int]) -> None:
        self._below = below
        self._clock = clock
        self._background = BackgroundTasks()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Pass on."""
        await self._below.put(rows)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows below, and note the use of those that nobody noted for `TOUCH_INTERVAL_SECONDS`."""
        found = await self._below.load(user_id, ids)
        now = self._clock()
        stale = [key for key, row in found.rows.items() if row.last_used <= now - TOUCH_INTERVAL_SECONDS]
        if stale:
            self._background.start(lambda: self._below.touch(user_id, stale, now=now))
        return found

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Pass on."""
        await self._below.delete(user_id, ids)

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Pass on."""
        await self._below.touch(user_id, ids, now=now)

    async def idle(self) -> None:
        """Wait until all uses are noted."""
        await self._background.idle()

    async def aclose(self) -> None:
        """End what runs beside requests, here and below."""
        await self._background.aclose()
        await self._below.aclose()
