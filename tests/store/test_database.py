"""The database: callers that leave, a database that hangs, and cancellations that pass through drivers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.conversation.budget import Calibration
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.database import Database, passing_cancellation
from open_webui_openrouter_pipe.store.kept import SealedSummaries
from open_webui_openrouter_pipe.store.tokens import StoredCalibrations
from tests.store.contract import KEYRING, NOW, sql_rows
from tests.store.summary_contract import chains

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.ext.asyncio import AsyncConnection

pytestmark = pytest.mark.anyio


async def test_whoever_is_cancelled_leaves_at_once_and_the_work_is_done(sqlite_database: Database) -> None:
    """A page that is closed interrupts no transaction: a driver may lose its connection by that."""
    lease = sqlite_database.tables.lease
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(connection: AsyncConnection) -> None:
        begun.set()
        await go_on.wait()
        await connection.execute(sa.insert(lease).values(name="name", holder="holder", until=NOW))

    caller = asyncio.create_task(sqlite_database.run(work))
    await begun.wait()
    caller.cancel()
    await asyncio.wait({caller})
    assert caller.cancelled()
    assert not go_on.is_set()
    go_on.set()
    await sqlite_database.aclose()
    assert [tuple(row) for row in await sqlite_database.fetch(sa.select(lease))] == [("name", "holder", NOW)]
    await sqlite_database.aclose()


class SilentEngine:
    """An engine whose database accepts connections and never answers, until the test is over."""

    class dialect:  # noqa: N801 - SQLAlchemy's attribute
        name = "sqlite"

    def __init__(self) -> None:
        self.over = asyncio.Event()

    def execution_options(self) -> SilentEngine:
        return self

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[None]:
        await self.over.wait()
        yield

    connect = begin


async def test_a_database_that_hangs_is_unavailable_soon(caplog: pytest.LogCaptureFixture) -> None:
    """Each thing that a request reads is done without, within the time limit for reading."""
    engine = SilentEngine()
    database = Database(cast("Any", engine), timeout_seconds=3600, read_seconds=0.02)
    with pytest.raises(StoreUnavailable):
        await database.read(sa.select(1))
    assert await sql_rows(database).load("ada", ["1"]) == {"1": None}
    assert await SealedSummaries(database, KEYRING).find("ada", chains(0, 5), chat_id="") == {}
    assert await StoredCalibrations(database).find("vendor/model") == Calibration()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    engine.over.set()
    await database.aclose()


async def cancelled(outcome: Exception | None) -> bool:
    """Whether a task that waits for a driver ends as cancelled; that returns or fails as if nothing had happened."""

    async def wait() -> str:
        with passing_cancellation():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if outcome:
                    raise outcome from None
        return "an answer"

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    return task.cancelled()


async def test_neither_an_answer_nor_an_error_hides_a_cancellation() -> None:
    """A cancelled task ends as cancelled; a time limit that ran out inside is an error like any other."""
    assert [await cancelled(None), await cancelled(ValueError("lost"))] == [True, True]
    with pytest.raises(TimeoutError), passing_cancellation():
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)


async def test_a_cancelled_task_may_still_clean_up() -> None:
    """An earlier cancellation does not interrupt what the task does in its `finally`."""
    done = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            with passing_cancellation():
                await asyncio.sleep(0)
            done.append("tidied")

    task = asyncio.create_task(tidy())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert done == ["tidied"]
