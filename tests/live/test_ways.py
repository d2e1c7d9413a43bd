"""Ways of use in a real Open WebUI that are not a plain chat in the page.

Automations, speech, chats that are not saved, channels, folders, notes, presets with knowledge, and parameters.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from scripts.harness.browser import Browser
from scripts.harness.openwebui import TOOL, Account, Sent, Session
from scripts.launch.api import Api
from scripts.standin import StandIn
from scripts.standin.drawing import draw
from tests.live.chats import BLOCK, end_of, preset, talk
from tests.live.items import each_continues, inputs, kinds, outputs_of, text_of, texts_of, wire, without_marks
from tests.live.models import CALL, CLAUDE, FULL, GEMINI, MODEL, REPLAYED, ROUND, SCRIPTED, Json, Valves
from tests.support.answering import Reply, answering
from tests.support.embeddings import embeddings
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("admin", "standin")]


# --- automations ---

PATIENCE = """
from open_webui.utils import recurrence

recurrence.RRULE_TIMEOUT_SECONDS = 900
Filter = type("Filter", (), {})
"""
"""Open WebUI starts a process to read a schedule, and gives it two seconds: too few on a busy machine."""


def run(admin: Account, prompt: str) -> Json:
    """Have an automation run now, and return what the host says of it."""
    path = "/api/v1/automations"
    data = {"prompt": prompt, "model_id": MODEL, "rrule": "RRULE:FREQ=DAILY;BYHOUR=8;BYMINUTE=0"}
    name = admin.api.post(f"{path}/create", {"name": "Morning", "data": data})["id"]
    admin.api.post(f"{path}/{name}/run")
    (done,) = wait_until(lambda: admin.api.get(f"{path}/{name}/runs"))
    admin.api.delete(f"{path}/{name}/delete")
    return dict(done)


def test_an_automation_is_answered_and_may_go_on(admin: Account, standin: StandIn, valves: Valves) -> None:
    """Its variables are filled, nobody is asked about the price, and a user may go on with the reasoning.

    What fails is in the list of runs; limits hold.
    """
    admin.api.install_function("patient", "patient", PATIENCE)
    admin.api.delete("/api/v1/functions/id/patient/delete")
    # what runs under a limit is held until its bill is written, so the next one is refused however soon it comes
    valves(CONFIRM_ABOVE_DOLLARS=0.000001, SPENDING_LIMITS="all: 1000000/day")
    done = run(admin, "Good morning, {{USER_NAME}}.")
    assert (done["status"], done["error"]) == ("success", None)
    valves(CONFIRM_ABOVE_DOLLARS=None, SPENDING_LIMITS=None)
    admin.ask(MODEL, "And now?", after=end_of(admin, done["chat_id"]))
    first, second = inputs(standin)
    assert texts_of(first)[-1] == "Good morning, Admin."
    assert kinds(second) == REPLAYED
    standin.script("error=402", times=5)
    done = run(admin, "Good morning.")
    assert (done["status"], "too few credits" in done["error"]) == ("error", True)
    standin.reset()
    valves(SPENDING_LIMITS="all: 0.000001/day")
    assert "spending limit" in run(admin, "Good morning.")["error"]
    assert standin.responses == []


# --- speech ---

SPOKEN = "You are spoken to.\n\nKeep it short."
A_FRAME_OF_MP3 = b"\xff\xfb\x90\x00" + bytes(413)


@pytest.mark.parametrize(
    ("written", "begins", "prompt"),
    [
        ("", "You are a friendly, concise voice assistant", []),
        (SPOKEN, SPOKEN, [{"role": "system", "content": "Answer in English."}]),
    ],
)
def test_speaking_and_typing_share_a_chats_beginning(
    admin: Account, standin: StandIn, written: str, begins: str, prompt: list[Json]
) -> None:
    """The instructions for a call, the host's own or the administrator's, stand before a spoken question alone."""
    before = admin.api.get("/api/v1/tasks/config")
    admin.api.post("/api/v1/tasks/config/update", {**before, "VOICE_MODE_PROMPT_TEMPLATE": written})
    sent = None
    for turn in range(4):
        fields = {"features": {"voice": turn % 2 == 0}, "messages": prompt}
        sent, _ = admin.ask(MODEL, f"turn {turn}", after=sent, **fields)
    admin.api.post("/api/v1/tasks/config/update", before)
    found = [texts_of(each) for each in inputs(standin)]
    places = [
        [at - len(texts) for at, text in enumerate(texts) if text.startswith(begins)] for texts in found
    ]
    assert places == [[-2], [], [-2], []]
    typed = [[text for text in texts if not text.startswith(begins)] for texts in found]
    assert typed[0] == [*(each["content"] for each in prompt), "turn 0"]
    assert each_continues(typed)


@contextmanager
def speech(admin: Account) -> Iterator[list[str]]:
    """Let the host have texts spoken; gives the texts. Afterwards it speaks as before."""
    texts, before = list[str](), admin.api.get("/api/v1/audio/config")

    def speak(_path: str, asked: Any) -> Reply:
        texts.append(asked["input"])
        return Reply("audio/mpeg", A_FRAME_OF_MP3)

    with answering(speak) as address:
        changed = {"ENGINE": "openai", "OPENAI_API_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "none"}
        tts = {**before["tts"], **changed}
        admin.api.post("/api/v1/audio/config/update", {**before, "tts": tts})
        yield texts
        admin.api.post("/api/v1/audio/config/update", before)


@pytest.mark.browser
def test_the_models_words_alone_are_read_aloud(admin: Account, page: Browser) -> None:
    """Neither thinking nor tool calls nor markers, also where one stands in the text."""
    plots = {
        "Yak": "[[standin: search=cats]]",
        "Camel": '[[standin: reasoning=summary]] [[standin: call=get_current_timestamp]] [[standin: say="Wait."]]',
    }
    spoken = {}
    with speech(admin) as texts:
        for animal, directives in plots.items():
            answer, _ = admin.ask(SCRIPTED, f"{directives} {animal}")
            texts.clear()
            page.open_chat(answer.chat_id)
            page.press("Read Aloud")
            wait_until(lambda: any("input item" in text for text in texts))
            spoken[animal] = " ".join(texts)
    assert spoken["Yak"] == "You said: Yak standin/script saw 1 input item."
    assert spoken["Camel"].startswith("Wait. You said: Camel The tools answered")


# --- temporary chats ---


def say(account: Account, session: Session, model: str, text: str, before: list[Json]) -> list[Json]:
    """Send a question as the page does in a temporary chat, which it keeps by itself; return the chat."""
    names = [str(uuid.uuid4()), str(uuid.uuid4())]
    parent = before[-1]["id"] if before else None
    question: Json = {"id": names[0], "parentId": parent, "childrenIds": [], "role": "user", "content": text}
    ended = len(session.of_type("chat:active")) + 2
    body = {
        "stream": True,
        "model": model,
        "session_id": session.id,
        "chat_id": f"temporary:{session.id}",
        "id": names[1],
        "message_ids": [{"model_id": model, "message_id": names[1], "modelIdx": 0}],
        "parent_id": parent,
        "user_message": question,
        "messages": [*before, question],
        "tool_ids": [TOOL],
    }
    account.api.post("/api/chat/completions", body)
    session.wait_for("chat:active", count=ended)
    output = [each for each in session.of_type("chat:completion") if each.get("done")][-1]["output"]
    answer = {"id": names[1], "parentId": names[0], "childrenIds": [], "role": "assistant", "model": model}
    return [*before, question, {**answer, "output": output, "content": "", "done": True}]


@pytest.mark.usefixtures("accepted")
@pytest.mark.parametrize("model", [MODEL, CLAUDE, GEMINI])
def test_a_temporary_chat_keeps_its_reasoning_while_it_lasts(
    admin: Account, standin: StandIn, model: str
) -> None:
    """Between rounds and from turn to turn; each request begins with the one before, and no marker is shown."""
    with admin.session() as session:
        chat: list[Json] = []
        for text in (f"{CALL} one", "two", "three"):
            chat = say(admin, session, model, text, chat)
        assert session.of_type("status") == []
        shown = json.dumps(session.events)
    sent = [request.body["input"] for request in standin.responses]
    assert [kinds(items) for items in sent[1::2]] == [["user", *ROUND], [*FULL, *REPLAYED[1:]]]
    made = [item for request in standin.responses[:3] for item in request.output]
    assert wire(sent[-1], "reasoning") == wire(made, "reasoning")
    assert not re.search(r"\[[0-9A-Z]{20}\]: #", shown)
    assert each_continues([without_marks(items) for items in sent])


def test_a_temporary_chat_that_is_saved_goes_on_with_its_reasoning(admin: Account, standin: StandIn) -> None:
    """The page's Save makes a chat of what it has kept."""
    with admin.session() as session:
        messages = say(admin, session, MODEL, f"{CALL} one", [])
    history = {"messages": {each["id"]: each for each in messages}, "currentId": messages[-1]["id"]}
    form = {"chat": {"title": "Saved", "models": [MODEL], "history": history, "messages": messages}}
    saved = admin.api.post("/api/v1/chats/new", form)
    _, answer = admin.ask(MODEL, "two", after=Sent(saved["id"], messages[-1]["id"]), tool_ids=[TOOL])
    assert kinds(inputs(standin)[-1]) == FULL
    assert "statusHistory" not in answer


