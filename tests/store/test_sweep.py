"""The sweep: what goes, what stays, what moves, and one worker at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.beside import Leases
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS, GRACE_SECONDS, Schedule, Sweep
from scripts.paths import ROOT
from tests.store.contract import NOW, Clock, row, sql_rows, statements_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from open_webui_openrouter_pipe.store.schema import SealedRow

pytestmark = pytest.mark.anyio

GENTLE = Schedule(keep_days=90, interval_seconds=3600, batch_rows=3, page_values=2, pause_seconds=0)
AGED = NOW - GRACE_SECONDS - 1
FRESH = NOW - GRACE_SECONDS + 1


@dataclass
class FakeHost:
    """What a host knows: its users, its chats, and which chat of a user names which artifact."""

    users: set[str] = field(default_factory=lambda: {"ada"})
    chats: set[str] = field(default_factory=lambda: {"chat-1"})
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        self.asked += user_ids
        return self.users & set(user_ids)

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        self.asked += chat_ids
        return self.chats & set(chat_ids)

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        return {key: self.names[user_id, key] for key in ids if (user_id, key) in self.names}


def swept_tables(database: Database) -> dict[str, sa.Table]:
    """The tables whose rows belong to a user and a chat."""
    tables = database.tables
    return {name: getattr(tables, name) for name in ("artifact", "summary", "audit", "ledger", "prompt")}


async def write(
    database: Database, table: sa.Table, mark: str, user_id: str, chat_id: str, used: int
) -> None:
    """Write a row of any table; `mark` is in its key, and in each text that is not the owner's or the chat's."""
    zero: dict[type[Any], Any] = {
        str: mark,
        int: 0,
        float: 0.0,
        bool: False,
        bytes: b"x",
        dict: {},
        object: {},
    }
    values = {column.name: zero[column.type.python_type] for column in table.c}
    values |= {name: used for name in ("last_used", "created") if name in values}
    await database.change(sa.insert(table), {**values, "user_id": user_id, "chat_id": chat_id})


async def left(database: Database, table: sa.Table) -> list[tuple[str, str]]:
    """Owner and chat of all rows of the table."""
    chosen = sa.select(table.c.user_id, table.c.chat_id)
    return sorted((user_id, chat_id) for user_id, chat_id in await database.fetch(chosen))


async def rows_left(database: Database) -> list[tuple[str, str, str]]:
    """Owner, id and chat of all artifacts."""
    table = database.tables.artifact
    chosen = sa.select(table.c.user_id, table.c.id, table.c.chat_id)
    return sorted(map(tuple, await database.fetch(chosen)))


def names(*rows: SealedRow) -> list[tuple[str, str, str]]:
    """The same of these rows."""
    return sorted((each.user_id, each.id, each.chat_id) for each in rows)


async def sweep(database: Database, host: FakeHost, *, now: int = NOW) -> bool:
    """One sweep at this time."""
    return await Sweep(database, host, GENTLE, clock=lambda: now).run()


@pytest.mark.parametrize("name", ["artifact", "summary", "audit", "ledger", "prompt"])
async def test_what_nobody_needs_is_deleted(database: Database, name: str) -> None:
    """In batches, of each table, what is unused for long, of deleted users and chats; not what was in use recently."""
    table, host = swept_tables(database)[name], FakeHost(chats={"chat-1", "other"})
    deleted = [
        *(("ada", f"chat-{number}", NOW - 90 * DAY_SECONDS - 1) for number in range(4)),
        *(("eve", f"chat-{number}", AGED) for number in range(2)),
        *(("eve", "other", AGED) for _ in range(4)),
        *(("ada", f"deleted-{number}", AGED) for number in range(2)),
        *(("ada", "deleted", AGED) for _ in range(7)),
    ]
    kept = [
        ("ada", "", AGED),
        ("ada", "other", NOW - 90 * DAY_SECONDS + 1),
        ("ada", "used", FRESH),
        ("eve", "used", FRESH),
    ]
    if name == "ledger":  # which has one row a chat
        deleted = list(dict.fromkeys(deleted))
    for number, (user_id, chat_id, used) in enumerate([*deleted, *kept]):
        await write(database, table, f"{number:02d}", user_id, chat_id, used)
    assert await sweep(database, host)
    assert await left(database, table) == [(user_id, chat_id) for user_id, chat_id, _ in kept]


async def test_rows_may_be_kept_for_ever(database: Database) -> None:
    """Zero days mean no limit; a chat that does not exist and yet names a row cannot keep it."""
    await sql_rows(database).put([row(1, now=1), row(2, chat_id="deleted", now=1)])
    host = FakeHost(names={("ada", row(2).id): "deleted"})
    assert await Sweep(database, host, Schedule(keep_days=0, pause_seconds=0), clock=lambda: NOW).run()
    assert await rows_left(database) == names(row(1))


async def test_rows_that_a_copy_names_move_to_the_copy(database: Database) -> None:
    """A clone of the same owner keeps its artifacts when the original chat is deleted, and takes them along."""
    rows = [row(number, chat_id="original", now=AGED) for number in range(8)]
    hers = row(1, chat_id="original", user_id="eve", now=AGED)
    named = {("ada", rows[0].id): "clone", ("ada", rows[7].id): "fork", ("eve", hers.id): "fork"}
    host = FakeHost(users={"ada", "eve"}, chats={"clone", "fork"}, names=named)
    await sql_rows(database).put([*rows, hers])
    await sweep(database, host)
    in_fork = [each._replace(chat_id="fork") for each in (rows[7], hers)]
    assert await rows_left(database) == names(rows[0]._replace(chat_id="clone"), *in_fork)
    host.chats, host.names = {"fork"}, {}
    await sweep(database, host, now=NOW + 3601)
    assert await rows_left(database) == names(*in_fork)


@pytest.mark.servers
@pytest.mark.parametrize("reason", ["unused", "of_deleted_users", "of_deleted_chats"])
async def test_a_row_that_is_used_meanwhile_stays(postgres_database: Database, reason: str) -> None:
    """A stamp that another transaction writes while the sweep waits for the row keeps the row."""
    table = postgres_database.tables.artifact
    now = NOW - 91 * DAY_SECONDS if reason == "unused" else AGED
    await sql_rows(postgres_database).put([row(1, now=now)])
    host = FakeHost()
    if reason != "unused":
        (host.users if reason == "of_deleted_users" else host.chats).clear()
    sweeping: asyncio.Task[bool]

    async def use_while_it_sweeps(connection: AsyncConnection) -> None:
        nonlocal sweeping
        await connection.execute(sa.update(table).values(last_used=NOW))
        sweeping = asyncio.create_task(sweep(postgres_database, host))
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while not (await postgres_database.fetch(waiting))[0][0]:  # noqa: ASYNC110 - locks set no event
            await asyncio.sleep(0.01)

    await postgres_database.run(use_while_it_sweeps)
    assert await sweeping
    assert await rows_left(postgres_database) == names(row(1))


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_databases_clock_is_the_time(
    database: Database, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """An hour either way decides, on both databases, also for a worker whose clock is wrong; so for the lease."""
    now = int(time.time())
    await sql_rows(database).put([row(1, now=now - 90 * DAY_SECONDS + hours * 3600)])
    monkeypatch.setattr("time.time", lambda: now + 100 * DAY_SECONDS)
    assert [await Sweep(database, FakeHost(), GENTLE).run() for _ in range(2)] == [True, False]
    assert len(await rows_left(database)) == int(hours > 0)
    [(until,)] = await database.fetch(sa.select(database.tables.lease.c.until))
    assert now + GENTLE.interval_seconds <= until < now + DAY_SECONDS


async def test_each_owner_and_chat_is_asked_for_once(database: Database) -> None:
    """Distinct values are found by jumping, in pages, each exactly once."""
    users = [f"user-{number:04d}" for number in range(450)]
    await sql_rows(database).put([row(each, user_id=user, now=NOW) for user in users for each in range(2)])
    host = FakeHost(users=set(users))
    assert await sweep(database, host)
    assert host.asked == [*users, "chat-1"]


async def test_workers_share_one_sweep(database: Database) -> None:
    """Of many workers one sweeps; the others, and all for the interval after it, find nothing due."""
    await sql_rows(database).put([row(number, chat_id="deleted", now=AGED) for number in range(40)])
    results = await asyncio.gather(*(sweep(database, FakeHost()) for _ in range(4)))
    assert sorted(results) == [False, False, False, True]
    assert await rows_left(database) == []
    assert [await sweep(database, FakeHost(), now=NOW + later) for later in (3599, 3600)] == [False, True]


async def test_in_doubt_nothing_is_deleted(database: Database) -> None:
    """When the host cannot say what exists, the sweep ends, and another worker may try after the lease."""

    class UnavailableHost(FakeHost):
        async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
            raise ConnectionError("the host's database is unavailable")

    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    with pytest.raises(ConnectionError):
        await sweep(database, UnavailableHost())
    assert await rows_left(database) == names(row(1, chat_id="deleted"))
    assert [await sweep(database, FakeHost(), now=NOW + later) for later in (599, 600)] == [False, True]
    assert await rows_left(database) == []


async def test_a_worker_that_was_held_up_gives_way(database: Database) -> None:
    """The host's answer took longer than its lease: it notices at its next batch that another has taken over."""

    class SlowHost(FakeHost):
        async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
            await sweep(database, FakeHost(), now=NOW + 600)
            return await super().existing_chats(chat_ids)

    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    assert not await sweep(database, SlowHost())
    assert await rows_left(database) == []


