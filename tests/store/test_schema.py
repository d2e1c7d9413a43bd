"""The tables: created once by whoever comes first, in the host's schema, and never changed by an older release."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.schema import VERSION, create_tables, define_tables
from tests.store.contract import row, sql_rows

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
def database(request: pytest.FixtureRequest) -> Database:
    """Each test runs on both databases."""
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


async def columns_in(database: Database) -> dict[str, set[str]]:
    """The columns of the store's tables, as the database has them."""
    schema = database.tables.version.schema

    def inspect(connection: sa.Connection) -> dict[str, set[str]]:
        inspector = sa.inspect(connection)
        return {
            name: {
                f"{column['name']} {'' if column['nullable'] else 'NOT NULL'}"
                for column in inspector.get_columns(name, schema)
            }
            for name in inspector.get_table_names(schema)
        }

    return await database.run(lambda connection: connection.run_sync(inspect))


def expected_columns() -> dict[str, set[str]]:
    """The columns that the queries rely on."""
    known = define_tables(None)
    return {
        table.name: {f"{column.name} {'' if column.nullable else 'NOT NULL'}" for column in table.c}
        for table in (getattr(known, field.name) for field in fields(known))
    }


def test_all_tables_have_our_prefix() -> None:
    """Nobody else's table in the host's database has such a name."""
    assert set(expected_columns()) == {
        f"openrouter_pipe_{name}"
        for name in ("artifact", "summary", "audit", "calibration", "lease", "schema")
    }


async def test_the_tables_are_created_at_first_use(database: Database) -> None:
    """With the columns that the queries rely on, at this release's version; creating them again changes nothing."""
    await sql_rows(database).put([row(1)])
    await database.run(lambda connection: connection.run_sync(create_tables, database.tables))
    assert await columns_in(database) == expected_columns()
    assert await versions(database) == [VERSION]


async def versions(database: Database) -> list[int]:
    """What the version table holds."""
    return [version for (version,) in await database.fetch(sa.select(database.tables.version.c.version))]


async def test_the_indexes_have_fixed_names(database: Database) -> None:
    """A later release can name them, whatever the host's schema is called."""
    await database.fetch(sa.select(database.tables.version))
    tables = database.tables

    def index_names(connection: sa.Connection) -> set[str | None]:
        found = sa.inspect(connection).get_indexes(tables.artifact.name, tables.artifact.schema)
        return {index["name"] for index in found}

    names = await database.run(lambda connection: connection.run_sync(index_names))
    assert names == {f"ix_openrouter_pipe_artifact_{column}" for column in ("chat_id", "last_used")}


@pytest.mark.servers
async def test_postgres_stores_payloads_uncompressed(postgres_database: Database) -> None:
    """Sealed bytes do not compress, and rows of a few kilobytes stay in one piece."""
    await postgres_database.fetch(sa.select(postgres_database.tables.version))
    names = {
        name: table.fullname
        for name, table in (
            ("artifact", postgres_database.tables.artifact),
            ("summary", postgres_database.tables.summary),
        )
    }
    storage = "SELECT attstorage FROM pg_attribute WHERE attrelid = '{}'::regclass AND attname = 'payload'"
    for name in names.values():
        [(found,)] = await postgres_database.fetch(sa.text(storage.format(name)))
        assert found in ("e", b"e")
    options = f"SELECT reloptions FROM pg_class WHERE oid = '{names['artifact']}'::regclass"
    [(found,)] = await postgres_database.fetch(sa.text(options))
    assert found == ["toast_tuple_target=8160"]


async def test_the_database_of_a_later_release_is_left_as_it_is(tmp_path: Path) -> None:
    """Going back to an older release of the pipe changes no table."""
    later = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    await sql_rows(later).put([row(1)])
    await later.change(later.tables.version.insert().values(version=VERSION + 1))
    await later.change(sa.text("DROP TABLE openrouter_pipe_audit"))
    await later.aclose()
    this = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    assert (await sql_rows(this).load("ada", [row(1).id])).rows.keys() == {row(1).id}
    assert (await columns_in(this)).keys() == expected_columns().keys() - {"openrouter_pipe_audit"}
    assert await versions(this) == [VERSION, VERSION + 1]
    await this.aclose()


async def test_tables_that_an_earlier_version_lacks_are_added(tmp_path: Path) -> None:
    """What it has stays; the version is raised."""
    earlier = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    await sql_rows(earlier).put([row(1)])
    await earlier.change(earlier.tables.version.update().values(version=VERSION - 1))
    await earlier.change(sa.text("DROP TABLE openrouter_pipe_audit"))
    await earlier.aclose()
    this = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    assert (await sql_rows(this).load("ada", [row(1).id])).rows.keys() == {row(1).id}
    assert await columns_in(this) == expected_columns()
    assert await versions(this) == [VERSION - 1, VERSION]
    await this.aclose()


async def start_at_once(url: str, schema: str | None) -> list[int]:
    """Let eight workers use a new database at once; return how many rows each of them finds at the end."""
    workers = [Database.from_url(url, schema=schema) for _ in range(8)]
    await asyncio.gather(*(sql_rows(each).put([row(number)]) for number, each in enumerate(workers)))
    ids = [row(number).id for number in range(8)]
    found = [len((await sql_rows(each).load("ada", ids)).rows) for each in workers]
    for each in workers:
        await each.aclose()
    return found


async def test_workers_may_start_at_once_on_sqlite(tmp_path: Path) -> None:
    """One of them creates the tables, the others wait for it."""
    assert await start_at_once(f"sqlite:///{tmp_path}/rows.db", None) == [8] * 8


@pytest.mark.servers
async def test_workers_may_start_at_once_on_postgres(
    postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """One of them creates the tables, the others wait for it."""
    assert await start_at_once(postgres_server.url, postgres_schema) == [8] * 8


@pytest.mark.servers
async def test_the_hosts_schema_is_respected(postgres_database: Database) -> None:
    """Nothing is created outside the schema that the host uses."""
    await sql_rows(postgres_database).put([row(1)])
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'openrouter%'"
    [(found,)] = await postgres_database.fetch(sa.text(count))
    assert found == 0
    assert await columns_in(postgres_database) == expected_columns()
