"""An event loop with a clock of its own, for tests of what waits for a time."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor


class _Selector(selectors.DefaultSelector):
    """Tells how long it was to wait for a timer, instead of waiting; threads that work are waited for."""

    skipped_seconds = 0.0
    threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not timeout or self.threads:
            return super().select(None if timeout else timeout)
        events = super().select(0)
        if not events:
            self.skipped_seconds += timeout
        return events


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its clock stands still while anything runs, and is moved to the next timer when nothing does.

    However busy the machine is, each task has all the time it needs.
    """

    def __init__(self) -> None:
        """Start at one second: zero is easily mistaken for no time at all."""
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return 1.0 + self._skipping.skipped_seconds

    def run_in_executor(  # type: ignore[override]  # the types of the arguments are passed on
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function in a thread, which no timer overtakes."""
        work = super().run_in_executor(executor, func, *args)
        self._skipping.threads += 1
        work.add_done_callback(self._count_out)
        return work

    def _count_out(self, _: object) -> None:
        self._skipping.threads -= 1


SKIPPING: tuple[str, Mapping[str, Any]] = ("asyncio", {"loop_factory": SkippingLoop})
"""The `anyio_backend` of tests marked `skips_time`."""
