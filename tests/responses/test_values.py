"""Text that can always be written as UTF-8 JSON, names that providers accept, content inline: see `values.txt`."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.responses.values import (
    TOO_DEEP,
    clean,
    clean_text,
    decode,
    json_text,
    mend,
    split_pending,
    wire_name,
)
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).with_name("values.txt")
HIGH, LOW = chr(0xD83D), chr(0xDE00)


@pytest.mark.parametrize(("text", "cleaned"), rows(CASES, "texts"))
def test_a_text_is_cleaned(text: str, cleaned: str) -> None:
    """NUL goes, pairs are joined, lone halves become U+FFFD, and nothing else changes."""
    assert clean_text(text) == cleaned


def test_values_are_cleaned_throughout() -> None:
    """Keys and members at any depth are cleaned; other values stay, and what is clean is the same object."""
    dirty = {"a\0": [HIGH, {"b": "c\0", "n": 1}], "t": (None, True)}
    assert clean(dirty) == {"a": ["\ufffd", {"b": "c", "n": 1}], "t": (None, True)}
    value = {"a": ["größe", {"b": 1}]}
    assert clean(value) is value
    assert mend({HIGH: [LOW, {"a": HIGH + LOW, "n": None}]}) == {"\ufffd": ["\ufffd", {"a": "😀", "n": None}]}


def test_values_become_compact_json() -> None:
    """With letters as they are, cleaned; what JSON does not know becomes text, what is too deep a note."""
    assert json_text({"ü": [1, "a\0"], "s": {1}}) == '{"ü":[1,"a"],"s":"{1}"}'
    assert json_text(nested(lambda inner: [inner], [], 100_000)) == TOO_DEEP


def nested(wrap: Callable[[Any], Any], inner: Any, levels: int) -> Any:
    """The value in so many levels."""
    for _ in range(levels):
        inner = wrap(inner)
    return inner


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["lists", "objects"]
)
def test_what_is_nested_too_deeply_is_cut(wrap: Callable[[Any], Any]) -> None:
    """A hundred levels stay; Python's recursion never ends before."""
    fits = nested(wrap, 1, 100)
    assert mend(fits) == fits
    assert mend(nested(wrap, fits, 50_000)) == nested(wrap, TOO_DEEP, 100)


def test_numbers_that_json_lacks_become_null() -> None:
    """NaN and infinities are what Python reads and no provider does."""
    values = [float("nan"), float("inf"), -float("inf"), 1.5, 1, True]
    expected = {"a": [None, None, None, 1.5, 1, True]}
    assert (mend({"a": values}), clean({"a": values})) == (expected, expected)
    assert json_text({"a": values}) == '{"a":[null,null,null,1.5,1,true]}'


@pytest.mark.parametrize(("text", "shown", "pending"), rows(CASES, "halves"))
def test_only_a_first_half_at_the_very_end_waits_for_its_partner(text: str, shown: str, pending: str) -> None:
    """Of a character that a provider has divided."""
    assert split_pending(text) == (shown, pending)


# --- names


@pytest.mark.parametrize(
    ("name", "sent"),
    [("get_weather", "get_weather"), ("A-1", "A-1"), ("x" * 64, "x" * 64), ("", "unnamed_tool")],
)
def test_a_good_name_stays(name: str, sent: str) -> None:
    """A call without one is still a call."""
    assert wire_name(name) == sent


def test_similar_names_stay_apart() -> None:
    """Names that differ only in what is not accepted do not become the same."""
    assert len({wire_name(name) for name in ("a.b", "a/b", "a b", "a_b", "x" * 65, "x" * 66)}) == 6


@settings(deadline=None)
@given(st.text(min_size=1, max_size=200))
def test_any_name_becomes_acceptable(name: str) -> None:
    """Every name becomes one that providers take, and stays it when it is sent again."""
    sent = wire_name(name)
    assert (bool(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", sent)), wire_name(sent)) == (True, sent)


# --- content inline

CONTENT = random.Random(1).randbytes(700_001)


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 3, 196_607, 196_608, 196_609, len(CONTENT)])
def test_content_of_any_length_is_decoded(size_bytes: int) -> None:
    """With lines or without, in either alphabet, padded or not, and wherever a window ends."""
    content = CONTENT[:size_bytes]
    plain, lines = base64.b64encode(content).decode(), base64.encodebytes(content).decode()
    url = base64.urlsafe_b64encode(content).decode()
    for text in (plain, url, lines, plain.rstrip("="), f"data:image/png;base64,{plain}"):
        assert decode(text) == content


@pytest.mark.parametrize("at", [4, 262_144, 262_148, 600_000])
@pytest.mark.parametrize("inserted", ["AA==", "*"])
def test_what_is_not_base64_throughout_is_nothing(at: int, inserted: str) -> None:
    """Neither another character nor padding before the end, in whichever window."""
    plain = base64.b64encode(CONTENT[:600_000]).decode()
    assert decode(plain[:at] + inserted + plain[at:]) == b""
