"""Tool results as facts."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.facts import output_text, state_fact, state_output
from open_webui_openrouter_pipe.responses.items import FunctionCallOutput, InputPart
from tests.support.rows import rows, whole

CASES: Final = Path(__file__).with_name("facts.txt")

ROWS = [{"diagnosis": "Malignant neoplasm " * 8, "count": number} for number in range(247)]
FACT = (
    '[Tool: 247 rows | columns: diagnosis, count | first: {"diagnosis": '
    '"Malignant neoplasm Malignant neoplasm Malignant neoplasm Malignant neoplasm Mali…", "count": 0}]'
)
PLAIN = json.dumps(ROWS)


@pytest.mark.parametrize(
    "written",
    [
        PLAIN,
        json.dumps({"results": ROWS, "took": 3}),
        json.dumps({"data": {"items": ROWS}}),
        json.dumps({"rows": PLAIN}),
        json.dumps(PLAIN),
        json.dumps(json.dumps(PLAIN)),
        json.dumps(json.dumps(json.dumps(PLAIN))),
        html.escape(PLAIN),
        html.escape(json.dumps({"results": ROWS})),
        "\n".join(json.dumps(row) for row in ROWS),
    ],
    ids=["rows", "results", "nested", "inner", "string", "twice", "thrice", "html", "html-results", "lines"],
)
def test_rows_are_counted_and_the_first_is_shown(written: str) -> None:
    """However they are wrapped: number, columns and the first row with long values shortened."""
    assert state_fact(written) == FACT


def test_text_around_the_rows_is_kept() -> None:
    """Where they are escaped once more too; but a text is unwrapped no more than three times."""
    assert state_fact(f"Found these:\n{PLAIN}\nNothing else.") == f"Found these:\n{FACT}\nNothing else."
    assert FACT in state_fact("Result: " + PLAIN.replace('"', '\\"') + " done")
    assert state_fact(json.dumps(json.dumps(json.dumps(json.dumps(PLAIN))))) != FACT


def test_parts_are_stated_and_attachments_named() -> None:
    """The texts of an output in parts become one fact; images and files are named."""
    parts: list[InputPart] = [
        {"type": "input_text", "text": PLAIN},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
    ]
    item: FunctionCallOutput = {"type": "function_call_output", "call_id": "call_1", "output": parts}
    assert state_output(item) == f"{FACT}\n[image omitted]"
    assert output_text(parts) == f"{PLAIN}\n[image omitted]"


@pytest.mark.parametrize(("title", "written", "fact"), rows(CASES, "facts"))
def test_other_forms_have_their_fact(title: str, written: Any, fact: Any) -> None:
    """Tables, objects and errors by what they hold, what cannot be read by head and tail; a short output stays."""
    assert state_fact(whole(written)) == whole(fact), title


@pytest.mark.parametrize(("written", "failed"), rows(CASES, "failures"))
def test_failures_are_recognized(written: Any, *, failed: bool) -> None:
    """From 2,000 characters on a text needs more for that than an error's beginning."""
    assert state_fact(whole(written)).startswith("[Tool: error | ") is failed


@pytest.mark.parametrize("written", rows(CASES, "secrets"))
def test_secrets_are_masked_in_facts(written: Any) -> None:
    """Wherever they stand, also where a fact ends within one."""
    fact = state_fact(whole(written))
    assert "[masked]" in fact
    assert "hunter2" not in fact


_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=200)
_FLAT = st.lists(_VALUES, max_size=6) | st.dictionaries(st.text(max_size=9), _VALUES, max_size=6)
_JSON = (
    _VALUES | _FLAT | st.lists(_FLAT, max_size=6) | st.dictionaries(st.text(max_size=9), _FLAT, max_size=6)
)


@given(
    st.text(max_size=3000) | _JSON.map(json.dumps) | _JSON.map(lambda value: html.escape(json.dumps(value)))
)
def test_a_fact_is_never_longer_and_always_the_same(written: str) -> None:
    """Whatever a tool gives, its fact exists, is not longer, and is the same each time."""
    fact = state_fact(written)
    assert len(fact) <= len(written)
    assert fact == state_fact(written)


NUMBERS = json.dumps(list(range(200)))
LINE = '{"a": 1, "b": "a value that is long enough"}'


@pytest.mark.parametrize(
    ("within", "beyond", "shown"),
    [
        (json.dumps([{"a": "x" * 80}] * 9), json.dumps([{"a": "x" * 81}] * 9), "x…"),
        (
            json.dumps([dict.fromkeys("abcdefghijklmnopqrst", 1)] * 9),
            json.dumps([dict.fromkeys("abcdefghijklmnopqrstu", 1)] * 9),
            ", and 1 more",
        ),
        (json.dumps([{"x" * 60: 1}] * 9), json.dumps([{"x" * 61: 1}] * 9), "x…"),
        (f"{'c' * 300}{NUMBERS}", f"{'c' * 301}{NUMBERS}", "c…"),
        (f"{NUMBERS}{'c' * 300}", f"{NUMBERS}{'c' * 301}", "c…"),
        ("c" * (len(NUMBERS) + 1) + NUMBERS, "c" * len(NUMBERS) + NUMBERS, "200 rows"),
        (f"{LINE}\n{LINE}", f"{LINE}\n{LINE}\n{LINE}", "3 rows"),
    ],
    ids=["value", "columns", "name", "comment before", "comment behind", "share of JSON", "lines"],
)
def test_facts_are_cut_at_these_sizes(within: str, beyond: str, shown: str) -> None:
    """What is shown, or named as cut, from one character, column or line on."""
    assert [shown in state_fact(written) for written in (within, beyond)] == [False, True]


def test_a_first_row_has_a_length() -> None:
    """600 characters."""
    row = dict.fromkeys("abcdefgh", "x" * 80)
    first = json.dumps(row)[:600]
    assert state_fact(json.dumps([row] * 9)).endswith(f"| first: {first}…]")
