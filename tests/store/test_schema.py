"""The tables: made once by whoever comes first, moved forward by migrations, in the host's schema."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from open_webui_openrouter_pipe.planning.audit import AuditRow
from open_webui_openrouter_pipe.ports import Audited
from open_webui_openrouter_pipe.store.audit import AuditLog
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.rows import SqlRows
from open_webui_openrouter_pipe.store.schema import MIGRATIONS, Migration, migrate, tables
from tests.store.contract import row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy.ext.asyncio import AsyncConnection

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio

ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
LATER = (
    *MIGRATIONS,
    Migration(
        ("ALTER TABLE {artifact} ADD COLUMN note TEXT", "UPDATE {artifact} SET note = 'from version one'")
    ),
    Migration(("CREATE INDEX ix_openrouter_pipe_artifact_note ON {artifact} (note)",)),
)
"""What a later release might add."""


async def described(database: Database, schema: str | None) -> dict[str, set[str]]:
    """The columns of the store's tables, as the database has them."""

    def inspect(connection: sa.Connection) -> dict[str, set[str]]:
        inspector = sa.inspect(connection)
        names = inspector.get_table_names(schema)
        return {
            name: {
                f"{column['name']} {'' if column['nullable'] else 'NOT NULL'}"
                for column in inspector.get_columns(name, schema)
            }
            for name in names
        }

    return await database.run(lambda connection: connection.run_sync(inspect))


def expected(schema: str | None) -> dict[str, set[str]]:
    """The columns that the queries rely on."""
    known = tables(schema)
    return {
        table.name: {f"{column.name} {'' if column.nullable else 'NOT NULL'}" for column in table.c}
        for table in (getattr(known, field.name) for field in fields(known))
    }


async def move(connection: AsyncConnection, *, schema: str | None, migrations: Sequence[Migration]) -> None:
    """Bring the tables to the last of these versions."""
    await connection.run_sync(migrate, schema, migrations=migrations)


async def values(database: Database, chosen: sa.Select[Any]) -> list[Any]:
    """The only column of what is selected."""
    found = await database.run(lambda connection: connection.execute(chosen))
    return list(found.scalars())


async def check_migrating(database: Database, schema: str | None) -> None:
    """From the first version to a later one, with a row in it, in two steps and again."""
    await SqlRows(database).put([row(1)])
    assert await described(database, schema) == expected(schema)
    for migrations in (LATER[:-1], LATER, LATER):
        await database.run(partial(move, schema=schema, migrations=migrations))
    name = tables(schema)
    notes = await values(database, sa.select(sa.column("note")).select_from(name.artifact))
    versions = await values(database, sa.select(name.version.c.version))
    assert (notes, versions) == (["from version one"], [1, 2, 3, 4, 5])
    assert (await SqlRows(database).load("ada", [row(1).id])).rows.keys() == {row(1).id}


async def test_sqlite_moves_forward(sqlite_database: Database) -> None:
    """The tables are those the queries rely on, and later migrations keep the rows."""
    await check_migrating(sqlite_database, None)


@pytest.mark.servers
async def test_postgres_moves_forward(postgres_database: Database, postgres_schema: str) -> None:
    """The tables are those the queries rely on, and later migrations keep the rows."""
    await check_migrating(postgres_database, postgres_schema)


async def check_from_version(version: int, url: str, schema: str | None, *, before: str = "") -> Database:
    """A database that an earlier release made gets the tables of this one, and keeps its rows."""
    made = row(1)
    scheme, _, rest = url.partition("://")
    engine = create_async_engine(f"{ASYNC_DRIVERS[scheme]}://{rest}")
    async with engine.begin() as connection:
        await connection.run_sync(migrate, schema, migrations=MIGRATIONS[:version])
        await connection.execute(tables(schema).artifact.insert().values(made._asdict()))
        if before:
            await connection.exec_driver_sql(before)
    database = Database(engine, schema=schema)
    found = await SqlRows(database).load("ada", [made.id])
    versions = await values(database, sa.select(tables(schema).version.c.version))
    assert (found.rows, versions) == ({made.id: made}, [1, 2, 3])
    assert await described(database, schema) == expected(schema)
    return database


