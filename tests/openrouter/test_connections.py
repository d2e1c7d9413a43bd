"""Connections over real sockets: which are kept, which are closed; and addresses that cannot be reached."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.errors import AddressPaused, ConnectionFailed
from open_webui_openrouter_pipe.openrouter import transport as module
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.connections import (
    FAILURES_TO_OPEN,
    AddressBreaker,
    open_client,
)
from open_webui_openrouter_pipe.openrouter.transport import Transport
from tests.openrouter.test_errors import TABLES
from tests.support.network import new_certificates, trusted
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PATIENT_SECONDS = 60.0
MANY = 130
"""Answers at once."""
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK"
BEGUN = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nbegun"


class Server:
    """Answers each request with the same bytes once `together` requests have come; knows who is connected."""

    def __init__(self, answer: bytes, together: int) -> None:
        self.connections = 0
        self.open = 0
        self.url = ""
        self.writers: list[asyncio.StreamWriter] = []
        self._answer = answer
        self._together = asyncio.Barrier(together)
        self._changed = asyncio.Condition()

    async def until_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        async with asyncio.timeout(PATIENT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.open == count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self._count(1)
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self._together.wait()
                writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.open += change
            self._changed.notify_all()


@asynccontextmanager
async def serving(
    answer: bytes = WHOLE, *, together: int = 1, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """A running server, and a client."""
    server = Server(answer, together)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0, backlog=1024, ssl=tls)
    server.url = f"http{'s' if tls else ''}://localhost:{running.sockets[0].getsockname()[1]}/"
    async with httpx.AsyncClient(transport=Transport(), timeout=None) as client:
        yield server, client
    running.close()
    for writer in server.writers:
        writer.close()


@pytest.mark.anyio
@pytest.mark.parametrize(("idle_seconds", "connections"), [(60.0, 1), (0.0, 3)])
async def test_requests_one_after_the_other_share_a_connection(
    monkeypatch: pytest.MonkeyPatch, idle_seconds: float, connections: int
) -> None:
    """Unless it was idle for longer than one is kept: then it is closed and replaced."""
    monkeypatch.setattr(module, "IDLE_SECONDS", idle_seconds)
    async with serving() as (server, client):
        assert [(await client.get(server.url)).text for _ in range(3)] == ["OK"] * 3
        assert server.connections == connections


@pytest.mark.anyio
async def test_no_request_waits_for_the_end_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds run at once, each over a connection of its own; of these, some are kept."""
    monkeypatch.setattr(module, "MAX_IDLE", 10)
    async with serving(together=250) as (server, client):
        async with asyncio.timeout(PATIENT_SECONDS):
            answers = await asyncio.gather(*(client.get(server.url) for _ in range(250)))
        assert ({answer.text for answer in answers}, server.connections) == ({"OK"}, 250)
        await server.until_open(10)


async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A proxy: opens a connection to where it is asked to, and passes on what comes from both sides."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, target, _ = head.split(" ", 2)
    host, _, port = target.removeprefix("http://").partition("/")[0].partition(":")
    far_reader, far_writer = await asyncio.open_connection(host, int(port))
    if method == "CONNECT":
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    else:
        far_writer.write(head.encode())

    async def pass_on(one: asyncio.StreamReader, other: asyncio.StreamWriter) -> None:
        while portion := await one.read(65_536):
            other.write(portion)
        other.close()

    try:
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))
    except ConnectionError:
        pass
    finally:
        for each in (writer, far_writer):
            each.close()


@pytest.mark.anyio
@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_behind_a_proxy_no_answer_waits_for_the_end_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_encrypted: bool
) -> None:
    """All of these are open at once: none is answered before the last one has come."""
    tls = None
    if is_encrypted:
        tls = trusted(tmp_path, monkeypatch)
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0, backlog=1024)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with (
        serving(BEGUN, together=MANY, tls=tls) as (server, _),
        open_client(None, has_proxy=True) as client,
        AsyncExitStack() as stack,
    ):
        client.timeout = httpx.Timeout(None)
        streams = (stack.enter_async_context(client.stream("GET", server.url)) for _ in range(MANY))
        async with asyncio.timeout(PATIENT_SECONDS):
            responses = await asyncio.gather(*streams)
        assert server.connections == MANY
        assert {response.status_code for response in responses} == {200}
    proxy.close()


@pytest.mark.anyio
async def test_a_response_that_is_closed_early_closes_its_connection() -> None:
    """So the server learns that nobody reads on, and stops; the next request gets a new connection."""
    async with serving(BEGUN) as (server, client):
        for _ in range(2):
            async with client.stream("GET", server.url) as response:
                assert await anext(response.aiter_raw()) == b"begun"
                await server.until_open(1)
            await server.until_open(0)
        assert server.connections == 2


