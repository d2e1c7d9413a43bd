"""What a world's workers reach: OpenRouter as the stand-in plays it, and Redis; in this process, without a socket.

Each worker has a transport and a client of its own, which may be killed: from then on nothing that is asked of them
has an effect, as nothing has that a process asks which is no more. What fails, and when, `faults` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, cast

import httpx
from redis.exceptions import ConnectionError as RedisLost
from starlette.requests import ClientDisconnect

from open_webui_openrouter_pipe.openrouter.connections import Pace
from scripts.standin import catalogue
from scripts.standin.server import create_app
from scripts.standin.state import RecordedRequest, Service

if TYPE_CHECKING:
    from random import Random

    from starlette.types import Message

    from scripts.simulation.faults import Faults, Record

BASE_URL = "http://openrouter.sim/api/v1"
PACE_SECONDS = 0.02
"""Between two deltas of an answer."""
TRAVEL_SECONDS = (0.002, 0.08)
"""The least and the most that a request takes to arrive."""
REDIS_SECONDS = (0.0002, 0.002)
MOST_KEYS = 4096
"""Of Redis, before what has run out is forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of the pipe, in whose context its requests are sent; `task` is the host's name of a task, or "".

    None is like another: an answer that is continued has the message of the call before, and a program has no message.
    `valves` are its user's when an answer began; they may have others before anybody looks at it.
    """

    user_id: str
    chat_id: str
    message_id: str
    task: str = ""
    valves: dict[str, Any] = field(default_factory=dict)


CALL: ContextVar[Call | None] = ContextVar("CALL", default=None)
_EXCHANGE: ContextVar[Exchange] = ContextVar("_EXCHANGE")


@dataclass(eq=False, slots=True)
class Exchange:
    """One request: of which call and worker, as the stand-in has recorded it, the id of its bill, what has struck it.

    `is_broken` says that the network has cut it.
    """

    worker: str
    call: Call | None
    record: RecordedRequest | None = None
    generation: str = ""
    faults: list[Record] = field(default_factory=list)
    is_broken: bool = False


class _Service(Service):
    """The stand-in's memory in a world: its time is the world's, and its orders are those of the faults."""

    def __init__(self, faults: Faults, clock: Callable[[], float]) -> None:
        self._faults, self._clock = faults, clock
        super().__init__(pace_seconds=PACE_SECONDS)

    def now(self) -> float:
        return self._clock()

    def record(self, request: RecordedRequest) -> None:
        super().record(request)
        _EXCHANGE.get().record = request

    def queued(self) -> str:
        exchange = _EXCHANGE.get()
        if struck := self._faults.take("answer", exchange.worker):
            exchange.faults.append(struck)
            return self._faults.orders(struck)
        return super().queued()


class Upstream:
    """OpenRouter, for all workers; `clock` gives the true time in epoch seconds."""

    def __init__(self, faults: Faults, clock: Callable[[], float], chance: Random) -> None:
        self.faults, self.chance = faults, chance
        self.service = _Service(faults, clock)
        self.app = create_app(self.service)
        self.exchanges: list[Exchange] = []
        """Those that were not judged yet, in the order in which they were sent."""
        self.failures: list[str] = []
        """What the stand-in itself has failed by: the world is wrong."""
        self.requests = 0
        """How many there were in all."""
        self._rates: dict[str, dict[str, Decimal]] = {}

    def transport(self, worker: str) -> Transport:
        """A worker's way to it."""
        return Transport(self, worker)

    def multiply_prices(self, model_id: str, factor: float) -> None:
        """Let a model have other prices than those with which the world began; `close` ends that."""
        rates = catalogue.BY_ID[model_id].rates
        before = self._rates.setdefault(model_id, dict(rates))
        rates.update({name: rate * Decimal(str(factor)) for name, rate in before.items()})

    @property
    def has_other_prices(self) -> bool:
        """Whether any price was changed: a worker learns of it in its time."""
        return bool(self._rates)

    def close(self) -> None:
        """Let the catalogue be as it was."""
        for model_id, rates in self._rates.items():
            catalogue.BY_ID[model_id].rates.update(rates)


