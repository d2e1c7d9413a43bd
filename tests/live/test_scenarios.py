"""What people do with chats in a real Open WebUI: branch, edit, copy, share, continue, approve, attach, mix models.

The stand-in must accept every request to the letter, unless a test says otherwise.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from open_webui_openrouter_pipe.history.markers import iter_marker_spans
from scripts.bundle import builder
from scripts.harness.openwebui import Account, OpenWebUI, Sent
from scripts.paths import PACKAGE
from tests.live.test_chat import CLAUDE, MODEL, SCRIPTED, WEATHER, bytes_of, sent_items, text_of, types_of
from tests.support.fixtures import SERVED_SCHEMA
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.servers import PostgresServer
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

GEMINI = "openrouter.google/gemini-3-pro"
PNG = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
TROUBLE = '''
class Tools:
    def get_trouble(self) -> str:
        """
        Raise.
        """
        raise RuntimeError("out of paper")
'''


@pytest.fixture(autouse=True)
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request of every test is valid, to the letter."""
    yield
    verdicts = [(request.status, request.warnings, request.error) for request in standin.responses]
    assert verdicts == [(200, [], "")] * len(verdicts)


def repeat(account: Account, sent: Sent, model: str, *, message_id: str, **fields: Any) -> dict[str, Any]:
    """Have an answered question answered once more, as Regenerate and Continue do; gives the stored answer."""
    messages = account.chat(sent.chat_id)["history"]["messages"]
    question = messages[messages[sent.message_id]["parentId"]]
    body = {
        "stream": True,
        "model": model,
        "chat_id": sent.chat_id,
        "session_id": f"no-tab-{uuid.uuid4()}",
        "id": message_id,
        "message_ids": [{"model_id": model, "message_id": message_id, "modelIdx": 0}],
        "parent_id": question["parentId"],
        "user_message": question,
        **fields,
    }
    account.api.post("/api/chat/completions", body)
    return account.wait(Sent(sent.chat_id, message_id))


def conversation(request: RecordedRequest) -> list[str]:
    """The items of a request, messages by their roles."""
    return [
        item.get("role") or item["type"] for item in request.body["input"] if item.get("role") != "system"
    ]


def asked(standin: StandIn) -> list[RecordedRequest]:
    """The requests for answers, without those for Open WebUI's own tasks."""
    return [request for request in standin.responses if b"### Task:" not in request.raw]


STUB_KEY = "sk-or-v1-of-the-stub"
REPLAYED = ["user", "reasoning", "assistant", "user"]


