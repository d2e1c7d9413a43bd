"""Sending a response, at once or late or never, and noticing when the client leaves.

Owns server-sent-event framing as the service has it, with comments first, the pauses, and how far an answer has come
that is billed.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from starlette.responses import StreamingResponse

from . import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from .state import RecordedRequest

COMMENTS = b": OPENROUTER PROCESSING\n\n" * 2
DONE = b"data: [DONE]\n\n"
UNSTOPPABLE = frozenset({"google"})
"""Whose models write, and bill, to the end when the client has left (docs of OpenRouter, stream cancellation)."""


class DeliveredResponse(StreamingResponse):
    """A response that is sent at once, late, piece by piece or never; it notices when the client leaves.

    ``charge`` is called once, at its end, with what was used until then, None where that costs nothing.
    """

    def __init__(
        self,
        response: events.Response,
        record: RecordedRequest,
        clock: Callable[[], float],
        charge: Callable[[dict[str, Any] | None], None],
    ) -> None:
        self._response = response
        self._record = record
        self._clock = clock
        self._charge = charge
        self._finished: set[str] = set()
        self._begun = ""
        streamed = bool(record.body.get("stream"))
        kind = "text/event-stream" if streamed else "application/json"
        content = self._stream() if streamed else self._whole()
        super().__init__(content, headers={"X-Generation-Id": response.id}, media_type=kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or stop as soon as the client is gone."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._record.disconnected = not self._record.finished
            self._record.ended_at = self._clock()
            if self._record.usage is None:
                self._charge(self._used())

    def _used(self) -> dict[str, Any] | None:
        """What was used: all, or the prompt and what was written until the provider failed or the client left.

        An answer that never begins costs nothing, nor does one in which the provider fails before it has written.
        """
        record, response = self._record, self._response
        if response.plan.silent:
            return None
        if record.disconnected and response.bill.model.family in UNSTOPPABLE:
            return response.bill.whole
        if not (record.disconnected or self._finished or self._begun):
            return None
        return response.bill.until(self._finished, self._begun)

    async def stream_response(self, send: Send) -> None:
        """Send head and body; of an answer that hangs, or is late and in one piece, the head has to wait, too."""
        plan = self._response.plan
        if plan.silent:
            await asyncio.Event().wait()
        if not self._record.body.get("stream"):
            await asyncio.sleep(plan.first_delay_seconds)
        self._record.status = self.status_code
        await super().stream_response(send)
        self._record.finished = True

    async def _whole(self) -> AsyncIterator[bytes]:
        yield json.dumps(self._noted({"response": self._response.whole()})["response"]).encode()

    async def _stream(self) -> AsyncIterator[bytes]:
        plan = self._response.plan
        await asyncio.sleep(plan.first_delay_seconds)
        yield COMMENTS
        for event in events.stream(self._response):
            if plan.delay_seconds and events.takes_time(event):
                await asyncio.sleep(plan.delay_seconds)
            text = json.dumps(self._noted(event), ensure_ascii=False, separators=(",", ":"))
            yield f"data: {text}\n\n".encode("utf-8", "surrogatepass")
        yield DONE

    def _noted(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event; how far the answer has come is noted, and of the last one its bill and its output."""
        if "delta" in event:
            self._begun += event["delta"]
            self._record.written += event["delta"] if event["type"] == "response.output_text.delta" else ""
        elif event.get("type") == "response.output_item.done":
            self._finished.add(event["item"].get("id", ""))
            self._begun = ""
        if (response := event.get("response", {})).get("usage"):
            self._record.usage, self._record.output = response["usage"], response["output"]
            self._charge(response["usage"])
        return event
