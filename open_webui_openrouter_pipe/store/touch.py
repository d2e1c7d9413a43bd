"""Notes that rows are in use, beside the requests that use them.

Sits in front of all other layers, because a row that is served by the cache is in use as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .background import Background
from .rows import FoundRows, RowStore, SealedRow

TOUCH_INTERVAL_SECONDS: Final = 24 * 60 * 60
"""`last_used` is only as exact as this, so that a busy chat writes each of its rows once a day at most."""


class TouchingRows:
    """A RowStore that notes the use of what it loads."""

    def __init__(self, below: RowStore, clock: Callable[[], int]) -> None:
        self._below = below
        self._clock = clock
        self._background = Background()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Pass on."""
        await self._below.put(rows)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows below, and note the use of those that nobody noted for `TOUCH_INTERVAL_SECONDS`."""
        found = await self._below.load(user_id, ids)
        now = self._clock()
        stale = [key for key, row in found.rows.items() if row.last_used <= now - TOUCH_INTERVAL_SECONDS]
        if stale:
            self._background.start(lambda: self._below.touch(user_id, stale, now=now))
        return found

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Pass on."""
        await self._below.delete(user_id, ids)

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Pass on."""
        await self._below.touch(user_id, ids, now=now)

    async def idle(self) -> None:
        """Wait until all uses are noted."""
        await self._background.idle()

    async def aclose(self) -> None:
        """End what runs beside requests, here and below."""
        await self._background.aclose()
        await self._below.aclose()
