"""Lines about tool calls that say nearly the same are one line with a count."""

from __future__ import annotations

import json

import pytest

from open_webui_openrouter_pipe.conversation.facts import state_fact
from open_webui_openrouter_pipe.summaries.completion import group_tool_lines


def rows(count: int, *, column: str = "name") -> str:
    """The fact of so many rows."""
    return state_fact(json.dumps([{"id": count * 100 + at, column: f"n{at}" * 20} for at in range(count)]))


def line(number: int, fact: str, *, tool: str = "search", argument: str = "q") -> str:
    """One call of a tool."""
    words = "about " + "abcdefghijklmnop"[number]
    return f'{tool}({{"{argument}": "{words}", "page": {number}}}): {fact}'


def test_the_first_and_the_newest_are_kept() -> None:
    """Other calls keep their order between them."""
    alike = [line(at, rows(at + 5)) for at in range(16)]
    other = line(3, rows(9), tool="fetch")
    assert group_tool_lines([*alike[:5], other, *alike[5:]]) == (
        alike[0],
        other,
        f"{alike[-1]} (and 14 more like it)",
    )


def test_a_few_lines_are_all_shown() -> None:
    """Four are grouped, three are not."""
    alike = [line(at, rows(at + 5)) for at in range(4)]
    assert group_tool_lines(alike[:3]) == tuple(alike[:3])
    assert group_tool_lines(alike) == (alike[0], f"{alike[3]} (and 2 more like it)")


@pytest.mark.parametrize(
    "different",
    [
        line(7, rows(9), tool="fetch"),
        line(7, rows(9), argument="query"),
        line(7, rows(9, column="title")),
        line(7, "[Tool: error | Error: no such table]"),
        line(7, state_fact(json.dumps({"title": "t" * 500, "pages": 3}))),
    ],
    ids=["tool", "argument", "columns", "error", "object"],
)
def test_a_line_of_another_form_stands_for_itself(different: str) -> None:
    """Another tool, other arguments, other columns, or an error among results."""
    alike = [line(at, rows(at + 5)) for at in range(4)]
    assert different in group_tool_lines([*alike[:2], different, *alike[2:]])


def test_whole_outputs_are_never_grouped() -> None:
    """They are results, not examples of them: each may matter."""
    whole = [line(at, f'{{"degrees": {at}}}') for at in range(16)]
    assert group_tool_lines(whole) == tuple(whole)


def test_errors_that_differ_are_all_shown() -> None:
    """Their words say what went wrong."""
    names = ["table", "column", "index", "view", "schema", "user"]
    errors = [line(at, f"[Tool: error | Error: no such {name}]") for at, name in enumerate(names)]
    assert group_tool_lines(errors) == tuple(errors)
