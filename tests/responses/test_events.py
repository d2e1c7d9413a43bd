"""Frames become events."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import StreamBroken
from open_webui_openrouter_pipe.responses.effects import parse_event


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ('{"type":"x","a":1}', {"type": "x", "a": 1}),
        ('{"error":{"code":1}}', {"type": "error", "error": {"code": 1}}),
        (
            '{"object":"response","id":"r"}',
            {"type": "response.completed", "response": {"object": "response", "id": "r"}},
        ),
        ('{"a":1}', {"type": "", "a": 1}),
        ('{"type":7,"a":1}', {"type": "", "a": 1}),
    ],
)
def test_objects_become_events(frame: str, expected: dict[str, object]) -> None:
    """An object without a type gets one by what it holds."""
    assert parse_event(frame) == expected


@pytest.mark.parametrize("frame", ["", "{", "[1]", "null", "7", '"text"', "[" * 100_000, "<html>"])
def test_a_frame_that_is_not_an_object_breaks_the_stream(frame: str) -> None:
    """An unreadable frame raises the error that says so."""
    with pytest.raises(StreamBroken, match="not part of an answer"):
        parse_event(frame)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_an_event_or_a_broken_stream(frame: str) -> None:
    """No text makes the parser raise anything else."""
    with suppress(StreamBroken):
        assert isinstance(parse_event(frame)["type"], str)
