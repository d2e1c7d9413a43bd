"""HTTP/1.1 over the event loop's own sockets: a transport for httpx whose streams are read by time.

Waking up for a portion costs more than its bytes. So nothing is read between two reads: what comes waits in the
kernel, also below TLS, and the next read takes all of it. `Pace` says when that is. Windows has no `poll`, which tells
whether a server has closed a connection that rests: this module cannot be imported there.

A connection serves the next request when its own is over, and there is no limit of them: whoever uses it limits how
many requests run. Only HTTP/1.1: a server that is not told that nobody reads a stream any more writes it to its end,
which is paid for. The bytes are understood by httptools, which Open WebUI's web server is made with.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.staggered import staggered_race
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from select import POLLIN, poll
from typing import Any, Final, cast

import httptools
import httpx

from .connections import IDLE_SECONDS, MAX_IDLE, Pace

_READ_BYTES: Final = 32 * 1024
_HEAD_BYTES: Final = 128 * 1024
_NEXT_ADDRESS_SECONDS: Final = 0.25
"""After so long without an answer of one address the next one is tried as well (RFC 8305)."""


class Transport(httpx.AsyncBaseTransport):
    """Gives each request the connection that was used last, or a new one; `extensions["pace"]` is its `Pace`."""

    def __init__(self) -> None:
        self._tls = httpx.create_ssl_context()  # reads a file of certificates, which takes its time
        self._tls.set_alpn_protocols(["http/1.1"])
        self._idle: defaultdict[tuple[str, str, int], list[_Connection]] = defaultdict(list)
        self._is_closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its connection is free again when the response is closed. Raises httpx's errors."""
        url = request.url
        if url.scheme not in {"http", "https"}:
            raise httpx.UnsupportedProtocol("Neither http:// nor https://.")
        host, port = url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
        idle = self._idle[url.scheme, host, port]
        while idle and not idle[-1].is_fit:
            idle.pop().close()
        limits = request.extensions.get("timeout") or {}
        connection = idle.pop() if idle else await self._open(url.scheme, host, port, limits)
        try:
            await connection.send(request, limits.get("read"))
        except BaseException:
            connection.close()
            raise
        pace = Pace()
        body = _Body(connection, pace, partial(self._keep, connection, idle))
        return httpx.Response(
            connection.status, headers=connection.headers, stream=body, extensions={"pace": pace}
        )

    async def aclose(self) -> None:
        """Close what is kept; a running request closes its connection itself."""
        self._is_closed = True
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    async def _open(self, scheme: str, host: str, port: int, limits: dict[str, Any]) -> _Connection:
        connection = None
        try:
            async with asyncio.timeout(limits.get("connect")):
                opened = await _connected_socket(host, port)
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(_Connection, sock=opened)
                if scheme == "https":
                    await connection.start_tls(self._tls, host)
        except BaseException as error:
            if connection:
                connection.close()
            if isinstance(error, TimeoutError):
                raise httpx.ConnectTimeout("No connection in time.") from error
            if isinstance(error, OSError | httpx.TransportError):
                raise httpx.ConnectError(str(error)) from error
            raise
        return connection

    def _keep(self, connection: _Connection, idle: list[_Connection]) -> None:
        """Keep a connection whose request is over; one that cannot serve another is closed."""
        if connection.timer:
            connection.timer.cancel()
        idle.append(connection)
        while idle and not idle[-1].is_fit:
            idle.pop().close()
        while idle and (self._is_closed or len(idle) > MAX_IDLE or not idle[0].is_fit):
            idle.pop(0).close()


