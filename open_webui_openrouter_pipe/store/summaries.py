"""The Summaries of the engine: what stands in for segments goes in sealed and comes out opened, or not at all.

A summary retells a chat, so it is sealed whatever the settings say, bound to its owner, its segment and the model
that made it. Owns the sealing, the time limit of reading, and what is said about rows that do not open; the rows
are the business of `summary_rows`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..context.recent import Recent
from ..context.segments import Segment
from ..context.summary import Summary
from ..errors import SealBroken, StoreError
from ..ports import StoredSummary
from .artifacts import epoch_seconds
from .rows import SEALED
from .sealed import ItemTooLarge, Keyring, Packed, decode_item, encode_item, pack, require_storable, unpack
from .summary_rows import SummaryKey, SummaryRow, SummaryRows

FIND_SECONDS: Final = 3.0
"""How long a request waits for its summaries; then it goes on without."""

MOST_BYTES: Final = 4 * 1024 * 1024
"""How large a summary may be as JSON: it repeats all of the user's rules, which have no other limit."""

_MOST_REPORTED: Final = 4_096

_log = logging.getLogger(__name__)


class SealedSummaries:
    """The engine's Summaries over rows that live longer. Cheap: make another when settings change."""

    def __init__(
        self,
        rows: SummaryRows,
        keyring: Keyring,
        *,
        clock: Callable[[], int] = epoch_seconds,
        find_seconds: float = FIND_SECONDS,
    ) -> None:
        self._rows = rows
        self._keyring = keyring
        self._clock = clock
        self._find_seconds = find_seconds
        self._reported = Recent[bool](_MOST_REPORTED)

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find and open the user's summaries between the chain digests; never raises, and gives fewer instead."""
        if len(chains) < 2:
            return {}
        try:
            async with asyncio.timeout(self._find_seconds):
                rows = await self._rows.find(user_id, [chain.hex() for chain in chains], chat_id=chat_id)
                return await asyncio.to_thread(self._opened, rows) if rows else {}
        except (StoreError, TimeoutError, UnicodeError) as error:
            _log.warning("summaries could not be read, and this request goes on without: %r", error)
            return {}

    async def keep(self, stored: StoredSummary) -> None:
        """Make a summary durable; the first one of a segment stays, unless it does not open any more.

        Raises StoreUnavailable when the database is away, and StoreError when the summary cannot be stored.
        """
        row = await asyncio.to_thread(_sealed, stored, self._keyring, self._clock())
        first = await self._rows.at(row.key)
        if first is not None and self._open(first) is None:
            await self._rows.replace(first, row)
        elif first is not None or not await self._rows.add(row):
            _log.debug("a segment was summarised twice; the first summary stays")

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Whether this caller may make the summary of a segment now. Raises StoreUnavailable."""
        return await self._rows.claim(_key(user_id, segment), seconds=seconds)

    async def release(self, user_id: str, segment: Segment) -> None:
        """Give back a claim of this worker, so that another may try; one that stays ends by itself."""
        try:
            await self._rows.release(_key(user_id, segment))
        except StoreError as error:
            _log.debug("a claim is left to end by itself: %s", error)

    def _opened(self, rows: Sequence[SummaryRow]) -> dict[Segment, Summary]:
        opened = ((row, self._open(row)) for row in rows)
        return {_segment(row): summary for row, summary in opened if summary is not None}

    def _open(self, row: SummaryRow) -> Summary | None:
        """The summary in a row; None when it does not open, which is said once."""
        try:
            return _opened_summary(row, self._keyring)
        except (SealBroken, ItemTooLarge, ValueError) as error:
            self._report(row, error)
            return None

    def _report(self, row: SummaryRow, error: Exception) -> None:
        name = repr(row.key).encode()
        if not self._reported.find(name):
            self._reported.keep(name, value=True)
            _log.warning("a stored summary is passed over: %s", error)


def _key(user_id: str, segment: Segment) -> SummaryKey:
    return SummaryKey(user_id, segment.start.hex(), segment.end.hex())


def _segment(row: SummaryRow) -> Segment:
    return Segment(bytes.fromhex(row.start_chain), bytes.fromhex(row.end_chain), row.turns)


def _bound_to(key: SummaryKey, turns: int, model: str) -> tuple[str, ...]:
    """What the seal of a summary is bound to; the first word tells it from every artifact."""
    return "summary", *key, str(turns), model


def _sealed(stored: StoredSummary, keyring: Keyring, now: int) -> SummaryRow:
    """The row of a summary that is made at `now` (epoch seconds). Raises StoreError."""
    key = _key(stored.user_id, stored.segment)
    require_storable(stored.user_id, stored.chat_id, stored.model)
    data = encode_item(stored.summary.state())
    if len(data) > MOST_BYTES:
        raise ItemTooLarge("A summary is too large to be stored.", detail=f"{len(data)} bytes")
    packed = pack(data, _bound_to(key, stored.segment.turns, stored.model), keyring)
    return SummaryRow(
        *key,
        turns=stored.segment.turns,
        chat_id=stored.chat_id,
        model=stored.model,
        **packed._asdict(),
        source_tokens=stored.source_tokens,
        created=now,
        last_used=now,
    )


def _opened_summary(row: SummaryRow, keyring: Keyring) -> Summary:
    """Open a row. Raises SealBroken, ItemTooLarge, or ValueError for the form of another release."""
    if not row.packing & SEALED:
        raise SealBroken("A stored item could not be opened.", detail="a plain row of a summary")
    packed = Packed(row.key_id, row.packing, row.payload)
    data = unpack(packed, _bound_to(row.key, row.turns, row.model), keyring, limit_bytes=MOST_BYTES)
    return Summary.of_state(decode_item(data))
