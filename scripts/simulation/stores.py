"""Where a world's workers keep what they store: in this process, or on a real PostgreSQL and Redis.

In this process everything repeats. On servers the same stories are run, and the same laws judge a copy of the rows;
what comes when is the servers' matter there, so that a seed need not repeat. Faults strike both alike.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import redis
import sqlalchemy as sa
from psycopg.sql import SQL, Identifier
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisLost
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.util import await_only

from open_webui_openrouter_pipe.store.database import Database

from .services import RedisServer
from .sqlite import Driver

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from .faults import Faults

Hook = Callable[[str, Any, str], Awaitable[None]]
MIRRORED = ("audit", "artifact", "hold", "ledger", "prompt", "summary", "usage")
"""The tables that the laws read."""


@dataclass(slots=True)
class Store:
    """One worker's database and Redis, and how they end with it."""

    database: Database
    redis: Any
    kill: Callable[[], None]


class Stores(Protocol):
    """Those of all workers."""

    def of(self, worker: str) -> Store:
        """A worker's, from its start on."""

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement of SQLite finds, whatever the workers' connections do."""

    async def aclose(self) -> None:
        """Leave nothing open."""


class InProcess:
    """A file of SQLite and a Redis that is a dictionary."""

    def __init__(
        self, folder: Path, clock: Callable[[], float], faults: Faults, chance: Random, hook: Hook
    ) -> None:
        self._path, self._clock, self._hook = folder / "rows.db", clock, hook
        self._redis = RedisServer(faults, clock, chance)
        self._sql: sqlite3.Connection | None = None
        self._drivers: list[Driver] = []

    def of(self, worker: str) -> Store:
        """A worker's, from its start on."""
        driver, redis = Driver(self._path, worker, self._clock, self._hook), self._redis.client(worker)

        self._drivers.append(driver)

        def kill() -> None:
            driver.kill()
            redis.kill()

        return Store(Database(driver.engine()), redis, kill)

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement finds."""
        self._sql = self._sql or sqlite3.connect(self._path)
        return self._sql.execute(statement, values).fetchall()

    async def aclose(self) -> None:
        """Leave nothing open."""
        for driver in self._drivers:
            driver.kill()
        if self._sql:
            self._sql.close()


class OnServers:
    """A schema of a PostgreSQL and the database of a Redis, which nobody else uses meanwhile."""

    def __init__(
        self, postgres_url: str, redis_url: str, clock: Callable[[], float], faults: Faults, hook: Hook
    ) -> None:
        self._postgres_url, self._redis_url = postgres_url, redis_url
        self._clock, self._faults, self._hook = clock, faults, hook
        self._databases: list[Database] = []
        self._clients: list[Redis] = []
        self._running = 0
        self._rows = sqlite3.connect(":memory:")
        self._numbers: dict[tuple[str, object], int] = {}
        self._sql = psycopg.connect(postgres_url, autocommit=True)
        with redis.Redis.from_url(redis_url) as client:
            client.flushdb()
        tables = self._sql.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'openrouter_pipe_%'")
        for (name,) in tables.fetchall():
            self._sql.execute(SQL("DROP TABLE {}").format(Identifier(name)))

    def is_waited_for(self) -> bool:
        """Whether one of the servers has something to answer: no timer may overtake it."""
        return self._running > 0 or any(database._tasks for database in self._databases)  # noqa: SLF001

    def of(self, worker: str) -> Store:
        """A worker's, from its start on."""
        engine = create_async_engine(self._postgres_url.replace("postgresql:", "postgresql+psycopg:"))
        is_dead, connections = False, list[Any]()

        def connected(connection: Any, _: Any) -> None:
            connections.append(connection.driver_connection)

        def kill() -> None:
            nonlocal is_dead
            is_dead = True
            for connection in connections:
                connection.pgconn.finish()

        async def strike(kind: str, statement: str) -> None:
            if is_dead:
                raise asyncio.CancelledError
            try:
                await self._hook(worker, kind, statement)
            except sqlite3.OperationalError as error:
                raise sa.exc.OperationalError(statement, {}, psycopg.OperationalError(str(error))) from error

        def executing(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            await_only(strike("execute", statement))

        commit = engine.dialect.do_commit

        def committing(connection: Any) -> None:
            await_only(strike("commit", ""))
            commit(connection)
            await_only(strike("committed", ""))

        engine.dialect.do_commit = committing  # type: ignore[assignment, method-assign]
        sa.event.listen(engine.sync_engine, "before_cursor_execute", executing)
        sa.event.listen(engine.sync_engine, "connect", connected)
        database = Database(engine)
        now = sa.bindparam("sim_now", callable_=lambda: int(self._clock()), type_=sa.BigInteger)
        database.now = sa.cast(now, sa.BigInteger)  # type: ignore[misc]  # the world's time instead of the server's
        self._databases.append(database)
        client = Redis.from_url(self._redis_url)
        self._clients.append(client)
        return Store(database, _Client(self, worker, client, lambda: is_dead), kill)

    async def asked(self, worker: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Ask Redis something, unless a fault strikes."""
        struck = self._faults.take("redis", worker)
        if struck and struck["how"] != "unheard":
            raise RedisLost("Connection closed by server.")
        self._running += 1
        try:
            found = await work()
        finally:
            self._running -= 1
        if struck:
            raise RedisLost("Connection closed by server.")
        return found

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """What a statement finds."""
        self._mirror()
        return self._rows.execute(statement, values).fetchall()

    def _mirror(self) -> None:
        """Copy the rows; one that was there keeps its number."""
        for name in MIRRORED:
            table = f"openrouter_pipe_{name}"
            found = self._sql.execute(SQL("SELECT * FROM {}").format(Identifier(table)))
            columns = [column.name for column in found.description or ()]
            key = columns.index("id") if "id" in columns else None
            self._rows.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
            self._rows.execute(f"DELETE FROM {table}")  # noqa: S608 - one of the tables
            numbered = [
                (self._number(name, at if key is None else row[key]), *row) for at, row in enumerate(found)
            ]
            names = f"{table} (rowid, {', '.join(columns)})"
            values = f"VALUES (?{', ?' * len(columns)})"
            self._rows.executemany(
                f"INSERT INTO {names} {values}", [tuple(map(_plain, row)) for row in numbered]
            )

    def _number(self, table: str, name: object) -> int:
        return self._numbers.setdefault((table, name), len(self._numbers) + 1)

    async def aclose(self) -> None:
        """Close what workers have left open."""
        self._sql.close()
        for database in self._databases:
            with suppress(Exception):
                await database._engine.dispose()  # noqa: SLF001 - its owner
        for client in self._clients:
            with suppress(Exception):
                await client.aclose()


class _Client:
    """A worker's client of the real Redis."""

    def __init__(self, stores: OnServers, worker: str, client: Redis, is_dead: Callable[[], bool]) -> None:
        self._stores, self._worker, self._client, self._is_dead = stores, worker, client, is_dead

    async def mget(self, names: list[str]) -> Any:
        """What the names hold."""
        return await self._ask(lambda: self._client.mget(names))

    def pipeline(self, *, transaction: bool) -> Any:
        """Commands that are sent together."""
        pipeline = self._client.pipeline(transaction=transaction)
        execute = pipeline.execute
        pipeline.execute = lambda *_: self._ask(execute)  # type: ignore[method-assign]
        return pipeline

    async def _ask(self, work: Callable[[], Any]) -> Any:
        if self._is_dead():
            raise asyncio.CancelledError
        return await self._stores.asked(self._worker, work)


def _plain(value: Any) -> Any:
    """A value as SQLite has it: JSON as text."""
    return json.dumps(value) if isinstance(value, dict | list) else value
