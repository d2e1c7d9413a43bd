"""Rows of chats that the host does not save: sealed as all others, in this process alone, and gone with it.

A temporary chat leaves nothing behind, but a model that calls a tool must get back what it thought before the call. The
host's page keeps such a chat, with its markers; whoever saves it there makes its rows durable with the next load.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..errors import StoreError
from .rows import FoundRows, RowStore, SealedRow

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of payload, in one process: twice what the largest item may have."""


class UnsavedRows:
    """A RowStore in memory; of more than `max_bytes` of payload, rows unused for the longest time are dropped."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, str], SealedRow] = OrderedDict()

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Take the rows; the newest stay."""
        for row in rows:
            self._drop((row.user_id, row.id))
            self._rows[row.user_id, row.id] = row
            self._bytes += len(row.payload)
        while self._bytes > self._max_bytes:
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
