"""The transport: what answers it understands, as httpx does; when a stream is read; and what no bytes can do to it."""

from __future__ import annotations

import asyncio
import random
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from open_webui_openrouter_pipe.openrouter.client import _Stream
from open_webui_openrouter_pipe.openrouter.connections import LEAST_SECONDS, MOST_SECONDS, Pace, open_client
from open_webui_openrouter_pipe.openrouter.transport import Transport, _Connection
from tests.openrouter.test_connections import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENT_SECONDS = 60.0
DAMAGED, MANY_DAMAGED = 3_000, 100_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ANSWERS = {
    "sized": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
    "chunked": CHUNKED + b"2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\n\r\n",
    "trailer": CHUNKED + b"4\r\nbody\r\n0\r\nX-After: yes\r\n\r\n",
    "until the end": b"HTTP/1.1 200 OK\r\n\r\nbody",
    "old": b"HTTP/1.0 200 OK\r\n\r\nbody",
    "announced": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "none": b"HTTP/1.1 204 No Content\r\n\r\n",
    "refused": b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nbody",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
    "cut in a chunk": CHUNKED + b"4\r\nbo",
    "cut before the end": CHUNKED + b"4\r\nbody\r\n",
    "cut in the head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "no size": CHUNKED + b"zz\r\nbody\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "nothing": b"",
}


async def answered(transport: httpx.AsyncBaseTransport, answer: bytes, portion: int) -> tuple[Any, ...]:
    """What a client gets of an answer that comes in portions and ends with the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            for at in range(0, len(answer), portion):
                writer.write(answer[at : at + portion])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        async with asyncio.timeout(PATIENT_SECONDS), httpx.AsyncClient(transport=transport) as client:
            response = await client.get(url)
            kept = {name: value for name, value in response.headers.items() if name != "link"}
            return response.status_code, kept, response.content
    except httpx.RemoteProtocolError:
        return ("RemoteProtocolError",)
    finally:
        server.close()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("portion", [1, 7, 10_000])
async def test_both_ways_understand_the_same(name: str, portion: int) -> None:
    """That of httpx is taken behind proxies."""
    ours = await answered(Transport(), ANSWERS[name], portion)
    assert ours == await answered(httpx.AsyncHTTPTransport(), ANSWERS[name], portion)


@pytest.mark.anyio
async def test_without_the_parser_httpx_goes_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is Open WebUI's, and none of the pipe's own dependencies; nor is its own way one on Windows."""
    assert isinstance(open_client(None, has_proxy=False)._transport, Transport)
    monkeypatch.setitem(sys.modules, "httptools", None)
    monkeypatch.delitem(sys.modules, "open_webui_openrouter_pipe.openrouter.transport")
    async with open_client(None, has_proxy=False) as client:
        assert isinstance(client._transport, httpx.AsyncHTTPTransport)
    monkeypatch.undo()
    monkeypatch.delattr(select, "poll")  # as on Windows
    monkeypatch.delitem(sys.modules, "open_webui_openrouter_pipe.openrouter.transport")
    async with open_client(None, has_proxy=False) as client:
        assert isinstance(client._transport, httpx.AsyncHTTPTransport)


