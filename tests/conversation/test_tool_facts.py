"""Tool results as facts: each form once, secrets, sizes. What holds of all is in `test_tool_outputs.py`."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.facts import output_text, state_fact, state_output
from open_webui_openrouter_pipe.responses.items import FunctionCallOutput, InputPart
from tests.support.rows import rows, whole

CASES: Final = Path(__file__).with_name("facts.txt")
PLAIN: Final = json.dumps([{"diagnosis": "Malignant neoplasm " * 8, "count": at} for at in range(247)])
FACT: Final = state_fact(PLAIN)


@pytest.mark.parametrize(("title", "written", "fact"), rows(CASES, "facts"))
def test_each_form_has_its_fact(title: str, written: Any, fact: Any) -> None:
    """JSON, tables, diffs, pages, code and logs by what they hold, anything else by head and tail."""
    assert state_fact(whole(written)) == whole(fact), title


WRAPPED: Final = (
    json.dumps(PLAIN),
    json.dumps(json.dumps(PLAIN)),
    html.escape(PLAIN),
    PLAIN[1:-1].replace("}, {", "}\n{"),
)


@pytest.mark.parametrize("wrapped", WRAPPED, ids=["string", "twice", "html", "lines"])
def test_rows_are_found_however_they_are_wrapped(wrapped: str) -> None:
    """In JSON strings, in HTML, one object a line."""
    assert state_fact(wrapped) == FACT


def test_parts_are_stated_and_attachments_named() -> None:
    """The texts of an output in parts become one fact; images and files are named."""
    parts: list[InputPart] = [
        {"type": "input_text", "text": PLAIN},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"},
    ]
    item: FunctionCallOutput = {"type": "function_call_output", "call_id": "call_1", "output": parts}
    assert state_output(item) == f"{FACT}\n[image omitted]"
    assert output_text(parts, str) == f"{PLAIN}\n[image omitted]"


@pytest.mark.parametrize("written", rows(CASES, "secrets"))
def test_secrets_are_masked_in_facts(written: Any) -> None:
    """Wherever they stand, also where a fact ends within one."""
    fact = state_fact(whole(written))
    assert "[masked]" in fact
    assert "hunter2" not in fact


@pytest.mark.parametrize(("title", "written", "shown", "hidden"), rows(CASES, "sizes"))
def test_facts_are_cut_at_these_sizes(title: str, written: Any, shown: str, hidden: str) -> None:
    """What is shown just so, and what is not: one character, row or line too much."""
    fact = state_fact(whole(written))
    assert (shown in fact, hidden in fact) == (True, False), title


_WORDS = st.text(max_size=90) | st.sampled_from(["word ", "1,", "a\n", "# a\n\n", "x: 1\n"])
_LONG = st.builds(lambda text, times: text * times, _WORDS, st.integers(1, 200))
_FLAT = st.lists(_LONG, max_size=6) | st.dictionaries(_WORDS, _LONG, max_size=6)
_JSON = _FLAT | st.lists(_FLAT, max_size=6) | st.dictionaries(_WORDS, _FLAT, max_size=6)


@given(_LONG | _JSON.map(json.dumps) | _JSON.map(json.dumps).map(html.escape))
def test_a_fact_is_short_whatever_a_tool_gives(written: str) -> None:
    """At most a quarter and 150 tokens; small outputs stay."""
    fact, tokens = state_fact(written), estimate_tokens(written)
    assert fact == written if tokens < 200 else estimate_tokens(fact) <= min(150, tokens / 4)


def test_a_long_output_is_not_counted_whole() -> None:
    """Only 8,000 characters of its beginning and of its end."""
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return estimate_tokens(text)

    state_fact("words of it " * 50_000, count)
    assert 16_000 <= max(counted) < 17_000


@pytest.mark.parametrize(
    "text", ['{"x":[],"a":' * 5_000 + "1" + "}" * 5_000, "[[]," * 3_000 + "1" + "]" * 3_000]
)
def test_what_is_nested_deeper_than_it_can_be_read_is_text(text: str) -> None:
    """A request is planned all the same."""
    assert state_fact(text).startswith("[Tool: text (characters: ")


def test_a_table_has_rows() -> None:
    """A quotation mark that is left open makes all lines the names of columns."""
    assert "table" not in state_fact('a,"b\n' + "-+-|-=-+-\n" * 300 + 'c\nd\ne"\n')


def test_only_lines_of_hunks_are_changes() -> None:
    """Not what stands between patches; files that changed in name or mode alone count, and a list is no diff."""
    patch = (
        "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
        "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1,2 +1,2 @@\n-x\n+y\n \n\\ No newline\n"
    )
    mail = f"{patch}-- \n2.47\n\n" + "- a bullet of the next message\n" * 3
    assert state_fact(mail * 8).startswith("[Tool: diff (files: 16, added: 8, removed: 8)]\n")
    assert "diff" not in state_fact(patch + "- a bullet of a long list\n" * 60).partition("\n")[0]
