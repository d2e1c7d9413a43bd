"""Rows in a dict, for tests and for replaying a chat without a database; gone with the process."""

from __future__ import annotations

from collections.abc import Sequence

from .rows import FoundRows, SealedRow


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
