"""Work beside requests: batches of rows, and leases for what one worker should do.

A lease ends by itself, so a worker that dies holds nobody up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

import sqlalchemy as sa

from ..errors import StoreError, StoreUnavailable
from .database import Database

MAX_WAITING_VALUES: Final = 1_000

CLOSING_SECONDS: Final = 20.0
"""How long a worker that ends tries to write what is waiting."""

_BATCH_VALUES: Final = 100
_ENDING_STEPS: Final = 100
_PAUSES_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Between attempts while the database is unavailable; the last one again and again."""

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class Leases:
    """The leases of one holder, each until a time. All methods raise StoreUnavailable."""

    def __init__(self, database: Database, *, clock: Callable[[], int] | None = None) -> None:
        """Without a `clock` the database's time is used: a worker whose clock is wrong must not keep a lease."""
        self._database = database
        self._clock = clock
        self._table = database.tables.lease
        self._holders: dict[str, str] = {}
        """By the name of a lease that this holder has: who has it. Each taking has a name of its own."""

    def now(self) -> sa.ColumnElement[int]:
        """Return the time of the leases in epoch seconds, for statements."""
        return sa.literal(self._clock(), sa.BigInteger) if self._clock else self._database.now

    async def take(self, name: str, seconds: float) -> bool:
        """Take the lease unless somebody has it, this holder included; exactly one of many takers gets it."""
        now, holder, lease = self.now(), secrets.token_hex(8), self._table.c
        # its own, where the answer to the COMMIT was lost
        free = (lease.until <= now) | (lease.holder == holder)
        values = {"name": name, "holder": holder, "until": now + math.ceil(seconds)}
        if await self._database.change(self._database.upsert(self._table, where=free).values(values)) != 1:
            return False
        self._holders[name] = holder
        return True

    async def extend(self, name: str, seconds: float) -> bool:
        """Hold the lease until so many seconds from now; False when it is another's by now."""
        until = self.now() + math.ceil(seconds)
        holder = self._holders.get(name, "")
        extending = sa.update(self._table).filter_by(name=name, holder=holder).values(until=until)
        return await self._database.change(extending) == 1

    async def release(self, name: str) -> None:
        """Release the lease, if it is this holder's."""
        if holder := self._holders.pop(name, ""):
            await self._database.change(sa.delete(self._table).filter_by(name=name, holder=holder))


class BatchWriter(Generic[Value]):
    """Hands values to `write` in their order, in batches; `name` says in the log what they are.

    While the database is unavailable they wait, at most `MAX_WAITING_VALUES`, and so long at the end as well that a
    planned stop beside a restart of the database costs nothing. A batch may be written twice, where an answer was lost.
    Whoever owns it awaits `aclose`.
    """

    gathering_seconds = 1.0
    """How long the first value of a batch waits for others."""

    def __init__(self, name: str, write: Callable[[Sequence[Value]], Awaitable[None]]) -> None:
        self._name = name
        self._write_batch = write
        self._waiting: list[Value] = []
        self._is_waiting, self._is_due, self._is_idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_idle.set()
        self._writing: asyncio.Task[None] | None = None
        """From the first value on."""

    def write(self, value: Value, /) -> None:
        """Have the value written soon, beside the request; lost when `MAX_WAITING_VALUES` are waiting already."""
        if len(self._waiting) >= MAX_WAITING_VALUES:
            self.lose([value], "too many are waiting")
            return
        self._waiting.append(value)
        self._is_waiting.set()
        self._is_idle.clear()
        if len(self._waiting) == _BATCH_VALUES:
            self._is_due.set()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())

    def lose(self, values: Sequence[Value], reason: object) -> None:
        """Log values that will not be written."""
        _log.warning("%s: %d not written: %s", self._name, len(values), reason)

    async def idle(self) -> None:
        """Write what is waiting, and wait until it is written."""
        if self._waiting:
            self._is_due.set()
            await self._is_idle.wait()

    async def aclose(self) -> None:
        """Write what is waiting, within `CLOSING_SECONDS`; what is not written by then is lost."""
        if self._writing:
            await asyncio.sleep(0)  # one that has not begun ends at once
            self._writing.cancel()
            await asyncio.wait({self._writing})

    async def _write_all(self) -> None:
        """Write batch after batch; an event loop that ends cancels this task, and still waits for it."""
        pauses_seconds = iter(_PAUSES_SECONDS)
        pause_seconds = self.gathering_seconds
        try:
            while await self._is_waiting.wait():
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_seconds):
                        await self._is_due.wait()
                if await self._write_next():
                    pauses_seconds, pause_seconds = iter(_PAUSES_SECONDS), self.gathering_seconds
                else:
                    pause_seconds = next(pauses_seconds, _PAUSES_SECONDS[-1])
                if len(self._waiting) < _BATCH_VALUES or pause_seconds != self.gathering_seconds:
                    self._is_due.clear()
        except asyncio.CancelledError:
            await self._write_rest()

    async def _write_rest(self) -> None:
        """Write what is waiting, and what others add that the event loop has cancelled too, as far as there is time."""
        try:
            for _ in range(_ENDING_STEPS):
                await asyncio.sleep(0)
            async with asyncio.timeout(CLOSING_SECONDS):
                while self._waiting:
                    if not await self._write_next():
                        await asyncio.sleep(_PAUSES_SECONDS[0])
        except (TimeoutError, asyncio.CancelledError):
            self.lose(self._waiting, "the worker ends")
            self._waiting.clear()
            self._is_idle.set()

    async def _write_next(self) -> bool:
        """Write a batch; return whether the database could be reached."""
        batch = self._waiting[:_BATCH_VALUES]
        try:
            await self._write(batch)
        except StoreUnavailable as error:
            _log.warning("%s: %d are waiting: %s", self._name, len(self._waiting), error)
            return False
        del self._waiting[: len(batch)]
        if not self._waiting:
            self._is_waiting.clear()
            self._is_idle.set()
        return True

    async def _write(self, batch: Sequence[Value]) -> None:
        """Write a batch, or each value by itself when the database refuses one. Raises StoreUnavailable."""
        try:
            await self._write_batch(batch)
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(batch) == 1:
                self.lose(batch, error)
            for value in batch if len(batch) > 1 else ():
                await self._write([value])
        except Exception as error:  # noqa: BLE001 - nobody awaits this task, and the next batch may be fine
            _log.exception("%s: unexpected error", self._name)
            self.lose(batch, type(error).__name__)
