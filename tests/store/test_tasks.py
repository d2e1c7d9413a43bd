"""Work beside requests: bounded, in batches and in order, with what is lost in the log."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.beside import MAX_WAITING_VALUES, BackgroundTasks, BatchWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class FakeTable:
    """Takes batches while its gate is open, and refuses the first `refusals` of them."""

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
    table = FakeTable()
    writer = BatchWriter[int]("numbers", table.write)
    for number in range(150):
        writer.write(number)
    assert table.batches == []
    await writer.idle()
    assert table.batches == [list(range(100)), list(range(100, 150))]


async def test_what_is_lost_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An unavailable database, or anything else that fails, costs its batch alone."""
    table = FakeTable(StoreUnavailable("unavailable"), RuntimeError("odd"))
    writer = BatchWriter[int]("numbers", table.write)
    for number in range(250):
        writer.write(number)
    with caplog.at_level(logging.WARNING):
        await writer.idle()
    assert table.batches == [list(range(200, 250))]
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ["numbers: 100 not written: unavailable", "numbers: 100 not written"]


async def test_waiting_values_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A writer that hangs holds a bounded number of values."""
    table = FakeTable()
    table.gate.clear()
    writer = BatchWriter[int]("numbers", table.write)
    for number in range(MAX_WAITING_VALUES + 1):
        writer.write(number)
    assert [record.getMessage() for record in caplog.records] == [
        "numbers: not written, too many are waiting"
    ]
    table.gate.set()
    await writer.aclose()
    assert sum(map(len, table.batches)) == MAX_WAITING_VALUES


async def test_a_writer_without_values_closes_at_once() -> None:
    """Closing needs no task."""
    writer = BatchWriter[int]("numbers", FakeTable().write)
    await writer.idle()
    await writer.aclose()


async def test_what_is_not_written_before_the_end_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that hangs is cancelled when its owner closes it."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.beside._CLOSING_SECONDS", 0)
    table = FakeTable()
    table.gate.clear()
    writer = BatchWriter[int]("numbers", table.write)
    for number in range(150):
        writer.write(number)
    await writer.aclose()
    assert [record.getMessage() for record in caplog.records] == ["numbers: 150 not written before the end"]


async def test_background_tasks_are_bounded() -> None:
    """What is started when sixty-four are under way is dropped."""
    gate = asyncio.Event()
    ended: list[int] = []

    async def work(number: int) -> None:
        await gate.wait()
        ended.append(number)

    tasks = BackgroundTasks()
    for number in range(65):
        tasks.start(partial(work, number))
    gate.set()
    await tasks.idle()
    assert sorted(ended) == list(range(64))
    await tasks.aclose()


async def test_background_work_that_fails_is_not_an_error(caplog: pytest.LogCaptureFixture) -> None:
    """The log mentions it for whoever looks for it."""

    async def fail() -> None:
        raise StoreUnavailable("unavailable")

    tasks = BackgroundTasks()
    with caplog.at_level(logging.DEBUG, "open_webui_openrouter_pipe"):
        tasks.start(fail)
        await tasks.aclose()
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
