"""The tables: created once by whoever comes first, in the host's schema, and never changed by an older release."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.schema import create_tables, define_tables
from scripts.harness.database import open_database
from tests.store.contract import row, sql_rows

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer
    from tests.store.workers import Servers

pytestmark = pytest.mark.anyio

VERSION = define_tables(None).count()


async def found_in(database: Database) -> dict[str, tuple[list[str], list[str]]]:
    """The columns that may not be null and the indexes of the schema's tables, as the database has them."""
    schema = database.tables.version.schema

    def inspect(connection: sa.Connection) -> dict[str, tuple[list[str], list[str]]]:
        found = sa.inspect(connection)
        return {
            name: (
                sorted(each["name"] for each in found.get_columns(name, schema) if not each["nullable"]),
                sorted(str(each["name"]) for each in found.get_indexes(name, schema)),
            )
            for name in found.get_table_names(schema)
        }

    return await database.run(lambda connection: connection.run_sync(inspect))


def expected() -> dict[str, tuple[list[str], list[str]]]:
    """The same, as the queries rely on them."""
    tables = define_tables(None).version.metadata.sorted_tables
    return {
        table.name: (sorted(table.c.keys()), sorted(str(index.name) for index in table.indexes))
        for table in tables
    }


async def versions(database: Database) -> list[int]:
    """What the version table holds."""
    return [version for (version,) in await database.fetch(sa.select(database.tables.version.c.version))]


async def test_the_tables_are_created_at_first_use(database: Database) -> None:
    """With the columns that the queries rely on, at this release's version; creating them again changes nothing."""
    await sql_rows(database).put([row(1)])
    await database.run(lambda connection: connection.run_sync(create_tables, database.tables))
    assert (await found_in(database), await versions(database)) == (expected(), [VERSION])


@pytest.mark.servers
async def test_postgres_stores_payloads_uncompressed(postgres_database: Database) -> None:
    """Sealed bytes do not compress, and rows of a few kilobytes stay in one piece."""
    await postgres_database.fetch(sa.select(postgres_database.tables.version))
    tables = postgres_database.tables
    storage = "SELECT attstorage FROM pg_attribute WHERE attrelid = '{}'::regclass AND attname = 'payload'"
    for table in (tables.artifact, tables.summary, tables.prompt):
        [(found,)] = await postgres_database.fetch(sa.text(storage.format(table.fullname)))
        assert found in ("e", b"e")
    options = f"SELECT reloptions FROM pg_class WHERE oid = '{tables.artifact.fullname}'::regclass"
    [(found,)] = await postgres_database.fetch(sa.text(options))
    assert found == ["toast_tuple_target=8160"]


async def test_the_database_of_a_later_release_is_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Going back to an older release of the pipe changes no table, and the log says so once."""
    later = open_database(f"sqlite:///{tmp_path}/rows.db")
    await sql_rows(later).put([row(1)])
    await later.change(later.tables.version.insert().values(version=VERSION + 1))
    await later.change(sa.text("DROP TABLE openrouter_pipe_audit"))
    await later.aclose()
    this = open_database(f"sqlite:///{tmp_path}/rows.db")
    assert (await sql_rows(this).load("ada", [row(1).id])).keys() == {row(1).id}
    assert (await found_in(this)).keys() == expected().keys() - {"openrouter_pipe_audit"}
    assert await versions(this) == [VERSION, VERSION + 1]
    lines = [line for line in caplog.messages if "of a later release" in line]
    assert [f"version {VERSION + 1}, and this one knows {VERSION}" in line for line in lines] == [True]
    await this.aclose()


async def test_what_an_earlier_version_lacks_is_added(database: Database) -> None:
    """Tables, indexes, and columns with a value for the rows that are there, and that an earlier release writes."""
    tables, added = database.tables, ("break_position", "lost_tokens", "lost_cost")
    known = {
        column.name: 0 if isinstance(column.type, sa.BigInteger | sa.Double | sa.Boolean) else ""
        for column in tables.audit.columns
        if column.server_default is None
    }
    earlier = tables.audit.insert().values({**known, "steps": [], "rejected": False, "pruned": False})
    await database.change(earlier, [{"id": "one"}])
    schema = f'"{tables.audit.schema}".' if tables.audit.schema else ""
    for statement in (
        *(f"ALTER TABLE {tables.audit.fullname} DROP COLUMN {column}" for column in added),
        f"DROP TABLE {tables.summary.fullname}",
        f"DROP INDEX {schema}ix_openrouter_pipe_audit_user_id",
    ):
        await database.change(sa.text(statement))
    await database.change(tables.version.update().values(version=VERSION - 1))
    await database.run(lambda connection: connection.run_sync(create_tables, tables))
    assert (await found_in(database), await versions(database)) == (expected(), [VERSION - 1, VERSION])
    await database.change(earlier, [{"id": "two"}])
    rows = await database.fetch(sa.select(*(tables.audit.c[name] for name in ("id", *added))))
    assert sorted(map(tuple, rows)) == [("one", "", 0, 0.0), ("two", "", 0, 0.0)]


async def test_a_table_that_cannot_be_created_costs_the_others_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Artifacts are kept though the audit has no table; the log says at ERROR which one and what to do.

    The version stays behind, so the next start tries again.
    """
    with closing(sqlite3.connect(tmp_path / "rows.db")) as other:
        other.execute("CREATE TABLE somebodys (id)")
        other.execute("CREATE INDEX ix_openrouter_pipe_audit_user_id ON somebodys (id)")
        other.commit()
    database = open_database(f"sqlite:///{tmp_path}/rows.db")
    await sql_rows(database).put([row(1)])
    assert (await sql_rows(database).load("ada", [row(1).id])).keys() == {row(1).id}
    refused = {"openrouter_pipe_audit"}
    assert (await found_in(database)).keys() == {"somebodys"} | (expected().keys() - refused)
    assert [(record.levelname, record.getMessage().partition(" cannot")[0]) for record in caplog.records] == [
        ("ERROR", "The table openrouter_pipe_audit")
    ]
    assert await versions(database) == []
    await database.change(sa.text("DROP TABLE somebodys"))
    await database.aclose()
    again = open_database(f"sqlite:///{tmp_path}/rows.db")
    assert (await versions(again), await found_in(again)) == ([VERSION], expected())
    await again.aclose()


