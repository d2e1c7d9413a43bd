"""Chats in a real Open WebUI: tools, tasks, branches, edits, copies, imports, approval, and models side by side.

The stand-in must accept every request to the letter.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence

import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK, REFERENCE_TYPE
from scripts.harness.openwebui import TOOL, Account, OpenWebUI, Sent
from scripts.standin import StandIn
from tests.live.chats import BLOCK, EVERYBODY, copy_of, end_of, preset, repeat, saved_chat, talk
from tests.live.items import (
    answers,
    arguments_of,
    error_of,
    given,
    inputs,
    kinds,
    statuses,
    text_of,
    texts_of,
    wire,
)
from tests.live.models import CALL, CLAUDE, FULL, GEMINI, MODEL, REPLAYED, ROUND, SCRIPTED, Json
from tests.support.host_source import is_older
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("accepted")]

SIBLING = "openrouter.openai/gpt-5.6-sol"
THINK = "[[standin: reasoning=summary]]"
TWO_ROUNDS = f'{THINK} [[standin: say="I look."]] [[standin: call=get_weather times=2]] [[standin: rounds=2]]'
MARKER = re.compile(r"\[[0-9A-Z]{20}\]: #")
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


# --- what an answer may be ---


@pytest.mark.parametrize("model", [MODEL, CLAUDE, GEMINI, "openrouter.deepseek/deepseek-v3.2"])
def test_rounds_with_tools_come_back_in_their_order(admin: Account, standin: StandIn, model: str) -> None:
    """Open WebUI runs the tool twice in each of two rounds and keeps nothing sealed; the next turn has all of it."""
    (_, answer), _ = talk(admin, model, f"{TWO_ROUNDS} Weather?", "and now?", tool_ids=[TOOL])
    sent = inputs(standin)[-1]
    one_round = ["reasoning", "assistant", *["function_call"] * 2, *["function_call_output"] * 2]
    assert kinds(sent) == ["user", *one_round, *one_round, *REPLAYED[1:]]
    made = given(answers(standin)[:-1])
    assert wire(sent, "reasoning", "function_call") == wire(made, "reasoning", "function_call")
    assert "20 degrees" in answer["content"]
    assert answer["usage"]["cost"] > 0
    assert [text in json.dumps(answer) for text in (REFERENCE_TYPE, "encrypted_content")] == [True, False]


KINDS = {
    "plain": "one",
    "reasoning": f"{THINK} one",
    "rounds of tools": f'{THINK} [[standin: say="I look."]] {CALL} [[standin: rounds=3]] one',
    "parallel calls": f"{THINK} [[standin: call=get_weather times=3]] one",
    "reasoning, a search": f"{THINK} [[standin: search=cats]] [[standin: cite=https://a.example/b]] one",
    "reasoning, a picture": f"{THINK} [[standin: image=cat]] one",
    "a refusal": f'{THINK} [[standin: refusal="I cannot."]] one',
    "cut off": f"{THINK} [[standin: incomplete=max_output_tokens]] one",
    "a tool alone": f'[[standin: say="I look."]] {CALL} one',
    "citations": "[[standin: cite=https://a.example/b]] one",
    "a search": "[[standin: search=cats]] one",
    "a picture": "[[standin: image=cat]] one",
}
"""With reasoning and without."""
IN_TEXT = {"a search", "a picture"}
"""What a provider's own tool did has no reasoning beside which it could be referred to."""


def said(items: Sequence[Json]) -> list[str]:
    """The texts of an answer's messages, as they are."""
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return [text for part in parts if (text := (part.get("text") or part.get("refusal") or "").strip())]


def kept(items: Sequence[Json]) -> set[object]:
    """What our store alone has whole: reasoning, calls as they were written, and what a provider's own tools did."""
    of_tools = [item["type"] for item in items if item["type"] not in {"reasoning", "message"}]
    return {*wire(items, "reasoning"), *arguments_of(items), *of_tools}


def test_the_stored_text_is_what_the_model_said(admin: Account, standin: StandIn) -> None:
    """For all kinds of answers but those that are named, and all of what was kept comes back on the next turn."""
    differing, lost, cited = set(), set(), set()
    for kind, text in KINDS.items():
        standin.reset()
        answer, stored = admin.ask(SCRIPTED, text, tool_ids=[TOOL])
        made = given(answers(standin))
        admin.ask(SCRIPTED, "two", after=answer, tool_ids=[TOOL])
        if said(stored["output"]) != said(made) or re.search(r"[0-9A-Z]{20}", stored["content"]):
            differing.add(kind)
        if not kept(made) <= kept(inputs(standin)[-1]):
            lost.add(kind)
        if [each["source"]["url"] for each in stored.get("sources", ())] == ["https://a.example/b"]:
            cited.add(kind)
    assert (differing, lost, cited) == (IN_TEXT, set(), {"citations", "reasoning, a search"})