# --- channels ---


@dataclass
class Channel:
    """The messages of a channel in which one account mentions models."""

    api: Api
    path: str

    def mention(self, model: str, text: str, *, parent: str | None = None, **fields: Any) -> str:
        """Post a message with a mention and return its id."""
        form = {"content": f"<@M:{model}|Model> {text}", "parent_id": parent, **fields}
        return str(self.api.post(f"{self.path}/post", form)["id"])

    def answers(self, message: str, count: int = 1) -> list[str]:
        """The texts of the models' messages in a thread, newest first, once so many of them are done."""

        def done() -> list[str]:
            thread = self.api.get(f"{self.path}/{message}/thread")
            found = [each["content"] for each in thread if (each["meta"] or {}).get("done")]
            return found if len(found) >= count else []

        return wait_until(done)


@pytest.fixture(scope="module")
def channel(admin: Account) -> Iterator[Channel]:
    """A channel of the administrator's; other tests find channels switched off."""
    config = admin.api.get("/api/v1/auths/admin/config")
    admin.api.post("/api/v1/auths/admin/config", {**config, "ENABLE_CHANNELS": True})
    name = admin.api.post("/api/v1/channels/create", {"name": "ways", "access_grants": []})["id"]
    yield Channel(admin.api, f"/api/v1/channels/{name}/messages")
    admin.api.delete(f"/api/v1/channels/{name}/delete")
    admin.api.post("/api/v1/auths/admin/config", config)


