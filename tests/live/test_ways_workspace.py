"""What people set around a chat in a real Open WebUI: folders, notes, presets with knowledge and tools, parameters."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.chats import (
    CALL,
    CLAUDE,
    MODEL,
    REPLAYED,
    SCRIPTED,
    WEATHER,
    kinds,
    preset,
    text_of,
    texts_of,
)
from tests.support.embeddings import embeddings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "standin")]

Json = dict[str, Any]

TOOL = "ways_weather"
LOOK_UP = '[[standin: call=grep_knowledge_files args={"pattern": "yellow"}]]'


@pytest.fixture(scope="module", autouse=True)
def _tool(open_webui: OpenWebUI) -> None:
    open_webui.add_tool(TOOL, WEATHER)


def test_a_folder_brings_its_prompt_and_names_its_files(open_webui: OpenWebUI, standin: StandIn) -> None:
    """On every turn of its chats, which begin with the same bytes."""
    admin = open_webui.admin
    file = admin.upload("code.txt", b"The code is 1234.", "text/plain")
    data = {"system_prompt": "You work for {{USER_NAME}}.", "files": [file]}
    folder = admin.api.post("/api/v1/folders/", {"name": "Ways", "data": data})["id"]
    fields = {"folder_id": folder, "variables": {"{{USER_NAME}}": "Ada"}}
    try:
        sent, _ = admin.ask(MODEL, "one", **fields)
        admin.ask(MODEL, "two", after=sent, **fields)
    finally:
        admin.api.delete(f"/api/v1/folders/{folder}")
    first, second = standin.responses
    prompt = texts_of(first.body["input"])[0]
    assert prompt.startswith("You work for Ada.\n<attached_knowledge>")
    assert 'name="code.txt" source="folder"' in prompt
    assert "query_knowledge_files" in {tool.get("name") for tool in first.body["tools"]}
    assert kinds(second.body["input"]) == REPLAYED
    assert second.body["input"][:2] == first.body["input"]


def test_a_notes_chat_reads_and_changes_the_note(open_webui: OpenWebUI, standin: StandIn) -> None:
    """By the tools of Open WebUI, to which it says in its prompt which note it is about."""
    admin = open_webui.admin
    content = {"json": None, "html": "", "md": "milk and bread"}
    note = admin.api.post("/api/v1/notes/create", {"title": "Shopping", "data": {"content": content}})["id"]
    chat = admin.api.get(f"/api/v1/notes/{note}/chat")
    changed = {"note_id": note, "content": "- milk"}
    calls = (
        f"[[standin: call=view_note args={json.dumps({'note_id': note})}]] "
        f"[[standin: call=replace_note_content args={json.dumps(changed)}]] Tidy it."
    )
    messages = [{"role": "system", "content": chat["chat"]["params"]["system"]}]
    try:
        sent, _ = admin.ask(MODEL, calls, chat_id=chat["id"], messages=messages)
        admin.ask(MODEL, "Thanks.", after=sent, messages=messages)
        after = admin.api.get(f"/api/v1/notes/{note}")["data"]["content"]["md"]
    finally:
        admin.api.delete(f"/api/v1/notes/{note}/delete")
    first, second, third = (request.body["input"] for request in standin.responses)
    assert after == "- milk"
    assert f"Current note id: {note}" in first[0]["content"][0]["text"]
    round_ = ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2]
    assert kinds(third) == ["user", *round_, *REPLAYED[1:]]
    assert third[: len(second)] == second


@contextmanager
def with_knowledge(host: OpenWebUI, **params: Any) -> Iterator[str]:
    """A model with knowledge and a tool of its own."""
    api = host.admin.api
    file = host.admin.upload("fruits.txt", b"Bananas of ours are yellow.", "text/plain")
    form = {"name": "Fruits", "description": "", "access_grants": []}
    base = api.post("/api/v1/knowledge/create", form)["id"]
    api.post(f"/api/v1/knowledge/{base}/file/add", {"file_id": file["id"]})
    attached = [{"type": "collection", "id": base, "name": "Fruits", "description": ""}]
    meta = {"knowledge": attached, "toolIds": [TOOL]}
    with preset(host, meta=meta, system="Be kind.", **params) as name:
        yield name
    api.delete(f"/api/v1/knowledge/{base}/delete")


def test_a_preset_uses_its_knowledge_and_its_tool_together(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The model looks into the one and calls the other; both results come back on the next turn."""
    admin = open_webui.admin
    with embeddings(open_webui), with_knowledge(open_webui) as name:
        sent, _ = admin.ask(name, f"{CALL} {LOOK_UP} Which fruits are yellow?", tool_ids=[TOOL])
        admin.ask(name, "Thanks.", after=sent, tool_ids=[TOOL])
    _, second, third = (request.body["input"] for request in standin.responses)
    outputs = [item["output"] for item in third if item["type"] == "function_call_output"]
    assert "20 degrees" in str(outputs[0])
    assert "Bananas of ours" in str(outputs[1])
    assert third[: len(second)] == second


