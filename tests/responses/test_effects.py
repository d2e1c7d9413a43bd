"""Bytes become frames, frames become events, and usage is read: see `frames.txt`."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import StreamBroken
from open_webui_openrouter_pipe.responses.effects import Decoder, Usage, parse_event, read_usage
from tests.support.growth import MAX_GROWTH, growth
from tests.support.rows import rows

PARTS = {"upstream_inference_input_cost": 0.0006, "upstream_inference_output_cost": 0.000037}
"""What a recorded bill of 0.007637 dollars names for tokens; the rest was for a search."""
UNEVEN = {"upstream_inference_input_cost": 0.0045, "upstream_inference_output_cost": 0.0072}
"""Their sum as a float is a little less than 0.0117."""
CASES = Path(__file__).with_name("frames.txt")


def decode(*portions: bytes) -> list[str]:
    decoder = Decoder()
    frames = [frame for portion in portions for frame in decoder.feed(portion)]
    return [*frames, *decoder.flush()]


@pytest.mark.parametrize(("stream", "expected"), rows(CASES, "frames"))
def test_frames_are_read(stream: str, expected: list[str]) -> None:
    """Each way of writing frames is read as the specification of event streams says."""
    assert decode(stream.encode("utf-8", "surrogateescape")) == expected


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


def test_done_is_known_at_once() -> None:
    """The end is noticed without the blank line that some servers never send."""
    decoder = Decoder()
    decoder.feed(b"data: [DONE]\n")
    assert decoder.done


def test_a_very_large_frame_takes_linear_time() -> None:
    """It is not joined anew with each portion."""
    assert growth(lambda text: decode(b"data: ", *map(str.encode, text), b"\n\n"), "x".__mul__) < MAX_GROWTH


# --- events


@pytest.mark.parametrize(("frame", "expected"), rows(CASES, "events"))
def test_objects_become_events(frame: dict[str, object], expected: dict[str, object]) -> None:
    """An object without a type gets one by what it holds."""
    assert parse_event(json.dumps(frame)) == expected


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


@pytest.mark.parametrize(
    ("wire", "dollars"),
    [
        ({"server_tool_use_details": {"tool_calls_executed": 1}, "cost_details": PARTS}, 0.007),
        ({"server_tool_use": {"web_search_requests": 1}, "cost_details": PARTS}, 0.007),
        ({"cost_details": {**PARTS, "server_tool_cost": 0.005}}, 0.005),
        (
            {
                "server_tool_use_details": {"tool_calls_executed": 1},
                "cost_details": {"server_tool_cost": 1e9},
            },
            1e3,
        ),
        ({"server_tool_use_details": {"tool_calls_executed": 1}, "cost_details": PARTS, "is_byok": True}, 0),
        ({"server_tool_use_details": {"tool_calls_executed": 1}}, 0),
        (
            {
                "cost": 0.0117,
                "server_tool_use_details": {"tool_calls_executed": 1},
                "cost_details": UNEVEN,
            },
            0,
        ),
        ({"cost_details": PARTS}, 0),
    ],
)
def test_what_tools_have_cost_is_read(wire: dict[str, object], dollars: float) -> None:
    """As the bill says it, or what is not for tokens; without the parts of a bill, or on another's key, nothing."""
    usage = read_usage({"cost": 0.007637, **wire})
    assert usage
    assert usage.tool_cost == round(dollars, 9)


def test_what_a_usage_says_beside_text_is_read() -> None:
    """Audio, pictures, searches; and who is paid what where a provider's own key was used."""
    wire = {
        "input_tokens": 100,
        "input_tokens_details": {"audio_tokens": 40},
        "output_tokens": 50,
        "output_tokens_details": {"audio_tokens": 20, "image_tokens": 10},
        "server_tool_use_details": {"web_search_requests": 3, "tool_calls_executed": 4},
        "cost": 0.01,
        "is_byok": True,
        "cost_details": {"upstream_inference_cost": 0.2},
    }
    spoken = {"audio_tokens": 40, "audio_output_tokens": 20, "image_output_tokens": 10, "searches": 3}
    usage = Usage(100, output_tokens=50, cost=0.01, provider_cost=0.2, byok_requests=1, **spoken)
    assert read_usage(wire) == usage
    without_key = replace(usage, provider_cost=0.0, byok_requests=0)
    assert read_usage({**wire, "is_byok": False}) == without_key
    assert usage.plus(without_key) == Usage(
        200,
        output_tokens=100,
        cost=0.02,
        provider_cost=0.2,
        byok_requests=1,
        **{name: 2 * count for name, count in spoken.items()},
    )
