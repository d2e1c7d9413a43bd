"""Code between tags: the answer ends with it as an item of its own, on top of what the host already has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.host.tagged_code import TaggedCode, TaggedCodeWriter, find_code
from open_webui_openrouter_pipe.ports import Failed, Output, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import (
    ItemFinished,
    ItemStarted,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
)
from open_webui_openrouter_pipe.responses.items import AssistantMessage, Reasoning
from tests.support.host_source import host_source

OPENING = '<code_interpreter type="code" lang="python">'
TAGGED = f"Let me see.\n\n{OPENING}\nprint(6*7)\n</code_interpreter>\nIt is 41."
THOUGHT = Reasoning(type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "Hm."}])
EARLIER = [{"type": "message", "id": "earlier"}, {"type": "open_webui:code_interpreter", "id": "run"}]
CODE = {
    "type": "open_webui:code_interpreter",
    "id": "ci_N4",
    "status": "in_progress",
    "attributes": {"type": "code", "lang": "python"},
    "lang": "python",
    "code": "print(6*7)",
    "output": None,
}


def answer(text: str) -> list[Output]:
    """Thinking and a text."""
    said = AssistantMessage(type="message", role="assistant", id="m", status="completed", content=[])
    whole = AssistantMessage(
        type="message",
        role="assistant",
        id="m",
        status="completed",
        content=[{"type": "output_text", "text": text, "annotations": []}],
    )
    return [
        ItemStarted(0, THOUGHT),
        ReasoningDelta(0, 0, "summary", "Hm."),
        ItemFinished(0, THOUGHT),
        ItemStarted(1, said),
        TextDelta(1, 0, text),
        StoredMarkers(("0000000000000000000A",)),
        ItemFinished(1, whole),
        ResponseFinished("completed", None, "gen-1", "openai/gpt-5", (THOUGHT, whole), None),
    ]


def reduced(outputs: Sequence[Output], before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the host has after an answer, by its own reducer."""
    ids, seconds = count(1), count(0)
    native = NativeWriter(new_id=lambda: f"N{next(ids)}", clock=lambda: float(next(seconds) // 9))
    writer = TaggedCodeWriter(native, new_id=lambda: f"N{next(ids) + 1}")
    response = host_source("utils/response", "handle_responses_streaming_event", "deep_merge")
    items = list(before)
    for output in outputs:
        for event in writer.render(output):
            if "type" in event:
                items, _ = response.handle_responses_streaming_event(event, items)
    return items


@pytest.mark.live
@pytest.mark.parametrize("before", [[], EARLIER], ids=["the first call", "the call behind the result"])
def test_the_answer_ends_with_its_code(before: list[dict[str, Any]]) -> None:
    """Behind what the host has, with the references beside the reasoning; what the code's text went on with is gone."""
    items = reduced(answer(TAGGED), before)
    assert items[: len(before)] == before
    thought, said, code = items[len(before) :]
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert [each["id"] for each in thought["reasoning_details"]] == ["0000000000000000000A"]
    assert said["content"][0]["text"] == "Let me see."
    assert {**code, "id": "ci_N4"} == CODE


@pytest.mark.live
def test_an_answer_without_code_is_whole() -> None:
    """Nothing is added to it."""
    _, said = reduced(answer("It is 42."), [])
    assert said["content"][0]["text"] == "It is 42."


@pytest.mark.live
def test_code_of_an_answer_that_broke_off_is_not_run() -> None:
    """The user sees it as it was written, with the error."""
    items = reduced([*answer(TAGGED)[:-1], Failed("no")], [])
    assert items[-1]["type"] == "message"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TAGGED, TaggedCode("Let me see.", "print(6*7)")),
        ('<code_interpreter lang="python" type="code">1</code_interpreter>', TaggedCode("", "1")),
        (f"{OPENING} </code_interpreter>", None),
        (f"{OPENING}print(1)", None),
        ("<code_interpreter>print(1)</code_interpreter>", None),
        ("None here.", None),
    ],
)
def test_code_stands_between_tags_that_say_so(text: str, found: TaggedCode | None) -> None:
    """The host runs nothing else either."""
    assert find_code(text) == found
