"""The connection to Redis as the store's layers use it: with a time limit, and a pause after a failure.

A Redis that is down costs a request the time limit once per pause, not once per command. Owns the waiting,
the key names and the translation of Redis' errors; what is kept in Redis is the business of `cache` and
`shelter`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from redis.exceptions import RedisError

from ..errors import StoreUnavailable
from .cancellation import passing_cancellation

TIMEOUT_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 10.0

Answer = TypeVar("Answer")


class RedisClient(Protocol):
    """The commands in use, of redis-py's asyncio client (plain, Sentinel or Cluster) in bytes mode."""

    def mget(self, keys: Sequence[str]) -> Awaitable[list[Any]]:
        """Several values; all keys lie in one slot."""

    def delete(self, *names: str) -> Awaitable[Any]:
        """Delete values; all names lie in one slot."""

    def hlen(self, name: str) -> Awaitable[int]:
        """The number of fields of a hash."""

    def hmget(self, name: str, keys: Sequence[str]) -> Awaitable[list[Any]]:
        """Several fields of a hash."""

    def hset(self, name: str, *, mapping: Mapping[str, bytes]) -> Awaitable[Any]:
        """Set fields of a hash."""

    def hscan(self, name: str, *, cursor: int, count: int) -> Awaitable[tuple[int, Mapping[bytes, bytes]]]:
        """Some fields of a hash, and where to go on; 0 at the end."""

    def set(self, name: str, value: str, *, nx: bool, px: int) -> Awaitable[Any]:
        """Set a value that expires."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Awaitable[Any]:
        """Run a Lua script on keys of one slot."""


class RedisLink:
    """One Redis, shared by the layers that use it. The client stays its owner's."""

    def __init__(
        self,
        client: RedisClient,
        *,
        prefix: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._timeout_seconds = timeout_seconds
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._resume_at = 0.0

    def key(self, *parts: str) -> str:
        """A name inside the store's part of Redis."""
        return ":".join((self._prefix, *parts))

    def user_key(self, user_id: str, *parts: str) -> str:
        """A name that belongs to a user; all names of one user lie in one slot of a cluster."""
        owner = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return self.key(f"{{{owner}}}", *parts)

    async def run(self, work: Callable[[RedisClient], Awaitable[Answer]]) -> Answer:
        """Do the work unless Redis failed a moment ago. Raises StoreUnavailable."""
        if self._clock() < self._resume_at:
            raise StoreUnavailable("Redis cannot be reached.", detail="it failed a moment ago")
        return await self.insist(work)

    async def insist(self, work: Callable[[RedisClient], Awaitable[Answer]]) -> Answer:
        """Do the work even if Redis failed a moment ago. Raises StoreUnavailable."""
        try:
            with passing_cancellation():
                async with asyncio.timeout(self._timeout_seconds):
                    answer = await work(self._client)
        except (RedisError, OSError, TimeoutError) as error:
            self._resume_at = self._clock() + self._pause_seconds
            raise StoreUnavailable("Redis cannot be reached.", detail=repr(error)) from error
        self._resume_at = 0.0
        return answer
