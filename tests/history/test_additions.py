"""What the host and filters add to a chat: volatile text and summaries, found and taken out again."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.additions import (
    SplitPrompt,
    split_memories,
    split_prompt,
    split_summaries,
    split_user_parts,
    unique_summaries,
)
from tests.history.builders import mark, text

# --- volatile text ---

FOXES = "They spoke of foxes."
SUMMARY = f"[CONVERSATION SUMMARY]\n{FOXES}"

PROMPTS: list[tuple[str, str, str | None, SplitPrompt]] = [
    ("nothing known", "Be brief.\nSources: x", None, SplitPrompt("Be brief.\nSources: x", (), "")),
    ("unchanged", "Be brief.", "Be brief.", SplitPrompt("Be brief.", (), "")),
    ("appended", "Be brief.\nSources: x", "Be brief.", SplitPrompt("Be brief.", (), "Sources: x")),
    (
        "base in the middle",
        "Hi.\nBe brief.\nSources: x",
        "Be brief.",
        SplitPrompt("Hi.\nBe brief.", (), "Sources: x"),
    ),
    ("base not in it", "Be loud.", "Be brief.", SplitPrompt("Be loud.", (), "")),
    ("the host has none", "Sources: x", "", SplitPrompt("", (), "Sources: x")),
    ("summary alone", SUMMARY, None, SplitPrompt("", (FOXES,), "")),
    ("summary appended", f"Be brief.\n{SUMMARY}", None, SplitPrompt("Be brief.", (FOXES,), "")),
    (
        "summary in the base, sources after it",
        f"Be brief.\n{SUMMARY}\nSources: x",
        f"Be brief.\n{SUMMARY}",
        SplitPrompt("Be brief.", (FOXES,), "Sources: x"),
    ),
    (
        "the same summary again behind the sources",
        f"Be brief.\n{SUMMARY}\nSources: x\n{SUMMARY}",
        f"Be brief.\n{SUMMARY}",
        SplitPrompt("Be brief.", (FOXES, FOXES), "Sources: x"),
    ),
    (
        "a summary of the tool loop behind that of the chat",
        f"Be brief.\n{SUMMARY}\n[CONVERSATION SUMMARY]\nThey look for more.",
        f"Be brief.\n{SUMMARY}",
        SplitPrompt("Be brief.", (FOXES, "They look for more."), ""),
    ),
]


@pytest.mark.parametrize(("given", "base", "expected"), [p[1:] for p in PROMPTS], ids=[p[0] for p in PROMPTS])
def test_split_prompt(given: str, base: str | None, expected: SplitPrompt) -> None:
    """The base stays first, summaries leave both halves, and what was appended stands alone."""
    assert split_prompt(given, base) == expected


IMAGE = {"type": "input_image", "detail": "auto", "image_url": "https://x.org/a.png"}

USERS: list[tuple[str, list[Any], str | None, list[Any]]] = [
    ("nothing known", [text("hi")], None, [text("hi")]),
    ("unchanged", [text("hi")], "hi", [text("hi")]),
    ("template before", [text("Sources: x\n\nhi")], "hi", [text("hi"), text("Sources: x")]),
    ("template after", [text("hi\nSources: x")], "hi", [text("hi"), text("Sources: x")]),
    (
        "quoted by the template",
        [text("Of old:\nhi\nNow:\nhi")],
        "hi",
        [text("hi"), text("Of old:\nhi\nNow:")],
    ),
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
    (
        "written before each text with blank lines",
        [text("A\n\nfiles\n\n"), text("A\n\nhi"), IMAGE],
        "files\n\n",
        [text("files\n\n"), text("hi"), IMAGE, text("A")],
    ),
    (
        "written before no words",
        [text("A\n\nfiles\n\n"), text("A\n\n"), IMAGE],
        "files\n\n",
        [text("files\n\n"), IMAGE, text("A")],
    ),
    ("no text", [IMAGE], "hi", [IMAGE]),
    ("dirty base", [text("A\nhi")], "h\0i", [text("hi"), text("A")]),
]


@pytest.mark.parametrize(("parts", "base", "expected"), [u[1:] for u in USERS], ids=[u[0] for u in USERS])
def test_split_user_parts(parts: list[Any], base: str | None, expected: list[Any]) -> None:
    """The user's own words stand first, what the host wrote around them last, and only once."""
    assert split_user_parts(parts, base) == expected


