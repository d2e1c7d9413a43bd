"""Writes down requests and their answers as they come over the wire, with placeholders for all that people wrote.

A transport over the client that everybody else uses: what is sent and what comes is handed on untouched, and when an
answer is over, one line about it is written beside it, by another thread. A fault in that is logged, and nothing else.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from asyncio import CancelledError, get_running_loop
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import httpx

from ..responses.effects import Decoder
from ..responses.failure import is_failure, read_failure
from ..responses.values import read_json
from .errors import to_error
from .placeholders import Placeholders, Said
from .recordings import MAX_BYTES, Recording, Recordings

FORMAT: Final = 1
"""Of the lines; another one when what a reader needs of them changes."""
MAX_EXCHANGE_BYTES: Final = 8 * 1024 * 1024
"""Of a request, and of an answer; of a larger one only its size is written."""
_FILE_MODE: Final = 0o600

_HEADERS: Final = frozenset({
    "content-type", "retry-after", "x-generation-id", "x-request-id", "x-openrouter-cache-status",
    "x-openrouter-metadata", "x-anthropic-beta", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
})  # fmt: skip
"""What says something about an answer and not about who asked."""

Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
Line: TypeAlias = dict[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AnswerRead:
    """What an answer consists of: the events of a stream, one JSON value, or any text; and the kind of its failure."""

    kind: str | None = None
    events: Sequence[Any] | None = None
    body: Any = None
    text: str | None = None


@dataclass(slots=True)
class Exchange:
    """One request and what came of it."""

    request: httpx.Request
    content: bytes
    begin_seconds: float
    status: int | None = None
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    portions: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    ending: str = "closed"
    """How it ended: `complete`, `closed` by us before its end, or the name of the fault."""

    def add(self, portion: bytes) -> None:
        """Keep a portion of the answer, as long as that is not too large."""
        self.size_bytes += len(portion)
        if self.size_bytes <= MAX_EXCHANGE_BYTES:
            self.portions.append(portion)

    def answer(self) -> AnswerRead:
        """Read the answer; a failure has the kind by which the pipe knows it."""
        text = self._decoded()
        is_ok = self.status == httpx.codes.OK
        body = read_json(text)
        if isinstance(body, dict | list):
            is_failed = not is_ok or bool(isinstance(body, dict) and body.get("error"))
            return AnswerRead(_kind(self.status, text) if is_failed else None, body=body)
        events = [read_json(frame, frame) for frame in Decoder().feed(text.encode())]
        if not is_ok or not events:
            return AnswerRead(_kind(self.status, text), text=text)
        failures = [event for event in events if isinstance(event, dict) and is_failure(event)]
        kind = _kind(None, failures[0]) if failures else None
        return AnswerRead(kind, events=events)

    def _decoded(self) -> str:
        """The text of the answer; one that is compressed and cut off is none."""
        kept = ("content-encoding", "content-type")
        headers = {name: value for name, value in self.headers.items() if name in kept}
        content = b"".join(self.portions)
        try:
            return httpx.Response(200, headers=headers, content=content).content.decode("utf-8", "replace")
        except httpx.DecodingError:
            return ""


class ExchangeRecorder:
    """Makes the client of a worker record; `start` owns what runs beside the answers. Close it with the worker."""

    def __init__(
        self, http: httpx.AsyncClient, recordings: Recordings, start: Start, *, clock: Callable[[], float]
    ) -> None:
        """`clock` gives the epoch seconds by which recordings end."""
        self._start, self._http = start, http
        self._writer = _Writer(recordings, clock)

    def client(self, recording: Recording) -> httpx.AsyncClient:
        """Return a client that records; it is nothing but a way to the one below, and need not be closed."""

        def keep(exchange: Exchange) -> None:
            self._start(self._write(exchange, recording))

        return httpx.AsyncClient(transport=WatchingTransport(self._http, keep))

    async def aclose(self) -> None:
        """Write nothing more but the line that is being written."""
        self._writer.thread.shutdown(wait=False, cancel_futures=True)

    async def _write(self, exchange: Exchange, recording: Recording) -> None:
        try:
            writer = self._writer
            await get_running_loop().run_in_executor(writer.thread, writer.write, exchange, recording)
        except Exception:  # noqa: BLE001 - an answer must not break by what is written about it
            _log.warning("an exchange was not recorded", exc_info=True)


class WatchingTransport(httpx.AsyncBaseTransport):
    """A way over another client; `keep` is called with each exchange when that is over."""

    def __init__(self, http: httpx.AsyncClient, keep: Callable[[Exchange], None]) -> None:
        self._http, self._keep = http, keep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and hand the answer on as it comes."""
        exchange = Exchange(request, await request.aread(), time.monotonic())
        try:
            response = await self._http.send(request, stream=True)
        except (httpx.HTTPError, CancelledError) as error:
            exchange.ending = type(error).__name__
            self._keep(exchange)
            raise
        exchange.status, exchange.headers = response.status_code, response.headers
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_CopiedStream(response, partial(self._keep, exchange), exchange),
            extensions=response.extensions,
        )