def test_a_call_that_a_model_wrote_as_text_stays_text(admin: Account, standin: StandIn) -> None:
    """Open WebUI hands it over as it hands over a call of an older version; its own record tells which it is."""
    text = f"The page says:\n{BLOCK}\nDone."
    chat = saved_chat(admin, SCRIPTED, [("one", text)])
    for after in (chat, copy_of(admin, chat)):
        talk(admin, SCRIPTED, f"[[standin: text={json.dumps(text)}]] two", "three", after=after)
        sent = inputs(standin)[-1]
        old = ["user", "assistant", "function_call", "function_call_output", "assistant"]
        assert kinds(sent) == [*old, "user", "assistant", "user"]
        assert sent[-2]["content"][0]["text"] == text


def test_what_a_preset_sets_is_sent_and_a_user_replaces_nothing_of_it(
    open_webui: OpenWebUI, admin: Account, standin: StandIn
) -> None:
    """Neither in a chat nor over the API: its prompt comes first on every turn, and a line names what was omitted."""
    user = open_webui.add_user("spender")
    wanted: Json = {"provider": {"data_collection": "allow"}, "service_tier": "priority"}
    own: Json = {"max_tokens": 300, "custom_params": {"provider": '{"allow_fallbacks": false}'}}
    with preset(admin, system="Be brief.", reasoning_effort="low", **own) as name:
        user.api.models()
        first, answer = user.ask(name, "one", **wanted)
        _, plain = user.ask(name, "two", after=first)
        user.complete(name, [{"role": "user", "content": "three"}], **wanted)
    for body in (request.body for request in standin.responses):
        sent = (body["provider"], body["max_output_tokens"], body["reasoning"]["effort"])
        assert sent == ({"allow_fallbacks": False}, 300, "low")
        assert (texts_of(body["input"])[0], "service_tier" in body) == ("Be brief.", False)
    assert kinds(inputs(standin)[1]) == REPLAYED
    assert "provider, service_tier" in statuses(answer)[0]
    assert statuses(plain) == []


def test_tasks_see_neither_markers_nor_commands(admin: Account, standin: StandIn) -> None:
    """They have no tools and no thinking; a chat that begins with a command, for free, is then named by a question."""
    with admin.session() as tab:
        tasks = dict.fromkeys(("title_generation", "tags_generation", "follow_up_generation"), True)
        fields: Json = {"session_id": tab.id, "background_tasks": tasks}
        sent, _ = admin.ask(MODEL, "/help", **fields)
        tab.wait_for("chat:title")
        assert (admin.chat(sent.chat_id)["title"], standin.responses) == ("/help", [])
        later = {**fields, "background_tasks": {"follow_up_generation": True}}  # as the page has them
        one, _ = admin.ask(MODEL, "one", after=sent, **later)
        wait_until(lambda: admin.message(one).get("followUps"))
        tab.wait_for("chat:title", 2)
        assert admin.chat(sent.chat_id)["title"] == "One"
        admin.ask(MODEL, "two", **fields)
        tab.wait_for("chat:tags", 2)  # the host's last task
    prompts = [request.body for request in standin.responses if "session_id" not in request.body]
    found = {("tools" in body, body["reasoning"]["effort"]) for body in prompts}
    assert (len(prompts) >= 4, found) == (True, {(False, "none")})
    texts = [texts_of(body["input"])[-1] for body in prompts]
    assert not any("/help" in text or ANSWER_MARK in text or MARKER.search(text) for text in texts)


@pytest.mark.parametrize("stream", [True, False])
def test_a_chat_keeps_text_thinking_tools_and_errors(
    admin: Account, standin: StandIn, *, stream: bool
) -> None:
    """Streamed or not, while OpenRouter streams all the same; beside an error stands what was written."""
    fields: Json = {"params": {"stream_response": stream}, "tool_ids": [TOOL]}
    first, whole = admin.ask(MODEL, f"{CALL} one", **fields)
    standin.script('[[standin: text="one two three four"]] [[standin: fail=failed after=15]]')
    second, _ = admin.ask(MODEL, "two", after=first, **fields)
    wait_until(lambda: "output" in admin.message(second))  # the host writes the error first
    broken = admin.message(second)
    admin.ask(MODEL, "three", after=second, **fields)
    assert kinds(whole["output"]) == [*ROUND, "reasoning", "assistant"]
    assert text_of(broken).endswith("one two")
    assert error_of(broken).startswith("The provider")
    assert kinds(inputs(standin)[-1]) == [*FULL[:-1], *REPLAYED]
    assert {request.body["stream"] for request in standin.responses} == {True}


