"""How many requests run at once, in a worker and for each user, and who is next when more are wanted.

A free place goes to the waiting request that comes first by:

1. users who hold less than half of MAX_REQUESTS (of one place, where that is none), before those who hold more;
2. chats before what nobody looks at (titles, tags, follow-ups);
3. users who were served longest ago; each user's requests in their order.

So a user gets more than half only while no other user has a request that may run, and places are never left empty for
somebody. Where more wait than may, the newest request of the user who has most of them waiting is refused: with others
in it, no user fills more than half of the queue. Nobody waits without end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from ..errors import TooBusy
from ..ports import Notice, Show
from ..words.lines import notice

MAX_WAITING: Final = 200
"""Requests that wait in a worker; more could not be answered in bearable time."""
MAX_WAIT_SECONDS: Final = 60.0
"""After that a user has long pressed the button again, and a proxy given up."""

Away: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Leaves a place to others within the block; after it one is waited for again, unless the block has raised."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How many requests may run at once in a worker, and for each user; 0: any number."""

    max_requests: int
    max_requests_per_user: int


@dataclass(slots=True, eq=False)
class _Waiter:
    user_id: str
    is_task: bool
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    has_place: bool = False
    """Once it is decided; a waiter without one was refused."""


class Admission:
    """The running and the waiting requests of one worker."""

    def __init__(self, *, max_waiting: int = MAX_WAITING, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self.settings: AdmissionSettings
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
        waiter.decided.clear()
        self._waiting.append(waiter)
        self._admit()
        if len(self._waiting) > self._max_waiting:
            self._refuse()
        if not waiter.decided.is_set():
            await show(Notice(notice("waiting_for_place"), done=False))
            with suppress(TimeoutError):
                async with asyncio.timeout(self._max_wait_seconds):
                    await waiter.decided.wait()
            await show(Notice(notice("place_found")))
        if not waiter.has_place:
            name, seconds = "queue_full" if waiter.decided.is_set() else "queue_slow", self._max_wait_seconds
            raise TooBusy(notice(name, seconds=seconds))

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the place or the queue; while a user is asked it is in neither."""
        user_id = waiter.user_id
        if waiter.has_place:
            waiter.has_place = False
            self._running[user_id] -= 1
        elif waiter in self._waiting:
            self._waiting.remove(waiter)
        if not self._running[user_id] and user_id not in {other.user_id for other in self._waiting}:
            del self._running[user_id]
            self._served.pop(user_id, None)
        self._admit()

    def _admit(self) -> None:
        """Give each free place to the next, in the order of this module."""
        most, of_user, running = (
            self.settings.max_requests,
            self.settings.max_requests_per_user,
            self._running,
        )
        while not most or running.total() < most:
            able = [each for each in self._waiting if not of_user or running[each.user_id] < of_user]
            if not able:
                return
            waiter = min(
                able,
                key=lambda each: (
                    most > 0 and running[each.user_id] >= max(1, most // 2),
                    each.is_task,
                    self._served.get(each.user_id, 0),
                ),
            )
            self._decide(waiter, has_place=True)
            running[waiter.user_id] += 1
            self._turn += 1
            self._served[waiter.user_id] = self._turn

    def _refuse(self) -> None:
        """Refuse the newest request of the user who has most of them waiting."""
        of_users = Counter(each.user_id for each in self._waiting)
        self._decide(max(reversed(self._waiting), key=lambda each: of_users[each.user_id]), has_place=False)

    def _decide(self, waiter: _Waiter, *, has_place: bool) -> None:
        self._waiting.remove(waiter)
        waiter.has_place = has_place
        waiter.decided.set()
