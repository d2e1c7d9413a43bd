"""Connections over real sockets: which are kept, which are closed; and addresses that cannot be reached."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from open_webui_openrouter_pipe.errors import AddressPaused, ConnectionFailed
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.connections import FAILURES_TO_OPEN, AddressBreaker, Connections

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

PATIENT_SECONDS = 60.0
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK"
BEGUN = b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nbegun"


class Server:
    """Answers each request with the same bytes once `together` requests have come; knows who is connected."""

    def __init__(self, answer: bytes = WHOLE, *, together: int = 1) -> None:
        self.connections = 0
        self.open = 0
        self.url = ""
        self.writers: list[asyncio.StreamWriter] = []
        self._answer = answer
        self._together = asyncio.Barrier(together)
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024, ssl=tls)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}/"
        yield self
        server.close()
        for writer in self.writers:
            writer.close()

    async def until_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        async with asyncio.timeout(PATIENT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.open == count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


async def test_requests_one_after_the_other_share_a_connection() -> None:
    """A hundred of them need one."""
    async with Server().running() as server, httpx.AsyncClient(transport=Connections()) as client:
        for _ in range(100):
            assert (await client.get(server.url)).text == "OK"
        assert server.connections == 1


async def test_no_request_waits_for_the_end_of_another() -> None:
    """Hundreds run at once, each over a connection of its own; of these, some are kept."""
    async with (
        Server(together=250).running() as server,
        httpx.AsyncClient(transport=Connections(max_idle=10)) as client,
    ):
        async with asyncio.timeout(PATIENT_SECONDS):
            answers = await asyncio.gather(*(client.get(server.url, timeout=None) for _ in range(250)))
        assert {answer.text for answer in answers} == {"OK"}
        assert server.connections == 250
        await server.until_open(10)


async def test_a_response_that_is_closed_early_closes_its_connection() -> None:
    """So the server learns that nobody reads on, and stops; the next request gets a new connection."""
    async with Server(BEGUN).running() as server, httpx.AsyncClient(transport=Connections()) as client:
        for _ in range(2):
            async with client.stream("GET", server.url) as response:
                assert await anext(response.aiter_raw()) == b"begun"
                await server.until_open(1)
            await server.until_open(0)
        assert server.connections == 2


async def test_a_cancelled_request_closes_its_connection() -> None:
    """Also while it waits for the answer to begin."""
    async with Server(together=2).running() as server, httpx.AsyncClient(transport=Connections()) as client:
        request = asyncio.create_task(client.get(server.url, timeout=None))
        await server.until_open(1)
        request.cancel()
        await server.until_open(0)
        assert (await asyncio.gather(request, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_a_response_whose_end_is_cancelled_closes_its_connection() -> None:
    """A task may be cancelled a second time, while it closes what it has open."""
    async with Server(BEGUN).running() as server, httpx.AsyncClient(transport=Connections()) as client:
        response = await client.send(client.build_request("GET", server.url), stream=True)
        await server.until_open(1)
        closing = asyncio.create_task(response.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        await server.until_open(0)
        assert closing.cancelled()


async def test_a_connection_that_the_server_ended_is_not_used_again() -> None:
    """It is noticed before anything is sent."""
    async with Server().running() as server, httpx.AsyncClient(transport=Connections()) as client:
        await client.get(server.url)
        server.writers[0].close()
        await server.writers[0].wait_closed()
        assert (await client.get(server.url)).text == "OK"
        assert server.connections == 2


async def test_a_connection_is_kept_for_a_time() -> None:
    """What was idle for longer is closed and replaced."""
    transport = Connections(idle_seconds=0.0)
    async with Server().running() as server, httpx.AsyncClient(transport=transport) as client:
        for _ in range(3):
            await client.get(server.url)
        assert server.connections == 3


async def test_closing_closes_what_is_kept() -> None:
    """And what is still running closes its connection at its end, rather than keep it."""
    async with Server().running() as server:
        transport = Connections()
        client = httpx.AsyncClient(transport=transport)
        await asyncio.gather(*(client.get(server.url) for _ in range(3)))
        async with client.stream("GET", server.url) as response:
            await transport.aclose()
            await response.aread()
        await server.until_open(0)
        await client.aclose()


def certificate_of_localhost(folder: Path) -> Path:
    """A file with a certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path = folder / "localhost.pem"
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


