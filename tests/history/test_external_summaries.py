"""Summaries of others: where they stand, what is left without them, and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.history.external_summaries import (
    split_summaries,
    summary_messages,
    unique_summaries,
)
from tests.history.builders import assistant, mark, system, tool, tool_call, user

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
        f'{HOST}Foxes.\nMCP server "a" is away.\n<skill tree>',
        "",
        ('Foxes.\nMCP server "a" is away.\n<skill tree>',),
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


SKYZI = user("<auto_compaction_context>\n<![CDATA[Foxes.]]>\n</auto_compaction_context>")
MEMORY = assistant("<working_memory>Foxes.</working_memory>\n")
DECLARED = assistant("Earlier:\nFoxes.", metadata={"covered_until": 5})

MESSAGES: list[tuple[str, list[Any], dict[int, str]]] = [
    ("before the question", [SKYZI, user("q")], {0: "\n<![CDATA[Foxes.]]>\n"}),
    ("behind the instructions", [system("S"), MEMORY, user("q")], {1: "Foxes."}),
    (
        "in parts",
        [user([{"type": "text", "text": SKYZI["content"]}]), user("q")],
        {0: "\n<![CDATA[Foxes.]]>\n"},
    ),
    (
        "with attributes",
        [user('<auto_compaction_context v="1">F</auto_compaction_context>'), user("q")],
        {0: "F"},
    ),
    ("several", [SKYZI, MEMORY, user("q")], {0: "\n<![CDATA[Foxes.]]>\n", 1: "Foxes."}),
    ("declared", [user("q"), DECLARED, user("r")], {1: "Earlier:\nFoxes."}),
    ("declared block", [user("q"), {**MEMORY, **DECLARED, "content": MEMORY["content"]}], {1: "Foxes."}),
]
NOT_MESSAGES: list[list[Any]] = [
    [SKYZI],
    [SKYZI, assistant("What is this?"), user("q")],
    [user("q"), MEMORY, user("r")],
    [user("q"), SKYZI],
    [user(f"{SKYZI['content']} What is this?"), user("q")],
    [user("<auto_compaction_context>a</auto_compaction_context> b </auto_compaction_context>"), user("q")],
    [user(MEMORY["content"]), user("q")],
    [assistant(SKYZI["content"]), user("q")],
    [assistant(MEMORY["content"], tool_call("c1")), tool("c1", "x"), user("q")],
    [user([{"type": "text", "text": SKYZI["content"]}, {"type": "image_url", "image_url": "x"}]), user("q")],
    [
        user("q"),
        assistant("a", metadata={"covered_until": True}),
        assistant("b", metadata={"covered_until": "5"}),
    ],
    [user(DECLARED["content"]) | {"metadata": {"covered_until": 5}}],
    [user("q"), assistant("", metadata={"covered_until": 5})],
    [None, {"role": []}, {"role": None, "metadata": {"covered_until": 5}}, user("q")],
]


@pytest.mark.parametrize(("messages", "found"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES])
def test_whole_messages(messages: list[Any], found: dict[int, str]) -> None:
    """A message that is nothing but a block before the user's first, or that says so itself."""
    assert summary_messages(messages) == found


@pytest.mark.parametrize("messages", NOT_MESSAGES)
def test_what_people_say_is_no_summary(messages: list[Any]) -> None:
    """A block that was answered, quoted, said by the wrong side or joined by anything else is the chat's own."""
    assert summary_messages(messages) == {}


def test_each_once() -> None:
    """Neither blank ones, nor one that another one holds; markers of answers that they quote are gone."""
    told = ["", "Foxes.", f"\n{mark(1)}\nHens.\n", "Foxes.", " \n", f"- assistant: {mark(2)}Geese. Foxes."]
    assert unique_summaries(told) == ("Hens.", "- assistant: Geese. Foxes.")
