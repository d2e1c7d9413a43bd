"""The judge that uses the official SDK."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.replay.conformance import Judge, sdk_judge

_CALL = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}
_OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
_TEXT = {"type": "output_text", "text": "hello", "annotations": []}


def said(role: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(parts), **fields}


@pytest.fixture(scope="module")
def judge() -> Judge:
    found = sdk_judge()
    assert found is not None
    return found


def test_a_valid_input(judge: Judge) -> None:
    """Messages of all roles, reasoning, and a call with its output pass."""
    items = [
        said("user", {"type": "input_text", "text": "hello"}),
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        said("assistant", _TEXT, id="msg_1", status="completed"),
        _CALL,
        _OUTPUT,
    ]
    assert judge.issues(items) == []


@pytest.mark.parametrize(
    ("items", "issues"),
    [
        ([{"type": "unheard_of"}], ["input[0].type: unknown type 'unheard_of'"]),
        ([_CALL | {"arguments": 3}, _OUTPUT], ["input[0].arguments: Input should be a valid string"]),
        ([_CALL | {"colour": "red"}, _OUTPUT], ["input[0].colour: unknown key or value"]),
        (
            [{"type": "openrouter:web_search", "status": "completed", "id": None}],
            ["input[0].id: must not be null"],
        ),
        ([_CALL | {"name": "no name"}, _OUTPUT], ["input[0].name: is not a legal name of a tool"]),
        ([_CALL | {"call_id": ""}, _OUTPUT], ["input[0].call_id: must have 1 to 64 characters"]),
        ([said("user")], ["input[0].content: must not be empty"]),
        (
            [said("assistant", {"type": "input_text", "text": "hello"})],
            ["input[0].content: an assistant's parts are output_text or refusal"],
        ),
        ([said("assistant", _TEXT, id="msg_1")], ["input[0].status: is required"]),
        ([_CALL], ["input[0].call_id: the call c1 has no output"]),
        ([_OUTPUT], ["input[0].call_id: there is no call c1 before this output"]),
        ([_CALL, _OUTPUT, _OUTPUT], ["input[2].call_id: the call c1 was answered before"]),
        ([_CALL, _CALL, _OUTPUT], ["input[1].call_id: the call c1 was made before"]),
    ],
)
def test_what_the_service_would_refuse(judge: Judge, items: list[Any], issues: list[str]) -> None:
    """Each issue names its path and says what is wrong; the SDK's models miss that an answer needs its status."""
    assert [f"{issue.path}: {issue.message}" for issue in judge.issues(items)] == issues
