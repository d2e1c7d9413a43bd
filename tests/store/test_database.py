"""The database: cancellations pass through drivers that lose them."""

from __future__ import annotations

import asyncio

import pytest

from open_webui_openrouter_pipe.store.database import passing_cancellation

pytestmark = pytest.mark.anyio


async def swallow(outcome: Exception | None) -> str:
    """Wait until cancelled, and then return or fail as if nothing had happened."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        if outcome:
            raise outcome from None
    return "an answer"


async def cancelled(outcome: Exception | None) -> bool:
    """Whether a task that waits for such a driver ends as cancelled."""

    async def wait() -> str:
        with passing_cancellation():
            return await swallow(outcome)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return task.cancelled()


async def test_neither_an_answer_nor_an_error_hides_a_cancellation() -> None:
    """A cancelled task ends as cancelled."""
    assert [await cancelled(None), await cancelled(ValueError("lost"))] == [True, True]


async def test_a_time_limit_inside_is_not_a_cancellation() -> None:
    """A time limit that ran out inside is an error like any other."""
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
    await asyncio.gather(task, return_exceptions=True)
    assert done == ["tidied"]
