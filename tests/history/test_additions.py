"""What the host and filters add to a chat, found and taken out again: see `additions.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from open_webui_openrouter_pipe.history.additions import (
    SplitPrompt,
    split_memories,
    split_prompt,
    split_summaries,
    split_user_parts,
    unique_summaries,
)
from tests.history.builders import as_parts, mark
from tests.support.rows import rows

CASES: Final = Path(__file__).with_name("additions.txt")
IMAGE: Final = {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"}
BLOCKS: Final = {
    "<memories>": (
        "<memory_context>\n[User Memory]\n- Likes foxes.\n  And hens.\n\n[Relevant Context]\n- x\n</memory_context>"
    ),
    "<example>": "<memory_context>\n[User Memory]\n- an example\n</memory_context>",
    "<picture>": ("<context>The requested image has been created by the system successfully.</context>"),
}


@pytest.mark.parametrize(
    ("title", "text", "base", "stable", "summaries", "volatile"), rows(CASES, "system prompts")
)
def test_a_system_prompt_is_split(
    title: str, text: str, base: str | None, stable: str, summaries: list[str], volatile: str
) -> None:
    """The base stays first, summaries leave both halves, and what was appended stands alone."""
    assert split_prompt(text, base) == SplitPrompt(stable, tuple(summaries), volatile), title


@pytest.mark.parametrize(("title", "given", "base", "parts"), rows(CASES, "questions", {"image": IMAGE}))
def test_the_users_own_words_come_first(
    title: str, given: list[Any], base: str | None, parts: list[Any]
) -> None:
    """What the host wrote around them stands last, and only once."""
    assert split_user_parts(as_parts(given), base) == as_parts(parts), title


def filled(text: str) -> str:
    """The text with the host's blocks in their places."""
    for name, block in BLOCKS.items():
        text = text.replace(name, block)
    return text


@pytest.mark.parametrize(("title", "text", "without", "taken"), rows(CASES, "memories"))
def test_memories_and_the_line_about_a_picture_are_taken_out(
    title: str, text: str, without: str, taken: str
) -> None:
    """What stays is the text as the host would have sent it without them; what a prompt quotes stays."""
    assert split_memories(filled(text)) == (filled(without), filled(taken)), title


@pytest.mark.parametrize(("title", "text", "kept", "summaries"), rows(CASES, "summaries"))
def test_summaries_are_taken_out(title: str, text: str, kept: str, summaries: list[str]) -> None:
    """What stays is the text as the host would have sent it without; a mark alone is text."""
    assert split_summaries(text) == (kept, tuple(summaries)), title


def test_each_summary_is_kept_once() -> None:
    """Neither blank ones, nor one that another one holds; markers of answers that they quote are removed."""
    found = ["", "Foxes.", f"\n{mark(1)}\nHens.\n", "Foxes.", " \n", f"- assistant: {mark(2)}Geese. Foxes."]
    assert unique_summaries(found) == ("Hens.", "- assistant: Geese. Foxes.")
