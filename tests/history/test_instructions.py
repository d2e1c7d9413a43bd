"""System prompts and user messages taken apart from what the host mixed into them."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.instructions import Prompt, split_prompt, split_user_parts
from tests.history.builders import text

TOLD = "They spoke of foxes."
SUMMARY = f"[CONVERSATION SUMMARY]\n{TOLD}"

PROMPTS: list[tuple[str, str, str | None, Prompt]] = [
    ("nothing known", "Be brief.\nSources: x", None, Prompt("Be brief.\nSources: x", (), "")),
    ("unchanged", "Be brief.", "Be brief.", Prompt("Be brief.", (), "")),
    ("appended", "Be brief.\nSources: x", "Be brief.", Prompt("Be brief.", (), "Sources: x")),
    (
        "base in the middle",
        "Hi.\nBe brief.\nSources: x",
        "Be brief.",
        Prompt("Hi.\nBe brief.", (), "Sources: x"),
    ),
    ("base not in it", "Be loud.", "Be brief.", Prompt("Be loud.", (), "")),
    ("the host has none", "Sources: x", "", Prompt("", (), "Sources: x")),
    ("summary alone", SUMMARY, None, Prompt("", (TOLD,), "")),
    ("summary appended", f"Be brief.\n{SUMMARY}", None, Prompt("Be brief.", (TOLD,), "")),
    (
        "summary in the base, sources after it",
        f"Be brief.\n{SUMMARY}\nSources: x",
        f"Be brief.\n{SUMMARY}",
        Prompt("Be brief.", (TOLD,), "Sources: x"),
    ),
    (
        "the same summary again behind the sources",
        f"Be brief.\n{SUMMARY}\nSources: x\n{SUMMARY}",
        f"Be brief.\n{SUMMARY}",
        Prompt("Be brief.", (TOLD, TOLD), "Sources: x"),
    ),
    (
        "a summary of the tool loop behind that of the chat",
        f"Be brief.\n{SUMMARY}\n[CONVERSATION SUMMARY]\nThey look for more.",
        f"Be brief.\n{SUMMARY}",
        Prompt("Be brief.", (TOLD, "They look for more."), ""),
    ),
]


@pytest.mark.parametrize(("given", "base", "expected"), [p[1:] for p in PROMPTS], ids=[p[0] for p in PROMPTS])
def test_split_prompt(given: str, base: str | None, expected: Prompt) -> None:
    """The base stays first, summaries leave both halves, and what was appended stands alone."""
    assert split_prompt(given, base) == expected


IMAGE = {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"}

USERS: list[tuple[str, list[Any], str | None, list[Any]]] = [
    ("nothing known", [text("hi")], None, [text("hi")]),
    ("unchanged", [text("hi")], "hi", [text("hi")]),
    ("template before", [text("Sources: x\n\nhi")], "hi", [text("hi"), text("Sources: x")]),
    ("template after", [text("hi\nSources: x")], "hi", [text("hi"), text("Sources: x")]),
    ("around", [text("A\nhi\nB")], "hi", [text("hi"), text("A\nB")]),
    ("not on lines of its own", [text("this")], "hi", [text("this")]),
    ("not in it", [text("bye")], "hi", [text("bye")]),
    ("base is blank", [text("bye")], " ", [text("bye")]),
    ("image between", [text("A\nhi"), IMAGE], "hi", [text("hi"), IMAGE, text("A")]),
    (
        "written before each text",
        [text("A\nhi"), text("A\nmore")],
        "hi",
        [text("hi"), text("more"), text("A")],
    ),
    ("no text", [IMAGE], "hi", [IMAGE]),
    ("dirty base", [text("A\nhi")], "h\0i", [text("hi"), text("A")]),
]


@pytest.mark.parametrize(("parts", "base", "expected"), [u[1:] for u in USERS], ids=[u[0] for u in USERS])
def test_split_user_parts(parts: list[Any], base: str | None, expected: list[Any]) -> None:
    """The user's own words stand first, what the host wrote around them last, and only once."""
    assert split_user_parts(parts, base) == expected
