"""The breaker of addresses: one that cannot be reached again and again is left alone for a while.

It looks at connections alone: any response, an error too, says that the address is there. It is asked before a request
is sent and never again, so that streams that run go on. After the pause one request goes ahead and decides for all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ..errors import AddressPaused, ConnectionFailed
from ..notices import admin_notice, notice

FAILURES_TO_OPEN: Final = 5
"""Connections that must fail in a row; two questions of users, with their retries."""
PAUSE_SECONDS: Final = 10.0
MAX_PAUSE_SECONDS: Final = 120.0


@dataclass(slots=True)
class _Address:
    """Failed connections in a row, until when nothing is sent, and until when a request is trying it out."""

    failures: int = 0
    until_seconds: float = 0.0
    tried_until_seconds: float = 0.0


class AddressBreaker:
    """Of one worker, for all its addresses; a base URL is the name of one."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._addresses: dict[str, _Address] = {}

    @contextmanager
    def attempt(self, address: str) -> Generator[None]:
        """Try to connect within the block; a ConnectionFailed that `passes` is a failure, and no error a success.

        Raises:
            AddressPaused: The address is left alone at present.
        """
        state = self._addresses.setdefault(address, _Address())
        tries_out = state.failures >= FAILURES_TO_OPEN
        if tries_out:
            self._require_pause_over(state)
            # an answer may be long in coming; by then a connection is there, or is not
            state.tried_until_seconds = self._clock() + PAUSE_SECONDS
        try:
            yield
        except ConnectionFailed as error:
            # one that began before the address was given up prolongs nothing
            if error.passes and (tries_out or state.failures < FAILURES_TO_OPEN):
                self._record_failure(state)
            raise
        else:
            state.failures = 0
        finally:
            if tries_out:
                state.tried_until_seconds = 0.0

    def _require_pause_over(self, state: _Address) -> None:
        remaining_seconds = max(state.until_seconds, state.tried_until_seconds) - self._clock()
        if remaining_seconds <= 0:
            return
        seconds, failures = max(1.0, remaining_seconds), state.failures
        raise AddressPaused(
            notice("address_paused", seconds=seconds),
            admin_message=admin_notice("address_paused", seconds=seconds, failures=failures),
            retry_after_seconds=seconds,
        )

    def _record_failure(self, state: _Address) -> None:
        state.failures += 1
        further = state.failures - FAILURES_TO_OPEN
        if further >= 0:
            pause_seconds = min(PAUSE_SECONDS * 2.0 ** min(further, 10), MAX_PAUSE_SECONDS)
            state.until_seconds = self._clock() + pause_seconds
