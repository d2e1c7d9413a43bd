"""Statements with retries, time limits and our errors, on SQLite and PostgreSQL; the tables are made at first use."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ..errors import ConfigurationError, StoreError, StoreUnavailable
from .schema import create_tables, define_tables

TIMEOUT_SECONDS: Final = 15.0

READ_SECONDS: Final = 5.0
"""How long a request waits for what it reads; then it goes on without."""

_RETRY_DELAYS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
# A single query needs no transaction; PostgreSQL would take two more round trips for it.
_READING_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "sqlite": {},
    "postgresql": {"isolation_level": "AUTOCOMMIT"},
}
# The database's own time in whole seconds since the epoch, the same for all workers.
_NOW: Final[dict[str, sa.ColumnElement[int]]] = {
    "sqlite": sa.cast(sa.func.strftime("%s", "now"), sa.BigInteger),
    "postgresql": sa.cast(sa.func.floor(sa.extract("epoch", sa.func.now())), sa.BigInteger),
}
# PostgreSQL: serialization failure, deadlock detected.
_PASSING_SQLSTATES: Final = frozenset({"40001", "40P01"})

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection]]
Work: TypeAlias = Callable[[AsyncConnection], Awaitable[Answer]]
Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def epoch_seconds() -> int:
    """Return the time of rows: whole seconds since the epoch."""
    return int(time.time())


@contextmanager
def passing_cancellation() -> Iterator[None]:
    """End with CancelledError if the current task was cancelled inside, whatever else happened there.

    Some drivers turn a cancellation into an error of their own, or return the answer that arrived with it. Whoever
    waits for the cancelled task would then wait for ever.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


