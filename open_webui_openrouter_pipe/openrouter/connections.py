"""The client of a worker, when its streams are read, and the pauses of addresses that cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import httpx

from ..errors import AddressPaused, ConnectionFailed
from ..ports import Pauses
from ..words.lines import admin_notice, notice

FAILURES_TO_OPEN: Final = 5
"""Connections that must fail in a row; two questions of users, with their retries."""
PAUSE_SECONDS: Final = 10.0
MAX_PAUSE_SECONDS: Final = 120.0

MAX_IDLE: Final = 100
"""Connections to one server that are kept open for the next requests, and for how many seconds."""
IDLE_SECONDS: Final = 60.0

LEAST_SECONDS: Final = 0.04
MOST_SECONDS: Final = 0.1
"""A reader notices no pause that is shorter."""

_EVENTS_TOGETHER: Final = 4
_AT_ONCE: Final = 3
"""Deltas at the beginning of a stream that are read as they come."""
_LARGE_BYTES: Final = 32 * 1024
"""After a portion of this size more is waiting, and is read at once."""


class Pace:
    """When a stream is read again, by the pace of its deltas: every 40 to 100 ms, so that four come together.

    Slower ones are read as they come, and so are the first ones.
    """

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._read_seconds = self._clock()
        self._interval_seconds = 0.0
        self._deltas = 0

    def note(self, deltas: int, size: int) -> None:
        """Note how many deltas a portion has brought, and its size in bytes."""
        now = self._clock()
        gap_seconds, self._read_seconds = (now - self._read_seconds) / max(1, deltas), now
        self._deltas += deltas
        if self._deltas <= _AT_ONCE or gap_seconds >= MOST_SECONDS or size >= _LARGE_BYTES:
            self._interval_seconds = 0.0
        elif deltas:
            self._interval_seconds = min(MOST_SECONDS, max(LEAST_SECONDS, _EVENTS_TOGETHER * gap_seconds))

    async def wait(self) -> None:
        """Wait until the stream is to be read."""
        remaining_seconds = self._read_seconds + self._interval_seconds - self._clock()
        if self._interval_seconds and remaining_seconds > 0:
            await asyncio.sleep(remaining_seconds)


class AddressBreaker:
    """Leaves addresses alone that cannot be reached; of one worker, for all of them. A base URL is the name of one."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._pauses = Pauses(
            clock=clock,
            failures=FAILURES_TO_OPEN,
            first_seconds=PAUSE_SECONDS,
            longest_seconds=MAX_PAUSE_SECONDS,
        )
        self._tried_until_seconds: dict[str, float] = {}
        """By address: until when a request is trying it out."""

    @contextmanager
    def attempt(self, address: str) -> Generator[None]:
        """Try to connect within the block; a ConnectionFailed that `passes` is a failure, and no error a success.

        Raises:
            AddressPaused: The address is left alone at present.
        """
        failures = self._pauses.failures(address)
        if tries_out := failures >= FAILURES_TO_OPEN:
            tried_seconds = self._tried_until_seconds.get(address, 0.0) - self._clock()
            seconds = max(self._pauses.remaining_seconds(address), tried_seconds)
            if seconds > 0:
                seconds = max(1.0, seconds)
                raise AddressPaused(
                    notice("address_paused", seconds=seconds),
                    admin_message=admin_notice("address_paused", seconds=seconds, failures=failures),
                    retry_after_seconds=seconds,
                )
            # an answer may be long in coming; by then a connection is there, or is not
            self._tried_until_seconds[address] = self._clock() + PAUSE_SECONDS
        try:
            yield
        except ConnectionFailed as error:
            # one that began before the address was given up prolongs nothing
            if error.passes and (tries_out or self._pauses.failures(address) < FAILURES_TO_OPEN):
                self._pauses.record_failure(address)
            raise
        else:
            self._pauses.record_success(address)
        finally:
            if tries_out:
                self._tried_until_seconds.pop(address, None)


def open_client(transport: httpx.AsyncBaseTransport | None, *, has_proxy: bool) -> httpx.AsyncClient:
    """Return a client without a limit of connections; `transport` replaces the network.

    Behind a proxy of the environment, and without httptools, httpx's own ways are used.
    """
    if not transport and not has_proxy:
        with suppress(ImportError):
            from .transport import Transport

            transport = Transport()
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
    )
    return httpx.AsyncClient(transport=transport, limits=limits)
