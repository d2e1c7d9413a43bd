"""Failures are read from all their shapes."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.failure import Failure, has_output, is_failure, read_failure

RAW = json.dumps({"error": {"message": "Overloaded", "type": "overloaded_error"}, "request_id": "r"})

CASES: dict[str, tuple[int | None, Any, Failure]] = {
    "family A": (
        402,
        {"error": {"code": 402, "message": "Insufficient credits."}, "user_id": "user_1"},
        Failure("Insufficient credits.", status=402),
    ),
    "raw as text": (
        502,
        {
            "error": {
                "code": 502,
                "message": "Provider returned error",
                "metadata": {"provider_name": "P", "raw": RAW},
            }
        },
        Failure("Provider returned error", status=502, provider="P", raw="Overloaded"),
    ),
    "raw as object": (
        502,
        {"error": {"code": 502, "message": "m", "metadata": {"raw": {"message": "inner"}}}},
        Failure("m", status=502, raw="inner"),
    ),
    "raw that is not JSON": (
        429,
        {"error": {"code": 429, "message": "m", "metadata": {"raw": " slow down ", "limit_source": "own"}}},
        Failure("m", status=429, raw="slow down", limit="own"),
    ),
    "family B": (
        400,
        {
            "error": {"code": "invalid_prompt", "message": "Invalid Responses API request"},
            "metadata": {
                "raw": '[{"code":"invalid_union","path":["input",0]},{"message":"Required","path":[]}]'
            },
        },
        Failure(
            "Invalid Responses API request",
            status=400,
            code="invalid_prompt",
            raw="input.0: invalid_union; Required",
        ),
    ),
    "family B without metadata": (
        400,
        {"error": {"code": "invalid_prompt", "message": "No input provided"}, "metadata": None},
        Failure("No input provided", status=400, code="invalid_prompt"),
    ),
    "family C": (
        None,
        {
            "object": "response",
            "status": "failed",
            "error": {"code": "server_error", "message": "down"},
            "error_type": "provider_overloaded",
        },
        Failure("down", status=503, code="provider_overloaded"),
    ),
    "event response.failed": (
        None,
        {
            "type": "response.failed",
            "response": {"error": {"code": "rate_limit_exceeded", "message": "slow"}},
        },
        Failure("slow", status=429, code="rate_limit_exceeded"),
    ),
    "nested event": (
        None,
        {"type": "error", "error": {"code": 429, "message": "slow"}},
        Failure("slow", status=429),
    ),
    "flat event": (
        None,
        {"type": "error", "code": "502", "message": "bad", "param": None, "sequence_number": 3},
        Failure("bad", status=502),
    ),
    "error as text": (500, {"error": "boom"}, Failure("boom", status=500)),
    "detail": (422, {"detail": "no"}, Failure("no", status=422)),
    "moderation": (
        403,
        {
            "error": {
                "code": 403,
                "message": "m",
                "metadata": {"reasons": ["violence", 7], "provider_name": "O"},
            }
        },
        Failure("m", status=403, provider="O", reasons=("violence",)),
    ),
    "availability": (
        404,
        {"error": {"code": 404, "message": "m", "availability": {"code": "no_endpoints", "retry_after": 3}}},
        Failure("m", status=404, availability="no_endpoints", retry_after_seconds=3.0),
    ),
    "HTML": (
        524,
        "<!DOCTYPE html><html><head><title>openrouter.ai | 524: A timeout\n occurred</title></head></html>",
        Failure("openrouter.ai | 524: A timeout occurred", status=524),
    ),
    "plain text": (500, "  upstream &amp; down ", Failure("upstream & down", status=500)),
    "JSON as text": (
        401,
        '{"error":{"code":401,"message":"User not found."}}',
        Failure("User not found.", status=401),
    ),
    "empty": (503, "", Failure("", status=503)),
}


@pytest.mark.parametrize("name", CASES)
def test_read_failure(name: str) -> None:
    """Each family of error bodies, and each careless form of it, is read."""
    status, body, expected = CASES[name]
    assert read_failure(status, body) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "code", "message", "metadata", "raw", "reasons", "availability", "response"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_deep_nesting_is_cut_off() -> None:
    """Errors within errors are followed as far as real ones go."""
    body: Any = {"message": "deep"}
    for _ in range(900):
        body = {"error": body}
    assert read_failure(500, body) == Failure("", status=500)


LONG = "x" * 100_000


def test_texts_are_cut_where_they_are_read() -> None:
    """However long a provider's texts are, those who redact and search them meet a few thousand characters."""
    metadata = {"provider_name": LONG, "limit_source": LONG, "reasons": [LONG] * 1000, "raw": LONG}
    body = {"error": {"code": LONG, "message": LONG, "metadata": metadata, "availability": {"code": LONG}}}
    assert read_failure(500, body) == Failure(
        "x" * 2000,
        status=500,
        code="x" * 100,
        provider="x" * 100,
        raw="x" * 2000,
        reasons=("x" * 100,) * 10,
        availability="x" * 100,
        limit="x" * 100,
    )