class Transport(httpx.AsyncBaseTransport):
    """What sends the requests of one worker."""

    def __init__(self, upstream: Upstream, worker: str) -> None:
        self.upstream, self.worker = upstream, worker
        self.is_dead = False
        self.open: dict[Answer, None] = {}
        """The answers on their way, in their order."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; raises what httpx would."""
        self.check()
        exchange = Exchange(self.worker, CALL.get())
        self.upstream.exchanges.append(exchange)
        self.upstream.requests += 1
        await asyncio.sleep(self.upstream.chance.uniform(*TRAVEL_SECONDS))
        self.check()
        if struck := self.upstream.faults.take("connect", self.worker):
            exchange.faults.append(struck)
            if struck["how"] == "refused":
                raise httpx.ConnectError("connection refused")
            raise httpx.RemoteProtocolError("The server has closed the connection.")
        content = b"".join([piece async for piece in cast("AsyncIterable[bytes]", request.stream)])
        limits = request.extensions.get("timeout") or {}
        answer = Answer(self, exchange, limits.get("read"))
        answer.begin(_scope(request), content)
        try:
            await answer.head.wait()
        except BaseException:
            answer.leave()
            raise
        if answer.error and not answer.status:
            answer.leave()
            raise answer.error
        return httpx.Response(
            answer.status, headers=answer.headers, stream=answer, extensions={"pace": answer.pace}
        )

    def check(self) -> None:
        """Nothing that a dead worker does has an effect."""
        if self.is_dead:
            raise asyncio.CancelledError

    def kill(self) -> None:
        """Let the server see that the worker is gone."""
        self.is_dead = True
        for answer in [*self.open]:
            answer.leave()


def _scope(request: httpx.Request) -> dict[str, Any]:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (url.host, url.port or 80),
        "client": ("127.0.0.1", 1),
    }


