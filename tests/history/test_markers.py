"""Markers: encoding, writing, finding and splitting. See `markers.txt`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history import markers
from open_webui_openrouter_pipe.history.markers import MarkedText
from tests.history.builders import mark, ulid
from tests.support.rows import rows

CASES: Final = Path(__file__).with_name("markers.txt")
A, B, C = ulid(1), ulid(2), ulid(3)
SNIPPETS = [
    mark(1),
    mark(2, 3),
    mark(1).rstrip(),
    *("\n", "\n\n", "text", " ", "`", "    ", "```", "```\n", "~~~\n", "[x]: #\n", "\r\n"),
]


def test_an_id_holds_its_time_and_its_randomness() -> None:
    """Sixteen characters and four, in Crockford's alphabet."""
    assert markers.item_id(0, 0) == "0" * 20
    assert markers.item_id(31, 32) == "000000000000000Z" + "0010"
    assert markers.item_id(1_700_000_000_000_000_000, 2**20 - 1) == "0001F5WWZRV2M000ZZZZ"


@given(*[st.integers(0, 2**80 - 1)] * 2, *[st.integers(0, 2**20 - 1)] * 2)
def test_ids_sort_by_time(one: int, other: int, low: int, high: int) -> None:
    """A later time makes a later id, whatever the randomness."""
    if one < other:
        assert markers.item_id(one, low) < markers.item_id(other, high)


@pytest.mark.parametrize(("time_ns", "randomness"), [(-1, 0), (1 << 80, 0), (0, -1), (0, 1 << 20)])
def test_a_number_that_does_not_fit_is_an_error(time_ns: int, randomness: int) -> None:
    """It would be a wrong id."""
    with pytest.raises(ValueError, match="does not fit"):
        markers.item_id(time_ns, randomness)


@pytest.mark.parametrize("value", [None, 5, A.encode(), [A], A[1:], f"{A[:-1]}U", f"{A}\n"])
def test_only_text_in_the_layout_is_a_ulid(value: object) -> None:
    """Whatever else a message holds where a ULID is expected is none, and no error."""
    assert markers.is_ulid(A)
    assert not markers.is_ulid(value)


def test_markers_are_written() -> None:
    """Before text they end with a blank line; alone they begin with one; none write nothing."""
    assert markers.leading_markers([A, B]) + "text" == f"[{A}]: #\n[{B}]: #\n\ntext"
    assert markers.standalone_markers([A, B]) == f"\n[{A}]: #\n[{B}]: #\n"
    assert markers.leading_markers([]) == markers.standalone_markers([]) == ""


@pytest.mark.parametrize(
    "line",
    [
        f"[{A}]:#",
        f"[{A[:-1]}]: #",
        f"[{A}0]: #",
        f"[{A[:-1]}U]: #",
        f"[{A.replace('0', 'a', 1)}]: #",
        f"`[{A}]: #`",
        f"    [{A}]: #",
    ],
)
def test_other_text_is_no_marker(line: str) -> None:
    """A line that differs in a single character is text, and so is code."""
    assert markers.extract_marker_ulid(line) is None
    assert markers.marker_ulids(f"text\n{line}\ntext") == []


def filled(text: str) -> str:
    """The text with whole markers."""
    return re.sub(r"\[(\d)\]", lambda found: f"[{ulid(int(found[1]))}]: #", text)


@pytest.mark.parametrize(("text", "segments"), rows(CASES, "segments"))
def test_a_text_is_split_at_its_markers(text: str, segments: list[list[Any]]) -> None:
    """A run takes along up to two newlines on each side, and nothing else; code holds none, unless it never closes."""
    expected = [MarkedText(filled(raw), tuple(map(ulid, numbers))) for raw, *numbers in segments]
    assert markers.split_text_by_markers(filled(text)) == expected
    assert markers.marker_ulids(filled(text)) == [each for segment in expected for each in segment.ulids]


def test_a_line_is_a_marker_with_blanks_at_its_end() -> None:
    """Editors and other systems leave them; with words it is none, though it has one."""
    assert [markers.extract_marker_ulid(f"[{A}]: #{end}") for end in ("", " ", "\t ", "\r")] == [A] * 4
    assert markers.extract_marker_ulid(f"a [{A}]: #") is None


def test_markers_in_code_that_are_known() -> None:
    """Who knows that an artifact exists can have its marker, wherever it stands."""
    text = f"```\nx\n[{A}]: #\n\n`[{B}]: #`\n```\n[{C}]: #"
    assert markers.code_ulids(text) == [A, B]
    assert markers.split_text_by_markers(text, {A, C}) == [
        MarkedText("```\nx"),
        MarkedText(f"\n[{A}]: #\n\n", (A,)),
        MarkedText(f"`[{B}]: #`\n```"),
        MarkedText(f"\n[{C}]: #", (C,)),
    ]


@given(st.lists(st.sampled_from(SNIPPETS)).map("".join))
def test_split_and_join_is_identity(text: str) -> None:
    """The raw segments are the text, and their markers are those that are found in it."""
    segments = markers.split_text_by_markers(text)
    assert "".join(segment.raw for segment in segments) == text
    assert [each for segment in segments for each in segment.ulids] == markers.marker_ulids(text)


@given(st.lists(st.sampled_from([A, B, C]), min_size=1), st.text())
def test_written_markers_are_found_again(ulids: list[str], text: str) -> None:
    """What is written before a text, or alone after it, splits into the text and the markers."""
    body = f"x{text}x"
    for written in (
        markers.leading_markers(ulids) + body,
        f"{body}\n{markers.standalone_markers(ulids)}".rstrip("\n"),
    ):
        found = markers.split_text_by_markers(written)
        assert [each.ulids for each in found if each.ulids] == [tuple(ulids)]
        assert [each.raw for each in found if not each.ulids] == [body]


def test_a_quoted_answer_loses_its_markers() -> None:
    """Also behind a speaker's name, in the prompt of a task."""
    quoted = f"USER: hi\nASSISTANT: [{A}]: #\n\nHello\n\n[{B}]: #\nUSER: [x]: #"
    assert markers.erase_markers(quoted) == "USER: hi\nASSISTANT: Hello\n\nUSER: [x]: #"


@pytest.mark.parametrize(("text", "blocks"), rows(CASES, "code blocks"))
def test_a_block_of_code_ends_with_a_line_of_its_kind(text: str, blocks: list[str]) -> None:
    """It reaches from its opening line to the end of the closing one."""
    assert [text[start:end] for start, end in markers.closed_fences(text)] == blocks
