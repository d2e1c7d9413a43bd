"""The ledger: what requests have cost, by chat and by account, in the database that all workers share.

Bills are written beside the requests, in batches. Before a request begins that is under a limit, the most that it may
cost is held, in one transaction with the look at what was spent: the rows of its accounts are locked in their order, so
that of many requests of many workers each sees what the others hold. The bill takes the place of the hold. A hold ends
by itself, for workers that die.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError, StoreUnavailable
from ..money.audit import Bill, ChatSpending
from ..money.limits import AccountLimit, AccountSums, day_number, may_begin, month_start
from .beside import BatchWriter
from .database import Database, epoch_seconds

HOLD_SECONDS: Final = 60 * 60
"""Longer than any answer takes."""

_COSTS: Final = ("cost", "provider_cost")
"""What is added up for each account, and counts against limits."""
_CHAT_SUMS: Final = tuple(field.name for field in fields(ChatSpending))

_log = logging.getLogger(__name__)


class SpendingLedger(BatchWriter[Bill]):
    """The ledger of one worker; its owner awaits `aclose`."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        """`clock` gives the time of bills in epoch seconds."""
        super().__init__("ledger of what requests cost", self._insert)
        self._database = database
        self._clock = clock
        tables = database.tables
        self._ledger, self._spending, self._hold = tables.ledger, tables.spending, tables.hold
        self._add_to_chat = database.upsert(self._ledger, adding=_CHAT_SUMS)
        self._add_to_account = database.upsert(self._spending, adding=_COSTS)
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

    async def sums(self, accounts: Sequence[str]) -> Mapping[str, AccountSums]:
        """Return what accounts have spent today and this month, and what is held. Raises StoreError."""
        return _sums(await self._database.read(self._query(), {"ids": list(accounts)}))

    async def hold(self, hold: str, amount: float, under: Sequence[AccountLimit]) -> bool:
        """Hold the most that a request may cost, if it may begin under these limits. Raises StoreError."""
        accounts = sorted({each.account for each in under})
        now, query = self._clock(), self._query()
        nothing = [
            {"account": account, "day": day_number(now), **dict.fromkeys(_COSTS, 0.0)} for account in accounts
        ]
        row = {"id": hold, "amount": amount, "until": now + HOLD_SECONDS}

        async def work(connection: AsyncConnection) -> bool:
            # writing a row locks it, and the rows are in the same order in all workers
            await connection.execute(self._add_to_account, nothing)
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
        costs = [
            {
                "account": account,
                "day": day_number(now),
                **{name: getattr(bills[at], name) for name in _COSTS},
            }
            for account, at in by_account
            if bills[at].cost or bills[at].provider_cost
        ]
        holds = [
            {"of_account": account, "of_hold": bills[at].hold} for account, at in by_account if bills[at].hold
        ]

        async def work(connection: AsyncConnection) -> None:
            for statement, rows in (
                (self._add_to_account, costs),
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

    def _query(self) -> sa.Select[Any]:
        """Return the query for what accounts (`ids`) have spent today and this month, and what is held."""
        now, spending, hold = self._clock(), self._spending.c, self._hold.c
        none = sa.literal(0.0, sa.Double)
        is_today, by_provider = spending.day == day_number(now), spending.provider_cost
        columns = {
            "day": sa.case((is_today, spending.cost), else_=none),
            "month": spending.cost,
            "held": none,
            "provider_day": sa.case((is_today, by_provider), else_=none),
            "provider_month": by_provider,
        }
        spent = sa.select(spending.account, *(column.label(name) for name, column in columns.items()))
        held = sa.select(hold.account, none, none, hold.amount, none, none)
        both = sa.union_all(
            spent.where(self._database.among_ids(spending.account), spending.day >= month_start(now)),
            held.where(self._database.among_ids(hold.account), hold.until > now),
        ).subquery()
        sums = (sa.func.sum(both.c[name]) for name in columns)
        return sa.select(both.c.account, *sums).group_by(both.c.account)


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