def test_a_mentioned_model_answers_in_its_thread(channel: Channel, standin: StandIn) -> None:
    """Each mention is a request of its own, with the thread so far in the system prompt; tools run."""
    first = channel.mention(CLAUDE, "[[standin: call=get_current_timestamp]] one")
    (answer,) = channel.answers(first)
    channel.mention(MODEL, "two", parent=first)
    channel.answers(first, 2)
    one, with_tool, two = standin.responses
    assert kinds(with_tool.body["input"]) == ["user", *ROUND]
    assert (one.body["session_id"], one.status, two.status) == (with_tool.body["session_id"], 200, 200)
    assert "The tools answered" in answer
    prompt, question = texts_of(two.body["input"])
    assert answer in prompt
    assert question.endswith(": Model two")


def test_an_error_in_a_channel_is_read_there(channel: Channel) -> None:
    """Below what was written; Open WebUI shows no other line there."""
    refused = channel.mention(SCRIPTED, "[[standin: error=402]] one")
    broken = channel.mention(SCRIPTED, '[[standin: text="one two three"]] [[standin: fail=failed after=2]]')
    (refusal,), (rest,) = channel.answers(refused), channel.answers(broken)
    assert refusal.startswith("> The OpenRouter account has too few credits")
    assert rest.startswith("one two\n> The provider is not available")


def test_attachments_and_commands_in_a_channel_reach_the_model(
    admin: Account, channel: Channel, standin: StandIn
) -> None:
    """Images and documents, with the question. Open WebUI puts the author's name before a command."""
    picture = admin.upload("dot.png", draw("red"), "image/png")
    document = admin.upload("notes.txt", b"The code is 1234.", "text/plain")
    channel.answers(channel.mention(CLAUDE, "What is it?", data={"files": [picture, document]}))
    attached = standin.responses[-1].body["input"][-1]["content"]
    channel.answers(channel.mention(MODEL, "/help"))
    command = standin.responses[-1].body["input"][-1]["content"]
    found = [(part["type"], part.get("filename")) for part in attached]
    assert found == [("input_text", None), ("input_image", None), ("input_file", "notes.txt")]
    assert command[0]["text"].endswith("Model /help")