@pytest.mark.parametrize("column", ["generation", "pruned", "saved", "estimated"])
async def test_bills_are_written_without_the_columns_that_cannot_be_added(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    """The audit lacks one, and its index is refused; a bill replaces its estimate, and the sums are right."""
    before = open_database(f"sqlite:///{tmp_path}/rows.db")
    await versions(before)
    for statement in (
        f"ALTER TABLE openrouter_pipe_audit DROP COLUMN {column}",
        "DROP INDEX ix_openrouter_pipe_audit_user_id",
        "CREATE TABLE somebodys (id)",
        "CREATE INDEX ix_openrouter_pipe_audit_user_id ON somebodys (id)",
        "DELETE FROM openrouter_pipe_schema",
    ):
        await before.change(sa.text(statement))
    await before.aclose()
    database = open_database(f"sqlite:///{tmp_path}/rows.db")
    ledger = SpendingLedger(database)
    estimate = Bill(id="one", user_id="ada", chat_id="chat", cost=0.5, estimated=True, accounts=("all",))
    for bill in (estimate, replace(estimate, cost=2.0, estimated=False)):
        await ledger.enter([bill])
    query = sa.text("SELECT id, cost FROM openrouter_pipe_audit")
    cost = 0.5 if column == "estimated" else 2.0
    assert [*map(tuple, await database.fetch(query))] == [("one", cost)]
    assert (await ledger.of_chat("ada", "chat")).cost == cost
    assert "Let Open WebUI's database user create and alter tables" in caplog.text
    await database.aclose()


@pytest.mark.servers
async def test_a_user_who_may_create_nothing_still_reads_and_writes(
    postgres_server: PostgresServer, postgres_schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After an update that brings a table, the tables that are there serve, and the log says what to do."""
    earlier = open_database(postgres_server.url, schema=postgres_schema)
    await sql_rows(earlier).put([row(1)])
    await earlier.change(sa.update(earlier.tables.version).values(version=VERSION - 1))
    await earlier.change(sa.text(f'DROP TABLE "{postgres_schema}".openrouter_pipe_summary'))
    role = f"poor_{postgres_schema}"
    for statement in (
        f"CREATE ROLE {role} LOGIN",
        f'GRANT USAGE ON SCHEMA "{postgres_schema}" TO {role}',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{postgres_schema}" TO {role}',
    ):
        await earlier.change(sa.text(statement))
    await earlier.aclose()
    poor = open_database(
        postgres_server.url.replace("postgres@", f"{role}@"), schema=postgres_schema, read_seconds=60
    )
    await sql_rows(poor).put([row(2)])
    assert (await sql_rows(poor).load("ada", [row(1).id, row(2).id])).keys() == {row(1).id, row(2).id}
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "openrouter_pipe_summary cannot be created or changed" in caplog.text
    await poor.aclose()


async def test_workers_may_start_at_once(servers: Servers) -> None:
    """Of eight workers one creates the tables, and the others wait for it."""
    workers = [open_database(servers.database_url, schema=servers.schema) for _ in range(8)]
    await asyncio.gather(*(sql_rows(each).put([row(number)]) for number, each in enumerate(workers)))
    ids = [row(number).id for number in range(8)]
    assert [len(await sql_rows(each).load("ada", ids)) for each in workers] == [8] * 8
    for each in workers:
        await each.aclose()
