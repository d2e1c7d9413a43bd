"""The ledger: what requests have cost, by chat and by account, in the database that all workers share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Final

import sqlalchemy as sa

from ..money.audit import REPORTED_SUMS, ChatSpending, UsageRow
from ..money.limits import DAY_QUARTERS, EPOCH, QUARTER_SECONDS, USER, clock_changes, first_quarter
from .bills import CHAT_SUMS, BillWriter

MAX_REPORTED_ROWS: Final = 1_000
"""Of a user, a model and a day each, the dearest ones; a page is stored with its chat."""


class SpendingLedger(BillWriter):
    """The ledger of one worker: writes bills, and reads what they add up to."""

    async def of_chat(self, user_id: str, chat_id: str) -> ChatSpending:
        """Return what a user's chat has cost so far; nothing for one without an id. Raises StoreError."""
        columns = [self._tables.ledger.c[name] for name in CHAT_SUMS]
        query = sa.select(*columns).filter_by(user_id=user_id, chat_id=chat_id)
        rows = await self._database.read(query) if chat_id else ()
        return ChatSpending(*rows[0]) if rows else ChatSpending()

    async def breaks(self, user_id: str, chat_id: str, *, limit: int) -> list[tuple[str, str, float]]:
        """List position, cause and price (dollars) of a chat's unannounced breaks, newest first. Raises StoreError."""
        table = self._tables.audit
        columns = (table.c.break_position, table.c.break_cause, table.c.lost_cost)
        query = (
            sa.select(*columns).filter_by(user_id=user_id, chat_id=chat_id).where(table.c.break_cause != "")
        )
        found = await self._database.read(query.order_by(table.c.id.desc()).limit(limit)) if chat_id else ()
        return [(row.break_position, row.break_cause, row.lost_cost) for row in found]

    async def costs(self, user_id: str, chat_id: str, zone: tzinfo) -> list[tuple[date, str, ChatSpending]]:
        """List what a chat's models have cost by the days of a zone, the latest first, without the host's tasks.

        Raises StoreError.
        """
        audit = self._tables.audit.c
        quarter = audit.created // QUARTER_SECONDS
        sums = (sa.func.sum(column) for column in (audit.cost, audit.provider_cost))
        query = (
            sa.select(quarter, audit.model, sa.func.count(), *sums)
            .filter_by(user_id=user_id, chat_id=chat_id)
            .where(audit.cost + audit.provider_cost > 0, audit.purpose != "task")
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

    async def usage(self, days: tuple[date, date], zone: tzinfo, account: str) -> Sequence[UsageRow]:
        """Add up all from one day to another in a time zone, of one user's account or, for "", of all users'.

        The database adds up by all columns, and that once more by each of them; of the rows by all columns it returns
        the dearest. Raises StoreError.
        """
        month = days[1].replace(day=1)
        begin, end = min(days[0], month), days[1] + timedelta(days=1)
        first, last = first_quarter(begin, zone), first_quarter(end, zone)
        usage, ahead, *changes = self._tables.usage.c, *clock_changes(first, last, zone)
        local = usage.quarter + ahead[1]
        if changes:
            later = [(usage.quarter >= quarter, usage.quarter + by) for quarter, by in reversed(changes)]
            local = sa.case(*later, else_=local)
        columns = (
            (local // DAY_QUARTERS).label("day"),
            usage.account,
            usage.model,
            usage.failure,
        )
        beginning = sa.func.substr(usage.account, 1, len(USER))
        of_users = usage.account == account if account else beginning == USER
        # PostgreSQL is slow in adding up whole numbers
        sums = (sa.func.sum(sa.cast(usage[name], sa.Double)).label(name) for name in REPORTED_SUMS)
        whole = (
            sa.select(*columns, *sums)
            .where(usage.quarter >= first, usage.quarter < last, of_users)
            .group_by(*columns)
            .cte("whole")
        )
        numbers = [(day - EPOCH).days for day in (begin, *days, month)]
        found = await self._database.fetch(_report(whole, usage, *numbers))
        return await asyncio.to_thread(lambda: [*map(UsageRow._make, found)])


def _report(
    whole: sa.CTE, types: Any, begin: int, first: int, last: int, month: int
) -> sa.CompoundSelect[Any]:
    """Return the query for the rows of a report: the dearest of those by all columns, and sums by each.

    They have what was spent from the day `begin` on, of which the report begins with `first`.
    """
    columns, none, names = whole.c, sa.literal(0.0, sa.Double), ("day", "account", "model", "failure")
    answered, nothing = columns.failure == "", {"day": sa.literal(0, sa.BigInteger)}

    def since(day: int, name: str) -> sa.ColumnElement[Any]:
        return columns[name] if day == begin else sa.case((columns.day >= day, columns[name]), else_=none)

    def typed(value: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[Any]:
        return sa.cast(value, types[name].type).label(name)

    def added(by: str, which: sa.ColumnElement[bool]) -> sa.Select[Any]:
        key = [columns[name] if name == by else nothing.get(name, sa.literal("")) for name in names]
        sums = [typed(sa.func.sum(since(first, name)), name) for name in REPORTED_SUMS]
        of_limits: list[sa.ColumnElement[Any]] = [none] * 4
        if by == "account":
            paid = ("cost", "provider_cost")
            of_limits = [sa.func.sum(since(day, name)) for name in paid for day in (last, month)]
        return sa.select(sa.literal(by), *key, *sums, *of_limits).where(which).group_by(columns[by])

    parts = [added(by, answered) for by in names[:3]]
    own = [columns[name] for name in names] + [typed(columns[name], name) for name in REPORTED_SUMS]
    rows = sa.select(sa.literal("row").label("by"), *own, *(none.label(f"none_{at}") for at in range(4)))
    dearest = rows.where(answered, columns.day >= first)
    dearest = dearest.order_by(sa.desc(columns.cost + columns.provider_cost)).limit(MAX_REPORTED_ROWS)
    return sa.union_all(*parts, added("failure", ~answered), sa.select(dearest.subquery()))