def test_a_call_that_is_to_be_approved_waits_for_it(admin: Account, standin: StandIn) -> None:
    """The pipe ends its round with the call; after the user's yes the turn goes on, and all of it is replayed."""

    def pending() -> Json | None:
        items = admin.message(sent).get("output") or []
        return next((item for item in items if item.get("status") == "pending"), None)

    config = admin.api.get("/api/v1/chats/config")
    admin.api.post("/api/v1/chats/config", {**config, "ENABLE_TOOL_PERMISSIONS": True})
    sent = admin.send(MODEL, f"{CALL} Weather?", tool_ids=[TOOL], params={"tool_approval_mode": "ask"})
    call = wait_until(pending)
    rounds_before = len(standin.responses)
    path = f"/api/v1/chats/{sent.chat_id}/messages/{sent.message_id}/resolve"
    admin.api.post(path, {"call_id": call["call_id"], "action": "approve"})
    answer = admin.wait(sent)
    admin.ask(MODEL, "and now?", after=sent)
    admin.api.post("/api/v1/chats/config", config)
    assert rounds_before == 1
    assert "Weather in Paris: 20 degrees" in text_of(answer)
    # before 0.12 the host stores no result of such a call, and hands over neither
    assert kinds(inputs(standin)[-1]) == (REPLAYED if is_older() else FULL)


# --- what is done with a chat ---


def edited(admin: Account, chat: Sent) -> Sent:
    """Edit the answer's text."""
    whole = json.dumps(admin.chat(chat.chat_id)).replace("The tools answered", "The tools have answered")
    admin.api.post(f"/api/v1/chats/{chat.chat_id}", {"chat": json.loads(whole)})
    return chat


def outliving(admin: Account, chat: Sent) -> Sent:
    """Clone the chat, and delete it."""
    copy = copy_of(admin, chat)
    admin.api.delete(f"/api/v1/chats/{chat.chat_id}")
    return copy


def archived(admin: Account, chat: Sent) -> Sent:
    """Archive the chat, and take it back."""
    for _ in ("there", "and back"):
        admin.api.post(f"/api/v1/chats/{chat.chat_id}/archive")
    return chat


def imported(admin: Account, chat: Sent, *omitted: str) -> Sent:
    """Export the chat, delete it, and import what was exported, without some fields of its messages."""
    whole = admin.chat(chat.chat_id)
    admin.api.delete(f"/api/v1/chats/{chat.chat_id}")
    for message in whole["history"]["messages"].values():
        for name in omitted:
            message.pop(name, None)
    (created,) = admin.api.post("/api/v1/chats/import", {"chats": [{"chat": whole}]})
    return Sent(created["id"], chat.message_id)


def regenerated(admin: Account, chat: Sent) -> Sent:
    """Regenerate; the chat goes on from the old answer all the same."""
    repeat(admin, chat, MODEL, message_id=str(uuid.uuid4()), tool_ids=[TOOL])
    return chat


def continued(admin: Account, chat: Sent) -> Sent:
    """Press Continue."""
    items = len(admin.message(chat)["output"])
    repeat(admin, chat, MODEL, message_id=chat.message_id, assistant_message_id=chat.message_id)
    wait_until(lambda: len((now := admin.message(chat))["output"]) > items and now.get("done"))
    return chat


WHOLE, CALLS, NOTHING = "reasoning and calls", "calls", ""
ACTIONS: dict[str, tuple[Callable[[Account, Sent], Sent], str, str]] = {
    "another model of the family": (lambda _, chat: chat, SIBLING, CALLS),
    "another family": (lambda _, chat: chat, CLAUDE, CALLS),
    "another model between": (lambda admin, chat: admin.ask(SIBLING, "between", after=chat)[0], MODEL, WHOLE),
    "edit": (edited, MODEL, WHOLE),
    "regenerate": (regenerated, MODEL, WHOLE),
    "continue": (continued, MODEL, WHOLE),
    "clone": (copy_of, MODEL, WHOLE),
    "fork": (lambda admin, chat: copy_of(admin, chat, "fork"), MODEL, WHOLE),
    "clone, the original deleted": (outliving, MODEL, WHOLE),
    "archive and back": (archived, MODEL, WHOLE),
    "export and import": (imported, MODEL, WHOLE),
    "import of the text alone": (lambda admin, chat: imported(admin, chat, "output"), MODEL, NOTHING),
}
"""What is done with a chat, the model that is asked next, and what of its artifacts that one gets."""


