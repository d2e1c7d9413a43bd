"""Our unfolding of stored answers, held against the host's own function where Open WebUI is installed."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from open_webui_openrouter_pipe.history.folded import unfold_output
from open_webui_openrouter_pipe.history.markers import Reference, name_call, write_reference
from tests.history.builders import assistant, build, compact, mark, tool, tool_call, ulid, user
from tests.support.cases import CHATS

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST_FUNCTIONS = {
    "convert_output_to_messages",
    "reconcile_tool_pairs",
    "get_paired_tool_call_ids",
    "get_provider_function",
    "get_content_from_message",
    "get_output_text",
}


@pytest.fixture(scope="module")
def host_unfolds() -> Callable[[list[Any]], list[dict[str, Any]]]:
    """The host's own function, as its middleware calls it, without the import that sets a server up."""
    package = importlib.util.find_spec("open_webui")
    if package is None or not package.submodule_search_locations:
        pytest.skip("Open WebUI is not installed")
    path = Path(package.submodule_search_locations[0]) / "utils" / "misc.py"
    module = ast.parse(path.read_text("utf-8"))
    wanted = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name in _HOST_FUNCTIONS
    ]
    names: dict[str, Any] = {"JSONCodec": json}
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module([*future, *wanted], []), str(path), "exec"), names)
    convert = names["convert_output_to_messages"]
    ignores_order = "get_paired_tool_call_ids" not in names  # before 0.12

    def unfold(output: list[Any]) -> list[dict[str, Any]]:
        if ignores_order and not calls_come_first(output):
            reject()
        messages: list[dict[str, Any]] = convert(output, raw=True, flatten_tool_images=True)
        return messages

    return unfold


def calls_come_first(output: list[Any]) -> bool:
    """Whether no result stands before its call, as in all answers that a host has written."""
    called: set[str] = set()
    for item in output:
        if item["type"] == "function_call":
            called.add(item["call_id"])
        elif item["type"] == "function_call_output" and item["call_id"] not in called:
            return False
    return True


def message(*texts: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": t} for t in texts],
    }


def host_call(call_id: str, status: str = "completed") -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "f",
        "arguments": '{"a":1}',
        "status": status,
    }


def host_result(call_id: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": list(parts), "status": "completed"}


TEXTS = st.sampled_from(["", "Hello", "\n" + mark(1), mark(2) + "\nText", "a\n\n" + mark(3, 4), "x", "  "])
CALL_IDS = st.sampled_from(["c1", "c2", "c3", "", name_call(ulid(2)), name_call(ulid(5), "commentary")])
PARTS = st.lists(
    st.sampled_from(
        [
            {"type": "input_text", "text": "out"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA"},
        ]
    ),
    max_size=3,
)
DETAILS = st.lists(
    st.builds(
        lambda after, n, phase: write_reference(Reference(after, ulid(n) if n else "", phase)),
        st.integers(0, 30),
        st.integers(0, 9),
        st.sampled_from(["commentary", "final_answer", ""]),
    ),
    max_size=3,
)
ITEMS = st.one_of(
    st.lists(TEXTS, max_size=2).map(lambda texts: message(*texts)),
    st.builds(
        host_call, CALL_IDS, st.sampled_from(["completed", "failed", "rejected", "incomplete", "in_progress"])
    ),
    st.builds(lambda i, parts: host_result(i, *parts), CALL_IDS, PARTS),
    DETAILS.map(lambda details: {"type": "reasoning", "summary": [], "reasoning_details": details}),
    st.sampled_from(
        [
            {
                "type": "open_webui:code_interpreter",
                "code": "print(1)",
                "output": {"stdout": "1", "result": "2"},
            },
            {"type": "open_webui:code_interpreter", "code": "1", "output": {"stdout": "", "result": "2"}},
            {"type": "open_webui:code_interpreter", "code": "print(1)", "output": "1"},
            {"type": "open_webui:context_compaction", "summary": "s"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        ]
    ),
)


@settings(max_examples=CHATS, deadline=None)
@given(st.lists(ITEMS, max_size=12))
def test_same_messages_as_the_host(host_unfolds: Any, output: list[dict[str, Any]]) -> None:
    """Whatever the host stored, our unfolding returns the messages that the host itself would send."""
    assert unfold_output(output) == host_unfolds(output)


@settings(max_examples=CHATS, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=12))
def test_two_views_law(host_unfolds: Any, output: list[dict[str, Any]]) -> None:
    """The folded and the unfolded view of one chat become the same input, byte for byte."""
    artifacts = {
        1: {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
        2: {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        3: {"type": "function_call_output", "call_id": "c1", "output": "whole"},
    }
    unfolded = [user("q"), *host_unfolds(output), user("next")]
    folded = [user("q"), {"role": "assistant", "content": "display text", "output": output}, user("next")]
    if len(unfolded) == 2:
        folded[1]["content"] = ""
    assert compact(build(folded, artifacts).items) == compact(build(unfolded, artifacts).items)


def test_what_the_host_does_not_bear() -> None:
    """Strings for outputs, nulls for lists and other odd items do not break a chat."""
    output = [
        None,
        {"type": None},
        {"type": "message", "content": None},
        {"type": "reasoning", "summary": None, "reasoning_details": {"type": "x"}},
        {**host_call("c1"), "provider_function": {"name": "g", "arguments": {"b": 1}}},
        {"type": "function_call_output", "call_id": "c1", "output": "text"},
        {"type": "function_call", "call_id": 5, "status": "completed"},
        {"type": "open_webui:code_interpreter"},
    ]
    assert unfold_output(output) == [
        assistant("", tool_call("c1", {"b": 1}, "g"), reasoning_details=[{"type": "x"}]),
        tool("c1", "text"),
    ]


def test_a_result_that_does_not_follow_its_call_is_omitted() -> None:
    """The host hands over the one directly behind the call, and no later one of the same id."""
    text = {"type": "input_text", "text": "out"}
    result = host_result("c1", text)
    messages = unfold_output([host_call("c1", "completed"), result, message("Hello"), result])
    assert [each["role"] for each in messages] == ["assistant", "tool", "assistant"]
