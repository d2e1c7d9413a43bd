"""The last use of a row is noted, beside the request and once a day."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.store.memory import MemoryRows
from open_webui_openrouter_pipe.store.rows import TOUCH_INTERVAL_SECONDS, LastUsedRows, RowStore
from tests.store.contract import NOW, AwayRows, StoreContract, row

pytestmark = pytest.mark.anyio


class TestTouchingRows(StoreContract):
    @pytest.fixture
    def rows(self) -> RowStore:
        return LastUsedRows(MemoryRows(), lambda: NOW)


async def last_use_after_a_load(age: int) -> int:
    """When a row that was last noted so many seconds ago was in use, as the database has it after a load."""
    below = MemoryRows()
    await below.put([row(1, now=NOW - age)])
    rows = LastUsedRows(below, lambda: NOW)
    assert (await rows.load("ada", [row(1).id])).rows[row(1).id].last_used == NOW - age
    await rows.idle()
    await rows.aclose()
    return (await below.load("ada", [row(1).id])).rows[row(1).id].last_used


async def test_a_use_is_noted_once_a_day() -> None:
    """A row that was noted within the last day is left alone."""
    day = TOUCH_INTERVAL_SECONDS
    assert await last_use_after_a_load(day) == NOW
    assert await last_use_after_a_load(day - 1) == NOW - day + 1


async def test_a_use_that_cannot_be_noted_fails_nothing() -> None:
    """The database may go away between reading and noting."""
    below = MemoryRows()
    await below.put([row(1, now=0)])
    away = AwayRows(below)
    rows = LastUsedRows(away, lambda: NOW)
    assert (await rows.load("ada", [row(1).id])).rows.keys() == {row(1).id}
    away.below = None
    await rows.idle()
    await rows.aclose()