# --- memories ---

MEMORIES = "<memory_context>\n[User Memory]\n- Likes foxes.\n  And hens.\n\n[Relevant Context]\n- x\n</memory_context>"
EXAMPLE = "<memory_context>\n[User Memory]\n- an example\n</memory_context>"

WITH_MEMORIES: list[tuple[str, str, str]] = [
    ("alone", MEMORIES, ""),
    ("behind a prompt", f"Be brief.\n{MEMORIES}", "Be brief."),
    ("with a blank line before", f"Be brief.\n\n{MEMORIES}", "Be brief.\n"),
    (
        "with what the host writes behind it",
        f"Be brief.\n{MEMORIES}\n\n\n##### Pyodide Environment\n\n- Go.",
        "Be brief.\n\n\n##### Pyodide Environment\n\n- Go.",
    ),
    (
        "in front of skills",
        f'{MEMORIES}\n<skill id="a" name="b">\nx\n</skill>',
        '<skill id="a" name="b">\nx\n</skill>',
    ),
    (
        "behind an example",
        f"They look like this:\n{EXAMPLE}\nUse them.\n{MEMORIES}",
        f"They look like this:\n{EXAMPLE}\nUse them.",
    ),
]
NO_MEMORIES = [
    "Be brief.",
    f"They look like this:\n{EXAMPLE}\nUse them.",
    f"They look like this: {EXAMPLE}",
    f"{EXAMPLE} is an example.",
    "<memory_context>\n[User Memory]\n- without an end",
    "<memory_context>\nWhatever the user said.\n</memory_context>",
    "Write\n```\n<memory_context>\n...\n</memory_context>\n```",
]


@pytest.mark.parametrize(
    ("text", "without"), [m[1:] for m in WITH_MEMORIES], ids=[m[0] for m in WITH_MEMORIES]
)
def test_memories_are_taken_out(text: str, without: str) -> None:
    """What stays is the text as the host would have sent it without any."""
    assert split_memories(text) == (without, MEMORIES)


@pytest.mark.parametrize("text", NO_MEMORIES)
def test_a_quoted_block_of_memories_stays(text: str) -> None:
    """A prompt may show one; behind the host's own, only the host writes."""
    assert split_memories(text) == (text, "")


PICTURE = "<context>The requested image has been created by the system successfully.</context>"


@pytest.mark.parametrize(
    ("text", "without"),
    [
        (PICTURE, ""),
        (f"Be brief.\n{PICTURE}", "Be brief."),
        (f"{PICTURE}\nBe brief.\n", "Be brief.\n"),
        (f"Be brief.\n{PICTURE}\n##### Pyodide Environment\n", "Be brief.\n##### Pyodide Environment\n"),
    ],
)
def test_the_line_about_a_picture_is_taken_out(text: str, without: str) -> None:
    """It is about one question; before the memories, it goes with them."""
    assert split_memories(text) == (without, PICTURE)
    assert split_memories(f"{text}\n{MEMORIES}")[1] == f"{PICTURE}\n{MEMORIES}"


@pytest.mark.parametrize("text", [f"Write {PICTURE}", "<context>The image is here.</context>"])
def test_any_other_context_stays(text: str) -> None:
    """A prompt may hold tags of its own."""
    assert split_memories(text) == (text, "")


# --- summaries ---

