"""Chats that Open WebUI does not save, in a real one: temporary chats, and models that are mentioned in a channel."""

from __future__ import annotations

import json
import re
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from scripts.harness.openwebui import Sent
from scripts.standin.drawing import draw
from tests.live.chats import (
    CALL,
    CLAUDE,
    GEMINI,
    MODEL,
    REPLAYED,
    ROUND,
    SCRIPTED,
    WEATHER,
    kinds,
    wire,
    without_marks,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account, OpenWebUI, Session
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe", "standin")]

Json = dict[str, Any]

TOOL = "unsaved_weather"


@pytest.fixture(scope="module", autouse=True)
def _tool(open_webui: OpenWebUI) -> None:
    open_webui.add_tool(TOOL, WEATHER)


# --- temporary chats ---


def say(account: Account, session: Session, model: str, text: str, before: list[Json]) -> list[Json]:
    """Send a question as the page does in a temporary chat, which it keeps by itself; return the chat."""
    question_id, answer_id = str(uuid.uuid4()), str(uuid.uuid4())
    parent = before[-1]["id"] if before else None
    question: Json = {
        "id": question_id,
        "parentId": parent,
        "childrenIds": [],
        "role": "user",
        "content": text,
    }
    ended = len(session.of_type("chat:active")) + 2
    account.api.post(
        "/api/chat/completions",
        {
            "stream": True,
            "model": model,
            "session_id": session.id,
            "chat_id": f"temporary:{session.id}",
            "id": answer_id,
            "message_ids": [{"model_id": model, "message_id": answer_id, "modelIdx": 0}],
            "parent_id": parent,
            "user_message": question,
            "messages": [*before, question],
            "tool_ids": [TOOL],
        },
    )
    session.wait_for("chat:active", count=ended)
    done = [each for each in session.of_type("chat:completion") if each.get("done")][-1]
    answer = {
        "id": answer_id,
        "parentId": question_id,
        "childrenIds": [],
        "role": "assistant",
        "model": model,
    }
    return [*before, question, {**answer, "output": done["output"], "content": "", "done": True}]


@pytest.mark.parametrize("model", [MODEL, CLAUDE, GEMINI])
def test_a_temporary_chat_keeps_its_reasoning_while_it_lasts(
    open_webui: OpenWebUI, standin: StandIn, model: str
) -> None:
    """Between rounds and from turn to turn; each request begins with the one before, and no marker is shown."""
    with open_webui.admin.session() as session:
        chat: list[Json] = []
        for text in (f"{CALL} one", "two", "three"):
            chat = say(open_webui.admin, session, model, text, chat)
        assert session.of_type("status") == []
        shown = json.dumps(session.events)
    sent = [without_marks(request.body["input"]) for request in standin.responses]
    assert kinds(sent[1]) == ["user", *ROUND]
    assert kinds(sent[-1]) == [*kinds(sent[1]), *REPLAYED[1:] * 2]
    given = [item for request in standin.responses[:3] for item in request.output]
    assert wire(standin.responses[-1].body["input"], "reasoning") == wire(given, "reasoning")
    assert not re.search(r"\[[0-9A-Z]{20}\]: #", shown)
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    assert [(request.status, request.warnings) for request in standin.responses] == [(200, [])] * 4


def test_a_temporary_chat_that_is_saved_goes_on_with_its_reasoning(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """The page's Save makes a chat of what it has kept."""
    admin = open_webui.admin
    with admin.session() as session:
        messages = say(admin, session, MODEL, f"{CALL} one", [])
    history = {"messages": {each["id"]: each for each in messages}, "currentId": messages[-1]["id"]}
    form = {"chat": {"title": "Saved", "models": [MODEL], "history": history, "messages": messages}}
    saved = admin.api.post("/api/v1/chats/new", form)
    _, answer = admin.ask(MODEL, "two", after=Sent(saved["id"], messages[-1]["id"]), tool_ids=[TOOL])
    sent = standin.responses[-1].body["input"]
    assert kinds(sent) == ["user", *ROUND, *REPLAYED[1:]]
    assert "statusHistory" not in answer


# --- channels ---


class Channel:
    """A channel in which one account mentions models."""

    def __init__(self, account: Account, channel_id: str) -> None:
        self._api = account.api
        self._path = f"/api/v1/channels/{channel_id}/messages"

    def mention(self, model: str, text: str, *, parent: str | None = None, **fields: Any) -> Json:
        """Post a message with a mention and return it."""
        form = {"content": f"<@M:{model}|Model> {text}", "parent_id": parent, **fields}
        message: Json = self._api.post(f"{self._path}/post", form)
        return message

    def answers(self, message: Json, count: int = 1) -> list[str]:
        """The texts of the models' messages in a thread, newest first, once so many of them are done."""

        def done() -> list[str]:
            thread = self._api.get(f"{self._path}/{message['id']}/thread")
            found = [each["content"] for each in thread if (each["meta"] or {}).get("done")]
            return found if len(found) >= count else []

        return wait_until(done)


@pytest.fixture(scope="module")
def channel(open_webui: OpenWebUI) -> Iterator[Channel]:
    """A channel of the administrator's; other tests find channels switched off."""
    api = open_webui.admin.api
    config = api.get("/api/v1/auths/admin/config")
    api.post("/api/v1/auths/admin/config", {**config, "ENABLE_CHANNELS": True})
    channel_id = api.post("/api/v1/channels/create", {"name": "ways", "access_grants": []})["id"]
    yield Channel(open_webui.admin, channel_id)
    api.delete(f"/api/v1/channels/{channel_id}/delete")
    api.post("/api/v1/auths/admin/config", config)


def test_a_mentioned_model_answers_in_its_thread(channel: Channel, standin: StandIn) -> None:
    """Each mention is a request of its own, with the thread so far in the system prompt; tools run."""
    first = channel.mention(CLAUDE, f"{CALL.replace('get_weather', 'get_current_timestamp')} one")
    (answer,) = channel.answers(first)
    channel.mention(MODEL, "two", parent=first["id"])
    channel.answers(first, 2)
    one, with_tool, two = standin.responses
    assert kinds(with_tool.body["input"]) == ["user", *ROUND]
    assert (one.body["session_id"], one.status, two.status) == (with_tool.body["session_id"], 200, 200)
    assert "The tools answered" in answer
    prompt, question = (item["content"][0]["text"] for item in two.body["input"])
    assert answer in prompt
    assert question.endswith(": Model two")


def test_an_error_in_a_channel_is_read_there(channel: Channel) -> None:
    """Below what was written; Open WebUI shows no other line there."""
    refused = channel.mention(SCRIPTED, "[[standin: error=402 times=5]] one")
    broken = channel.mention(SCRIPTED, '[[standin: text="one two three"]] [[standin: fail=failed after=2]]')
    (refusal,), (rest,) = channel.answers(refused), channel.answers(broken)
    assert refusal.startswith("> The OpenRouter account has too few credits")
    assert rest.startswith("one two\n> The provider is not available")


def test_attachments_in_a_channel_reach_the_model(
    open_webui: OpenWebUI, channel: Channel, standin: StandIn
) -> None:
    """Images and documents, with the question."""
    picture = open_webui.admin.upload("dot.png", draw("red"), "image/png")
    document = open_webui.admin.upload("notes.txt", b"The code is 1234.", "text/plain")
    message = channel.mention(CLAUDE, "What is it?", data={"files": [picture, document]})
    channel.answers(message)
    parts = standin.responses[-1].body["input"][-1]["content"]
    assert [part["type"] for part in parts] == ["input_text", "input_image", "input_file"]
    assert {part.get("filename") for part in parts} == {None, "notes.txt"}


def test_a_command_in_a_channel_is_a_message(channel: Channel, standin: StandIn) -> None:
    """Open WebUI puts the author's name before it, and the model answers."""
    channel.answers(channel.mention(MODEL, "/help"))
    assert standin.responses[-1].body["input"][-1]["content"][0]["text"].endswith("Model /help")
