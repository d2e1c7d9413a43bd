"""Function names as providers accept them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.values import wire_name


@pytest.mark.parametrize("name", ["get_weather", "A-1", "x" * 64])
def test_a_good_name_stays(name: str) -> None:
    """An accepted name is not touched."""
    assert wire_name(name) == name


def test_similar_names_stay_apart() -> None:
    """Names that differ only in what is not accepted do not become the same."""
    assert len({wire_name(name) for name in ("a.b", "a/b", "a b", "a_b", "x" * 65, "x" * 66)}) == 6


@settings(deadline=None)
@given(st.text(min_size=1, max_size=200))
def test_any_name_becomes_acceptable(name: str) -> None:
    """Every name becomes one that providers take, and stays it when it is sent again."""
    sent = wire_name(name)
    assert (bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)), wire_name(sent)) == (True, sent)


def test_no_name_gets_one() -> None:
    """A call without a name is still a call."""
    assert wire_name("") == "unnamed_tool"
