"""The outlet: deltas joined by time, order kept, back-pressure, closing."""

from __future__ import annotations

import asyncio

import pytest

from open_webui_openrouter_pipe.engine.channel import OutputChannel
from open_webui_openrouter_pipe.ports import Notice, Output
from open_webui_openrouter_pipe.responses.effects import ReasoningDelta, TextDelta

pytestmark = pytest.mark.anyio


def text(delta: str, index: int = 0) -> TextDelta:
    return TextDelta(index, 0, delta)


async def drained(outlet: OutputChannel) -> list[Output]:
    return [output async for output in outlet.drain()]


async def test_the_first_delta_goes_out_at_once() -> None:
    """A reader gets the first delta long before the interval is over."""
    outlet = OutputChannel(interval_seconds=60)
    outputs = outlet.drain()
    await outlet.put(text("a"))
    assert await asyncio.wait_for(anext(outputs), 1) == text("a")


async def test_neighbouring_deltas_are_joined_while_they_wait() -> None:
    """Deltas that arrive within one interval come out as one."""
    outlet = OutputChannel(interval_seconds=0.05)
    outputs = outlet.drain()
    await outlet.put(text("a"))
    first = await anext(outputs)
    for delta in "bcd":
        await outlet.put(text(delta))
    second = await asyncio.wait_for(anext(outputs), 1)
    assert (first, second) == (text("a"), text("bcd"))


async def test_deltas_of_different_places_stay_apart_and_in_order() -> None:
    """Only deltas that continue the same place are joined."""
    outlet = OutputChannel(interval_seconds=0)
    thought = ReasoningDelta(0, 0, "summary", "t")
    given: list[Output] = [thought, thought, text("a", 1), text("b", 1), text("c", 2)]
    for output in given:
        await outlet.put(output)
    outlet.close()
    joined = [ReasoningDelta(0, 0, "summary", "tt"), text("ab", 1), text("c", 2)]
    assert await drained(outlet) == joined


async def test_anything_else_takes_waiting_deltas_along_at_once() -> None:
    """A notice is not held back by the interval, and neither is the text before it."""
    outlet = OutputChannel(interval_seconds=60)
    outputs = outlet.drain()
    await outlet.put(text("a"))
    await anext(outputs)
    await outlet.put(text("b"))
    await outlet.put(Notice("now"))
    received = [await asyncio.wait_for(anext(outputs), 1) for _ in range(2)]
    assert received == [text("b"), Notice("now")]


async def test_a_slow_reader_holds_the_writer_back() -> None:
    """Values that cannot be joined fill the channel, and then the writer waits."""
    outlet = OutputChannel(interval_seconds=0)

    async def write() -> None:
        for number in range(200):
            await outlet.put(Notice(str(number)))
        outlet.close()

    writer = asyncio.create_task(write())
    await asyncio.sleep(0.01)
    assert not writer.done()
    assert await drained(outlet) == [Notice(str(number)) for number in range(200)]
    await writer


async def test_what_waits_at_closing_is_still_drained() -> None:
    """Closing loses nothing."""
    outlet = OutputChannel(interval_seconds=60)
    await outlet.put(text("a"))
    await outlet.put(text("b"))
    outlet.close()
    assert await asyncio.wait_for(drained(outlet), 1) == [text("ab")]