async def check_from_version_two(url: str, schema: str | None) -> None:
    """What was recorded of requests before there were summaries is read like what is recorded now."""
    table = f'"{schema}".turn_context_audit' if schema else "turn_context_audit"
    old = f"""
        INSERT INTO {table} VALUES (
            'id', 'ada', 'chat', 'message', 'vendor/model', 10000, 6976, 6500,
            9000, 8000, 7000, 6000, 5000, TRUE, FALSE, TRUE, FALSE, FALSE, 5100, 4000, 0.5, 1750000000
        )
    """
    database = await check_from_version(2, url, schema, before=old)
    expected_row = AuditRow(
        model="vendor/model",
        window_tokens=10_000,
        budget_tokens=6976,
        limit_tokens=6500,
        tokens_before=9000,
        tokens_after_cap=8000,
        tokens_after_retention=7000,
        tokens_after_summary=7000,
        tokens_after_prune=6000,
        tokens_after_landing=5000,
        retention_triggered=False,
        summary_triggered=True,
        prune_triggered=True,
        landing_triggered=False,
        overflow_rejected=False,
        billed_tokens=5100,
        cached_tokens=4000,
        cost=0.5,
    )
    log = AuditLog(database)
    log.write(new := Audited("id2", "ada", "chat", "message", replace(expected_row, purpose="summary")))
    await log.idle()
    assert await log.records() == [new, Audited("id", "ada", "chat", "message", expected_row)]
    await database._engine.dispose()


async def test_sqlite_moves_on_from_version_one(tmp_path: Path) -> None:
    """The tables that came later come to a database that has artifacts."""
    database = await check_from_version(1, f"sqlite:///{tmp_path}/rows.db", None)
    await database._engine.dispose()


async def test_sqlite_moves_on_from_version_two(tmp_path: Path) -> None:
    """Summaries get their table, and the audit its new columns."""
    await check_from_version_two(f"sqlite:///{tmp_path}/rows.db", None)


@pytest.mark.servers
async def test_postgres_moves_on_from_version_one(
    postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """The tables that came later come to a database that has artifacts."""
    database = await check_from_version(1, postgres_server.url, postgres_schema)
    await database._engine.dispose()


@pytest.mark.servers
async def test_postgres_moves_on_from_version_two(
    postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """Summaries get their table, and the audit its new columns."""
    await check_from_version_two(postgres_server.url, postgres_schema)


async def test_a_newer_database_is_left_as_it_is(tmp_path: Path) -> None:
    """Going back to an older release of the pipe changes no table."""
    newer = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    await newer.run(partial(move, schema=None, migrations=LATER))
    await newer.aclose()
    older = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    rows = SqlRows(older)
    await rows.put([row(1)])
    assert (await rows.load("ada", [row(1).id])).rows.keys() == {row(1).id}
    await older.aclose()


async def start_at_once(url: str, schema: str | None) -> list[int]:
    """Eight workers use a new database at the same moment; the rows that each of them finds at the end."""
    workers = [Database.from_url(url, schema=schema) for _ in range(8)]
    await asyncio.gather(*(SqlRows(each).put([row(number)]) for number, each in enumerate(workers)))
    ids = [row(number).id for number in range(8)]
    found = [len((await SqlRows(each).load("ada", ids)).rows) for each in workers]
    for each in workers:
        await each.aclose()
    return found


async def test_workers_may_start_at_once_on_sqlite(tmp_path: Path) -> None:
    """One of them makes the tables, the others wait for it."""
    assert await start_at_once(f"sqlite:///{tmp_path}/rows.db", None) == [8] * 8


@pytest.mark.servers
async def test_workers_may_start_at_once_on_postgres(
    postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """One of them makes the tables, the others wait for it."""
    assert await start_at_once(postgres_server.url, postgres_schema) == [8] * 8


@pytest.mark.servers
async def test_the_hosts_schema_is_respected(postgres_database: Database, postgres_schema: str) -> None:
    """Nothing is made outside the schema that the host uses."""
    await SqlRows(postgres_database).put([row(1)])
    found = await postgres_database.run(
        lambda connection: connection.execute(
            sa.text(
                "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'openrouter%'"
            )
        )
    )
    assert found.scalar() == 0
    assert await described(postgres_database, postgres_schema) == expected(postgres_schema)
