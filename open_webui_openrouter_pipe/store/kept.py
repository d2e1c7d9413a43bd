"""The engine's summaries: sealed rows in a database, or in memory for temporary chats.

A summary repeats a chat, so it is sealed whatever the settings say, bound to its owner, its segment and the model
that wrote it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import sqlalchemy as sa

from ..conversation.conversation import ContentCache
from ..errors import SealBroken, StoreError
from ..ports import KeptPrompt, PromptOwner, StoredSummary
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from .beside import BackgroundTasks, Leases
from .database import Database, epoch_seconds
from .sealing import ItemTooLarge, Keyring, Packed, decode_item, encode_item, pack, require_storable, unpack
from .table import STAMP_INTERVAL_SECONDS

MAX_SUMMARY_BYTES: Final = 4 * 1024 * 1024
"""How large a summary may be as JSON, far above what one is made of: what it omits is counted, not repeated."""

MAX_SUMMARIES_IN_MEMORY: Final = 512
"""A few megabytes of text."""

_MAX_REPORTED_ROWS: Final = 4_096

_log = logging.getLogger(__name__)


SummaryKey: TypeAlias = tuple[str, str, str]
"""What a summary is found by: its owner, and the chain digests at the ends of its segment in hexadecimal."""


class SummaryRow(NamedTuple):
    """One stored summary; the fields are in the order of the table's columns, and as in an artifact's row."""

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


class SummaryRows(BackgroundTasks):
    """The summaries of all users as rows, for the whole life of a process; its owner awaits `aclose`.

    `leases` are the claims to make one. All methods raise StoreUnavailable.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] | None = None) -> None:
        """Without a `clock` uses are stamped with this worker's time, and claims go by the database's."""
        super().__init__()
        self._database = database
        self._clock = clock or epoch_seconds
        self.leases: Final = Leases(database, clock=clock)
        self._table = table = database.tables.summary
        # Not by the index: the databases would look up each end for each start, which are many in a long chat.
        end_chain = table.c.end_chain.concat(sa.literal_column("''"))
        within = database.among_ids(table.c.start_chain), database.among_ids(end_chain)
        named = (table.c.user_id == sa.bindparam("owner"), *within)
        self._select = sa.select(table).where(*named)
        self._stamp = sa.update(table).where(*named, table.c.last_used <= sa.bindparam("before"))

    async def find(self, user_id: str, chains: Sequence[str], *, chat_id: str) -> list[SummaryRow]:
        """Find the owner's rows whose both ends are among the chains, with one query however many these are.

        Stamps their use beside the request, once a day, and from then on they belong to the chat `chat_id`.
        """
        found = await self._database.read(self._select, {"owner": user_id, "ids": list(chains)})
        rows = list(map(SummaryRow._make, found))
        before = self._clock() - STAMP_INTERVAL_SECONDS
        if stale := [row for row in rows if row.last_used <= before]:
            self.start(partial(self._stamp_use, user_id, stale, chat_id))
        return rows

    async def get(self, key: SummaryKey) -> SummaryRow | None:
        """Return the row with this key."""
        matches = sa.tuple_(*self._table.primary_key) == key
        found = await self._database.fetch(sa.select(self._table).where(matches))
        return SummaryRow._make(found[0]) if found else None

    async def add(self, row: SummaryRow, *, unreadable: SummaryRow | None = None) -> None:
        """Write a row, unless its segment has one already that is not the unreadable one."""
        may_replace = self._table.c.payload == unreadable.payload if unreadable else sa.false()
        await self._database.change(self._database.insert_or_replace(self._table, may_replace), row._asdict())

    async def delete(self, row: SummaryRow) -> None:
        """Delete a row, unless its payload is another one by now."""
        is_row = sa.tuple_(*self._table.primary_key) == row[:3], self._table.c.payload == row.payload
        await self._database.change(sa.delete(self._table).where(*is_row))

    async def _stamp_use(self, user_id: str, rows: Sequence[SummaryRow], chat_id: str) -> None:
        now = self._clock()
        ends = sorted({end for row in rows for end in (row.start_chain, row.end_chain)})
        used = {"last_used": now} | ({"chat_id": chat_id} if chat_id else {})
        named = {"owner": user_id, "ids": ends, "before": now - STAMP_INTERVAL_SECONDS}
        await self._database.change(self._stamp.values(used), named)


