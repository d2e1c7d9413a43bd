"""Rows of chats that are not saved, and of those that are saved after all."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.store.artifacts import SavedRows, UnsavedRows
from open_webui_openrouter_pipe.store.table import FoundRows, RowStore
from tests.store.contract import StoreContract, row
from tests.store.fakes import MemoryRows, SwitchedRows

pytestmark = pytest.mark.anyio

FIRST, SECOND, THIRD = row(1), row(2), row(3)


class TestUnsavedRows(StoreContract):
    @pytest.fixture
    def rows(self) -> RowStore:
        return UnsavedRows()


class TestSavedRows(StoreContract):
    @pytest.fixture
    def rows(self) -> RowStore:
        return SavedRows(MemoryRows(), UnsavedRows())


async def test_of_too_many_bytes_the_rows_in_use_stay() -> None:
    """What was replaced or deleted counts no more."""
    rows = UnsavedRows(max_bytes=len(FIRST.payload) + len(SECOND.payload))
    for _ in range(3):
        await rows.put([FIRST])
    await rows.put([THIRD])
    await rows.delete("ada", [THIRD.id])
    await rows.put([SECOND])
    await rows.load("ada", [FIRST.id])
    await rows.put([THIRD])
    found = await rows.load("ada", [FIRST.id, SECOND.id, THIRD.id])
    assert found.rows == {FIRST.id: FIRST, THIRD.id: THIRD}


async def test_a_saved_chat_has_its_rows_made_durable() -> None:
    """With the first load; they are found below from then on."""
    below, unsaved = MemoryRows(), UnsavedRows()
    await below.put([FIRST])
    await unsaved.put([SECOND])
    ids = [FIRST.id, SECOND.id, THIRD.id]
    found = await SavedRows(below, unsaved).load("ada", ids)
    assert found.rows == {FIRST.id: FIRST, SECOND.id: SECOND}
    assert (await below.load("ada", ids)).rows == found.rows


async def test_rows_in_memory_are_found_while_the_database_is_unavailable() -> None:
    """The others are unavailable, and the next load makes those in memory durable."""
    below, unsaved = SwitchedRows(), UnsavedRows()
    await unsaved.put([SECOND])
    rows = SavedRows(below, unsaved)
    found = await rows.load("ada", [FIRST.id, SECOND.id])
    assert found == FoundRows({SECOND.id: SECOND}, frozenset({FIRST.id}))
    below.below = MemoryRows()
    await rows.load("ada", [SECOND.id])
    assert list((await below.load("ada", [SECOND.id])).rows) == [SECOND.id]


async def test_what_is_deleted_is_nowhere_any_more() -> None:
    """Neither below nor in memory."""
    below, unsaved = MemoryRows(), UnsavedRows()
    await below.put([FIRST])
    await unsaved.put([FIRST, SECOND])
    await SavedRows(below, unsaved).delete("ada", [FIRST.id, SECOND.id])
    assert (await SavedRows(below, unsaved).load("ada", [FIRST.id, SECOND.id])).rows == {}
