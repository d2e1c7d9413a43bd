"""A small internet on the loopback: names, public web servers, and a listener for all that is inside.

Connections are real, and TLS is verified. Only the last step differs from the world: a connection to any address goes
to one of the listeners here, to the public ones if the address is among `PUBLIC_IPS`, and otherwise to the one inside,
which records it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PUBLIC_IPS = frozenset({"93.184.216.34", "93.184.216.35", "2606:2800:220:1::34"})
CERTIFIED = ("files.example.com", "cdn.example.com", "xn--bcher-kva.example.com", "localhost")
"""The names in the servers' certificate."""

Answer = Callable[[], AsyncIterator[bytes]]
"""The portions of a whole response, status line and headers among them."""

_TYPE_A, _TYPE_AAAA = 1, 28


@dataclass
class Certificates:
    """What servers show, and what clients verify it by."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def new_certificates(directory: Path) -> Certificates:
    """Make a certificate for `CERTIFIED` and one public address, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    names = [*map(x509.DNSName, CERTIFIED), x509.IPAddress(IPv4Address("93.184.216.34"))]
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(begin).not_valid_after(begin + dt.timedelta(days=36500))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    shown = builder.sign(key, hashes.SHA256()).public_bytes(pem)
    chain = directory / "server.pem"
    chain.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()) + shown
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return Certificates(server, ssl.create_default_context(cadata=shown.decode()))


def trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of certificates that the machine trusts."""
    certificates, path = new_certificates(folder), folder / "authority.pem"
    (authority,) = certificates.client.get_ca_certs(binary_form=True)
    path.write_text(ssl.DER_cert_to_PEM_cert(authority))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return certificates.server


class NameServer:
    """Knows for each name the sets of addresses that its resolutions find, the last one again."""

    def __init__(self) -> None:
        self.records: dict[str, tuple[tuple[str, ...], ...]] = {}
        self.queries: list[tuple[str, int]] = []

    async def resolve(self, host: str) -> list[str]:
        """Resolve as the C library does: numbers in all their forms by themselves, names by asking for A and AAAA."""
        with suppress(OSError):
            return [socket.inet_ntoa(socket.inet_aton(host))]
        sets = self.records.get(host, ((),))
        addresses = sets[min(self.queries.count((host, _TYPE_A)), len(sets) - 1)]
        self.queries += [(host, _TYPE_A), (host, _TYPE_AAAA)]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, f"no such host: {host}")
        return sorted(addresses, key=lambda address: ip_address(address).version)


@dataclass(frozen=True)
class Visit:
    """A request to a public server: on which port of which address, for which host and path, and its headers."""

    ip: str
    port: int
    host: str
    path: str
    headers: dict[str, str] = field(compare=False, default_factory=dict)


class LocalInternet:
    """The name server, the public servers' answers by path, who visited them, and who came inside."""

    def __init__(self, certificates: Certificates) -> None:
        self.names = NameServer()
        self.answers: dict[str, Answer] = {}
        self.visits: list[Visit] = []
        self.came_inside: list[tuple[str, ...]] = []
        self.unreachable: set[str] = set()
        self.certificates = certificates
        self.ports: dict[str, int] = {}
        self._targets: list[tuple[str, int]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LocalInternet]:
        """Listen, until the end of the block."""
        async with AsyncExitStack() as stack:
            for kind in ("http", "https", "inside"):
                serve = self._serve_inside if kind == "inside" else self._serve
                context = self.certificates.server if kind == "https" else None
                server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
                stack.callback(server.close)
                self.ports[kind] = server.sockets[0].getsockname()[1]
            yield self

    def transport(self, *, verify: ssl.SSLContext) -> httpx.AsyncBaseTransport:
        """Return what connects as httpx does, but for the last step."""
        return _Routed(self, verify)

    async def route(self, host: str, port: int) -> int:
        """Return the loopback port that stands for an address; a name is resolved, as any connection does."""
        try:
            ip = str(ip_address(host))
        except ValueError:
            ip = (await self.names.resolve(host))[0]
        if ip in self.unreachable:
            raise httpx.ConnectError("connection refused")
        kind = {80: "http", 443: "https"}.get(port, "inside") if ip in PUBLIC_IPS else "inside"
        if kind != "inside":
            self._targets.append((ip, port))
        return self.ports[kind]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
            lines = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in lines}
            path = head[0].split(" ")[1]
            self.visits.append(Visit(*self._targets[-1], headers["host"], path, headers))
            async for portion in self.answers[path]():
                writer.write(portion)
                await writer.drain()
        writer.close()

    async def _serve_inside(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came_inside.append(writer.get_extra_info("peername"))
        with suppress(OSError):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")
            await writer.drain()
        writer.close()


class _Routed(httpx.AsyncBaseTransport):
    def __init__(self, internet: LocalInternet, verify: ssl.SSLContext) -> None:
        self._internet = internet
        self._inner = httpx.AsyncHTTPTransport(verify=verify)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        port = request.url.port or {"https": 443, "http": 80}[request.url.scheme]
        routed = await self._internet.route(request.url.host, port)
        request.url = request.url.copy_with(host="127.0.0.1", port=routed)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def answer(content: bytes, *headers: str, status: str = "200 OK") -> Answer:
    """A response with its length, in one portion."""
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(content)}", "", ""])
    return portions(head.encode() + content)


def redirect(location: str, status: str = "302 Found") -> Answer:
    """A redirect to a location, as it is."""
    return portions(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode())


def portions(*given: bytes, endless: bytes = b"", pause_seconds: float = 0.0, hang: bool = False) -> Answer:
    """A response in portions; then the endless one again and again, or silence."""

    async def send() -> AsyncIterator[bytes]:
        for portion in given:
            yield portion
        if hang:
            await asyncio.Event().wait()
        for portion in itertools.repeat(endless) if endless else ():
            await asyncio.sleep(pause_seconds)
            yield portion

    return send


def in_turn(*answers: Answer) -> Answer:
    """One of the responses for each request, the last one again."""
    remaining = list(answers)

    def send() -> AsyncIterator[bytes]:
        current = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return current()

    return send
