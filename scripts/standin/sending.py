"""Sending a response, at once or late or never, and noticing when the client leaves.

Owns server-sent-event framing with all the liberties that the service takes (comments, either newline, pieces
that end anywhere), and the two tasks of a stream, one that sends and one that listens; both end with the response.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import Response

from . import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from starlette.types import Receive, Scope, Send

    from .plan import Delivery
    from .state import RecordedRequest

COMMENT = ": OPENROUTER PROCESSING"
BARE_COMMENT = ": "
DONE = "data: [DONE]"
CLOCK_SECONDS = 0.05
"""How soon a pause knows that the clock was moved on."""


class Chunk(NamedTuple):
    """Bytes to send in one piece, after a pause in seconds."""

    data: bytes
    pause_seconds: float = 0.0


def frames(stream: Iterable[dict[str, Any]], delivery: Delivery) -> Iterator[Chunk]:
    """The chunks that carry the events, as the delivery wants them."""
    comment = BARE_COMMENT if delivery.bare_comments else COMMENT
    yield from _chunks([comment] * delivery.comments, delivery, delivery.first_delay_seconds)
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


class DeliveredResponse(Response):
    """A response that is sent at once, late, piece by piece or never; it notices when the client leaves.

    Its bill counts as the client's only when the answer is sent. Without a response nothing is ever sent.
    """

    def __init__(
        self, response: events.Response | None, record: RecordedRequest, clock: Callable[[], float]
    ) -> None:
        self._response = response
        self._record = record
        self._clock = clock
        self._streamed = bool(record.body.get("stream"))
        kind = "text/event-stream" if self._streamed else "application/json"
        headers = {"X-Generation-Id": response.id} if response else {}
        super().__init__(None, 200, headers, kind)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or stop as soon as the client is gone."""
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
        if self._response is None:
            await asyncio.Event().wait()
            return
        delivery = self._response.plan.delivery
        end = self._clock() + (0 if self._streamed else delivery.first_delay_seconds)
        while (left_seconds := end - self._clock()) > 0:  # noqa: ASYNC110 - this clock is moved by hand, without an event
            await asyncio.sleep(min(left_seconds, CLOCK_SECONDS))
        self._record.status = self.status_code
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for chunk in self._chunks(self._response):
            if chunk.pause_seconds:
                await asyncio.sleep(chunk.pause_seconds)
            await send({"type": "http.response.body", "body": chunk.data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _chunks(self, response: events.Response) -> Iterator[Chunk]:
        if self._streamed:
            return frames(map(self._noted, events.stream(response)), response.plan.delivery)
        whole = self._noted({"response": response.whole()})["response"]
        return iter([Chunk(json.dumps(whole).encode())])

    def _noted(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event; when it is the last one, its bill and its output are recorded."""
        if (response := event.get("response", {})).get("usage"):
            self._record.usage, self._record.output = response["usage"], response["output"]
        return event


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