class Answer(httpx.AsyncByteStream):
    """One answer on its way: the server writes it in a task of its own, the client reads it at its pace.

    A fault of the kind "cut" strikes at a byte of its body.
    """

    def __init__(self, transport: Transport, exchange: Exchange, silence_seconds: float | None) -> None:
        self.transport, self.exchange = transport, exchange
        self.head = asyncio.Event()
        self.pace = Pace()
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.error: Exception | None = None
        self._silence_seconds = silence_seconds
        self._portions = list[bytes]()
        self._changed = asyncio.Event()
        self._sent_bytes = 0
        self._is_complete = self._is_mute = False
        self._cut: Record | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, scope: dict[str, Any], content: bytes) -> None:
        """Let the server answer; it is no part of the worker that asks."""
        if scope["path"].endswith("/responses"):
            self._cut = self.transport.upstream.faults.take("stream", self.transport.worker)
        if self._cut:
            self.exchange.faults.append(self._cut)
        received = iter([content])

        async def receive() -> Message:
            for body in received:
                return {"type": "http.request", "body": body, "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError

        context = copy_context()
        context.run(_EXCHANGE.set, self.exchange)
        context.run(CALL.set, None)
        work = self.transport.upstream.app(scope, receive, self._send)
        self._task = asyncio.get_running_loop().create_task(_served(work), context=context)
        self._task.add_done_callback(self._end)
        self.transport.open[self] = None
        self._watch()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Yield what has come, a portion for all that came since the last."""
        while True:
            if not (self.error or self._is_complete):
                await self.pace.wait()
            while not (self._portions or self.error or self._is_complete):
                self._changed.clear()
                self._watch()
                await self._changed.wait()
            self.transport.check()
            if self._portions:
                portion = b"".join(self._portions)
                self._portions.clear()
                yield portion
            elif self.error:
                raise self.error
            else:
                return

    async def aclose(self) -> None:
        """End it, also in the middle."""
        self.leave()

    def leave(self) -> None:
        """Let the server see that nobody reads any more."""
        if self._timer:
            self._timer.cancel()
        self.transport.open.pop(self, None)
        self.error = self.error or httpx.ReadError("It was closed.")
        if self._task and not self._task.done():
            self._task.cancel()

    def _watch(self) -> None:
        """Give up a silence that lasts too long."""
        if self._timer:
            self._timer.cancel()
        if self._silence_seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._silence_seconds, self._break, httpx.ReadTimeout("silence"))

    def _break(self, error: Exception) -> None:
        self.error = self.error or error
        self.head.set()
        self._changed.set()

    def _end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self.transport.upstream.failures.append(repr(error))
        if not (self._is_complete or self._is_mute):
            self._break(httpx.RemoteProtocolError("The server has closed the connection."))

    async def _send(self, message: Message) -> None:
        """Take what the server sends, as far as the network lets it through. Raises OSError once it is cut."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], [*message["headers"]]
            names = {name.lower(): value for name, value in self.headers}
            self.exchange.generation = names.get(b"x-generation-id", b"").decode()
            self.head.set()
            return
        body = message.get("body", b"")
        if self._cut and self._sent_bytes + len(body) > self._cut["after_bytes"]:
            self._strike(self._cut, body)
        elif not self._is_mute:
            self._hand_on(body)
            if not message.get("more_body"):
                self._is_complete = True
                self._changed.set()
        if self.exchange.is_broken and not self._is_mute:
            raise OSError("the client is gone")

    def _hand_on(self, body: bytes) -> None:
        self._sent_bytes += len(body)
        if body:
            self._portions.append(body)
            self._changed.set()

    def _strike(self, cut: Record, body: bytes) -> None:
        """Let the network fail at this byte, in its way."""
        kept = body[: cut["after_bytes"] - self._sent_bytes]
        rest = body[len(kept) :]
        how = cast("Literal['drop', 'reset', 'half', 'noise', 'silence']", cut["how"])
        self._cut = None
        self.transport.upstream.faults.note(cut, self.transport.worker)
        match how:
            case "noise":
                self._hand_on(kept + bytes.fromhex(cut["noise"]) + rest)
                return
            case "silence":  # the server does not notice, and writes on
                self._hand_on(kept)
                self._is_mute = True
            case "half":
                self._hand_on(kept + rest[: len(rest) // 2])
                self._break(httpx.RemoteProtocolError("The server has closed the connection."))
            case "reset":
                self._hand_on(kept)
                self._break(httpx.ReadError("connection reset"))
            case "drop":
                self._hand_on(kept)
                self._break(httpx.RemoteProtocolError("The server has closed the connection."))
        self.exchange.is_broken = True


async def _served(work: Any) -> None:
    """Answer; a client that is gone is no failure of the server's."""
    with suppress(ClientDisconnect, OSError):
        await work


# --- Redis


class RedisServer:
    """The values of all workers, with their ends by the true time."""

    def __init__(self, faults: Faults, clock: Callable[[], float], chance: Random) -> None:
        self.faults, self.clock, self.chance = faults, clock, chance
        self.values: dict[str, tuple[bytes, float]] = {}

    def client(self, worker: str) -> RedisClient:
        """A worker's client."""
        return RedisClient(self, worker)

    def get(self, name: str) -> bytes | None:
        """What a name holds."""
        value, until = self.values.get(name, (None, 0.0))
        return value if until > self.clock() else None

    def set(self, name: str, value: bytes, *, ex: float, nx: bool = False) -> bool | None:
        """Let a name hold a value for so many seconds; None where it does already and that is not wanted."""
        if nx and self.get(name) is not None:
            return None
        if len(self.values) >= MOST_KEYS:
            now = self.clock()
            self.values = {key: held for key, held in self.values.items() if held[1] > now}
        self.values[name] = value, self.clock() + ex
        return True


class RedisClient:
    """What the cache uses of redis-py's client: MGET, and SETs in a pipeline."""

    def __init__(self, server: RedisServer, worker: str) -> None:
        self.server, self.worker = server, worker
        self.is_dead = False

    def kill(self) -> None:
        """Nothing that it is asked has an effect any more."""
        self.is_dead = True

    async def mget(self, names: list[str]) -> list[bytes | None]:
        """What the names hold."""
        return cast("list[bytes | None]", await self.run(lambda: [*map(self.server.get, names)]))

    def pipeline(self, *, transaction: bool) -> _Pipeline:
        """Commands that are sent together."""
        assert not transaction
        return _Pipeline(self)

    async def run(self, work: Callable[[], Any]) -> Any:
        """Do something there, unless it is away; its answer may be lost."""
        await self._travel()
        struck = self.server.faults.take("redis", self.worker)
        if struck and struck["how"] != "unheard":
            raise RedisLost("Connection closed by server.")
        found = work()
        await self._travel()
        if struck:
            raise RedisLost("Connection closed by server.")
        return found

    async def _travel(self) -> None:
        if not self.is_dead:
            await asyncio.sleep(self.server.chance.uniform(*REDIS_SECONDS))
        if self.is_dead:
            raise asyncio.CancelledError


class _Pipeline:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._commands: list[Callable[[], Any]] = []

    def set(self, name: str, value: bytes, *, ex: float, nx: bool) -> None:
        self._commands.append(lambda: self._client.server.set(name, value, ex=ex, nx=nx))

    async def execute(self) -> list[Any]:
        return cast("list[Any]", await self._client.run(lambda: [command() for command in self._commands]))
