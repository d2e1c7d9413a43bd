"""What became of each request's context: written beside the requests in batches, read, and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from ..planning.audit import AuditRow, AuditStep
from ..ports import Audited
from .database import Database, epoch_seconds
from .tasks import BatchWriter


class AuditLog(BatchWriter[Audited]):
    """The audit of one worker, in the database that all workers share."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        super().__init__("audit of contexts", self._insert)
        self._database = database
        self._clock = clock
        self._table = database.tables.audit

    def write(self, record: Audited) -> None:
        """Have the record written soon, beside the request. What cannot be written is logged."""
        self.add(record)

    async def records(self, *, limit: int = 100) -> list[Audited]:
        """List records, the newest first. Raises StoreUnavailable."""
        newest = sa.select(self._table).order_by(self._table.c.id.desc()).limit(limit)
        return [_read_record(row) for row in await self._database.fetch(newest)]

    async def delete_before(self, seconds: int) -> None:
        """Delete the records that were written before a time (epoch seconds). Raises StoreUnavailable."""
        await self._database.change(sa.delete(self._table).where(self._table.c.created < seconds))

    async def _insert(self, records: Sequence[Audited]) -> None:
        now, values = self._clock(), []
        for record in records:
            columns = asdict(record)
            columns |= columns.pop("row")
            values.append(columns | {"pruned": record.row.pruned, "created": now})
        await self._database.change(self._table.insert(), values)


def _read_record(found: sa.Row[Any]) -> Audited:
    own = {field.name: getattr(found, field.name) for field in fields(AuditRow)}
    own["steps"] = tuple(AuditStep(**step) for step in own["steps"])
    return Audited(found.id, found.user_id, found.chat_id, found.message_id, AuditRow(**own))
