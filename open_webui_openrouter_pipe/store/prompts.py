"""The system prompts that chats keep sending: sealed rows in the database, one for each user, chat and model.

A prompt is sealed whatever the settings say, bound to its row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import sqlalchemy as sa

from ..errors import SealBroken
from ..ports import KeptPrompt, PromptOwner
from .database import Database, epoch_seconds
from .rows import STAMP_INTERVAL_SECONDS
from .sealing import (
    ItemTooLarge,
    Keyring,
    Packed,
    decode_item,
    encode_item,
    pack,
    require_storable,
    unpack,
)
from .tasks import BackgroundTasks

MAX_PROMPT_BYTES: Final = 1024 * 1024
"""How large a prompt may be as JSON: longer than any that people write."""


class PromptRow(NamedTuple):
    """One stored prompt; the fields are in the order of the table's columns, and as in an artifact's row."""

    user_id: str
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int


class PromptRows(BackgroundTasks):
    """The prompts of all chats as rows, for the whole life of a process; its owner awaits `aclose`.

    All methods raise StoreUnavailable.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int] = epoch_seconds) -> None:
        super().__init__()
        self._database = database
        self._clock = clock
        self._table = table = database.tables.prompt
        self._named = [column == sa.bindparam(f"of_{column.name}") for column in table.primary_key]
        self._select = sa.select(table).where(*self._named)

    async def get(self, owner: PromptOwner) -> PromptRow | None:
        """Return the owner's row with one query, and stamp its use beside the request, once a day."""
        named = {"of_user_id": owner.user_id, "of_chat_id": owner.chat_id, "of_model": owner.model}
        found = await self._database.read(self._select, named)
        row = PromptRow._make(found[0]) if found else None
        if row and row.last_used <= self._clock() - STAMP_INTERVAL_SECONDS:
            stamp = sa.update(self._table).where(*self._named).values(last_used=self._clock())
            self.start(partial(self._database.change, stamp, named))
        return row

    async def add(self, row: PromptRow, *, instead_of: PromptRow | None) -> bool:
        """Write a row, unless its place is taken by another than the one it replaces; return whether it was written."""
        is_replaced = self._table.c.payload == instead_of.payload if instead_of else sa.false()
        insert = self._database.insert_or_replace(self._table, is_replaced)
        return bool(await self._database.change(insert, row._asdict()))


class SealedPrompts:
    """The engine's Prompts over rows that live longer. Cheap: make another when settings change."""

    def __init__(
        self, rows: PromptRows, keyring: Keyring, *, clock: Callable[[], int] = epoch_seconds
    ) -> None:
        self._rows = rows
        self._keyring = keyring
        self._clock = clock

    async def find(self, owner: PromptOwner) -> KeptPrompt | None:
        """Return what is kept, None also for a row that does not open. Raises StoreUnavailable."""
        row = await self._rows.get(owner)
        return self._open(row) if row else None

    async def keep(
        self, owner: PromptOwner, prompt: KeptPrompt, *, instead_of: KeptPrompt | None
    ) -> KeptPrompt:
        """Keep a prompt in the place of one, or of what does not open; return what is kept: the first of several.

        Raises StoreUnavailable, and StoreError for what cannot be stored.
        """
        new = _seal(owner, prompt, self._keyring, self._clock())
        if instead_of is None and await self._rows.add(new, instead_of=None):
            return prompt
        for _ in range(2):
            row = await self._rows.get(owner)
            found = self._open(row) if row else None
            if found is not None and found != instead_of:
                return found
            if await self._rows.add(new, instead_of=row):
                return prompt
        return found or prompt

    def _open(self, row: PromptRow) -> KeptPrompt | None:
        try:
            return _unseal(row, self._keyring)
        except (SealBroken, ItemTooLarge, KeyError):
            return None


def _seal(owner: PromptOwner, prompt: KeptPrompt, keyring: Keyring, now: int) -> PromptRow:
    """Make the row of a prompt, created at `now` (epoch seconds). Raises StoreError."""
    key = (owner.user_id, owner.chat_id, owner.model)
    require_storable(*key)
    data = encode_item({"text": prompt.text, "template": prompt.template})
    if len(data) > MAX_PROMPT_BYTES:
        raise ItemTooLarge("A system prompt is too large to be kept.", detail=f"{len(data)} bytes")
    return PromptRow(*key, *pack(data, ("prompt", *key), keyring), created=now, last_used=now)


def _unseal(row: PromptRow, keyring: Keyring) -> KeptPrompt:
    """Open a row. Raises SealBroken, ItemTooLarge, or KeyError for the form of another release."""
    packed = Packed(row.key_id, row.packing, row.payload)
    fields = decode_item(unpack(packed, ("prompt", *row[:3]), keyring, limit_bytes=MAX_PROMPT_BYTES))
    return KeptPrompt(fields["text"], fields["template"])
