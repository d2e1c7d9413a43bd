"""Connections over real sockets: which are kept, which are closed; and addresses that cannot be reached."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import (
    AddressPaused,
    ConnectionFailed,
    Down,
    ModelPaused,
    NotOpenRouter,
    PipeError,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)
from open_webui_openrouter_pipe.openrouter import transport as module
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.connections import (
    FAILURES_TO_OPEN,
    Breaker,
    open_client,
)
from open_webui_openrouter_pipe.openrouter.retries import RetryingResponses
from open_webui_openrouter_pipe.openrouter.transport import Transport
from tests.openrouter.test_errors import TABLES
from tests.support.network import new_certificates, trusted
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

PATIENT_SECONDS = 60.0
MANY = 130
"""Answers at once."""
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK"
BEGUN = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nbegun"


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Open WebUI runs on uvloop where that is installed."""
    pytest.importorskip(request.param)
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


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
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_large_bodies_are_encrypted_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion
) -> None:
    """Over one connection, whose server sends its tickets after the handshake, and ends it by TLS alone."""
    sent, connections = [b"a", bytes(range(256)) * 8_000, b"b"], []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        for body in sent:
            await reader.readuntil(b"\r\n\r\n")
            received = await reader.readexactly(len(body))
            length = (
                b"content-length: %d\r\n" % len(body) * (body is not sent[-1])
            )  # the last lasts to the end
            writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n" + received)
        writer.close()

    tls = trusted(tmp_path, monkeypatch)
    tls.minimum_version = tls.maximum_version = version
    running = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=tls)
    url = f"https://localhost:{running.sockets[0].getsockname()[1]}/"
    async with asyncio.timeout(PATIENT_SECONDS), httpx.AsyncClient(transport=Transport()) as client:
        assert [(await client.post(url, content=body)).content for body in sent] == sent
    assert len(connections) == 1
    running.close()


@pytest.mark.anyio
async def test_a_second_answer_is_nobody_s() -> None:
    """It came with the first one, which it does not change; the next request takes another connection."""
    second = WHOLE.replace(b"200", b"500").replace(b"OK", b"NO")
    async with serving(WHOLE + second) as (server, client):
        for _ in range(2):
            response = await client.get(server.url)
            assert (response.status_code, response.text) == (200, "OK")
        assert server.connections == 2


