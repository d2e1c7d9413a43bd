"""The store's database outside Open WebUI: an engine of its own, set up as the host sets up its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from open_webui_openrouter_pipe.store.database import Database

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
SQLITE_SETTINGS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "busy_timeout=5000",
    "cache_size=-65536",
    "temp_store=MEMORY",
    "mmap_size=268435456",
    "journal_size_limit=67108864",
)
"""Those of Open WebUI, as is the size of the pool (`internal/db.py`)."""
SQLITE_POOL_SIZE = 512


class _OwnDatabase(Database):
    """Its engine is disposed with it."""

    async def aclose(self) -> None:
        await super().aclose()
        await self._engine.dispose()


def open_database(url: str, *, connect_args: Mapping[str, Any] | None = None, **options: Any) -> Database:
    """Open the database at a `sqlite:` or `postgresql:` address; the options are those of `Database`."""
    scheme, separator, rest = url.partition("://")
    pool: dict[str, Any] = {"pool_size": SQLITE_POOL_SIZE} if scheme == "sqlite" else {"pool_pre_ping": True}
    address = f"{DRIVERS.get(scheme, scheme)}{separator}{rest}"
    engine = create_async_engine(address, connect_args=dict(connect_args or {}), **pool)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine.sync_engine, "connect", lambda connection, _: _set_up(connection))
    return _OwnDatabase(engine, **options)


def _set_up(connection: Any) -> None:
    cursor = connection.cursor()
    for setting in SQLITE_SETTINGS:
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
