"""Rows in SQLite and PostgreSQL: the contract, the number of queries, and what happens when others write."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import ConfigurationError, StoreError, StoreUnavailable
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.rows import FoundRows, RowStore, SqlRows
from tests.store.contract import NOW, StoreContract, row

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio


class TestSqlite(StoreContract):
    @pytest.fixture
    def rows(self, sqlite_database: Database) -> RowStore:
        return SqlRows(sqlite_database)


@pytest.mark.servers
class TestPostgres(StoreContract):
    @pytest.fixture
    def rows(self, postgres_database: Database) -> RowStore:
        return SqlRows(postgres_database)


async def statements_of_a_load(database: Database) -> list[str]:
    """The statements that the database sees while 300 rows are loaded."""
    rows = SqlRows(database)
    await rows.put([row(number) for number in range(300)])
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engine = database._engine.sync_engine
    sa.event.listen(engine, "before_cursor_execute", note)
    found = await rows.load("ada", [row(number).id for number in range(300)])
    sa.event.remove(engine, "before_cursor_execute", note)
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
    """All rows of a put are written in one transaction."""
    rows = SqlRows(sqlite_database)
    with pytest.raises(StoreError):
        await rows.put([row(1), row(2)._replace(payload=None)])  # type: ignore[arg-type]
    assert await rows.load("ada", [row(1).id]) == FoundRows()


async def impatient(path: Path, timeout_seconds: float) -> Database:
    """A database with a row in it that leaves the waiting for other writers to the store's own retries."""
    database = Database.from_url(f"sqlite:///{path}", timeout_seconds=timeout_seconds)
    await SqlRows(database).put([row(1)])

    def wait_for_nobody(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA busy_timeout=0")

    sa.event.listen(database._engine.sync_engine, "begin", wait_for_nobody)
    return database


async def test_writing_waits_for_another_writer(tmp_path: Path) -> None:
    """A database that is locked for a while delays a put, and does not fail it."""
    database = await impatient(tmp_path / "rows.db", timeout_seconds=10)
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put = asyncio.create_task(SqlRows(database).put([row(2)]))
    await asyncio.sleep(0.3)
    assert not put.done()
    other.execute("COMMIT")
    other.close()
    await put
    assert len((await SqlRows(database).load("ada", [row(1).id, row(2).id])).rows) == 2
    await database.aclose()


async def test_waiting_for_another_writer_ends(tmp_path: Path) -> None:
    """A database that stays locked is away for writers; readers do not wait for writers."""
    database = await impatient(tmp_path / "rows.db", timeout_seconds=0.5)
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await SqlRows(database).put([row(2)])
    assert len((await SqlRows(database).load("ada", [row(1).id])).rows) == 1
    other.close()
    await database.aclose()


async def test_a_database_that_cannot_be_opened_is_away(tmp_path: Path) -> None:
    """Loading gives ids that are away, writing and deleting say so; errors hold no payload."""
    rows = SqlRows(Database.from_url(f"sqlite:///{tmp_path}/no/such/directory/rows.db"))
    assert await rows.load("ada", ["1"]) == FoundRows(away=frozenset({"1"}))
    for work in (rows.put([row(1)]), rows.delete("ada", ["1"]), rows.touch("ada", ["1"], now=NOW)):
        with pytest.raises(StoreUnavailable):
            await work
    # The driver's threads still report to the event loop for a moment.
    await asyncio.sleep(0.2)


def test_other_databases_are_refused() -> None:
    """Only SQLite and PostgreSQL are supported, and that is said when the store is made."""

    class Engine:
        class dialect:  # noqa: N801 - SQLAlchemy's attribute
            name = "mysql"

    with pytest.raises(ConfigurationError):
        Database(Engine())  # type: ignore[arg-type]


@pytest.mark.servers
async def test_postgres_may_stop_and_come_back(
    postgres_database: Database, postgres_server: PostgresServer
) -> None:
    """While PostgreSQL is down rows are away; afterwards the first try finds them again."""
    rows = SqlRows(postgres_database)
    await rows.put([made := row(1)])
    postgres_server.stop()
    assert await rows.load("ada", [made.id]) == FoundRows(away=frozenset({made.id}))
    with pytest.raises(StoreUnavailable):
        await rows.put([row(2)])
    postgres_server.start()
    assert await rows.load("ada", [made.id, row(2).id]) == FoundRows({made.id: made})
