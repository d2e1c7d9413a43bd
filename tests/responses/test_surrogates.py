r"""Halves of surrogate pairs are joined or replaced."""

from __future__ import annotations

import pytest

from open_webui_openrouter_pipe.responses.text import mend, split_pending

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


def test_mend_reaches_all_text() -> None:
    """Keys and values at any depth are mended, other values stay."""
    assert mend({HIGH: [LOW, {"a": HIGH + LOW, "n": None}], "i": 1}) == {
        "\ufffd": ["\ufffd", {"a": "😀", "n": None}],
        "i": 1,
    }
