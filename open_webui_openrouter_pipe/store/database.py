"""Keeps cancellations from getting lost inside drivers.

Some turn a cancellation into an error of their own, or give back the answer that arrived with it. Whoever waits
for the cancelled task would then wait for ever.

What SQLite and PostgreSQL say differently when a query names a list of texts.

A list travels as one parameter (JSON for SQLite, an array for PostgreSQL): no list is too long for the database,
and the statement is the same for every length, so that drivers can keep it prepared.

The database as the store sees it: one transaction at a time, with limits, patience and our errors.

Owns the engine's use, the tables' creation at first use, retries of what only had to wait for another writer,
and the translation of SQLAlchemy's errors. It knows no artifact.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ..errors import ConfigurationError, StoreError, StoreUnavailable
from .schema import migrate, tables


@contextmanager
def passing_cancellation() -> Iterator[None]:
    """End with CancelledError if the current task was cancelled inside, whatever else happened there."""
    before = _cancellations()
    try:
        yield
    finally:
        if _cancellations() > before:
            raise asyncio.CancelledError


def _cancellations() -> int:
    """How often the current task was asked to end and has not said that it will go on."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a column is compared with the parameter `ids`, and how that parameter is made of a list."""

    is_one_of: Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]
    id_list: Callable[[Sequence[str]], Any]


def _in_json(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return column.in_(sa.text("SELECT value FROM json_each(:ids)"))


def _in_array(column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return column == sa.any_(sa.bindparam("ids", type_=ARRAY(sa.Text)))


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {"sqlite": Dialect(_in_json, json.dumps), "postgresql": Dialect(_in_array, list)}
)


TIMEOUT_SECONDS: Final = 15.0

_RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
_BUSY_SQLITE_MILLISECONDS: Final = 5000
_ASYNC_DRIVERS: Final = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}
# PostgreSQL: serialization failure, deadlock detected.
_PASSING_SQLSTATES: Final = frozenset({"40001", "40P01"})

_READING: Final[dict[str, dict[str, Any]]] = {
    "sqlite": {},
    "postgresql": {"isolation_level": "AUTOCOMMIT"},
}

Answer = TypeVar("Answer")
Connect = Callable[[], AbstractAsyncContextManager[AsyncConnection]]


