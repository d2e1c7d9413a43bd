"""The engine's summaries for temporary chats, which end with the process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ..ports import StoredSummary
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from .database import epoch_seconds

MAX_SUMMARIES: Final = 512
"""A few megabytes of text."""

_Key: TypeAlias = tuple[str, bytes, bytes]


class MemorySummaries:
    """Summaries in memory: at most `limit`, of which those unused for the longest time are deleted."""

    def __init__(self, limit: int = MAX_SUMMARIES, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._limit = limit
        self._clock = clock
        self._stored: OrderedDict[_Key, StoredSummary] = OrderedDict()
        self._claims: dict[_Key, float] = {}

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find the user's summaries between the chain digests."""
        del chat_id  # these belong to no chat
        ends = set(chains)
        found = [key for key in self._stored if key[0] == user_id and key[1] in ends and key[2] in ends]
        for key in found:
            self._stored.move_to_end(key)
        return {self._stored[key].segment: self._stored[key].summary for key in found}

    async def keep(self, stored: StoredSummary) -> None:
        """Keep a summary; the first one of a segment stays."""
        self._stored.setdefault(_key(stored.user_id, stored.segment), stored)
        while len(self._stored) > self._limit:
            self._stored.popitem(last=False)

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Return whether this caller may make the summary of a segment now."""
        now, key = self._clock(), _key(user_id, segment)
        self._claims = {each: until for each, until in self._claims.items() if until > now}
        if key in self._claims:
            return False
        self._claims[key] = now + seconds
        return True

    async def release(self, user_id: str, segment: Segment) -> None:
        """Release a claim."""
        self._claims.pop(_key(user_id, segment), None)


def _key(user_id: str, segment: Segment) -> _Key:
    return user_id, segment.start, segment.end