class Database:
    """An AsyncEngine with the store's tables in it (SQLite or PostgreSQL).

    The engine stays its owner's. All methods that wait raise StoreUnavailable when the database is unavailable, too
    busy or too slow, and StoreError when it refuses the values. For statements, `now` is the database's time in epoch
    seconds, and `insert` begins an insertion in its dialect.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        *,
        schema: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        if engine.dialect.name not in _READING_OPTIONS:
            raise ConfigurationError(
                "Artifacts cannot be stored: the database is neither SQLite nor PostgreSQL.",
                detail=engine.dialect.name,
            )
        self.tables: Final = define_tables(schema)
        self.dialect: Final = engine.dialect.name
        self.now: Final = _NOW[self.dialect]
        self.insert: Final = postgresql.insert if self.dialect == "postgresql" else sqlite.insert
        self._engine = engine
        self._reader = engine.execution_options(**_READING_OPTIONS[self.dialect])
        self._timeout_seconds = timeout_seconds
        self._read_seconds = read_seconds
        self.lacking = frozenset[str]()
        """Columns that the audit does not have, and its database user may not add."""
        self._ready = False
        self._preparing = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Work[Answer]) -> Answer:
        """Do the work in one transaction, and repeat it if another writer was in the way."""
        return await asyncio.shield(self.start(self._work(self._engine.begin, work)))

    async def fetch(self, query: sa.Executable, values: Values | None = None) -> Sequence[sa.Row[Any]]:
        """Return all rows of a single query."""

        async def work(connection: AsyncConnection) -> Sequence[sa.Row[Any]]:
            return (await connection.execute(query, values)).all()

        return await asyncio.shield(self.start(self._work(self._reader.connect, work)))

    async def read(self, query: sa.Executable, values: Values | None = None) -> Sequence[sa.Row[Any]]:
        """Return all rows of a query for which a request waits; a database that hangs is unavailable soon."""
        try:
            async with asyncio.timeout(self._read_seconds):
                return await self.fetch(query, values)
        except TimeoutError as error:
            raise StoreUnavailable("The database cannot be reached.", detail="no answer in time") from error

    async def change(self, statement: sa.Executable, values: Values | None = None) -> int:
        """Execute the statement in a transaction of its own, and return how many rows it changed."""

        async def work(connection: AsyncConnection) -> int:
            # SQLAlchemy counts updates and deletions by itself, but not insertions.
            options = {"preserve_rowcount": True}
            return (await connection.execute(statement, values, execution_options=options)).rowcount

        return await self.run(work)

    def among_ids(self, column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Return the condition that a column is in the list of texts that is the statement's parameter `ids`.

        The list travels as one parameter (JSON for SQLite, an array for PostgreSQL): no list is too long for the
        database, and the statement is the same for every length, so drivers can keep it prepared.
        """
        if self.dialect == "postgresql":
            return column == sa.any_(sa.bindparam("ids", type_=postgresql.ARRAY(sa.Text)))
        listed = sa.func.json_each(sa.bindparam("ids", type_=sa.JSON)).table_valued("value")
        return column.in_(sa.select(listed.c.value))

    def upsert(self, table: sa.Table, *, where: sa.ColumnElement[bool]) -> sa.Insert:
        """Return an insert that replaces the row with the same key, if the condition holds for that row."""
        return _upsert(self.insert, table, where)

    def prepared_upsert(self, table: sa.Table, adding: Collection[str] = ()) -> sa.TextClause:
        """Return an insert of whole rows that replaces those with the same primary keys.

        The columns in `adding` are added to those of the row. As text, because SQLAlchemy compiles a statement with ON
        CONFLICT anew at each execution. Both databases write it alike.
        """
        insert = _upsert(sqlite.insert, table, adding=adding)
        text = str(insert.compile(dialect=sqlite.dialect(paramstyle="named")))
        return sa.text(text).bindparams(*(sa.bindparam(each.name, type_=each.type) for each in table.c))

    def start(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begin work in a task of its own, which `aclose` waits for.

        A cancelled caller leaves at once, and no driver loses a connection by that.
        """
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    @property
    def limit_seconds(self) -> float | None:
        """After how long work is given up; never in SQLite's thread, where its busy timeout ends each attempt."""
        return None if self.dialect == "sqlite" else self._timeout_seconds

    async def aclose(self) -> None:
        """Wait until all that was started has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        """Forget an ended task; nobody waits for the error of one whose caller has left."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.debug("work in the database failed: %s", error)

    async def _work(self, connect: Connect, work: Work[Answer]) -> Answer:
        try:
            async with asyncio.timeout(self.limit_seconds):
                return await self._repeat(connect, work)
        except (DataError, IntegrityError) as error:
            raise StoreError("An item could not be stored.", detail=_first_line(error)) from error
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            # a driver's variables hold its password
            raise StoreUnavailable("The database cannot be reached.", detail=_first_line(error)) from None

    async def _repeat(self, connect: Connect, work: Work[Answer]) -> Answer:
        """Do the work in a connection, and repeat it a few times, or until the deadline, if that may help."""
        deadline, delays_seconds = time.monotonic() + self._timeout_seconds, iter(_RETRY_DELAYS_SECONDS)
        while True:
            is_connected = self.dialect == "sqlite"
            try:
                if not self._ready:
                    await self._prepare()
                async with connect() as connection:
                    is_connected = True
                    return await work(connection)
            except (DBAPIError, OSError) as error:
                delay_seconds = next(delays_seconds, None)
                may_pass = not is_connected or _may_pass(error)
                if delay_seconds is None or time.monotonic() > deadline or not may_pass:
                    raise
            await asyncio.sleep(delay_seconds)

    async def _prepare(self) -> None:
        async with self._preparing:
            if not self._ready:
                async with self._engine.begin() as connection:
                    self.lacking = await connection.run_sync(create_tables, self.tables)
                self._ready = True


def _may_pass(error: DBAPIError | OSError) -> bool:
    """Whether another writer was in the way (SQLite's lock, PostgreSQL's deadlock) or the connection was stale."""
    if isinstance(error, OSError):  # a driver's own connection
        return True
    passing = getattr(error.orig, "sqlstate", None) in _PASSING_SQLSTATES
    return passing or error.connection_invalidated or "locked" in str(error.orig)


def _upsert(
    insert_into: Callable[[sa.Table], sqlite.Insert | postgresql.Insert],
    table: sa.Table,
    where: sa.ColumnElement[bool] | None = None,
    adding: Collection[str] = (),
) -> sa.Insert:
    insert = insert_into(table)
    given = {column.name: insert.excluded[column.name] for column in table.c if not column.primary_key}
    added = {name: table.c[name] + given[name] for name in adding}
    return insert.on_conflict_do_update(
        index_elements=list(table.primary_key), set_=given | added, where=where
    )


def _first_line(error: BaseException) -> str:
    """Return the error without SQLAlchemy's copy of statement and parameters, which hold payloads."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