@dataclass(eq=False)
class _Body(httpx.AsyncByteStream):
    """The bytes of a response, a portion for all that came since the last; with its end the connection is free."""

    connection: _Connection
    pace: Pace
    release: partial[None]

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield the portions as the pace has them read."""
        while portion := await self.connection.read(self.pace):
            yield portion

    async def aclose(self) -> None:
        """End the response, also in the middle; httpx calls it once."""
        self.release()


class _Connection(asyncio.Protocol):
    """One connection, and the answer that it brings at present.

    The methods without a docstring are called by the event loop, and those with `on_` by the parser.
    """

    _transport: asyncio.Transport
    _used_seconds: float

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._tls: _Tls | None = None
        self._changed = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._error: Exception | None = None
        self.timer: asyncio.TimerHandle | None = None
        """What guards the present answer against a silence; to be cancelled with its end."""
        self._wait_seconds: float | None = None
        """Since when something is waited for."""
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._head_bytes = 0
        self._has_headers = self._is_complete = self._is_sent = self._may_go_on = False

    # --- what the transport asks for

    @property
    def is_fit(self) -> bool:
        """Whether it can serve another request: its own is over, nobody has closed it, and it is not idle for long."""
        if not (self._is_sent and self._may_go_on) or self._error or self._transport.is_closing():
            return False
        waiting = poll()
        waiting.register(self._transport.get_extra_info("socket").fileno(), POLLIN)
        return not waiting.poll(0) and self._clock() - self._used_seconds < IDLE_SECONDS

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Encrypt from here on; raises httpx.TransportError for what cannot be trusted."""
        self._tls = _Tls(context, host)
        self.data_received(b"")
        while not self._tls.is_ready:
            await self._change()

    async def send(self, request: httpx.Request, silence_seconds: float | None = None) -> None:
        """Send a request, and wait for status and headers; a refusal before it is sent whole ends the sending.

        No wait for the server may take longer than `silence_seconds`.
        """
        self._begin()
        if silence_seconds is not None:
            self._watch(silence_seconds)
        head = b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), request.url.raw_path)
        head += b"".join([b"%s: %s\r\n" % each for each in request.headers.raw]) + b"\r\n"
        async for piece in cast("AsyncIterable[bytes]", request.stream):
            if self._error or self.status >= httpx.codes.BAD_REQUEST:
                break
            data, head = head + piece, b""
            self._transport.write(self._tls.to_send(data) if self._tls else data)
            await self._may_write.wait()
        else:
            self._is_sent = True
        while not self._has_headers:
            await self._change()

    async def read(self, pace: Pace) -> bytes:
        """Return what of the body came since the last time, at least a byte; b"" at its end."""
        while not self._body:
            if self._is_complete:
                return b""
            await pace.wait()
            if not self._body:
                await self._change()
        portion = b"".join(self._body)
        self._body.clear()
        return portion

    def close(self) -> None:
        """Close it at once."""
        if self.timer:
            self.timer.cancel()
        self._transport.abort()

    def _watch(self, silence_seconds: float) -> None:
        """End a wait that is too long, and look again when the next one may be: no portion sets a timer."""
        now = self._clock()
        remaining_seconds = (
            (now if self._wait_seconds is None else self._wait_seconds) + silence_seconds - now
        )
        if remaining_seconds <= 0:
            self._end(httpx.ReadTimeout("Nothing has come in time."))
        else:
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(remaining_seconds, self._watch, silence_seconds)

    async def _change(self) -> None:
        """Wait until anything has come; raises what has ended the connection before."""
        if self._error:
            raise self._error
        self._changed.clear()
        self._transport.resume_reading()
        self._wait_seconds = self._clock()
        await self._changed.wait()
        self._wait_seconds = None

    # --- what the event loop says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            plain = self._tls.received(data) if self._tls else data
            self._parser.feed_data(plain)
        except ssl.SSLError as error:
            self._end(httpx.ReadError(str(error)))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._end(httpx.RemoteProtocolError(f"No answer in HTTP/1.1: {type(error).__name__}"))
        self._head_bytes += len(data)
        if not self._has_headers and self._head_bytes > _HEAD_BYTES:
            self._end(httpx.RemoteProtocolError("The head of the answer does not end."))
        if self._tls:
            if answer := self._tls.to_send():
                self._transport.write(answer)
            if self._tls.is_over:
                self.eof_received()
        if self._has_headers and not self._is_complete:
            self._transport.pause_reading()
        self._changed.set()

    def eof_received(self) -> None:
        names = {name.lower() for name, _ in self.headers}
        if self._has_headers and not names & {b"content-length", b"transfer-encoding"}:
            self._is_complete = True
        self._end(httpx.RemoteProtocolError("The server has closed the connection."))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(httpx.ReadError(str(exc)) if exc else httpx.RemoteProtocolError("It was closed."))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self._may_write.set()
        self._changed.set()

    # --- what the parser says

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_headers:  # what comes after the body is no header
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_complete:
            raise httptools.HttpParserError("Nobody has asked for another answer.")
        self.status = self._parser.get_status_code()
        self._has_headers = self.status >= httpx.codes.OK  # below, an answer announces another
        if self.status >= httpx.codes.BAD_REQUEST:
            self._may_write.set()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._has_headers:
            self._is_complete, self._may_go_on = True, self._parser.should_keep_alive()
            self._used_seconds = self._clock()
        else:
            self.headers.clear()


class _Tls:
    """The TLS of one connection, in memory: so that nothing is read from the socket before somebody asks for it."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.is_ready = self.is_over = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    def to_send(self, data: bytes = b"") -> bytes:
        """Return what is to be sent by now, with these bytes of ours at its end."""
        if data:
            self._object.write(data)
        return self._outgoing.read()

    def received(self, data: bytes) -> bytes:
        """Return what the bytes that came say; raises ssl.SSLError for what cannot be trusted."""
        self._incoming.write(data)
        portions = list[bytes]()
        with suppress(ssl.SSLWantReadError):
            if not self.is_ready:
                self._object.do_handshake()
                self.is_ready = True
            while portion := self._object.read(_READ_BYTES):
                portions.append(portion)
            self.is_over = True
        return b"".join(portions)


async def _connected_socket(host: str, port: int) -> socket.socket:
    """Connect to the first address of a host that answers, by IPv6 and IPv4 in turns. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    of_family, opened = Counter[int](), list[socket.socket]()

    def turn(address: tuple[Any, ...]) -> int:
        of_family[address[0]] += 1
        return of_family[address[0]]

    async def connect(family: int, kind: int, protocol: int, _: str, address: Any) -> socket.socket:
        opened.append(connecting := socket.socket(family, kind, protocol))
        connecting.settimeout(0)
        await loop.sock_connect(connecting, address)
        return connecting

    winner: socket.socket | None = None
    try:
        tries = [partial(connect, *each) for each in sorted(found, key=turn)]
        winner, _, errors = await staggered_race(tries, _NEXT_ADDRESS_SECONDS)
    finally:  # a race that is cancelled may have been won
        for each in opened:
            if each is not winner:
                each.close()
    if winner is None:
        raise next(filter(None, errors), OSError("no address"))
    return winner
