"""What Open WebUI itself runs on and shares: its database, Redis, secret key and data folder.

All of it stays the host's: nothing here is closed. The host's Redis (a plain one, behind Sentinel, or a cluster) is
connected when it is first used. Everything is imported when it is asked for.
Source: `internal/db.py`, `utils/redis.py` and `env.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis.exceptions import RedisError
from sqlalchemy.ext.asyncio import AsyncEngine

_OUR_PART: Final = "openrouter_pipe"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedRedis:
    """An asyncio client in bytes mode, and the prefix of the names that are ours."""

    client: Any
    prefix: str


@dataclass(frozen=True, slots=True)
class Platform:
    """The host's shared parts. `schema` is the database schema, None for the default one; `redis` may be None."""

    engine: AsyncEngine
    schema: str | None
    redis: SharedRedis | None
    secret_key: str
    cache_folder: Path


def platform() -> Platform:
    """Return the parts of the running host. Raises ImportError outside Open WebUI."""
    from open_webui import env
    from open_webui.internal.db import async_engine

    return Platform(
        engine=async_engine,
        schema=env.DATABASE_SCHEMA or None,
        redis=shared_redis(),
        secret_key=env.WEBUI_SECRET_KEY,
        cache_folder=Path(env.DATA_DIR) / "cache",
    )


def shared_redis() -> SharedRedis | None:
    """Return the host's Redis; None when it has none, or settings that it does not understand either.

    Connects to nothing. Raises ImportError outside Open WebUI.
    """
    from open_webui import env
    from open_webui.utils.redis import get_redis_connection, get_sentinels_from_env

    try:
        client = get_redis_connection(
            env.REDIS_URL,
            redis_sentinels=get_sentinels_from_env(env.REDIS_SENTINEL_HOSTS, env.REDIS_SENTINEL_PORT),
            redis_cluster=env.REDIS_CLUSTER,
            async_mode=True,
            decode_responses=False,
        )
    except (ValueError, RedisError) as error:
        _log.warning("artifacts are kept without Redis: %s", error)
        return None
    return SharedRedis(client, f"{env.REDIS_KEY_PREFIX}:{_OUR_PART}") if client is not None else None