def test_a_list_of_issues_is_cut() -> None:
    """Of many issues with long paths, the first are enough."""
    long = "x" * 1000
    issues = [{"path": [long] * 20, "message": long}] * 20
    failure = read_failure(400, {"message": "m", "metadata": {"raw": json.dumps(issues)}})
    assert failure.raw is not None
    assert len(failure.raw) == 2000


def deep_list(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "raw",
    [
        {"odd": deep_list(5_000)},
        [{"path": [deep_list(5_000)], "message": "m"}],
        '{"odd":' + "[" * 800 + "]" * 800 + "}",
    ],
    ids=["object", "path", "text"],
)
def test_deep_nesting_in_the_providers_text_is_read(raw: Any) -> None:
    """A failure is read, never raised, whatever is nested in it."""
    assert read_failure(500, {"message": "m", "metadata": {"raw": raw}}).message == "m"


def test_half_characters_are_mended() -> None:
    """Every text of a failure can be written."""
    half = "a\ud83d"
    body = {"message": half, "code": half, "metadata": {"raw": half, "reasons": [half]}}
    mended = "a\ufffd"
    assert read_failure(None, body) == Failure(mended, code=mended, raw=mended, reasons=(mended,))


def seconds_to_read(page: str) -> float:
    """The processor time of reading a page as a failure, the best of three."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        read_failure(502, page)
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.parametrize("unit", ["<", "<title", "<title>", "<title>a", "&", "a"])
def test_a_page_is_read_in_linear_time(unit: str) -> None:
    """Ten times the page takes about ten times as long, not the hundred times of searching it from each place."""
    short, long = (unit * (characters // len(unit)) for characters in (2_000, 20_000))
    assert seconds_to_read(long) < 40 * seconds_to_read(short) + 0.001


@settings(deadline=None)
@given(status=st.none() | st.integers(), body=JSON)
def test_any_body_is_read(status: int | None, body: Any) -> None:
    """Whatever type is at whatever level, the result is a failure with a text."""
    assert isinstance(read_failure(status, body).message, str)


@pytest.mark.parametrize(
    ("event", "fails", "shows"),
    [
        ({"type": "response.created", "response": {"status": "in_progress", "error": None}}, False, False),
        ({"type": "response.queued"}, False, False),
        ({"type": "response.failed"}, True, False),
        ({"type": "error"}, True, False),
        ({"type": "response.completed", "response": {"status": "failed"}}, True, False),
        ({"type": "response.completed", "response": {"error": {"message": "x"}}}, True, False),
        ({"type": "response.completed", "response": {"status": "completed"}}, False, True),
        ({"type": "response.output_text.delta"}, False, True),
        ({}, False, True),
    ],
)
def test_what_a_first_event_says(event: dict[str, Any], *, fails: bool, shows: bool) -> None:
    """It fails, or shows something, or neither."""
    assert (is_failure(event), has_output(event)) == (fails, shows)
