"""Events as bytes on the wire.

Owns server-sent-event framing with all the liberties that the service takes: comments, either newline,
pieces that end anywhere. Pure: events in, chunks of bytes and pauses out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from .events import is_delta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .plan import Delivery

COMMENT = ": OPENROUTER PROCESSING"
BARE_COMMENT = ": "
DONE = "data: [DONE]"
SILENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes to send in one piece, after a pause in seconds."""

    data: bytes
    pause_seconds: float = 0.0


def frames(events: Iterable[dict[str, Any]], delivery: Delivery) -> Iterator[Chunk]:
    """The chunks that carry the events, as the delivery wants them."""
    comment = BARE_COMMENT if delivery.bare_comments else COMMENT
    yield from _chunks([comment] * delivery.comments, delivery, delivery.first_delay_seconds)
    if delivery.silence != "no":
        yield from repeat(Chunk((comment + delivery.newline * 2).encode(), SILENCE_SECONDS))
    deltas = 0
    for event in events:
        delta = is_delta(event)
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
