"""Connections to OpenRouter, one for each running request, and the pauses of addresses and models that are down.

A connection serves the next request when its own is over. The pool stands in place of httpcore's own, which for each
request and again at its end looks through all connections that there are, and beyond a number of them lets answers wait
for the end of others. Only HTTP/1.1: over HTTP/2, httpcore (1.0) does not tell the server that nobody reads a stream
any more, so that an answer that was stopped would be written to its end, and paid for; and requests beyond the server's
number of streams would wait again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import httpcore
import httpx

from ..errors import AddressPaused, ModelPaused, PipeError, ProviderError
from ..ports import Pauses, RequestBody
from ..words.lines import admin_notice, notice

FAILURES_TO_OPEN: Final = 5
"""How often in a row; for a connection, two questions of users with their retries."""
PAUSE_SECONDS: Final = 10.0
MAX_PAUSE_SECONDS: Final = 120.0
_ROUTING: Final = ("model", "models", "provider")
"""The fields of a body that say who may answer it."""

MAX_IDLE = 100
"""Connections to one server that are kept open for the next requests."""
IDLE_SECONDS = 60.0
"""How long; a server that ends one sooner is noticed before it is used again."""


class Breaker:
    """Leaves alone for a time what is down for everybody: an address, or a model there; of one worker, for all of it.

    | `down` of the failure | such as | closes | counted |
    |---|---|---|---|
    | connection | DNS, TLS, refused | the address | always |
    | address | no headers in time, a page with 5xx | the address | of another user than the last one |
    | model | OpenRouter says that its provider is down | the model | of another user than the last one |
    | "" | all else: 4xx, a connection that is reset while a large request is sent | nothing | |

    So nobody's key, chat or attachments close anything for others. A model is named with its fallback models and
    preferences of providers: asked for with others, it may be there.
    """

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
        """By name: until when a request is trying it out."""

    @contextmanager
    def attempt(self, address: str, body: RequestBody, *, user_id: str) -> Generator[None]:
        """Ask at the address within the block, which raises the failure; no error is a success.

        Raises:
            AddressPaused: The address is left alone at present.
            ModelPaused: The model is.
        """
        model = f"{address}\n{json.dumps([body.get(name) for name in _ROUTING], sort_keys=True)}"
        tried = [name for name in (address, model) if self._pauses.failures(name) >= FAILURES_TO_OPEN]
        for name in tried:
            tried_seconds = self._tried_until_seconds.get(name, 0.0) - self._clock()
            if (seconds := max(self._pauses.remaining_seconds(name), tried_seconds)) > 0:
                values = {"seconds": max(1.0, seconds), "failures": self._pauses.failures(name)}
                paused, line = (
                    (AddressPaused, "address_paused") if name == address else (ModelPaused, "model_paused")
                )
                raise paused(
                    notice(line, **values),
                    admin_message=admin_notice(line, **values),
                    retry_after_seconds=values["seconds"],
                )
        for name in tried:  # an answer may be long in coming; by then a connection is there, or is not
            self._tried_until_seconds[name] = self._clock() + PAUSE_SECONDS
        try:
            yield
        except PipeError as error:
            name = model if error.down == "model" else address
            # one that began before it was given up prolongs nothing
            if error.down and (name in tried or self._pauses.failures(name) < FAILURES_TO_OPEN):
                is_anybody = error.down == "connection" or name in tried
                self._pauses.record_failure(name, by="" if is_anybody else user_id)
            if error.down == "model" or (isinstance(error, ProviderError) and not error.down):
                self._pauses.record_success(address)
            raise
        else:
            self._pauses.record_success(address)
            self._pauses.record_success(model)
        finally:
            for name in tried:
                self._tried_until_seconds.pop(name, None)


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