@pytest.mark.anyio
async def test_failures_are_httpx_errors() -> None:
    """Who catches those of httpx catches these: no server, no name, half an answer, no HTTP, no such scheme."""
    async with serving(b"no HTTP\r\n\r\n") as (server, client):
        for url, error in {
            "http://127.0.0.1:1/": httpx.ConnectError,
            f"http://{'a' * 64}.invalid/": httpx.ConnectError,
            "http://empty..invalid/": httpx.ConnectError,
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


def failing(error: PipeError, down: Down = "") -> PipeError:
    """An error that says that something is down."""
    error.down = down
    return error


ENDINGS: dict[str, Callable[[], BaseException]] = {
    "failed": lambda: failing(ConnectionFailed("no"), "connection"),
    "slow": lambda: failing(ConnectionFailed("no"), "address"),
    "reset": lambda: ConnectionFailed("no"),
    "page": lambda: NotOpenRouter("no"),
    "down": lambda: ProviderUnavailable("no"),
    "busy": lambda: RateLimited("no"),
    "wrong": lambda: RequestRejected("no"),
    "cancelled": KeyboardInterrupt,
}


class Address:
    """An address behind a breaker, whose clock stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.breaker = Breaker(clock=lambda: self.seconds)
        self.begun: list[Any] = []

    def step(self, step: str) -> None:
        """One step of a row; it raises AddressPaused or ModelPaused where the attempt is refused."""
        what, _, user = step.partition("@")
        asked, _, name = what.rpartition(":")
        model, _, fallback = asked.partition(">")
        address = "https://there.test" if name == "elsewhere" else "https://here.test"
        body = {"model": model or "usual", **({"models": [fallback]} if fallback else {})}
        attempt = self.breaker.attempt(address, body, user_id=user or "ada")
        if name.startswith("+"):
            self.seconds += float(name)
        elif name == "begin":
            attempt.__enter__()
            self.begun.append(attempt)
        elif name in {"end", "break"}:
            error = ENDINGS["failed"]() if name == "break" else None
            assert not self.begun.pop(0).__exit__(error and type(error), error, None)
        elif name in ENDINGS:
            with pytest.raises(type(error := ENDINGS[name]())), attempt:
                raise error
        else:
            with attempt:
                pass


@pytest.mark.parametrize(("title", "steps"), rows(TABLES, "breaker"))
def test_what_is_down_for_everybody_is_left_alone_for_a_time(title: str, steps: str) -> None:
    """An outage of an hour is not asked about every ten seconds; the error says when the next try is."""
    address = Address()
    for step in steps.split(", "):
        count, _, name = step.rpartition(" ")
        for _ in range(int(count or 1)):
            if not name.startswith("!"):
                address.step(name)
                continue
            what, _, user = name[1:].partition("@")
            model, _, seconds = what.rpartition(":")
            with pytest.raises(ModelPaused if model else AddressPaused) as caught:
                address.step(f"{model}:well@{user}")
            assert f"next try is in {seconds} seconds" in str(caught.value), title
            assert caught.value.retry_after_seconds == float(seconds)


class Provider:
    """OpenRouter as one worker's users ask it: answers by their model, and counts what reaches it."""

    def __init__(self, http: httpx.AsyncClient, url: str, breaker: Breaker) -> None:
        self.client = OpenRouterClient(http, ClientSettings(base_url=url, api_key=Secret("sk-or-x")))
        self.attempt = partial(breaker.attempt, url)

    async def ask(self, user_id: str, model: str = "a/well", **fields: Any) -> str:
        """The name of the error, or of the last event."""
        attempt = partial(self.attempt, user_id=user_id)
        responses = RetryingResponses(self.client, limit_seconds=0, attempt=attempt)
        try:
            async with responses.stream({"model": model, "input": "x", **fields}) as events:
                return [str(event["type"]) async for event in events][-1]
        except PipeError as error:
            return type(error).__name__


def answer(request: httpx.Request) -> httpx.Response:
    """What a model's name says."""
    model = json.loads(request.content)["model"].removeprefix("a/")
    if model == "gone":
        raise httpx.ConnectError("refused")
    if model == "page":
        return httpx.Response(502, html="<title>Bad gateway</title>")
    if model.isdigit():
        metadata = {"provider_name": "P"}
        return httpx.Response(
            int(model), json={"error": {"code": int(model), "message": "m", "metadata": metadata}}
        )
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "gen-1"}}]
    if model == "fails":
        error = {"code": "server_error", "message": "m"}
        events.append({"type": "response.failed", "response": {"status": "failed", "error": error}})
    else:
        events.append({"type": "response.completed", "response": {"status": "completed", "output": []}})
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return httpx.Response(200, text=stream, headers={"content-type": "text/event-stream"})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "error", "then", "others"),
    [
        ("a/gone", "ConnectionFailed", "AddressPaused", "AddressPaused"),
        ("a/page", "ProviderUnavailable", "AddressPaused", "AddressPaused"),
        *(
            (f"a/{code}", "ProviderUnavailable", "ModelPaused", "response.completed")
            for code in (500, 503, 529)
        ),
        ("a/fails", "response.failed", "ModelPaused", "response.completed"),
        ("a/429", "RateLimited", "RateLimited", "response.completed"),
        ("a/408", "ProviderUnavailable", "ProviderUnavailable", "response.completed"),
        ("a/404", "ModelNotFound", "ModelNotFound", "response.completed"),
        ("a/401", "AuthenticationFailed", "AuthenticationFailed", "response.completed"),
    ],
)
async def test_each_failure_closes_what_it_says_is_down(
    model: str, error: str, then: str, others: str
) -> None:
    """The address for all, or the model for all, or nothing; with a fallback model it is asked for all the same."""
    seconds = 0.0
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        provider = Provider(http, "https://here.test", Breaker(clock=lambda: seconds))
        users = ["ada", "eve"] * FAILURES_TO_OPEN
        said = [await provider.ask(user, model) for user in users[:FAILURES_TO_OPEN]]
        assert said == [error] * FAILURES_TO_OPEN
        assert await provider.ask("bob", model) == then
        assert await provider.ask("bob") == others
        fallback = "AddressPaused" if others == "AddressPaused" else error
        assert await provider.ask("bob", model, models=["a/well"]) == fallback
        seconds += 60
        assert await provider.ask("bob") == "response.completed"
        assert await provider.ask("bob", model) == error


@pytest.mark.anyio
async def test_a_request_that_is_reset_while_it_is_sent_closes_nothing() -> None:
    """However often a user sends a picture that the provider does not read to its end; small requests are answered."""
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        asked.append(length)
        if length > 1_000_000:
            writer.transport.abort()
            return
        await reader.readexactly(length)
        events = b'data: {"type": "response.completed", "response": {"output": []}}\n\n'
        writer.write(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n" + events
        )
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{'A' * 3_000_000}"}
    async with httpx.AsyncClient(transport=Transport()) as http:
        provider = Provider(http, url, Breaker(clock=lambda: 0.0))
        for user in ["ada"] * 6 + ["eve", "ada"] * 6:
            assert (
                await provider.ask(user, input=[{"role": "user", "content": [picture]}]) == "ConnectionFailed"
            )
        assert await provider.ask("bob") == "response.completed"
    assert len(asked) == 19
    running.close()
