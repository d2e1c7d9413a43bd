"""What Open WebUI itself runs on and lets us share: its database, Redis, secret key and data folder.

All of it stays the host's: nothing here is closed. Source: `internal/db.py` and `env.py` of Open WebUI 0.12.
Everything is imported when it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from .redis import SharedRedis, shared_redis


@dataclass(frozen=True, slots=True)
class Platform:
    """The host's shared parts. `schema` is the database schema, None for the default one; `redis` may be None."""

    engine: AsyncEngine
    schema: str | None
    redis: SharedRedis | None
    secret_key: str
    cache_folder: Path


def platform() -> Platform:
    """Take the parts from the running host. Raises ImportError outside Open WebUI."""
    from open_webui.env import DATA_DIR, DATABASE_SCHEMA, WEBUI_SECRET_KEY
    from open_webui.internal.db import async_engine

    return Platform(
        engine=async_engine,
        schema=DATABASE_SCHEMA or None,
        redis=shared_redis(),
        secret_key=WEBUI_SECRET_KEY,
        cache_folder=Path(DATA_DIR) / "cache",
    )
