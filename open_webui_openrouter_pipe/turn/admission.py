"""How many requests run at once, in a worker and for each user, and who is next when more are wanted.

Those who wait are taken one user after the other, each user's requests in their order, and what nobody looks at
(titles, tags, follow-ups) behind all chats. Neither a place in the queue nor the time in it is unlimited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from ..errors import TooBusy
from ..ports import Notice, Show
from ..words.lines import admin_notice, notice

MAX_WAITING: Final = 200
"""Requests that wait in a worker; more could not be answered in bearable time."""
MAX_WAIT_SECONDS: Final = 60.0
"""After that a user has long pressed the button again, and a proxy given up."""

Away: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Leaves a place to others within the block; after it one is waited for again, unless the block has raised."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How many requests may run at once in a worker, and for each user; 0: any number."""

    max_requests: int = 0
    max_requests_per_user: int = 0


@dataclass(slots=True, eq=False)
class _Waiter:
    user_id: str
    is_task: bool
    admitted: asyncio.Event = field(default_factory=asyncio.Event)


class Admission:
    """The running and the waiting requests of one worker."""

    def __init__(self, *, max_waiting: int = MAX_WAITING, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self.settings = AdmissionSettings()
        """Of the latest request: an administrator's change holds for all."""
        self._max_waiting = max_waiting
        self._max_wait_seconds = max_wait_seconds
        self._running: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []
        self._served: dict[str, int] = {}
        """When each user with a request last got a place, as a number that grows."""
        self._turn = 0

    @asynccontextmanager
    async def slot(self, user_id: str, *, is_task: bool, show: Show) -> AsyncGenerator[Away]:
        """Hold a place among the running requests, after waiting for it where there is none, which is shown.

        What it yields leaves the place to others while nothing is sent, such as while a user thinks.

        Raises:
            TooBusy: Too many wait, or the wait was too long.
        """
        waiter = _Waiter(user_id, is_task)
        try:
            await self._enter(waiter, show)
            yield partial(self._away, waiter, show)
        finally:
            self._leave(waiter)

    @asynccontextmanager
    async def _away(self, waiter: _Waiter, show: Show) -> AsyncGenerator[None]:
        self._leave(waiter)
        yield
        await self._enter(waiter, show)

    async def _enter(self, waiter: _Waiter, show: Show) -> None:
        self._waiting.append(waiter)
        self._admit()
        if not waiter.admitted.is_set():
            await self._wait(waiter, show)

    async def _wait(self, waiter: _Waiter, show: Show) -> None:
        if len(self._waiting) > self._max_waiting:
            raise TooBusy(notice("queue_full"), admin_message=admin_notice("queue_full"))
        await show(Notice(notice("waiting_for_place"), done=False))
        try:
            async with asyncio.timeout(self._max_wait_seconds):
                await waiter.admitted.wait()
        except TimeoutError as error:
            if not waiter.admitted.is_set():
                await show(Notice(notice("place_found")))
                seconds = self._max_wait_seconds
                line, admin_line = (say("queue_slow", seconds=seconds) for say in (notice, admin_notice))
                raise TooBusy(line, admin_message=admin_line) from error
        await show(Notice(notice("place_found")))

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the place or the queue; while a user is asked it is in neither."""
        user_id = waiter.user_id
        if waiter.admitted.is_set():
            waiter.admitted.clear()
            self._running[user_id] -= 1
        elif waiter in self._waiting:
            self._waiting.remove(waiter)
        if not self._running[user_id] and user_id not in [other.user_id for other in self._waiting]:
            del self._running[user_id]
            self._served.pop(user_id, None)
        self._admit()

    def _admit(self) -> None:
        """Give each free place to the next: chats first, then who was served longest ago, then by coming."""
        most, of_user = self.settings.max_requests, self.settings.max_requests_per_user
        while not most or self._running.total() < most:
            able = [each for each in self._waiting if not of_user or self._running[each.user_id] < of_user]
            if not able:
                return
            waiter = min(able, key=lambda each: (each.is_task, self._served.get(each.user_id, 0)))
            self._waiting.remove(waiter)
            self._running[waiter.user_id] += 1
            self._turn += 1
            self._served[waiter.user_id] = self._turn
            waiter.admitted.set()
