"""Rows without a database, and rows that cannot be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.schema import SealedRow
from open_webui_openrouter_pipe.store.table import FoundRows, RowStore

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryRows:
    """A RowStore without anything outside."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], SealedRow] = {}

    async def put(self, rows: Sequence[SealedRow]) -> None:
        self.rows.update({(row.user_id, row.id): row for row in rows})

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        return FoundRows({key: row for key in ids if (row := self.rows.get((user_id, key)))})

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        for key in ids:
            self.rows.pop((user_id, key), None)

    async def aclose(self) -> None:
        """Nothing is open."""


class SwitchedRows:
    """A store of rows that is unavailable while `below` is None."""

    def __init__(self, below: RowStore | None = None) -> None:
        self.below = below

    async def put(self, rows: Sequence[SealedRow]) -> None:
        await self._available().put(rows)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        if self.below is None:
            return FoundRows(unavailable=frozenset(ids))
        return await self.below.load(user_id, ids)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        await self._available().delete(user_id, ids)

    async def aclose(self) -> None:
        if self.below is not None:
            await self.below.aclose()

    def _available(self) -> RowStore:
        if self.below is None:
            raise StoreUnavailable("The database cannot be reached.")
        return self.below
