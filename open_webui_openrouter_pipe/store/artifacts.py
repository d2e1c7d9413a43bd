"""Artifacts sealed into rows and opened again; those of unsaved chats, in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from ..errors import SealBroken, StoreError
from ..history.artifacts import MissingArtifact
from ..ports import Artifact, ArtifactStore, LoadedArtifacts
from ..responses.values import as_object, as_text
from ..threads import apart
from .database import epoch_seconds
from .schema import SealedRow
from .sealing import UNSEALED, ItemTooLarge, Keyring, decode_item, encode_item, seal_row, unpack
from .table import FoundRows, RowStore

if TYPE_CHECKING:
    from ..responses.items import Item

MAX_UNSAVED_BYTES = 32 * 1024 * 1024
"""Of payload, in one process: twice what the largest item may have."""

MAX_ITEM_BYTES = 16 * 1024 * 1024
MAX_LOAD_BYTES = 64 * 1024 * 1024
"""How large one item, and all items of one load, may be as JSON."""

_SLICE_BYTES: Final = 64 * 1024
_WRITTEN: Final = "openrouter_pipe:written"
"""The key of a sealed item under which `_WRITER_FIELDS` stand; no provider's item has it."""
_WRITER_FIELDS: Final = ("provider", "prompt", "before")


class SealedArtifacts:
    """An ArtifactStore over a RowStore that lives longer; make a new one when settings change."""

    def __init__(self, rows: RowStore, keyring: Keyring) -> None:
        self._rows = rows
        self._keyring = keyring

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        """Seal the artifacts and make all of them durable together.

        Raises StoreUnavailable when the database is unavailable, and StoreError when one of the artifacts cannot be
        stored at all (too large, or not JSON): then none is stored.
        """
        now = epoch_seconds()
        sealed: list[SealedRow] = []
        for artifact in artifacts:
            written = {name: getattr(artifact, name) for name in _WRITER_FIELDS}
            known = {name: value for name, value in written.items() if value}
            item = {**artifact.item, _WRITTEN: known} if known else artifact.item
            data = await apart(artifact.item, partial(encode_item, item))
            work = partial(seal, artifact, data, self._keyring, now=now)
            sealed.append(await asyncio.to_thread(work) if len(data) > _SLICE_BYTES else work())
        if sealed:
            await self._rows.put(sealed)

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        """Find and open the user's artifacts; `ids` are in the order of the chat.

        When all together are over the limit, the latest are opened and the earliest are missing. Never raises.
        """
        wanted = list(dict.fromkeys(ids))
        if not wanted:
            return {}
        found = await self._rows.load(user_id, wanted)
        opened = await self._open_all(row for key in reversed(wanted) if (row := found.get(key)))
        absent, unavailable = MissingArtifact(), MissingArtifact(reason="unavailable")
        return {key: opened.get(key) or (unavailable if key in found else absent) for key in wanted}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the user's artifacts in database and cache, or raise StoreUnavailable."""
        if wanted := list(dict.fromkeys(ids)):
            await self._rows.delete(user_id, wanted)

    async def _open_all(self, rows: Iterable[SealedRow]) -> dict[str, Artifact | MissingArtifact]:
        """Open the rows in their order, large ones in a thread and small ones in slices between which others run."""
        found: dict[str, Artifact | MissingArtifact] = {}
        left_bytes, slice_bytes = MAX_LOAD_BYTES, 0
        for row in rows:
            work = partial(unseal, row, self._keyring, limit_bytes=min(left_bytes, MAX_ITEM_BYTES))
            size_bytes = len(row.payload)
            slice_bytes += size_bytes
            if slice_bytes > _SLICE_BYTES:
                slice_bytes = size_bytes
                await asyncio.sleep(0)
            try:
                opened = await asyncio.to_thread(work) if size_bytes > _SLICE_BYTES else work()
            except ItemTooLarge:
                found[row.id] = MissingArtifact(row.kind, "too_large")
            except SealBroken:
                found[row.id] = MissingArtifact(row.kind, "unreadable")
            else:
                found[row.id], item_bytes = opened
                left_bytes -= item_bytes
        return found


