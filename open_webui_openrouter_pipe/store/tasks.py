"""Work beside requests: background tasks, and leases for what one worker should do.

Owns the tasks until they end, and the table of leases. Work may be dropped when too much of it is under way. A lease
ends by itself, so a worker that dies holds nobody up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import sqlalchemy as sa

from ..errors import StoreError
from .database import Database

MAX_TASKS: Final = 64

_CLOSING_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """A few tasks beside requests; whoever owns the object awaits `aclose`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do the work beside the request, or not at all when `MAX_TASKS` are under way."""
        if len(self._tasks) < MAX_TASKS:
            task = asyncio.create_task(_run_quietly(work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until all that was started has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Let what is under way end within a few seconds, then cancel it: a driver may lose a connection by that."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def _run_quietly(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except StoreError as error:
        _log.debug("work beside a request failed: %s", error)


class Leases:
    """The leases of one holder, each until a time. All methods raise StoreUnavailable."""

    def __init__(self, database: Database, *, clock: Callable[[], int] | None = None) -> None:
        """Without a `clock` the database's time is used: a worker whose clock is wrong must not keep a lease."""
        self._database = database
        self._clock = clock
        self._table = database.tables.lease
        self._holder = secrets.token_hex(8)

    def now(self) -> sa.ColumnElement[int]:
        """Return the time of the leases in epoch seconds, for statements."""
        return sa.literal(self._clock(), sa.BigInteger) if self._clock else self._database.now

    async def take(self, name: str, seconds: float) -> bool:
        """Take the lease unless somebody has it, this holder included; exactly one of many takers gets it."""
        now = self.now()
        taking = self._database.insert_or_replace(self._table, self._table.c.until <= now)
        values = {"name": name, "holder": self._holder, "until": now + math.ceil(seconds)}
        return await self._database.change(taking.values(values)) == 1

    async def extend(self, name: str, seconds: float) -> bool:
        """Hold the lease until so many seconds from now; False when it is another's by now."""
        until = self.now() + math.ceil(seconds)
        extending = sa.update(self._table).filter_by(name=name, holder=self._holder).values(until=until)
        return await self._database.change(extending) == 1

    async def release(self, name: str) -> None:
        """Release the lease, if it is this holder's."""
        await self._database.change(sa.delete(self._table).filter_by(name=name, holder=self._holder))

    async def delete_ended(self) -> None:
        """Delete the leases that have ended."""
        await self._database.change(sa.delete(self._table).where(self._table.c.until <= self.now()))