def test_regenerate_gives_a_sibling_that_goes_on_alone(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The first answer is no part of the second, and the chat goes on from the second."""
    admin = open_webui.admin
    first, _ = admin.ask(MODEL, "one")
    sibling = Sent(first.chat_id, str(uuid.uuid4()))
    repeat(admin, first, MODEL, message_id=sibling.message_id)
    admin.ask(MODEL, "two", after=sibling)
    assert [conversation(request) for request in standin.responses] == [["user"], ["user"], REPLAYED]
    assert sent_items(standin)[1]["id"] == standin.responses[1].output[0]["id"]


def test_an_edited_question_begins_a_branch(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The branch has what stands before it, reasoning included, and nothing of its sibling."""
    admin = open_webui.admin
    first, _ = admin.ask(MODEL, "one")
    admin.ask(MODEL, "two", after=first)
    admin.ask(MODEL, "two, edited", after=first)
    last = sent_items(standin)
    assert conversation(standin.responses[-1]) == REPLAYED
    assert last[-1]["content"][0]["text"] == "two, edited"


def test_an_edited_answer_is_sent_as_edited(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Its text is the user's, its marker and so its reasoning are still there."""
    admin = open_webui.admin
    first, answer = admin.ask(MODEL, "one")
    chat = admin.chat(first.chat_id)
    edited = json.loads(json.dumps(answer).replace("You said: one", "I never said that"))
    chat["history"]["messages"][first.message_id] = edited
    admin.api.post(f"/api/v1/chats/{first.chat_id}", {"chat": chat})
    admin.ask(MODEL, "two", after=first)
    assert conversation(standin.responses[-1]) == REPLAYED
    assert sent_items(standin)[2]["content"][0]["text"].startswith("I never said that")


def test_continue_adds_to_an_answer(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The answer so far is the end of the request, and the next turn has both halves."""
    admin = open_webui.admin
    first, answer = admin.ask(MODEL, "one")
    repeat(admin, first, MODEL, message_id=first.message_id, assistant_message_id=first.message_id)
    longer = wait_until(
        lambda: len((message := admin.message(first))["output"]) > 2 and message.get("done") and message
    )
    admin.ask(MODEL, "two", after=first)
    assert text_of(longer).startswith(text_of(answer))
    assert [conversation(request) for request in standin.responses[1:]] == [
        ["user", "reasoning", "assistant"],
        ["user", "reasoning", "assistant", "reasoning", "assistant", "user"],
    ]


@pytest.mark.parametrize("way", ["clone", "fork"])
def test_a_copied_chat_still_has_its_reasoning(open_webui: OpenWebUI, standin: StandIn, way: str) -> None:
    """Artifacts belong to the user, not to the chat."""
    admin = open_webui.admin
    first, _ = admin.ask(MODEL, "one")
    copy = admin.api.post(f"/api/v1/chats/{first.chat_id}/{way}", {})
    admin.ask(MODEL, "two", after=Sent(copy["id"], copy["chat"]["history"]["currentId"]))
    assert conversation(standin.responses[-1]) == REPLAYED
    assert bytes_of(sent_items(standin)[1:2]) == bytes_of(standin.responses[0].output[:1])


def test_another_users_copy_has_missing_artifacts(open_webui: OpenWebUI, standin: StandIn) -> None:
    """A marker finds nothing in someone else's chat; the chat goes on, and a status line says so once."""
    first, _ = open_webui.admin.ask(MODEL, "one")
    api = open_webui.admin.api
    share_id = api.post(f"/api/v1/chats/{first.chat_id}/share", {})["share_id"]
    everyone = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
    api.post(f"/api/v1/chats/shared/{first.chat_id}/access/update", {"access_grants": everyone})
    other = open_webui.add_user("reader")
    copy = other.api.post(f"/api/v1/chats/{share_id}/clone/shared", {})
    sent, answer = other.ask(MODEL, "two", after=Sent(copy["id"], copy["chat"]["history"]["currentId"]))
    _, later = other.ask(MODEL, "three", after=sent)
    assert conversation(standin.responses[1]) == ["user", "assistant", "user"]
    assert "could not be reloaded" in answer["statusHistory"][0]["description"]
    assert "statusHistory" not in later


def test_two_models_answer_one_message(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Each goes on with its own answer and its own reasoning."""
    admin = open_webui.admin
    ids = {model: str(uuid.uuid4()) for model in (MODEL, CLAUDE)}
    entries = [
        {"model_id": model, "message_id": key, "modelIdx": at} for at, (model, key) in enumerate(ids.items())
    ]
    sent = admin.send(MODEL, "one", message_ids=entries)
    answers = {model: admin.wait(Sent(sent.chat_id, key)) for model, key in ids.items()}
    for model, key in ids.items():
        admin.ask(model, "two", after=Sent(sent.chat_id, key))
    assert all(text_of(answer) for answer in answers.values())
    last = {request.body["model"]: request for request in standin.responses[-2:]}
    assert sorted(last) == sorted(model.removeprefix("openrouter.") for model in ids)
    assert [conversation(request) for request in last.values()] == [REPLAYED] * 2


def test_a_preset_brings_its_prompt_and_parameters(open_webui: OpenWebUI, standin: StandIn) -> None:
    """A workspace model on top of the pipe's: its system prompt comes first, on every turn, and reasoning is kept."""
    form = {
        "id": "brief",
        "base_model_id": MODEL,
        "name": "Brief",
        "meta": {},
        "params": {"system": "Be brief.", "max_tokens": 300, "reasoning_effort": "low"},
    }
    open_webui.admin.api.post("/api/v1/models/create", form)
    open_webui.admin.api.models()
    first, _ = open_webui.admin.ask("brief", "one")
    open_webui.admin.ask("brief", "two", after=first)
    body = standin.responses[-1].body
    system = [item["content"][0]["text"] for item in body["input"] if item.get("role") == "system"]
    assert (body["model"], body["max_output_tokens"], body["reasoning"]["effort"]) == (
        "openai/gpt-5.2",
        300,
        "low",
    )
    assert (system, body["input"][0]["role"]) == (["Be brief."], "system")
    assert conversation(standin.responses[-1]) == REPLAYED


@pytest.fixture
def approval_tool(open_webui: OpenWebUI) -> Iterator[None]:
    """Open WebUI lets a chat ask before each call of a tool."""
    api = open_webui.admin.api
    config = api.get("/api/v1/chats/config")
    api.post("/api/v1/chats/config", {**config, "ENABLE_TOOL_PERMISSIONS": True})
    yield
    api.post("/api/v1/chats/config", config)


@pytest.mark.usefixtures("approval_tool")
def test_a_call_that_is_to_be_approved_waits_for_it(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The pipe ends its round with the call; after the user's yes the turn goes on, and all of it is replayed."""
    admin = open_webui.admin
    open_webui.add_tool("weather_approved", WEATHER)
    fields: dict[str, Any] = {"tool_ids": ["weather_approved"], "params": {"tool_approval_mode": "ask"}}
    sent = admin.send(MODEL, f"{CALL} Weather?", **fields)
    call = wait_until(lambda: _pending_call(admin.message(sent)))
    rounds_before = len(standin.responses)
    path = f"/api/v1/chats/{sent.chat_id}/messages/{sent.message_id}/resolve"
    admin.api.post(path, {"call_id": call["call_id"], "action": "approve"})
    answer = admin.wait(sent)
    admin.ask(MODEL, "and now?", after=sent)
    assert rounds_before == 1
    assert "Weather in Paris: 20 degrees" in text_of(answer)
    turn = ["user", "reasoning", "function_call", "function_call_output", "reasoning", "assistant", "user"]
    assert conversation(standin.responses[-1]) == turn


def _pending_call(message: dict[str, Any]) -> dict[str, Any] | None:
    calls = (item for item in message.get("output") or [] if item["type"] == "function_call")
    return next((call for call in calls if call["status"] == "pending"), None)


def test_a_tool_that_raises_does_not_end_the_turn(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The model reads what went wrong, and answers."""
    open_webui.add_tool("trouble", TROUBLE)
    first, answer = open_webui.admin.ask(MODEL, "[[standin: call=get_trouble]] Try.", tool_ids=["trouble"])
    open_webui.admin.ask(MODEL, "and now?", after=first, tool_ids=["trouble"])
    assert "error" not in answer
    assert "out of paper" in json.dumps(standin.responses[1].body["input"][-1])


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
def test_rounds_of_parallel_tools_are_replayed_to_every_family(
    open_webui: OpenWebUI, standin: StandIn, model: str
) -> None:
    """Signed thinking stays before its calls, over two rounds of two calls, and in the next turn."""
    tool_id = f"weather_{model.rpartition('/')[2][:6]}"
    open_webui.add_tool(tool_id, WEATHER)
    plot = f'{CALL} {CALL} [[standin: say="Let me look."]] [[standin: rounds=2]]'
    first, _ = open_webui.admin.ask(model, f"{plot} Weather?", tool_ids=[tool_id])
    open_webui.admin.ask(model, "and now?", after=first, tool_ids=[tool_id])
    kept = ("reasoning", "function_call")
    given = [item for request in standin.responses[:-1] for item in request.output if item["type"] in kept]
    assert bytes_of([item for item in sent_items(standin) if item["type"] in kept]) == bytes_of(given)
    assert types_of(given).count("function_call") == 4


def test_citations_become_sources(open_webui: OpenWebUI) -> None:
    """Each once, as Open WebUI shows them below the answer."""
    plot = '[[standin: cite=https://a.example title="A page"]] [[standin: search=x]] Search.'
    _, answer = open_webui.admin.ask(SCRIPTED, plot)
    assert [source["source"] for source in answer["sources"]] == [
        {"name": "A page", "url": "https://a.example"}
    ]


def test_without_streaming_a_chat_keeps_text_thinking_and_errors(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """The answer is stored as a streamed one is, and what was written before a failure stays beside its line."""
    admin = open_webui.admin
    first, whole = admin.ask(MODEL, "one", stream=False)
    standin.script('[[standin: text="one two three four"]] [[standin: fail=failed after=15]]')
    second, _ = admin.ask(MODEL, "two", after=first, stream=False)
    wait_until(lambda: "output" in admin.message(second))  # the host writes the error first
    broken = admin.message(second)
    admin.ask(MODEL, "three", after=second, stream=False)
    assert types_of(whole["output"]) == ["reasoning", "message"]
    assert text_of(broken).endswith("one two")
    assert broken["error"]["content"]
    assert conversation(standin.responses[-1]) == [*REPLAYED[:3], *REPLAYED]


def test_an_image_of_the_user_reaches_the_model_on_every_turn(
    open_webui: OpenWebUI, standin: StandIn
) -> None:
    """As an image part of the message that it came with."""
    image = [{"type": "image", "url": PNG}]
    first, _ = open_webui.admin.ask(MODEL, "What is this?", files=image)
    open_webui.admin.ask(MODEL, "two", after=first)
    shown = [request.body["input"][0]["content"] for request in asked(standin)]
    assert [[part["type"] for part in parts] for parts in shown] == [["input_text", "input_image"]] * 2
    assert shown[0] == shown[1]


@pytest.mark.servers
def test_the_stub_and_sealed_valves_work(
    served: OpenWebUI, standin: StandIn, postgres_server: PostgresServer
) -> None:
    """The thin function finds the installed package; its key is sealed in the database, and used in the clear."""
    api = served.admin.api
    api.install_function("stub", "Stub", builder.stub(builder.read_package(PACKAGE)))
    api.set_valves("stub", {"API_KEY": STUB_KEY, "BASE_URL": standin.base_url})
    model = MODEL.replace("openrouter.", "stub.")
    assert model in api.models()
    first, _ = served.admin.ask(model, "one")
    _, answer = served.admin.ask(model, "two", after=first)
    assert sum(1 for _ in iter_marker_spans(answer["content"])) == 0
    assert conversation(standin.responses[-1]) == REPLAYED
    with psycopg.connect(postgres_server.url) as connection:
        query = f'SELECT valves::text FROM "{SERVED_SCHEMA}".function WHERE id = %s'
        [[stored]] = connection.execute(query, ["stub"]).fetchall()
    assert stored
    assert STUB_KEY not in stored
