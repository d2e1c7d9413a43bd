"""Writing beside the requests: in order, in batches, bounded, and with a word about what was lost."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.tasks import MOST_WAITING, BatchWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class Paper:
    """Takes batches, as soon as its gate is open, and refuses the first `refusals` of them."""

    def __init__(self, *refusals: Exception) -> None:
        self.batches: list[list[int]] = []
        self.refusals = list(refusals)
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, values: Sequence[int]) -> None:
        await self.gate.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        self.batches.append(list(values))


async def test_values_are_written_in_order_and_in_batches() -> None:
    """What gathers while a batch is written goes out with the next one."""
    paper = Paper()
    deferred = BatchWriter[int]("numbers", paper.write)
    for number in range(150):
        deferred.add(number)
    assert paper.batches == []
    await deferred.idle()
    assert paper.batches == [list(range(100)), list(range(100, 150))]


async def test_what_is_lost_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A database that is away, or anything else that fails, costs its batch alone."""
    paper = Paper(StoreUnavailable("away"), RuntimeError("odd"))
    deferred = BatchWriter[int]("numbers", paper.write)
    for number in range(250):
        deferred.add(number)
    with caplog.at_level(logging.WARNING):
        await deferred.idle()
    assert paper.batches == [list(range(200, 250))]
    told = [record.getMessage() for record in caplog.records]
    assert told == ["numbers: 100 not written: away", "numbers: 100 not written"]


async def test_no_more_than_some_wait(caplog: pytest.LogCaptureFixture) -> None:
    """A writer that hangs holds a bounded number of values."""
    paper = Paper()
    paper.gate.clear()
    deferred = BatchWriter[int]("numbers", paper.write)
    for number in range(MOST_WAITING + 1):
        deferred.add(number)
    assert [record.getMessage() for record in caplog.records] == [
        "numbers: not written, too many are waiting"
    ]
    paper.gate.set()
    await deferred.aclose()
    assert sum(map(len, paper.batches)) == MOST_WAITING


async def test_nothing_to_write_ends_at_once() -> None:
    """Closing needs no task."""
    deferred = BatchWriter[int]("numbers", Paper().write)
    await deferred.idle()
    await deferred.aclose()