HOST = "[CONVERSATION SUMMARY]\n"
FILTER = "[Previous conversation summary]\n"
FILTER_END = "[End of summary - recent messages follow]"

TEXTS: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("nothing", "Be brief.\n", "Be brief.\n", ()),
    ("the host's alone", f"{HOST}Foxes.", "", ("Foxes.",)),
    ("the host's at the end", f"Be brief.\n{HOST}Foxes.\n\nHens.", "Be brief.", ("Foxes.\n\nHens.",)),
    ("two of the host's", f"Be brief.\n{HOST}Foxes.\n{HOST}Hens.", "Be brief.", ("Foxes.", "Hens.")),
    ("blank", f"Be brief.\n{HOST}", "Be brief.", ("",)),
    (
        "with what the host writes behind it",
        f"Be brief.\n{HOST}Foxes.\n\n\n##### Pyodide Environment\n\n- Go.\n<available_skills>\n",
        "Be brief.\n\n\n##### Pyodide Environment\n\n- Go.\n<available_skills>\n",
        ("Foxes.",),
    ),
    (
        "with a server's instructions behind it",
        f'{HOST}Foxes.\nMCP server "a" instructions:\nAsk.',
        'MCP server "a" instructions:\nAsk.',
        ("Foxes.",),
    ),
    (
        "that speaks of what the host writes",
        f'{HOST}Foxes.\nMCP server "a" is down.\n<skill tree>',
        "",
        ('Foxes.\nMCP server "a" is down.\n<skill tree>',),
    ),
    (
        "of a newer host",
        "Be brief.\n<openwebui_context_summary>\nFoxes.\n</openwebui_context_summary>\nMore.",
        "Be brief.\nMore.",
        ("\nFoxes.\n",),
    ),
    (
        "of a newer host, under the heading",
        f"Be brief.\n{HOST}<openwebui_context_summary>Foxes.</openwebui_context_summary>",
        "Be brief.",
        ("", "Foxes."),
    ),
    (
        "of a filter, with its facts",
        f"Be brief.\n{FILTER}Foxes.\n[Tool calls from earlier in conversation]\n- [Tool: 3 rows]\n{FILTER_END}",
        "Be brief.",
        ("Foxes.\n[Tool calls from earlier in conversation]\n- [Tool: 3 rows]\n",),
    ),
    ("within a filter's", f"{FILTER}{HOST}Foxes.\n{FILTER_END}", "", (f"{HOST}Foxes.\n",)),
]
NOT_BLOCKS = [
    "Say [CONVERSATION SUMMARY]\nFoxes.",
    "[CONVERSATION SUMMARY] Foxes.",
    f"{FILTER}Foxes.",
    f"{FILTER}Foxes.\n{FILTER_END} is how it ends.",
    "<openwebui_context_summary>Foxes.",
    "Write <openwebui_context_summary>Foxes.</openwebui_context_summary>",
    "<openwebui_context_summary>Foxes.</openwebui_context_summary>, always.",
]


@pytest.mark.parametrize(("text", "kept", "summaries"), [t[1:] for t in TEXTS], ids=[t[0] for t in TEXTS])
def test_system_text(text: str, kept: str, summaries: tuple[str, ...]) -> None:
    """What stays is the text as the host would have sent it without the summary."""
    assert split_summaries(text) == (kept, summaries)


@pytest.mark.parametrize("text", NOT_BLOCKS)
def test_a_mark_alone_is_no_summary(text: str) -> None:
    """Within a line, or without its end, it is text."""
    assert split_summaries(text) == (text, ())


def test_each_once() -> None:
    """Neither blank ones, nor one that another one holds; markers of answers that they quote are removed."""
    found = ["", "Foxes.", f"\n{mark(1)}\nHens.\n", "Foxes.", " \n", f"- assistant: {mark(2)}Geese. Foxes."]
    assert unique_summaries(found) == ("Hens.", "- assistant: Geese. Foxes.")
