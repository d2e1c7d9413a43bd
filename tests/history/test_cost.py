"""What repeats one word costs no more than its length: nobody's chat may stop the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.additions import split_summaries, split_user_parts, unique_summaries
from open_webui_openrouter_pipe.history.parts import text_part
from tests.history.builders import assistant, build, tool, tool_call, user
from tests.support.growth import MAX_GROWTH, growth

if TYPE_CHECKING:
    from collections.abc import Callable

TURN: list[Any] = [user("q"), assistant("", tool_call("c1")), tool("c1", "out")]
SUMMARY = "[Previous conversation summary]\n"
SHORT = 32
"""How many characters there are for one of what is repeated."""


def _calls_of_one_message(count: int) -> object:
    calls = [tool_call("c1", f'{{"n":{number}}}') for number in range(count)]
    return build([user("q"), assistant("", *calls), *[tool("c1", "out")] * count])


WORK: dict[str, Callable[[int], object]] = {
    "summaries whose end does not end its line": lambda count: split_summaries(
        f"{SUMMARY * count}[End of summary - recent messages follow]x"
    ),
    "many summaries": lambda count: unique_summaries(f"{number} {'x' * 50}" for number in range(count)),
    "a question in a text of one letter": lambda count: split_user_parts(
        [text_part("a" * 100 * count)], "a" * 10 * count + "b" + "a" * 10 * count
    ),
    "one call id in each turn": lambda count: build(TURN * count),
    "one call id in one message": _calls_of_one_message,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_cost_grows_with_length(work: Callable[[int], object]) -> None:
    """Not by the square; what grows with one text alone is judged by `test_growth`."""
    assert growth(lambda text: work(len(text) // SHORT), lambda size: "a" * size) < MAX_GROWTH
