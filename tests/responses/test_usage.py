"""Usage is read and added."""

from __future__ import annotations

from open_webui_openrouter_pipe.responses.usage import Usage, read_usage

WIRE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "cost": 0.25,
}


def test_usage_is_read() -> None:
    """All values of the wire are taken."""
    assert read_usage(WIRE) == Usage(100, 60, 30, 20, 5, 0.25)


def test_wrong_values_count_as_zero() -> None:
    """Values of a wrong type, negative ones and missing ones are zero."""
    wire = {"input_tokens": "7", "input_tokens_details": None, "output_tokens": -1, "cost": True}
    assert read_usage(wire) == Usage()


def test_no_usage() -> None:
    """A missing usage object is None, which is not the same as zero."""
    assert [read_usage(None), read_usage([])] == [None, None]


def test_usage_adds_up() -> None:
    """Rounds are summed field by field."""
    total = Usage(1, 2, 3, 4, 5, 0.5) + Usage(10, 20, 30, 40, 50, 0.25)
    assert (total, total.total_tokens) == (Usage(11, 22, 33, 44, 55, 0.75), 55)
