"""Rows as they are stored, and the one interface that every layer of the store has.

A row is an artifact whose item has become sealed (or plain) bytes. Databases, caches and shelters move rows
and never look inside. This module owns the shape; it does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

PLAIN: Final = 0
SEALED: Final = 1
COMPRESSED: Final = 2
"""How a payload is to be opened: the sum of these. Plain integers, because each row of a request asks."""


class SealedRow(NamedTuple):
    """One stored artifact; the fields stand in the order of the table's columns, which makes reading cheap.

    `key_id` names the key of a sealed payload and is empty for a plain one, `packing` holds the flags above,
    `created` and `last_used` are whole seconds since the epoch.
    """

    user_id: str
    id: str
    chat_id: str
    message_id: str
    kind: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The answer to one load: rows by id, and the ids that nobody could look up at the moment."""

    rows: Mapping[str, SealedRow] = field(default_factory=dict)
    away: frozenset[str] = frozenset()


class RowStore(Protocol):
    """Rows by owner and id. Every layer has this interface, and most wrap another one. No list is empty."""

    async def put(self, rows: Sequence[SealedRow]) -> None:
        """Make all of them durable together, or raise StoreUnavailable. The same owner and id is replaced."""

    async def load(self, user_id: str, ids: Sequence[str]) -> FoundRows:
        """Find the owner's rows; `ids` holds no id twice. Never raises."""

    async def delete(self, user_id: str, ids: Sequence[str]) -> None:
        """Forget the owner's rows, or raise StoreUnavailable. Absent ids are no error."""

    async def touch(self, user_id: str, ids: Sequence[str], *, now: int) -> None:
        """Note that the rows were in use at `now` (epoch seconds), or raise StoreUnavailable."""

    async def aclose(self) -> None:
        """End the layer's own tasks and those of the layers below."""
