"""Blocks folded into assistant text, as older hosts and some models write them: see `folded.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.folded import FoldedCall, unfold
from tests.support.rows import rows

LONG = 100_000
HOSTILE = {
    "tags without an end": "<think>\n" * LONG,
    "blocks without an end": '<details type="reasoning">\n' * LONG,
    "openings without an end": "<details " * LONG,
    "tags in code": "```\n<think>\n```\n" * LONG,
    "a long attribute": f"<details {'a' * LONG}>\n</details>",
    "blanks": "<\n" + " " * LONG + "\n" * LONG + " " * LONG,
}


@pytest.mark.parametrize(("title", "text", "pieces"), rows(Path(__file__).with_name("folded.txt"), "texts"))
def test_a_text_is_unfolded(title: str, text: str, pieces: list[Any]) -> None:
    """A closed block at the start of a line, outside of code, is taken out; the rest stays to the byte."""
    found = [each if isinstance(each, str) else FoldedCall(*each) for each in pieces]
    assert unfold(text) == found, title


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_no_more_than_reading(name: str) -> None:
    """Text that only looks like blocks is text, and is read in one go, however long."""
    assert unfold(HOSTILE[name]) == [HOSTILE[name]]


def test_a_long_body_costs_no_more_than_reading() -> None:
    """Nor does what stands within a block."""
    assert unfold(f'<details type="reasoning">{chr(10) * LONG}{"<summary>" * LONG}</details>') == []
