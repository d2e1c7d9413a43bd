"""Who may do what only one worker should do: leases in the database, each until a time.

A lease ends by itself, so a worker that dies holds nobody up. Owns the table of leases; it knows nothing of the
work that they are for.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import sqlalchemy as sa

from .database import Database, epoch_seconds


class Leases:
    """The leases of one holder. All methods raise StoreUnavailable."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._table = database.tables.lease
        self._holder = secrets.token_hex(8)
        self._insert = database.insert_or_replace(self._table, self._table.c.until <= sa.bindparam("now"))

    async def take(self, name: str, seconds: float) -> bool:
        """Take the lease unless somebody has it, this holder included; exactly one of many takers gets it."""
        now = self._clock()
        values = {"name": name, "holder": self._holder, "until": now + math.ceil(seconds), "now": now}
        return await self._database.change(self._insert, values) == 1

    async def extend(self, name: str, seconds: float) -> bool:
        """Hold the lease until so many seconds from now; False when it is another's by now."""
        until = self._clock() + math.ceil(seconds)
        return (
            await self._database.change(sa.update(self._table).where(*self._own(name)).values(until=until))
            == 1
        )

    async def release(self, name: str) -> None:
        """Release the lease, if it is this holder's."""
        await self._database.change(sa.delete(self._table).where(*self._own(name)))

    async def delete_ended(self) -> None:
        """Delete the leases that have ended."""
        await self._database.change(sa.delete(self._table).where(self._table.c.until <= self._clock()))

    def _own(self, name: str) -> tuple[sa.ColumnElement[bool], ...]:
        return self._table.c.name == name, self._table.c.holder == self._holder
