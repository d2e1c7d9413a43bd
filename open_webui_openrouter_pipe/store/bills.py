"""Bills: a row of the audit for each request, the sums of these rows, and what is held under limits.

A bill is written beside its request, in one transaction with the sums. A row that is there already adds nothing, so
whatever is written again counts once; where that row is an estimate and the bill is none, the bill replaces it.

Before a request begins that is under a limit, the most that it may cost is held, in one transaction with the look at
what was spent: the rows of its accounts are locked in their order, so that of many requests of many workers each sees
what the others hold. A hold has the id of its bill, and an estimate of it. It is renewed as long as its request runs;
one that runs out has lost its worker, and whoever finds it writes the estimate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError
from ..money.audit import AUDIT_COLUMNS, Bill, ChatSpending, bill_json, read_bill, sound_bill
from ..money.limits import (
    DAY_QUARTERS,
    QUARTER_SECONDS,
    USER,
    AccountLimit,
    AccountSums,
    first_quarter,
    may_begin,
    period_start,
)
from .beside import BatchWriter
from .database import Database, epoch_seconds

HOLD_SECONDS: Final = 2 * 60
"""How long a hold lasts, by the database's time, unless its worker renews it."""
RENEWING_SECONDS: Final = 40.0

_USAGE_KEY: Final = itemgetter("account", "quarter", "model", "failure")
_CHAT_KEY: Final = itemgetter("user_id", "chat_id")
CHAT_SUMS: Final = tuple(field.name for field in fields(ChatSpending))
_SUMS: Final = tuple(field.name for field in fields(AccountSums))

_log = logging.getLogger(__name__)


