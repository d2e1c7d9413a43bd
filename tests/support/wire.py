"""Recorded and hand-made Responses streams for tests: frames, events and the effects they reduce to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.responses.effects import Decoder, parse_event
from open_webui_openrouter_pipe.responses.reducer import Reducer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from open_webui_openrouter_pipe.responses.effects import Effect

RECORDINGS = Path(__file__).parent.parent / "data" / "sse"


def recording(name: str) -> bytes:
    """The bytes of a recorded stream."""
    return (RECORDINGS / f"{name}.sse").read_bytes()


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """All events of a stream."""
    decoder = Decoder()
    return [parse_event(frame) for frame in (*decoder.feed(stream), *decoder.flush())]


def reduce(events: Iterable[dict[str, Any]]) -> list[Effect]:
    """The effects of the events, and of the stream's end after them."""
    reducer = Reducer()
    effects = [effect for event in events for effect in reducer.feed(event)]
    return [*effects, *reducer.close()]


def frames(*events: dict[str, Any]) -> bytes:
    """Events as a stream that ends with `[DONE]`."""
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"
