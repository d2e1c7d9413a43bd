"""Rows in SQLite and PostgreSQL: the contract, the number of queries, the stamp of use, and other writers."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import ConfigurationError, StoreError, StoreUnavailable
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.table import STAMP_INTERVAL_SECONDS, FoundRows, RowStore
from tests.store.contract import NOW, StoreContract, row, sql_rows
from tests.store.waiting import driver_threads

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio


class TestSqlite(StoreContract):
    @pytest.fixture
    def rows(self, sqlite_database: Database) -> RowStore:
        return sql_rows(sqlite_database)


@pytest.mark.servers
class TestPostgres(StoreContract):
    @pytest.fixture
    def rows(self, postgres_database: Database) -> RowStore:
        return sql_rows(postgres_database)


async def statements_of_a_load(database: Database) -> list[str]:
    """The statements that the database receives while 300 rows are loaded."""
    rows = sql_rows(database)
    await rows.put([row(number) for number in range(300)])
    seen: list[str] = []

    def record(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engine = database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", record)
    found = await rows.load("ada", [row(number).id for number in range(300)])
    sa.event.remove(engine, "before_cursor_execute", record)
    assert len(found.rows) == 300
    return seen


async def test_a_load_is_one_query(sqlite_database: Database) -> None:
    """Three hundred rows come with one statement."""
    assert len(await statements_of_a_load(sqlite_database)) == 1


@pytest.mark.servers
async def test_a_load_is_one_query_on_postgres(postgres_database: Database) -> None:
    """Three hundred rows come with one statement."""
    assert len(await statements_of_a_load(postgres_database)) == 1


async def test_a_load_goes_by_the_primary_key(sqlite_database: Database) -> None:
    """SQLite searches the index by owner and id, and scans no table."""
    (statement,) = await statements_of_a_load(sqlite_database)
    plan = await sqlite_database.run(
        lambda connection: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", ("ada", "[]"))
    )
    details = " / ".join(line[3] for line in plan)
    assert "SEARCH openrouter_pipe_artifact USING INDEX" in details
    assert "(user_id=? AND id=?)" in details


async def test_a_failing_put_leaves_nothing(sqlite_database: Database) -> None:
    """All rows of a put are written in one transaction; the error says why, without what was to be written."""
    rows = sql_rows(sqlite_database)
    with pytest.raises(StoreError, match=r"\(IntegrityError: .*NOT NULL constraint failed: .*payload\)$"):
        await rows.put([row(1), row(2)._replace(payload=None)])  # type: ignore[arg-type]
    assert await rows.load("ada", [row(1).id]) == FoundRows()


def watch(database: Database, event: str) -> list[Any]:
    """What an engine's event was called with, as it happens; for a statement its text and what it was compiled to."""
    seen: list[Any] = []

    def note(*details: Any) -> None:
        seen.append((details[2], details[4].compiled) if event == "before_cursor_execute" else details)

    sa.event.listen(database._engine.sync_engine, event, note)
    return seen


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database(request: pytest.FixtureRequest) -> Database:
    """Each test runs on both databases."""
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


async def test_a_put_is_one_statement_compiled_once(database: Database) -> None:
    """And one transaction; the second put finds what SQLAlchemy made of the first."""
    rows = sql_rows(database)
    await rows.put([row(0)])  # creates the tables
    statements, commits = watch(database, "before_cursor_execute"), watch(database, "commit")
    for number in (1, 2):
        await rows.put([row(number)])
    assert [text.split()[:2] for text, _ in statements] == [["INSERT", "INTO"]] * 2
    assert statements[0][1] is statements[1][1]
    assert len(commits) == 2


async def test_puts_at_once_share_a_transaction(database: Database) -> None:
    """Fifty of them are written together, and each returns when its rows are durable."""
    rows = sql_rows(database)
    await rows.put([row(0)])  # creates the tables
    commits = watch(database, "commit")

    async def put(number: int) -> int:
        await rows.put([row(number, user_id=f"user{number % 7}")])
        return len((await rows.load(f"user{number % 7}", [row(number).id])).rows)

    assert await asyncio.gather(*map(put, range(1, 51))) == [1] * 50
    assert len(commits) == 1


async def test_a_refused_row_fails_its_own_put_alone(database: Database) -> None:
    """Those who share its transaction write theirs again."""
    rows = sql_rows(database)
    await rows.put([row(0)])  # creates the tables
    refused = row(3)._replace(payload=None)  # type: ignore[arg-type]
    puts = [rows.put([row(1)]), rows.put([row(2)]), rows.put([row(4), refused]), rows.put([row(5)])]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), type(None), StoreError, type(None)]
    found = await rows.load("ada", [row(number).id for number in range(1, 6)])
    assert found.rows.keys() == {row(number).id for number in (1, 2, 5)}


async def test_the_last_of_two_puts_of_a_row_stays(database: Database) -> None:
    """Also when one transaction writes both."""
    rows = sql_rows(database)
    await rows.put([row(0)])
    await asyncio.gather(
        rows.put([row(9)]), rows.put([row(1, text="old")]), rows.put([last := row(1, text="new")])
    )
    assert (await rows.load("ada", [last.id])).rows == {last.id: last}


async def test_closing_waits_for_puts_whose_callers_have_left(sqlite_database: Database) -> None:
    """A page that is closed loses nothing that was about to be written."""
    rows = sql_rows(sqlite_database)
    puts = [asyncio.create_task(rows.put([row(number)])) for number in range(3)]
    await asyncio.sleep(0)
    for put in puts:
        put.cancel()
    await asyncio.gather(*puts, return_exceptions=True)
    await rows.aclose()
    found = await sql_rows(sqlite_database).load("ada", [row(number).id for number in range(3)])
    assert len(found.rows) == 3
    await sqlite_database.aclose()