def test_without_native_calls_excerpts_come_with_each_question(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """In the mode that Open WebUI calls legacy: behind the words of the last question alone, as excerpts do."""
    admin = open_webui.admin
    with embeddings(open_webui), with_knowledge(open_webui, function_calling="legacy") as name:
        sent, answer = admin.ask(name, "Which fruits are yellow?", tool_ids=[TOOL])
        admin.ask(name, "Thanks.", after=sent, tool_ids=[TOOL])
    bodies = [request.body for request in standin.responses if "session_id" in request.body]
    first, second = (body["input"] for body in bodies)
    assert [len(item["content"]) for item in first] == [1, 2]
    assert "Bananas of ours" in first[1]["content"][1]["text"]
    assert second[1]["content"] == [{"type": "input_text", "text": "Which fruits are yellow?"}]
    assert kinds(second) == REPLAYED
    assert answer["sources"][0]["source"]["name"] == "Fruits"
    assert not any(body.get("tools") for body in bodies)
    assert len(standin.responses) == 3 * len(bodies)


SHARED: Json = {"temperature": 0.3, "top_p": 0.9, "frequency_penalty": 0.5, "presence_penalty": 0.4}
OMITTED: Json = {"seed": 7, "min_p": 0.1, "logit_bias": {"1": 2}, "mirostat": 1, "num_ctx": 4096}
SET: Json = {
    **SHARED,
    **OMITTED,
    "max_tokens": 500,
    "stop": ["END", "A", "B", "C", "D"],
    "reasoning_effort": "high",
    "custom_params": {"verbosity": "low", "service_tier": "priority", "not_a_parameter": "x"},
}
SENT: Json = {
    **SHARED,
    "max_output_tokens": 500,
    "stop": ["END", "A", "B", "C"],
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"verbosity": "low"},
    "service_tier": "priority",
}
ALWAYS = {"model", "input", "include", "stream", "store", "tools"}
OF_CACHE = {"session_id", "prompt_cache_key", "cache_control"}


def test_parameters_of_a_chat_are_those_of_the_responses_api(open_webui: OpenWebUI, standin: StandIn) -> None:
    """What it does not know, or the model does not take, is omitted."""
    open_webui.admin.ask(CLAUDE, "one", params=SET)
    body = standin.responses[-1].body
    assert {key: value for key, value in body.items() if key not in ALWAYS | OF_CACHE} == SENT


def test_what_stands_in_tags_of_thinking_is_not_sent_again(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It stays in the answer's text, since what providers give as reasoning needs no tags."""
    admin, said = open_webui.admin, "<think>Hm.</think> Yes."
    params = {"reasoning_tags": ["<think>", "</think>"]}
    sent, answer = admin.ask(SCRIPTED, f"[[standin: text={json.dumps(said)}]]", params=params)
    admin.ask(SCRIPTED, "two", after=sent, params=params)
    assert standin.responses[-1].body["input"][1]["content"][0]["text"].strip() == "Yes."
    assert text_of(answer) == said
