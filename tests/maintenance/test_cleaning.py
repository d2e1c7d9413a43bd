"""Messages without our markers: the text as if none had been there, and other people's markers untouched."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.markers import (
    PHASE_TYPE,
    REFERENCE_TYPE,
    leading_markers,
    serialize_marker,
    standalone_markers,
)
from open_webui_openrouter_pipe.host.native import NOTICE
from open_webui_openrouter_pipe.maintenance.removal import cleaned_text, marker_ids, without_markers

OURS, THEIRS = "01ABCDEFGH0123456789", "01ZZZZZZZZ0123456789"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (f"{leading_markers([OURS])}Hello", "Hello"),
        (standalone_markers([OURS]), ""),
        (f"One.\n\n{serialize_marker(OURS)}\n\nTwo.", "One.\n\nTwo."),
        (f"One.\n{serialize_marker(OURS)}\nTwo.", "One.\nTwo."),
        (f"One.\n\n{serialize_marker(OURS)}", "One."),
        (f"{serialize_marker(THEIRS)}\n\nOne.", f"{serialize_marker(THEIRS)}\n\nOne."),
        (f"```\n{serialize_marker(OURS)}\n```", "```\n```"),
        ("  kept \n\n as it is\n", "  kept \n\n as it is\n"),
    ],
)
def test_texts(text: str, cleaned: str) -> None:
    """What stood on two sides of a marker keeps the larger gap."""
    assert cleaned_text(text, {OURS}) == cleaned


NOTICE_ITEM = {
    "type": NOTICE,
    "id": "notice_1",
    "status": "completed",
    "content": [{"type": "text", "text": "> Two files were left out."}],
}
SEALED = {"type": "reasoning.encrypted", "data": "x"}


def message(text: str) -> dict[str, Any]:
    """An answer as the host stores it: reasoning with a reference, an item of markers alone, and the text."""
    reference = {"type": REFERENCE_TYPE, "id": OURS}
    output = [
        {"type": "reasoning", "id": "r", "summary": [], "reasoning_details": [SEALED, reference]},
        {"type": "reasoning", "id": "r2", "summary": [], "reasoning_details": [reference]},
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": f"\n[{OURS}]: #\n"}]},
        {"type": "message", "id": "m2", "content": [{"type": "output_text", "text": text}]},
    ]
    return {"role": "assistant", "content": text, "output": output}


def test_messages() -> None:
    """Text, items and references are cleaned; an item that held only markers is gone."""
    marked = message(f"{leading_markers([OURS])}Hello")
    before = repr(marked)
    assert without_markers(marked, {OURS}, is_our_answer=False) == {
        "role": "assistant",
        "content": "Hello",
        "output": [
            {"type": "reasoning", "id": "r", "summary": [], "reasoning_details": [SEALED]},
            {"type": "reasoning", "id": "r2", "summary": []},
            {"type": "message", "id": "m2", "content": [{"type": "output_text", "text": "Hello"}]},
        ],
    }
    assert (repr(marked), {*marker_ids(marked)}) == (before, {OURS})


def test_a_message_without_our_markers_is_left_alone() -> None:
    """Nothing is written for it."""
    assert without_markers(message("Hello"), {THEIRS}, is_our_answer=False) is None
    for odd in (
        {"content": None, "output": None},
        {"content": [{"text": 1}], "output": ["x", {"content": 1}]},
    ):
        assert without_markers(odd, set(), is_our_answer=True) is None


def test_lines_about_an_answer_stay_without_our_name() -> None:
    """Whoever wrote the message, people have read them; the page draws items of types that it does not know."""
    for is_ours in (True, False):
        cleaned = without_markers(
            {"role": "assistant", "output": [NOTICE_ITEM, *message("Hello")["output"][3:]]},
            set(),
            is_our_answer=is_ours,
        )
        assert cleaned == {
            "role": "assistant",
            "output": [{**NOTICE_ITEM, "type": "notice"}, *message("Hello")["output"][3:]],
        }
        assert without_markers(cleaned, set(), is_our_answer=is_ours) is None


def test_a_phase_goes_with_the_markers() -> None:
    """Other details of the reasoning stay; a message that holds nothing of ours is left alone."""
    theirs = {"type": "reasoning.text", "text": "Hm."}
    item = {"type": "reasoning", "reasoning_details": [{"type": PHASE_TYPE, "phase": "commentary"}, theirs]}
    cleaned = without_markers({"output": [item]}, set(), is_our_answer=True)
    assert cleaned == {"output": [{"type": "reasoning", "reasoning_details": [theirs]}]}
    assert without_markers(cleaned, set(), is_our_answer=True) is None


def test_an_example_in_code_is_no_marker() -> None:
    """Unless its artifact is held; in an answer of ours, one outside of code always is a marker."""
    quoted = f"```\n{serialize_marker(OURS)}\n```"
    example = {"role": "assistant", "content": f"{serialize_marker(THEIRS)}\n\n{quoted}"}
    cleaned = without_markers(example, set(), is_our_answer=True)
    assert cleaned == {"role": "assistant", "content": quoted}
    assert without_markers(cleaned, set(), is_our_answer=True) is None
    assert without_markers(cleaned, {OURS}, is_our_answer=False) == {**cleaned, "content": "```\n```"}