class BillWriter(BatchWriter[Bill]):
    """Writes the bills of one worker, and holds what its requests may cost; its owner awaits `aclose`."""

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        """`clock` gives the time of bills in epoch seconds."""
        super().__init__("bills", self.enter)
        self._database = database
        self._clock = clock
        self._tables = tables = database.tables
        self._held: set[str] = set()
        """Of requests that run, or whose bill waits."""
        self._renewing: asyncio.Task[None] | None = None
        insert = database.insert(tables.audit).on_conflict_do_nothing(index_elements=["id"])
        self._add_rows = insert.returning(tables.audit.c.id)
        self._add_to_chat = database.prepared_upsert(tables.ledger, CHAT_SUMS)
        self._add_to_account = database.prepared_upsert(tables.usage, CHAT_SUMS)
        self._ended = tables.hold.c.until <= database.now
        self._until = database.now + HOLD_SECONDS
        self._add_holds = sa.insert(tables.hold).values(until=self._until)
        self._of_ids = database.among_ids(tables.hold.c.id)
        self._spent = self._sums_query()

    def write(self, bill: Bill, /) -> None:
        """Have a bill written beside its request."""
        super().write(sound_bill(bill if bill.created else replace(bill, created=self._clock())))

    def release(self, bill: Bill) -> None:
        """End what was held for a request that is not sent; its row keeps a hold that comes later from counting."""
        self._held.add(bill.id)
        nothing = Bill(id=bill.id, purpose="failure", failure="not_sent", requests=0)
        self.write(replace(nothing, user_id=bill.user_id, accounts=bill.accounts))

    def lose(self, values: Sequence[Bill], reason: object) -> None:
        """Log bills with all that is needed to enter them later."""
        self._held.difference_update(bill.id for bill in values)
        for bill in values:
            _log.error("bill not written, %s: %s", reason, bill_json(bill))

    async def aclose(self) -> None:
        """Write what is waiting; what is held for a request that has no bill by then runs out."""
        if self._renewing:
            self._renewing.cancel()
        await super().aclose()

    async def enter(self, bills: Sequence[Bill]) -> None:
        """Write bills in one transaction, each once, however often. Raises StoreError."""
        chosen = dict[str, Bill]()
        for bill in bills:
            if bill.id not in chosen or (chosen[bill.id].estimated and not bill.estimated):
                chosen[bill.id] = bill
        ended = sorted(chosen.keys() & self._held)

        async def work(connection: AsyncConnection) -> None:
            if ended:
                await connection.execute(sa.delete(self._tables.hold).where(self._of_ids), {"ids": ended})
            await self._enter(connection, chosen)

        await self._database.run(work)
        self._held.difference_update(ended)

    async def lacking(self, bills: Sequence[Bill]) -> list[Bill]:
        """Return those of the bills that would change anything. Raises StoreError."""
        audit, ids = self._tables.audit.c, {"ids": [bill.id for bill in bills]}
        query = sa.select(audit.id, audit.estimated).where(self._database.among_ids(audit.id))
        known = {row.id: row.estimated for row in await self._database.fetch(query, ids)}
        new = [each for each in bills if each.id not in known or known[each.id] > each.estimated]
        return [*{bill.id: bill for bill in new}.values()]

    async def hold(self, bill: Bill, amount: float, under: Sequence[AccountLimit]) -> bool:
        """Hold the most that a request may cost, if it may begin under these limits.

        `bill` is what it is estimated to cost if its worker dies. Raises StoreError.
        """
        accounts = sorted({each.account for each in under})
        estimate = bill_json(replace(bill, created=bill.created or self._clock(), estimated=True))
        spent, hold = self._sums_values(accounts, under[0].zone if under else UTC, bill.id), self._tables.hold
        of_locks = {"quarter": 0, "model": "", "failure": "", **dict.fromkeys(CHAT_SUMS, 0)}
        locks = [{"account": account, **of_locks} for account in accounts]
        held = {"id": bill.id, "amount": amount, "estimate": estimate}
        holds = [held | {"account": account} for account in accounts]

        async def work(connection: AsyncConnection) -> bool | None:
            # writing a row locks it, and the rows are in the same order in all workers
            await connection.execute(self._add_to_account, locks)
            if (await connection.execute(sa.select(hold.c.id).where(self._ended).limit(1))).first():
                return None
            found = await connection.execute(self._spent, spent)
            begins = may_begin(under, _read_sums(found.all()))
            # one that is there already is from an attempt whose answer was lost
            await connection.execute(sa.delete(hold).where(hold.c.id == bill.id))
            if begins:
                await connection.execute(self._add_holds, holds)
            return begins

        while (begins := await self._database.run(work)) is None:
            await self.settle()
        if begins:
            self._held.add(bill.id)
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(self._renew())
        return begins

    async def settle(self) -> None:
        """Write the estimates of holds that have run out. Raises StoreError."""
        hold = self._tables.hold
        ending = sa.delete(hold).where(self._ended).returning(hold.c.estimate)

        async def work(connection: AsyncConnection) -> None:
            found = map(read_bill, (await connection.execute(ending)).scalars().all())
            if bills := {bill.id: bill for bill in found if bill}:
                await self._enter(connection, bills)

        await self._database.run(work)

    async def sums(self, accounts: Sequence[str], zone: tzinfo = UTC) -> Mapping[str, AccountSums]:
        """Return what accounts have spent in a zone's day and month, and what is held. Raises StoreError."""
        return _read_sums(await self._database.read(self._spent, self._sums_values(accounts, zone)))

    async def _renew(self) -> None:
        """Renew what is held, and settle what has run out, as long as anybody holds anything."""
        hold, left = self._tables.hold, True
        while left or self._held:
            await asyncio.sleep(RENEWING_SECONDS)
            try:
                if held := sorted(self._held):
                    renewal = sa.update(hold).where(self._of_ids).values(until=self._until)
                    await self._database.change(renewal, {"ids": held})
                await self.settle()
                left = bool(await self._database.fetch(sa.select(hold.c.id).limit(1)))
            except StoreError as error:
                _log.warning("what is held is not renewed: %s", error)

    async def _enter(self, connection: AsyncConnection, bills: Mapping[str, Bill]) -> None:
        """Write rows by their ids, and add them to the sums, in the order in which all workers lock rows."""
        audit, lacking = self._tables.audit, self._database.lacking
        rows = {key: _row(bill, lacking) for key, bill in sorted(bills.items())}
        written = {*(await connection.execute(self._add_rows, [*rows.values()])).scalars()}
        added = [(bill, 1) for key, bill in bills.items() if key in written]
        is_told = "estimated" not in lacking  # else rows stay as they are
        late = [key for key in rows if is_told and key not in written and not bills[key].estimated]
        if late:
            known = [column for column in audit.c if column.name not in lacking]
            query = sa.select(*known).where(self._database.among_ids(audit.c.id), audit.c.estimated)
            found = await connection.execute(query.with_for_update(), {"ids": late})
            for row in found.mappings().all():
                bill, columns = bills[row["id"]], {**row}
                columns.pop("pruned", None)
                await connection.execute(sa.update(audit).where(audit.c.id == bill.id).values(rows[bill.id]))
                added += [(Bill(**columns, accounts=bill.accounts), -1), (bill, 1)]
        await self._add(connection, [(bill, times) for bill, times in added if bill.requests])

    async def _add(self, connection: AsyncConnection, bills: Iterable[tuple[Bill, int]]) -> None:
        """Add bills to the sums so many times."""
        usage, chats, now = list[dict[str, Any]](), list[dict[str, Any]](), self._clock()
        for bill, times in bills:
            sums = {name: times * getattr(bill, name) for name in CHAT_SUMS}
            key = {
                "quarter": bill.created // QUARTER_SECONDS,
                "failure": bill.failure if bill.purpose == "failure" else "",
            }
            for account in bill.accounts:
                # limits go by no model, and only users are reported by it
                model = bill.model if account.startswith(USER) else ""
                usage.append({"account": account, "model": model, **key, **sums})
            if bill.user_id:
                of_chat = {"user_id": bill.user_id, "chat_id": bill.chat_id}
                chats.append({**of_chat, "last_used": now, **sums})
        usage.sort(key=_USAGE_KEY)
        chats.sort(key=_CHAT_KEY)
        for statement, rows in ((self._add_to_account, usage), (self._add_to_chat, chats)):
            if rows:
                await connection.execute(statement, rows)

    def _sums_query(self) -> sa.Select[Any]:
        """Return the query for what accounts have spent today and this month, and what is held.

        `_sums_values` has its parameters. What is held for the request `own` does not count.
        """
        hold, none = self._tables.hold.c, sa.literal(0.0, sa.Double)

        def spent(table: sa.Table, time: sa.ColumnElement[int]) -> sa.Select[Any]:
            # added up before they are joined with others: a busy month has thousands of rows
            is_today, of_month = (
                time >= sa.bindparam(f"{period}_{time.name}") for period in ("day", "month")
            )
            paid = table.c.cost, table.c.provider_cost
            own_today, provider_today = (sa.case((is_today, each), else_=none) for each in paid)
            columns = own_today, paid[0], none, provider_today, paid[1]
            sums = (sa.func.sum(each).label(name) for each, name in zip(columns, _SUMS, strict=True))
            of_accounts = self._database.among_ids(table.c.account)
            return sa.select(table.c.account, *sums).where(of_accounts, of_month).group_by(table.c.account)

        held = sa.select(hold.account, none, none, hold.amount, none, none)
        running = hold.until > self._database.now, hold.id != sa.bindparam("own")
        both = sa.union_all(
            spent(self._tables.usage, self._tables.usage.c.quarter),
            spent(self._tables.spending, self._tables.spending.c.day),
            held.where(self._database.among_ids(hold.account), *running),
        ).subquery()
        sums = (sa.func.sum(both.c[name]) for name in _SUMS)
        return sa.select(both.c.account, *sums).group_by(both.c.account)

    def _sums_values(self, accounts: Sequence[str], zone: tzinfo, own: str = "") -> dict[str, Any]:
        now, values = self._clock(), dict[str, Any](ids=list(accounts), own=own)
        for period in ("day", "month"):
            first = first_quarter(period_start(period, now, zone), zone)
            values |= {f"{period}_quarter": first, f"{period}_day": -(-first // DAY_QUARTERS)}
        return values


def _row(bill: Bill, lacking: Collection[str]) -> dict[str, Any]:
    columns = {column.name: getattr(bill, column.name) for column in AUDIT_COLUMNS}
    columns |= {"steps": [*map(asdict, bill.steps)], "pruned": bill.pruned}
    return {name: value for name, value in columns.items() if name not in lacking}


def _read_sums(found: Sequence[sa.Row[Any]]) -> Mapping[str, AccountSums]:
    return {account: AccountSums(*map(float, sums)) for account, *sums in found}
