"""Sealed rows on both databases: keys, stamps of use, what is replaced; transactions of artifacts, other writers."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import ConfigurationError, StoreError, StoreUnavailable
from open_webui_openrouter_pipe.store import table as table_module
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.schema import PromptRow, SealedRow, SummaryRow
from open_webui_openrouter_pipe.store.table import (
    STAMP_INTERVAL_SECONDS,
    RowStore,
    SealedTable,
    SqlRows,
)
from scripts.harness.database import open_database
from tests.store.contract import NOW, Clock, StoreContract, row, sql_rows, statements_of, watch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

Row: TypeAlias = SealedRow | SummaryRow | PromptRow


@dataclass(frozen=True)
class Kind:
    """A table of sealed rows: its rows, how many parts the key has, and how it is searched by it."""

    row: type[Row]
    key_parts: int
    searched_by: str

    def make(self, number: int, *, user_id: str = "ada", now: int = NOW, payload: bytes = b"sealed") -> Any:
        """A row whose texts are made of the number."""
        given: dict[str, Any] = {"user_id": user_id, "payload": payload, "created": now, "last_used": now}
        given |= {"turns": number, "packing": 1, "source_tokens": number}
        return self.row(**{name: given.get(name, f"{name} {number}") for name in self.row._fields})


KINDS = {
    "artifact": Kind(SealedRow, 2, "(user_id=? AND id=?)"),
    "summary": Kind(SummaryRow, 3, "(user_id=? AND start_chain=?)"),
    "prompt": Kind(PromptRow, 3, "(user_id=? AND chat_id=?)"),
}


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the three tables."""
    found: Kind = request.param
    return found


def ids_of(kind: Kind, *rows: Row) -> list[str]:
    """The parts of the rows' keys behind the owner."""
    return [str(part) for each in rows for part in each[1 : kind.key_parts]]


async def all_of(rows: Any) -> list[Any]:
    """All rows of the table."""
    return sorted(map(tuple, await rows._database.fetch(sa.select(rows._table))))


async def test_a_row_is_found_by_its_whole_key(database: Database, kind: Kind) -> None:
    """And by its owner alone; the same key replaces it."""
    rows: Any = SealedTable(database, kind.row)
    mine, second, hers = kind.make(1), kind.make(2), kind.make(1, user_id="eve")
    await rows.put([mine, second, kind.make(3), hers])
    assert sorted(await rows.find("ada", ids_of(kind, mine, second))) == [mine, second]
    assert await rows.find("bob", ids_of(kind, mine)) == []
    assert await rows.get(mine[: kind.key_parts]) == mine
    assert await rows.get(("ada", *second[1 : kind.key_parts - 1], "none")) is None
    await rows.put([newer := kind.make(1, payload=b"newer")])
    assert await all_of(rows) == sorted([newer, second, kind.make(3), hers])


async def test_a_find_is_one_query_by_the_primary_key(sqlite_database: Database, kind: Kind) -> None:
    """However many ids there are: SQLite searches the index once for each, and scans no table."""
    rows: Any = SealedTable(sqlite_database, kind.row)
    await rows.put([kind.make(number) for number in range(300)])
    seen = statements_of(sqlite_database)
    found = await rows.find("ada", ids_of(kind, *(kind.make(number) for number in range(70_000))))
    assert (len(found), len(seen)) == (300, 1)
    explained, values = f"EXPLAIN QUERY PLAN {seen[0]}", ("ada", *["[]"] * (kind.key_parts - 1))
    plan = await sqlite_database.run(lambda connection: connection.exec_driver_sql(explained, values))
    details = " / ".join(line[3] for line in plan)
    assert f"SEARCH openrouter_pipe_{rows._table.name.rpartition('_')[2]} USING INDEX" in details
    assert kind.searched_by in details


async def test_a_use_is_stamped_once_a_day(database: Database, kind: Kind) -> None:
    """The row's, and no other's; what is found within the day is not written, and no stamp goes back."""
    clock = Clock()
    rows: Any = SealedTable(database, kind.row, clock=clock)
    used, other, hers = kind.make(1), kind.make(2), kind.make(1, user_id="eve")
    await rows.put([used, other, hers])
    stamps = []
    for seconds in (STAMP_INTERVAL_SECONDS - 1, 1, 1):
        clock.now += seconds
        rows.stamp(await rows.find("ada", ids_of(kind, used)))
        await database.aclose()
        stamps.append([each.last_used - NOW for each in await rows.find("ada", ids_of(kind, used, other))])
    assert [sorted(each) for each in stamps] == [
        [0, 0],
        [0, STAMP_INTERVAL_SECONDS],
        [0, STAMP_INTERVAL_SECONDS],
    ]
    clock.now = NOW + STAMP_INTERVAL_SECONDS
    rows.stamp([used])  # as a slow reader found it
    clock.now -= 9
    rows.stamp([used._replace(last_used=0)])
    await database.aclose()
    assert await all_of(rows) == sorted([used._replace(last_used=clock.now + 9), other, hers])


