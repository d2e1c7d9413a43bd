"""What one streamed delta costs between the socket and the effect: bytes, frame, event, effect.

The stream is an answer of many small deltas as OpenRouter writes them, cut into portions as a socket gives
them.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from open_webui_openrouter_pipe.responses.effects import Decoder, parse_event
from open_webui_openrouter_pipe.responses.reducer import Reducer

NAME = "stream"

_DELTAS = 2_000
_PORTION_BYTES = 1_400
_REPETITIONS = 15


def run() -> dict[str, float]:
    """Microseconds of processor time per delta (median): the whole way, and each station alone."""
    stream = _stream()
    portions = [stream[at : at + _PORTION_BYTES] for at in range(0, len(stream), _PORTION_BYTES)]
    frames = _frames(portions)
    events = [parse_event(frame) for frame in frames]
    return {
        "deltas": _DELTAS,
        "total_us_per_delta": _median_us(
            lambda: _reduce([parse_event(frame) for frame in _frames(portions)])
        ),
        "sse_us_per_delta": _median_us(lambda: _frames(portions)),
        "events_us_per_delta": _median_us(lambda: [parse_event(frame) for frame in frames]),
        "reducer_us_per_delta": _median_us(lambda: _reduce(events)),
    }


def _median_us(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_REPETITIONS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return round(statistics.median(seconds) / _DELTAS * 1e6, 2)


def _frames(portions: list[bytes]) -> list[str]:
    decoder = Decoder()
    frames = [frame for portion in portions for frame in decoder.feed(portion)]
    return [*frames, *decoder.flush()]


def _reduce(events: list[dict[str, Any]]) -> int:
    reducer = Reducer()
    return sum(len(reducer.feed(event)) for event in events) + len(reducer.close())


def _stream() -> bytes:
    item = {"id": "msg_tmp_1", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    where = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    text = " word"
    part = {"type": "output_text", "text": text * _DELTAS, "annotations": [], "logprobs": []}
    whole = {**item, "status": "completed", "content": [part]}
    delta = {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**delta, "sequence_number": number} for number in range(_DELTAS)),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"id": "gen-1", "status": "completed", "output": [whole]}},
    ]
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