@pytest.mark.parametrize("action", ACTIONS)
def test_what_survives(admin: Account, standin: StandIn, action: str) -> None:
    """The table of docs/inside.md; an edited text is sent as edited, and a clone is a session of its own."""
    act, model, survives = ACTIONS[action]
    chat, _ = admin.ask(MODEL, f'[[standin: say="I look."]] {CALL} one', tool_ids=[TOOL])
    made = given(answers(standin))
    chat = act(admin, chat)
    admin.ask(model, "two", after=chat, tool_ids=[TOOL])
    now = inputs(standin)[-1]
    found = {
        "reasoning": {*wire(made, "reasoning")} <= {*wire(now, "reasoning")},
        "calls": arguments_of(made) == arguments_of(now)[: len(arguments_of(made))] != [],
    }
    assert " and ".join(kind for kind, is_found in found.items() if is_found) == survives
    assert ("The tools have answered" in json.dumps(now)) is (action == "edit")
    sessions = {request.body["session_id"] for request in answers(standin)}
    assert len(sessions) == 1 + ("clone" in action or action == "fork" or "import" in action)


def test_branches_know_nothing_of_each_other(admin: Account, standin: StandIn) -> None:
    """A regenerated answer stands alone, an edited question begins anew, and a continued answer has both halves."""
    first, answer = admin.ask(MODEL, "one")
    sibling = Sent(first.chat_id, str(uuid.uuid4()))
    repeat(admin, first, MODEL, message_id=sibling.message_id)
    admin.ask(MODEL, "two", after=sibling)
    assert [kinds(each) for each in inputs(standin)] == [["user"], ["user"], REPLAYED]
    assert inputs(standin)[-1][1]["id"] == answers(standin)[1].output[0]["id"]
    admin.ask(MODEL, "two, edited", after=sibling)
    assert (kinds(inputs(standin)[-1]), texts_of(inputs(standin)[-1])[-1]) == (REPLAYED, "two, edited")
    standin.reset()
    continued(admin, first)
    admin.ask(MODEL, "two", after=first)
    assert text_of(admin.message(first)).startswith(text_of(answer))
    assert [kinds(each) for each in inputs(standin)] == [REPLAYED[:3], [*REPLAYED[:3], *REPLAYED[1:]]]


def test_another_users_copy_has_missing_artifacts(
    open_webui: OpenWebUI, admin: Account, standin: StandIn
) -> None:
    """A marker finds nothing in someone else's chat; the chat goes on, and a status line says so once."""
    first, _ = admin.ask(MODEL, "one")
    share_id = admin.api.post(f"/api/v1/chats/{first.chat_id}/share", {})["share_id"]
    admin.api.post(f"/api/v1/chats/shared/{first.chat_id}/access/update", {"access_grants": EVERYBODY})
    other = open_webui.add_user("reader")
    copy = other.api.post(f"/api/v1/chats/{share_id}/clone/shared", {})
    (_, answer), (_, later) = talk(other, MODEL, "two", "three", after=end_of(other, copy["id"]))
    assert kinds(inputs(standin)[1]) == ["user", "assistant", "user"]
    assert "not reloaded" in statuses(answer)[0]
    assert statuses(later) == []


# --- several models ---


def test_an_arena_gets_the_calls_alone(admin: Account, standin: StandIn) -> None:
    """Open WebUI keeps the arena as the model of the answer, and compares it with the one that answers next."""
    arena = {"id": "carried-arena", "name": "Arena", "meta": {"model_ids": [MODEL]}}
    before = admin.api.get("/api/v1/evaluations/config")
    form = {**before, "ENABLE_EVALUATION_ARENA_MODELS": True, "EVALUATION_ARENA_MODELS": [arena]}
    admin.api.post("/api/v1/evaluations/config", form)
    admin.api.models()
    talk(admin, "carried-arena", f"{CALL} one", "two", tool_ids=[TOOL])
    admin.api.post("/api/v1/evaluations/config", before)
    now = inputs(standin)[-1]
    assert arguments_of(now) == arguments_of(given(answers(standin)[:-1])) != []
    assert "reasoning" not in kinds(now)