async def test_a_row_is_added_where_there_is_none_or_the_one_to_be_replaced(
    database: Database, kind: Kind
) -> None:
    """Of several that find the same row wanting, one writes; and only what was read is deleted."""
    rows: Any = SealedTable(database, kind.row)
    first, second, third = (kind.make(1, payload=payload) for payload in (b"1", b"2", b"3"))
    added = [await rows.add(each, instead_of=None) for each in (first, second)]
    added += [await rows.add(each, instead_of=first) for each in (second, third)]
    assert added == [True, False, True, False]
    await rows.put([kind.make(2)])
    await rows.discard(first)
    assert await all_of(rows) == sorted([second, kind.make(2)])
    await rows.discard(second)
    assert await all_of(rows) == [kind.make(2)]


async def test_a_use_that_cannot_be_stamped_fails_nothing(sqlite_database: Database, kind: Kind) -> None:
    """The database may become unavailable between reading and stamping."""

    def refuse_updates(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE"):
            raise sa.exc.OperationalError(statement, None, sqlite3.OperationalError("disk I/O error"))

    sa.event.listen(sqlite_database._engine.sync_engine, "before_cursor_execute", refuse_updates)
    rows: Any = SealedTable(sqlite_database, kind.row)
    await rows.put([created := kind.make(1, now=0)])
    rows.stamp([created])
    await sqlite_database.aclose()
    assert await all_of(rows) == [created]


async def test_no_stamps_gather_behind_a_slow_database(
    sqlite_database: Database, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so much under way, a use is stamped the next time."""
    monkeypatch.setattr(table_module, "MAX_STAMPS", 1)
    rows: Any = SealedTable(sqlite_database, kind.row, clock=Clock())
    await rows.put([first := kind.make(1, now=0), second := kind.make(2, now=0)])
    for each in (first, second):
        rows.stamp([each])
    await sqlite_database.aclose()
    assert await all_of(rows) == [first._replace(last_used=NOW), second]
    rows.stamp([second])
    await sqlite_database.aclose()
    assert await all_of(rows) == [each._replace(last_used=NOW) for each in (first, second)]


async def test_a_put_waits_behind_a_hanging_one_for_no_longer_than_its_limit(
    sqlite_database: Database, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer goes on without its markers; what was given to write is written when that is possible again."""
    rows: Any = SealedTable(sqlite_database, kind.row)
    with monkeypatch.context() as patched:
        patched.setattr(Database, "limit_seconds", 0.01)
        async with rows._writing:
            with pytest.raises(StoreUnavailable, match="The database cannot be reached"):
                await rows.put([created := kind.make(1)])
    await sqlite_database.aclose()
    assert await all_of(rows) == [created]


async def test_a_database_that_cannot_be_opened_is_unavailable(
    unavailable_database: Database, kind: Kind
) -> None:
    """For each that reads, writes or deletes; what is loaded is unavailable."""
    rows: Any = SealedTable(unavailable_database, kind.row)
    works = [rows.find("ada", ["1"]), rows.put([kind.make(1)]), rows.add(kind.make(1), instead_of=None)]
    if kind.row is SealedRow:
        artifacts = SqlRows(unavailable_database)
        works.append(artifacts.delete("ada", ["1"]))
        assert await artifacts.load("ada", ["1"]) == {"1": None}
    for work in works:
        with pytest.raises(StoreUnavailable):
            await work


class TestSqlite(StoreContract):
    @pytest.fixture
    def rows(self, sqlite_database: Database) -> RowStore:
        return sql_rows(sqlite_database)


@pytest.mark.servers
class TestPostgres(StoreContract):
    @pytest.fixture
    def rows(self, postgres_database: Database) -> RowStore:
        return sql_rows(postgres_database)


async def test_loaded_artifacts_are_stamped(sqlite_database: Database) -> None:
    """And those that cannot be loaded are unavailable."""
    rows = SqlRows(sqlite_database, clock=lambda: NOW)
    await rows.put([old := row(1, now=0), row(2)])
    assert await rows.load("ada", [old.id]) == {old.id: old}
    await sqlite_database.aclose()
    assert await rows.load("ada", [old.id]) == {old.id: old._replace(last_used=NOW)}


async def test_a_failing_put_leaves_nothing(sqlite_database: Database) -> None:
    """All rows of a put are written in one transaction; the error says why, without what was to be written."""
    rows = sql_rows(sqlite_database)
    with pytest.raises(StoreError, match=r"\(IntegrityError: .*NOT NULL constraint failed: .*payload\)$"):
        await rows.put([row(1), row(2)._replace(payload=None)])  # type: ignore[arg-type]
    assert await rows.load("ada", [row(1).id]) == {}


async def test_a_put_is_one_statement_compiled_once(database: Database) -> None:
    """And one transaction; the second put finds what SQLAlchemy made of the first."""
    rows = sql_rows(database)
    await rows.put([row(0)])  # creates the tables
    statements, commits = watch(database, "before_cursor_execute"), watch(database, "commit")
    for number in (1, 2):
        await rows.put([row(number)])
    assert [details[2].split()[:2] for details in statements] == [["INSERT", "INTO"]] * 2
    assert statements[0][4].compiled is statements[1][4].compiled
    assert len(commits) == 2


async def test_puts_at_once_share_a_transaction(database: Database) -> None:
    """Fifty of them are written together, and each returns when its rows are durable."""
    rows = sql_rows(database)
    await rows.put([row(0)])  # creates the tables
    commits = watch(database, "commit")

    async def put(number: int) -> int:
        await rows.put([row(number, user_id=f"user{number % 7}")])
        return len(await rows.load(f"user{number % 7}", [row(number).id]))

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
    assert found.keys() == {row(number).id for number in (1, 2, 5)}


async def open_impatient(path: Path, timeout_seconds: float) -> Database:
    """A database with a row in it that leaves the waiting for other writers to the store's own retries."""
    database = open_database(f"sqlite:///{path}", timeout_seconds=timeout_seconds)
    await sql_rows(database).put([row(1)])

    def wait_for_nobody(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA busy_timeout=0")

    sa.event.listen(database._engine.sync_engine, "begin", wait_for_nobody)
    return database


def lock(path: Path) -> closing[sqlite3.Connection]:
    """Another writer, who has begun."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return closing(other)


async def test_writing_waits_for_another_writer(tmp_path: Path) -> None:
    """A database that is locked for a while delays a put, and does not fail it."""
    failures: list[str] = []
    async with aclosing(await open_impatient(tmp_path / "rows.db", timeout_seconds=60)) as database:
        with lock(tmp_path / "rows.db") as other:

            def unlock_after_two(context: Any) -> None:
                failures.append(str(context.original_exception))
                if len(failures) == 2:
                    other.execute("COMMIT")

            sa.event.listen(database._engine.sync_engine, "handle_error", unlock_after_two)
            await sql_rows(database).put([row(2)])
        assert failures == ["database is locked"] * 2
        assert len(await sql_rows(database).load("ada", [row(1).id, row(2).id])) == 2


async def test_waiting_for_another_writer_ends(tmp_path: Path) -> None:
    """After the time limit nothing is tried again: the database is unavailable for writers, not for readers."""
    async with aclosing(await open_impatient(tmp_path / "rows.db", timeout_seconds=0)) as database:
        with lock(tmp_path / "rows.db"):
            failures = watch(database, "handle_error")
            with pytest.raises(StoreUnavailable):
                await sql_rows(database).put([row(2)])
            assert len(failures) == 1
            assert len(await sql_rows(database).load("ada", [row(1).id])) == 1


async def test_the_first_load_of_a_worker_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    """Tables that exist need no lock."""
    await (await open_impatient(tmp_path / "rows.db", timeout_seconds=60)).aclose()
    with lock(tmp_path / "rows.db"):
        async with aclosing(open_database(f"sqlite:///{tmp_path}/rows.db")) as database:
            assert (await sql_rows(database).load("ada", [row(1).id])).keys() == {row(1).id}


def test_other_databases_are_refused() -> None:
    """Only SQLite and PostgreSQL are supported; any other raises as soon as the store is made."""

    class Engine:
        class dialect:  # noqa: N801 - SQLAlchemy's attribute
            name = "mysql"

    with pytest.raises(ConfigurationError):
        Database(Engine())  # type: ignore[arg-type]