@pytest.mark.anyio
async def test_a_cancelled_request_closes_its_connection() -> None:
    """Also while it waits for the answer to begin."""
    async with serving(together=2) as (server, client):
        request = asyncio.create_task(client.get(server.url))
        await server.until_open(1)
        request.cancel()
        await server.until_open(0)
        await asyncio.wait({request})
        assert request.cancelled()


@pytest.mark.anyio
async def test_a_response_is_ended_without_waiting() -> None:
    """So that a task which is cancelled a second time, while it closes what it has open, has closed it."""
    async with serving(BEGUN) as (server, client):
        response = await client.send(client.build_request("GET", server.url), stream=True)
        await server.until_open(1)
        closing = asyncio.create_task(response.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        await server.until_open(0)


@pytest.mark.anyio
async def test_a_connection_that_the_server_ended_is_not_used_again() -> None:
    """It is noticed before anything is sent."""
    async with serving() as (server, client):
        await client.get(server.url)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        assert ((await client.get(server.url)).text, server.connections) == ("OK", 2)


@pytest.mark.anyio
async def test_closing_closes_what_is_kept() -> None:
    """And what is still running closes its connection at its end, rather than keep it."""
    async with serving() as (server, client):
        await asyncio.gather(*(client.get(server.url) for _ in range(3)))
        async with client.stream("GET", server.url) as response:
            await client._transport.aclose()
            await response.aread()
        await server.until_open(0)


@pytest.mark.anyio
async def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown one is refused; one that the machine trusts serves all requests of a connection."""
    async with serving(tls=new_certificates(tmp_path).server) as (unknown, client):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(unknown.url)
    async with serving(tls=trusted(tmp_path, monkeypatch)) as (server, _):
        async with httpx.AsyncClient(transport=Transport()) as trusting:
            assert [(await trusting.get(server.url)).text for _ in range(3)] == ["OK"] * 3
        assert server.connections == 1


@pytest.mark.anyio
async def test_failures_are_httpx_errors() -> None:
    """Who catches those of httpx catches these: no server, half an answer, no HTTP, no such scheme."""
    async with serving(b"no HTTP\r\n\r\n") as (server, client):
        for url, error in {
            "http://127.0.0.1:1/": httpx.ConnectError,
            "ftp://127.0.0.1/": httpx.UnsupportedProtocol,
            server.url: httpx.RemoteProtocolError,
        }.items():
            with pytest.raises(error):
                await client.get(url)
    async with serving(BEGUN) as (server, client), client.stream("GET", server.url) as response:
        portions = response.aiter_raw()
        await anext(portions)
        server.writers[0].close()
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(portions)


# --- addresses that cannot be reached


class Address:
    """An address behind a breaker, whose clock stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.breaker = AddressBreaker(clock=lambda: self.seconds)
        self.begun: list[Any] = []

    def step(self, name: str) -> None:
        """One step of a row; it raises AddressPaused where the attempt is refused."""
        if name.startswith("+"):
            self.seconds += float(name)
        elif name == "begin":
            self.begun.append(self.breaker.attempt("https://here.test"))
            self.begun[-1].__enter__()
        elif name in {"end", "break"}:
            error = self.failure() if name == "break" else None
            assert not self.begun.pop(0).__exit__(error and type(error), error, None)
        else:
            address = "https://there.test" if name == "elsewhere" else "https://here.test"
            slow, failed = self.failure(passes=False), self.failure()
            endings = {"cancelled": KeyboardInterrupt(), "slow": slow, "failed": failed}
            try:
                with self.breaker.attempt(address):
                    if name in endings:
                        raise endings[name]
            except AddressPaused:
                raise
            except (ConnectionFailed, KeyboardInterrupt):
                pass

    def failure(self, *, passes: bool = True) -> ConnectionFailed:
        error = ConnectionFailed("no")
        error.passes = passes
        return error


@pytest.mark.parametrize(("title", "steps"), rows(TABLES, "breaker"))
def test_an_address_that_fails_is_left_alone_for_a_time(title: str, steps: str) -> None:
    """An outage of an hour is not asked about every ten seconds; the error says when the next try is."""
    address = Address()
    for step in steps.split(", "):
        count, _, name = step.rpartition(" ")
        for _ in range(int(count or 1)):
            if not name.startswith("!"):
                address.step(name)
                continue
            with pytest.raises(AddressPaused, match=f"next try is in {name[1:]} seconds") as caught:
                address.step("well")
            assert caught.value.retry_after_seconds == float(name[1:]), title
            assert " times" in caught.value.admin_message


@pytest.mark.anyio
async def test_each_request_asks_first_whether_its_address_is_left_alone() -> None:
    """And each connection that failed is counted."""
    requests: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        breaker = AddressBreaker(clock=lambda: 0.0)
        client = OpenRouterClient(http, ClientSettings(api_key="sk-or-x"), breaker)
        for error in [*[ConnectionFailed] * FAILURES_TO_OPEN, AddressPaused]:
            with pytest.raises(error):
                await client.create({"model": "m"})
    assert len(requests) == FAILURES_TO_OPEN
