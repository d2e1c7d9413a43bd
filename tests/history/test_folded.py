"""Blocks folded into assistant text, as older hosts and some models write them."""

from __future__ import annotations

import html
import json
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.folded import FoldedCall, unfold


def details(call_id: str, arguments: str, result: Any, *, name: str = "search", done: str = "true") -> str:
    """A tool call as Open WebUI 0.6 writes it: JSON in JSON in an escaped attribute."""
    given = html.escape(json.dumps(arguments))
    shown = (
        f' result="{html.escape(json.dumps(result, ensure_ascii=False))}" files=""' if done == "true" else ""
    )
    return (
        f'<details type="tool_calls" done="{done}" id="{call_id}" name="{name}" arguments="{given}"{shown}>\n'
        "<summary>Tool Executed</summary>\n</details>\n"
    )


def details_with_body(call_id: str, arguments: str, result: Any) -> str:
    """A tool call as later versions write it: the result in the body."""
    given, shown = html.escape(json.dumps(arguments)), html.escape(json.dumps(result))
    return (
        f'<details type="tool_calls" done="true" id="{call_id}" name="search" arguments="{given}" files="">\n'
        f"<summary>Tool Executed</summary>\n{shown}\n</details>\n"
    )


REASONING = (
    '<details type="reasoning" done="true" duration="3">\n<summary>Thought for 3 seconds</summary>\n'
    "&gt; I think.\n</details>\n"
)
CODE = (
    '<details type="code_interpreter" done="true" output="{}">\n<summary>Analyzed</summary>\n'
    "```python\nprint(1)\n```\n</details>\n"
)
RESULT = 'out <1> "q"'
QUOTED = '{"q": "<b> \\"x\\" & y"}'

CASES: list[tuple[str, str, list[Any]]] = [
    ("plain", "a\n\n<b>b</b>\n", ["a\n\n<b>b</b>\n"]),
    ("reasoning block", f"{REASONING}Answer.\n", ["Answer.\n"]),
    ("reasoning alone", REASONING, []),
    ("think tags", "<think>\nhm\n</think>\n\nAnswer.", ["Answer."]),
    ("other tags", "<reasoning>hm</reasoning>\n<Thought>hm</Thought>A", ["A"]),
    ("symbol tags", "◁think▷hm◁/think▷A <|begin_of_thought|>", ["A <|begin_of_thought|>"]),
    ("unclosed thinking is text", "<think>\nhm", ["<think>\nhm"]),
    ("a tag within a line is text", "Use <think>x</think> tags.", ["Use <think>x</think> tags."]),
    ("blocks in closed code are text", f"```\n{REASONING}```\nx", [f"```\n{REASONING}```\nx"]),
    (
        "other details are text",
        '<details type="note">\nx\n</details>',
        ['<details type="note">\nx\n</details>'],
    ),
    ("unclosed details are text", '<details type="reasoning">\nx', ['<details type="reasoning">\nx']),
    (
        "nested details",
        '<details type="reasoning">\n<details><summary>x</summary></details>\n</details>\nA',
        ["A"],
    ),
    (
        "call",
        f"Before.\n{details('c1', QUOTED, RESULT)}After.",
        ["Before.", FoldedCall("c1", "search", QUOTED, RESULT), "After."],
    ),
    (
        "call with its result in the body",
        details_with_body("c1", "{}", "out"),
        [FoldedCall("c1", "search", "{}", "out")],
    ),
    (
        "call with a structured result",
        details("c1", "{}", {"a": [1]}),
        [FoldedCall("c1", "search", "{}", {"a": [1]})],
    ),
    ("call whose result is null", details("c1", "{}", None), [FoldedCall("c1", "search", "{}", "null")]),
    ("call under way", details("c1", "{}", None, done="false"), [FoldedCall("c1", "search", "{}", None)]),
    (
        "call with text that is not JSON",
        '<details type="tool_calls" id="c1" name="f" arguments="{bad" result="plain">\n</details>',
        [FoldedCall("c1", "f", "{bad", "plain")],
    ),
    (
        "call without attributes",
        '<details type="tool_calls">\n<summary>x</summary>\n</details>',
        [FoldedCall("", "", "", None)],
    ),
    (
        "code interpreter with its output",
        "Let me see.\n" + CODE.format(html.escape(json.dumps({"stdout": "1\n"}))),
        ["Let me see.", "```python\nprint(1)\n```\n```output\n1\n```"],
    ),
    (
        "code interpreter with fences in its output",
        CODE.format(html.escape(json.dumps("````"))),
        ["```python\nprint(1)\n```\n`````output\n````\n`````"],
    ),
    ("code interpreter without output", CODE.format(""), ["```python\nprint(1)\n```"]),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_unfold(text: str, expected: list[Any]) -> None:
    """A closed block at the start of a line, outside of code, is taken out; the rest stays to the byte."""
    assert unfold(text) == expected


LONG = 100_000
HOSTILE = {
    "tags without an end": "<think>\n" * LONG,
    "blocks without an end": '<details type="reasoning">\n' * LONG,
    "openings without an end": "<details " * LONG,
    "tags in code": "```\n<think>\n```\n" * LONG,
    "a long attribute": f"<details {'a' * LONG}>\n</details>",
    "blanks": "<\n" + " " * LONG + "\n" * LONG + " " * LONG,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_no_more_than_reading(name: str) -> None:
    """Text that only looks like blocks is text, and is read in one go, however long."""
    assert unfold(HOSTILE[name]) == [HOSTILE[name]]


def test_a_long_body_costs_no_more_than_reading() -> None:
    """Nor does what stands within a block."""
    assert unfold(f'<details type="reasoning">{chr(10) * LONG}{"<summary>" * LONG}</details>') == []
