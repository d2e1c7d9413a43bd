"""Requests to the endpoints that make videos, speech, transcripts and pictures; loaded for their models alone.

They are sent with the client's key, headers and errors, within the breaker's attempt, and again where it is certain
that the first one made nothing: what is made by the piece is never paid twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import httpx

from ..errors import AttachmentUnavailable, PipeError
from ..ports import Event, FileContent, RequestBody, Room, Show
from ..responses.failure import read_failure
from ..words.lines import notice
from .client import OpenRouterClient, await_response
from .retries import Attempts

PREFERENCES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("speech", "transcriptions"), ("data_collection", "zdr")),
    "images": ("allow_fallbacks", "ignore", "only", "order", "sort"),
}
"""What of `provider` an endpoint takes, by the body of its request."""
SILENT_SECONDS: Final = 300.0
"""How long the next bytes of what was made may take."""


@dataclass(frozen=True, slots=True)
class Creations:
    """The endpoints, through a client. All raise the errors of the tree.

    Within an `attempt` with the model's body each request is sent; `show` gets the lines about waits, which may take
    `retry_seconds` in all. `preferences` of providers are sent with each body.
    """

    client: OpenRouterClient
    attempt: Callable[[RequestBody], AbstractContextManager[object]]
    retry_seconds: float = 0.0
    show: Show | None = None
    preferences: Mapping[str, Any] = field(default_factory=dict)

    async def post(self, path: str, body: RequestBody) -> Mapping[str, Any]:
        """Return the JSON object that answers a body, such as that of "/videos"."""
        async with self._opened(path, body) as response:
            return await self.client.read_json(response)

    async def post_for_file(self, path: str, body: RequestBody, room: Room) -> FileContent:
        """Return the bytes that answer a body, such as that of "/audio/speech". Raises AttachmentUnavailable."""
        async with self._opened(path, body) as response:
            return await _file(response, room)

    @asynccontextmanager
    async def stream(self, path: str, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open the events that answer a body, such as those of "/images"."""
        async with (
            self._opened(path, {**body, "stream": True}) as response,
            aclosing(self.client.events(response)) as events,
        ):
            yield events

    async def get(self, path: str) -> Mapping[str, Any]:
        """Return the JSON object at a path."""
        return await self.client.get(path)

    async def get_file(self, path: str, room: Room) -> FileContent:
        """Return the bytes at a path, once there is room for them. Raises AttachmentUnavailable and TooBusy, too."""
        response = await self.client.open(path)
        try:
            return await _file(response, room)
        finally:
            await response.aclose()

    def explain(self, said: str) -> PipeError:
        """Turn what an answer says of a failure into an error."""
        return self.client.explain(read_failure(None, {"error": {"message": said}}))

    @asynccontextmanager
    async def _opened(self, path: str, body: RequestBody) -> AsyncGenerator[httpx.Response]:
        provider = {"provider": self.preferences} if self.preferences else {}
        attempts = Attempts({**body, **provider}, self.retry_seconds, self.show, monotonic())
        attempts.changed.add("max_output_tokens")  # which none of these takes
        while True:
            try:
                with self.attempt(attempts.body):
                    response = await self.client.open(path, attempts.body)
                break
            except PipeError as error:
                if error.may_be_done or not attempts.may_pass(error):
                    raise
            await attempts.prepare()
        try:
            yield response
        finally:
            await response.aclose()


async def _file(response: httpx.Response, room: Room) -> FileContent:
    """Read what was made, as far as there is room for it; its media type is as it was sent, with parameters."""
    headers = response.headers
    await room.take(int(size) if (size := headers.get("content-length", "")).isdecimal() else room.max_bytes)
    content, portions = bytearray(), response.aiter_bytes()
    while portion := await await_response(anext(portions, b""), limit_seconds=SILENT_SECONDS):
        content += portion
        if len(content) > room.max_bytes:
            raise AttachmentUnavailable(notice("attachment_too_large", megabytes=room.max_bytes / 2**20))
    return FileContent("", headers.get("content-type", "").lower(), bytes(content))
