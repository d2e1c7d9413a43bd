"""Markers: the line in assistant text that names an artifact, and the code blocks in which it does not count.

A marker is exactly the line ``[<ULID>]: #`` where the ULID has 20 characters of Crockford base32. Owns their encoding,
writing, finding and splitting; knows nothing of what an artifact holds. Whoever calls decides what is assistant text:
nothing else may be searched.

Lines inside closed fenced code blocks are not markers. An unclosed fence protects nothing, or one stray line of
backticks would hide everything after it. Rules: CommonMark 0.31, section 4.5, outside of containers such as lists and
quotes.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_FENCE_LINE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>[^\n]*)$", re.MULTILINE)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS = 16
_RANDOM_CHARS = 4
_BITS_PER_CHAR = 5
_ULID = rf"[{_ALPHABET}]{{{_TIME_CHARS + _RANDOM_CHARS}}}"
_ULID_ONLY = re.compile(_ULID)
_LINE = re.compile(rf"\[({_ULID})\]: #")
_QUOTED = re.compile(rf"\[{_ULID}\]: #\n{{0,2}}")
_HINT = "]: #"
"""What every marker ends with. Finding it first is many times faster than a pattern tried on every line."""
_BEFORE_HINT_CHARS = 1 + _TIME_CHARS + _RANDOM_CHARS


class MarkerSpan(NamedTuple):
    """A marker's offsets in a text: from its bracket to behind its hash, without the newline."""

    ulid: str
    start: int
    end: int


class MarkedText(NamedTuple):
    """A segment of a text: either plain text, or a run of markers with the newlines that belong to it.

    `raw` is the segment to the byte; `ulids` are those of the run, none for plain text.
    """

    raw: str
    ulids: tuple[str, ...] = ()


def item_id(time_ns: int, randomness: int) -> str:
    """Encode a new artifact's ULID: 16 characters of time in nanoseconds, 4 of randomness; sorts by time.

    Raises:
        ValueError: The time does not fit 80 bits, or the randomness not 20.
    """
    return _encode(time_ns, _TIME_CHARS) + _encode(randomness, _RANDOM_CHARS)


def is_ulid(value: object) -> bool:
    """Return whether the value is an artifact's ULID."""
    return isinstance(value, str) and _ULID_ONLY.fullmatch(value) is not None


def serialize_marker(ulid: str) -> str:
    """Write the marker line, without its newline."""
    return f"[{ulid}]: #"


def leading_markers(ulids: Iterable[str]) -> str:
    """Write what goes before the text of the same message item; empty when there is nothing to mark."""
    return f"{lines}\n" if (lines := _marker_lines(ulids)) else ""


def standalone_markers(ulids: Iterable[str]) -> str:
    """Write the text of a message item that holds markers only; empty when there is nothing to mark."""
    return f"\n{lines}" if (lines := _marker_lines(ulids)) else ""


def _marker_lines(ulids: Iterable[str]) -> str:
    return "".join(f"{serialize_marker(ulid)}\n" for ulid in ulids)


def extract_marker_ulid(line: str) -> str | None:
    """Read the ULID of one line, None unless the line is exactly a marker."""
    found = _LINE.fullmatch(line)
    return found[1] if found else None


def contains_marker(text: str) -> bool:
    """Return whether the text holds a marker outside of code."""
    return next(iter_marker_spans(text), None) is not None


def iter_marker_spans(text: str) -> Iterator[MarkerSpan]:
    """Find the markers outside of code, in order."""
    hint = text.find(_HINT)
    blocks = closed_fences(text) if hint >= 0 else []
    while hint >= 0:
        start, end = hint - _BEFORE_HINT_CHARS, hint + len(_HINT)
        begins_line = start == 0 or (start > 0 and text[start - 1] == "\n")
        if begins_line and (end == len(text) or text[end] == "\n"):
            line = _LINE.match(text, start)
            if line and not (blocks and is_within(start, blocks)):
                yield MarkerSpan(line[1], start, end)
        hint = text.find(_HINT, end)


def split_text_by_markers(text: str) -> list[MarkedText]:
    """Divide the text at its runs of markers; joining the `raw` of all segments yields the text again.

    A run takes up to two newlines on either side with it, and runs that touch are one.
    """
    runs: list[tuple[int, int, list[str]]] = []
    done = 0
    for ulid, start, end in iter_marker_spans(text):
        first = start - (2 if text.endswith("\n\n", done, start) else text.endswith("\n", done, start))
        last = end + (2 if text.startswith("\n\n", end) else text.startswith("\n", end))
        if runs and done == first:
            runs[-1][2].append(ulid)
            runs[-1] = (runs[-1][0], last, runs[-1][2])
        else:
            runs.append((first, last, [ulid]))
        done = last
    segments: list[MarkedText] = []
    done = 0
    for first, last, ulids in runs:
        if first > done:
            segments.append(MarkedText(text[done:first]))
        segments.append(MarkedText(text[first:last], tuple(ulids)))
        done = last
    return [*segments, MarkedText(text[done:])] if done < len(text) else segments


def erase_markers(text: str) -> str:
    """Remove everything that reads like a marker, wherever it stands: for a text that quotes assistant text."""
    return _QUOTED.sub("", text)


def closed_fences(text: str) -> list[tuple[int, int]]:
    """Return the start and end offset of each closed code block, from its first line to the end of its last."""
    if "`" not in text and "~" not in text:
        return []
    blocks: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        fence, rest = line["fence"], line["rest"]
        if opened is None:
            # The info string of a backtick fence holds no backtick: such a line is inline code.
            opened = line if fence[0] == "~" or "`" not in rest else None
        elif fence.startswith(opened["fence"]) and not rest.strip():
            blocks.append((opened.start(), line.end()))
            opened = None
    return blocks


def is_within(offset: int, blocks: list[tuple[int, int]]) -> bool:
    """Return whether the offset lies within one of the blocks, which stand in order."""
    index = bisect_right(blocks, (offset, sys.maxsize))
    return index > 0 and offset < blocks[index - 1][1]


def _encode(number: int, chars: int) -> str:
    bits = chars * _BITS_PER_CHAR
    if not 0 <= number < 1 << bits:
        message = f"{number} does not fit {bits} bits"
        raise ValueError(message)
    shifts = range(bits - _BITS_PER_CHAR, -1, -_BITS_PER_CHAR)
    return "".join(_ALPHABET[number >> shift & 31] for shift in shifts)
