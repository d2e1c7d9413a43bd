"""Keeps what fails again and again from being tried with each request.

Owns the count of failures in a row and the pause that follows. It knows nothing of what is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

FAILURES = 2
PAUSE_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 30 * 60.0
MOST_DOUBLINGS = 8


@dataclass(frozen=True, slots=True)
class _Trouble:
    failures: int
    until_seconds: float


class Breaker:
    """Opens for a while after some failures in a row of the same name, for longer each further time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Everything may be tried; `clock` gives monotonic seconds."""
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    def is_open(self, name: str) -> bool:
        """Whether it is too early to try again."""
        trouble = self._troubles.get(name)
        return trouble is not None and self._clock() < trouble.until_seconds

    def succeeded(self, name: str) -> None:
        """Forget earlier failures."""
        self._troubles.pop(name, None)

    def failed(self, name: str) -> None:
        """Count a failure; from the second in a row on, the next try has to wait."""
        before = self._troubles.get(name)
        failures = before.failures + 1 if before else 1
        self._troubles[name] = _Trouble(failures, self._clock() + _pause_seconds(failures))


def _pause_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row: twice as long each time, up to a limit."""
    if failures < FAILURES:
        return 0.0
    doublings = min(failures - FAILURES, MOST_DOUBLINGS)
    return min(PAUSE_SECONDS * 2.0**doublings, LONGEST_PAUSE_SECONDS)
