"""SQLite for SQLAlchemy without a thread: each statement runs on the event loop, and whatever may fail can be made to.

It stands where aiosqlite does: SQLAlchemy's adapter calls these methods. The time of statements is the world's.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["connect", "execute", "commit", "committed", "rollback"]
Hook = Callable[[str, Kind, str], Awaitable[None]]
"""Called with the worker's name, what it is about to do, and the statement; raises what the driver is to raise."""

BUSY_SECONDS = 5.0
"""How long the host's connections wait for a lock (`internal/db.py`)."""
_LOOK_SECONDS = 0.01
_SETTINGS = ("journal_mode=WAL", "synchronous=OFF", "busy_timeout=0", "temp_store=MEMORY")


class Driver:
    """Opens one worker's connections to a database file; `hook` comes before each step."""

    def __init__(self, path: Path, worker: str, clock: Callable[[], float], hook: Hook) -> None:
        self.path, self.worker, self.clock, self.hook = path, worker, clock, hook
        self.is_dead = False
        self._open: list[Connection] = []

    def engine(self) -> AsyncEngine:
        """What has these connections."""
        pool = sa.pool.AsyncAdaptedQueuePool
        return create_async_engine("sqlite+aiosqlite://", async_creator=self._connect, poolclass=pool)

    def kill(self) -> None:
        """Close everything at once, as the end of a process does; what is not committed never was."""
        self.is_dead = True
        for connection in self._open:
            connection.raw.close()

    async def step(self, kind: Kind, statement: str = "") -> None:
        """Let others run, and whatever is to fail."""
        await asyncio.sleep(0)
        self.check()
        await self.hook(self.worker, kind, statement)
        self.check()

    def check(self) -> None:
        """Nothing that a dead worker does has an effect."""
        if self.is_dead:
            raise sqlite3.OperationalError("no active connection")

    def _strftime(self, form: str, when: str) -> str:
        if (form, when) != ("%s", "now"):
            raise ValueError(form)
        return str(int(self.clock()))

    async def _connect(self, *_: Any, **__: Any) -> Connection:
        await self.step("connect")
        raw = sqlite3.connect(self.path, check_same_thread=False)
        for setting in _SETTINGS:
            raw.execute(f"PRAGMA {setting}")
        raw.create_function("strftime", 2, self._strftime)
        connection = Connection(self, raw)
        self._open.append(connection)
        return connection


class Connection:
    """One connection, as aiosqlite's."""

    def __init__(self, driver: Driver, raw: sqlite3.Connection) -> None:
        self.driver, self.raw = driver, raw
        self._tx = self

    @property
    def _conn(self) -> sqlite3.Connection:
        return self.raw

    @property
    def isolation_level(self) -> str | None:
        """As sqlite3 has it."""
        return self.raw.isolation_level

    def put_nowait(self, job: tuple[asyncio.Future[Any], Callable[[], Any]]) -> None:
        """Do what the adapter asks of aiosqlite's thread."""
        future, work = job
        future.set_result(work())

    async def cursor(self) -> Cursor:
        """A new cursor."""
        self.driver.check()
        return Cursor(self, self.raw.cursor())

    async def create_function(self, *args: Any, **options: Any) -> None:
        """A function for statements."""
        self.raw.create_function(*args, **options)

    async def commit(self) -> None:
        """Commit; afterwards it may still be lost that it was."""
        if self.raw.in_transaction:
            await self.driver.step("commit")
            await self.waiting(self.raw.commit)
            await self.driver.step("committed")

    async def rollback(self) -> None:
        """Roll back."""
        self.driver.check()
        if self.raw.in_transaction:
            self.raw.rollback()
            await self.driver.step("rollback")

    async def close(self) -> None:
        """Close it."""
        self.stop()

    def stop(self) -> None:
        """Close it at once."""
        self.raw.close()
        if self in self.driver._open:  # noqa: SLF001 - its own
            self.driver._open.remove(self)  # noqa: SLF001

    async def waiting(self, work: Callable[[], Any]) -> Any:
        """Do something, and wait for the lock that it needs as long as SQLite would."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + BUSY_SECONDS
        while True:
            self.driver.check()
            try:
                return work()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or loop.time() > deadline:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)


class Cursor:
    """One cursor, as aiosqlite's."""

    def __init__(self, connection: Connection, raw: sqlite3.Cursor) -> None:
        self._connection, self._raw = connection, raw

    @property
    def description(self) -> Any:
        """As sqlite3 has it."""
        return self._raw.description

    @property
    def lastrowid(self) -> Any:
        """As sqlite3 has it."""
        return self._raw.lastrowid

    @property
    def rowcount(self) -> int:
        """As sqlite3 has it."""
        return self._raw.rowcount

    async def execute(self, statement: str, values: Any = ()) -> None:
        """Execute one statement."""
        await self._connection.driver.step("execute", statement)
        await self._connection.waiting(lambda: self._raw.execute(statement, values))

    async def executemany(self, statement: str, values: Any) -> None:
        """Execute one statement for each of the values."""
        rows = list(values)
        await self._connection.driver.step("execute", statement)
        await self._connection.waiting(lambda: self._raw.executemany(statement, rows))

    async def fetchall(self) -> list[Any]:
        """All rows that are left."""
        return self._raw.fetchall()

    async def fetchmany(self, size: int = 1) -> list[Any]:
        """So many rows."""
        return self._raw.fetchmany(size)

    async def fetchone(self) -> Any:
        """One row."""
        return self._raw.fetchone()

    async def close(self) -> None:
        """Close it."""
        self._raw.close()
