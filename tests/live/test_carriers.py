"""Markers in a real Open WebUI: what of an answer's text is not the model's, and what survives what people do."""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from scripts.harness.openwebui import Sent
from tests.live.test_chat import CLAUDE, MODEL, SCRIPTED, WEATHER, bytes_of
from tests.live.test_context import ORDERS
from tests.live.test_scenarios import repeat
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

Json = dict[str, Any]

SIBLING = "openrouter.openai/gpt-5.6-sol"
TOOL, ORDERS_TOOL = "carried_weather", "carried_orders"
LIST = '[[standin: call=list_orders args={"page": 1}]] List them.'
THINK = "[[standin: reasoning=summary]]"
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
LOOK_UP = '[[standin: call=recall args={"query": "customer 377"}]]'
ULID = re.compile(r"[0-9A-Z]{20}")
EARLY_FACTS = {
    "CONTEXT_STRATEGY": "prune",
    "TOOL_OUTPUT_PRUNING": "every_turn",
    "TOOL_OUTPUT_RETENTION_TURNS": 1,
}

KINDS = {
    "plain": "one",
    "reasoning": f"{THINK} one",
    "reasoning, a tool": f"{THINK} {CALL} one",
    "reasoning, rounds of tools": f'{THINK} [[standin: say="I look."]] {CALL} [[standin: rounds=3]] one',
    "reasoning, parallel calls": f"{THINK} [[standin: call=get_weather times=3]] one",
    "reasoning, a search": f"{THINK} [[standin: search=cats]] [[standin: cite=https://a.example/b]] one",
    "reasoning, a picture": f"{THINK} [[standin: image=cat]] one",
    "a refusal": f'{THINK} [[standin: refusal="I cannot."]] one',
    "cut off": f"{THINK} [[standin: incomplete=max_output_tokens]] one",
    "a look-up": f"{THINK} {LOOK_UP} one",
    "a tool": f'[[standin: say="I look."]] {CALL} one',
    "parallel calls": "[[standin: call=get_weather times=3]] one",
    "citations": "[[standin: cite=https://a.example/b]] one",
    "a search": "[[standin: search=cats]] one",
    "a picture": "[[standin: image=cat]] one",
}
"""What an answer may be, with reasoning and without."""

IN_TEXT = {"a search", "a picture"}
"""What a provider's own tool did has no reasoning beside which it could be referred to."""


@pytest.fixture(autouse=True)
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request of every test is valid, to the letter."""
    yield
    verdicts = [(request.status, request.warnings) for request in standin.responses]
    assert verdicts == [(200, [])] * len(verdicts)


@pytest.fixture(scope="module")
def admin(open_webui: OpenWebUI) -> Account:
    """A user with a tool."""
    open_webui.add_tool(TOOL, WEATHER)
    open_webui.add_tool(ORDERS_TOOL, ORDERS)
    return open_webui.admin


@pytest.fixture
def valves(open_webui: OpenWebUI) -> Iterator[Callable[[Json], None]]:
    """Set valves; other tests find them as they were."""
    changed: dict[str, None] = {}

    def change(values: Json) -> None:
        changed.update(dict.fromkeys(values))
        open_webui.admin.api.set_valves("openrouter", values)

    yield change
    open_webui.admin.api.set_valves("openrouter", dict(changed))


def texts_of(items: Sequence[Json]) -> list[str]:
    """The texts of an answer's messages, as they are."""
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    return [text for part in parts if (text := (part.get("text") or part.get("refusal") or "").strip())]


def given_by(requests: Sequence[RecordedRequest]) -> list[Json]:
    return [item for request in requests for item in request.output]


def kept(items: Sequence[Json]) -> list[object]:
    """What our store alone has whole: reasoning, calls as they were written, and what a provider's own tools did."""
    of_tools = [item["type"] for item in items if item["type"] not in {"reasoning", "message"}]
    return [
        *bytes_of([item for item in items if item["type"] == "reasoning"]),
        *arguments_of(items),
        *of_tools,
    ]


def arguments_of(items: Sequence[Json]) -> list[tuple[str, str]]:
    """The calls, each as its id and its arguments as they were written."""
    return [(item["call_id"], item["arguments"]) for item in items if item["type"] == "function_call"]


