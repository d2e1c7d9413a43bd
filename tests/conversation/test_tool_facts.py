"""Tool results as facts."""

from __future__ import annotations

import html
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.facts import output_text, state_fact, state_output
from open_webui_openrouter_pipe.conversation.tokens import truncate_middle
from open_webui_openrouter_pipe.responses.items import FunctionCallOutput, InputPart

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
        html.escape(PLAIN),
        html.escape(json.dumps({"results": ROWS})),
        "\n".join(json.dumps(row) for row in ROWS),
    ],
    ids=["rows", "results", "nested", "inner", "string", "twice", "html", "html-results", "lines"],
)
def test_rows_are_counted_and_the_first_is_shown(written: str) -> None:
    """However they are wrapped: number, columns and the first row with long values shortened."""
    assert state_fact(written) == FACT


def test_text_around_the_rows_is_kept() -> None:
    """Commentary before and after the rows stays in its place."""
    assert state_fact(f"Found these:\n{PLAIN}\nNothing else.") == f"Found these:\n{FACT}\nNothing else."


def test_doubly_escaped_rows_in_a_text_are_read() -> None:
    """Quotes that were escaped once more are undone."""
    assert FACT in state_fact("Result: " + PLAIN.replace('"', '\\"') + " done")


@pytest.mark.parametrize(
    ("written", "fact"),
    [
        (
            "id,name\n" + "\n".join(f"{number},n{number}" for number in range(50)),
            '[Tool: 50 rows | columns: id, name | first: {"id": "0", "name": "n0"}]',
        ),
        (
            "Prices:\n| a | b |\n|---|---|\n" + "| 1 | x |\n" * 30 + "\nEnd.",
            'Prices:\n[Tool: 30 rows | columns: a, b | first: {"a": "1", "b": "x"}]\nEnd.',
        ),
        (
            json.dumps({"title": "t" * 500, "pages": 3}),
            '[Tool: 525 characters | fields: title, pages | {"title": "' + "t" * 80 + '…", "pages": 3}]',
        ),
        (
            json.dumps([{"error": "e" * 90}, {"id": 2}, {"error": None}] * 4),
            '[Tool: 12 rows | 4 of them errors | columns: error | first: {"error": "' + "e" * 80 + '…"}]',
        ),
        ("Error: " + "no " * 300, "[Tool: error | Error: " + ("no " * 300)[: 300 - 7] + "…]"),
        ("[" * 2000, "[Tool: 2,000 characters]\n" + truncate_middle("[" * 2000, 400, 200)),
        ("x" * 700, "[Tool: 700 characters]\n" + truncate_middle("x" * 700, 400, 200)),
    ],
    ids=["csv", "markdown", "object", "errors", "error", "deep", "text"],
)
def test_other_forms_have_their_fact(written: str, fact: str) -> None:
    """Tables, objects and errors by what they hold; what cannot be read by size, head and tail."""
    assert state_fact(written) == fact


@pytest.mark.parametrize("written", ["", "ok", "[]", '{"a": 1}', "Error: no"])
def test_a_short_output_stays(written: str) -> None:
    """A fact that would be longer than the output is not made."""
    assert state_fact(written) == written


def test_parts_are_stated_and_attachments_named() -> None:
    """The texts of an output in parts become one fact; images and files are named."""
    parts: list[InputPart] = [
        {"type": "input_text", "text": PLAIN},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
    ]
    item: FunctionCallOutput = {"type": "function_call_output", "call_id": "call_1", "output": parts}
    assert state_output(item) == f"{FACT}\n[image omitted]"
    assert output_text(parts) == f"{PLAIN}\n[image omitted]"


PAD = " line 3\n" * 60
LONG = " line ok\n" * 300


