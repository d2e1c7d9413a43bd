"""Summaries and system prompts, sealed into rows and opened again; summaries of temporary chats, in memory.

A summary is bound to its owner, its segment and the model that wrote it, a prompt to its owner, chat and model.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from ..conversation.conversation import ContentCache
from ..errors import SealBroken, StoreError
from ..ports import KeptPrompt, RequestOrigin, StoredSummary
from ..summaries.segments import Segment
from ..summaries.summary import Summary
from ..threads import apart
from .beside import Leases
from .database import Database, epoch_seconds
from .schema import PromptRow, SummaryRow
from .sealing import UNSEALED, ItemTooLarge, Keyring, decode_item, encode_item, seal_row, unpack
from .table import SealedTable

MAX_SUMMARY_BYTES: Final = 4 * 1024 * 1024
"""How large a summary may be as JSON, far above what one is made of: what it omits is counted, not repeated."""

MAX_SUMMARIES_IN_MEMORY = 512
"""A few megabytes of text."""

MAX_PROMPT_BYTES: Final = 1024 * 1024
"""How large a prompt may be as JSON: longer than any that people write."""

_MAX_REPORTED_ROWS: Final = 4_096

_log = logging.getLogger(__name__)


SummaryKey: TypeAlias = tuple[str, str, str]
"""What a summary is found by: its owner, and the chain digests at the ends of its segment in hexadecimal."""


class SealedSummaries:
    """The engine's Summaries."""

    def __init__(
        self, database: Database, keyring: Keyring, *, clock: Callable[[], int] | None = None
    ) -> None:
        """Without a `clock` uses are stamped with this worker's time, and claims go by the database's."""
        self._rows = SealedTable(database, SummaryRow, clock=clock)
        self._leases = Leases(database, clock=clock)
        self._keyring = keyring
        self._reported = ContentCache[bool](_MAX_REPORTED_ROWS)

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        """Find and open the user's summaries between the chain digests; never raises, and returns fewer instead.

        From the stamp of their use on they belong to the chat `chat_id`.
        """
        if len(chains) < 2:
            return {}
        try:
            rows = await self._rows.find(user_id, [chain.hex() for chain in chains])
        except (StoreError, UnicodeError) as error:
            _log.warning("summaries could not be read, and this request goes on without: %r", error)
            return {}
        self._rows.stamp(rows, **({"chat_id": chat_id} if chat_id else {}))
        return await asyncio.to_thread(self._open_all, rows) if rows else {}

    async def keep(self, stored: StoredSummary) -> None:
        """Make a summary durable; the first one of a segment stays, unless it cannot be opened.

        Raises StoreUnavailable when the database is unavailable, and StoreError when the summary cannot be stored.
        """
        row = await asyncio.to_thread(self._seal, stored)
        first = await self._rows.get(row[:3])
        if first is None or self._open(first) is None:
            await self._rows.add(row, instead_of=first)

    async def discard(self, user_id: str, segment: Segment, unwanted: Summary) -> None:
        """Delete a segment's summary, unless another one has taken its place. Raises StoreUnavailable."""
        row = await self._rows.get(_key(user_id, segment))
        if row is not None and self._open(row) == unwanted:
            await self._rows.discard(row)

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        """Return whether this caller may make the summary of a segment now. Raises StoreUnavailable."""
        return await self._leases.take(_lease_name(user_id, segment), seconds)

    async def release(self, user_id: str, segment: Segment) -> None:
        """Release a claim of this worker, so that another may try; otherwise it ends by itself."""
        try:
            await self._leases.release(_lease_name(user_id, segment))
        except StoreError as error:
            _log.debug("a claim is left to end by itself: %s", error)

    def _seal(self, stored: StoredSummary) -> SummaryRow:
        key, now = _key(stored.user_id, stored.segment), self._rows.clock()
        columns = (*key, stored.segment.turns, stored.chat_id, stored.model, *UNSEALED)
        row = SummaryRow(*columns, source_tokens=stored.source_tokens, created=now, last_used=now)
        data = encode_item(stored.summary.as_json())
        return seal_row(row, data, self._keyring, limit_bytes=MAX_SUMMARY_BYTES)

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
            data = unpack(row, row.bound_names, self._keyring, limit_bytes=MAX_SUMMARY_BYTES)
            return Summary.from_json(decode_item(data))
        except (SealBroken, ItemTooLarge, ValueError) as error:
            name = repr(row[:3]).encode()
            if not self._reported.get(name):
                self._reported.put(name, value=True)
                _log.warning("a stored summary is skipped: %s", error)
            return None


class MemorySummaries:
    """Summaries in memory; of more than it may hold, those unused for the longest time are deleted."""

    def __init__(self, *, clock: Callable[[], int] = epoch_seconds) -> None:
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
        while len(self._stored) > MAX_SUMMARIES_IN_MEMORY:
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


def _lease_name(user_id: str, segment: Segment) -> str:
    """Return the name of a claim's lease, which shows nobody's id."""
    name = "\0".join(_key(user_id, segment)).encode("utf-8", "surrogatepass")
    return f"summary:{hashlib.blake2b(name, digest_size=16).hexdigest()}"


class SealedPrompts:
    """The engine's Prompts."""

    def __init__(
        self, database: Database, keyring: Keyring, *, clock: Callable[[], int] | None = None
    ) -> None:
        self._rows = SealedTable(database, PromptRow, clock=clock)
        self._keyring = keyring

    async def find(self, origin: RequestOrigin) -> KeptPrompt | None:
        """Return what is kept, None also for a row that does not open. Raises StoreUnavailable."""
        row = await self._rows.get(_prompt_key(origin))
        if row is None:
            return None
        self._rows.stamp([row])
        return self._open(row)

    async def keep(
        self, origin: RequestOrigin, prompt: KeptPrompt, *, instead_of: KeptPrompt | None
    ) -> KeptPrompt:
        """Keep a prompt in the place of one, or of what does not open; return what is kept: the first of several.

        Raises StoreUnavailable, and StoreError for what cannot be stored.
        """
        now = self._rows.clock()
        row = PromptRow(*_prompt_key(origin), *UNSEALED, created=now, last_used=now)
        fields = {"text": prompt.text, "template": prompt.template}
        data = await apart(fields, partial(encode_item, fields))
        new = seal_row(row, data, self._keyring, limit_bytes=MAX_PROMPT_BYTES)
        if instead_of is None and await self._rows.add(new, instead_of=None):
            return prompt
        for _ in range(2):
            kept = await self._rows.get(_prompt_key(origin))
            found = self._open(kept) if kept else None
            if found is not None and found != instead_of:
                return found
            if await self._rows.add(new, instead_of=kept):
                return prompt
        return found or prompt

    def _open(self, row: PromptRow) -> KeptPrompt | None:
        """Open a row; None when that is impossible, or its form that of another release."""
        try:
            data = unpack(row, row.bound_names, self._keyring, limit_bytes=MAX_PROMPT_BYTES)
            fields = decode_item(data)
            return KeptPrompt(fields["text"], fields["template"])
        except (SealBroken, ItemTooLarge, KeyError):
            return None


def _prompt_key(origin: RequestOrigin) -> tuple[str, str, str]:
    return origin.user_id, origin.chat_id, origin.preset
