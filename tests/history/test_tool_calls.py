"""Mentions of calls and outputs merged into pairs, and ids that are unique on the wire."""

from __future__ import annotations

from typing import Any

from open_webui_openrouter_pipe.history.entries import Origin
from open_webui_openrouter_pipe.history.tool_calls import (
    CallIds,
    Classified,
    ToolCallMatcher,
    ToolCallRecord,
    classify_function_call_artifacts,
)
from tests.history.builders import call, output, reasoning


def mention(fields: Any, message: int) -> ToolCallRecord:
    return ToolCallRecord(fields, Origin(message, "assistant"))


def test_the_best_words_win() -> None:
    """Our artifact beats the host, the host beats folded text, in whatever order they come."""
    book = ToolCallMatcher()
    folded, told, stored = (mention(call("c1", f'{{"n": {n}}}'), 1) for n in range(3))
    pair = book.add_call(folded, "folded")
    assert pair is not None
    assert not pair.is_whole
    assert pair.call is folded
    assert book.add_call(told, "host") is book.add_call(stored, "artifact") is pair
    assert pair.call is stored
    preview, whole = mention(output("c1", "wh..."), 2), mention(output("c1", "whole"), 1)
    assert book.add_output(preview, "host") is book.add_output(whole, "artifact") is pair
    assert (pair.is_whole, pair.output) == (True, whole)


def test_repeated_mentions_add_nothing() -> None:
    """The same source telling the same call of one message, or an output, again."""
    book = ToolCallMatcher()
    first = mention(call("c1"), 1)
    assert book.add_call(first, "host") is not None
    assert book.add_call(first, "host") is None
    assert book.add_output(mention(output("c1", "o"), 2), "host") is not None
    assert book.add_output(mention(output("c1", "p"), 2), "host") is None


def test_the_same_id_in_a_later_message_is_a_later_call() -> None:
    """Unless another source tells of the same call, with the same arguments."""
    book = ToolCallMatcher()
    first = book.add_call(mention(call("c1", '{"n":1}'), 1), "host")
    assert book.add_call(mention(call("c1", '{"n": 1}'), 3), "artifact") is first
    second = book.add_call(mention(call("c1", '{"n":2}'), 5), "artifact")
    assert second is not first
    assert book.add_call(mention(call("c1", '{"n":3}'), 5), "host") is second


def test_kinds_do_not_mix() -> None:
    """A custom tool's call and a function's call may share an id."""
    book = ToolCallMatcher()
    custom = {"type": "custom_tool_call", "call_id": "c1", "input": "x", "name": "f"}
    one, other = (
        book.add_call(mention(call("c1"), 1), "artifact"),
        book.add_call(mention(custom, 1), "artifact"),
    )
    assert one is not other


def test_call_ids() -> None:
    """The first use keeps its id, later uses are numbered past what is taken, and none is too long."""
    ids = CallIds()
    assert [ids.settle("c"), ids.settle("c_2"), ids.settle("c"), ids.settle("c")] == [
        "c",
        "c_2",
        "c_3",
        "c_4",
    ]
    long = [ids.settle("x" * 64), ids.settle("x" * 64), ids.settle("x" * 65), ids.settle("x" * 65)]
    assert len(set(long)) == 4
    assert max(map(len, long)) == 64


def test_classify() -> None:
    """Calls and outputs are sorted by whether their other half is there."""
    items: Any = [call("a"), call("b"), output("a", "o"), output("c", "o"), reasoning("rs_1")]
    assert classify_function_call_artifacts(items) == Classified(
        paired=frozenset("a"), calls_without_output=frozenset("b"), outputs_without_call=frozenset("c")
    )
