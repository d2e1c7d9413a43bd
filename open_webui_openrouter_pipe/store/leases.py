"""Who may do what only one worker should do: leases in the database, each until a time.

A lease ends by itself, so a worker that dies holds nobody up. Owns the table of leases; it knows nothing of the
work that they are for.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import sqlalchemy as sa

from .artifacts import epoch_seconds
from .database import Database


class Leases:
    """The leases of one holder. All methods raise StoreError when the database is away."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._table = database.tables.lease
        self._holder = secrets.token_hex(8)
        self._taking = database.replacing(self._table, self._table.c.until <= sa.bindparam("now"))

    async def take(self, name: str, seconds: float) -> bool:
        """Take the lease unless somebody has it, this holder included; exactly one of many takers gets it."""
        now = self._clock()
        values = {"name": name, "holder": self._holder, "until": now + math.ceil(seconds), "now": now}
        return await self._database.change(self._taking, values) == 1

    async def hold(self, name: str, seconds: float) -> bool:
        """Hold the lease until so many seconds from now; False when it is no longer this holder's."""
        longer = sa.update(self._table).where(*self._mine(name))
        return await self._database.change(longer.values(until=self._clock() + math.ceil(seconds))) == 1

    async def release(self, name: str) -> None:
        """Give the lease back, if it is this holder's."""
        await self._database.change(sa.delete(self._table).where(*self._mine(name)))

    async def forget_ended(self) -> None:
        """Delete the leases that nobody has any more."""
        await self._database.change(sa.delete(self._table).where(self._table.c.until <= self._clock()))

    def _mine(self, name: str) -> tuple[sa.ColumnElement[bool], ...]:
        return self._table.c.name == name, self._table.c.holder == self._holder
