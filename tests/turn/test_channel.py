"""The output channel: deltas joined by time, order kept, back-pressure, closing."""

from __future__ import annotations

import asyncio

import pytest

from open_webui_openrouter_pipe.ports import Notice, Output
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.turn.channel import OutputChannel

pytestmark = pytest.mark.anyio


def text(delta: str, index: int = 0) -> TextDelta:
    return TextDelta(index, 0, delta)


async def drain(channel: OutputChannel) -> list[Output]:
    return [output async for output in channel.drain()]


async def test_a_first_delta_goes_out_at_once_and_later_ones_are_joined() -> None:
    """Deltas that arrive within one interval come out as one; a notice is not held back, nor the text before it."""
    channel = OutputChannel(interval_seconds=0.05)
    outputs = channel.drain()
    await channel.put(text("a"))
    received = [await anext(outputs)]
    for delta in "bcd":
        await channel.put(text(delta))
    received.append(await asyncio.wait_for(anext(outputs), 10))
    assert received == [text("a"), text("bcd")]
    channel = OutputChannel(interval_seconds=60)
    outputs, received = channel.drain(), []
    for given in (text("a"), text("b"), Notice("now")):
        await channel.put(given)
        if given == text("a"):
            received.append(await asyncio.wait_for(anext(outputs), 10))
    received += [await asyncio.wait_for(anext(outputs), 10) for _ in range(2)]
    assert received == [text("a"), text("b"), Notice("now")]


async def test_deltas_of_different_texts_are_not_joined() -> None:
    """Only deltas that continue the same text are joined, the order is kept, and closing loses nothing."""
    channel = OutputChannel(interval_seconds=60)
    thought = TextDelta(0, 0, "t", "summary_text")
    given: list[Output] = [thought, thought, text("a", 1), text("b", 1), text("c", 2)]
    for output in given:
        await channel.put(output)
    channel.close()
    joined = [TextDelta(0, 0, "tt", "summary_text"), text("ab", 1), text("c", 2)]
    assert await asyncio.wait_for(drain(channel), 10) == joined


async def test_a_joined_text_is_closed_at_its_limit() -> None:
    """However much comes at once: no single event of the page grows beyond 16,384 characters and one more delta."""
    channel = OutputChannel(interval_seconds=60)
    for delta in ("a" * 16_383, "b", "c", "d"):
        await channel.put(text(delta))
    channel.close()
    assert await asyncio.wait_for(drain(channel), 10) == [text("a" * 16_383 + "b"), text("cd")]


async def test_whoever_drains_can_be_stopped_as_something_arrives() -> None:
    """While deltas gather: a stop in the same moment as a notice ends the drain, and is not lost."""
    for steps in range(5):
        channel = OutputChannel(interval_seconds=60)
        await channel.put(text("a"))
        draining = asyncio.create_task(drain(channel))
        for _ in range(10):
            await asyncio.sleep(0)
        await channel.put(text("b"))
        for _ in range(10):
            await asyncio.sleep(0)
        await channel.put(Notice("now"))
        for _ in range(steps):
            await asyncio.sleep(0)
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(draining, 10)


async def test_a_full_channel_makes_the_writer_wait() -> None:
    """For values that cannot be joined; a page that no longer reads does not hold the engine for ever."""

    async def write(channel: OutputChannel) -> None:
        for number in range(200):
            await channel.put(Notice(str(number)))
        channel.close()

    channels = [OutputChannel(interval_seconds=0) for _ in range(2)]
    writer, given_up = (asyncio.create_task(write(channel)) for channel in channels)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not writer.done()
    assert await drain(channels[0]) == [Notice(str(number)) for number in range(200)]
    await writer
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