class _CopiedStream(httpx.AsyncByteStream):
    """The bytes of a response as they come; `keep` is called once, when nobody reads them any more."""

    def __init__(self, response: httpx.Response, keep: Callable[[], None], exchange: Exchange) -> None:
        self._response, self._exchange, self._keep = response, exchange, keep

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for portion in self._response.aiter_raw():
                self._exchange.add(portion)
                yield portion
        except httpx.HTTPError as error:
            self._exchange.ending = type(error).__name__
            raise
        self._exchange.ending = "complete"

    async def aclose(self) -> None:
        """Close the response below."""
        try:
            await self._response.aclose()
        finally:
            self._keep()


class _Writer:
    """The file of this worker; in one thread of its own, each exchange is written as one line."""

    def __init__(self, recordings: Recordings, clock: Callable[[], float]) -> None:
        self._recordings, self._clock = recordings, clock
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openrouter-recorder")
        self._name = secrets.token_hex(16)  # Open WebUI gives files to whoever knows their names
        self._begun = 0
        self._placeholders = Placeholders()

    def write(self, exchange: Exchange, recording: Recording) -> None:
        """Write a line while this recording runs; where that would be too much, the recording ends."""
        folder = self._recordings.folder
        if folder is None or self._recordings.running(self._clock()) != recording:
            return
        if recording.begun != self._begun:
            self._begun, self._placeholders = recording.begun, Placeholders()
        line = json.dumps(_line(exchange, self._placeholders), ensure_ascii=False) + "\n"
        if self._recordings.running(self._clock()) != recording:
            return  # it ended meanwhile
        written = sum(self._recordings.files().values())
        if written + len(line.encode()) > MAX_BYTES:
            self._recordings.end()
            _log.warning("the recording ended: its files are as large as they may be")
            return
        path = folder / f"{recording.begun}-{self._name}.jsonl"
        path.touch(mode=_FILE_MODE)
        with path.open("a", encoding="utf-8") as file:
            file.write(line)


def _line(exchange: Exchange, placeholders: Placeholders) -> Line:
    """What is written of an exchange; docs/report.md explains it."""
    body = read_json(exchange.content) if len(exchange.content) <= MAX_EXCHANGE_BYTES else None
    line: Line = {
        "format": FORMAT,
        "path": exchange.request.url.path.rpartition("/")[2],
        "seconds": round(time.monotonic() - exchange.begin_seconds, 3),
        "request_headers": _headers(exchange.request.headers, placeholders),
        "request": placeholders.request(body) if body is not None else len(exchange.content),
        "status": exchange.status,
        "headers": _headers(exchange.headers, placeholders),
        "ending": exchange.ending,
    }
    if exchange.status is None:
        return line
    if exchange.size_bytes > MAX_EXCHANGE_BYTES:
        return {**line, "bytes": exchange.size_bytes}
    answer = exchange.answer()
    line["kind"] = answer.kind
    said = Said(body)
    if answer.events is not None:
        return {**line, "events": [placeholders.answer(event, said) for event in answer.events]}
    if answer.text is not None:
        is_answer = httpx.codes.is_success(exchange.status)  # cut off, and no error that may be read
        return {**line, "text": placeholders.page(answer.text, Said(None) if is_answer else said)}
    return {**line, "body": placeholders.answer(answer.body, said)}


def _kind(status: int | None, body: Any) -> str:
    """How the pipe classifies a failure, by the wording as it was."""
    return type(to_error(read_failure(status, body))).__name__


def _headers(headers: Mapping[str, str], placeholders: Placeholders) -> Mapping[str, Any]:
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in _HEADERS}
    shown: Mapping[str, Any] = placeholders.answer(kept, Said(None))
    return shown
