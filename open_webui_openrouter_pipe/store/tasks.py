"""Tasks that a request starts and does not wait for.

Only for work that may be left out: it may fail without a word, and when too much is under way nothing more is
started. Owns the tasks until they end.

Values that are written beside the requests that made them.

Owns one task that writes what has gathered, batch by batch, until nothing is left. Unlike `background`, whose
work may be left out without a word, each value that is not written is told in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from ..errors import StoreError

_MOST_TASKS: Final = 64
_PATIENCE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class BackgroundTasks:
    """A few tasks of one owner, who awaits `aclose`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work beside the request, or leave it out when too much is under way."""
        if len(self._tasks) >= _MOST_TASKS:
            return
        task = asyncio.create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until all that was started has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Give what is under way a moment to end, then cancel it: a driver may lose a connection by that."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _quietly(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except StoreError as error:
        _log.debug("left out: %s", error)


MOST_WAITING: Final = 1_000

_BATCH: Final = 100


Value = TypeVar("Value")


class BatchWriter(Generic[Value]):
    """Hands values to `write` in their order; its owner awaits `aclose`."""

    def __init__(self, name: str, write: Callable[[Sequence[Value]], Awaitable[None]]) -> None:
        """`name` says in the log what the values are."""
        self._name = name
        self._write = write
        self._waiting: list[Value] = []
        self._writing = 0
        self._task: asyncio.Task[None] | None = None

    def add(self, value: Value) -> None:
        """Have the value written soon; refused when `MOST_WAITING` are waiting already."""
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("%s: not written, too many are waiting", self._name)
            return
        self._waiting.append(value)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def idle(self) -> None:
        """Wait until all that was added is written or lost."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Give what is under way a moment to end, then cancel it."""
        if self._task is None:
            return
        _, late = await asyncio.wait({self._task}, timeout=_PATIENCE_SECONDS)
        for task in late:
            task.cancel()
            _log.warning("%s: %d not written before the end", self._name, len(self._waiting) + self._writing)
        await asyncio.gather(*late, return_exceptions=True)

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            self._writing = len(batch)
            try:
                await self._write(batch)
            except StoreError as error:
                _log.warning("%s: %d not written: %s", self._name, len(batch), error)
            except Exception:  # noqa: BLE001 - nobody awaits this task, and the next batch may be fine
                _log.exception("%s: %d not written", self._name, len(batch))
