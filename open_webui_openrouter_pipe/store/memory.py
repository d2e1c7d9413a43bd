"""What is gone with the process: rows for tests and replays without a database, summaries of temporary chats."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ..ports import StoredSummary
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from .artifacts import epoch_seconds
from .rows import FoundRows, SealedRow

MOST_SUMMARIES: Final = 512
"""A few megabytes of text."""

_Place: TypeAlias = tuple[str, bytes, bytes]


class MemoryRows:
    """A RowStore without anything outside."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], SealedRow] = {}

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Keep the rows; the same owner and id is replaced."""
        self._rows.update({(row.user_id, row.id): row for row in rows})

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows."""
        return FoundRows({key: row for key in ids if (row := self._rows.get((user_id, key)))})

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Forget the owner's rows."""
        for key in ids:
            self._rows.pop((user_id, key), None)

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note that the rows were in use at `now`."""
        for row in (await self.load(user_id, ids)).rows.values():
            self._rows[user_id, row.id] = row._replace(last_used=now)

    async def aclose(self) -> None:
        """Nothing is open."""


class MemorySummaries:
    """The engine's Summaries for temporary chats: gone with the process, and with the chats that came after."""

    def __init__(self, limit: int = MOST_SUMMARIES, *, clock: Callable[[], int] = epoch_seconds) -> None:
        """Hold at most `limit` summaries, and let go of those not used for the longest time."""
        self._limit = limit
        self._clock = clock
        self._kept: OrderedDict[_Place, StoredSummary] = OrderedDict()
        self._claims: dict[_Place, float] = {}

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find the user's summaries between the chain digests."""
        del chat_id  # these belong to no chat
        ends = set(chains)
        found = [
            place for place in self._kept if place[0] == user_id and place[1] in ends and place[2] in ends
        ]
        for place in found:
            self._kept.move_to_end(place)
        return {self._kept[place].segment: self._kept[place].summary for place in found}

    async def keep(self, stored: StoredSummary) -> None:
        """Keep a summary; the first one of a segment stays."""
        self._kept.setdefault(_place(stored.user_id, stored.segment), stored)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Whether this caller may make the summary of a segment now."""
        now, place = self._clock(), _place(user_id, segment)
        self._claims = {each: until for each, until in self._claims.items() if until > now}
        if place in self._claims:
            return False
        self._claims[place] = now + seconds
        return True

    async def release(self, user_id: str, segment: Segment) -> None:
        """Give a claim back."""
        self._claims.pop(_place(user_id, segment), None)


def _place(user_id: str, segment: Segment) -> _Place:
    return user_id, segment.start, segment.end
