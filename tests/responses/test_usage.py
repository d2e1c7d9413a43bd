"""Usage is read."""

from __future__ import annotations

from open_webui_openrouter_pipe.responses.effects import Usage, read_usage

WIRE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "cost": 0.25,
}


def test_usage_is_read() -> None:
    """All values of the wire are taken."""
    usage = read_usage(WIRE)
    assert usage == Usage(100, 60, 30, 20, 5, 0.25)
    assert usage.total_tokens == 120


def test_wrong_values_count_as_zero() -> None:
    """Values of a wrong type, negative ones and missing ones are zero."""
    wire = {
        "output_tokens_details": {"reasoning_tokens": 10**400},
        "input_tokens": "7",
        "input_tokens_details": None,
        "output_tokens": -1,
        "cost": True,
    }
    assert read_usage(wire) == Usage()


def test_no_usage() -> None:
    """A missing usage object is None, which is not the same as zero."""
    assert [read_usage(None), read_usage([])] == [None, None]
