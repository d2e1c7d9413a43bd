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
from open_webui_openrouter_pipe.store.beside import AuditLog
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.kept import PromptRow, PromptRows, SealedSummaries, SummaryRows
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS, GRACE_SECONDS, Schedule, Sweep, Swept
from scripts.paths import ROOT
from tests.store.contract import KEYRING, NOW, row, sql_rows
from tests.store.summary_contract import chains, segment, stored
from tests.store.test_audit import record

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from open_webui_openrouter_pipe.ports import Audited, StoredSummary
    from open_webui_openrouter_pipe.store.table import SealedRow

pytestmark = pytest.mark.anyio

GENTLE = Schedule(keep_days=90, interval_seconds=3600, batch_rows=3, pause_seconds=0)
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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database(request: pytest.FixtureRequest) -> Database:
    """Each test runs on both databases."""
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


async def rows_left(database: Database) -> list[tuple[str, str, str]]:
    """Owner, id and chat of all rows."""
    table = database.tables.artifact
    chosen = sa.select(table.c.user_id, table.c.id, table.c.chat_id).order_by(table.c.user_id, table.c.id)
    found = await database.run(lambda connection: connection.execute(chosen))
    return [tuple(each) for each in found]


def names(*rows: SealedRow) -> list[tuple[str, str, str]]:
    """The same of these rows."""
    return sorted((each.user_id, each.id, each.chat_id) for each in rows)


async def sweep(database: Database, host: FakeHost, *, now: int = NOW) -> Swept | None:
    """One sweep at this time."""
    return await Sweep(database, host, GENTLE, clock=lambda: now).run()


async def test_unused_rows_are_deleted(database: Database) -> None:
    """After ARTIFACT_CLEANUP_DAYS without a use, in whatever chat they are."""
    old = [row(number, now=NOW - 90 * DAY_SECONDS - 1) for number in range(10)]
    young = [row(number, now=NOW - 90 * DAY_SECONDS + 1) for number in range(10, 14)]
    await sql_rows(database).put([*old, *young])
    assert await sweep(database, FakeHost()) == Swept(unused=10)
    assert await rows_left(database) == names(*young)


async def test_rows_may_be_kept_for_ever(database: Database) -> None:
    """Zero days mean no limit."""
    await sql_rows(database).put([row(1, now=1)])
    forever = Schedule(keep_days=0, pause_seconds=0)
    assert await Sweep(database, FakeHost(), forever, clock=lambda: NOW).run() == Swept()


async def test_rows_of_deleted_users_are_deleted(database: Database) -> None:
    """All rows of a user who is deleted, in all chats, except those that were in use recently."""
    deleted = [row(number, user_id="eve", chat_id=f"chat-{number % 3}", now=AGED) for number in range(10)]
    used = row(11, user_id="eve", now=FRESH)
    kept = [row(number, now=AGED) for number in range(4)]
    await sql_rows(database).put([*deleted, used, *kept])
    assert await sweep(database, FakeHost()) == Swept(of_deleted_users=10)
    assert await rows_left(database) == names(used, *kept)


async def test_rows_of_deleted_chats_are_deleted(database: Database) -> None:
    """Those of other chats, of chats in use, and without a chat stay."""
    deleted = [row(number, chat_id="deleted", now=AGED) for number in range(10)]
    kept = [row(11, chat_id="deleted", now=FRESH), row(12, now=AGED), row(13, chat_id="", now=AGED)]
    await sql_rows(database).put([*deleted, *kept])
    assert await sweep(database, FakeHost()) == Swept(of_deleted_chats=10)
    assert await rows_left(database) == names(*kept)


async def test_rows_that_a_copy_names_move_to_the_copy(database: Database) -> None:
    """A clone keeps its artifacts when the original chat is deleted, and takes them along when it goes."""
    rows = [row(number, chat_id="original", now=AGED) for number in range(8)]
    host = FakeHost(
        chats={"clone", "fork"}, names={("ada", rows[0].id): "clone", ("ada", rows[7].id): "fork"}
    )
    await sql_rows(database).put(rows)
    assert await sweep(database, host) == Swept(of_deleted_chats=6, moved=2)
    assert await rows_left(database) == names(
        rows[0]._replace(chat_id="clone"), rows[7]._replace(chat_id="fork")
    )
    host.chats, host.names = {"fork"}, {}
    assert await sweep(database, host, now=NOW + 3601) == Swept(of_deleted_chats=1)
    assert await rows_left(database) == names(rows[7]._replace(chat_id="fork"))