class SealedSummaries:
    """The engine's Summaries over rows that live longer. Cheap: make another when settings change."""

    def __init__(
        self,
        rows: SummaryRows,
        keyring: Keyring,
        *,
        clock: Callable[[], int] = epoch_seconds,
    ) -> None:
        self._rows = rows
        self._keyring = keyring
        self._clock = clock
        self._reported = ContentCache[bool](_MAX_REPORTED_ROWS)

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find and open the user's summaries between the chain digests; never raises, and returns fewer instead."""
        if len(chains) < 2:
            return {}
        try:
            rows = await self._rows.find(user_id, [chain.hex() for chain in chains], chat_id=chat_id)
        except (StoreError, UnicodeError) as error:
            _log.warning("summaries could not be read, and this request goes on without: %r", error)
            return {}
        return await asyncio.to_thread(self._open_all, rows) if rows else {}

    async def keep(self, stored: StoredSummary) -> None:
        """Make a summary durable; the first one of a segment stays, unless it cannot be opened.

        Raises StoreUnavailable when the database is unavailable, and StoreError when the summary cannot be stored.
        """
        row = await asyncio.to_thread(_seal_summary, stored, self._keyring, self._clock())
        first = await self._rows.get(row[:3])
        if first is None or self._open(first) is None:
            await self._rows.add(row, unreadable=first)

    async def discard(self, user_id: str, segment: Segment, unwanted: Summary) -> None:
        """Delete a segment's summary, unless another one has taken its place. Raises StoreUnavailable."""
        row = await self._rows.get(_key(user_id, segment))
        if row is not None and self._open(row) == unwanted:
            await self._rows.delete(row)

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Return whether this caller may make the summary of a segment now. Raises StoreUnavailable."""
        return await self._rows.leases.take(_lease_name(user_id, segment), seconds)

    async def release(self, user_id: str, segment: Segment) -> None:
        """Release a claim of this worker, so that another may try; otherwise it ends by itself."""
        try:
            await self._rows.leases.release(_lease_name(user_id, segment))
        except StoreError as error:
            _log.debug("a claim is left to end by itself: %s", error)

    def _open_all(self, rows: Sequence[SummaryRow]) -> dict[Segment, Summary]:
        opened: dict[Segment, Summary] = {}
        for row in rows:
            if (summary := self._open(row)) is not None:
                segment = Segment(bytes.fromhex(row.start_chain), bytes.fromhex(row.end_chain), row.turns)
                opened[segment] = summary
        return opened

    def _open(self, row: SummaryRow) -> Summary | None:
        """Open a row; None when that is impossible, which is logged once per row."""
        try:
            return _unseal_summary(row, self._keyring)
        except (SealBroken, ItemTooLarge, ValueError) as error:
            name = repr(row[:3]).encode()
            if not self._reported.get(name):
                self._reported.put(name, value=True)
                _log.warning("a stored summary is skipped: %s", error)
            return None


class MemorySummaries:
    """Summaries in memory: at most `limit`, of which those unused for the longest time are deleted."""

    def __init__(
        self, limit: int = MAX_SUMMARIES_IN_MEMORY, *, clock: Callable[[], int] = epoch_seconds
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._stored: OrderedDict[SummaryKey, StoredSummary] = OrderedDict()
        self._claims: dict[SummaryKey, float] = {}

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find the user's summaries between the chain digests."""
        del chat_id  # these belong to no chat
        ends = {chain.hex() for chain in chains}
        found = [key for key in self._stored if key[0] == user_id and ends.issuperset(key[1:])]
        for key in found:
            self._stored.move_to_end(key)
        return {self._stored[key].segment: self._stored[key].summary for key in found}

    async def keep(self, stored: StoredSummary) -> None:
        """Keep a summary; the first one of a segment stays."""
        self._stored.setdefault(_key(stored.user_id, stored.segment), stored)
        while len(self._stored) > self._limit:
            self._stored.popitem(last=False)

    async def discard(self, user_id: str, segment: Segment, unwanted: Summary) -> None:
        """Delete a segment's summary, unless another one has taken its place."""
        key = _key(user_id, segment)
        if key in self._stored and self._stored[key].summary == unwanted:
            del self._stored[key]

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


def _key(user_id: str, segment: Segment) -> SummaryKey:
    return user_id, segment.start.hex(), segment.end.hex()


def _seal_summary(stored: StoredSummary, keyring: Keyring, now: int) -> SummaryRow:
    """Make the row of a summary, created at `now` (epoch seconds). Raises StoreError."""
    key, turns = _key(stored.user_id, stored.segment), stored.segment.turns
    require_storable(stored.user_id, stored.chat_id, stored.model)
    data = encode_item(stored.summary.as_json())
    if len(data) > MAX_SUMMARY_BYTES:
        raise ItemTooLarge("A summary is too large to be stored.", detail=f"{len(data)} bytes")
    packed = pack(data, _bound_names(key, turns, stored.model), keyring)
    columns = (*key, turns, stored.chat_id, stored.model, *packed)
    return SummaryRow(*columns, source_tokens=stored.source_tokens, created=now, last_used=now)


def _unseal_summary(row: SummaryRow, keyring: Keyring) -> Summary:
    """Open a row. Raises SealBroken, ItemTooLarge, or ValueError for the form of another release."""
    packed = Packed(row.key_id, row.packing, row.payload)
    names = _bound_names(row[:3], row.turns, row.model)
    return Summary.from_json(decode_item(unpack(packed, names, keyring, limit_bytes=MAX_SUMMARY_BYTES)))