async def last_uses(database: Database) -> dict[tuple[str, str], int]:
    """When the rows were last used, as the database has it."""
    table = database.tables.artifact
    found = await database.fetch(sa.select(table.c.user_id, table.c.id, table.c.last_used))
    return {(user_id, row_id): last_used for user_id, row_id, last_used in found}


async def test_a_use_is_stamped_once_a_day(database: Database) -> None:
    """Only rows of the owner that were loaded, and whose stamp is a day old, get a new one."""
    day = STAMP_INTERVAL_SECONDS
    stale, fresh = row(1, now=NOW - day), row(2, now=NOW - day + 1)
    others = [row(3, now=NOW - day), row(1, now=NOW - day, user_id="eve")]
    rows = sql_rows(database)
    await rows.put([stale, fresh, *others])
    assert (await rows.load("ada", [stale.id, fresh.id])).rows == {stale.id: stale, fresh.id: fresh}
    await rows.idle()
    stamped = {(each.user_id, each.id): each.last_used for each in (stale, fresh, *others)}
    assert await last_uses(database) == stamped | {("ada", stale.id): NOW}


async def test_a_stamp_is_never_set_back(database: Database) -> None:
    """A worker whose clock is behind does not undo another's stamp."""
    rows = sql_rows(database)
    await rows.put([created := row(1, now=NOW)])
    await database.change(rows._stamp, {"owner": "ada", "ids": [created.id], "now": NOW - 9})
    assert await last_uses(database) == {("ada", created.id): NOW}


async def test_a_use_that_cannot_be_stamped_fails_nothing(sqlite_database: Database) -> None:
    """The database may become unavailable between reading and stamping."""

    def refuse_updates(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE"):
            raise sa.exc.OperationalError(statement, None, sqlite3.OperationalError("disk I/O error"))

    sa.event.listen(sqlite_database._engine.sync_engine, "before_cursor_execute", refuse_updates)
    rows = sql_rows(sqlite_database)
    await rows.put([created := row(1, now=0)])
    assert (await rows.load("ada", [created.id])).rows == {created.id: created}
    await rows.idle()
    assert await last_uses(sqlite_database) == {("ada", created.id): 0}


async def open_impatient(path: Path, timeout_seconds: float) -> Database:
    """A database with a row in it that leaves the waiting for other writers to the store's own retries."""
    database = Database.from_url(f"sqlite:///{path}", timeout_seconds=timeout_seconds)
    await sql_rows(database).put([row(1)])

    def wait_for_nobody(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA busy_timeout=0")

    sa.event.listen(database._engine.sync_engine, "begin", wait_for_nobody)
    return database


async def test_writing_waits_for_another_writer(tmp_path: Path) -> None:
    """A database that is locked for a while delays a put, and does not fail it."""
    database = await open_impatient(tmp_path / "rows.db", timeout_seconds=60)
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    failures: list[str] = []

    def unlock_after_two(context: Any) -> None:
        failures.append(str(context.original_exception))
        if len(failures) == 2:
            other.execute("COMMIT")

    sa.event.listen(database._engine.sync_engine, "handle_error", unlock_after_two)
    await sql_rows(database).put([row(2)])
    other.close()
    assert failures == ["database is locked"] * 2
    assert len((await sql_rows(database).load("ada", [row(1).id, row(2).id])).rows) == 2
    await database.aclose()


async def test_waiting_for_another_writer_ends(tmp_path: Path) -> None:
    """After the time limit nothing is tried again: the database is unavailable for writers, not for readers."""
    database = await open_impatient(tmp_path / "rows.db", timeout_seconds=0)
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    failures: list[object] = []
    sa.event.listen(database._engine.sync_engine, "handle_error", failures.append)
    with pytest.raises(StoreUnavailable):
        await sql_rows(database).put([row(2)])
    assert len(failures) == 1
    assert len((await sql_rows(database).load("ada", [row(1).id])).rows) == 1
    other.close()
    await database.aclose()


async def test_the_first_load_of_a_worker_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    """Tables that exist need no lock."""
    await (await open_impatient(tmp_path / "rows.db", timeout_seconds=60)).aclose()
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    assert (await sql_rows(database).load("ada", [row(1).id])).rows.keys() == {row(1).id}
    other.close()
    await database.aclose()


async def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    """Loading returns the ids as unavailable, writing and deleting raise."""
    rows = sql_rows(Database.from_url(f"sqlite:///{tmp_path}/no/such/directory/rows.db"))
    assert await rows.load("ada", ["1"]) == FoundRows(unavailable=frozenset({"1"}))
    for work in (rows.put([row(1)]), rows.delete("ada", ["1"])):
        with pytest.raises(StoreUnavailable):
            await work
    await driver_threads()


def test_other_databases_are_refused() -> None:
    """Only SQLite and PostgreSQL are supported; any other raises as soon as the store is made."""

    class Engine:
        class dialect:  # noqa: N801 - SQLAlchemy's attribute
            name = "mysql"

    with pytest.raises(ConfigurationError):
        Database(Engine())  # type: ignore[arg-type]


@pytest.mark.servers
async def test_postgres_may_stop_and_come_back(
    postgres_database: Database, postgres_server: PostgresServer
) -> None:
    """While PostgreSQL is down rows are unavailable; afterwards the first try finds them again."""
    rows = sql_rows(postgres_database)
    await rows.put([created := row(1)])
    await asyncio.to_thread(postgres_server.stop)
    assert await rows.load("ada", [created.id]) == FoundRows(unavailable=frozenset({created.id}))
    with pytest.raises(StoreUnavailable):
        await rows.put([row(2)])
    postgres_server.start()
    assert await rows.load("ada", [created.id, row(2).id]) == FoundRows({created.id: created})
