"""The syntax of directives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.standin.directives import Directive, DirectiveError, parse, without_directives


def test_directives_stand_anywhere_in_a_text() -> None:
    """Words around them are the person's."""
    text = 'Hi [[standin: reasoning=summary text="a b" parts=2]] there [[standin:nodone]] you'
    assert parse(text) == (
        Directive("reasoning", "summary", {"text": "a b", "parts": "2"}),
        Directive("nodone", value=True, options={}),
    )
    assert without_directives(text) == "Hi  there  you"


def test_values_may_be_json() -> None:
    """Objects and arrays may hold the closing brackets."""
    text = '[[standin: call=get args={"a": [[1, 2]], "b": "]]"}]]'
    assert parse(text) == (Directive("call", "get", {"args": {"a": [[1, 2]], "b": "]]"}}),)


def test_a_text_without_directives_has_none() -> None:
    """Other double brackets mean nothing."""
    assert parse("a [[link]] and [[standing]]") == ()


@pytest.mark.parametrize(
    "text", ["[[standin:]]", "[[standin: =x]]", "[[standin: a", '[[standin: a="x]]', "[[standin: a= ]]"]
)
def test_unreadable_directives_are_errors(text: str) -> None:
    """Better loud than ignored."""
    with pytest.raises(DirectiveError):
        parse(text)


VALUES = st.one_of(st.text(), st.dictionaries(st.text(), st.integers()), st.lists(st.text()))


@given(VALUES)
def test_json_values_come_back(value: Any) -> None:
    """Writing a value as JSON and parsing it is the identity."""
    assert parse(f"[[standin: a=x b={json.dumps(value)}]]") == (Directive("a", "x", {"b": value}),)