async def test_a_copy_of_another_user_keeps_nothing(database: Database) -> None:
    """What a shared chat's reader copied does not hold the owner's rows."""
    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    host = FakeHost(users={"ada", "eve"}, names={("eve", row(1).id): "copy"})
    assert await sweep(database, host) == Swept(of_deleted_chats=1)


async def test_the_same_artifact_of_two_owners_is_two(database: Database) -> None:
    """Each goes or stays by what its own owner's chats name, though id and chat are the same."""
    await sql_rows(database).put(
        [row(1, chat_id="shared", user_id=user, now=AGED) for user in ("ada", "eve")]
    )
    host = FakeHost(users={"ada", "eve"}, chats={"copy"}, names={("eve", row(1).id): "copy"})
    assert await sweep(database, host) == Swept(of_deleted_chats=1, moved=1)
    assert await rows_left(database) == [("eve", row(1).id, "copy")]


@pytest.mark.servers
@pytest.mark.parametrize("reason", ["unused", "of_deleted_users", "of_deleted_chats"])
async def test_a_row_that_is_used_meanwhile_stays(postgres_database: Database, reason: str) -> None:
    """A stamp that another transaction writes while the sweep waits for the row keeps the row."""
    table = postgres_database.tables.artifact
    now = NOW - 91 * DAY_SECONDS if reason == "unused" else AGED
    await sql_rows(postgres_database).put([row(1, now=now)])
    host = FakeHost(
        users={"ada"} - ({"ada"} if reason == "of_deleted_users" else set()),
        chats={"chat-1"} - ({"chat-1"} if reason == "of_deleted_chats" else set()),
    )
    sweeping: asyncio.Task[Swept | None]

    async def use_while_it_sweeps(connection: AsyncConnection) -> None:
        nonlocal sweeping
        await connection.execute(sa.update(table).values(last_used=NOW))
        sweeping = asyncio.create_task(sweep(postgres_database, host))
        waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while not (await postgres_database.fetch(waiting))[0][0]:  # noqa: ASYNC110 - locks set no event
            await asyncio.sleep(0.01)

    await postgres_database.run(use_while_it_sweeps)
    assert await sweeping == Swept()
    assert await rows_left(postgres_database) == names(row(1))


