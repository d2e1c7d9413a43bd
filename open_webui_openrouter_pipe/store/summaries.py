"""Rows of summaries in a database: the queries of requests, the notes of use, and who may make one.

Owns the table and the names of claims; rows are sealed and opened above, and swept in `sweep`.

The Summaries of the engine: what stands in for segments goes in sealed and comes out opened, or not at all.

A summary retells a chat, so it is sealed whatever the settings say, bound to its owner, its segment and the model
that made it. Owns the sealing, the time limit of reading, and what is said about rows that do not open; the rows
are the business of `summary_rows`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..conversation.content_cache import ContentCache
from ..errors import SealBroken, StoreError
from ..ports import StoredSummary
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from .artifacts import epoch_seconds
from .database import DIALECTS, Database
from .leases import Leases
from .rows import SEALED, TOUCH_INTERVAL_SECONDS
from .sealing import ItemTooLarge, Keyring, Packed, decode_item, encode_item, pack, require_storable, unpack
from .tasks import BackgroundTasks


class SummaryKey(NamedTuple):
    """What a summary is found by: its owner, and the chain digests at the ends of its segment in hexadecimal."""

    user_id: str
    start_chain: str
    end_chain: str


class SummaryRow(NamedTuple):
    """One stored summary; the fields stand in the order of the table's columns.

    `key_id`, `packing`, `created` and `last_used` mean what they mean in an artifact's row.
    """

    user_id: str
    start_chain: str
    end_chain: str
    turns: int
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    source_tokens: int
    created: int
    last_used: int

    @property
    def key(self) -> SummaryKey:
        """What it is found by."""
        return SummaryKey(self.user_id, self.start_chain, self.end_chain)


class SummaryRows:
    """The summaries of all users as rows, for the whole life of a process; its owner awaits `aclose`.

    All methods raise StoreError when the database is away.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._leases = Leases(database, clock=clock)
        self._background = BackgroundTasks()
        table = database.tables.summary
        dialect = DIALECTS[database.dialect]
        self._table = table
        self._id_list = dialect.id_list
        # Not by the index: the databases would look up each end for each start, which are many in a long chat.
        end_chain = table.c.end_chain.concat(sa.literal_column("''"))
        within = dialect.is_one_of(table.c.start_chain), dialect.is_one_of(end_chain)
        named = (table.c.user_id == sa.bindparam("owner"), *within)
        self._select = sa.select(table).where(*named)
        self._touch = sa.update(table).where(*named, table.c.last_used <= sa.bindparam("before"))

    async def find(self, user_id: str, chains: Sequence[str], *, chat_id: str) -> list[SummaryRow]:
        """Find the owner's rows whose both ends are among the chains, with one query however many these are.

        Notes beside the request that they are in use, once a day, from then on in the chat `chat_id`.
        """
        named = {"owner": user_id, "ids": self._id_list(chains)}

        async def work(connection: AsyncConnection) -> list[SummaryRow]:
            return list(map(SummaryRow._make, await connection.execute(self._select, named)))

        rows = await self._database.read(work)
        before = self._clock() - TOUCH_INTERVAL_SECONDS
        if stale := [row for row in rows if row.last_used <= before]:
            self._background.start(partial(self._note_use, user_id, stale, chat_id))
        return rows

    async def add(self, row: SummaryRow) -> bool:
        """Write a row, unless its segment has one already; whether it was written."""
        return await self._database.change(self._database.adding(self._table), row._asdict()) == 1

    async def at(self, key: SummaryKey) -> SummaryRow | None:
        """The row with this key."""
        chosen = sa.select(self._table).where(
            *(self._table.c[name] == value for name, value in key._asdict().items())
        )

        async def work(connection: AsyncConnection) -> SummaryRow | None:
            found = (await connection.execute(chosen)).one_or_none()
            return None if found is None else SummaryRow._make(found)

        return await self._database.read(work)

    async def replace(self, unreadable: SummaryRow, row: SummaryRow) -> None:
        """Write a row over an unreadable one, unless somebody has done that already."""
        unchanged = self._table.c.payload == unreadable.payload
        await self._database.change(self._database.replacing(self._table, unchanged), row._asdict())

    async def claim(self, key: SummaryKey, *, seconds: float) -> bool:
        """Whether the caller may make the summary; exactly one of all workers' callers may, for that time."""
        return await self._leases.take(_claim_name(key), seconds)

    async def release(self, key: SummaryKey) -> None:
        """Give back a claim of this worker."""
        await self._leases.release(_claim_name(key))

    async def idle(self) -> None:
        """Wait until all uses are noted."""
        await self._background.idle()

    async def aclose(self) -> None:
        """End what runs beside requests."""
        await self._background.aclose()

    async def _note_use(self, user_id: str, rows: Sequence[SummaryRow], chat_id: str) -> None:
        now = self._clock()
        ends = sorted({end for row in rows for end in (row.start_chain, row.end_chain)})
        used = {"last_used": now} | ({"chat_id": chat_id} if chat_id else {})
        named = {"owner": user_id, "ids": self._id_list(ends), "before": now - TOUCH_INTERVAL_SECONDS}
        await self._database.change(self._touch.values(used), named)


def _claim_name(key: SummaryKey) -> str:
    """The name of a claim's lease, which shows nobody's id."""
    words = "\0".join(key).encode("utf-8", "surrogatepass")
    return f"summary:{hashlib.blake2b(words, digest_size=16).hexdigest()}"


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
        self._reported = ContentCache[bool](_MOST_REPORTED)

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
        if not self._reported.get(name):
            self._reported.put(name, value=True)
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
    data = encode_item(stored.summary.as_json())
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
    return Summary.from_json(decode_item(data))
