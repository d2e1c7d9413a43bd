"""Deletes the rows that nobody needs: of deleted users, of deleted chats, and unused for long.

One worker at a time sweeps, in small batches with pauses between them, by the database's clock. Nothing is deleted
that was in use within `GRACE_SECONDS`: a chat that is being made, a temporary chat, or a copy of a deleted chat that
has just been opened keeps its rows. An artifact of a deleted chat that another chat of the same user still names moves
to that chat instead; a summary belongs to the chat that used it last, a row of the audit to the chat of its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any, Final, Protocol

import sqlalchemy as sa

from ..errors import StoreUnavailable
from .beside import Leases
from .database import Database

DAY_SECONDS: Final = 24 * 60 * 60
# Twice the exactness of `last_used`.
GRACE_SECONDS: Final = 2 * DAY_SECONDS

KEPT_SPENDING_DAYS: Final = 62
"""The sums of this month and of the one before."""

_LEASE: Final = "sweep"
_LEASE_SECONDS: Final = 10 * 60
_PAGE_VALUES: Final = 200

Condition = sa.ColumnElement[bool]


class Host(Protocol):
    """What Open WebUI knows. Each method may raise anything: the sweep then ends early."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the users who exist."""

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the chats that exist, archived ones included."""

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Return for each artifact id that an existing chat of the user still names the id of such a chat."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often and how gently to sweep; rows unused for `keep_days` are deleted, and 0 keeps them for ever."""

    keep_days: int = 90
    interval_seconds: float = DAY_SECONDS
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
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._database = database
        self._host = host
        self._schedule = schedule
        self._leases = Leases(database, clock=clock)
        self._artifacts = database.tables.artifact
        tables = database.tables
        self._tables = (self._artifacts, tables.summary, tables.audit, tables.ledger, tables.prompt)

    async def run(self) -> Swept | None:
        """Sweep once; None when another worker is sweeping, or has swept within the interval.

        What is wrong with one table does not keep the others. Raises StoreUnavailable, and what the host raises.
        """
        if not await self._leases.take(_LEASE, _LEASE_SECONDS):
            return None
        works: list[Callable[[], Awaitable[Swept]]] = [
            *(partial(self._sweep_table, table) for table in self._tables),
            self._delete_old_spending,
            self._delete_ended_holds,
        ]
        swept, failed = list[Swept](), list[StoreUnavailable]()
        try:
            await self._leases.delete_ended()
            for work in works:
                try:
                    swept.append(await work())
                except StoreUnavailable as error:  # a table may be missing, and the others are sound
                    failed.append(error)
        except _LeaseLost:
            return None
        if failed:
            raise failed[0]
        await self._leases.extend(_LEASE, self._schedule.interval_seconds)
        return Swept(*map(sum, zip(*map(astuple, swept), strict=True)))

    async def _sweep_table(self, table: sa.Table) -> Swept:
        unused = of_deleted_chats = moved = 0
        if self._schedule.keep_days:
            long_unused = self._unused_for(self._schedule.keep_days * DAY_SECONDS, table)
            unused = await self._delete_all(table, long_unused)
        of_deleted_users = await self._delete_of_deleted_users(table)
        async for chat_id in self._deleted_chats(table):
            of_chat = (table.c.chat_id == chat_id, self._unused_for(GRACE_SECONDS, table))
            if table is self._artifacts:
                counts = await self._delete_or_move(chat_id, of_chat)
                of_deleted_chats, moved = of_deleted_chats + counts[0], moved + counts[1]
            else:
                of_deleted_chats += await self._delete_all(table, *of_chat)
        return Swept(unused, of_deleted_users, of_deleted_chats, moved)

    async def _delete_old_spending(self) -> Swept:
        """Delete the days of earlier months, by which no limit goes any more, of whomever."""
        spending = self._database.tables.spending
        days = sa.cast(self._leases.now() / DAY_SECONDS, sa.BigInteger)
        return Swept(unused=await self._delete_all(spending, spending.c.day < days - KEPT_SPENDING_DAYS))

    async def _delete_ended_holds(self) -> Swept:
        hold = self._database.tables.hold
        return Swept(unused=await self._delete_all(hold, hold.c.until <= self._leases.now()))

    async def _delete_of_deleted_users(self, table: sa.Table) -> int:
        deleted, unused = 0, self._unused_for(GRACE_SECONDS, table)
        async for users in self._distinct_values(table.c.user_id):
            for user_id in sorted(set(users) - await self._host.existing_users(users)):
                deleted += await self._delete_all(table, table.c.user_id == user_id, unused)
        return deleted

    async def _delete_or_move(self, chat_id: str, of_chat: Sequence[Condition]) -> tuple[int, int]:
        """Move the artifacts of a deleted chat that another chat names, delete the rest; return how many of each."""
        table, deleted, moved = self._artifacts, 0, 0
        batch = sa.select(table.c.user_id, table.c.id).where(*of_chat).limit(self._schedule.batch_rows)
        while found := await self._database.fetch(batch):
            owned: dict[str, list[str]] = {}
            for user_id, row_id in found:
                owned.setdefault(user_id, []).append(row_id)
            for user_id, ids in owned.items():
                named = await self._host.naming_chats(user_id, ids)
                of_user = (*of_chat, table.c.user_id == user_id)
                moved += await self._move(of_user, {key: to for key, to in named.items() if to != chat_id})
                rest = sa.delete(table).where(*of_user, table.c.id.in_(ids))
                deleted += await self._database.change(rest)
            await self._pause()
        return deleted, moved

    async def _move(self, conditions: Sequence[Condition], chats: Mapping[str, str]) -> int:
        """Move artifacts to other chats, each by its id; return how many."""
        table, moved = self._artifacts, 0
        for chat_id in sorted(set(chats.values())):
            ids = [key for key, to in chats.items() if to == chat_id]
            moving = sa.update(table).where(*conditions, table.c.id.in_(ids)).values(chat_id=chat_id)
            moved += await self._database.change(moving)
        return moved

    async def _delete_all(self, table: sa.Table, *conditions: Condition) -> int:
        """Delete rows in batches; return how many there were."""
        key = list(table.primary_key)
        some = sa.select(*key).where(*conditions).limit(self._schedule.batch_rows)
        # The conditions stand outside, too: a row that is stamped meanwhile stays.
        batch = sa.delete(table).where(sa.tuple_(*key).in_(some), *conditions)
        deleted = 0
        while count := await self._database.change(batch):
            deleted += count
            await self._pause()
        return deleted

    async def _deleted_chats(self, table: sa.Table) -> AsyncIterator[str]:
        """Yield the chats that rows of the table belong to and that the host does not know."""
        async for chats in self._distinct_values(table.c.chat_id):
            for chat_id in sorted(set(chats) - await self._host.existing_chats(chats)):
                yield chat_id

    async def _distinct_values(self, column: sa.Column[str]) -> AsyncIterator[list[str]]:
        """Yield the distinct values of an indexed column in pages, in order, without the empty one."""
        last = ""
        while page := [row[0] for row in await self._database.fetch(_next_values(column, last))]:
            yield page
            last = page[-1]
            await self._pause()

    def _unused_for(self, seconds: int, table: sa.Table) -> Condition:
        used = table.c.created if table is self._database.tables.audit else table.c.last_used
        return used < self._leases.now() - seconds

    async def _pause(self) -> None:
        """Let requests through, and keep the lease meanwhile. Raises _LeaseLost."""
        await asyncio.sleep(self._schedule.pause_seconds)
        if not await self._leases.extend(_LEASE, _LEASE_SECONDS):
            raise _LeaseLost


class _LeaseLost(Exception):
    """Another worker has taken over, because this one was held up for longer than its lease."""


def _next_values(column: sa.Column[str], after: str) -> sa.Select[Any]:
    """Select the next distinct values of an indexed column, by jumping from one to the next."""
    steps = sa.select(sa.func.min(column).label("value")).where(column > after).cte("steps", recursive=True)
    jump = sa.select(sa.func.min(column)).where(column > steps.c.value).scalar_subquery()
    steps = steps.union_all(sa.select(jump).where(steps.c.value.is_not(None)))
    return sa.select(steps.c.value).where(steps.c.value.is_not(None)).limit(_PAGE_VALUES)
