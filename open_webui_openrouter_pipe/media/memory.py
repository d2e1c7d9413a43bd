"""What a worker holds of files in memory: one budget of bytes, fair waiting for it, and a cache in what nobody needs.

A request reserves once all that it holds until its end, and a file that is read reserves for itself, released before
anything else is waited for. So nobody waits while holding what others wait for. Caches never keep anybody waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..conversation.conversation import ContentCache, cache_key
from ..errors import AttachmentUnavailable, TooBusy
from ..words.lines import notice
from .choice import Encoded

MEGABYTE: Final = 1024 * 1024
MEMORY_BYTES: Final = 256 * MEGABYTE
MAX_WAIT_SECONDS: Final = 60.0
READING_COPIES: Final = 5
"""What a file takes while it is read, in sizes of its own: its bytes, its base64 in parts and whole, or its text."""
FILE_SHARE: Final = 12
REQUEST_SHARE: Final = 3
"""Of the budget a file may be this part, and all files of a request this one: their base64, and one being read."""
CHECKED_SECONDS: Final = 300.0
"""How long a right to read a file, once checked, is taken to hold, and a download that failed is not tried again."""
MAX_ASKED: Final = 100
"""Requests to addresses in one turn, with those of redirects."""
ENTRY_BYTES: Final = 1024
"""What an entry takes beside its source and its file."""


@dataclass(slots=True, eq=False)
class Reservation:
    """Bytes that somebody may hold, once `granted`."""

    budget: ByteBudget
    size_bytes: int
    rank: int
    take: Callable[[], object]
    granted: asyncio.Event = field(default_factory=asyncio.Event)

    def shrink(self, size_bytes: int) -> None:
        """Keep so many, where it has more."""
        if (freed := self.size_bytes - size_bytes) > 0:
            self.size_bytes = size_bytes
            self.budget.give_back(freed)

    def release(self) -> None:
        """Keep nothing, or wait no more."""
        if self.granted.is_set():
            self.shrink(0)
        else:
            self.budget.forget(self)


class ByteBudget:
    """The bytes that a worker may hold; what is cached is evicted where somebody needs the room."""

    def __init__(
        self, limit_bytes: int = MEMORY_BYTES, *, max_wait_seconds: float = MAX_WAIT_SECONDS
    ) -> None:
        self.limit_bytes = limit_bytes
        """By the latest request: an administrator's change holds for all."""
        self.held_bytes = 0
        self.max_wait_seconds = max_wait_seconds
        self._caches: list[tuple[ContentCache[Any] | EncodedFiles, int]] = []
        self._waiting: list[Reservation] = []
        self._rank = 0
        """Of the latest that was granted; that of a user's next is higher by each byte that the user wants."""
        self._next: dict[str, int] = {}

    @property
    def used_bytes(self) -> int:
        """What is held and cached."""
        return self.held_bytes + sum(cache.size * unit_bytes for cache, unit_bytes in self._caches)

    def watch(self, cache: ContentCache[Any] | EncodedFiles, unit_bytes: int = 1) -> None:
        """Count a cache by its size in units of so many bytes; the first ones are evicted first."""
        self._caches.append((cache, unit_bytes))

    def settle(self) -> None:
        """Evict what is too much."""
        for cache, unit_bytes in self._caches:
            if cache.size and (excess := self.used_bytes - self.limit_bytes) > 0:
                cache.evict(-(-excess // unit_bytes))

    async def reserve(
        self, user_id: str, size_bytes: int, take: Callable[[], object] = lambda: None
    ) -> Reservation:
        """Wait for room, one user after the other by what each has got; who wants more than all gets all, alone.

        What is small passes what is large, until as much as that has passed it.

        `take` is called at once when it is granted, before anything is evicted for it.

        Raises:
            TooBusy: The wait was too long.
        """
        size_bytes = min(size_bytes, self.limit_bytes)
        rank = max(self._rank, self._next.get(user_id, 0)) + size_bytes
        self._next[user_id] = rank
        wanted = Reservation(self, size_bytes, rank, take)
        self._waiting.append(wanted)
        self._admit()
        try:
            async with asyncio.timeout(self.max_wait_seconds):
                await wanted.granted.wait()
        except BaseException as error:
            wanted.release()
            if not isinstance(error, TimeoutError):
                raise
            seconds = self.max_wait_seconds
            raise TooBusy(notice("memory_slow", seconds=seconds)) from error
        return wanted

    def has_room(self, size_bytes: int) -> bool:
        """Whether so many would be granted at once."""
        return not self._waiting and self.held_bytes + size_bytes <= self.limit_bytes

    def give_back(self, freed_bytes: int) -> None:
        """Count what is no longer held."""
        self.held_bytes -= freed_bytes
        self._admit()

    def forget(self, wanted: Reservation) -> None:
        """Let somebody leave the queue."""
        self._waiting.remove(wanted)
        self._admit()

    def _admit(self) -> None:
        """Grant the next ones; one that finds no room lets nobody with a higher rank pass, so that it has its turn."""
        while self._waiting:
            first = min(self._waiting, key=lambda each: each.rank)
            if self.held_bytes and self.held_bytes + first.size_bytes > self.limit_bytes:
                return
            self._waiting.remove(first)
            self._rank = first.rank
            self.held_bytes += first.size_bytes
            first.take()
            first.granted.set()
            self.settle()
        self._next.clear()


@dataclass(slots=True, eq=False)
class FileRoom:
    """The port `Room`; without `reserve`, the file is within what is reserved already."""

    max_bytes: int
    ask: Callable[[], object]
    reserve: Callable[[int], Awaitable[Reservation]] | None = None
    taken: Reservation | None = None

    def check(self, size_bytes: int) -> None:
        """Raise AttachmentUnavailable for a file that is too large."""
        if size_bytes > self.max_bytes:
            raise AttachmentUnavailable(notice("attachment_too_large", megabytes=self.max_bytes / MEGABYTE))

    async def take(self, size_bytes: int) -> None:
        """Wait until a file of this size may be held; what was taken before goes first."""
        self.check(size_bytes)
        self.release()
        if self.reserve:
            self.taken = await self.reserve(size_bytes * READING_COPIES)

    def release(self) -> None:
        """Hold nothing."""
        if self.taken:
            self.taken.release()
        self.taken = None


class EncodedFiles:
    """Encoded files by user and source, as far as the budget has room; those not used recently are forgotten.

    What is known of a file beside its content stays longer, and so does why an address could not be read.
    """

    def __init__(self, budget: ByteBudget, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget, self._clock = budget, clock
        self._kept: OrderedDict[bytes, tuple[float, int, Encoded]] = OrderedDict()
        """With the time when it was read, and the bytes that it takes."""
        self.size = 0
        self._known: ContentCache[Encoded] = ContentCache()
        self._failed: ContentCache[tuple[str, float, str]] = ContentCache()
        """With the turn and the time when it was tried."""
        self._asked: ContentCache[int] = ContentCache()
        self.damaged: ContentCache[bool] = ContentCache()
        """Whether what stands inline in a chat is damaged, by the digest of its content."""
        budget.watch(self)

    def known(self, user_id: str, source: str) -> Encoded | None:
        """Return a file that was read there, without its content, which need not be kept any more."""
        return self._known.get(cache_key(user_id, source))

    def get(self, user_id: str, source: str) -> Encoded | None:
        """Return what was kept for the user, unless it must be read again."""
        key = cache_key(user_id, source)
        seconds, _, found = self._kept.get(key, (0.0, 0, None))
        if found is None or self._clock() - seconds > CHECKED_SECONDS:
            return None
        self._kept.move_to_end(key)
        return found

    def put(self, user_id: str, source: str, found: Encoded) -> None:
        """Keep it, in the place of what was kept."""
        key, size_bytes = cache_key(user_id, source), ENTRY_BYTES + len(source) + len(found.data_url)
        self.note(user_id, source, found)
        self.size += size_bytes - self._kept.pop(key, (0.0, 0))[1]
        self._kept[key] = (self._clock(), size_bytes, found)
        self.budget.settle()

    def note(self, user_id: str, source: str, found: Encoded) -> None:
        """Keep what is known of it without its content."""
        self._known.put(cache_key(user_id, source), replace(found, data_url=""))

    def evict(self, size: int) -> None:
        """Forget so many bytes."""
        least = max(0, self.size - size)
        while self.size > least:
            self.size -= self._kept.popitem(last=False)[1][1]

    def failure(self, user_id: str, turn: str, url: str) -> str | None:
        """Return why an address could not be read, in this turn or lately."""
        of_turn, seconds, line = self._failed.get(cache_key(user_id, url)) or ("", 0.0, "")
        is_known = line and (of_turn == turn or self._clock() - seconds <= CHECKED_SECONDS)
        return line if is_known else None

    def fail(self, user_id: str, turn: str, url: str, line: str) -> None:
        """Remember why an address could not be read."""
        self._failed.put(cache_key(user_id, url), (turn, self._clock(), line))

    def ask(self, user_id: str, turn: str) -> None:
        """Count a request to an address. Raises AttachmentUnavailable where a turn has had as many as it may."""
        key = cache_key(user_id, turn)
        count = self._asked.get(key) or 0
        if count >= MAX_ASKED:
            raise AttachmentUnavailable(notice("address_not_asked", count=MAX_ASKED))
        self._asked.put(key, count + 1)
