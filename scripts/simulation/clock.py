"""Time and chance of one process that are all its own: the same seed gives the same run.

The loop moves its clock to the next timer when nothing runs, does the work of threads itself, and says when nothing
could ever happen any more. While they are `installed`, the wall clock, ids and nonces come from here.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from datetime import datetime, tzinfo
from random import Random
from typing import TYPE_CHECKING, Any

from starlette import responses

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Executor

START_SECONDS = 1_767_225_600
"""When every world begins, in epoch seconds: the first of January 2026."""
PATCHED = ("open_webui_openrouter_pipe", "scripts.standin", "scripts.simulation.services")
"""Packages and modules that take the time by a name of their own."""
TICK_NANOSECONDS = 1_000
"""Between two looks at the clock in nanoseconds: ids are of that time, and no two are made at once."""


RESOLUTION_SECONDS = 1e-6
"""Timers that are no further apart are due together."""
PATIENCE_SECONDS = 1.0
"""How long a server outside may take before time goes on."""


class StuckError(Exception):
    """Somebody waits for what nobody is going to do."""


class _Selector(selectors.SelectSelector):
    """Moves the clock instead of waiting; from outside something comes only where somebody is asked there."""

    skipped_seconds = 0.0
    is_asked: Callable[[], bool] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.is_asked and (
            events := super().select(PATIENCE_SECONDS if timeout != 0 and self.is_asked() else 0)
        ):
            return events
        if timeout is None:
            raise StuckError("nothing runs, and no timer is set")
        if timeout > 0:
            self.skipped_seconds += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop without threads and sockets, whose time passes only when nothing runs."""

    def __init__(self) -> None:
        """Start at one second: zero is easily mistaken for no time at all."""
        self._skipping = _Selector()
        self._turns = 0
        self._due: defaultdict[int, list[Callable[[], None]]] = defaultdict(list)
        super().__init__(self._skipping)
        # after half a year a float's steps are longer than the nanosecond by which a timer may be early
        self._clock_resolution = RESOLUTION_SECONDS

    def time(self) -> float:
        """Its time in seconds, which stands still while anything runs."""
        return 1.0 + self._skipping.skipped_seconds

    def wait_for(self, is_asked: Callable[[], bool]) -> None:
        """Let no timer overtake servers outside while they are asked."""
        self._skipping.is_asked = is_asked

    def after_turns(self, turns: int, call: Callable[[], None]) -> None:
        """Call something when the loop has gone round so many times: in the middle of whatever runs then."""
        self._due[self._turns + turns].append(call)

    def forget_calls(self) -> None:
        """Call nothing of that."""
        self._due.clear()

    def run_in_executor(  # type: ignore[override]  # the types of the arguments are passed on
        self,
        executor: Executor | None,  # noqa: ARG002 - the loop's own
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Do the work at once; who waits for it goes on in the next turn, as if a thread had done it."""
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
            self.call_soon(_settle, future, None, error)
        else:
            self.call_soon(_settle, future, result, None)
        return future

    def _run_once(self) -> None:
        self._turns += 1
        for call in self._due.pop(self._turns, ()):
            self.call_soon(call)
        super()._run_once()  # type: ignore[misc]  # the loop's own


def _settle(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error:
        future.set_exception(error)
    else:
        future.set_result(result)


class Clock:
    """The time of a world in epoch seconds; a worker's may differ by its `skew_seconds`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_seconds: Callable[[], float]) -> None:
        self._loop, self._skew_seconds, self._ticks = loop, skew_seconds, 0

    def true(self) -> float:
        """The time by which everything is judged."""
        return START_SECONDS + self._loop.time()

    def now(self) -> float:
        """The time as whoever asks sees it."""
        return self.true() + self._skew_seconds()

    def nanoseconds(self) -> int:
        """The same in nanoseconds; no two looks see the same."""
        self._ticks += 1
        return int(self.now()) * 10**9 + int(self.now() % 1 * 10**6) * 1000 + self._ticks * TICK_NANOSECONDS


class Chance:
    """All that is random in a world; begins anew with each of a story's moments, so that none depends on others."""

    def __init__(self, seed: object) -> None:
        self.seed(seed)

    def seed(self, seed: object) -> None:
        """Begin anew."""
        self._random = Random(f"{seed}")  # noqa: S311 - no secret
        random.seed(f"{seed}")

    def bytes(self, count: int) -> bytes:
        """As os.urandom gives them."""
        return self._random.randbytes(count)


@contextmanager
def installed(clock: Clock, chance: Chance) -> Iterator[None]:
    """Let the clock and the chance be those of this process."""

    class Now(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # one of its own
            return datetime.fromtimestamp(clock.now(), tz)

    loop_time = asyncio.get_running_loop().time
    names = {"time": clock.now, "time_ns": clock.nanoseconds, "monotonic": loop_time}
    by_value = {getattr(time, name): value for name, value in names.items()} | {datetime: Now}
    replaced = [*_replaced(time, names), *_replaced(os, {"urandom": chance.bytes})]
    replaced += _replaced(responses, {"iterate_in_threadpool": _iterate})
    replaced += _replaced(random, {"_urandom": chance.bytes})
    for name, module in list(sys.modules.items()):
        if name.startswith(PATCHED):
            found = {key: by_value[value] for key, value in vars(module).items() if _is_key(value, by_value)}
            replaced += _replaced(module, found)
    try:
        yield
    finally:
        for module, name, value in reversed(replaced):
            setattr(module, name, value)


async def _iterate(values: Iterable[Any]) -> AsyncGenerator[Any]:
    """The parts of a response, without a thread."""
    for value in values:
        yield value


def _is_key(value: object, names: Mapping[Any, object]) -> bool:
    return callable(value) and getattr(value, "__hash__", None) is not None and value in names


def _replaced(module: Any, values: Mapping[str, object]) -> list[tuple[Any, str, object]]:
    """Replace a module's values, and return those that were there."""
    before = [(module, name, getattr(module, name)) for name in values]
    for name, value in values.items():
        setattr(module, name, value)
    return before