class RunningReasoning:
    """An ArtifactStore whose reasoning is kept for one turn alone, in a store of its own; the rest goes below.

    Of a chat whose reasoning is not kept, it still goes back within its turn: providers refuse a tool's result without
    the reasoning that led to its call. The host calls again for each round of its tools. `turn_id` is the message that
    is answered: answers side by side are one turn.
    """

    def __init__(self, below: ArtifactStore, running: ArtifactStore, turn_id: str) -> None:
        self._below, self._running, self._turn_id = below, running, turn_id

    async def put(self, artifacts: Sequence[Artifact]) -> None:
        """Keep reasoning for its turn, and make the rest durable below. Raises StoreError."""
        thoughts = [each for each in artifacts if each.kind == "reasoning"]
        lasting = [each for each in artifacts if each.kind != "reasoning"]
        if lasting:
            await self._below.put(lasting)
        if thoughts:
            await self._running.put([replace(each, message_id=self._turn_id) for each in thoughts])

    async def load(self, user_id: str, ids: Sequence[str]) -> LoadedArtifacts:
        """Find the user's artifacts: reasoning of this turn, and what is below. Never raises."""
        found = await self._running.load(user_id, ids)
        passing = {
            key: each
            for key, each in found.items()
            if isinstance(each, Artifact) and each.message_id == self._turn_id
        }
        rest = [key for key in ids if key not in passing]
        kept = await self._below.load(user_id, rest) if rest else {}
        return {key: passing.get(key) or kept[key] for key in dict.fromkeys(ids)}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete them, in both. Raises StoreUnavailable."""
        await self._running.delete(user_id, ids)
        await self._below.delete(user_id, ids)


def seal(artifact: Artifact, data: bytes, keyring: Keyring, *, now: int) -> SealedRow:
    """Make an artifact's row of its encoded item, created at `now` (epoch seconds). Raises StoreError."""
    where = (artifact.user_id, artifact.id, artifact.chat_id, artifact.message_id)
    row = SealedRow(*where, artifact.kind, artifact.model, *UNSEALED, created=now, last_used=now)
    return seal_row(row, data, keyring, limit_bytes=MAX_ITEM_BYTES)


def unseal(row: SealedRow, keyring: Keyring, *, limit_bytes: int) -> tuple[Artifact, int]:
    """Open a row; return its artifact, and the size of its item as JSON, in bytes.

    Raises SealBroken, or ItemTooLarge when that is over the limit.
    """
    data = unpack(row, row.bound_names, keyring, limit_bytes=limit_bytes)
    item = decode_item(data)
    if item.get("type") != row.kind:
        raise SealBroken("A stored item could not be opened.", detail="not of its row's kind")
    written = as_object(item.pop(_WRITTEN, None))
    names = [as_text(written.get(name)) for name in _WRITER_FIELDS]
    where = (row.id, row.user_id, row.chat_id, row.message_id, row.kind, row.model)
    return Artifact(*where, cast("Item", item), *names), len(data)


class UnsavedRows:
    """A RowStore in memory; of more than it may hold, the rows unused for the longest time are dropped."""

    def __init__(self) -> None:
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, str], SealedRow] = OrderedDict()
        self._of_chat: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Take the rows; the newest stay."""
        for row in rows:
            self._drop((row.user_id, row.id))
            self._rows[row.user_id, row.id] = row
            self._of_chat[row.user_id, row.chat_id].add((row.user_id, row.id))
            self._bytes += len(row.payload)
        while self._bytes > MAX_UNSAVED_BYTES:
            self._drop(next(iter(self._rows)))

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows."""
        found = {row_id: row for row_id in ids if (row := self._rows.get((user_id, row_id)))}
        for row_id in found:
            self._rows.move_to_end((user_id, row_id))
        return found

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows."""
        for row_id in ids:
            self._drop((user_id, row_id))

    def _drop(self, key: tuple[str, str]) -> None:
        if row := self._rows.pop(key, None):
            self._bytes -= len(row.payload)
            of_chat = self._of_chat[row.user_id, row.chat_id]
            of_chat.discard(key)
            if not of_chat:
                del self._of_chat[row.user_id, row.chat_id]


class RunningRows(UnsavedRows):
    """Rows in memory; of a user's chat, those of one message alone."""

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Take the rows, and drop those of the same chats that are of other messages."""
        latest = {(row.user_id, row.chat_id): row.message_id for row in rows}
        for chat, message_id in latest.items():
            for key in [*self._of_chat.get(chat, ())]:
                if self._rows[key].message_id != message_id:
                    self._drop(key)
        await super().put(rows)


class SavedRows:
    """A RowStore that finds the rows of a temporary chat which was saved, and makes them durable below."""

    def __init__(self, below: RowStore, unsaved: UnsavedRows) -> None:
        self._below = below
        self._unsaved = unsaved

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make the rows durable below."""
        await self._below.put(rows)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find rows below, and the rest among the unsaved ones. Never raises."""
        found = await self._below.load(user_id, ids)
        unsaved = await self._unsaved.load(user_id, [row_id for row_id in ids if not found.get(row_id)])
        if rows := list(filter(None, unsaved.values())):
            with suppress(StoreError):  # the next load tries again
                await self._below.put(rows)
        return {**found, **unsaved}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete below and in memory. Raises StoreUnavailable."""
        await self._unsaved.delete(user_id, ids)
        await self._below.delete(user_id, ids)
