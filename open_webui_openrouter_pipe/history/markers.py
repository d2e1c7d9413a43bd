"""Markers: the line in assistant text that names an artifact, and the code blocks in which it does not count.

A marker is written as the line ``[<ULID>]: #`` where the ULID has 20 characters of Crockford base32. It is found
wherever an edit has moved it: in the midst of a line, or with blanks at its end. Owns their encoding, writing, finding
and splitting. Whoever calls decides what is assistant text.

In code, what reads like a marker may be an example, or a real one: an answer that was cut within a code block and then
continued has its second marker there. Only who knows the artifacts can tell (`code_ulids`). An unclosed fence protects
nothing: it would hide everything after it. Rules: CommonMark 0.31, section 4.5, outside of lists and quotes.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Container, Iterable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard

from ..responses.items import PHASES
from ..responses.values import as_count, as_list, as_object, as_text

_FENCE_LINE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})(?P<rest>[^\n]*)$", re.MULTILINE)
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME_CHARS = 16
_RANDOM_CHARS = 4
_BITS_PER_CHAR = 5
ULID = rf"[{_ALPHABET}]{{{_TIME_CHARS + _RANDOM_CHARS}}}"
"""The pattern of an artifact's name."""
_FLEETING = _ALPHABET[-1]
"""What the name of an artifact begins with that is kept for less than its chat; no time does for a million years."""
_ULID_ONLY = re.compile(ULID)
_MARKER = re.compile(rf"\[({ULID})\]: #(?:[ \t\r]++(?=\n|\Z))?")
_QUOTED = re.compile(rf"{_MARKER.pattern}\n{{0,2}}")
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_INDENTED_CODE = ("    ", "\t")
MARKER_END = "]: #"
"""What every marker ends with. Looking for it first is faster than a pattern tried at every bracket, and looking for
one character of it before that many times faster still.
"""


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


def fleeting(ulid: str) -> str:
    """Return the name of an artifact that will be deleted on purpose while its marker stays."""
    return _FLEETING + ulid[1:]


def is_fleeting(ulid: str) -> bool:
    """Return whether the artifact was kept for less than its chat, so that nobody misses it."""
    return ulid.startswith(_FLEETING)


def is_ulid(value: object) -> TypeGuard[str]:
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
    """Read the ULID of one line, None unless the line is a marker and nothing else but blanks at its end."""
    found = _MARKER.fullmatch(line)
    return found[1] if found else None


def marker_ulids(text: str) -> list[str]:
    """Return the ULIDs of the markers outside of code, in order."""
    return [ulid for ulid, _, _ in _outside_code(text, _spans(text))]


def all_ulids(text: str) -> list[str]:
    """Return the ULIDs of everything that reads like a marker, in order."""
    return [ulid for ulid, _, _ in _spans(text)]


def code_ulids(text: str) -> list[str]:
    """Return what reads like a marker within code: markers only if there are such artifacts."""
    if not (spans := _spans(text)):
        return []
    outside = {start for _, start, _ in _outside_code(text, spans)}
    return [ulid for ulid, start, _ in spans if start not in outside]


def split_text_by_markers(
    text: str, ulids: Container[str] | None = None, quoted: Container[str] = ()
) -> list[MarkedText]:
    """Divide the text at its runs of markers; joining the `raw` of all segments yields the text again.

    Markers are those outside of code that are not `quoted`; with `ulids`, those of them alone, in code as well. A run
    takes up to two newlines on either side with it, and runs that touch are one.
    """
    spans = _spans(text)
    if ulids is None:
        spans = [span for span in _outside_code(text, spans) if span[0] not in quoted]
    else:
        spans = [span for span in spans if span[0] in ulids]
    segments: list[MarkedText] = []
    run: list[str] = []
    run_start = done = 0
    for ulid, start, end in spans:
        first = start - (2 if text.endswith("\n\n", done, start) else text.endswith("\n", done, start))
        if first > done:
            if run:
                segments.append(MarkedText(text[run_start:done], tuple(run)))
            segments.append(MarkedText(text[done:first]))
            run, run_start = [], first
        run.append(ulid)
        done = end + (2 if text.startswith("\n\n", end) else text.startswith("\n", end))
    if run:
        segments.append(MarkedText(text[run_start:done], tuple(run)))
    if done < len(text):
        segments.append(MarkedText(text[done:]))
    return segments


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


def inline_code(text: str) -> list[tuple[int, int]]:
    """Return the start and end offset of each piece of code within a line."""
    return [found.span() for found in _INLINE_CODE.finditer(text)]