def _bound_names(key: SummaryKey, turns: int, model: str) -> tuple[str, ...]:
    """Return what the seal of a summary is bound to; the first word distinguishes it from every artifact."""
    return "summary", *key, str(turns), model


def _lease_name(user_id: str, segment: Segment) -> str:
    """Return the name of a claim's lease, which shows nobody's id."""
    name = "\0".join(_key(user_id, segment)).encode("utf-8", "surrogatepass")
    return f"summary:{hashlib.blake2b(name, digest_size=16).hexdigest()}"


MAX_PROMPT_BYTES: Final = 1024 * 1024
"""How large a prompt may be as JSON: longer than any that people write."""


class PromptRow(NamedTuple):
    """One stored prompt; the fields are in the order of the table's columns, and as in an artifact's row."""

    user_id: str
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int


class PromptRows(BackgroundTasks):
    """The prompts of all chats as rows, for the whole life of a process; its owner awaits `aclose`.

    All methods raise StoreUnavailable.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._table = table = database.tables.prompt
        self._named = [column == sa.bindparam(f"of_{column.name}") for column in table.primary_key]
        self._select = sa.select(table).where(*self._named)

    async def get(self, owner: PromptOwner) -> PromptRow | None:
        """Return the owner's row with one query, and stamp its use beside the request, once a day."""
        named = {"of_user_id": owner.user_id, "of_chat_id": owner.chat_id, "of_model": owner.model}
        found = await self._database.read(self._select, named)
        row = PromptRow._make(found[0]) if found else None
        if row and row.last_used <= self._clock() - STAMP_INTERVAL_SECONDS:
            stamp = sa.update(self._table).where(*self._named).values(last_used=self._clock())
            self.start(partial(self._database.change, stamp, named))
        return row

    async def add(self, row: PromptRow, *, instead_of: PromptRow | None) -> bool:
        """Write a row, unless its place is taken by another than the one it replaces; return whether it was written."""
        is_replaced = self._table.c.payload == instead_of.payload if instead_of else sa.false()
        insert = self._database.insert_or_replace(self._table, is_replaced)
        return bool(await self._database.change(insert, row._asdict()))


class SealedPrompts:
    """The engine's Prompts over rows that live longer. Cheap: make another when settings change."""

    def __init__(
        self, rows: PromptRows, keyring: Keyring, *, clock: Callable[[], int] = epoch_seconds
    ) -> None:
        self._rows = rows
        self._keyring = keyring
        self._clock = clock

    async def find(self, owner: PromptOwner) -> KeptPrompt | None:
        """Return what is kept, None also for a row that does not open. Raises StoreUnavailable."""
        row = await self._rows.get(owner)
        return self._open(row) if row else None

    async def keep(
        self, owner: PromptOwner, prompt: KeptPrompt, *, instead_of: KeptPrompt | None
    ) -> KeptPrompt:
        """Keep a prompt in the place of one, or of what does not open; return what is kept: the first of several.

        Raises StoreUnavailable, and StoreError for what cannot be stored.
        """
        new = _seal_prompt(owner, prompt, self._keyring, self._clock())
        if instead_of is None and await self._rows.add(new, instead_of=None):
            return prompt
        for _ in range(2):
            row = await self._rows.get(owner)
            found = self._open(row) if row else None
            if found is not None and found != instead_of:
                return found
            if await self._rows.add(new, instead_of=row):
                return prompt
        return found or prompt

    def _open(self, row: PromptRow) -> KeptPrompt | None:
        try:
            return _unseal_prompt(row, self._keyring)
        except (SealBroken, ItemTooLarge, KeyError):
            return None


def _seal_prompt(owner: PromptOwner, prompt: KeptPrompt, keyring: Keyring, now: int) -> PromptRow:
    """Make the row of a prompt, created at `now` (epoch seconds). Raises StoreError."""
    key = (owner.user_id, owner.chat_id, owner.model)
    require_storable(*key)
    data = encode_item({"text": prompt.text, "template": prompt.template})
    if len(data) > MAX_PROMPT_BYTES:
        raise ItemTooLarge("A system prompt is too large to be kept.", detail=f"{len(data)} bytes")
    return PromptRow(*key, *pack(data, ("prompt", *key), keyring), created=now, last_used=now)


def _unseal_prompt(row: PromptRow, keyring: Keyring) -> KeptPrompt:
    """Open a row. Raises SealBroken, ItemTooLarge, or KeyError for the form of another release."""
    packed = Packed(row.key_id, row.packing, row.payload)
    fields = decode_item(unpack(packed, ("prompt", *row[:3]), keyring, limit_bytes=MAX_PROMPT_BYTES))
    return KeptPrompt(fields["text"], fields["template"])
