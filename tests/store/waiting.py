"""Waiting for a Redis that was started a moment ago."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from redis.exceptions import RedisError

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def answering(client: Redis) -> None:
    """Wait until a Redis that was started a moment ago has read its data."""
    for _ in range(200):
        try:
            await cast("Any", client.ping())
        except RedisError:
            await asyncio.sleep(0.05)
        else:
            return
    raise TimeoutError("Redis does not answer")