def is_within(offset: int, blocks: list[tuple[int, int]]) -> bool:
    """Return whether the offset lies within one of the blocks, which stand in order."""
    index = bisect_right(blocks, (offset, sys.maxsize))
    return index > 0 and offset < blocks[index - 1][1]


def _spans(text: str) -> list[tuple[str, int, int]]:
    if "]" not in text or MARKER_END not in text:
        return []
    return [(found[1], *found.span()) for found in _MARKER.finditer(text)]


def _outside_code(text: str, spans: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The spans that lie in no closed block, not between backticks, and behind no indent."""
    spans = [span for span in spans if not text.endswith(_INDENTED_CODE, 0, span[1])]
    if not spans or not ("`" in text or "~" in text):
        return spans
    blocks = closed_fences(text)
    inline = inline_code(text)
    return [span for span in spans if not is_within(span[1], blocks) and not is_within(span[1], inline)]


def _encode(number: int, chars: int) -> str:
    bits = chars * _BITS_PER_CHAR
    if not 0 <= number < 1 << bits:
        message = f"{number} does not fit {bits} bits"
        raise ValueError(message)
    shifts = range(bits - _BITS_PER_CHAR, -1, -_BITS_PER_CHAR)
    return "".join(_ALPHABET[number >> shift & 31] for shift in shifts)


REFERENCE_TYPE = "openrouter_pipe.artifact"
"""The entry of `reasoning_details` that names an artifact, under `id`."""

PHASE_TYPE = "openrouter_pipe.phase"
"""The entry that gives the phase of the text behind it, under `phase`; "" ends one."""

ANSWER_MARK = "\u2063\u2060\u2063"
"""How our answers to commands begin: three characters without width, sound or meaning, that nobody types."""

_CALL_ID = re.compile(rf"call_({ULID})(?:_({'|'.join(PHASES)}))?")
_LINE = re.compile(r"[^\n]*\n?")


class Reference(NamedTuple):
    """What stands behind so many visible characters of a round's text: an artifact, or else a phase that begins."""

    after: int
    ulid: str = ""
    phase: str = ""


class CallName(NamedTuple):
    """What a call's id says: its artifact, and the phase of the text before it, "" for none."""

    ulid: str
    phase: str


def write_reference(reference: Reference) -> dict[str, Any]:
    """Return the entry of `reasoning_details`."""
    named = (
        {"type": REFERENCE_TYPE, "id": reference.ulid}
        if reference.ulid
        else {"type": PHASE_TYPE, "phase": reference.phase}
    )
    return {**named, "after": reference.after} if reference.after else named


def read_references(details: Any) -> list[Reference]:
    """Read the entries that are ours, in order; one that does not say where it stands is before all text."""
    found = []
    for detail in map(as_object, as_list(details)):
        kind, after = detail.get("type"), as_count(detail.get("after")) or 0
        if kind == REFERENCE_TYPE and is_ulid(ulid := detail.get("id")):
            found.append(Reference(after, ulid=ulid))
        elif kind == PHASE_TYPE:
            phase = as_text(detail.get("phase"))
            found.append(Reference(after, phase=phase if phase in PHASES else ""))
    return found


def insert_references(texts: Iterable[str], references: Iterable[Reference]) -> Iterator[str | Reference]:
    """Yield the texts of a round and its references in their order; texts are divided at line breaks alone.

    A text that was edited since may have no line break there: what stands in it then waits for the next one.
    """
    waiting = deque(sorted(references, key=attrgetter("after")))
    if not waiting:
        yield from texts
        return
    seen = 0
    for text in texts:
        start = 0
        for line in _LINE.finditer(text):
            shown = visible_chars(line[0])
            if waiting and waiting[0].after <= seen and (shown or not line.start()):
                if line.start() > start:
                    yield text[start : line.start()].removesuffix("\n")
                    start = line.start()
                while waiting and waiting[0].after <= seen:
                    yield waiting.popleft()
            seen += shown
            if not waiting:
                break
        yield text[start:]
    yield from waiting


def visible_chars(text: str) -> int:
    """Count the characters that are not blank."""
    return sum(map(len, text.split()))


def name_call(ulid: str, phase: str = "") -> str:
    """Return the id of the call that this artifact is; `phase` is that of the text before it."""
    return f"call_{ulid}_{phase}" if phase in PHASES else f"call_{ulid}"


def read_call_name(call_id: str) -> CallName | None:
    """Return what a call's id says, None for an id of the provider's."""
    found = _CALL_ID.fullmatch(call_id)
    return CallName(found[1], found[2] or "") if found else None
