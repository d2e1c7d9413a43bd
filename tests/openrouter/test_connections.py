"""Connections to OpenRouter over real sockets: which are kept, which are closed, and that none waits for another."""

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

from open_webui_openrouter_pipe.openrouter.connections import Connections

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
