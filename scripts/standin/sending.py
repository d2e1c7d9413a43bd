"""Sending a response, at once or late or never, and noticing when the client leaves.

Owns server-sent-event framing with all the liberties that the service takes (comments, either newline, pieces
that end anywhere), and the two tasks of a stream, one that sends and one that listens; both end with the response.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from . import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from starlette.types import Receive, Scope, Send

    from .plan import Delivery
    from .state import RecordedRequest

NOT_SENT = 0
COMMENT = ": OPENROUTER PROCESSING"
BARE_COMMENT = ": "
DONE = "data: [DONE]"
SILENCE_SECONDS = 0.5
CLOCK_SECONDS = 0.05
"""How soon a pause knows that the clock was moved on."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to send in one piece, after a pause in seconds."""

    data: bytes
    pause_seconds: float = 0.0


def frames(stream: Iterable[dict[str, Any]], delivery: Delivery) -> Iterator[Chunk]:
    """The chunks that carry the events, as the delivery wants them."""
    comment = BARE_COMMENT if delivery.bare_comments else COMMENT
    yield from _chunks([comment] * delivery.comments, delivery, delivery.first_delay_seconds)
    if delivery.silence != "no":
        yield from repeat(Chunk((comment + delivery.newline * 2).encode(), SILENCE_SECONDS))
    deltas = 0
    for event in stream:
        delta = events.is_delta(event)
        deltas += delta
        if delta and delivery.comment_every and deltas % delivery.comment_every == 0:
            yield from _chunks([comment], delivery, 0)
        line = "data: " + json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        yield from _chunks([line], delivery, delivery.delay_seconds if delta else 0)
    if delivery.done:
        yield from _chunks([DONE], delivery, 0)


def _chunks(lines: list[str], delivery: Delivery, pause_seconds: float) -> Iterator[Chunk]:
    end = delivery.newline * 2
    data = "".join(line + end for line in lines).encode("utf-8", "surrogatepass")
    size = delivery.split_bytes or max(1, len(data))
    for start in range(0, len(data) or 1, size):
        yield Chunk(data[start : start + size], pause_seconds if start == 0 else 0)


class StreamedResponse(Response):
    """A response sent as server-sent events; it notices when the client leaves."""

    def __init__(
        self,
        response: events.Response,
        record: RecordedRequest,
        clock: Callable[[], float],
        headers: dict[str, str],
    ) -> None:
        super().__init__(None, 200, headers, media_type="text/event-stream")
        del self.headers["content-length"]
        self._response = response
        self._record = record
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, or stop as soon as the client is gone."""
        del scope
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            self._record.finished = sending.done() and sending.exception() is None
            self._record.disconnected = not self._record.finished
        finally:
            self._record.ended_at = self._clock()
            for task in (sending, leaving):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in frames(self._events(), self._response.plan.delivery):
            if chunk.pause_seconds:
                await asyncio.sleep(chunk.pause_seconds)
            await send({"type": "http.response.body", "body": chunk.data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _events(self) -> Iterable[dict[str, Any]]:
        for event in events.stream(self._response):
            if event["type"] in {"response.completed", "response.incomplete"}:
                self._record.usage = self._response.usage
                self._record.output = event["response"]["output"]
            yield event


class WholeResponse(JSONResponse):
    """A response sent in one piece, after a pause; with ``pause_seconds`` None it is never sent.

    The bill counts as the client's only when the answer is sent.
    """

    def __init__(
        self,
        response: events.Response | None,
        record: RecordedRequest,
        clock: Callable[[], float],
        pause_seconds: float | None,
    ) -> None:
        headers = {"X-Generation-Id": response.id} if response else {}
        super().__init__(response.whole() if response else None, headers=headers)
        self._response = response
        self._record = record
        self._clock = clock
        self._pause_seconds = pause_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait, then send; or stop as soon as the client is gone."""
        left = await _left_within(self._pause_seconds, self._clock, receive)
        self._record.ended_at = self._clock()
        self._record.finished, self._record.disconnected = not left, left
        if left:
            self._record.status = NOT_SENT
            return
        if self._response and not self._response.plan.cut:
            self._record.usage, self._record.output = (
                self._response.usage,
                self._response.finished()["output"],
            )
        await super().__call__(scope, receive, send)


async def _left_within(seconds: float | None, clock: Callable[[], float], receive: Receive) -> bool:
    """Whether the client leaves in that time of the stand-in's clock; None is for ever."""
    end = math.inf if seconds is None else clock() + seconds
    leaving = asyncio.create_task(_left(receive))
    try:
        while (left_seconds := end - clock()) > 0:
            if (await asyncio.wait({leaving}, timeout=min(left_seconds, CLOCK_SECONDS)))[0]:
                return True
        return False
    finally:
        leaving.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
