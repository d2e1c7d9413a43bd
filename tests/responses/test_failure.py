"""Failures are read from all their shapes: see `failures.txt`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.effects import ResponseFailed, ResponseFinished
from open_webui_openrouter_pipe.responses.failure import Failure, has_output, is_failure, read_failure
from open_webui_openrouter_pipe.responses.reducer import Reducer
from tests.support.rows import rows

CASES: Final = Path(__file__).with_name("failures.txt")


@pytest.mark.parametrize(("title", "status", "body", "message", "facts"), rows(CASES, "bodies"))
def test_a_failure_is_read(
    title: str, status: int | None, body: Any, message: str, facts: dict[str, Any]
) -> None:
    """Each family of error bodies, and each careless form of it; every text of it can be written."""
    lists = {name: tuple(facts.get(name, ())) for name in ("reasons", "earlier")}
    expected = Failure(message, **{**facts, **lists})
    assert read_failure(status, body) == expected, title


NAMES = ["error", "code", "message", "metadata", "raw", "reasons", "availability", "response"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(status=st.none() | st.integers(), body=JSON)
def test_any_body_is_read(status: int | None, body: Any) -> None:
    """Whatever type is at whatever level, the result is a failure with a text."""
    assert isinstance(read_failure(status, body).message, str)


def test_texts_are_cut_where_they_are_read() -> None:
    """However long a provider's texts are, those who redact and search them meet a few thousand characters."""
    long = "x" * 100_000
    metadata = {"provider_name": long, "limit_source": long, "reasons": [long] * 1000, "raw": long}
    body = {"error": {"code": long, "message": long, "metadata": metadata, "availability": {"code": long}}}
    name = "x" * 100
    cut: dict[str, Any] = {
        "code": name,
        "provider": name,
        "availability": name,
        "limit": name,
        "raw": "x" * 2000,
    }
    assert read_failure(500, body) == Failure("x" * 2000, status=500, reasons=(name,) * 10, **cut)
    issues = [{"path": ["x" * 1000] * 20, "message": "x" * 1000}] * 20
    failure = read_failure(400, {"message": "m", "metadata": {"raw": json.dumps(issues)}})
    assert len(failure.raw or "") == 2000


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "raw",
    [
        {"odd": nested(5_000)},
        [{"path": [nested(5_000)], "message": "m"}],
        '{"odd":' + "[" * 800 + "]" * 800 + "}",
    ],
    ids=["object", "path", "text"],
)
def test_deep_nesting_in_the_providers_text_is_read(raw: Any) -> None:
    """A failure is read, never raised, whatever is nested in it."""
    assert read_failure(500, {"message": "m", "metadata": {"raw": raw}}).message == "m"


def test_deep_nesting_is_cut_off() -> None:
    """Errors within errors are followed as far as real ones go."""
    body: Any = {"message": "deep"}
    for _ in range(900):
        body = {"error": body}
    assert read_failure(500, body) == Failure("", status=500)


@pytest.mark.parametrize(("event", "fails", "shows"), rows(CASES, "first events"))
def test_what_a_first_event_says(event: dict[str, Any], *, fails: bool, shows: bool) -> None:
    """It fails, or shows something, or neither."""
    assert (is_failure(event), has_output(event)) == (fails, shows)


@pytest.mark.parametrize(
    ("reason", "output_tokens", "written", "code"),
    [
        ("max_output_tokens", 0, "", "context_length_exceeded"),
        ("max_output_tokens", 0, "Hi", None),
        ("max_output_tokens", 7, "", None),
        ("max_output_tokens", None, "", None),
        ("content_filter", 0, "", None),
        ("model_context_window_exceeded", 0, "", "model_context_window_exceeded"),
        ("model_context_window_exceeded", 7, "Hi", None),
    ],
)
def test_an_end_before_anything_was_written_is_a_refusal(
    reason: str, output_tokens: int | None, written: str, code: str | None
) -> None:
    """At the length where no output is billed, or for a reason of the provider's own; the bill is kept."""
    usage = {} if output_tokens is None else {"input_tokens": 9, "output_tokens": output_tokens, "cost": 0.5}
    end = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": [], "usage": usage}
    reducer = Reducer()
    if written:
        reducer.feed({"type": "response.output_text.delta", "output_index": 0, "delta": written})
    terminal = reducer.feed({"type": "response.incomplete", "response": end})[-1]
    assert isinstance(terminal, ResponseFailed) == (code is not None)
    assert isinstance(terminal, ResponseFailed | ResponseFinished)
    assert getattr(terminal, "failure", Failure("")).code == code
    assert (terminal.usage.cost if terminal.usage else 0.0) == (0.5 if usage else 0.0)
