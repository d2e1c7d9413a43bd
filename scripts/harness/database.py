"""The store's database outside Open WebUI: an engine of its own, set up as the host sets up its own."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from open_webui_openrouter_pipe.store.database import Database

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
SQLITE_SETTINGS = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000")


class _OwnDatabase(Database):
    """Its engine is disposed with it."""

    async def aclose(self) -> None:
        await super().aclose()
        await self._engine.dispose()


def open_database(url: str, **options: Any) -> Database:
    """Open the database at a `sqlite:` or `postgresql:` address; the options are those of `Database`."""
    scheme, separator, rest = url.partition("://")
    engine = create_async_engine(f"{DRIVERS.get(scheme, scheme)}{separator}{rest}")
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine.sync_engine, "connect", lambda connection, _: set_up_sqlite(connection))
    return _OwnDatabase(engine, **options)


def set_up_sqlite(connection: Any, settings: tuple[str, ...] = SQLITE_SETTINGS) -> None:
    """Make a new connection one on which readers do not wait, and writers wait for each other."""
    cursor = connection.cursor()
    for setting in settings:
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
