"""The output channel: deltas joined by time, order kept, back-pressure, closing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.ports import Notice, Output
from open_webui_openrouter_pipe.responses.effects import ItemStarted, TextDelta
from open_webui_openrouter_pipe.responses.items import AssistantMessage
from open_webui_openrouter_pipe.turn.channel import OutputChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


def text(delta: str, index: int = 0) -> TextDelta:
    return TextDelta(index, 0, delta)


def begun(index: int) -> ItemStarted:
    item: AssistantMessage = {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    return ItemStarted(index, item)


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
    outputs = channel.drain()
    portions: list[list[Output]] = [[text("a")], [Notice("now")], [text("b"), Notice("then")]]
    for together in portions:
        for given in together:
            await channel.put(given)
        assert [await asyncio.wait_for(anext(outputs), 10) for _ in together] == together


async def test_no_beginning_delays_a_first_delta() -> None:
    """That of thinking is shown at once, that of a message with its text: a page is woken once for both."""
    channel = OutputChannel(interval_seconds=60)
    outputs = channel.drain()
    thinking, message = ItemStarted(0, {"type": "reasoning", "id": "r", "summary": []}), begun(1)
    thought = TextDelta(0, 0, "t", "summary_text")
    for given in (thinking, thought):
        await channel.put(given)
        assert await asyncio.wait_for(anext(outputs), 10) == given
    channel = OutputChannel(interval_seconds=60)
    draining = asyncio.create_task(anext(outputs := channel.drain()))
    await channel.put(message)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not draining.done()
    await channel.put(text("a", 1))
    assert [await asyncio.wait_for(draining, 10), await anext(outputs)] == [message, text("a", 1)]


async def test_however_many_messages_begin_none_holds_up_the_others() -> None:
    """A stream of nothing but beginnings is handed on as it comes."""
    started = [begun(index) for index in range(200)]
    channel = OutputChannel(interval_seconds=0)

    async def write() -> None:
        for each in started:
            await channel.put(each)
        channel.close()

    writing = asyncio.create_task(write())
    assert await asyncio.wait_for(drain(channel), 10) == started
    await writing


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


async def said_of(steps: Sequence[tuple[float, Output | None]]) -> list[tuple[float, Output]]:
    """What goes out and when, in seconds; each step is put at its time, and None closes the channel."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    channel = OutputChannel(
        waiting_line=lambda latest, seconds: Notice(f"{'more' if latest else 'nothing yet'} {seconds}")
    )

    async def write() -> None:
        channel.ask()
        for seconds, output in steps:
            await asyncio.sleep(began + seconds - loop.time())
            if output is not None:
                await channel.put(output)
        channel.close()

    writer = asyncio.create_task(write())
    said = [(round(loop.time() - began, 2), output) async for output in channel.drain()]
    await writer
    return said


@pytest.mark.skips_time
async def test_a_silence_is_said_three_times() -> None:
    """After 8, 20 and 60 seconds, however long it lasts; what comes ends it, and the next one is said again."""
    lines = [(float(at), Notice(f"nothing yet {float(at)}")) for at in (8, 20, 60)]
    later = [(308.0, Notice("more 8.0")), (320.0, Notice("more 20.0"))]
    assert await said_of([(300, text("a")), (321, None)]) == [*lines, (300.0, text("a")), *later]


@pytest.mark.skips_time
async def test_nothing_is_said_of_an_answer_that_flows() -> None:
    """However long it takes: only a gap is a silence, whatever came before it."""
    steps: list[tuple[float, Output | None]] = [(float(at), text("a")) for at in range(0, 70, 7)]
    assert await said_of([*steps, (70.9, None)]) == steps
    steps[5:] = [(37.0, text("b")), (40.0, None)]
    assert await said_of(steps) == [*steps[:5], (36.0, Notice("more 8.0")), (37.0, text("b"))]


@pytest.mark.skips_time
async def test_who_thinks_about_a_price_is_not_waited_for() -> None:
    """Nor is anybody before a request is sent, but for a wait that was announced."""
    loop = asyncio.get_running_loop()
    announced = Notice("Reading...", done=False)
    while_reading = [(8.0, "8.0"), (20.0, "20.0"), (60.0, "60.0")]
    for first, before in ((Notice("Read."), []), (announced, while_reading)):
        channel = OutputChannel(waiting_line=lambda _, seconds: Notice(f"{seconds}"))

        async def send(channel: OutputChannel = channel) -> None:
            await asyncio.sleep(93)
            channel.ask()
            await asyncio.sleep(10)
            channel.close()

        await channel.put(first)
        began, sending = loop.time(), asyncio.create_task(send())
        said = [(round(loop.time() - began, 2), output) async for output in channel.drain()]
        lines = [(at, Notice(line)) for at, line in (*before, (101.0, "8.0"))]
        assert said == [(0.0, first), *lines]
        await sending


@pytest.mark.skips_time
async def test_whoever_stops_draining_ends_the_watch() -> None:
    """No timer goes on for an answer that nobody reads."""
    asked = list[float]()

    def line(_: Output | None, seconds: float) -> Notice:
        asked.append(seconds)
        return Notice("Wait.")

    channel = OutputChannel(waiting_line=line)
    channel.ask()
    outputs = channel.drain()
    assert await anext(outputs) == Notice("Wait.")
    await outputs.aclose()
    await asyncio.sleep(100)
    assert asked == [8.0]


@pytest.mark.skips_time
async def test_nothing_is_waited_for_once_the_answer_is_whole() -> None:
    """However long its reader takes with the last of it."""
    channel = OutputChannel(waiting_line=lambda _, seconds: Notice(f"Wait {seconds}.", done=False))
    channel.ask()
    await channel.put(text("a"))
    channel.close()
    said = []
    async for output in channel.drain():
        said.append(output)
        await asyncio.sleep(30)
    assert said == [text("a")]
