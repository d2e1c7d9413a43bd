"""Markdown's fenced code blocks: where they stand, so that nobody reads a marker or a tag out of shown code.

Only closed blocks count. An unclosed fence protects nothing, or one stray line of backticks would hide
everything after it. Rules: CommonMark 0.31, section 4.5, outside of containers such as lists and quotes.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right

_FENCE_LINE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>[^\n]*)$", re.MULTILINE)


def closed_fences(text: str) -> list[tuple[int, int]]:
    """Give the start and end offset of each closed code block, from its first line to the end of its last."""
    if "`" not in text and "~" not in text:
        return []
    blocks: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opened is None:
            opened = line if _opens(line) else None
        elif _closes(line, opened):
            blocks.append((opened.start(), line.end()))
            opened = None
    return blocks


def is_within(place: int, blocks: list[tuple[int, int]]) -> bool:
    """Tell whether the offset lies within one of the blocks, which stand in order."""
    index = bisect_right(blocks, (place, sys.maxsize))
    return index > 0 and place < blocks[index - 1][1]


def _opens(line: re.Match[str]) -> bool:
    """The info string of a backtick fence holds no backtick: such a line is inline code."""
    return line["fence"][0] == "~" or "`" not in line["rest"]


def _closes(line: re.Match[str], opened: re.Match[str]) -> bool:
    """A closing fence is of the same kind, at least as long, and stands alone."""
    return line["fence"].startswith(opened["fence"]) and not line["rest"].strip()