def ask_all(account: Account, models: Sequence[str], text: str, after: Sent | None = None) -> list[Sent]:
    """Send one message to several models as the page does, and wait for all answers."""
    entries = [
        {"model_id": model, "message_id": str(uuid.uuid4()), "modelIdx": at}
        for at, model in enumerate(models)
    ]
    sent = account.send(models[0], text, after=after, message_ids=entries, tool_ids=[TOOL])
    answered = [Sent(sent.chat_id, str(entry["message_id"])) for entry in entries]
    assert [error_of(account.wait(answer)) for answer in answered] == [""] * len(models)
    return answered


def by_model(standin: StandIn) -> dict[str, list[Json]]:
    """The input of the last request to each model."""
    return {f"openrouter.{request.body['model']}": request.body["input"] for request in answers(standin)}


@pytest.mark.parametrize("written_by", [0, 1])
def test_each_branch_replays_its_own_reasoning_and_calls(
    admin: Account, standin: StandIn, written_by: int
) -> None:
    """Whichever model goes on from an answer gets its calls; the one that wrote it, its reasoning as well."""
    models = [MODEL, CLAUDE]
    answered = ask_all(admin, models, f"{CALL} one")
    made = {f"openrouter.{request.body['model']}": request.output for request in answers(standin)[::-1]}
    ask_all(admin, models, "two", after=answered[written_by])
    sent = by_model(standin)
    own, other = models[written_by], models[1 - written_by]
    assert kinds(sent[own]) == FULL
    assert kinds(sent[other]) == [kind for kind in FULL if kind != "reasoning"]
    [(call_id, _)] = arguments_of(made[own])
    assert all(call_id in [item.get("call_id") for item in items] for items in sent.values())


def test_one_model_twice_keeps_its_answers_apart(admin: Account, standin: StandIn) -> None:
    """Each answer is replayed with its own reasoning and calls."""
    answered = ask_all(admin, [MODEL, MODEL], f"{CALL} one")
    made = given(answers(standin))
    replayed = []
    for sent in answered:
        admin.ask(MODEL, "two", after=sent, tool_ids=[TOOL])
        assert kinds(inputs(standin)[-1]) == FULL
        replayed += wire(inputs(standin)[-1], "reasoning", "function_call")
    assert sorted(replayed) == sorted(wire(made, "reasoning", "function_call"))
    assert len({*replayed}) == len(replayed)


def test_an_external_model_reads_our_answer_and_we_read_its(admin: Account, standin: StandIn) -> None:
    """It gets calls and text without anything of ours among them."""
    admin.api.install_function("external", "External", READER)
    admin.api.models()
    models = [MODEL, "external.reader"]
    ours, theirs = ask_all(admin, models, f"{CALL} one")
    _, read = ask_all(admin, models, "two", after=ours)
    messages = json.loads(admin.message(read)["content"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["content"] == "Weather in Paris: 20 degrees"
    assert not any(word in str(messages) for word in ("openrouter_pipe", "]: #"))
    assert kinds(inputs(standin)[-1]) == FULL
    admin.ask(MODEL, "three", after=theirs, tool_ids=[TOOL])
    assert kinds(inputs(standin)[-1]) == ["user", "assistant", "user"]
    admin.api.delete("/api/v1/functions/id/external/delete")


def test_answers_are_merged(admin: Account, standin: StandIn) -> None:
    """By a request of its own, without markers and tools, at the model's effort; the text is streamed as it comes."""
    responses = ["The sky.\n\n[0000000000000000000A]: #\n", "The moon."]
    with preset(admin, reasoning_effort="high") as name:
        form = {"model": name, "prompt": "What is up?", "responses": responses, "chat_id": "chat"}
        lines = admin.api.lines("/api/v1/tasks/moa/completions", {**form, "stream": True})
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    (request,) = standin.responses
    (asked,) = texts_of(request.body["input"])
    assert '"""The sky.\n\n"""' in asked
    assert ("tools" in request.body, request.body["reasoning"]["effort"]) == (False, "high")
    assert text.startswith("You said: You have been provided with")
    assert lines[-2:] == ["data: [DONE]", ""]


def test_later_turns_have_the_answer_that_was_chosen(admin: Account, standin: StandIn) -> None:
    """The page keeps the merged text beside it, and the host sends none of it."""
    chosen, _ = ask_all(admin, [MODEL, CLAUDE], "one")
    chat, merged = admin.chat(chosen.chat_id), {"status": True, "content": "Sky and moon."}
    chat["history"]["messages"][chosen.message_id]["merged"] = merged
    admin.api.post(f"/api/v1/chats/{chosen.chat_id}", {"chat": chat})
    admin.ask(MODEL, "two", after=chosen)
    assert kinds(by_model(standin)[MODEL]) == REPLAYED
    assert "Sky and moon." not in str(by_model(standin)[MODEL])