@pytest.mark.parametrize("absent", ["artifact", "summary", "audit", "ledger", "prompt", "spending", "usage"])
async def test_a_missing_table_keeps_nothing_else(database: Database, absent: str) -> None:
    """What is wrong with one table is said; the others are swept all the same."""
    tables = {name: table for name, table in swept_tables(database).items() if name != absent}
    await database.fetch(sa.select(database.tables.hold))  # creates the tables
    for table in tables.values():
        await write(database, table, "1", "ada", "deleted", AGED)
        await write(database, table, "2", "eve", "chat-1", AGED)
    lease = {"name": "summary:1", "holder": "dead", "until": NOW}
    await database.change(sa.insert(database.tables.lease), lease)
    await database.change(sa.text(f"DROP TABLE {getattr(database.tables, absent).fullname}"))
    with pytest.raises(StoreUnavailable):
        await sweep(database, FakeHost())
    assert [await left(database, table) for table in tables.values()] == [[]] * len(tables)
    assert await column_values(database, database.tables.lease.c.name) == ["sweep"]


async def column_values(database: Database, column: sa.Column[str]) -> list[str]:
    """All values of a column, in order."""
    return sorted(value for (value,) in await database.fetch(sa.select(column)))


def statements_of_the_page(heading: str) -> list[str]:
    """The SQL that docs/operations.md gives under a heading, one statement a line."""
    section = (ROOT / "docs" / "operations.md").read_text("utf-8").partition(f"### {heading}\n")[2]
    return section.partition("```sql\n")[2].partition("```")[0].strip().splitlines()


