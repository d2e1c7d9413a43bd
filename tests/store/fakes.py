"""Rows without a database, rows that cannot be reached, and a Redis in memory."""

from __future__ import annotations

import asyncio
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
        return {key: row for key in ids if (row := self.rows.get((user_id, key)))}

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        for key in ids:
            self.rows.pop((user_id, key), None)


class SwitchedRows:
    """A store of rows that is unavailable while `below` is None."""

    def __init__(self, below: RowStore | None = None) -> None:
        self.below = below

    async def put(self, rows: Sequence[SealedRow]) -> None:
        await self._available().put(rows)

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        return await self.below.load(user_id, ids) if self.below else dict.fromkeys(ids)

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        await self._available().delete(user_id, ids)

    def _available(self) -> RowStore:
        if self.below is None:
            raise StoreUnavailable("The database cannot be reached.")
        return self.below


class FakeRedis:
    """A Redis in memory; its reads and pipelines are counted, and fail while it is down, or wait while it is silent."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.commands = 0
        self.down = self.silent = False
        self._new: dict[str, bytes] = {}

    async def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        await self._answer()
        return [self.values.get(key) for key in keys]

    def pipeline(self, *, transaction: bool) -> FakeRedis:
        """Itself: what is set is there when the pipeline is executed."""
        assert not transaction
        self._new = {}
        return self

    def set(self, name: str, value: bytes, *, ex: int, nx: bool) -> FakeRedis:
        assert ex > 0
        if not (nx and name in self.values):
            self._new[name] = value
        return self

    async def execute(self) -> list[bool]:
        await self._answer()
        self.values |= self._new
        return [True] * len(self._new)

    async def _answer(self) -> None:
        self.commands += 1
        if self.down:
            raise ConnectionError("down")
        if self.silent:
            await asyncio.Event().wait()
