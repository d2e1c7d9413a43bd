"""What became of each request's context, in a table of its own.

Owns the writing (beside the requests, in batches), the listing, the figures over many rows, and forgetting. It
must not decide anything about a context, and nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..planning.audit import AuditRow, Metrics
from ..ports import Audited
from .artifacts import epoch_seconds
from .database import Database
from .tasks import BatchWriter


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records: those written since `since` (epoch seconds) that match all that is named."""

    since: int = 0
    user_id: str | None = None
    chat_id: str | None = None
    model: str | None = None


EVERYTHING = AuditFilter()


class AuditLog:
    """The audit of one worker, in the database that all workers share."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._table = database.tables.audit
        self._deferred = BatchWriter("audit of contexts", self._insert)

    def write(self, record: Audited) -> None:
        """Have the record written soon, beside the request. What cannot be written is told in the log."""
        self._deferred.add(record)

    async def records(self, chosen: AuditFilter = EVERYTHING, *, limit: int = 100) -> list[Audited]:
        """List records, the newest first. Raises StoreUnavailable."""
        table = self._table
        newest = sa.select(table).where(*self._conditions(chosen)).order_by(table.c.id.desc()).limit(limit)

        async def work(connection: AsyncConnection) -> list[Audited]:
            return [_record(row._mapping) for row in await connection.execute(newest)]  # noqa: SLF001 - its public name

        return await self._database.read(work)

    async def metrics(self, chosen: AuditFilter = EVERYTHING) -> Metrics:
        """The figures of the chosen requests, all zero for none. Raises StoreUnavailable."""
        query = figures(self._table).where(*self._conditions(chosen))

        async def work(connection: AsyncConnection) -> sa.Row[Any]:
            return (await connection.execute(query)).one()

        row = await self._database.read(work)
        sent = row.requests - row.context_overflow_reject_count
        return Metrics(
            requests=row.requests,
            summary_count=row.context_summary_count,
            prune_count=row.context_prune_count,
            overflow_reject_count=row.context_overflow_reject_count,
            avg_prompt_tokens=float(row.prompt_tokens) / max(1, sent),
            cached_share=float(row.cached_tokens) / max(1, int(row.billed_tokens)),
            cost=float(row.cost),
            summary_cost=float(row.summary_cost),
        )

    async def forget(self, before: int) -> None:
        """Delete the records that were written before a moment (epoch seconds). Raises StoreUnavailable."""
        old = sa.delete(self._table).where(self._table.c.created < before)
        await self._database.run(lambda connection: connection.execute(old))

    async def idle(self) -> None:
        """Wait until all records are written."""
        await self._deferred.idle()

    async def aclose(self) -> None:
        """Let what is under way end."""
        await self._deferred.aclose()

    async def _insert(self, records: Sequence[Audited]) -> None:
        now = self._clock()
        values = [_values(record) | {"created": now} for record in records]
        await self._database.run(lambda connection: connection.execute(self._table.insert(), values))

    def _conditions(self, chosen: AuditFilter) -> Iterable[sa.ColumnElement[bool]]:
        columns = self._table.c
        yield columns.created >= chosen.since
        for name in ("user_id", "chat_id", "model"):
            if (wanted := getattr(chosen, name)) is not None:
                yield columns[name] == wanted


def figures(table: sa.Table) -> sa.Select[Any]:
    """The sums that the metrics are made of; `context.audit.metrics` says what each of them means."""
    row = table.c
    answer = row.purpose == "answer"
    summary = row.purpose != "answer"
    sent = sa.and_(answer, sa.not_(row.overflow_rejected))
    pruned = sa.or_(row.retention_triggered, row.prune_triggered, row.landing_triggered)
    prompt = sa.case((row.billed_tokens > 0, row.billed_tokens), else_=row.tokens_after_landing)
    return sa.select(
        _sum_where(answer, 1, "requests"),
        _sum_where(sa.and_(summary, row.failure == ""), 1, "context_summary_count"),
        _sum_where(sa.and_(answer, pruned), 1, "context_prune_count"),
        _sum_where(sa.and_(answer, row.overflow_rejected), 1, "context_overflow_reject_count"),
        _sum_where(sent, prompt, "prompt_tokens"),
        _sum_where(sent, row.billed_tokens, "billed_tokens"),
        _sum_where(sent, row.cached_tokens, "cached_tokens"),
        _sum_where(sent, row.cost, "cost"),
        _sum_where(summary, row.cost, "summary_cost"),
    ).select_from(table)


def _sum_where(condition: sa.ColumnElement[bool], value: Any, name: str) -> sa.Label[Any]:
    return sa.func.coalesce(sa.func.sum(sa.case((condition, value), else_=0)), 0).label(name)


def _values(record: Audited) -> dict[str, Any]:
    """The columns of a record, all but the time of writing."""
    own = {"user_id": record.user_id, "chat_id": record.chat_id, "message_id": record.message_id}
    return {"id": record.id, **own, **asdict(record.row)}


def _record(row: Any) -> Audited:
    figures_ = AuditRow(**{each.name: row[each.name] for each in fields(AuditRow)})
    return Audited(row["id"], row["user_id"], row["chat_id"], row["message_id"], figures_)