async def test_a_worker_whose_clock_is_wrong_deletes_nothing(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's clock counts: what was used today stays, and the lease ends after the interval."""
    now = int(time.time())
    await sql_rows(sqlite_database).put([row(1, chat_id="deleted", now=now)])
    monkeypatch.setattr("time.time", lambda: now + 100 * DAY_SECONDS)
    assert await Sweep(sqlite_database, FakeHost(), GENTLE).run() == Swept()
    assert await rows_left(sqlite_database) == names(row(1, chat_id="deleted"))
    [(until,)] = await sqlite_database.fetch(sa.select(sqlite_database.tables.lease.c.until))
    assert now + GENTLE.interval_seconds <= until < now + DAY_SECONDS


@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_databases_clock_is_the_time(database: Database, hours: int) -> None:
    """An hour either way decides, on both databases."""
    used = int(time.time()) - 90 * DAY_SECONDS + hours * 3600
    await sql_rows(database).put([row(1, now=used)])
    assert await Sweep(database, FakeHost(), GENTLE).run() == Swept(unused=int(hours < 0))
    assert await Sweep(database, FakeHost(), GENTLE).run() is None


async def test_a_host_that_contradicts_itself_ends_the_sweep_all_the_same(database: Database) -> None:
    """A chat that does not exist and yet names a row cannot keep it."""
    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    assert await sweep(database, FakeHost(names={("ada", row(1).id): "deleted"})) == Swept(of_deleted_chats=1)


async def test_each_owner_and_chat_is_asked_for_once(database: Database) -> None:
    """Distinct values are found by jumping, in pages, each exactly once."""
    users = [f"user-{number:04d}" for number in range(450)]
    await sql_rows(database).put([row(each, user_id=user, now=NOW) for user in users for each in range(2)])
    host = FakeHost(users=set(users))
    assert await sweep(database, host) == Swept()
    assert host.asked == [*users, "chat-1"]


async def test_workers_share_one_sweep(database: Database) -> None:
    """Of many workers one sweeps; the others, and all for the interval after it, find nothing due."""
    await sql_rows(database).put([row(number, chat_id="deleted", now=AGED) for number in range(40)])
    results = await asyncio.gather(*(sweep(database, FakeHost()) for _ in range(4)))
    assert sorted(results, key=lambda each: each is None) == [Swept(of_deleted_chats=40), None, None, None]
    assert await sweep(database, FakeHost(), now=NOW + 3599) is None
    assert await sweep(database, FakeHost(), now=NOW + 3600) == Swept()


class UnavailableHost(FakeHost):
    """A host that cannot answer."""

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        raise ConnectionError("the host's database is unavailable")


async def test_in_doubt_nothing_is_deleted(database: Database) -> None:
    """When the host cannot say what exists, the sweep ends, and another worker may try after the lease."""
    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    with pytest.raises(ConnectionError):
        await sweep(database, UnavailableHost())
    assert await rows_left(database) == names(row(1, chat_id="deleted"))
    assert await sweep(database, FakeHost(), now=NOW + 599) is None
    assert await sweep(database, FakeHost(), now=NOW + 600) == Swept(of_deleted_chats=1)


class SlowHost(FakeHost):
    """A host whose answer takes longer than the lease, so that another worker takes over meanwhile."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        await sweep(self.database, FakeHost(), now=NOW + 600)
        return await super().existing_chats(chat_ids)


async def test_a_worker_that_was_held_up_gives_way(database: Database) -> None:
    """It notices at its next batch that the lease is another's."""
    await sql_rows(database).put([row(1, chat_id="deleted", now=AGED)])
    assert await sweep(database, SlowHost(database)) is None
    assert await rows_left(database) == []


async def put_summaries(database: Database, *kept: StoredSummary, now: int) -> None:
    """Keep summaries that were last used at that time."""
    store = SealedSummaries(SummaryRows(database), KEYRING, clock=lambda: now)
    for each in kept:
        await store.keep(each)


async def summaries_left(database: Database) -> list[tuple[str, str, int]]:
    """Owner, chat and length of all summaries."""
    table = database.tables.summary
    chosen = sa.select(table.c.user_id, table.c.chat_id, table.c.turns).order_by(table.c.turns)
    found = await database.run(lambda connection: connection.execute(chosen))
    return [tuple(each) for each in found]


async def test_unused_summaries_are_deleted(database: Database) -> None:
    """As artifacts do, in batches, and beside them."""
    old = NOW - 90 * DAY_SECONDS - 1
    await sql_rows(database).put([row(1, now=old)])
    await put_summaries(database, *(stored(0, end) for end in range(1, 9)), now=old)
    await put_summaries(database, stored(0, 9), now=old + 2)
    assert await sweep(database, FakeHost()) == Swept(unused=9)
    assert await summaries_left(database) == [("ada", "chat-1", 9)]


async def test_summaries_of_deleted_users_and_chats_are_deleted(database: Database) -> None:
    """Those in use recently, of chats that exist, and without a chat stay."""
    deleted = [stored(0, end, user_id="eve") for end in (1, 2, 3, 4)]
    deleted += [stored(0, end, chat_id="deleted") for end in (5, 6, 7, 8, 9)]
    kept = [stored(0, 10), stored(0, 11, chat_id="")]
    fresh = [stored(0, 12, chat_id="deleted"), stored(0, 13, user_id="eve")]
    await put_summaries(database, *deleted, *kept, now=AGED)
    await put_summaries(database, *fresh, now=FRESH)
    assert await sweep(database, FakeHost()) == Swept(of_deleted_users=4, of_deleted_chats=5)
    left_over = [("ada", "chat-1", 10), ("ada", "", 11), ("ada", "deleted", 12), ("eve", "chat-1", 13)]
    assert await summaries_left(database) == left_over


async def test_a_summary_belongs_to_the_chat_that_used_it_last(database: Database) -> None:
    """The clone of a deleted chat keeps what it took over."""
    await put_summaries(database, stored(0, 5), stored(5, 9), now=AGED - DAY_SECONDS)
    rows = SummaryRows(database, clock=lambda: AGED)
    await SealedSummaries(rows, KEYRING).find("ada", chains(*range(7)), chat_id="clone")
    await rows.idle()
    assert await sweep(database, FakeHost(chats={"clone"})) == Swept(of_deleted_chats=1)
    assert await summaries_left(database) == [("ada", "clone", 5)]


async def audit(database: Database, *records: Audited, now: int) -> None:
    """Write records at that time."""
    log = AuditLog(database, clock=lambda: now)
    for each in records:
        log.write(each)
    await log.idle()


async def test_the_audit_of_deleted_users_and_chats_is_deleted(database: Database) -> None:
    """And what is as old as unused rows; requests of the last days, of chats that exist and without a chat stay."""
    old = NOW - 90 * DAY_SECONDS - 1
    await audit(database, record(1), now=old)
    await audit(database, *(record(number, user_id="eve", chat_id="") for number in (2, 3, 4, 5)), now=AGED)
    await audit(database, *(record(number, chat_id="deleted") for number in (6, 7, 8, 9, 10)), now=AGED)
    kept = [record(11), record(12, chat_id=""), record(13, user_id="eve"), record(14, chat_id="deleted")]
    await audit(database, *kept[:2], now=AGED)
    await audit(database, *kept[2:], now=FRESH)
    assert await sweep(database, FakeHost()) == Swept(unused=1, of_deleted_users=4, of_deleted_chats=5)
    assert await AuditLog(database).records() == kept[::-1]


@pytest.mark.parametrize("absent", ["artifact", "summary", "audit", "ledger", "prompt", "spending"])
async def test_a_missing_table_keeps_nothing_else(database: Database, absent: str) -> None:
    """What is wrong with one table is said; the others are swept all the same."""
    await sql_rows(database).put(
        [row(1, chat_id="deleted", now=AGED), row(2, user_id="eve", now=AGED), row(3)]
    )
    await put_summaries(database, stored(0, 5, chat_id="deleted"), now=AGED)
    await audit(database, record(1, chat_id="deleted"), record(2, user_id="eve"), now=AGED)
    hold = {"account": "user:ada", "id": "1", "amount": 1.0, "until": NOW}
    await database.change(sa.insert(database.tables.hold), hold)
    await database.change(sa.text(f"DROP TABLE {getattr(database.tables, absent).fullname}"))
    with pytest.raises(StoreUnavailable):
        await sweep(database, FakeHost())
    if absent != "artifact":
        assert await rows_left(database) == names(row(3))
    if absent != "summary":
        assert await summaries_left(database) == []
    if absent != "audit":
        assert await AuditLog(database).records() == []
    assert await column_values(database, database.tables.hold.c.account) == []


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
        await sql_rows(database).put([row(1, user_id=owner, chat_id=chat)])
        await put_summaries(database, stored(0, 5, user_id=owner, chat_id=chat), now=NOW)
        await audit(database, record(1 if owner == "ada" else 2, user_id=owner, chat_id=chat), now=NOW)
        account = f"user:{owner}"
        numbers = {each.name: 0 for each in tables.ledger.columns if each.name not in {"user_id", "chat_id"}}
        for table, values in (
            (tables.ledger, {"user_id": owner, "chat_id": chat, **numbers}),
            (tables.prompt, prompt_row(owner, chat)._asdict()),
            (tables.spending, {"account": account, "day": 1, "cost": 1.0}),
            (tables.hold, {"account": account, "id": "1", "amount": 1.0, "until": NOW}),
        ):
            await database.change(sa.insert(table), values)
    statements = statements_of_the_page(heading)
    for statement in statements:
        assert mark in statement
        name = statement.split()[2]
        names_of_tables = {table.name: table.fullname for table in tables.version.metadata.sorted_tables}
        await database.change(sa.text(statement.replace(name, names_of_tables[name])))
    assert await rows_left(database) == names(row(1))
    assert await summaries_left(database) == [("ada", "chat-1", 5)]
    assert await AuditLog(database).records() == [record(1)]
    for column, left in (
        (tables.ledger.c.user_id, ["ada"]),
        (tables.prompt.c.user_id, ["ada"]),
        (tables.spending.c.account, accounts),
        (tables.hold.c.account, accounts),
    ):
        assert sorted(await column_values(database, column)) == left


def prompt_row(user_id: str, chat_id: str, model: str = "m", *, now: int = NOW) -> PromptRow:
    """A prompt that nobody opens, last used at that time."""
    return PromptRow(user_id, chat_id, model, "key", 1, b"x", created=now, last_used=now)


async def test_prompts_are_deleted_with_their_chat_and_user_and_when_unused(database: Database) -> None:
    """Those in use recently stay, and those of a chat that is still there."""
    unused = NOW - 90 * DAY_SECONDS - 1
    deleted = [
        prompt_row("ada", "chat-1", "unused", now=unused),
        *(prompt_row("eve", "chat-1", f"m{number}", now=AGED) for number in range(4)),
        *(prompt_row("ada", "deleted", f"m{number}", now=AGED) for number in range(5)),
    ]
    kept = [
        prompt_row("ada", "chat-1", "used", now=AGED),
        prompt_row("ada", "deleted", "used", now=FRESH),
        prompt_row("eve", "chat-1", "used", now=FRESH),
    ]
    rows = PromptRows(database)
    for each in (*deleted, *kept):
        await rows.add(each, instead_of=None)
    assert await sweep(database, FakeHost()) == Swept(unused=1, of_deleted_users=4, of_deleted_chats=5)
    owners = await column_values(database, database.tables.prompt.c.user_id)
    assert sorted(owners) == ["ada", "ada", "eve"]
    models = await column_values(database, database.tables.prompt.c.model)
    assert set(models) == {"used"}


async def column_values(database: Database, column: sa.Column[str]) -> list[str]:
    """All values of a column."""
    found = await database.run(lambda connection: connection.execute(sa.select(column)))
    return list(found.scalars())


async def test_ended_claims_are_deleted(database: Database) -> None:
    """Workers that died leave nothing behind for ever; a claim that still holds stays."""
    early, late = (
        SealedSummaries(SummaryRows(database, clock=lambda now=now: now), KEYRING)  # type: ignore[misc]
        for now in (NOW - 100, NOW - 10)
    )
    assert await early.claim("ada", segment(0, 1), seconds=100)
    assert await late.claim("ada", segment(0, 2), seconds=100)
    await sweep(database, FakeHost())
    table = database.tables.lease
    found = await database.run(lambda connection: connection.execute(sa.select(table.c.until)))
    assert sorted(found.scalars()) == [NOW + 90, NOW + 3600]


async def explain(explained: sa.TextClause, connection: AsyncConnection) -> list[Any]:
    """How the database goes about a statement; its values do not matter for that."""
    return list(await connection.execute(explained, {"value": "x"}))


async def test_batches_go_by_indexes(sqlite_database: Database) -> None:
    """Neither the old rows, nor those of a chat, nor the different chats are found by reading a table."""
    await sql_rows(sqlite_database).put([row(1)])
    await put_summaries(sqlite_database, stored(0, 1), now=NOW)
    await audit(sqlite_database, record(1), now=NOW)
    seen: list[str] = []
    engine = sqlite_database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
    await Sweep(sqlite_database, FakeHost(users=set(), chats=set()), GENTLE).run()
    plans = []
    tables = ("openrouter_pipe_artifact", "openrouter_pipe_summary", "openrouter_pipe_audit")
    for statement in {each for each in seen if any(table in each for table in tables)}:
        explained = sa.text(f"EXPLAIN QUERY PLAN {statement.replace('?', ':value')}")
        plan = await sqlite_database.run(partial(explain, explained))
        plans += [line[3] for line in plan]
    assert len(plans) > 10
    assert [line for line in plans if any(line.startswith(f"SCAN {table}") for table in tables)] == []
