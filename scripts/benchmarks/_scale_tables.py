"""The subjects of `scale` that are rows of a database, SQLite's or PostgreSQL's.

Each fills its tables up to a size, and measures what works on them there. Owns what is measured, and no figures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import sqlalchemy as sa

from open_webui_openrouter_pipe.context.spending import spending_page, spending_text
from open_webui_openrouter_pipe.maintenance.host_tables import HostTables
from open_webui_openrouter_pipe.maintenance.removal import forget, remove
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import (
    DAY_QUARTERS,
    QUARTER_SECONDS,
    Group,
    Person,
    accounts_of,
    limits_of,
    read_limits,
)
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.schema import SealedRow
from open_webui_openrouter_pipe.store.sweep import GRACE_SECONDS, Schedule, Sweep
from open_webui_openrouter_pipe.store.table import SqlRows
from open_webui_openrouter_pipe.turn.bill import SpendingServices
from open_webui_openrouter_pipe.turn.commands import SpendingReader
from open_webui_openrouter_pipe.turn.late_bills import LateBills

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from open_webui_openrouter_pipe.store.database import Database
    from open_webui_openrouter_pipe.turn.fit import PlannerServices
    from scripts.benchmarks.scale import Stages

NOW: Final = 1_795_867_200
_LOOKED_UP: Final = 200
"""Markers of a long chat."""
_OWNERS: Final = 1_000
_OF_A_CHAT: Final = 10
_DELETED_CHATS: Final = 20
_FULL_CHATS: Final = 10
"""Of so many chats one is read whole by a removal: a page of messages each takes too long for all of them."""
_ROWS_OF_A_USER: Final = 60


class _Tables:
    """Tables that are filled further; the rows are made by the database, from numbers."""

    def __init__(self, database: Database) -> None:
        self._database, self._rows, self._gone = database, 0, 0
        is_lite = database.dialect == "sqlite"
        self._padded = "printf('%020d', {})" if is_lite else "lpad(({})::text, 20, '0')"
        self._bytes = "zeroblob(120)" if is_lite else "decode(repeat('ab', 120), 'hex')"

    async def insert(self, table: str, columns: str, values: str, rows: range) -> None:
        """Insert a row for each number `k`, and let the database look at its tables."""
        counting = f"SELECT {rows.start} UNION ALL SELECT k + 1 FROM n WHERE k < {rows.stop - 1}"  # noqa: S608
        numbers = f"WITH RECURSIVE n(k) AS ({counting})"
        # a statement of the database has a time limit
        async with self._database._engine.begin() as connection:  # noqa: SLF001
            statement = f"INSERT INTO {table} ({columns}) {numbers} SELECT {values} FROM n"  # noqa: S608
            await connection.execute(sa.text(statement))
        async with self._database._engine.connect() as connection:  # noqa: SLF001
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("ANALYZE")


class _Host:
    """A host in which all users and all chats exist but these."""

    def __init__(self, deleted: AbstractSet[str]) -> None:
        self._deleted = deleted

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        return {*user_ids}

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        return {*chat_ids} - self._deleted

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - a Protocol's
        return {}


class artifacts(_Tables):  # noqa: N801 - the name of a subject
    """Artifacts, ten in a chat, a thousand users; the ledger and the host's table have each chat."""

    async def fill(self, size: int) -> None:
        """Make them so many."""
        database = self._database
        await database.fetch(sa.select(database.tables.lease))  # creates the tables
        if not self._rows:
            await database.change(sa.text("CREATE TABLE chat (id TEXT PRIMARY KEY, user_id TEXT, chat TEXT)"))
            await database.change(sa.text("CREATE TABLE function (id TEXT PRIMARY KEY, valves TEXT)"))
        rows, chats = range(self._rows, size), range(self._rows // _OF_A_CHAT, size // _OF_A_CHAT)
        chat, mark = f"'c' || (k / {_OF_A_CHAT})", self._padded.format("k")
        user = f"'u' || (k / {_OF_A_CHAT} % {_OWNERS})"
        columns = ", ".join(SealedRow._fields)
        values = (
            f"{user}, {mark}, {chat}, 'm' || k, 'reasoning', 'a/b', 'key', 0, {self._bytes}, {NOW}, {NOW}"
        )
        await self.insert("openrouter_pipe_artifact", columns, values, rows)
        owner = f"'u' || (k % {_OWNERS})"
        sums = ", ".join(["1"] * 9)
        names = "requests, input_tokens, cached_tokens, output_tokens, cost, input_cost, read_cost, saved"
        ledger = f"user_id, chat_id, {names}, provider_cost, last_used"
        await self.insert("openrouter_pipe_ledger", ledger, f"{owner}, 'c' || k, {sums}, {NOW}", chats)
        said = self._padded.format(f"k * {_OF_A_CHAT}")
        marked = f"CASE WHEN k % {_FULL_CHATS} = 0 THEN '[' || {said} || ']: #\\n\\nYes.' ELSE 'No.' END"
        message = '{"history": {"messages": {"1": {"role": "assistant", "model": "x.y", "content": "'
        text = f"'{message}' || {marked} || '\"}}}}}}}}'"
        await self.insert("chat", "id, user_id, chat", f"'c' || k, {owner}, {text}", chats)
        self._rows = size

    async def measure(self, stage: Stages) -> None:
        """Look up, keep, sweep, count and remove, at this size."""
        database, chat = self._database, self._rows // _OF_A_CHAT // 2
        artifact = database.tables.artifact
        rows = SqlRows(database, clock=lambda: NOW)
        owner = f"u{chat % _OWNERS}"
        ids = [f"{at:020d}" for at in range(chat * _OF_A_CHAT, chat * _OF_A_CHAT + _LOOKED_UP)]
        with stage("find 200 markers, 10 of them theirs"):
            found = await rows.find(owner, ids)
        assert len(found) == _OF_A_CHAT, len(found)
        kept = [found[0]._replace(id=f"x{at:019d}", chat_id="other") for at in range(_OF_A_CHAT)]
        with stage("keep 10"):
            await rows.put(kept)
        await rows.delete(owner, [each.id for each in kept])
        with stage("what a chat has cost"):
            await SpendingLedger(database, clock=lambda: NOW).of_chat(owner, f"c{chat}")
        tables = HostTables(database._engine, None, writes=False)  # noqa: SLF001
        await tables.open()
        with stage("count what a chat would lose"):
            assert sum((await forget(tables, "chat", f"c{chat}")).values()) == _OF_A_CHAT + 1
        with stage("count all by key"):
            count = sa.select(artifact.c.key_id, sa.func.count()).group_by(artifact.c.key_id)
            await database.fetch(count)
        await self._sweep("sweep, nothing to do", set(), stage)
        gone = {f"c{at}" for at in range(self._gone, self._gone + _DELETED_CHATS)}
        self._gone += _DELETED_CHATS
        await self._sweep("sweep, 20 chats are deleted", gone, stage)
        if stage.lacks(name := "report of a removal"):
            with stage(name):
                removed = await remove(tables, {"openrouter"}, redis=None, files=())
            assert removed["chats with our marks in them"] > self._rows // _OF_A_CHAT // _FULL_CHATS // 2

    async def _sweep(self, name: str, gone: AbstractSet[str], stage: Stages) -> None:
        database = self._database
        later = NOW + GRACE_SECONDS + 1
        schedule = Schedule(keep_days=90, interval_seconds=0, pause_seconds=0)
        await database.change(sa.delete(database.tables.lease))
        with stage(name):
            assert await Sweep(database, _Host(gone), schedule, clock=lambda: later).run()


class users(_Tables):  # noqa: N801 - the name of a subject
    """Users of groups of twenty, each with a month of spending and a request that runs."""

    async def fill(self, size: int) -> None:
        """Make them so many."""
        database = self._database
        await database.fetch(sa.select(database.tables.lease))  # creates the tables
        if not self._rows:
            everybody = f"'all', {NOW // QUARTER_SECONDS} - k, '', '', 1, 9, 0, 9, 0.01, 0, 0, 0, 0"
            await self.insert("openrouter_pipe_usage", self._usage(), everybody, range(30 * DAY_QUARTERS))
        first = NOW // QUARTER_SECONDS - _ROWS_OF_A_USER
        values = f"'user:u' || (k / {_ROWS_OF_A_USER}), {first} + k % {_ROWS_OF_A_USER}, 'a/b' || (k % 5), ''"
        values += ", 1, 9, 0, 9, 0.01, 0, 0, 0, 0"
        rows = range(self._rows * _ROWS_OF_A_USER, size * _ROWS_OF_A_USER)
        await self.insert("openrouter_pipe_usage", self._usage(), values, rows)
        for account in ("'user:u' || k", "'all'"):
            held = f"{account}, 'running-' || k, 0.01, 4000000000, ''"
            columns = 'account, id, amount, "until", estimate'
            await self.insert("openrouter_pipe_hold", columns, held, range(self._rows, size))
        self._rows = size

    async def measure(self, stage: Stages) -> None:
        """Ask whether each may begin, write what each has cost, and report on all."""
        database, count = self._database, self._rows
        limits = read_limits("user: 5/day 90/month; group Group 1: 50/month; all: 500000/month")
        groups = [(Group(f"g{at // 20}", f"Group {at // 20}"),) for at in range(count)]
        people = {f"u{at}": Person(f"User {at}", groups=groups[at]) for at in range(count)}
        ledger = SpendingLedger(database, clock=lambda: NOW)
        under = {
            user_id: limits_of(user_id, person.groups, limits, is_admin=False)
            for user_id, person in people.items()
        }
        asking = [*people][:: max(1, count // 100)][:100]
        bills = [
            Bill(id=f"b-{count}-{at}", user_id=at, chat_id="c", model="a/b0", cost=0.01,
                 accounts=accounts_of(at, people[at].groups, limits))
            for at in asking
        ]  # fmt: skip
        with stage("100 ask whether they may begin"):
            for bill in bills:
                assert await ledger.hold(bill, 0.01, under[bill.user_id])
        with stage("100 bills, which end what is held"):
            await ledger.enter(bills)
        hold = database.tables.hold
        await database.change(sa.delete(hold).where(hold.c.id.startswith("b-")))
        await database.change(sa.delete(database.tables.audit))
        with stage("the sums of all accounts"):
            await ledger.sums([*(f"user:{user_id}" for user_id in people), "all"])

        async def everybody() -> Mapping[str, Person]:
            return people

        class _Planner:
            class memory:  # noqa: N801
                clock = staticmethod(lambda: float(NOW))

        planner, late = cast("PlannerServices", _Planner()), LateBills(asyncio.ensure_future)
        services = SpendingServices(ledger, planner, lambda _: everybody(), late)  # type: ignore[arg-type,return-value]
        with stage("an administrator's report"):
            reader = SpendingReader(services, limits, everybody, "root", is_admin=True)
            report = await reader.read("30")
        with stage("its page"):
            spending_page(report)
            spending_text(report)
        await ledger.aclose()

    def _usage(self) -> str:
        sums = "requests, input_tokens, cached_tokens, output_tokens, cost, input_cost, read_cost, saved"
        return f"account, quarter, model, failure, {sums}, provider_cost"
