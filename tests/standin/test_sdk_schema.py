"""The SDK as a strict judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.standin import sdk_schema
from tests.standin.client import events_of

STREAMS = Path(__file__).parents[1] / "data" / "sse"
VALID = sorted(path.name for path in STREAMS.glob("*.sse") if not path.name.startswith("4c"))


@pytest.mark.parametrize("name", VALID)
def test_recorded_streams_are_accepted(name: str) -> None:
    """Every event of a known good stream passes."""
    events = events_of((STREAMS / name).read_text())
    assert [issue for event in events for issue in sdk_schema.event_issues(event)] == []
    assert len(events) > 3


DELTA = {
    "type": "response.output_text.delta",
    "output_index": 0,
    "item_id": "msg_1",
    "content_index": 0,
    "delta": "Yes",
    "logprobs": [],
    "sequence_number": 4,
}
ITEM = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}


@pytest.mark.parametrize(
    "event",
    [
        {**DELTA, "delta": 7},
        {**DELTA, "novelty": True},
        {key: value for key, value in DELTA.items() if key != "logprobs"},
        {**DELTA, "type": "response.never_heard_of"},
        {"type": "response.output_item.done", "output_index": 0, "sequence_number": 1, "item": {"type": "x"}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "sequence_number": 1,
            "item": {**ITEM, "arguments": {}},
        },
        {"type": "error", "error": {"code": "server_error", "message": "nested"}},
        "no object",
    ],
)
def test_bad_events_are_refused(event: Any) -> None:
    """What the SDK's open unions would let pass in silence is an issue here."""
    assert sdk_schema.event_issues(event) != []