def sent(request: RecordedRequest) -> list[Json]:
    items: list[Json] = request.body["input"]
    return items


def test_the_stored_text_is_what_the_model_said(
    admin: Account, standin: StandIn, valves: Callable[[Json], None]
) -> None:
    """For all kinds of answers but those that are named, and all of what was kept comes back on the next turn."""
    valves(EARLY_FACTS)
    differing, lost, tools = set(), set(), [TOOL, ORDERS_TOOL]
    for kind, text in KINDS.items():
        earlier = admin.ask(SCRIPTED, LIST, tool_ids=tools)[0] if kind == "a look-up" else None
        before = len(standin.responses)
        answer, stored = admin.ask(SCRIPTED, text, after=earlier, tool_ids=tools)
        given = given_by(standin.responses[before:])
        admin.ask(SCRIPTED, "two", after=answer, tool_ids=tools)
        if texts_of(stored["output"]) != texts_of(given) or ULID.search(stored["content"]):
            differing.add(kind)
        if not set(kept(given)) <= set(kept(sent(standin.responses[-1]))):
            lost.add(kind)
    assert (differing, lost) == (IN_TEXT, set())


def test_a_stopped_answer_holds_the_models_words_alone(admin: Account, standin: StandIn) -> None:
    """As many of them as had come, and the chat goes on with the reasoning before them."""
    stopped = admin.send(SCRIPTED, f"{THINK} [[standin: slow=600]] count")
    wait_until(lambda: texts_of(admin.message(stopped).get("output") or []))
    admin.stop(stopped)
    stored = admin.wait(stopped)
    (text,) = texts_of(stored["output"])
    admin.ask(SCRIPTED, "two", after=stopped)
    assert not ULID.search(text)
    assert [item["type"] for item in sent(standin.responses[-1])] == [
        "message",
        "reasoning",
        "message",
        "message",
    ]


def edited(admin: Account, chat: Sent) -> Sent:
    """Edit the answer's text."""
    whole = admin.chat(chat.chat_id)
    message = whole["history"]["messages"][chat.message_id]
    changed = json.dumps(message).replace("The tools answered", "The tools have answered")
    whole["history"]["messages"][chat.message_id] = json.loads(changed)
    admin.api.post(f"/api/v1/chats/{chat.chat_id}", {"chat": whole})
    return chat


def copied(way: str) -> Callable[[Account, Sent], Sent]:
    def copy(admin: Account, chat: Sent) -> Sent:
        created = admin.api.post(f"/api/v1/chats/{chat.chat_id}/{way}", {})
        return Sent(created["id"], created["chat"]["history"]["currentId"])

    return copy


def imported(admin: Account, chat: Sent, change: Callable[[Json], Json] = lambda whole: whole) -> Sent:
    """Export the chat, delete it, and import what was exported."""
    exported = admin.api.get(f"/api/v1/chats/{chat.chat_id}")
    admin.api.delete(f"/api/v1/chats/{chat.chat_id}")
    form = {"chats": [{"chat": change(exported["chat"])}]}
    (created,) = admin.api.post("/api/v1/chats/import", form)
    return Sent(created["id"], chat.message_id)


def without_items(whole: Json) -> Json:
    """As a host that keeps text alone would have it."""
    for message in whole["history"]["messages"].values():
        message.pop("output", None)
    return whole


def regenerated(admin: Account, chat: Sent) -> Sent:
    """Regenerate: the chat goes on from the new answer, and then from the old one again."""
    sibling = Sent(chat.chat_id, str(uuid.uuid4()))
    repeat(admin, chat, MODEL, message_id=sibling.message_id, tool_ids=[TOOL])
    return chat


def continued(admin: Account, chat: Sent) -> Sent:
    """Press Continue."""
    items = len(admin.message(chat)["output"])
    repeat(admin, chat, MODEL, message_id=chat.message_id, assistant_message_id=chat.message_id)
    wait_until(lambda: len((now := admin.message(chat))["output"]) > items and now.get("done"))
    return chat


def as_it_is(_admin: Account, chat: Sent) -> Sent:
    return chat


