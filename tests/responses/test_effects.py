"""Bytes become frames, frames become events, and usage is read."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import StreamBroken
from open_webui_openrouter_pipe.responses.effects import Decoder, Usage, parse_event, read_usage
from tests.support.wire import RECORDINGS


def decode(*portions: bytes) -> list[str]:
    decoder = Decoder()
    frames = [frame for portion in portions for frame in decoder.feed(portion)]
    return [*frames, *decoder.flush()]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": OPENROUTER PROCESSING\n\n: \n\ndata: a\n: between\ndata: b\n\n", ["a\nb"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\n\n", ["a"]),
        (b"data:a\n\ndata:  a\n\n", ["a", " a"]),
        (b"data\n\n", []),
        (b"data: a\n\ndata: [DONE]\n\ndata: late\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: \xff\xc3\n\n", ["\ufffd\ufffd"]),
        ("data: a\u2028b\x85c\n\n".encode(), ["a\u2028b\x85c"]),
        (b"", []),
    ],
)
def test_frames(stream: bytes, expected: list[str]) -> None:
    """Each way of writing frames is read as the specification of event streams says."""
    assert decode(stream) == expected


@settings(deadline=None)
@given(
    lines=st.lists(
        st.sampled_from(
            ["data: héllo 😀", "data: ", ": comment", "", "data", "event: x", "data: [DONE]", "data: \x85"]
        ),
        max_size=12,
    ),
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 200), max_size=12),
)
def test_any_split_gives_the_same_frames(lines: list[str], end: bytes, cuts: list[int]) -> None:
    """It does not matter where the bytes are cut, within a character or a line end or anywhere."""
    stream = end.join(line.encode() for line in lines)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    portions = [stream[start:stop] for start, stop in pairwise(edges)]
    assert decode(*portions) == decode(stream)


@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.glob("*.sse")))
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_recordings_in_portions(name: str, size: int) -> None:
    """Recorded streams have the same frames in portions of any size."""
    stream = (RECORDINGS / name).read_bytes()
    assert decode(*(stream[at : at + size] for at in range(0, len(stream), size))) == decode(stream)


def test_done_is_known_at_once() -> None:
    """The end is noticed without the blank line that some servers never send."""
    decoder = Decoder()
    decoder.feed(b"data: [DONE]\n")
    assert decoder.done


def seconds_for_a_frame(portions: int) -> float:
    """The processor time for one frame of so many portions of 4 KB, the best of three."""
    best = float("inf")
    for _ in range(3):
        decoder = Decoder()
        started = time.process_time()
        decoder.feed(b"data: ")
        for _ in range(portions):
            decoder.feed(b"x" * 4096)
        (frame,) = decoder.feed(b"\n\n")
        best = min(best, time.process_time() - started)
        assert len(frame) == portions * 4096
    return best


def test_a_very_large_frame_takes_linear_time() -> None:
    """Eight times the size takes about eight times as long, not the 64 times of joining the frame anew."""
    assert seconds_for_a_frame(4096) < 32 * seconds_for_a_frame(512)


# --- events


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


def test_usage_is_read() -> None:
    """Values of a wrong type, negative and missing ones are zero; a missing object is none, which is not zero."""
    details = {"cached_tokens": 60, "cache_write_tokens": 30}
    wire = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 20, "cost": 0.25}
    usage = read_usage({**wire, "output_tokens_details": {"reasoning_tokens": 5}})
    assert usage == Usage(100, 60, 30, 20, 5, 0.25)
    assert usage.total_tokens == 120
    wrong = {"input_tokens": "7", "input_tokens_details": None, "output_tokens": -1, "cost": True}
    assert read_usage({**wrong, "output_tokens_details": {"reasoning_tokens": 10**400}}) == Usage()
    assert [read_usage(None), read_usage([])] == [None, None]
