"""Connections to OpenRouter, one for each running request, and the pauses of addresses that cannot be reached.

A connection serves the next request when its own is over. The pool stands in place of httpcore's own, which for each
request and again at its end looks through all connections that there are, and beyond a number of them lets answers wait
for the end of others. Only HTTP/1.1: over HTTP/2, httpcore (1.0) does not tell the server that nobody reads a stream
any more, so that an answer that was stopped would be written to its end, and paid for; and requests beyond the server's
number of streams would wait again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import httpcore
import httpx

from ..errors import AddressPaused, ConnectionFailed
from ..ports import Pauses
from ..words.lines import admin_notice, notice

FAILURES_TO_OPEN: Final = 5
"""Connections that must fail in a row; two questions of users, with their retries."""
PAUSE_SECONDS: Final = 10.0
MAX_PAUSE_SECONDS: Final = 120.0

MAX_IDLE = 100
"""Connections to one server that are kept open for the next requests."""
IDLE_SECONDS = 60.0
"""How long; a server that ends one sooner is noticed before it is used again."""


class AddressBreaker:
    """Leaves addresses alone that cannot be reached; of one worker, for all of them. A base URL is the name of one."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._clock = clock
        self._pauses = Pauses(
            clock=clock,
            failures=FAILURES_TO_OPEN,
            first_seconds=PAUSE_SECONDS,
            longest_seconds=MAX_PAUSE_SECONDS,
        )
        self._tried_until_seconds: dict[str, float] = {}
        """By address: until when a request is trying it out."""

    @contextmanager
    def attempt(self, address: str) -> Generator[None]:
        """Try to connect within the block; a ConnectionFailed that `passes` is a failure, and no error a success.

        Raises:
            AddressPaused: The address is left alone at present.
        """
        failures = self._pauses.failures(address)
        if tries_out := failures >= FAILURES_TO_OPEN:
            tried_seconds = self._tried_until_seconds.get(address, 0.0) - self._clock()
            seconds = max(self._pauses.remaining_seconds(address), tried_seconds)
            if seconds > 0:
                seconds = max(1.0, seconds)
                raise AddressPaused(
                    notice("address_paused", seconds=seconds),
                    admin_message=admin_notice("address_paused", seconds=seconds, failures=failures),
                    retry_after_seconds=seconds,
                )
            # an answer may be long in coming; by then a connection is there, or is not
            self._tried_until_seconds[address] = self._clock() + PAUSE_SECONDS
        try:
            yield
        except ConnectionFailed as error:
            # one that began before the address was given up prolongs nothing
            if error.passes and (tries_out or self._pauses.failures(address) < FAILURES_TO_OPEN):
                self._pauses.record_failure(address)
            raise
        else:
            self._pauses.record_success(address)
        finally:
            if tries_out:
                self._tried_until_seconds.pop(address, None)


class Connections(httpx.AsyncHTTPTransport):
    """httpx's transport without a limit of connections; whoever uses it limits how many requests run."""

    def __init__(self) -> None:
        tls = httpx.create_ssl_context()  # reads a file of certificates, which takes its time
        super().__init__(verify=tls)
        self._pool = _Pool(ssl_context=tls, keepalive_expiry=IDLE_SECONDS)


def open_client(transport: httpx.AsyncBaseTransport | None, *, has_proxy: bool) -> httpx.AsyncClient:
    """Return a client without a limit of connections; `transport` replaces the network.

    Behind a proxy of the environment httpx's own pools are used, which find their way there.
    """
    if transport or not has_proxy:
        return httpx.AsyncClient(transport=transport or Connections())
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
    )
    return httpx.AsyncClient(limits=limits)


class _Pool(httpcore.AsyncConnectionPool):
    """Gives each request the connection that was used last, or a new one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._idle: defaultdict[str, list[httpcore.AsyncConnectionInterface]] = defaultdict(list)
        """The connections to each server that are free, the last used one at the end."""
        self._is_closed = False

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request; its connection is free again when the response is closed."""
        if request.url.scheme not in (b"http", b"https"):
            raise httpcore.UnsupportedProtocol("Neither http:// nor https://.")
        idle = self._idle[str(request.url.origin)]
        while idle and idle[-1].has_expired():
            await idle.pop().aclose()
        connection = idle.pop() if idle else self.create_connection(request.url.origin)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        response.stream = _ResponseBody(response.stream, partial(self._keep, connection, idle))
        return response

    async def aclose(self) -> None:
        """Close what is kept; a running request closes its connection itself."""
        self._is_closed = True
        for idle in self._idle.values():
            while idle:
                await idle.pop().aclose()

    async def _keep(self, connection: Any, idle: list[Any]) -> None:
        """Keep a connection whose request is over; one that cannot serve another is closed."""
        if connection.is_idle():
            idle.append(connection)
        elif not connection.is_closed():
            await connection.aclose()
        while idle and (self._is_closed or len(idle) > MAX_IDLE or idle[0].has_expired()):
            await idle.pop(0).aclose()


class _ResponseBody:
    """The bytes of a response, with whose end its connection is free."""

    def __init__(self, stream: Any, keep_connection: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._keep_connection = keep_connection

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        """End the response; httpx calls it once, also in the middle."""
        try:
            await self._stream.aclose()
        finally:  # also when that is cancelled
            await self._keep_connection()