@pytest.mark.parametrize(
    ("heading", "mark", "accounts"),
    [
        ("Deleting everything of a user", "the-users-id", ["user:ada"]),
        ("Deleting everything of a chat", "the-chats-id", ["user:ada", "user:the-users-id"]),
    ],
)
async def test_the_statements_of_the_page_delete_everything(
    database: Database, heading: str, mark: str, accounts: list[str]
) -> None:
    """Of a user or a chat nothing is left in any table, and what is of others stays; so does what a user has spent."""
    tables = database.tables
    for owner, chat in (("the-users-id", "the-chats-id"), ("ada", "chat-1")):
        account = f"user:{owner}"
        for table in swept_tables(database).values():
            await write(database, table, owner, owner, chat, NOW)
        for table, values in (
            (tables.spending, {"account": account, "day": 1, "cost": 1.0}),
            (tables.usage, {"account": account, "quarter": 1, "model": "m", "failure": ""}),
            (tables.hold, {"account": account, "id": "1", "amount": 1.0, "until": NOW}),
        ):
            await database.change(sa.insert(table), values)
    for statement in statements_of_the_page(heading):
        assert mark in statement
        name = statement.split()[2]
        names_of_tables = {table.name: table.fullname for table in tables.version.metadata.sorted_tables}
        await database.change(sa.text(statement.replace(name, names_of_tables[name])))
    for table in swept_tables(database).values():
        assert await left(database, table) == [("ada", "chat-1")]
    for column in (tables.spending.c.account, tables.usage.c.account, tables.hold.c.account):
        assert await column_values(database, column) == accounts


async def test_ended_claims_are_deleted(database: Database) -> None:
    """Workers that died leave nothing behind for ever; a claim that still holds stays."""
    clock = Clock()
    leases = Leases(database, clock=clock)
    for clock.now in (NOW - 100, NOW - 10):
        assert await leases.take(f"at {clock.now}", seconds=100)
    await sweep(database, FakeHost())
    table = database.tables.lease
    found = await database.fetch(sa.select(table.c.until))
    assert sorted(until for (until,) in found) == [NOW + 90, NOW + 3600]


async def explain(explained: sa.TextClause, connection: AsyncConnection) -> list[Any]:
    """How the database goes about a statement; its values do not matter for that."""
    return list(await connection.execute(explained, {"value": "x"}))


async def test_batches_go_by_indexes(sqlite_database: Database) -> None:
    """Neither the old rows, nor those of a chat, nor the different chats are found by reading a table."""
    await sqlite_database.fetch(sa.select(sqlite_database.tables.hold))  # creates the tables
    for table in swept_tables(sqlite_database).values():
        await write(sqlite_database, table, "1", "ada", "chat-1", NOW)
    seen = statements_of(sqlite_database)
    await Sweep(sqlite_database, FakeHost(users=set(), chats=set()), GENTLE).run()
    plans = []
    tables = [swept_tables(sqlite_database)[name].name for name in ("artifact", "summary", "audit")]
    for statement in {each for each in seen if any(table in each for table in tables)}:
        explained = sa.text(f"EXPLAIN QUERY PLAN {statement.replace('?', ':value')}")
        plan = await sqlite_database.run(partial(explain, explained))
        plans += [line[3] for line in plan]
    assert len(plans) > 10
    assert [line for line in plans if any(line.startswith(f"SCAN {table}") for table in tables)] == []
