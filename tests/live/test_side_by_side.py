"""Several models that answer one message in a real Open WebUI, and the merge of their answers."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from scripts.harness.openwebui import Sent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "tool")]

MODEL = "openrouter.openai/gpt-5.2"
CLAUDE = "openrouter.anthropic/claude-sonnet-4.5"
EXTERNAL = "external.reader"
TOOL = "beside"
CALL = "[[standin: call=look_out]]"
TOOLKIT = '''
class Tools:
    def look_out(self) -> str:
        """
        Look out of the window.
        """
        return "It snows."
'''
READER = '''"""
title: Reader
"""
import json


class Pipe:
    def pipes(self):
        return [{"id": "reader", "name": "Reader"}]

    async def pipe(self, body):
        return json.dumps([message for message in body["messages"] if message["role"] != "system"])
'''
REPLAYED = ["user", "reasoning", "function_call", "function_call_output", "reasoning", "assistant", "user"]
WITHOUT_REASONING = [each for each in REPLAYED if each != "reasoning"]


@pytest.fixture(scope="module")
def tool(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """A tool, and a model of another function that answers with what it got."""
    assert {MODEL, CLAUDE} <= {*live_pipe}
    api = open_webui.admin.api
    open_webui.add_tool(TOOL, TOOLKIT)
    api.install_function("external", "External", READER)
    api.models()
    yield
    api.delete(f"/api/v1/tools/id/{TOOL}/delete")
    api.delete("/api/v1/functions/id/external/delete")
    api.models()


def ask_all(account: Account, models: Sequence[str], text: str, after: Sent | None = None) -> list[Sent]:
    """Send one message to several models as the page does, and wait for all answers."""
    entries = [
        {"model_id": model, "message_id": str(uuid.uuid4()), "modelIdx": index}
        for index, model in enumerate(models)
    ]
    sent = account.send(models[0], text, after=after, message_ids=entries, tool_ids=[TOOL])
    answers = [Sent(sent.chat_id, str(entry["message_id"])) for entry in entries]
    assert [account.wait(answer).get("error") for answer in answers] == [None] * len(models)
    return answers


def types_of(body: dict[str, Any]) -> list[str]:
    """The items of a request, messages by their roles."""
    return [
        item.get("role") or item["type"]
        for item in body["input"]
        if item.get("role") not in {"system", "developer"}
    ]


def bodies(standin: StandIn) -> dict[str, dict[str, Any]]:
    """The last request to each model; all were valid."""
    assert {(request.status, *request.warnings) for request in standin.responses} == {(200,)}
    return {f"openrouter.{request.body['model']}": request.body for request in standin.responses}


def test_each_branch_replays_its_own_reasoning_and_calls(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Whichever model goes on from an answer gets its calls; the one that wrote it, its reasoning as well."""
    for written_by, other in [(0, 1), (1, 0)]:
        models = [MODEL, CLAUDE]
        answers = ask_all(open_webui.admin, models, f"{CALL} one")
        given = {request.body["model"]: request.output for request in standin.responses[::-1]}
        standin.reset()
        ask_all(open_webui.admin, models, "two", after=answers[written_by])
        sent = bodies(standin)
        assert types_of(sent[models[written_by]]) == REPLAYED
        assert types_of(sent[models[other]]) == WITHOUT_REASONING
        own = given[models[written_by].removeprefix("openrouter.")]
        (call,) = [item for item in own if item["type"] == "function_call"]
        for body in sent.values():
            assert call["call_id"] in [item.get("call_id") for item in body["input"]]
        standin.reset()


def test_one_model_twice_keeps_its_answers_apart(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Each answer is replayed with its own reasoning."""
    for at in (0, 1):
        answers = ask_all(open_webui.admin, [MODEL, MODEL], f"{CALL} one")
        thought = open_webui.admin.message(answers[at])
        other = open_webui.admin.message(answers[1 - at])
        standin.reset()
        open_webui.admin.ask(MODEL, "two", after=answers[at], tool_ids=[TOOL])
        body = bodies(standin)[MODEL]
        assert types_of(body) == REPLAYED
        calls = [item["call_id"] for item in thought["output"] if item["type"] == "function_call"]
        assert calls != [item["call_id"] for item in other["output"] if item["type"] == "function_call"]
        standin.reset()


def test_an_external_model_reads_our_answer_and_we_read_its(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It gets calls and text without anything of ours among them."""
    models = [MODEL, EXTERNAL]
    ours, theirs = ask_all(open_webui.admin, models, f"{CALL} one")
    _, read = ask_all(open_webui.admin, models, "two", after=ours)
    messages = json.loads(open_webui.admin.message(read)["content"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["content"] == "It snows."
    assert "openrouter_pipe" not in str(messages)
    assert "]: #" not in str(messages)
    assert types_of(bodies(standin)[MODEL]) == REPLAYED
    standin.reset()
    open_webui.admin.ask(MODEL, "three", after=theirs, tool_ids=[TOOL])
    assert types_of(bodies(standin)[MODEL]) == ["user", "assistant", "user"]


MERGE = {
    "model": MODEL,
    "prompt": "What is up?",
    "responses": ["The sky.\n\n[0000000000000000000A]: #\n", "The moon."],
    "chat_id": "chat",
}


def test_answers_are_merged(open_webui: OpenWebUI, standin: StandIn) -> None:
    """By a request of its own, without markers and tools; the text is streamed as the page reads it."""
    lines = open_webui.admin.api.lines("/api/v1/tasks/moa/completions", {**MERGE, "stream": True})
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    (request,) = standin.responses
    (asked,) = request.body["input"]
    assert (request.status, request.warnings) == (200, [])
    assert '"""The sky.\n\n"""' in asked["content"][0]["text"]
    assert "tools" not in request.body
    assert text.startswith("You said: You have been provided with")
    assert lines[-2:] == ["data: [DONE]", ""]


def test_later_turns_have_the_answer_that_was_chosen(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The page keeps the merged text beside it, and the host sends none of it."""
    answers = ask_all(open_webui.admin, [MODEL, CLAUDE], "one")
    chat = open_webui.admin.chat(answers[0].chat_id)
    chat["history"]["messages"][answers[0].message_id]["merged"] = {
        "status": True,
        "content": "Sky and moon.",
    }
    open_webui.admin.api.post(f"/api/v1/chats/{answers[0].chat_id}", {"chat": chat})
    open_webui.admin.ask(MODEL, "two", after=answers[0])
    body = bodies(standin)[MODEL]
    assert types_of(body) == ["user", "reasoning", "assistant", "user"]
    assert "Sky and moon." not in str(body)


def test_a_merge_thinks_as_the_model_does(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It is an answer, not one of the small tasks."""
    form = {"id": "merger", "base_model_id": MODEL, "name": "Merger", "meta": {}}
    open_webui.admin.api.post("/api/v1/models/create", {**form, "params": {"reasoning_effort": "high"}})
    open_webui.admin.api.models()
    try:
        open_webui.admin.api.lines(
            "/api/v1/tasks/moa/completions", {**MERGE, "model": "merger", "stream": True}
        )
    finally:
        open_webui.admin.api.post("/api/v1/models/model/delete", {"id": "merger"})
    assert standin.responses[0].body["reasoning"]["effort"] == "high"
