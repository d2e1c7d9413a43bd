"""Work beside requests: background tasks, values written in batches, and leases for what one worker should do.

Owns the tasks until they end, and the table of leases. Work may be dropped when too much of it is under way; values
that are not written are logged. A lease ends by itself, so a worker that dies holds nobody up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import sqlalchemy as sa

from ..errors import StoreError
from .database import Database, epoch_seconds

MAX_TASKS: Final = 64
MAX_WAITING_VALUES: Final = 1_000

_BATCH_VALUES: Final = 100
_CLOSING_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


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


class BatchWriter(BackgroundTasks, Generic[Value]):
    """Hands values to `write` in their order, in batches; `name` says in the log what they are."""

    def __init__(self, name: str, write: Callable[[Sequence[Value]], Awaitable[None]]) -> None:
        super().__init__()
        self._name = name
        self._write_batch = write
        self._waiting: list[Value] = []

    def add(self, value: Value) -> None:
        """Have the value written soon; refused when `MAX_WAITING_VALUES` are waiting already."""
        if len(self._waiting) >= MAX_WAITING_VALUES:
            _log.warning("%s: not written, too many are waiting", self._name)
            return
        self._waiting.append(value)
        if len(self._waiting) == 1:
            self.start(self._write_all)

    async def aclose(self) -> None:
        """Close as above; what is not written by then is logged."""
        await super().aclose()
        if self._waiting:
            _log.warning("%s: %d not written before the end", self._name, len(self._waiting))

    async def _write_all(self) -> None:
        while batch := self._waiting[:_BATCH_VALUES]:
            try:
                await self._write_batch(batch)
            except StoreError as error:
                _log.warning("%s: %d not written: %s", self._name, len(batch), error)
            except Exception:  # noqa: BLE001 - nobody awaits this task, and the next batch may be fine
                _log.exception("%s: %d not written", self._name, len(batch))
            del self._waiting[: len(batch)]


class Leases:
    """The leases of one holder, each until a time. All methods raise StoreUnavailable."""

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
        extending = sa.update(self._table).filter_by(name=name, holder=self._holder).values(until=until)
        return await self._database.change(extending) == 1

    async def release(self, name: str) -> None:
        """Release the lease, if it is this holder's."""
        await self._database.change(sa.delete(self._table).filter_by(name=name, holder=self._holder))

    async def delete_ended(self) -> None:
        """Delete the leases that have ended."""
        await self._database.change(sa.delete(self._table).where(self._table.c.until <= self._clock()))
