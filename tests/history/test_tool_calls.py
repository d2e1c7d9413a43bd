"""Calls and outputs of several sources matched into pairs, and ids that are unique on the wire. See `calls.txt`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.calls import (
    CallIds,
    ClassifiedCalls,
    ToolCallMatcher,
    ToolCallRecord,
    classify_function_call_artifacts,
)
from open_webui_openrouter_pipe.history.reading import Origin
from tests.history.builders import call, output, reasoning
from tests.support.rows import rows


def record(fields: Any, message: int) -> ToolCallRecord:
    return ToolCallRecord(fields, Origin(message, "assistant"))


@pytest.mark.parametrize(("title", "steps", "pairs"), rows(Path(__file__).with_name("calls.txt"), "pairs"))
def test_calls_and_outputs_of_one_id_are_matched(title: str, steps: str, pairs: list[str]) -> None:
    """Each call once with its own output, by the best that any source says of either."""
    matcher = ToolCallMatcher()
    for step in steps.split("; "):
        source, message, text, _, number = step.split(" ")
        given: Any = source
        if text.startswith("o:"):
            pair = matcher.add_output(record(output("c1", text[2:]), int(message)), given)
        else:
            pair = matcher.add_call(record(call("c1", text), int(message)), given)
        assert pair is (matcher.pairs[int(number) - 1] if number != "0" else None), f"{title}: {step}"
    found = []
    for each in matcher.pairs:
        result = each.output.fields["output"] if each.is_whole else None
        found.append(f"{each.call.fields['arguments']} {result}")
    assert found == pairs


def test_kinds_do_not_mix() -> None:
    """A custom tool's call and a function's call may share an id."""
    matcher = ToolCallMatcher()
    matcher.add_call(record(call("c1"), 1), "artifact")
    custom = {"type": "custom_tool_call", "call_id": "c1", "input": "x", "name": "f"}
    matcher.add_call(record(custom, 1), "artifact")
    assert len(matcher.pairs) == 2


def test_ids_are_unique_on_the_wire() -> None:
    """The first use keeps its id, later uses are numbered past what is taken, and none is too long."""
    ids = CallIds()
    assert [ids.reserve(each) for each in ("c", "c_2", "c", "c")] == ["c", "c_2", "c_3", "c_4"]
    long = [ids.reserve("x" * size) for size in (64, 64, 65, 65)]
    assert len(set(long)) == 4
    assert max(map(len, long)) == 64


def test_calls_and_outputs_are_sorted_by_whether_their_other_half_is_there() -> None:
    """Reasoning is neither."""
    items: Any = [call("a"), call("b"), output("a", "o"), output("c", "o"), reasoning("rs_1")]
    assert classify_function_call_artifacts(items) == ClassifiedCalls(
        paired=frozenset("a"), calls_without_output=frozenset("b"), outputs_without_call=frozenset("c")
    )
