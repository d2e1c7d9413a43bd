"""Who answered, read from the end of a response; see `served.txt`."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.responses.effects import ResponseFailed, ResponseFinished, Usage, read_served
from open_webui_openrouter_pipe.responses.reducer import Reducer
from tests.support.rows import rows

OWN = {"is_byok": True}
CASES = Path(__file__).with_name("served.txt")


@pytest.mark.parametrize(("event", "expected"), rows(CASES, "served"))
def test_who_answered_is_read(event: dict[str, Any], expected: list[Any]) -> None:
    """From the metadata that a request asks for, and otherwise as far as the response says it."""
    assert [*astuple(read_served(event))[:3]] == expected


@pytest.mark.parametrize(
    ("kind", "status"), [("completed", "completed"), ("incomplete", "incomplete"), ("failed", "failed")]
)
def test_each_end_says_who_answered(kind: str, status: str) -> None:
    """Also one that was cut off, or failed."""
    metadata = {"endpoints": {"available": [{"provider": "One", "model": "a/m", "selected": True}]}}
    response = {"status": status, "output": [], "openrouter_metadata": metadata}
    (*_, end) = Reducer().feed({"type": f"response.{kind}", "response": response})
    assert isinstance(end, ResponseFinished | ResponseFailed)
    assert (end.served.model, end.served.provider) == ("a/m", "One")


@pytest.mark.parametrize(
    ("said", "metadata", "paid"),
    [({}, OWN, 0.2), ({}, {}, 0.0), ({"is_byok": None}, OWN, 0.2), ({"is_byok": False}, OWN, 0.0)],
)
def test_the_metadata_says_whose_key_was_used_where_the_usage_does_not(
    said: dict[str, Any], metadata: dict[str, Any], paid: float
) -> None:
    """A usage with server tools may not say it; what it says counts more."""
    usage = {"cost": 0.01, "cost_details": {"upstream_inference_cost": 0.2}, **said}
    response = {"output": [], "usage": usage, "openrouter_metadata": metadata}
    (end,) = Reducer().feed({"type": "response.completed", "response": response})
    assert isinstance(end, ResponseFinished)
    assert end.usage == Usage(cost=0.01, provider_cost=paid, byok_requests=int(paid > 0))
