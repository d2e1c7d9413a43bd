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
        self._add_to_chat = database.insert_or_add(self._ledger, _CHAT_SUMS)
        self._add_to_account = database.insert_or_add(self._spending, ("cost",))
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
        used, held, values = self._queries(accounts)
        return _sums(await self._database.read(used, values), await self._database.read(held, values))

    async def hold(self, hold: str, amount: float, under: Sequence[AccountLimit]) -> bool:
        """Hold the most that a request may cost, if it may begin under these limits. Raises StoreError."""
        accounts = sorted({each.account for each in under})
        used, held, values = self._queries(accounts)
        now = self._clock()
        row = {"id": hold, "amount": amount, "until": now + HOLD_SECONDS}

        async def work(connection: AsyncConnection) -> bool:
            # writing a row locks it, and the rows are in the same order in all workers
            await connection.execute(
                self._add_to_account,
                [{"account": account, "day": day_number(now), "cost": 0.0} for account in accounts],
            )
            sums = _sums(
                (await connection.execute(used, values)).all(),
                (await connection.execute(held, values)).all(),
            )
            if not may_begin(under, sums):
                return False
            await connection.execute(
                self._hold.insert(), [{**row, "account": account} for account in accounts]
            )
            return True

        return await self._database.run(work)

    async def _insert(self, bills: Sequence[Bill]) -> None:
        """Write bills in one transaction, each row once and in the same order as all workers do."""
        now = self._clock()
        chats: dict[tuple[str, str], dict[str, Any]] = {}
        accounts: dict[str, float] = {}
        for bill in bills:
            if bill.requests and bill.user_id:
                chat = chats.setdefault((bill.user_id, bill.chat_id), dict.fromkeys(_CHAT_SUMS, 0))
                for name in _CHAT_SUMS:
                    chat[name] += getattr(bill, name)
            for account in bill.accounts if bill.cost else ():
                accounts[account] = accounts.get(account, 0.0) + bill.cost
        chat_rows = [
            {"user_id": user_id, "chat_id": chat_id, "last_used": now, **chats[user_id, chat_id]}
            for user_id, chat_id in sorted(chats)
        ]
        account_rows = [
            {"account": account, "day": day_number(now), "cost": accounts[account]}
            for account in sorted(accounts)
        ]
        holds = [
            {"of_account": account, "of_hold": bill.hold}
            for bill in bills
            if bill.hold
            for account in sorted(bill.accounts)
        ]

        async def work(connection: AsyncConnection) -> None:
            for statement, rows in (
                (self._add_to_account, account_rows),
                (self._end_hold, holds),
                (self._add_to_chat, chat_rows),
            ):
                if rows:
                    await connection.execute(statement, rows)

        try:
            await self._database.run(work)
        except StoreError as error:
            if len(bills) == 1 or isinstance(error, StoreUnavailable):
                _log_lost(bills)
            raise

    def _queries(self, accounts: Sequence[str]) -> tuple[sa.Select[Any], sa.Select[Any], Mapping[str, Any]]:
        """Return the queries for what accounts have spent and hold, and their values."""
        now, spending, hold = self._clock(), self._spending, self._hold
        today = sa.func.sum(sa.case((spending.c.day == day_number(now), spending.c.cost), else_=0.0))
        used = (
            sa.select(spending.c.account, today, sa.func.sum(spending.c.cost))
            .where(self._database.among_ids(spending.c.account), spending.c.day >= month_start(now))
            .group_by(spending.c.account)
        )
        held = (
            sa.select(hold.c.account, sa.func.sum(hold.c.amount))
            .where(self._database.among_ids(hold.c.account), hold.c.until > now)
            .group_by(hold.c.account)
        )
        return used, held, {"ids": list(accounts)}


def _log_lost(bills: Sequence[Bill]) -> None:
    """Log what the database does not have, so that it can be added by hand."""
    for bill in bills:
        if bill.requests:
            _log.warning(
                "bill not written: $%.6f of user %s in chat %s",
                bill.cost,
                bill.user_id,
                bill.chat_id or "none",
            )


def _sums(used: Sequence[sa.Row[Any]], held: Sequence[sa.Row[Any]]) -> Mapping[str, AccountSums]:
    holds = {account: float(amount) for account, amount in held}
    spending = {account: (float(day), float(month)) for account, day, month in used}
    return {
        account: AccountSums(*spending.get(account, (0.0, 0.0)), holds.get(account, 0.0))
        for account in {*holds, *spending}
    }
