"""Notes: lines of ours at the end of an answer, which its reader sees and no model does; cases in `notes.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.notes import (
    NOTE_GAP,
    as_markdown,
    ends_with_note,
    erase_notes,
    tells_failure,
    write_note,
)
from open_webui_openrouter_pipe.history.reading import AssistantText, UserMessage, read_history
from tests.support.rows import rows

Json = dict[str, Any]

CASES = Path(__file__).with_name("notes.txt")
CUT, LOST = write_note("Cut."), write_note("Lost.", failed=True)
TEXTS = st.text(st.characters(exclude_characters="\u2063", exclude_categories=["Cs"]), max_size=40)
QUESTION: Json = {"role": "user", "content": "one"}


def message(*texts: str) -> Json:
    """An item of an answer, as the host keeps it."""
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "status": "completed", "content": parts}


def said(answer: Json) -> list[str]:
    """The texts of the model that a chat with this answer has."""
    history = read_history([QUESTION, {"role": "assistant", **answer}, QUESTION])
    entries = [entry for turn in history.turns for entry in turn]
    assert [type(entry) for entry in entries].count(UserMessage) == 2
    return [entry.text for entry in entries if isinstance(entry, AssistantText)]


@pytest.mark.parametrize(("line", "markdown"), rows(CASES, "lines"))
def test_a_line_reads_the_same_in_markdown(line: str, markdown: str) -> None:
    """Its addresses are links, in every script, and nothing else of it is markup."""
    assert as_markdown(line) == markdown


@given(before=TEXTS, line=TEXTS, after=TEXTS, failed=st.booleans())
def test_without_its_notes_a_text_is_what_the_model_wrote(
    before: str, line: str, after: str, *, failed: bool
) -> None:
    """To the byte, whatever the line holds: at the end, where the answer goes on behind it, and twice."""
    note = write_note(line, failed=failed)
    assert erase_notes(f"{before}\n{note}") == before
    assert erase_notes(f"{before}\n{note}{NOTE_GAP}{after}\n{note}") == before + after
    assert ends_with_note(f"{before}\n{note}")
    assert not ends_with_note(f"{before}\n{note}{NOTE_GAP}{after}x")
    assert tells_failure({"content": f"{before}\n{note}"}) is failed


@pytest.mark.parametrize("note", [CUT, LOST])
@pytest.mark.parametrize("kept", [False, True])
def test_no_model_sees_a_note(note: str, *, kept: bool) -> None:
    """In the text that the host shows, or among the items that it keeps; an answer of nothing else is empty."""
    went_on = message(note, f"{NOTE_GAP}more")
    answers = [[message("One."), message(note)], [message(note)], [message("One."), went_on], [went_on]]
    for items, expected in zip(answers, ["One.", "", "One.more", "more"], strict=True):
        texts = ["".join(part["text"] for part in item["content"]) for item in items]
        answer: Json = {"output": items} if kept else {"content": "\n".join(texts)}
        assert said(answer) == [expected][: bool(expected)]


def test_a_command_whose_answer_failed_before_its_mark_does_not_hold() -> None:
    """It is taken out, as one without any answer is."""
    command = {"role": "user", "content": "/aim thrifty"}
    history = read_history([command, {"role": "assistant", "content": LOST}, QUESTION])
    assert (history.commands, len(history.turns)) == ((), 1)


def test_half_a_note_stays() -> None:
    """As an edit may leave it: nothing that might be the model's is cut."""
    text = f"One.\n{CUT[:-1]}\nTwo."
    assert erase_notes(text) == text
