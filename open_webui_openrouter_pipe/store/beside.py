"""Work beside requests: batches of rows, leases for what one worker should do, audit, calibrations.

Values are dropped when too many are waiting. A lease ends by itself, so a worker that dies holds nobody up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import date, datetime, tzinfo
from typing import Final, Generic, TypeVar

import sqlalchemy as sa

from ..conversation.budget import Calibration
from ..conversation.tokens import TokenCounts
from ..errors import StoreError, StoreUnavailable
from ..money.audit import AUDIT_COLUMNS, Bill, ChatSpending
from ..money.limits import QUARTER_SECONDS
from .database import Database, epoch_seconds

MAX_WAITING_VALUES: Final = 1_000

_BATCH_VALUES: Final = 100
_CLOSING_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


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
        taking = self._database.upsert(self._table, where=self._table.c.until <= now)
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


class BatchWriter(Generic[Value]):
    """Hands values to `write` in their order, in batches; `name` says in the log what they are.

    Whoever owns it awaits `aclose`.
    """

    gathering_seconds = 1.0
    """How long the first value of a batch waits for others."""

    def __init__(self, name: str, write: Callable[[Sequence[Value]], Awaitable[None]]) -> None:
        self._name = name
        self._write_batch = write
        self._waiting: list[Value] = []
        self._is_due = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def write(self, value: Value, /) -> None:
        """Have the value written soon, beside the request; refused when `MAX_WAITING_VALUES` are waiting already."""
        if len(self._waiting) >= MAX_WAITING_VALUES:
            _log.warning("%s: not written, too many are waiting", self._name)
            return
        self._waiting.append(value)
        if len(self._waiting) == 1:
            self._is_due.clear()
            self._writing = asyncio.create_task(self._write_all())
        elif len(self._waiting) == _BATCH_VALUES:
            self._is_due.set()

    async def idle(self, seconds: float | None = None) -> None:
        """Write what is waiting, and wait until it is written, or for so many seconds."""
        self._is_due.set()
        if self._writing:
            await asyncio.wait({self._writing}, timeout=seconds)

    async def aclose(self) -> None:
        """Write what is waiting within a few seconds; what is not written by then is logged."""
        await self.idle(_CLOSING_SECONDS)
        if self._waiting and self._writing:
            self._writing.cancel()
            await self.idle()
            _log.warning("%s: %d not written before the end", self._name, len(self._waiting))

    async def _write_all(self) -> None:
        """Write batch after batch. An event loop that ends cancels this task, and still waits for its batch."""
        while self._waiting:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.gathering_seconds):
                        await self._is_due.wait()
            finally:
                batch = self._waiting[:_BATCH_VALUES]
                await self._write(batch)
                del self._waiting[: len(batch)]
            if len(self._waiting) < _BATCH_VALUES:
                self._is_due.clear()

    async def _write(self, batch: Sequence[Value]) -> None:
        """Write a batch, or each value by itself when the database refuses one of them."""
        try:
            await self._write_batch(batch)
        except StoreError as error:
            if len(batch) > 1 and not isinstance(error, StoreUnavailable):
                for value in batch:
                    await self._write([value])
            else:
                _log.warning("%s: %d not written: %s", self._name, len(batch), error)
        except Exception:  # noqa: BLE001 - nobody awaits this task, and the next batch may be fine
            _log.exception("%s: %d not written", self._name, len(batch))


class AuditLog(BatchWriter[Bill]):
    """The audit of one worker, in the database that all workers share."""

    def __init__(self, database: Database) -> None:
        super().__init__("audit of contexts", self._insert)
        self._database = database
        self._table = database.tables.audit

    async def breaks(self, user_id: str, chat_id: str, *, limit: int) -> list[tuple[str, str, float]]:
        """List position, cause and price (dollars) of a chat's unannounced breaks, newest first. Raises StoreError."""
        table = self._table
        columns = (table.c.break_position, table.c.break_cause, table.c.lost_cost)
        query = (
            sa.select(*columns).filter_by(user_id=user_id, chat_id=chat_id).where(table.c.break_cause != "")
        )
        found = await self._database.read(query.order_by(table.c.id.desc()).limit(limit)) if chat_id else ()
        return [(row.break_position, row.break_cause, row.lost_cost) for row in found]

    async def costs(self, user_id: str, chat_id: str, zone: tzinfo) -> list[tuple[date, str, ChatSpending]]:
        """List what a chat's models have cost by the days of a zone, the latest first. Raises StoreError."""
        audit = self._table.c
        quarter = audit.created // QUARTER_SECONDS
        sums = (sa.func.sum(column) for column in (audit.cost, audit.provider_cost))
        query = (
            sa.select(quarter, audit.model, sa.func.count(), *sums)
            .filter_by(user_id=user_id, chat_id=chat_id)
            .where(audit.cost + audit.provider_cost > 0)
            .group_by(quarter, audit.model)
        )
        days = dict[tuple[date, str], ChatSpending]()
        for at, model, count, cost, provider in await self._database.read(query):
            key = datetime.fromtimestamp(at * QUARTER_SECONDS, zone).date(), model
            so_far = days.get(key) or ChatSpending()
            days[key] = replace(
                so_far,
                requests=so_far.requests + count,
                cost=so_far.cost + cost,
                provider_cost=so_far.provider_cost + provider,
            )
        return [(*key, days[key]) for key in sorted(days, reverse=True)]

    async def _insert(self, bills: Sequence[Bill]) -> None:
        now, values = epoch_seconds(), []
        for bill in bills:
            row = asdict(bill)
            columns = {column.name: row[column.name] for column in AUDIT_COLUMNS}
            values.append(columns | {"pruned": bill.pruned, "created": bill.created or now})
        await self._database.change(self._table.insert(), values)


class StoredCalibrations(BatchWriter[str]):
    """The calibrations of one worker: in memory for the requests, in the database for the next start.

    Each worker learns by itself, and begins with what any of them wrote last.
    """

    def __init__(self, database: Database) -> None:
        super().__init__("calibration of counts", self._save)
        self._database = database
        self._table = database.tables.calibration
        self._upsert = database.prepared_upsert(self._table)
        self._known: dict[str, Calibration] = {}

    async def find(self, model_id: str) -> Calibration | None:
        """Return what the bills so far have taught, None when there was none yet; asks the database once per model."""
        if model_id not in self._known:
            query = sa.select(self._table.c.state).where(self._table.c.model == model_id)
            try:
                found = await self._database.read(query)
                stored = Calibration.from_json(found[0].state) if found else Calibration()
            except Exception as error:  # noqa: BLE001 - no answer is to fail for want of its calibration
                # What little is learned meanwhile must not replace what is stored: the model stays unknown.
                _log.warning("the calibration of %s could not be read: %s", model_id, error)
                return None
            self._known.setdefault(model_id, stored)
        known = self._known[model_id]
        return None if known == Calibration() else known

    def learn(self, model_id: str, counts: TokenCounts, billed_tokens: int) -> None:
        """Learn from what was billed for a request with these counts; before `find` has succeeded, nothing."""
        if (before := self._known.get(model_id)) is None:
            return
        after = self._known[model_id] = before.observed(counts, billed_tokens)
        if after is not before:
            self.write(model_id)

    async def _save(self, model_ids: Sequence[str]) -> None:
        now = epoch_seconds()
        # In the same order in all workers, so that two of them cannot wait for each other.
        values = [
            {"model": model_id, "state": self._known[model_id].as_json(), "updated": now}
            for model_id in sorted(set(model_ids))
        ]
        await self._database.change(self._upsert, values)
