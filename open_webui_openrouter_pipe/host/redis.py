"""The host's Redis, in bytes: a plain one, behind Sentinel, or a cluster, as the host's own environment says.

The host keeps each of its clients for as long as the process lives, and connects them when they are first used. It
owns this one as well: nobody here closes it. Source: `utils/redis.py` and `env.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

_OUR_PART: Final = "openrouter_pipe"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SharedRedis:
    """An asyncio client in bytes mode, and the prefix of the names that are ours."""

    client: Any
    prefix: str


def shared_redis() -> SharedRedis | None:
    """Take the host's Redis; None when it has none, or settings that it does not understand either.

    Connects to nothing. Raises ImportError outside Open WebUI.
    """
    from open_webui.env import (
        REDIS_CLUSTER,
        REDIS_KEY_PREFIX,
        REDIS_SENTINEL_HOSTS,
        REDIS_SENTINEL_PORT,
        REDIS_URL,
    )
    from open_webui.utils.redis import get_redis_connection, get_sentinels_from_env

    try:
        client = get_redis_connection(
            REDIS_URL,
            redis_sentinels=get_sentinels_from_env(REDIS_SENTINEL_HOSTS, REDIS_SENTINEL_PORT),
            redis_cluster=REDIS_CLUSTER,
            async_mode=True,
            decode_responses=False,
        )
    except (ValueError, RedisError) as error:
        _log.warning("artifacts are kept without Redis: %s", error)
        return None
    return SharedRedis(client, f"{REDIS_KEY_PREFIX}:{_OUR_PART}") if client is not None else None