@pytest.mark.parametrize(
    ("written", "failed"),
    [
        ("Error: no such table" + PAD, True),
        ("Query execution failed: syntax" + PAD, True),
        ("Traceback (most recent call last):\n" + PAD, True),
        (json.dumps({"error": {"message": "quota" + PAD}}), True),
        (json.dumps({"status": "failed", "log": PAD}), True),
        ("Error rates by month\n" + PAD, False),
        (json.dumps({"error": None, "rows": [1, 2], "log": PAD}), False),
        (json.dumps({"results": ROWS, "errors": ["one of many"]}), False),
        ("all good" + PAD, False),
        ("Failed: 0, passed: 300" + PAD, False),
        ("Error: none so far" + PAD, False),
        ("0 errors, 0 failed: all good" + PAD, False),
        ("Error: 0x80070005 access denied" + PAD, True),
        (json.dumps({"errors": 0, "log": PAD}), False),
        (json.dumps({"error": "none", "log": PAD}), False),
        ("Error: something" + LONG, False),
        ("Failed: 3, passed: 297" + LONG, True),
        ("Build failed (exit code 2):" + LONG, True),
        ("Error: the request failed with status 503" + LONG, True),
        ("Traceback (most recent call last):\n" + LONG, True),
    ],
)
def test_failures_are_recognized(written: str, failed: bool) -> None:  # noqa: FBT001 - the expected verdict
    """An error with nothing else is a failure; data with errors in it, a count of none, and a long text are not."""
    assert state_fact(written).startswith("[Tool: error | ") is failed


def test_a_long_text_needs_more_than_an_errors_beginning() -> None:
    """From 2,000 characters on."""
    facts = [state_fact("Error: ".ljust(size, "x")) for size in (1_999, 2_000)]
    assert [fact.startswith("[Tool: error | ") for fact in facts] == [True, False]


@pytest.mark.parametrize(
    "written",
    [
        json.dumps([{"user": "ada", "password": "ghp_hunter2Cd2Ef3Gh4Ij5Kl6"}] * 40),
        json.dumps({"a": {"db": {"password": "ghp_hunter2Cd2Ef3Gh4Ij5Kl6"}}, "text": "t" * 500}),
        "user,password\n" + "ada,ghp_hunter2Cd2Ef3Gh4Ij5Kl6\n" * 40,
        "| user | api_key |\n|---|---|\n" + "| ada | ghp_hunter2Cd2Ef3Gh4Ij5Kl6 |\n" * 40,
        "Error: login failed for password=ghp_hunter2Cd2Ef3Gh4Ij5Kl6\n" + "at line 3\n" * 100,
        "password: ghp_hunter2Cd2Ef3Gh4Ij5Kl6\n" + "line: 3\n" * 200,
        json.dumps(json.dumps([{"user": "ada", "password": "ghp_hunter2Cd2Ef3Gh4Ij5Kl6"}] * 40)),
        "password: a\n" + "line: 3\n" * 200 + "ghp_" + "hunter2" * 60,
    ],
    ids=["rows", "nested", "csv", "markdown", "error", "text", "escaped", "longer than the tail"],
)
def test_secrets_are_masked_in_facts(written: str) -> None:
    """Wherever they stand, also where a fact ends within one."""
    fact = state_fact(written)
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


def test_errors_and_first_rows_have_a_length() -> None:
    """300 characters of an error, 600 of a row."""
    assert state_fact("Error: " + "x" * 400) == f"[Tool: error | Error: {'x' * 293}…]"
    row = dict.fromkeys("abcdefgh", "x" * 80)
    first = json.dumps(row)[:600]
    assert state_fact(json.dumps([row] * 9)).endswith(f"| first: {first}…]")


def test_a_text_is_unwrapped_three_times() -> None:
    """JSON in JSON in JSON, as tools hand it on to each other."""
    once, twice, thrice, four_times = itertools.islice(
        itertools.accumulate(itertools.repeat(PLAIN), lambda text, _: json.dumps(text)), 1, 5
    )
    assert [state_fact(text) for text in (once, twice, thrice)] == [FACT] * 3
    assert state_fact(four_times) != FACT