async def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown one is refused; one that the machine trusts serves all requests of a connection."""
    path = certificate_of_localhost(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    async with Server().running(tls) as server:
        async with httpx.AsyncClient(transport=Connections()) as client:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        async with httpx.AsyncClient(transport=Connections()) as client:
            for _ in range(3):
                assert (await client.get(server.url)).text == "OK"
        assert server.connections == 1


async def test_failures_are_httpx_errors() -> None:
    """Who catches those of httpx catches these: no server, half an answer, no HTTP, no such scheme."""
    async with httpx.AsyncClient(transport=Connections()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("http://127.0.0.1:1/")
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get("ftp://127.0.0.1/")
        async with Server(b"no HTTP\r\n\r\n").running() as server:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(server.url)
        async with Server(BEGUN).running() as server, client.stream("GET", server.url) as response:
            portions = response.aiter_raw()
            await anext(portions)
            server.writers[0].close()
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(portions)


# --- addresses that cannot be reached

HERE, THERE = "https://here.test", "https://there.test"


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def failed(*, passes: bool = True) -> ConnectionFailed:
    error = ConnectionFailed("no")
    error.passes = passes
    return error


def attempt(breaker: AddressBreaker, error: ConnectionFailed | None = None, address: str = HERE) -> bool:
    """Whether the breaker lets an attempt through that ends with the error."""
    try:
        with breaker.attempt(address):
            if error:
                raise error
    except AddressPaused:
        return False
    except ConnectionFailed:
        pass
    return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> AddressBreaker:
    """A breaker that was just opened."""
    breaker = AddressBreaker(clock=clock)
    assert all(attempt(breaker, failed()) for _ in range(FAILURES_TO_OPEN))
    return breaker


def test_repeated_failures_open_it_for_one_address(opened: AddressBreaker, clock: Clock) -> None:
    """Until the pause is over, and the error says when that is."""
    clock.seconds += 10.0 - 4
    with pytest.raises(AddressPaused, match="next try is in 4 seconds") as caught, opened.attempt(HERE):
        pass
    assert (caught.value.retry_after_seconds, "5 times" in caught.value.admin_message) == (4.0, True)
    assert attempt(opened, address=THERE)
    clock.seconds += 4
    assert attempt(opened)


def test_a_success_in_between_forgets_the_failures(clock: Clock) -> None:
    """Only failures in a row count, and time-outs of answers are none."""
    breaker = AddressBreaker(clock=clock)
    endings = [failed()] * (FAILURES_TO_OPEN - 1) + [None]
    assert all(attempt(breaker, ending) for ending in endings * 3)
    assert all(attempt(breaker, failed(passes=False)) for _ in range(3 * FAILURES_TO_OPEN))


def test_one_request_tries_the_address_out(opened: AddressBreaker, clock: Clock) -> None:
    """The others wait for its result; when it succeeds all may go."""
    clock.seconds += 10.0
    with opened.attempt(HERE):
        assert not attempt(opened)
    assert attempt(opened)


def test_a_try_that_waits_for_its_answer_holds_up_nobody_for_long(
    opened: AddressBreaker, clock: Clock
) -> None:
    """Connected it is by then: a model may think for minutes before anything comes."""
    clock.seconds += 10.0
    with opened.attempt(HERE):
        clock.seconds += 10.0 - 1
        with pytest.raises(AddressPaused, match="next try is in 1 seconds"), opened.attempt(HERE):
            pass
        clock.seconds += 1
        assert attempt(opened)


def test_a_cancelled_try_leaves_the_place_to_another(opened: AddressBreaker, clock: Clock) -> None:
    """It has proved nothing."""
    clock.seconds += 10.0
    with pytest.raises(KeyboardInterrupt), opened.attempt(HERE):
        raise KeyboardInterrupt
    assert attempt(opened)


def test_a_failed_try_begins_a_longer_pause(opened: AddressBreaker, clock: Clock) -> None:
    """An outage of an hour is not asked about every ten seconds, but every two minutes."""
    pauses = []
    for _ in range(6):
        before = clock.seconds
        while not attempt(opened, failed()):
            clock.seconds += 1
        pauses.append(clock.seconds - before)
    assert pauses == [10, 20, 40, 80, 120, 120]


def test_requests_that_began_before_prolong_nothing(clock: Clock) -> None:
    """A burst that fails together counts as one outage."""
    breaker = AddressBreaker(clock=clock)
    burst = [breaker.attempt(HERE) for _ in range(20)]
    for each in burst:
        each.__enter__()
    for each in burst:
        error = failed()
        assert not each.__exit__(type(error), error, None)
    clock.seconds += 10.0
    assert attempt(breaker)


async def test_each_request_asks_first_whether_its_address_is_left_alone() -> None:
    """And each connection that failed is counted."""
    requests: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        raise httpx.ConnectError("refused")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        breaker = AddressBreaker(clock=lambda: 0.0)
        client = OpenRouterClient(http, ClientSettings(api_key="sk-or-x"), breaker=breaker)
        for error in [*[ConnectionFailed] * FAILURES_TO_OPEN, AddressPaused]:
            with pytest.raises(error):
                await client.create({"model": "m"})
    assert len(requests) == FAILURES_TO_OPEN
