"""Tool calls that say nearly the same as one line with a count.

Owns what "nearly the same" is: the same tool, arguments with the same names, and a fact of the same form. Only facts
that stand for a larger output are grouped; an output that is shown whole may differ in just what matters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

MIN_GROUPED: Final = 4
"""Fewer lines are all shown: the first and the newest are in any case."""

_FACT: Final = re.compile(r": (?=(?:[^\n]{0,600}? ⏎ )?\[Tool: )")
_FIRST_ROW: Final = re.compile(r" \| (?:first: .*|\{.*)")
"""An example of the rows, or an object's values: what differs between calls of the same kind."""
_VALUES: Final = re.compile(
    r"(\"(?:[^\"\\]|\\.)*+\"?+\s*+:)|\"(?:[^\"\\]|\\.)*+\"?+|\d[\d.,]*+|\b(?:null|true|false)\b"
)
"""The name of a field, which is kept; or a value."""


def group_tool_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines; of those that say nearly the same the first and the newest, which says how many there are."""
    groups: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        groups.setdefault(_form(line) or f"{number}", []).append(number)
    omitted, counts = set[int](), dict[int, int]()
    for numbers in groups.values():
        if len(numbers) >= MIN_GROUPED:
            omitted.update(numbers[1:-1])
            counts[numbers[-1]] = len(numbers) - 2
    return tuple(
        f"{line} (and {counts[number]} more like it)" if number in counts else line
        for number, line in enumerate(lines)
        if number not in omitted
    )


def _form(line: str) -> str | None:
    """Return what lines that say nearly the same have in common; None for a line that stands for itself."""
    fact = _FACT.search(line)
    if fact is None:
        return None
    call, stated = line[: fact.end()], _FIRST_ROW.sub("", line[fact.end() :])
    return "".join(_VALUES.sub(lambda match: match[1] or "0", text) for text in (call, stated))
