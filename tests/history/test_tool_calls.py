"""Calls and outputs of several sources matched into pairs, and ids that are unique on the wire."""

from __future__ import annotations

from typing import Any

from open_webui_openrouter_pipe.history.calls import (
    CallIds,
    ClassifiedCalls,
    ToolCallMatcher,
    ToolCallRecord,
    classify_function_call_artifacts,
)
from open_webui_openrouter_pipe.history.reading import Origin
from tests.history.builders import call, output, reasoning


def record(fields: Any, message: int) -> ToolCallRecord:
    return ToolCallRecord(fields, Origin(message, "assistant"))


def test_the_best_source_wins() -> None:
    """Our artifact beats the host, the host beats folded text, in whatever order they come."""
    matcher = ToolCallMatcher()
    folded, shown, stored = (record(call("c1", f'{{"n": {n}}}'), 1) for n in range(3))
    pair = matcher.add_call(folded, "folded")
    assert pair is not None
    assert not pair.is_whole
    assert pair.call is folded
    assert matcher.add_call(shown, "host") is matcher.add_call(stored, "artifact") is pair
    assert pair.call is stored
    preview, whole = record(output("c1", "wh..."), 2), record(output("c1", "whole"), 1)
    assert matcher.add_output(preview, "host") is matcher.add_output(whole, "artifact") is pair
    assert (pair.is_whole, pair.output) == (True, whole)


def test_repeated_records_add_nothing() -> None:
    """The same source reports the same call of one message, or an output, again."""
    matcher = ToolCallMatcher()
    first = record(call("c1"), 1)
    assert matcher.add_call(first, "host") is not None
    assert matcher.add_call(first, "host") is None
    assert matcher.add_output(record(output("c1", "o"), 2), "host") is not None
    assert matcher.add_output(record(output("c1", "p"), 2), "host") is None


def test_the_same_id_in_a_later_message_is_a_later_call() -> None:
    """Unless another source reports the same call, with the same arguments."""
    matcher = ToolCallMatcher()
    first = matcher.add_call(record(call("c1", '{"n":1}'), 1), "host")
    assert matcher.add_call(record(call("c1", '{"n": 1.0}'), 3), "artifact") is first
    second = matcher.add_call(record(call("c1", '{"n":2}'), 5), "artifact")
    assert second is not first
    assert matcher.add_call(record(call("c1", '{"n":3}'), 5), "host") is second
    assert matcher.add_output(record(output("c1", "o"), 6), "host") is second
    third = matcher.add_call(record(call("c1", '{"n":4}'), 7), "host")
    assert matcher.add_call(record(call("c1", '{"n":5}'), 9), "artifact") is not third


def test_other_arguments_in_the_same_message_are_another_call() -> None:
    """Outputs go to the calls of one id in their order, from each source."""
    matcher = ToolCallMatcher()
    one = matcher.add_call(record(call("c1", '{"n": 1}'), 1), "artifact")
    two = matcher.add_call(record(call("c1", '{"n": 2}'), 1), "artifact")
    assert one is not two
    assert matcher.add_call(record(call("c1", '{"n":2}'), 1), "host") is two
    assert matcher.add_call(record(call("c1", '{"n":1}'), 1), "host") is one
    assert matcher.add_call(record(call("c1", '{"n":1}'), 1), "host") is None
    for source in ("host", "artifact"):
        assert matcher.add_output(record(output("c1", "o"), 2), source) is one
        assert matcher.add_output(record(output("c1", "p"), 2), source) is two
        assert matcher.add_output(record(output("c1", "q"), 2), source) is None
    assert matcher.pairs == [one, two]


def test_kinds_do_not_mix() -> None:
    """A custom tool's call and a function's call may share an id."""
    matcher = ToolCallMatcher()
    custom = {"type": "custom_tool_call", "call_id": "c1", "input": "x", "name": "f"}
    one, other = (
        matcher.add_call(record(call("c1"), 1), "artifact"),
        matcher.add_call(record(custom, 1), "artifact"),
    )
    assert one is not other


def test_call_ids() -> None:
    """The first use keeps its id, later uses are numbered past what is taken, and none is too long."""
    ids = CallIds()
    assert [ids.reserve("c"), ids.reserve("c_2"), ids.reserve("c"), ids.reserve("c")] == [
        "c",
        "c_2",
        "c_3",
        "c_4",
    ]
    long = [ids.reserve("x" * 64), ids.reserve("x" * 64), ids.reserve("x" * 65), ids.reserve("x" * 65)]
    assert len(set(long)) == 4
    assert max(map(len, long)) == 64


def test_classify() -> None:
    """Calls and outputs are sorted by whether their other half is there."""
    items: Any = [call("a"), call("b"), output("a", "o"), output("c", "o"), reasoning("rs_1")]
    assert classify_function_call_artifacts(items) == ClassifiedCalls(
        paired=frozenset("a"), calls_without_output=frozenset("b"), outputs_without_call=frozenset("c")
    )