@pytest.mark.anyio
async def test_users_share_no_cookies_and_no_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Open WebUI writes each line of httpx into its own log, which takes longer than the rest of a request."""
    sent = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, headers={"Set-Cookie": "who=ada"})

    caplog.set_level("INFO")
    async with open_client(httpx.MockTransport(answer), has_proxy=False) as client:
        for _ in range(2):
            await (await client.send(client.build_request("GET", "http://x.test/"), stream=True)).aclose()
    assert [each.headers.get("cookie") for each in sent] == [None, None]
    assert caplog.messages == []


class Wire(asyncio.Transport):
    """Brings the portions of an answer, one each time that it is read, and then its end."""

    def __init__(self, connection: _Connection, portions: Sequence[bytes]) -> None:
        super().__init__()
        self.reads = 0
        self._connection, self._portions = connection, [*portions]
        self._is_paused = True
        connection.connection_made(self)
        self.resume_reading()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            asyncio.get_running_loop().call_soon(self._bring)

    def pause_reading(self) -> None:
        self._is_paused = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self._portions.clear()

    def is_closing(self) -> bool:
        return False

    def _bring(self) -> None:
        if self._is_paused:
            return
        if not self._portions:
            self._connection.eof_received()
            self._connection.connection_lost(None)
            return
        self.reads += 1
        self._connection.data_received(self._portions.pop(0))
        if not self._is_paused:
            asyncio.get_running_loop().call_soon(self._bring)


async def read_all(portions: Sequence[bytes]) -> bytes | str:
    """The body of an answer, or the name of the error that it ends with."""
    connection, pace = _Connection(), Pace()
    Wire(connection, portions)
    read = b""
    try:
        await connection.send(httpx.Request("GET", "http://localhost/"))
        while portion := await connection.read(pace):
            read += portion
    except httpx.TransportError as error:
        return type(error).__name__
    return read


def damaged(chance: random.Random) -> list[bytes]:
    """One of the answers with a few bytes changed, doubled or left out, in random portions."""
    content = bytearray(chance.choice([*ANSWERS.values()]))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(4):
            case 0:
                content[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del content[at : at + chance.randint(1, 9)]
            case 2:
                content[at:at] = content[: chance.randrange(20)]
            case _:
                content[at:at] = chance.choice(
                    [b"\r\n", b"\0", b"-1", b"f" * 17, b"chunked", b"HTTP/1.1 100 \r\n\r\n"]
                )
    cuts = sorted(chance.randrange(len(content) + 1) for _ in range(chance.randrange(4)))
    return [bytes(content[start:end]) for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]


@pytest.mark.anyio
async def test_no_bytes_do_more_than_end_an_answer(request: pytest.FixtureRequest) -> None:
    """Whatever a server sends is a body or an error of httpx's, at once."""
    chance = random.Random(8)
    found: set[bool] = set()
    for _ in range(MANY_DAMAGED if request.config.getoption("--thorough") else DAMAGED):
        portions = damaged(chance)
        async with asyncio.timeout(PATIENT_SECONDS):
            found.add(isinstance(await read_all(portions), str))
    assert found == {True, False}


@pytest.mark.anyio
async def test_an_endless_head_is_refused() -> None:
    """And so is what comes after the end of an answer."""
    line = b"X-Line: " + b"x" * 1_000 + b"\r\n"
    assert await read_all([b"HTTP/1.1 200 OK\r\n", *[line] * 1_000]) == "RemoteProtocolError"
    connection = _Connection()
    wire = Wire(connection, [ANSWERS["sized"], ANSWERS["sized"]])
    await connection.send(httpx.Request("GET", "http://localhost/"))
    assert await connection.read(Pace()) == b"body"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (wire.reads, connection.is_fit) == (2, False)


