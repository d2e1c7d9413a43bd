"""Markers: encoding, writing, finding and splitting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history import markers
from open_webui_openrouter_pipe.history.markers import MarkedText, MarkerSpan
from tests.history.builders import mark, ulid

A, B, C = ulid(1), ulid(2), ulid(3)
SNIPPETS = [
    mark(1),
    mark(2, 3),
    mark(1).rstrip(),
    "\n",
    "\n\n",
    "text",
    " ",
    "`",
    "    ",
    "```",
    "```\n",
    "~~~\n",
    "[x]: #\n",
    "\r\n",
]


def test_item_id_layout() -> None:
    """Sixteen characters hold the time, four the randomness, in Crockford's alphabet."""
    assert markers.item_id(0, 0) == "0" * 20
    assert markers.item_id(31, 32) == "000000000000000Z" + "0010"
    assert markers.item_id(1_700_000_000_000_000_000, 2**20 - 1) == "0001F5WWZRV2M000ZZZZ"


@given(
    st.integers(0, 2**80 - 1), st.integers(0, 2**80 - 1), st.integers(0, 2**20 - 1), st.integers(0, 2**20 - 1)
)
def test_item_ids_sort_by_time(one: int, other: int, low: int, high: int) -> None:
    """A later time makes a later id, whatever the randomness."""
    if one < other:
        assert markers.item_id(one, low) < markers.item_id(other, high)


@pytest.mark.parametrize(("time_ns", "randomness"), [(-1, 0), (1 << 80, 0), (0, -1), (0, 1 << 20)])
def test_item_id_out_of_range(time_ns: int, randomness: int) -> None:
    """A number that does not fit is an error, not a wrong id."""
    with pytest.raises(ValueError, match="does not fit"):
        markers.item_id(time_ns, randomness)


@pytest.mark.parametrize("value", [None, 5, A.encode(), [A], A[1:], f"{A[:-1]}U", f"{A}\n"])
def test_only_text_in_the_layout_is_a_ulid(value: object) -> None:
    """Whatever else a message holds where a ULID is expected is none, and no error."""
    assert markers.is_ulid(A)
    assert not markers.is_ulid(value)


def test_writing() -> None:
    """Markers before text end with a blank line; markers alone begin with one; none write nothing."""
    assert markers.serialize_marker(A) == f"[{A}]: #"
    assert markers.leading_markers([A, B]) + "text" == f"[{A}]: #\n[{B}]: #\n\ntext"
    assert markers.standalone_markers([A, B]) == f"\n[{A}]: #\n[{B}]: #\n"
    assert markers.leading_markers([]) == markers.standalone_markers([]) == ""


NOT_MARKERS = [
    f"[{A}]:#",
    f"[{A[:-1]}]: #",
    f"[{A}0]: #",
    f"[{A[:-1]}U]: #",
    f"[{A.replace('0', 'a', 1)}]: #",
    f"`[{A}]: #`",
    f"the line `[{A}]: #` is a marker",
    f"    [{A}]: #",
    f"\t[{A}]: #",
]


@pytest.mark.parametrize("line", NOT_MARKERS)
def test_other_text_is_no_marker(line: str) -> None:
    """A line that differs in a single character is text, and so is code."""
    assert markers.extract_marker_ulid(line) is None
    assert not markers.contains_marker(f"text\n{line}\ntext")


@pytest.mark.parametrize("end", ["", " ", "\t ", "\r", " \r"])
def test_blanks_at_the_end_of_its_line_belong_to_a_marker(end: str) -> None:
    """Editors and other systems leave them."""
    line = f"[{A}]: #{end}"
    assert markers.extract_marker_ulid(line) == A
    assert markers.split_text_by_markers(f"a\n{line}\nb") == [
        MarkedText("a"),
        MarkedText(f"\n{line}\n", (A,)),
        MarkedText("b"),
    ]


def test_the_rest_of_a_marker_hides_no_marker() -> None:
    """A chat was cut in the middle of one, so that its text begins with what is left."""
    assert [span.ulid for span in markers.iter_marker_spans(f"]: #\n[{A}]: #")] == [A]


def test_a_marker_within_a_line_is_one() -> None:
    """An edit has joined it with words, which stay to the byte."""
    assert markers.extract_marker_ulid(f"a [{A}]: #") is None
    assert markers.split_text_by_markers(f" a[{A}]: # b\n\n> [{B}]: #5") == [
        MarkedText(" a"),
        MarkedText(f"[{A}]: #", (A,)),
        MarkedText(" b\n\n> "),
        MarkedText(f"[{B}]: #", (B,)),
        MarkedText("5"),
    ]


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


