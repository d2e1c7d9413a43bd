"""Speaks HTTP with OpenRouter: sends requests, reads streams, translates what goes wrong.

Owns headers and time limits. It neither builds bodies nor judges events, and asks for an answer once: `retries` asks
again.
The httpx client is shared and belongs to whoever created it; each response is closed here, also on cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import string
from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from urllib.parse import quote

import httpx

from ..conversation.masking import NO_SECRET, Secret
from ..errors import (
    ConfigurationError,
    ConnectionFailed,
    NotOpenRouter,
    PipeError,
    StreamBroken,
    TooBusy,
)
from ..ports import Event, RequestBody
from ..responses.effects import Decoder, Usage, join_deltas, parse_event, read_generation, terminal_event
from ..responses.failure import Failure, read_failure
from ..responses.values import as_generation_id, read_json
from ..words.lines import notice
from .connections import Pace
from .errors import redact, retry_after, to_error
from .wire import EncodedBody, encode_body

DEFAULT_BASE_URL: Final = "https://openrouter.ai/api/v1"

_CONNECT_TIMEOUT_SECONDS = 10.0
_GET_TIMEOUT_SECONDS = 300.0
_GET_WAITS_SECONDS = (0.5, 1.0)
"""Before a plain GET that found no connection is sent again."""
_ERROR_BODY_BYTES = 64 * 1024
_DRAIN_SECONDS = 0.2
_ECHO = '{"type":"response.in_progress"'
_UNBILLED = '"usage":null'
"""A frame that begins so and holds that says what `response.created` has said, with all tools once more."""
_BLANK = b"\xef\xbb\xbf \t\r\n"

_HEADER_CHARACTERS = string.punctuation + " "
"""What headers hold as it is, beside letters and digits."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Where and how to reach OpenRouter.

    `timeout_seconds` limits the wait for a stream's headers, and the silence between two portions of it, which the
    server's comments break.
    """

    base_url: str = DEFAULT_BASE_URL
    api_key: Secret = NO_SECRET
    referer: str = ""
    title: str = ""
    timeout_seconds: float = 300.0
    betas: tuple[str, ...] = ()
    """What of Anthropic's that is not yet standard a request asks for."""
    is_own_key: bool = False
    """Whether the key is the user's own, who then reads what is wrong with it."""