# --- folders, notes, presets ---


def test_a_folder_brings_its_prompt_and_names_its_files(admin: Account, standin: StandIn) -> None:
    """On every turn of its chats, which begin with the same bytes."""
    file = admin.upload("code.txt", b"The code is 1234.", "text/plain")
    data = {"system_prompt": "You work for {{USER_NAME}}.", "files": [file]}
    folder = admin.api.post("/api/v1/folders/", {"name": "Ways", "data": data})["id"]
    fields = {"folder_id": folder, "variables": {"{{USER_NAME}}": "Ada"}}
    talk(admin, MODEL, "one", "two", **fields)
    admin.api.delete(f"/api/v1/folders/{folder}")
    first, second = standin.responses
    prompt = texts_of(first.body["input"])[0]
    assert prompt.startswith("You work for Ada.\n<attached_knowledge>")
    assert 'name="code.txt" source="folder"' in prompt
    assert "query_knowledge_files" in {tool.get("name") for tool in first.body["tools"]}
    assert kinds(second.body["input"]) == REPLAYED
    assert each_continues(inputs(standin))


def test_a_notes_chat_reads_and_changes_the_note(admin: Account, standin: StandIn) -> None:
    """By the tools of Open WebUI, to which it says in its prompt which note it is about."""
    content = {"json": None, "html": "", "md": "milk and bread"}
    form = {"title": "Shopping", "data": {"content": content}}
    note = admin.api.post("/api/v1/notes/create", form)["id"]
    chat = admin.api.get(f"/api/v1/notes/{note}/chat")
    changed = {"note_id": note, "content": "- milk"}
    calls = (
        f"[[standin: call=view_note args={json.dumps({'note_id': note})}]] "
        f"[[standin: call=replace_note_content args={json.dumps(changed)}]] Tidy it."
    )
    messages = [{"role": "system", "content": chat["chat"]["params"]["system"]}]
    sent, _ = admin.ask(MODEL, calls, chat_id=chat["id"], messages=messages)
    admin.ask(MODEL, "Thanks.", after=sent, messages=messages)
    after = admin.api.get(f"/api/v1/notes/{note}")["data"]["content"]["md"]
    admin.api.delete(f"/api/v1/notes/{note}/delete")
    first, second, third = inputs(standin)
    assert after == "- milk"
    assert f"Current note id: {note}" in texts_of(first)[0]
    round_ = ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2]
    assert kinds(third) == ["user", *round_, *REPLAYED[1:]]
    assert each_continues([second, third])


@pytest.fixture
def knowledge(admin: Account) -> Iterator[Json]:
    """What a preset holds of a knowledge base and a tool, on a host that embeds."""
    file = admin.upload("fruits.txt", b"Bananas of ours are yellow.", "text/plain")
    form = {"name": "Fruits", "description": "", "access_grants": []}
    with embeddings(admin):
        base = admin.api.post("/api/v1/knowledge/create", form)["id"]
        admin.api.post(f"/api/v1/knowledge/{base}/file/add", {"file_id": file["id"]})
        attached = [{"type": "collection", "id": base, "name": "Fruits", "description": ""}]
        yield {"knowledge": attached, "toolIds": [TOOL]}
        admin.api.delete(f"/api/v1/knowledge/{base}/delete")


def test_a_preset_uses_its_knowledge_and_its_tool_together(
    admin: Account, standin: StandIn, knowledge: Json
) -> None:
    """The model looks into the one and calls the other; both results come back on the next turn."""
    look_up = '[[standin: call=grep_knowledge_files args={"pattern": "yellow"}]]'
    with preset(admin, meta=knowledge, system="Be kind.") as name:
        talk(admin, name, f"{CALL} {look_up} Which fruits are yellow?", "Thanks.", tool_ids=[TOOL])
    weather, found = outputs_of(inputs(standin)[2])
    assert "20 degrees" in str(weather)
    assert "Bananas of ours" in str(found)
    assert each_continues(inputs(standin)[1:])