def test_spans() -> None:
    """A span reaches from bracket to hash; the text's first and last lines count."""
    found = f"[{A}]: #\n\ntext\n[{B}]: #"
    assert list(markers.iter_marker_spans(found)) == [MarkerSpan(A, 0, 25), MarkerSpan(B, 32, 57)]
    assert markers.extract_marker_ulid(f"[{A}]: #") == A


def test_markers_in_closed_code_are_text() -> None:
    """A shown marker is not one; a fence that never closes protects nothing."""
    assert not markers.contains_marker(f"```\n[{A}]: #\n```")
    assert not markers.contains_marker(f"~~~\n[{A}]: #\n~~~\n")
    assert markers.contains_marker(f"```\n[{A}]: #")
    assert [
        span.ulid for span in markers.iter_marker_spans(f"```\n[{A}]: #\n```\n[{B}]: #\n```\n[{C}]: #")
    ] == [B, C]


SPLITS = {
    f"[{A}]: #\n\nLet me look.\n\n[{B}]: #\n[{C}]: #": [
        MarkedText(f"[{A}]: #\n\n", (A,)),
        MarkedText("Let me look."),
        MarkedText(f"\n\n[{B}]: #\n[{C}]: #", (B, C)),
    ],
    f"a\n\n\n[{A}]: #\n\n\nb": [MarkedText("a\n"), MarkedText(f"\n\n[{A}]: #\n\n", (A,)), MarkedText("\nb")],
    f"a\n[{A}]: #\nb": [MarkedText("a"), MarkedText(f"\n[{A}]: #\n", (A,)), MarkedText("b")],
    f"[{A}]: #\n\n\n\n[{B}]: #": [MarkedText(f"[{A}]: #\n\n\n\n[{B}]: #", (A, B))],
    "text": [MarkedText("text")],
    "": [],
}


@pytest.mark.parametrize("text", SPLITS)
def test_split(text: str) -> None:
    """A run takes along up to two newlines on each side, and nothing else."""
    assert markers.split_text_by_markers(text) == SPLITS[text]


@given(st.lists(st.sampled_from(SNIPPETS)).map("".join))
def test_split_and_join_is_identity(text: str) -> None:
    """The raw segments are the text, and their markers are those that are found in it."""
    segments = markers.split_text_by_markers(text)
    assert "".join(segment.raw for segment in segments) == text
    found = [span.ulid for span in markers.iter_marker_spans(text)]
    assert [ulid_ for segment in segments for ulid_ in segment.ulids] == found


@given(st.lists(st.sampled_from([A, B, C]), min_size=1), st.text())
def test_written_markers_are_found_again(ulids: list[str], text: str) -> None:
    """What is written before a text, or alone after it, splits into the text and the markers."""
    body = f"x{text}x"
    before = markers.split_text_by_markers(markers.leading_markers(ulids) + body)
    after = markers.split_text_by_markers(f"{body}\n{markers.standalone_markers(ulids)}".rstrip("\n"))
    assert ([s.ulids for s in before if s.ulids], [s.raw for s in before if not s.ulids]) == (
        [tuple(ulids)],
        [body],
    )
    assert ([s.ulids for s in after if s.ulids], [s.raw for s in after if not s.ulids]) == (
        [tuple(ulids)],
        [body],
    )


def test_erase_markers() -> None:
    """A prompt that quotes an answer loses the markers, also behind a speaker's name."""
    quoted = f"USER: hi\nASSISTANT: [{A}]: #\n\nHello\n\n[{B}]: #\nUSER: [x]: #"
    assert markers.erase_markers(quoted) == "USER: hi\nASSISTANT: Hello\n\nUSER: [x]: #"


FENCED = {
    "```\nx\n```": ["```\nx\n```"],
    "a\n~~~py\nx\n~~~\nb": ["~~~py\nx\n~~~"],
    "   ```\nx\n  ```": ["   ```\nx\n  ```"],
    "```\nx\n````": ["```\nx\n````"],
    "````\n```\nx\n```\n````": ["````\n```\nx\n```\n````"],
    "```\n~~~\n```\n~~~": ["```\n~~~\n```"],
    "```a\nx\n```\ny\n```b\nz\n```  ": ["```a\nx\n```", "```b\nz\n```  "],
    "```\nx": [],
    "    ```\nx\n    ```": [],
    "```inline``` text\nx\n": [],
    "```a`b\nx\n```\ny\n```": ["```\ny\n```"],
    "```\nx\n``` y": [],
    "``\nx\n``": [],
    "": [],
}


@pytest.mark.parametrize("text", FENCED)
def test_closed_fences(text: str) -> None:
    """A block reaches from its opening line to the end of a closing line of its own kind."""
    assert [text[start:end] for start, end in markers.closed_fences(text)] == FENCED[text]