class Clock:
    """A time that passes where it is waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 100.0
        self.waits: list[float] = []
        monkeypatch.setattr(asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.seconds += seconds


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("gap_seconds", "expected"),
    [(0.001, LEAST_SECONDS), (0.008, LEAST_SECONDS), (0.02, 0.08), (0.05, MOST_SECONDS), (0.2, None)],
)
async def test_a_stream_is_read_so_that_four_deltas_come_together(
    monkeypatch: pytest.MonkeyPatch, gap_seconds: float, expected: float | None
) -> None:
    """Of a pace that stays; the first ones, and slow ones, are read as they come, and after much at once."""
    clock = Clock(monkeypatch)
    pace = Pace()
    pace._clock = lambda: clock.seconds
    pace._read_seconds = clock.seconds
    for _ in range(3):
        await pace.wait()
        clock.seconds += gap_seconds
        pace.note(1, 100)
    assert clock.waits == []
    for _ in range(5):
        before = clock.seconds
        await pace.wait()
        come = max(1, round((clock.seconds - before) / gap_seconds))
        clock.seconds = before + come * gap_seconds
        pace.note(come, 100)
    assert clock.waits[1:] == pytest.approx([expected] * 3 if expected else [])
    for deltas, size in ((40, 1_000_000), (0, 100)):  # and what follows no delta, such as the end
        pace.note(4, 100)
        pace.note(deltas, size)
        await pace.wait()
    assert len(clock.waits) == (4 if expected else 0)


@pytest.mark.anyio
async def test_nothing_waits_for_the_end_of_a_stream_that_is_done() -> None:
    """So that the turn ends, and the connection is free, although many deltas came with the last portion."""
    delta = b'data: {"type": "response.output_text.delta", "item_id": "m", "delta": "x"}\n\n'
    waits = []
    for end in (b"", b"data: [DONE]\n\n"):
        stream = _Stream(Pace())
        for portion in (delta * 4, delta * 4 + end):
            assert len([*stream.take(portion)]) == 1
        assert stream.pace
        waits.append(stream.pace._interval_seconds > 0)
    assert waits == [True, False]


@pytest.mark.anyio
async def test_what_comes_between_two_reads_is_one_portion() -> None:
    """Nothing is read from the socket in between, so that nobody is woken."""
    connection, pace = _Connection(), Pace()
    deltas = [b"4\r\nbody\r\n"] * 6
    wire = Wire(connection, [CHUNKED, *deltas[:1], b"".join(deltas[1:]), b"0\r\n\r\n"])
    await connection.send(httpx.Request("GET", "http://localhost/"))
    assert wire.reads == 1
    await asyncio.sleep(0.01)
    assert wire.reads == 1
    read = [await connection.read(pace) for _ in range(3)]
    assert read == [b"body", b"body" * 5, b""]
    assert wire.reads == 4


class Silent(Wire):
    """Brings its portions, and never an end."""

    def _bring(self) -> None:
        if self._portions:
            super()._bring()


@pytest.mark.anyio
@pytest.mark.skips_time
async def test_one_timer_ends_the_silence_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the time that its reader takes; and no portion sets a timer."""
    loop, timers = asyncio.get_running_loop(), list[float]()
    call_later, connection = loop.call_later, _Connection()

    def noted(seconds: float, *call: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(seconds)
        return call_later(seconds, *call, **options)

    monkeypatch.setattr(loop, "call_later", noted)
    Silent(connection, [CHUNKED, *[b"4\r\nbody\r\n"] * 50])
    await connection.send(httpx.Request("GET", "http://localhost/"), 300.0)
    for _ in range(50):
        assert await connection.read(Pace()) == b"body"
    assert timers == [300.0]
    await asyncio.sleep(1_000)
    began = loop.time()
    with pytest.raises(httpx.ReadTimeout):
        async with asyncio.timeout(1_000):
            await connection.read(Pace())
    assert (round(loop.time() - began), connection.is_fit) == (300, False)


@pytest.mark.anyio
@pytest.mark.parametrize("way", [Transport, httpx.AsyncHTTPTransport])
async def test_both_ways_leave_a_silent_server(way: type[httpx.AsyncBaseTransport]) -> None:
    """A server that begins an answer and says no more; the time limit is that of the request."""
    is_over = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        await is_over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    limits = httpx.Timeout(None, read=0.05)
    async with asyncio.timeout(PATIENT_SECONDS), httpx.AsyncClient(transport=way(), timeout=limits) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(url)
    is_over.set()
    await asyncio.sleep(0)
    server.close()


@pytest.mark.anyio
async def test_a_body_is_sent_whole_and_an_early_answer_ends_that() -> None:
    """A server that refuses a large request need not read it."""

    class Pieces(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for _ in range(400):
                yield b"x" * 100_000

    is_over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(40_000_000)
        writer.write(ANSWERS["sized"])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWERS["refused"])
        await is_over.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    headers = {"Content-Length": "40000000"}
    async with asyncio.timeout(PATIENT_SECONDS), httpx.AsyncClient(transport=Transport()) as client:
        for status in (200, 429):
            response = await client.post(url, content=cast("Any", Pieces()), headers=headers)
            assert (response.status_code, response.content) == (status, b"body")
    is_over.set()
    await asyncio.sleep(0)
    server.close()


@pytest.mark.anyio
async def test_the_first_address_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has several, and not all of them are reached from everywhere."""
    server = Server(ANSWERS["sized"], 1)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]

    async def addresses(*_: object, **__: object) -> list[Any]:
        return [(10, 1, 6, "", ("::1", 1, 0, 0)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
    async with httpx.AsyncClient(transport=Transport()) as client:
        assert (await client.get(f"http://many.test:{port}/")).text == "body"
    running.close()
    for writer in server.writers:
        writer.close()
