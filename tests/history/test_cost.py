"""What repeats one word costs no more than its length: nobody's text may stop the server."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.additions import split_summaries, split_user_parts, unique_summaries
from open_webui_openrouter_pipe.history.markers import erase_markers, iter_marker_spans
from open_webui_openrouter_pipe.history.parts import text_part
from tests.history.builders import assistant, build, mark, tool, tool_call, user

if TYPE_CHECKING:
    from collections.abc import Callable

_ENOUGH_SECONDS = 0.01
_LONGER = 16
_MOST_GROWTH = 64
"""Sixteen times the length may cost this much more: in proportion it is 16, by the square 256."""

_MARK = mark(1).rstrip()
_FILTER = "[Previous conversation summary]\n"
_END = "[End of summary - recent messages follow]"


def _says(unit: str) -> Callable[[int], object]:
    return lambda count: build([user("q"), assistant(unit * count)])


def _calls_of_each_turn(count: int) -> object:
    turn: list[Any] = [user("q"), assistant("", tool_call("c1")), tool("c1", "out")]
    return build(turn * count)


def _calls_of_one_message(count: int) -> object:
    calls = [tool_call("c1", f'{{"n":{number}}}') for number in range(count)]
    return build([user("q"), assistant("", *calls), *[tool("c1", "out")] * count])


WORK: dict[str, Callable[[int], object]] = {
    "summaries without an end": lambda count: split_summaries(_FILTER * count),
    "summaries whose end does not end its line": lambda count: split_summaries(_FILTER * count + _END + "x"),
    "summaries of the host": lambda count: split_summaries("[CONVERSATION SUMMARY]\n" * count),
    "many summaries": lambda count: unique_summaries(f"{number} {'x' * 50}" for number in range(count)),
    "a question in a text of one letter": lambda count: split_user_parts(
        [text_part("a" * 100 * count)], "a" * 10 * count + "b" + "a" * 10 * count
    ),
    "one call id in each turn": _calls_of_each_turn,
    "one call id in one message": _calls_of_one_message,
    "marks in a line": lambda count: list(iter_marker_spans(f"{_MARK} `" * count)),
    "marks with blanks": lambda count: erase_markers((_MARK + " " * 50) * count),
    "said: marks": _says(_MARK),
    "said: marks in code": _says(f"```\n{_MARK}\n```\n"),
    "said: backticks": _says("`a "),
    "said: fences": _says("```a\n"),
    "said: tags": _says("<think>\n"),
    "said: blocks": _says('<details type="tool_calls" id="c1">\n'),
    "said: half marks": _says("[00000000000000010000]: "),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_cost_grows_with_length(work: Callable[[int], object]) -> None:
    """Measured in processor time at a length where it takes some, and at many times that."""
    count = 200
    while (taken := _seconds(work, count)) < _ENOUGH_SECONDS:
        count *= 2
    assert _seconds(work, _LONGER * count) < _MOST_GROWTH * taken


def _seconds(work: Callable[[int], object], count: int) -> float:
    """The best of some runs, since other programs only ever add to it; without the collector, for the same reason.

    What that costs depends on all that the process holds.
    """
    best = float("inf")
    gc.disable()
    try:
        for _ in range(2):
            started = time.process_time()
            work(count)
            best = min(best, time.process_time() - started)
    finally:
        gc.enable()
    return best