class OpenRouterClient:
    """The ports `Responses` and `Generations` over HTTP, and plain GETs for the catalogue and the account."""

    def __init__(self, http: httpx.AsyncClient, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings
        self.named = list[str]()

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream. Both entering and reading raise the errors of the tree.

        Read to the end, so that the connection can serve the next request.
        """
        request = await self._request("/responses", {**body, "stream": True})
        response = await self._send(request, limit_seconds=self._settings.timeout_seconds)
        try:
            async with aclosing(self.events(response)) as events:
                yield events
        finally:
            await response.aclose()

    def explain(self, failure: Failure, headers: Mapping[str, str] | None = None) -> PipeError:
        """Return the error that a failure is, inside a stream or as an answer with these headers."""
        read = {**dict(failure.headers), **(headers or {})}
        return to_error(
            failure,
            retry_after_seconds=retry_after(read, now=datetime.now(UTC)),
            api_key=self._settings.api_key,
            is_own_key=self._settings.is_own_key,
        )

    async def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path below the base URL, such as "/models"; some of them need no key."""
        request = await self._request(path)
        for wait_seconds in _GET_WAITS_SECONDS:
            try:
                return await self._json(request)
            except ConnectionFailed as error:
                if not error.passes:
                    raise
                await sleep(wait_seconds)
        return await self._json(request)

    async def usage_of(self, generation: str) -> Usage | None:
        """Return what a generation was billed, None where that is not said; until it was recorded, it is not found."""
        return read_generation(await self.get(f"/generation?id={quote(generation, safe='')}"))

    # --- one attempt

    async def open(self, path: str, body: RequestBody | None = None) -> httpx.Response:
        """Send a body, or ask for a path, and return the answer as soon as it begins; whoever has it closes it."""
        request = await self._request(path, body)
        return await self._send(request, limit_seconds=self._settings.timeout_seconds)

    async def _request(self, path: str, body: RequestBody | None = None) -> httpx.Request:
        """Return a request: a POST of the body, which needs a key, or a GET."""
        if body and not self._settings.api_key.strip():
            raise ConfigurationError(notice("no_api_key"))
        content = await encode_body(body) if body else None
        is_streamed = bool(body and body.get("stream"))
        headers = _headers(self._settings, content, is_streamed=is_streamed)
        silence_seconds = self._settings.timeout_seconds if is_streamed else None
        timeout = httpx.Timeout(_CONNECT_TIMEOUT_SECONDS, read=silence_seconds, write=None)
        try:
            url = _url(self._settings.base_url.rstrip("/") + path)
            method = "POST" if body else "GET"
            return self._http.build_request(method, url, content=content, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _unusable_address(error) from error

    async def _send(self, request: httpx.Request, *, limit_seconds: float) -> httpx.Response:
        """Send and wait for the headers; an error status is raised as an error."""
        response = await await_response(self._http.send(request, stream=True), limit_seconds=limit_seconds)
        generation = _generation(response) or "unnamed"
        _log.debug("%s %s, generation %s", response.status_code, request.url.path, generation)
        if response.status_code in {httpx.codes.OK, httpx.codes.ACCEPTED}:  # a job is accepted
            if request.method == "POST":
                self.named.append(_generation(response))
            return response
        try:
            text = await _error_text(response)
        finally:
            await response.aclose()
        error = self.explain(read_failure(response.status_code, text), response.headers)
        error.generation_id = _generation(response)
        if error.down and not isinstance(
            read_json(text), dict | list
        ):  # the page of a server before OpenRouter
            error.down = "address"
        raise error

    async def _json(self, request: httpx.Request) -> dict[str, Any]:
        response = await self._send(request, limit_seconds=_GET_TIMEOUT_SECONDS)
        try:
            return await self.read_json(response)
        finally:
            await response.aclose()

    async def read_json(self, response: httpx.Response) -> dict[str, Any]:
        """Return the JSON object of an answer that is open."""
        await await_response(response.aread(), limit_seconds=_GET_TIMEOUT_SECONDS)
        return self._read_whole(response.content)

    def _read_whole(self, content: bytes) -> dict[str, Any]:
        whole = read_json(content)
        if not isinstance(whole, dict):
            failure = read_failure(None, content[:_ERROR_BODY_BYTES].decode("utf-8", "replace"))
            said = redact(failure.message, api_key=self._settings.api_key)
            raise NotOpenRouter(notice("not_openrouter"), detail=said)
        return whole

    # --- reading a stream

    async def events(self, response: httpx.Response) -> AsyncGenerator[Event]:
        """Yield the events of an answer that is open."""
        stream, generation_id = _Stream(response.extensions.get("pace")), _generation(response)
        portions = cast("AsyncGenerator[bytes]", response.aiter_bytes())
        try:
            async with aclosing(portions):
                while not stream.decoder.done and (portion := await anext(portions, b"")):
                    for event in stream.take(portion):
                        yield event
                if stream.whole:
                    end = terminal_event(self._read_whole(bytes(stream.whole)))
                    if end["type"] == "error":
                        raise self.explain(read_failure(None, end))
                    yield end
                for frame in stream.decoder.flush():
                    yield parse_event(frame)
                if stream.decoder.done:  # the bytes after `[DONE]` free the connection for the next request
                    with suppress(TimeoutError, httpx.HTTPError):
                        async with asyncio.timeout(_DRAIN_SECONDS):
                            async for _ in portions:
                                pass
        except httpx.HTTPError as error:
            raise self._broken(error, generation_id) from None

    def _broken(self, error: httpx.HTTPError, generation_id: str) -> StreamBroken:
        """Return the error of a stream that is silent, or that is lost, which passes."""
        if isinstance(error, httpx.ReadTimeout):
            broken = StreamBroken(notice("stream_silent", seconds=self._settings.timeout_seconds))
        else:
            broken = StreamBroken(notice("stream_broken"), detail=redact(repr(error)))
            broken.passes = True
        broken.generation_id = generation_id
        return broken


@dataclass(slots=True)
class _Stream:
    """A stream as it is read, at the pace of its deltas where the transport has one."""

    pace: Pace | None
    decoder: Decoder = field(default_factory=Decoder)
    whole: bytearray = field(default_factory=bytearray)
    """What came instead of a stream, whatever its content type says."""
    _begun: bool = False

    def take(self, portion: bytes) -> Iterator[Event]:
        """Yield the events that a portion completes; neighbouring deltas are one."""
        beginning = portion.lstrip(_BLANK)[:1]
        if self.whole or (not self._begun and beginning in (b"{", b"[", b"<")):
            self.whole += portion
            return
        self._begun = self._begun or bool(beginning)
        read, broken = list[dict[str, Any]](), None
        for frame in self.decoder.feed(portion):
            try:
                if not (frame.startswith(_ECHO) and _UNBILLED in frame):
                    read.append(parse_event(frame))
            except StreamBroken as error:  # what came before it counts
                broken = error
                break
        if self.pace:
            deltas = [] if self.decoder.done else [event for event in read if "delta" in event]
            self.pace.note(len(deltas), len(portion))
        yield from join_deltas(read)
        if broken:
            raise broken


def require_usable(key: str | None) -> None:
    """Raise ConfigurationError for a key that is lost, which the empty text stands for, or that no header can hold."""
    if key == "":
        raise ConfigurationError(notice("own_key_unreadable"))
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(notice("own_key_rejected"))


@lru_cache(maxsize=16)
def _url(address: str) -> httpx.URL:
    """Read an address, once: that takes nearly as long as all else that makes a request."""
    return httpx.URL(address)


def _generation(response: httpx.Response) -> str:
    """OpenRouter's name for the request, as far as it can be one."""
    return as_generation_id(response.headers.get("x-generation-id"))


async def await_response(response: Awaitable[_T], *, limit_seconds: float) -> _T:
    """Await within a time limit; httpx's exceptions become errors of ours."""
    try:
        async with asyncio.timeout(limit_seconds):
            return await response
    except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout):
        silent = ConnectionFailed(notice("no_response", seconds=limit_seconds))
        silent.down, silent.may_be_done = "address", True
        raise silent from None  # a library's variables hold the headers, and with them the key
    except httpx.PoolTimeout:  # all connections are in use: no fault of the address
        raise TooBusy(notice("queue_slow", seconds=_CONNECT_TIMEOUT_SECONDS)) from None
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise _unusable_address(error) from None
    except httpx.HTTPError as error:
        is_there = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
        name = "connection_reset" if is_there else "unreachable"
        failed = ConnectionFailed(notice(name), detail=redact(repr(error)))
        failed.passes, failed.down, failed.may_be_done = True, "" if is_there else "connection", is_there
        raise failed from None


async def _error_text(response: httpx.Response) -> str:
    """Return the body of an error as far as it is worth reading and can be read."""
    read = bytearray()
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
            async for portion in response.aiter_bytes():
                read += portion
                if len(read) >= _ERROR_BODY_BYTES:
                    break
    except (TimeoutError, httpx.HTTPError) as error:
        _log.debug("error body cut off: %r", error)
    return read[:_ERROR_BODY_BYTES].decode("utf-8", "replace")


def _headers(settings: ClientSettings, content: EncodedBody | None, *, is_streamed: bool) -> dict[str, str]:
    """The headers. The site's name and address are decoration: what no header can hold is percent-encoded."""
    key = settings.api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(notice("valve_unusable", name="API_KEY"))
    headers = {
        "Authorization": Secret("Bearer " + key if key else ""),
        "HTTP-Referer": quote(settings.referer, safe=_HEADER_CHARACTERS, errors="replace"),
        "X-OpenRouter-Title": quote(settings.title, safe=_HEADER_CHARACTERS, errors="replace"),
        "X-OpenRouter-Metadata": "enabled" if content else "",
        "x-anthropic-beta": ",".join(settings.betas),
        "Accept": "text/event-stream" if is_streamed else "application/json",
        "Content-Type": "application/json" if content else "",
        "Content-Length": str(content.length_bytes) if content else "",
    }
    return {name: value for name, value in headers.items() if value}


def _unusable_address(error: Exception) -> ConfigurationError:
    return ConfigurationError(notice("valve_unusable", name="BASE_URL"), detail=type(error).__name__)
