"""Work beside requests: bounded, in batches and in order, with what is lost in the log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.errors import StoreError, StoreUnavailable
from open_webui_openrouter_pipe.store.beside import MAX_WAITING_VALUES, BatchWriter
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

pytestmark = pytest.mark.anyio


LOST = StoreUnavailable("unavailable")


class FakeTable:
    """Takes batches while its gate is open, and refuses the first `refusals` of them; a batch with -1 is refused."""

    def __init__(self, *refusals: Exception) -> None:
        self.batches: list[list[int]] = []
        self.refusals = list(refusals)
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, values: Sequence[int]) -> None:
        await asyncio.sleep(0)
        await self.gate.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        if -1 in values:
            raise StoreError("refused")
        self.batches.append(list(values))


def writing(table: FakeTable, values: Iterable[int] = (), seconds: float = 3600) -> BatchWriter[int]:
    """A writer of numbers that has these."""
    writer = BatchWriter[int]("numbers", table.write)
    writer.gathering_seconds = seconds
    for number in values:
        writer.write(number)
    return writer


async def test_values_gather_until_their_time_is_over_or_a_batch_is_full() -> None:
    """In their order; whoever closes the writer has what waits written without the wait."""
    writer = writing(table := FakeTable())
    await writer.aclose()
    for number in range(101):
        writer.write(number)
        if number < 7:
            await asyncio.sleep(0)
            assert table.batches == []
    await eventually(lambda: table.batches)
    await asyncio.sleep(0.05)
    assert table.batches == [list(range(100))]
    await writer.aclose()
    assert table.batches == [list(range(100)), [100]]
    writing(table := FakeTable(), [1], seconds=0.01)
    await eventually(lambda: table.batches)


@pytest.mark.parametrize(
    ("refusals", "values", "written", "logged"),
    [
        (
            (RuntimeError("odd"),),
            range(150),
            [list(range(100, 150))],
            ["numbers: unexpected error", "numbers: 100 not written: RuntimeError"],
        ),
        ((), (1, -1, 3), [[1], [3]], ["numbers: 1 not written: refused"]),
        (
            (),
            range(MAX_WAITING_VALUES + 1),
            [list(range(at, at + 100)) for at in range(0, MAX_WAITING_VALUES, 100)],
            ["numbers: 1 not written: too many are waiting"],
        ),
    ],
    ids=["batches that fail", "a value that is refused", "too many values"],
)
async def test_what_is_lost_is_logged(
    refusals: Sequence[Exception],
    values: Sequence[int],
    written: list[list[int]],
    logged: list[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever fails costs its batch alone, a value that the database refuses itself; a bounded number waits."""
    await writing(table := FakeTable(*refusals), values, seconds=0.01).idle()
    assert (table.batches, caplog.messages) == (written, logged)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which end at once."""
    made: list[float] = []

    class Timeout:
        def __init__(self, seconds: float) -> None:
            made.append(seconds)

        async def __aenter__(self) -> None:
            await asyncio.sleep(0)
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr("open_webui_openrouter_pipe.store.beside.asyncio.timeout", Timeout)
    return made


async def test_batches_wait_while_the_database_is_away(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """With growing pauses, up to half a minute, each of which is logged; then all are written in their order."""
    await writing(table := FakeTable(*[LOST] * 8), range(150)).idle()
    assert table.batches == [list(range(100)), list(range(100, 150))]
    assert pauses == [3600, 1, 2, 4, 8, 16, 30, 30, 30, 3600]
    assert caplog.messages == ["numbers: 150 are waiting: unavailable"] * 8


@pytest.mark.parametrize("is_writing", [True, False])
async def test_a_planned_stop_waits_for_the_database(
    monkeypatch: pytest.MonkeyPatch, *, is_writing: bool
) -> None:
    """A batch whose writing was cut short is written again."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.beside._PAUSES_SECONDS", (0.01,))
    table = FakeTable(*[LOST] * 3)
    writer = writing(table, range(150), 0)
    if is_writing:
        table.gate.clear()
        await asyncio.sleep(0.02)
    closing = asyncio.create_task(writer.aclose())
    await asyncio.sleep(0.02)
    table.gate.set()
    await closing
    assert table.batches == [list(range(100)), list(range(100, 150))]


async def test_what_is_not_written_before_the_end_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that hangs is given up when its owner has closed it."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.beside.CLOSING_SECONDS", 0)
    (table := FakeTable()).gate.clear()
    await writing(table, range(150)).aclose()
    assert caplog.messages == ["numbers: 150 not written: the worker ends"]


def test_an_event_loop_that_ends_waits_for_what_gathers() -> None:
    """A server that is stopped cancels all tasks; the values of its last moment are written all the same."""

    async def serve() -> FakeTable:
        writer = writing(table := FakeTable(), [1], 0)
        await writer.idle()
        begun = asyncio.Event()

        async def answer() -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                writer.write(2)

        answering = asyncio.create_task(answer())
        await begun.wait()
        assert not answering.done()
        return table

    assert asyncio.run(serve()).batches == [[1], [2]]
