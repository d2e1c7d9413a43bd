"""Tasks that a request starts and does not wait for.

Only for work that may be left out: it may fail without a word, and when too much is under way nothing more is
started. Owns the tasks until they end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ..errors import StoreError

_MOST_TASKS: Final = 64
_PATIENCE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class Background:
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
