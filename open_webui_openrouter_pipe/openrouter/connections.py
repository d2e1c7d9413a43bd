"""The client of a worker, when its streams are read, and the pauses of addresses and models that are down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final

import httpx

from ..errors import AddressPaused, ModelPaused, PipeError, ProviderError
from ..ports import Pauses, RequestBody
from ..words.lines import notice

FAILURES_TO_OPEN: Final = 5
"""How often in a row; for a connection, two questions of users with their retries."""
PAUSE_SECONDS: Final = 10.0
MAX_PAUSE_SECONDS: Final = 120.0
_ROUTING: Final = ("model", "models", "provider")
"""The fields of a body that say who may answer it."""

MAX_IDLE: Final = 100
"""Connections to one server that are kept open for the next requests, and for how many seconds."""
IDLE_SECONDS: Final = 60.0

LEAST_SECONDS: Final = 0.04
MOST_SECONDS: Final = 0.1
"""A reader notices no pause that is shorter."""

_EVENTS_TOGETHER: Final = 4
_AT_ONCE: Final = 3
"""Deltas at the beginning of a stream that are read as they come."""
_LARGE_BYTES: Final = 32 * 1024
"""After a portion of this size more is waiting, and is read at once."""


class Pace:
    """When a stream is read again, by the pace of its deltas: every 40 to 100 ms, so that four come together.

    Slower ones are read as they come, and so are the first ones, and what follows a portion without any.
    """

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._read_seconds = self._clock()
        self._interval_seconds = 0.0
        self._deltas = 0

    def note(self, deltas: int, size: int) -> None:
        """Note how many deltas a portion has brought, and its size in bytes."""
        now = self._clock()
        gap_seconds, self._read_seconds = (now - self._read_seconds) / max(1, deltas), now
        self._deltas += deltas
        is_slow = not deltas or gap_seconds >= MOST_SECONDS
        if is_slow or self._deltas <= _AT_ONCE or size >= _LARGE_BYTES:
            self._interval_seconds = 0.0
        else:
            self._interval_seconds = min(MOST_SECONDS, max(LEAST_SECONDS, _EVENTS_TOGETHER * gap_seconds))

    async def wait(self) -> None:
        """Wait until the stream is to be read."""
        remaining_seconds = self._read_seconds + self._interval_seconds - self._clock()
        if self._interval_seconds and remaining_seconds > 0:
            await asyncio.sleep(remaining_seconds)


class Breaker:
    """Leaves alone for a time what is down for everybody: an address, or a model there; of one worker, for all of it.

    | `down` of the failure | such as | closes | for others counted |
    |---|---|---|---|
    | connection | DNS, TLS, refused | the address | always |
    | address | no headers in time, a page with 5xx | the address | of another user than the last one |
    | model | OpenRouter says that its provider is down | the model | of another user than the last one |
    | "" | all else: 4xx, a connection that is reset while a large request is sent | nothing | |

    For the user who had them all of these count. So nobody's key, chat or attachments close anything for others, and
    who is alone does not go on asking. A model is named with its fallback models and preferences of providers: asked
    for with others, it may be there.
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
        model = f"{address}\n{[body.get(name) for name in _ROUTING]}"
        of_address, of_model = (address, f"{address}\n{user_id}"), (model, f"{model}\n{user_id}")
        tried = [name for name in (*of_address, *of_model) if self._pauses.failures(name) >= FAILURES_TO_OPEN]
        for name in tried:
            self._check(name, is_model=name in of_model)
        for name in tried:  # an answer may be long in coming; by then a connection is there, or is not
            self._tried_until_seconds[name] = self._clock() + PAUSE_SECONDS
        try:
            yield
        except PipeError as error:
            down = of_model if error.down == "model" else of_address if error.down else ()
            for name, by in zip(down, (user_id, ""), strict=False):
                # one that began before it was given up prolongs nothing
                if name in tried or self._pauses.failures(name) < FAILURES_TO_OPEN:
                    is_anybody = error.down == "connection" or name in tried
                    self._pauses.record_failure(name, by="" if is_anybody else by)
            if error.down == "model" or (isinstance(error, ProviderError) and not error.down):
                self._pauses.record_success(*of_address)
            raise
        else:
            self._pauses.record_success(*of_address, *of_model)
        finally:
            for name in tried:
                self._tried_until_seconds.pop(name, None)

    def _check(self, name: str, *, is_model: bool) -> None:
        """Raise where nobody may try it at present."""
        tried_seconds = self._tried_until_seconds.get(name, 0.0) - self._clock()
        if (seconds := max(self._pauses.remaining_seconds(name), tried_seconds)) <= 0:
            return
        paused, line = (ModelPaused, "model_paused") if is_model else (AddressPaused, "address_paused")
        values = {"seconds": max(1.0, seconds), "failures": self._pauses.failures(name)}
        raise paused(notice(line, **values), retry_after_seconds=values["seconds"])


class _PlainClient(httpx.AsyncClient):
    """Sends requests as they are: no cookies that users would share, and no line in the host's log for each."""

    def __init__(self, way: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=way)
        self._way = way

    async def send(self, request: httpx.Request, **_: object) -> httpx.Response:
        """Return the response once its headers are there; whoever gets it closes it."""
        return await self._way.handle_async_request(request)


def open_client(transport: httpx.AsyncBaseTransport | None, *, has_proxy: bool) -> httpx.AsyncClient:
    """Return a client without a limit of connections; `transport` replaces the network.

    Behind a proxy of the environment, without httptools and on Windows, httpx's own ways are used.
    """
    if not transport and not has_proxy:
        with suppress(ImportError):
            from .transport import Transport

            transport = Transport()
    if transport:
        return _PlainClient(transport)
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=IDLE_SECONDS
    )
    return httpx.AsyncClient(limits=limits)
