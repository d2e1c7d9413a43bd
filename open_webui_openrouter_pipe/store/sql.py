"""Rows in a database. Owns the queries of requests; the sweep's own queries are in `sweep`."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError
from .database import Database
from .dialects import DIALECTS
from .rows import FoundRows, SealedRow


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