WHOLE, CALLS, NOTHING = "reasoning and calls", "calls", ""
ACTIONS: dict[str, tuple[Callable[[Account, Sent], Sent], str, str]] = {
    "next turn": (as_it_is, MODEL, WHOLE),
    "another model of the family": (as_it_is, SIBLING, CALLS),
    "another family": (as_it_is, CLAUDE, CALLS),
    "edit": (edited, MODEL, WHOLE),
    "regenerate": (regenerated, MODEL, WHOLE),
    "continue": (continued, MODEL, WHOLE),
    "clone": (copied("clone"), MODEL, WHOLE),
    "fork": (copied("fork"), MODEL, WHOLE),
    "export and import": (imported, MODEL, WHOLE),
    "import of the text alone": (
        lambda admin, chat: imported(admin, chat, without_items),
        MODEL,
        NOTHING,
    ),
}
"""What is done with a chat, the model that is asked next, and what of its artifacts that one gets."""


@pytest.mark.parametrize("action", ACTIONS)
def test_what_survives(admin: Account, standin: StandIn, action: str) -> None:
    """The table of docs/inside.md."""
    act, model, survives = ACTIONS[action]
    chat, _ = admin.ask(MODEL, f'[[standin: say="I look."]] {CALL} one', tool_ids=[TOOL])
    given = given_by(standin.responses)
    chat = act(admin, chat)
    admin.ask(model, "two", after=chat, tool_ids=[TOOL])
    now = sent(standin.responses[-1])
    found = {
        "reasoning": set(bytes_of([item for item in given if item["type"] == "reasoning"]))
        <= set(bytes_of(now)),
        "calls": arguments_of(given) == arguments_of(now)[: len(arguments_of(given))] != [],
    }
    assert " and ".join(kind for kind, is_found in found.items() if is_found) == survives


def test_the_models_own_details_come_back_with_it(admin: Account, standin: StandIn) -> None:
    """A turn of another model gets none; when the first one is asked again, it finds its own."""
    first, _ = admin.ask(MODEL, "one")
    second, _ = admin.ask(SIBLING, "two", after=first)
    admin.ask(MODEL, "three", after=second)
    ids = [
        [item["id"] for item in sent(request) if item["type"] == "reasoning"] for request in standin.responses
    ]
    assert ids == [[], [], [standin.responses[0].output[0]["id"]]]


def test_an_arena_gets_the_calls_alone(admin: Account, standin: StandIn) -> None:
    """Open WebUI keeps the arena as the model of the answer, and compares it with the one that answers next."""
    arena = {"id": "carried-arena", "name": "Arena", "meta": {"model_ids": [MODEL]}}
    before = admin.api.get("/api/v1/evaluations/config")
    form = {**before, "ENABLE_EVALUATION_ARENA_MODELS": True, "EVALUATION_ARENA_MODELS": [arena]}
    admin.api.post("/api/v1/evaluations/config", form)
    try:
        admin.api.models()
        first, _ = admin.ask("carried-arena", f"{CALL} one", tool_ids=[TOOL])
        given = given_by(standin.responses)
        admin.ask("carried-arena", "two", after=first, tool_ids=[TOOL])
    finally:
        admin.api.post("/api/v1/evaluations/config", before)
    now = sent(standin.responses[-1])
    assert arguments_of(now) == arguments_of(given) != []
    assert "reasoning" not in {item["type"] for item in now}


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["reasoning", "reasoning, rounds of tools"])
def test_copy_gives_the_models_words(
    admin: Account, open_webui: OpenWebUI, standin: StandIn, browser: Browser, kind: str
) -> None:
    """What the page's own button puts into the clipboard."""
    browser.log_in(open_webui.admin)
    answer, _ = admin.ask(SCRIPTED, KINDS[kind], tool_ids=[TOOL])
    browser.open_chat(answer.chat_id)
    browser.wait_for_text(texts_of(given_by(standin.responses))[-1][:12])
    copied_text = browser.copy_answer()
    browser.screenshot(f"copied-{kind.partition(', ')[2] or kind}")
    assert copied_text.split() == " ".join(texts_of(given_by(standin.responses))).split()
