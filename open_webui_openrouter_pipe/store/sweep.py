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
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import sqlalchemy as sa

from ..errors import StoreUnavailable
from ..money.limits import DAY_QUARTERS
from .beside import Leases
from .database import Database

DAY_SECONDS: Final = 24 * 60 * 60
# Twice the exactness of `last_used`.
GRACE_SECONDS: Final = 2 * DAY_SECONDS

KEPT_SPENDING_DAYS: Final = 400
"""The sums of this month and of the same one a year ago, whole in any time zone."""

_LEASE: Final = "sweep"
_LEASE_SECONDS: Final = 10 * 60

Condition = sa.ColumnElement[bool]


class HostRecords(Protocol):
    """What Open WebUI knows. Each method may raise anything: the sweep then ends early."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the users who exist."""

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the chats that exist, archived ones included."""

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Return for each artifact id that an existing chat of the user still names the id of such a chat."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often and how gently to sweep; rows unused for `keep_days` are deleted, and 0 keeps them for ever.

    Users and chats are looked up by pages of `page_values`: with a pause after each, ten million take half an hour.
    """

    keep_days: int = 90
    interval_seconds: float = DAY_SECONDS
    batch_rows: int = 200
    page_values: int = 1_000
    pause_seconds: float = 0.2


class Sweep:
    """The sweep of one worker."""

    def __init__(
        self,
        database: Database,
        host: HostRecords,
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

    async def run(self) -> bool:
        """Sweep once; False when another worker is sweeping, or has swept within the interval.

        What is wrong with one table does not keep the others. Raises StoreUnavailable, and what the host raises.
        """
        if not await self._leases.take(_LEASE, _LEASE_SECONDS):
            return False
        tables, now = self._database.tables, self._leases.now()
        oldest = sa.cast(now / DAY_SECONDS, sa.BigInteger) - KEPT_SPENDING_DAYS
        works: list[Callable[[], Awaitable[None]]] = [
            *(partial(self._sweep_table, table) for table in self._tables),
            partial(self._delete_all, tables.spending, tables.spending.c.day < oldest),  # of whomever
            partial(self._delete_all, tables.usage, tables.usage.c.quarter < oldest * DAY_QUARTERS),
            partial(self._delete_all, tables.lease, tables.lease.c.until <= now),
        ]
        failed: StoreUnavailable | None = None
        try:
            for work in works:
                try:
                    await work()
                except StoreUnavailable as error:  # a table may be missing, and the others are sound
                    failed = failed or error
        except _LeaseLost:
            return False
        if failed:
            raise failed
        await self._leases.extend(_LEASE, self._schedule.interval_seconds)
        return True

    async def _sweep_table(self, table: sa.Table) -> None:
        if self._schedule.keep_days:
            await self._delete_all(table, self._unused_for(self._schedule.keep_days * DAY_SECONDS, table))
        unused = self._unused_for(GRACE_SECONDS, table)
        async for users in self._distinct_values(table.c.user_id):
            for user_id in sorted(set(users) - await self._host.existing_users(users)):
                await self._delete_all(table, table.c.user_id == user_id, unused)
        async for chats in self._distinct_values(table.c.chat_id):
            for chat_id in sorted(set(chats) - await self._host.existing_chats(chats)):
                if table is self._artifacts:
                    await self._delete_or_move(chat_id, (table.c.chat_id == chat_id, unused))
                else:
                    await self._delete_all(table, table.c.chat_id == chat_id, unused)

    async def _delete_or_move(self, chat_id: str, of_chat: Sequence[Condition]) -> None:
        """Move the artifacts of a deleted chat that another chat names, and delete the rest."""
        table = self._artifacts
        batch = sa.select(table.c.user_id, table.c.id).where(*of_chat).limit(self._schedule.batch_rows)
        while found := await self._database.fetch(batch):
            for user_id in sorted({owner for owner, _ in found}):
                ids = [row_id for owner, row_id in found if owner == user_id]
                named = await self._host.naming_chats(user_id, ids)
                of_user = (*of_chat, table.c.user_id == user_id)
                for to in sorted({*named.values()} - {chat_id}):
                    moved = table.c.id.in_([key for key, chat in named.items() if chat == to])
                    await self._database.change(sa.update(table).where(*of_user, moved).values(chat_id=to))
                await self._database.change(sa.delete(table).where(*of_user, table.c.id.in_(ids)))
            await self._pause()

    async def _delete_all(self, table: sa.Table, *conditions: Condition) -> None:
        """Delete rows in batches."""
        key = list(table.primary_key)
        some = sa.select(*key).where(*conditions).limit(self._schedule.batch_rows)
        # The conditions stand outside, too: a row that is stamped meanwhile stays.
        batch = sa.delete(table).where(sa.tuple_(*key).in_(some), *conditions)
        while await self._database.change(batch):
            await self._pause()

    async def _distinct_values(self, column: sa.Column[str]) -> AsyncIterator[list[str]]:
        """Yield the distinct values of a column in pages, by jumping in its index, in order, without the empty one."""
        value, after = sa.func.min(column).label("value"), {"after": ""}
        steps = sa.select(value).where(column > sa.bindparam("after")).cte("steps", recursive=True)
        jump = sa.select(value).where(column > steps.c.value).scalar_subquery()
        found = sa.select(steps.union_all(sa.select(jump).where(steps.c.value.is_not(None))))
        query = found.where(found.selected_columns[0].is_not(None)).limit(self._schedule.page_values)
        while page := [row[0] for row in await self._database.fetch(query, after)]:
            yield page
            after = {"after": page[-1]}
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