class Database:
    """An AsyncEngine with the store's tables in it (SQLite or PostgreSQL).

    The engine stays its owner's; only one made by `from_url` is disposed by `aclose`.
    """

    def __init__(
        self, engine: AsyncEngine, *, schema: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        if engine.dialect.name not in _READING:
            raise ConfigurationError(
                "Artifacts cannot be stored: the database is neither SQLite nor PostgreSQL.",
                detail=engine.dialect.name,
            )
        self.tables: Final = tables(schema)
        self.dialect: Final = engine.dialect.name
        self._engine = engine
        # A single query needs no transaction; PostgreSQL would take two more round trips for it.
        self._reader = engine.execution_options(**_READING[self.dialect])
        self._schema = schema
        self._timeout_seconds = timeout_seconds
        self._ready = False
        self._preparing = asyncio.Lock()
        self._owned = False
        self._working: set[asyncio.Task[Any]] = set()

    @classmethod
    def from_url(
        cls, url: str, *, schema: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Self:
        """Open a database outside the host; `sqlite:` and `postgresql:` addresses get their async drivers."""
        scheme, separator, rest = url.partition("://")
        engine = create_async_engine(f"{_ASYNC_DRIVERS.get(scheme, scheme)}{separator}{rest}")
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine.sync_engine, "connect", _tune_sqlite)
        database = cls(engine, schema=schema, timeout_seconds=timeout_seconds)
        database._owned = True
        return database

    async def run(self, work: Callable[[AsyncConnection], Awaitable[Answer]]) -> Answer:
        """Do the work in one transaction, again if another writer was in the way.

        Raises StoreUnavailable when the database is away, too busy or too slow, and StoreError when it
        refuses the values.
        """
        return await self._guarded(self._engine.begin, work)

    async def read(self, work: Callable[[AsyncConnection], Awaitable[Answer]]) -> Answer:
        """Do the work, which is a single query. Raises as `run` does."""
        return await self._guarded(self._reader.connect, work)

    async def change(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> int:
        """Execute the statement in a transaction of its own; how many rows it changed. Raises as `run` does."""

        async def work(connection: AsyncConnection) -> int:
            # SQLAlchemy counts updates and deletions by itself, but not insertions.
            options = {"preserve_rowcount": True}
            return (await connection.execute(statement, values, execution_options=options)).rowcount

        return await self.run(work)

    async def _guarded(
        self, connect: Connect, work: Callable[[AsyncConnection], Awaitable[Answer]]
    ) -> Answer:
        """Work in a task of its own: who is cancelled leaves at once, and no driver loses a connection by that."""
        task = asyncio.create_task(self._work(connect, work))
        self._working.add(task)
        task.add_done_callback(self._worked)
        return await asyncio.shield(task)

    async def _work(self, connect: Connect, work: Callable[[AsyncConnection], Awaitable[Answer]]) -> Answer:
        deadline = time.monotonic() + self._timeout_seconds
        # SQLite works in a thread that cannot be interrupted; its own busy timeout ends each attempt.
        interrupt_after = None if self.dialect == "sqlite" else self._timeout_seconds
        try:
            async with asyncio.timeout(interrupt_after):
                await self._prepare(deadline)
                return await _retry(connect, work, deadline)
        except (DataError, IntegrityError) as error:
            raise StoreError("An item could not be stored.", detail=_first_line(error)) from error
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            raise StoreUnavailable("The database cannot be reached.", detail=_first_line(error)) from error

    def _worked(self, task: asyncio.Task[Any]) -> None:
        """Forget the task; what it raised after its caller had left is nobody's any more."""
        self._working.discard(task)
        if not task.cancelled():
            task.exception()

    def adding(self, table: sa.Table) -> sa.Executable:
        """An insert that leaves a row with the same primary key as it is."""
        statement: sa.Executable = self._insert(table).on_conflict_do_nothing()
        return statement

    def replacing(self, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> sa.Executable:
        """An insert that replaces the row with the same primary key, if the conditions hold for that row."""
        insert = self._insert(table)
        values = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
        keys = list(table.primary_key)
        statement: sa.Executable = insert.on_conflict_do_update(
            index_elements=keys, set_=values, where=sa.and_(*conditions) if conditions else None
        )
        return statement

    def _insert(self, table: sa.Table) -> Any:
        return postgresql.insert(table) if self.dialect == "postgresql" else sqlite.insert(table)

    async def aclose(self) -> None:
        """Let what is under way end, and close the connections of an engine that is our own."""
        if self._working:
            await asyncio.wait(self._working)
        if self._owned:
            await self._engine.dispose()

    async def _prepare(self, deadline: float) -> None:
        if self._ready:
            return
        async with self._preparing:
            if not self._ready:
                await _retry(self._engine.begin, self._migrate, deadline)
                self._ready = True

    async def _migrate(self, connection: AsyncConnection) -> None:
        await connection.run_sync(migrate, self._schema)


async def _retry(
    connect: Connect, work: Callable[[AsyncConnection], Awaitable[Answer]], deadline: float
) -> Answer:
    """Do the work in a connection, again for a few times, or until the deadline, if that may help."""
    delays_seconds = iter(_RETRY_DELAYS_SECONDS)
    while True:
        try:
            async with connect() as connection:
                return await work(connection)
        except DBAPIError as error:
            delay_seconds = next(delays_seconds, None)
            if delay_seconds is None or time.monotonic() > deadline or not _will_pass(error):
                raise
        await asyncio.sleep(delay_seconds)


def _will_pass(error: DBAPIError) -> bool:
    """Whether another writer was in the way (SQLite's lock, PostgreSQL's deadlock) or the connection was stale."""
    passing = getattr(error.orig, "sqlstate", None) in _PASSING_SQLSTATES
    return passing or error.connection_invalidated or "locked" in str(error.orig)


def _tune_sqlite(connection: Any, _record: Any) -> None:
    """Set what Open WebUI sets for its own database: readers do not wait, writers wait for each other."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_SQLITE_MILLISECONDS}")
    cursor.close()


def _first_line(error: BaseException) -> str:
    """The error without SQLAlchemy's copy of statement and parameters, which hold payloads."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return f"{type(original).__name__}: {str(original).partition(chr(10))[0]}"
