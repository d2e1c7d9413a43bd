"""Work that a request starts and does not wait for.

Owns the tasks until they end. Work may be dropped when too much of it is under way; values that are not written are
logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from ..errors import StoreError

MAX_TASKS: Final = 64
MAX_WAITING_VALUES: Final = 1_000

_BATCH_VALUES: Final = 100
_CLOSING_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class BackgroundTasks:
    """A few tasks of one owner, who awaits `aclose`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do the work beside the request, or not at all when `MAX_TASKS` are under way."""
        if len(self._tasks) < MAX_TASKS:
            task = asyncio.create_task(_run_quietly(work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Wait until all that was started has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Let what is under way end within a few seconds, then cancel it: a driver may lose a connection by that."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


async def _run_quietly(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except StoreError as error:
        _log.debug("work beside a request failed: %s", error)


class BatchWriter(BackgroundTasks, Generic[Value]):
    """Hands values to `write` in their order, in batches; its owner awaits `aclose`."""

    def __init__(self, name: str, write: Callable[[Sequence[Value]], Awaitable[None]]) -> None:
        """`name` says in the log what the values are."""
        super().__init__()
        self._name = name
        self._write = write
        self._waiting: list[Value] = []

    def add(self, value: Value) -> None:
        """Have the value written soon; refused when `MAX_WAITING_VALUES` are waiting already."""
        if len(self._waiting) >= MAX_WAITING_VALUES:
            _log.warning("%s: not written, too many are waiting", self._name)
            return
        self._waiting.append(value)
        if len(self._waiting) == 1:
            self.start(self._write_all)

    async def aclose(self) -> None:
        """Close as above; what is not written by then is logged."""
        await super().aclose()
        if self._waiting:
            _log.warning("%s: %d not written before the end", self._name, len(self._waiting))

    async def _write_all(self) -> None:
        while batch := self._waiting[:_BATCH_VALUES]:
            try:
                await self._write(batch)
            except StoreError as error:
                _log.warning("%s: %d not written: %s", self._name, len(batch), error)
            except Exception:  # noqa: BLE001 - nobody awaits this task, and the next batch may be fine
                _log.exception("%s: %d not written", self._name, len(batch))
            del self._waiting[: len(batch)]
