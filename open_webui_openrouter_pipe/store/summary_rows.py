"""Rows of summaries in a database: the queries of requests, the notes of use, and who may make one.

Owns the table and the names of claims; rows are sealed and opened above, and swept in `sweep`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .artifacts import epoch_seconds
from .background import Background
from .database import Database
from .dialects import DIALECTS
from .leases import Leases
from .touch import TOUCH_INTERVAL_SECONDS


class SummaryKey(NamedTuple):
    """What a summary is found by: its owner, and the chain digests at the ends of its segment in hexadecimal."""

    user_id: str
    start_chain: str
    end_chain: str


class SummaryRow(NamedTuple):
    """One stored summary; the fields stand in the order of the table's columns.

    `key_id`, `packing`, `created` and `last_used` mean what they mean in an artifact's row.
    """

    user_id: str
    start_chain: str
    end_chain: str
    turns: int
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    source_tokens: int
    created: int
    last_used: int

    @property
    def key(self) -> SummaryKey:
        """What it is found by."""
        return SummaryKey(self.user_id, self.start_chain, self.end_chain)


class SummaryRows:
    """The summaries of all users as rows, for the whole life of a process; its owner awaits `aclose`.

    All methods raise StoreError when the database is away.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        self._database = database
        self._clock = clock
        self._leases = Leases(database, clock=clock)
        self._background = Background()
        table = database.tables.summary
        dialect = DIALECTS[database.dialect]
        self._table = table
        self._id_list = dialect.id_list
        # Not by the index: the databases would look up each end for each start, which are many in a long chat.
        end_chain = table.c.end_chain.concat(sa.literal_column("''"))
        within = dialect.is_one_of(table.c.start_chain), dialect.is_one_of(end_chain)
        named = (table.c.user_id == sa.bindparam("owner"), *within)
        self._select = sa.select(table).where(*named)
        self._touch = sa.update(table).where(*named, table.c.last_used <= sa.bindparam("before"))

    async def find(self, user_id: str, chains: Sequence[str], *, chat_id: str) -> list[SummaryRow]:
        """Find the owner's rows whose both ends are among the chains, with one query however many these are.

        Notes beside the request that they are in use, once a day, from then on in the chat `chat_id`.
        """
        named = {"owner": user_id, "ids": self._id_list(chains)}

        async def work(connection: AsyncConnection) -> list[SummaryRow]:
            return list(map(SummaryRow._make, await connection.execute(self._select, named)))

        rows = await self._database.read(work)
        before = self._clock() - TOUCH_INTERVAL_SECONDS
        if stale := [row for row in rows if row.last_used <= before]:
            self._background.start(partial(self._note_use, user_id, stale, chat_id))
        return rows

    async def add(self, row: SummaryRow) -> bool:
        """Write a row, unless its segment has one already; whether it was written."""
        return await self._database.change(self._database.adding(self._table), row._asdict()) == 1

    async def at(self, key: SummaryKey) -> SummaryRow | None:
        """The row with this key."""
        chosen = sa.select(self._table).where(
            *(self._table.c[name] == value for name, value in key._asdict().items())
        )

        async def work(connection: AsyncConnection) -> SummaryRow | None:
            found = (await connection.execute(chosen)).one_or_none()
            return None if found is None else SummaryRow._make(found)

        return await self._database.read(work)

    async def replace(self, unreadable: SummaryRow, row: SummaryRow) -> None:
        """Write a row over an unreadable one, unless somebody has done that already."""
        unchanged = self._table.c.payload == unreadable.payload
        await self._database.change(self._database.replacing(self._table, unchanged), row._asdict())

    async def claim(self, key: SummaryKey, *, seconds: float) -> bool:
        """Whether the caller may make the summary; exactly one of all workers' callers may, for that time."""
        return await self._leases.take(_claim_name(key), seconds)

    async def release(self, key: SummaryKey) -> None:
        """Give back a claim of this worker."""
        await self._leases.release(_claim_name(key))

    async def idle(self) -> None:
        """Wait until all uses are noted."""
        await self._background.idle()

    async def aclose(self) -> None:
        """End what runs beside requests."""
        await self._background.aclose()

    async def _note_use(self, user_id: str, rows: Sequence[SummaryRow], chat_id: str) -> None:
        now = self._clock()
        ends = sorted({end for row in rows for end in (row.start_chain, row.end_chain)})
        used = {"last_used": now} | ({"chat_id": chat_id} if chat_id else {})
        named = {"owner": user_id, "ids": self._id_list(ends), "before": now - TOUCH_INTERVAL_SECONDS}
        await self._database.change(self._touch.values(used), named)


def _claim_name(key: SummaryKey) -> str:
    """The name of a claim's lease, which shows nobody's id."""
    words = "\0".join(key).encode("utf-8", "surrogatepass")
    return f"summary:{hashlib.blake2b(words, digest_size=16).hexdigest()}"
