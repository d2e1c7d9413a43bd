"""Tables of cases in text files, one row a case, for subjects whose cases are data.

A section begins with its name behind `## `. A row's cells stand between ` | ` and ` => `; a cell is JSON, or else a
text as it is. In JSON, a text `$NAME` stands for a value that is given under this name. Lines with `#` are comments.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def rows(path: Path, section: str, names: Mapping[str, Any] | None = None) -> list[Any]:
    """The rows of a section as parameters of a test, each under its own text as its id."""
    lines = path.read_text("utf-8").split("\n")
    begin = lines.index(f"## {section}") + 1
    end = next((at for at in range(begin, len(lines)) if lines[at].startswith("## ")), len(lines))
    found = [line for line in lines[begin:end] if line.strip() and not line.startswith("#")]
    assert found, section
    return [
        pytest.param(*(_cell(cell, names or {}) for cell in re.split(r" \| | => ", line)), id=line[:100])
        for line in found
    ]


def _cell(text: str, names: Mapping[str, Any]) -> Any:
    try:
        return _filled(json.loads(text), names)
    except ValueError:
        return text.strip()


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(member, names) for key, member in value.items()}
    if isinstance(value, list):
        return [_filled(member, names) for member in value]
    return names[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def whole(written: Any) -> str:
    """A long text, written as a list: a number says how often the text before it stands there."""
    pieces = [written] if isinstance(written, str) else written
    counts = [*(each if isinstance(each, int) else 1 for each in pieces[1:]), 1]
    return "".join(each * count for each, count in zip(pieces, counts, strict=True) if isinstance(each, str))