def test_without_native_calls_excerpts_come_with_each_question(
    admin: Account, standin: StandIn, knowledge: Json
) -> None:
    """In the mode that Open WebUI calls legacy: behind the words of the last question alone, as excerpts do."""
    with preset(admin, meta=knowledge, system="Be kind.", function_calling="legacy") as name:
        (_, answer), _ = talk(admin, name, "Which fruits are yellow?", "Thanks.", tool_ids=[TOOL])
    first, second = inputs(standin)
    assert [len(item["content"]) for item in first] == [1, 2]
    assert "Bananas of ours" in first[1]["content"][1]["text"]
    assert second[1]["content"] == [{"type": "input_text", "text": "Which fruits are yellow?"}]
    assert kinds(second) == REPLAYED
    assert answer["sources"][0]["source"]["name"] == "Fruits"
    assert not any(each.body.get("tools") for each in standin.responses if "session_id" in each.body)
    assert len(standin.responses) == 6  # the host asked twice before each: for tools, and for queries


# --- parameters ---

OMITTED = {"seed": 7, "min_p": 0.1, "logit_bias": {"1": 2}, "mirostat": 1, "num_ctx": 4096}
SHARED = {"temperature": 0.3, "top_p": 0.9, "frequency_penalty": 0.5, "presence_penalty": 0.4}
SET = {
    **SHARED,
    **OMITTED,
    "max_tokens": 5000,
    "stop": ["END", "A", "B", "C", "D"],
    "reasoning_effort": "high",
    "custom_params": {"verbosity": "low", "service_tier": "priority", "not_a_parameter": "x"},
}
SENT = {
    **SHARED,
    "max_output_tokens": 5000,
    "stop": ["END", "A", "B", "C"],
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"verbosity": "low"},
    "service_tier": "priority",
}
ALWAYS = {"model", "input", "include", "stream", "store", "tools"}
OF_CACHE = {"session_id", "prompt_cache_key", "cache_control"}


def test_parameters_of_a_chat_are_those_of_the_responses_api(admin: Account, standin: StandIn) -> None:
    """What it does not know, or the model does not take, is omitted."""
    admin.ask(CLAUDE, "one", params=SET)
    body = standin.responses[-1].body
    assert {key: value for key, value in body.items() if key not in ALWAYS | OF_CACHE} == SENT


def test_what_stands_in_tags_of_thinking_is_not_sent_again(admin: Account, standin: StandIn) -> None:
    """It stays in the answer's text, since what providers give as reasoning needs no tags."""
    said, params = "<think>Hm.</think> Yes.", {"reasoning_tags": ["<think>", "</think>"]}
    text = f"[[standin: text={json.dumps(said)}]]"
    (_, answer), _ = talk(admin, SCRIPTED, text, "two", params=params)
    assert texts_of(inputs(standin)[-1])[1].strip() == "Yes."
    assert text_of(answer) == said


# --- all of them ---


def test_a_block_in_a_chat_that_is_not_saved_is_text(
    admin: Account, channel: Channel, standin: StandIn
) -> None:
    """Nothing tells there whether a host wrote it, whoever quotes it, and whoever sends it as the answer's."""
    text = f"[[standin: text={json.dumps(BLOCK)}]] What is this?\n{BLOCK}"
    with admin.session() as session:
        say(admin, session, SCRIPTED, "two", say(admin, session, SCRIPTED, text, []))
    first = channel.mention(SCRIPTED, text)
    channel.answers(first)
    channel.mention(SCRIPTED, "two", parent=first)
    channel.answers(first, 2)
    said = [("user", "one"), ("assistant", BLOCK), ("user", "two")]
    admin.complete(SCRIPTED, [{"role": role, "content": content} for role, content in said])
    sent = [request.body["input"] for request in standin.responses]
    of_api = ["user", "assistant", "user"]
    assert [kinds(items) for items in sent] == [["user"], of_api, ["user"], ["user"], of_api]
    assert [texts_of(items)[1] for items in (sent[1], sent[-1])] == [BLOCK] * 2
    assert BLOCK in texts_of(sent[3])[0]
