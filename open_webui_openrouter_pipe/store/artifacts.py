"""Artifacts sealed into rows and opened again; those of unsaved chats, in memory.

The seal covers an artifact's id, owner, kind and model. Chat and message stay outside of it; they take no part in
finding a row and may change.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ..errors import SealBroken, StoreError
from ..history.artifacts import MissingArtifact
from ..ports import Artifact, LoadedArtifacts
from .database import epoch_seconds
from .schema import SealedRow
from .sealing import ItemTooLarge, Keyring, decode_item, encode_item, pack, require_storable, unpack
from .table import FoundRows, RowStore

if TYPE_CHECKING:
    from ..responses.items import Item

MAX_UNSAVED_BYTES = 32 * 1024 * 1024
"""Of payload, in one process: twice what the largest item may have."""

MAX_ITEM_BYTES = 16 * 1024 * 1024
MAX_LOAD_BYTES = 64 * 1024 * 1024
"""How large one item, and all items of one load, may be as JSON."""

_SLICE_BYTES: Final = 64 * 1024


class Opened(NamedTuple):
    """An artifact out of its row, and the size of its item as JSON, in bytes."""

    artifact: Artifact
    item_bytes: int


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
            data = encode_item(artifact.item)
            if len(data) > MAX_ITEM_BYTES:
                raise ItemTooLarge("An artifact is too large to be stored.", detail=f"{len(data)} bytes")
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
        opened = await self._open_all(found.rows[key] for key in reversed(wanted) if key in found.rows)
        absent, unavailable = MissingArtifact(), MissingArtifact(reason="unavailable")
        return {
            key: opened.get(key) or (unavailable if key in found.unavailable else absent) for key in wanted
        }

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the user's artifacts in database and cache, or raise StoreUnavailable."""
        if wanted := list(dict.fromkeys(ids)):
            await self._rows.delete(user_id, wanted)

    async def _open_all(self, rows: Iterable[SealedRow]) -> dict[str, Artifact | MissingArtifact]:
        """Open the rows in their order, large ones in a thread and small ones in slices between which others run."""
        opened: dict[str, Artifact | MissingArtifact] = {}
        left_bytes, slice_bytes = MAX_LOAD_BYTES, 0
        for row in rows:
            limit_bytes = min(left_bytes, MAX_ITEM_BYTES)
            size_bytes = len(row.payload)
            slice_bytes += size_bytes
            if slice_bytes > _SLICE_BYTES:
                slice_bytes = size_bytes
                await asyncio.sleep(0)
            if size_bytes > _SLICE_BYTES:
                outcome = await asyncio.to_thread(self._open, row, limit_bytes)
            else:
                outcome = self._open(row, limit_bytes)
            if isinstance(outcome, Opened):
                opened[row.id], left_bytes = outcome.artifact, left_bytes - outcome.item_bytes
            else:
                opened[row.id] = outcome
        return opened

    def _open(self, row: SealedRow, limit_bytes: int) -> Opened | MissingArtifact:
        try:
            return unseal(row, self._keyring, limit_bytes=limit_bytes)
        except ItemTooLarge:
            return MissingArtifact(row.kind, "too_large")
        except SealBroken:
            return MissingArtifact(row.kind, "unreadable")


def seal(artifact: Artifact, data: bytes, keyring: Keyring, *, now: int) -> SealedRow:
    """Make the row of an artifact whose encoded item is `data`, created at `now` (epoch seconds).

    Raises StoreError when a name of the artifact is not storable as text.
    """
    names = _bound_names(artifact)
    require_storable(*names, artifact.chat_id, artifact.message_id)
    where = (artifact.user_id, artifact.id, artifact.chat_id, artifact.message_id)
    packed = pack(data, names, keyring)
    return SealedRow(*where, artifact.kind, artifact.model, *packed, created=now, last_used=now)


def unseal(row: SealedRow, keyring: Keyring, *, limit_bytes: int) -> Opened:
    """Open a row. Raises SealBroken, or ItemTooLarge when the item's JSON is over the limit."""
    data = unpack(row, _bound_names(row), keyring, limit_bytes=limit_bytes)
    item = decode_item(data)
    if item.get("type") != row.kind:
        raise SealBroken("A stored item could not be opened.", detail="not of its row's kind")
    artifact = Artifact(
        row.id, row.user_id, row.chat_id, row.message_id, row.kind, row.model, cast("Item", item)
    )
    return Opened(artifact, len(data))


def _bound_names(artifact: Artifact | SealedRow) -> tuple[str, ...]:
    """Return what the seal of an artifact is bound to."""
    return artifact.user_id, artifact.id, artifact.kind, artifact.model


class UnsavedRows:
    """A RowStore in memory; of more than it may hold, the rows unused for the longest time are dropped."""

    def __init__(self) -> None:
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, str], SealedRow] = OrderedDict()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Take the rows; the newest stay."""
        for row in rows:
            self._drop((row.user_id, row.id))
            self._rows[row.user_id, row.id] = row
            self._bytes += len(row.payload)
        while self._bytes > MAX_UNSAVED_BYTES:
            self._drop(next(iter(self._rows)))

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows."""
        found = {row_id: row for row_id in ids if (row := self._rows.get((user_id, row_id)))}
        for row_id in found:
            self._rows.move_to_end((user_id, row_id))
        return FoundRows(found)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete the owner's rows."""
        for row_id in ids:
            self._drop((user_id, row_id))

    async def aclose(self) -> None:
        """Nothing is open."""

    def _drop(self, key: tuple[str, str]) -> None:
        if row := self._rows.pop(key, None):
            self._bytes -= len(row.payload)


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
        rest = [row_id for row_id in ids if row_id not in found.rows]
        unsaved = (await self._unsaved.load(user_id, rest)).rows
        if not unsaved:
            return found
        with suppress(StoreError):  # the next load tries again
            await self._below.put(list(unsaved.values()))
        return FoundRows({**found.rows, **unsaved}, found.unavailable - unsaved.keys())

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Delete below and in memory. Raises StoreUnavailable."""
        await self._unsaved.delete(user_id, ids)
        await self._below.delete(user_id, ids)

    async def aclose(self) -> None:
        """End what runs below."""
        await self._below.aclose()
