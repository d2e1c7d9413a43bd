"""The ledger: what requests have cost, by chat and by account, in the database that all workers share.

Bills are written beside the requests, in batches. Before a request begins that is under a limit, the most that it may
cost is held, in one transaction with the look at what was spent: the rows of its accounts are locked in their order, so
that of many requests of many workers each sees what the others hold. The bill takes the place of the hold. A hold ends
by itself, for workers that die.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, timedelta, tzinfo
from operator import attrgetter, itemgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError, StoreUnavailable
from ..money.audit import REPORTED_SUMS, Bill, ChatSpending, UsageRow
from ..money.limits import (
    DAY_QUARTERS,
    EPOCH,
    QUARTER_SECONDS,
    USER,
    AccountLimit,
    AccountSums,
    clock_changes,
    first_quarter,
    may_begin,
    period_start,
)
from .beside import BatchWriter
from .database import Database, epoch_seconds

HOLD_SECONDS: Final = 60 * 60
"""Longer than any answer takes."""

MAX_REPORTED_ROWS: Final = 1_000
"""Of a user, a model and a day each, the dearest ones; a page is stored with its chat."""

_USAGE_KEY: Final = itemgetter("account", "model", "failure")
_CHAT_SUMS: Final = tuple(field.name for field in fields(ChatSpending))
_SUMS: Final = tuple(field.name for field in fields(AccountSums))

_log = logging.getLogger(__name__)


class SpendingLedger(BatchWriter[Bill]):
    """The ledger of one worker; its owner awaits `aclose`."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        """`clock` gives the time of bills in epoch seconds."""
        super().__init__("ledger of what requests cost", self._insert)
        self._database = database
        self._clock = clock
        tables = database.tables
        self._ledger, self._usage, self._hold = tables.ledger, tables.usage, tables.hold
        self._spending = tables.spending
        self._add_to_chat = database.upsert(self._ledger, adding=_CHAT_SUMS)
        self._add_to_account = database.upsert(self._usage, adding=_CHAT_SUMS)
        self._end_hold = sa.delete(self._hold).where(
            self._hold.c.account == sa.bindparam("of_account"), self._hold.c.id == sa.bindparam("of_hold")
        )

    def release(self, hold: str, accounts: Sequence[str]) -> None:
        """End what was held for a request that costs nothing."""
        if hold:
            self.write(Bill(accounts=tuple(accounts), requests=0, hold=hold))

    async def of_chat(self, user_id: str, chat_id: str) -> ChatSpending:
        """Return what a user's chat has cost so far; nothing for one without an id. Raises StoreError."""
        columns = [self._ledger.c[name] for name in _CHAT_SUMS]
        query = sa.select(*columns).filter_by(user_id=user_id, chat_id=chat_id)
        rows = await self._database.read(query) if chat_id else ()
        return ChatSpending(*rows[0]) if rows else ChatSpending()

    async def sums(self, accounts: Sequence[str], zone: tzinfo = UTC) -> Mapping[str, AccountSums]:
        """Return what accounts have spent in a zone's day and month, and what is held. Raises StoreError."""
        return _sums(await self._database.read(self._query(zone), {"ids": list(accounts)}))

    async def usage(self, days: tuple[date, date], zone: tzinfo, account: str) -> Sequence[UsageRow]:
        """Add up all from one day to another in a time zone, of one user's account or, for "", of all users'.

        The database adds up by all columns, and that once more by each of them; of the rows by all columns it returns
        the dearest. Raises StoreError.
        """
        month = days[1].replace(day=1)
        begin, end = min(days[0], month), days[1] + timedelta(days=1)
        first, last = first_quarter(begin, zone), first_quarter(end, zone)
        usage, ahead, *changes = self._usage.c, *clock_changes(first, last, zone)
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

    async def hold(self, hold: str, amount: float, under: Sequence[AccountLimit]) -> bool:
        """Hold the most that a request may cost, if it may begin under these limits. Raises StoreError."""
        accounts = sorted({each.account for each in under})
        query = self._query(under[0].zone if under else UTC)
        of_locks = {"quarter": 0, "model": "", "failure": "", **dict.fromkeys(_CHAT_SUMS, 0)}
        locks = [{"account": account, **of_locks} for account in accounts]
        row = {"id": hold, "amount": amount, "until": self._clock() + HOLD_SECONDS}

        async def work(connection: AsyncConnection) -> bool:
            # writing a row locks it, and the rows are in the same order in all workers
            await connection.execute(self._add_to_account, locks)
            sums = _sums((await connection.execute(query, {"ids": accounts})).all())
            if may_begin(under, sums):
                holds = [{**row, "account": account} for account in accounts]
                await connection.execute(self._hold.insert(), holds)
                return True
            return False

        return await self._database.run(work)

    async def _insert(self, bills: Sequence[Bill]) -> None:
        """Write bills in one transaction, in the order in which all workers lock rows."""
        now = self._clock()
        chats = [
            {
                "user_id": bill.user_id,
                "chat_id": bill.chat_id,
                "last_used": now,
                **{name: getattr(bill, name) for name in _CHAT_SUMS},
            }
            for bill in sorted(bills, key=attrgetter("user_id", "chat_id"))
            if bill.requests and bill.user_id
        ]
        by_account = sorted([(account, at) for at, bill in enumerate(bills) for account in bill.accounts])
        usage = [
            {
                "account": account,
                "quarter": now // QUARTER_SECONDS,
                # limits go by no model, and only users are reported by it
                "model": bills[at].model if account.startswith(USER) else "",
                "failure": bills[at].failure if bills[at].purpose == "answer" else "",
                **{name: getattr(bills[at], name) for name in _CHAT_SUMS},
            }
            for account, at in by_account
            if bills[at].requests
        ]
        usage.sort(key=_USAGE_KEY)
        holds = [
            {"of_account": account, "of_hold": bills[at].hold} for account, at in by_account if bills[at].hold
        ]

        async def work(connection: AsyncConnection) -> None:
            for statement, rows in (
                (self._add_to_account, usage),
                (self._end_hold, holds),
                (self._add_to_chat, chats),
            ):
                if rows:
                    await connection.execute(statement, rows)

        try:
            await self._database.run(work)
        except StoreError as error:
            if len(bills) == 1 or isinstance(error, StoreUnavailable):
                _log_lost(bills)
            raise

    def _query(self, zone: tzinfo) -> sa.Select[Any]:
        """Return the query for what accounts (`ids`) have spent today and this month, and what is held."""
        now, hold = self._clock(), self._hold.c
        today, month = (first_quarter(period_start(period, now, zone), zone) for period in ("day", "month"))
        none = sa.literal(0.0, sa.Double)

        def spent(table: sa.Table, time: sa.ColumnElement[int], quarters: int) -> sa.Select[Any]:
            # added up before they are joined with others: a busy month has thousands of rows
            day, since = (-(-first // quarters) for first in (today, month))
            paid = table.c.cost, table.c.provider_cost
            own_today, provider_today = (sa.case((time >= day, each), else_=none) for each in paid)
            columns = own_today, paid[0], none, provider_today, paid[1]
            sums = (sa.func.sum(each).label(name) for each, name in zip(columns, _SUMS, strict=True))
            of_month = self._database.among_ids(table.c.account), time >= since
            return sa.select(table.c.account, *sums).where(*of_month).group_by(table.c.account)

        held = sa.select(hold.account, none, none, hold.amount, none, none)
        both = sa.union_all(
            spent(self._usage, self._usage.c.quarter, 1),
            spent(self._spending, self._spending.c.day, DAY_QUARTERS),
            held.where(self._database.among_ids(hold.account), hold.until > now),
        ).subquery()
        sums = (sa.func.sum(both.c[name]) for name in _SUMS)
        return sa.select(both.c.account, *sums).group_by(both.c.account)


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


def _sums(found: Sequence[sa.Row[Any]]) -> Mapping[str, AccountSums]:
    return {account: AccountSums(*map(float, sums)) for account, *sums in found}


def _log_lost(bills: Sequence[Bill]) -> None:
    """Log what the database does not have, so that it can be added by hand."""
    for bill in bills:
        if bill.requests:
            _log.warning(
                "bill not written: $%.6f and, at a provider, $%.6f of user %s in chat %s",
                bill.cost,
                bill.provider_cost,
                bill.user_id,
                bill.chat_id or "none",
            )
