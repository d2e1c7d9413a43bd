"""What became of each request's context, in a table of its own.

Owns the writing (beside the requests, in batches), the reading, and the deletion. It must not decide anything about
a context, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import sqlalchemy as sa

from ..planning.audit import AuditRow, AuditStep
from ..ports import Audited
from .database import Database, epoch_seconds
from .tasks import BatchWriter

METRICS: Final = """\
SELECT
  COUNT(*) FILTER (WHERE purpose = 'answer') AS requests,
  COUNT(*) FILTER (WHERE purpose <> 'answer' AND failure = '') AS context_summary_count,
  COUNT(*) FILTER (WHERE pruned) AS context_prune_count,
  COUNT(*) FILTER (WHERE rejected) AS context_overflow_reject_count,
  AVG(CASE WHEN billed_tokens > 0 THEN billed_tokens ELSE tokens_sent END)
    FILTER (WHERE purpose = 'answer' AND NOT rejected) AS avg_prompt_tokens_per_turn,
  1.0 * SUM(cached_tokens) FILTER (WHERE purpose = 'answer')
    / NULLIF(SUM(billed_tokens) FILTER (WHERE purpose = 'answer'), 0) AS cached_share,
  SUM(cost) FILTER (WHERE purpose = 'answer') AS cost,
  SUM(cost) FILTER (WHERE purpose <> 'answer') AS summary_cost
FROM openrouter_pipe_audit
"""
"""The metrics of all requests, on SQLite and PostgreSQL alike; NULL where there is nothing to add up."""


class AuditLog:
    """The audit of one worker, in the database that all workers share."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._table = database.tables.audit
        self._writer = BatchWriter("audit of contexts", self._insert)

    def write(self, record: Audited) -> None:
        """Have the record written soon, beside the request. What cannot be written is logged."""
        self._writer.add(record)

    async def records(self, *, limit: int = 100) -> list[Audited]:
        """List records, the newest first. Raises StoreUnavailable."""
        newest = sa.select(self._table).order_by(self._table.c.id.desc()).limit(limit)
        return [_read_record(row) for row in await self._database.fetch(newest)]

    async def metrics(self) -> Mapping[str, float]:
        """Return what the query `METRICS` says of all requests, 0 for NULL. Raises StoreUnavailable."""
        query = METRICS.replace(self._table.name, self._database.quoted_name(self._table))
        [row] = await self._database.fetch(sa.text(query))
        return {name: float(value or 0) for name, value in row._mapping.items()}  # noqa: SLF001 - public

    async def delete_before(self, seconds: int) -> None:
        """Delete the records that were written before a time (epoch seconds). Raises StoreUnavailable."""
        await self._database.change(sa.delete(self._table).where(self._table.c.created < seconds))

    async def idle(self) -> None:
        """Wait until all records are written."""
        await self._writer.idle()

    async def aclose(self) -> None:
        """Let what is under way end."""
        await self._writer.aclose()

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
