"""Text that can always be written as UTF-8 JSON: halves of surrogate pairs are joined or replaced, NUL is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from open_webui_openrouter_pipe.responses.values import (
    TOO_DEEP,
    clean,
    clean_text,
    json_text,
    mend,
    split_pending,
)

CASES = {
    "plain": "plain",
    "größe 😀": "größe 😀",
    "a\0b": "ab",
    "\ud83d": "\ufffd",
    "x\ude00y": "x\ufffdy",
    "\ud83d\ude00": "😀",
    "\0\ud83d\0\ude00": "😀",
}


@pytest.mark.parametrize("text", CASES, ids=ascii)
def test_text(text: str) -> None:
    """NUL goes, pairs are joined, lone halves become U+FFFD, and nothing else changes."""
    assert clean_text(text) == CASES[text]


def test_values_are_cleaned_throughout() -> None:
    """Keys and members at any depth are cleaned; other values stay."""
    dirty = {"a\0": ["\ud83d", {"b": "c\0", "n": 1}], "t": (None, True)}
    assert clean(dirty) == {"a": ["\ufffd", {"b": "c", "n": 1}], "t": (None, True)}


def test_clean_values_are_not_copied() -> None:
    """What is clean already comes back as the same object."""
    value = {"a": ["größe", {"b": 1}]}
    assert clean(value) is value


def test_json_text() -> None:
    """Compact, with its letters as they are, cleaned; what JSON does not know becomes text, what is too deep a note."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert json_text({"ü": [1, "a\0"], "s": {1}}) == '{"ü":[1,"a"],"s":"{1}"}'
    assert json_text(deep) == TOO_DEEP


HIGH, LOW = chr(0xD83D), chr(0xDE00)


@pytest.mark.parametrize(
    ("text", "shown", "pending"),
    [
        ("plain", "plain", ""),
        ("", "", ""),
        ("a" + HIGH, "a", HIGH),
        (HIGH + LOW, "😀", ""),
        (LOW + "a", "\ufffda", ""),
        (HIGH + "a", "\ufffda", ""),
        (HIGH + HIGH, "\ufffd", HIGH),
    ],
)
def test_split_pending(text: str, shown: str, pending: str) -> None:
    """Only a first half at the very end waits for its partner."""
    assert split_pending(text) == (shown, pending)


def test_numbers_that_json_lacks_become_null() -> None:
    """NaN and infinities are what Python reads and no provider does."""
    values = [float("nan"), float("inf"), -float("inf"), 1.5, 1, True]
    expected = {"a": [None, None, None, 1.5, 1, True]}
    assert (mend({"a": values}), clean({"a": values})) == (expected, expected)
    assert json_text({"a": values}) == '{"a":[null,null,null,1.5,1,true]}'


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}])
def test_mend_cuts_what_is_nested_too_deeply(wrap: Callable[[Any], Any]) -> None:
    """A hundred levels stay; Python's recursion never ends before."""
    fits: Any = 1
    for _ in range(100):
        fits = wrap(fits)
    deep: Any = TOO_DEEP
    for _ in range(100):
        deep = wrap(deep)
    deeper = fits
    for _ in range(50_000):
        deeper = wrap(deeper)
    assert mend(fits) == fits
    assert mend(deeper) == deep


def test_mend_reaches_all_text() -> None:
    """Keys and values at any depth are mended, other values stay."""
    assert mend({HIGH: [LOW, {"a": HIGH + LOW, "n": None}], "i": 1}) == {
        "\ufffd": ["\ufffd", {"a": "😀", "n": None}],
        "i": 1,
    }
