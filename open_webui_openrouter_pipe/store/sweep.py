"""Deletes rows that nobody needs any more: of deleted users, of deleted chats, and unused for a long time.

One worker at a time sweeps, by a lease in the database, in small batches with pauses between them, so that
requests never wait. Nothing is deleted that was in use within `GRACE_SECONDS`: a chat that is being made, a
temporary chat, or a copy of a deleted chat that was opened a moment ago keeps its artifacts. A row whose chat
is gone, but which another chat of the same user still names, moves to that chat instead.

What exists is the host's knowledge, asked through `Host`. This module owns the decision and its queries.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..errors import StoreError
from .artifacts import epoch_seconds
from .database import Database

DAY_SECONDS: Final = 24 * 60 * 60
# Twice the exactness of `last_used`.
GRACE_SECONDS: Final = 2 * DAY_SECONDS

_LEASE: Final = "sweep"
_LEASE_SECONDS: Final = 10 * 60
_PAGE_VALUES: Final = 200

Condition = sa.ColumnElement[bool]


class Host(Protocol):
    """What Open WebUI knows. Each may raise anything: the sweep then ends early."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Those of the users who exist."""

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Those of the chats that exist, archived ones among them."""

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """For each artifact id that an existing chat of the user still names: the id of such a chat."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often and how gently to sweep; rows unused for `keep_days` go, and 0 keeps them for ever."""

    keep_days: int = 90
    interval_seconds: float = 24 * 60 * 60
    batch_rows: int = 200
    pause_seconds: float = 0.2


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows a sweep deleted, by reason, and how many moved to another chat."""

    unused: int = 0
    of_deleted_users: int = 0
    of_deleted_chats: int = 0
    moved: int = 0


class Sweep:
    """The sweep of one worker."""

    def __init__(
        self,
        database: Database,
        host: Host,
        schedule: Schedule,
        *,
        clock: Callable[[], int] = epoch_seconds,
    ) -> None:
        self._database = database
        self._host = host
        self._schedule = schedule
        self._clock = clock
        self._holder = secrets.token_hex(8)
        self._rows = database.tables.artifact
        self._lease = database.tables.lease

    async def run(self) -> Swept | None:
        """Sweep once; None when another worker is at it, or was within the interval.

        Raises StoreUnavailable when the database is away, and what the host raises.
        """
        if not await self._take_lease():
            return None
        try:
            unused = await self._delete_unused()
            of_deleted_users = await self._delete_of_deleted_users()
            of_deleted_chats, moved = await self._clear_deleted_chats()
        except _LeaseLost:
            return None
        await self._hold_lease(self._schedule.interval_seconds)
        return Swept(unused, of_deleted_users, of_deleted_chats, moved)

    async def _delete_unused(self) -> int:
        if not self._schedule.keep_days:
            return 0
        return await self._delete_all(self._unused_for(self._schedule.keep_days * DAY_SECONDS))

    async def _delete_of_deleted_users(self) -> int:
        deleted = 0
        async for users in self._pages(self._rows.c.user_id):
            for user_id in sorted(set(users) - await self._host.existing_users(users)):
                deleted += await self._delete_all(
                    self._rows.c.user_id == user_id, self._unused_for(GRACE_SECONDS)
                )
        return deleted

    async def _clear_deleted_chats(self) -> tuple[int, int]:
        """Delete or move the rows of deleted chats; how many of each."""
        deleted = moved = 0
        async for chats in self._pages(self._rows.c.chat_id):
            for chat_id in sorted(set(chats) - await self._host.existing_chats(chats)):
                here = (self._rows.c.chat_id == chat_id, self._unused_for(GRACE_SECONDS))
                while owned := await self._some_by_owner(*here):
                    for user_id, ids in owned.items():
                        own = (*here, self._rows.c.user_id == user_id)
                        moved += await self._move(own, await self._homes(user_id, ids, chat_id))
                        deleted += await self._change(sa.delete(self._rows).where(*own, self._is_one_of(ids)))
                    await self._pause()
        return deleted, moved

    async def _homes(self, user_id: str, ids: Sequence[str], gone: str) -> dict[str, list[str]]:
        """The other chats that name the artifacts, each with what it names."""
        homes: dict[str, list[str]] = {}
        for key, chat_id in (await self._host.naming_chats(user_id, ids)).items():
            if chat_id != gone:
                homes.setdefault(chat_id, []).append(key)
        return homes

    async def _move(self, own: Sequence[Condition], homes: Mapping[str, Sequence[str]]) -> int:
        moved = 0
        for chat_id, ids in homes.items():
            statement = sa.update(self._rows).where(*own, self._is_one_of(ids)).values(chat_id=chat_id)
            moved += await self._change(statement)
        return moved

    async def _delete_all(self, *conditions: Condition) -> int:
        """Delete rows in batches; how many there were."""
        some = sa.select(self._rows.c.user_id, self._rows.c.id).where(*conditions)
        named = sa.tuple_(self._rows.c.user_id, self._rows.c.id).in_(some.limit(self._schedule.batch_rows))
        deleted = 0
        # The conditions stand outside, too: a row that is touched meanwhile stays.
        while count := await self._change(sa.delete(self._rows).where(named, *conditions)):
            deleted += count
            await self._pause()
        return deleted

    async def _some_by_owner(self, *conditions: Condition) -> dict[str, list[str]]:
        """The ids of a batch of rows, by owner."""
        some = sa.select(self._rows.c.user_id, self._rows.c.id).where(*conditions)
        owned: dict[str, list[str]] = {}
        for user_id, row_id in await self._fetch(some.limit(self._schedule.batch_rows)):
            owned.setdefault(user_id, []).append(row_id)
        return owned

    async def _pages(self, column: sa.Column[str]) -> AsyncIterator[list[str]]:
        """The different values of an indexed column, in order; empty ones are left out."""
        last = ""
        while page := [row[0] for row in await self._fetch(_next_values(column, last))]:
            yield page
            last = page[-1]
            await self._pause()

    def _unused_for(self, seconds: int) -> Condition:
        return self._rows.c.last_used < self._clock() - seconds

    def _is_one_of(self, ids: Sequence[str]) -> Condition:
        return self._rows.c.id.in_(ids)

    async def _take_lease(self) -> bool:
        now = self._clock()
        values = {"name": _LEASE, "holder": self._holder, "until": now + _LEASE_SECONDS}
        taking = self._database.replacing(self._lease, self._lease.c.until <= now)
        return await self._change(taking, values) == 1

    async def _pause(self) -> None:
        """Let requests through, and keep the lease meanwhile. Raises _LeaseLost."""
        await asyncio.sleep(self._schedule.pause_seconds)
        await self._hold_lease(_LEASE_SECONDS)

    async def _hold_lease(self, seconds: float) -> None:
        mine = (self._lease.c.name == _LEASE, self._lease.c.holder == self._holder)
        until = self._clock() + int(seconds)
        if not await self._change(sa.update(self._lease).where(*mine).values(until=until)):
            raise _LeaseLost

    async def _change(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> int:
        """Execute the statement in a transaction of its own; how many rows it changed."""

        async def work(connection: AsyncConnection) -> int:
            # SQLAlchemy counts updates and deletions by itself, but not insertions.
            options = {"preserve_rowcount": True}
            return (await connection.execute(statement, values, execution_options=options)).rowcount

        return await self._database.run(work)

    async def _fetch(self, statement: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        async def work(connection: AsyncConnection) -> Sequence[sa.Row[Any]]:
            return (await connection.execute(statement)).all()

        return await self._database.read(work)


class _LeaseLost(StoreError):
    """Another worker has taken over, because this one was held up for longer than its lease."""

    def __init__(self) -> None:
        super().__init__("Another worker is cleaning up.")


def _next_values(column: sa.Column[str], after: str) -> sa.Select[Any]:
    """The next different values of an indexed column, by jumping from one to the next."""
    steps = sa.select(sa.func.min(column).label("value")).where(column > after).cte("steps", recursive=True)
    jump = sa.select(sa.func.min(column)).where(column > steps.c.value).scalar_subquery()
    steps = steps.union_all(sa.select(jump).where(steps.c.value.is_not(None)))
    return sa.select(steps.c.value).where(steps.c.value.is_not(None)).limit(_PAGE_VALUES)
