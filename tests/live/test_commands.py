"""Commands in a real Open WebUI: each is answered without a model, and no request shows a trace of it.

The chats are those of a small model without the host's own tools, written at once.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from open_webui_openrouter_pipe.history.reading import ANSWER_MARK
from scripts.harness.openwebui import Account, OpenWebUI, Sent
from tests.support.long_chats import (
    input_texts,
    last_request,
    questions_sent,
    summary_blocks,
    summary_requests,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = pytest.mark.live

PRESET = "commander"
MODEL = "openrouter.standin/small"
NAME = "Commander"
PRESET_FORM = {
    "id": PRESET,
    "base_model_id": MODEL,
    "name": NAME,
    "meta": {"capabilities": {"builtin_tools": False}},
    "params": {"system": "Be brief."},
    "access_grants": [{"principal_type": "user", "principal_id": "*", "permission": "read"}],
}
TURNS = 12
WORDS = ["go", "up", "to", "it", "if", "we", "do"]
VALVES = {"SUMMARY_AHEAD_RATIO": 1.0}


@pytest.fixture(scope="module")
def host(open_webui: OpenWebUI, live_pipe: list[str]) -> OpenWebUI:
    """The session's Open WebUI with the pipe and the preset."""
    assert MODEL in live_pipe
    open_webui.admin.api.post("/api/v1/models/create", PRESET_FORM)
    open_webui.admin.api.models()
    return open_webui


@pytest.fixture(autouse=True)
def valves(host: OpenWebUI) -> Iterator[None]:
    """No summary is made early; other tests find the valves as they were."""
    host.admin.api.set_valves("openrouter", VALVES)
    yield
    host.admin.api.set_valves("openrouter", dict.fromkeys(VALVES))


def written_chat(account: Account, turns: int = TURNS) -> Sent:
    """A chat of so many turns of about 240 tokens, as if the account had written it."""
    messages: dict[str, Any] = {}
    last: str | None = None
    for number in range(turns):
        for role in ("user", "assistant"):
            words = " ".join(
                random.Random(f"{role}{number}").choices(["go", "up", "to", "it", "if", "we", "do"], k=110)
            )
            message_id = str(uuid4())
            kind = "Question" if role == "user" else "Answer"
            messages[message_id] = {
                "id": message_id,
                "parentId": last,
                "childrenIds": [],
                "role": role,
                "content": f"{kind} {number}: {words}",
                "timestamp": 1_700_000_000 + number,
                **({"models": [PRESET]} if role == "user" else {"model": PRESET, "done": True}),
            }
            if last:
                messages[last]["childrenIds"] = [message_id]
            last = message_id
    assert last is not None
    chat = {
        "title": "Log",
        "models": [PRESET],
        "history": {"messages": messages, "currentId": last},
        "messages": [],
    }
    chat_id = account.api.post("/api/v1/chats/new", {"chat": chat})["id"]
    return Sent(chat_id, last)


def sent_texts(standin: StandIn) -> list[str]:
    """The texts of the last request for an answer."""
    return [text.strip() for text in input_texts(last_request(standin))]


def test_commands_cost_nothing_and_leave_no_trace(host: OpenWebUI, standin: StandIn) -> None:
    """They are answered without any request; the next one is the same as in a chat without them, to the byte."""
    admin = host.admin
    admin.ask(PRESET, "Go on.", after=written_chat(admin))
    expected = last_request(standin).body["input"]
    standin.reset()
    sent = written_chat(admin)
    answers = []
    for command in ("/help", " /CONTEXT", "/restore 2", "/aim faithful", "/aim", "/discard"):
        sent, message = admin.ask(PRESET, command, after=sent)
        answers.append(message["content"])
    assert standin.responses == []
    assert all(answer.startswith(ANSWER_MARK) for answer in answers)
    assert "The next request to" in answers[1]
    assert f"| {TURNS} | Question {TURNS - 1}: " in answers[1]
    admin.ask(PRESET, "Go on.", after=sent)
    assert last_request(standin).body["input"] == expected


def test_compact_restore_and_discard_hold_on_their_branch(host: OpenWebUI, standin: StandIn) -> None:
    """What a command says is what the next request holds; a branch from before it knows nothing of it."""
    admin = host.admin
    start = written_chat(admin)
    sent, message = admin.ask(PRESET, "/compact the words", after=start)
    assert "turns are summarized: the next request has about" in message["content"]
    assert ["This takes up to 60 seconds." in each["description"] for each in message["statusHistory"]] == [
        True,
        False,
    ]
    written = len(summary_requests(standin))
    assert written
    asked = "<user_request>\nthe words\n</user_request>"
    assert all(asked in input_texts(each)[-1] for each in summary_requests(standin))
    compacted, _ = admin.ask(PRESET, "Go on.", after=sent)
    assert summary_blocks(last_request(standin)) == [1]
    assert questions_sent(last_request(standin)) == [9, 10, 11]
    sent, message = admin.ask(PRESET, "/restore 2-3", after=compacted)
    assert "turns 2-3." in message["content"]
    sent, _ = admin.ask(PRESET, "And now?", after=sent)
    assert questions_sent(last_request(standin))[:3] == [1, 2, 9]
    assert not any(ANSWER_MARK in text or text.startswith("/") for text in sent_texts(standin))
    assert len(summary_requests(standin)) == written
    sent, message = admin.ask(PRESET, "/discard", after=sent)
    assert "discarded" in message["content"]
    admin.ask(PRESET, "And then?", after=sent)
    assert len(summary_requests(standin)) == 2 * written
    admin.ask(PRESET, "Go another way.", after=start)
    assert summary_blocks(last_request(standin)) == []
    assert questions_sent(last_request(standin)) == [*range(TURNS)]


def test_an_aim_changes_when_summaries_begin(host: OpenWebUI, standin: StandIn) -> None:
    """The thrifty one summarizes a chat that the faithful one sends whole."""
    admin = host.admin
    start = written_chat(admin, 30)
    admin.ask(PRESET, "Go on.", after=start)
    assert summary_blocks(last_request(standin)) == []
    sent, _ = admin.ask(PRESET, "/aim thrifty", after=start)
    admin.ask(PRESET, "Go on.", after=sent)
    assert summary_blocks(last_request(standin)) == [1]


def test_a_chat_that_begins_with_a_command_costs_no_title(host: OpenWebUI, standin: StandIn) -> None:
    """Its title is the message, by the host's own rule; later tasks do not quote commands."""
    admin = host.admin
    tasks = {"title_generation": True, "tags_generation": True, "follow_up_generation": True}
    with admin.session() as tab:
        sent, _ = admin.ask(PRESET, "/help", session_id=tab.id, background_tasks=tasks)
        tab.wait_for("chat:title")
        assert admin.chat(sent.chat_id)["title"] == "/help"
        assert standin.responses == []
        admin.ask(PRESET, "Hello?", after=sent, session_id=tab.id, background_tasks=tasks)
        tab.wait_for("chat:message:follow_ups", 2)
    quoted = [str(request.body) for request in standin.responses]
    assert len(quoted) > 1
    assert not any("/help" in body or ANSWER_MARK in body or "\\u2063" in body for body in quoted)


def test_callers_of_the_api_read_plain_text(host: OpenWebUI, standin: StandIn) -> None:
    """With streaming and without; what they send back is known as ours."""
    whole = host.admin.complete(MODEL, [{"role": "user", "content": "/help"}])["choices"][0]["message"]
    chunks = host.admin.stream(MODEL, [{"role": "user", "content": "/help"}])
    streamed = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert whole["content"] == streamed
    assert streamed.startswith(f"{ANSWER_MARK}Type one of these commands")
    assert standin.responses == []
    host.admin.complete(
        MODEL, [{"role": "user", "content": "/help"}, whole, {"role": "user", "content": "Hi."}]
    )
    assert sent_texts(standin) == ["Hi."]


@pytest.mark.browser
def test_a_command_is_typed_and_sent_with_enter(host: OpenWebUI, browser: Browser, standin: StandIn) -> None:
    """As any message; the answer is drawn as a page."""
    browser.log_in(host.admin)
    browser.open_chat(written_chat(host.admin).chat_id)
    browser.send("/context")
    answer = browser.wait_for_answer()
    browser.screenshot("command-context")
    assert answer.endswith("The same as text")  # folded, below the page
    browser.send("/restore 2")
    browser.wait_for_answer()
    browser.send("/help")
    assert "/compact" in browser.wait_for_answer()
    browser.screenshot("command-help")
    assert standin.responses == []


@pytest.mark.browser
def test_a_prompt_that_begins_alike_is_left_with_a_space(
    host: OpenWebUI, browser: Browser, standin: StandIn
) -> None:
    """The page lists prompts that begin like the command, and Enter would choose one of them."""
    prompt = {"command": "context-of-ours", "name": "Ours", "content": "Tell me more."}
    host.admin.api.post("/api/v1/prompts/create", prompt)
    browser.log_in(host.admin)
    browser.open_chat(written_chat(host.admin, 2).chat_id)
    field = browser.find(By.ID, "chat-input")
    field.send_keys("/context")
    browser.wait(lambda: "context-of-ours" in browser.driver.find_element(By.TAG_NAME, "body").text)
    browser.screenshot("command-menu")
    field.send_keys(" ")
    browser.wait(lambda: "context-of-ours" not in browser.driver.find_element(By.TAG_NAME, "body").text)
    field.send_keys(Keys.ENTER)
    browser.wait_for_text("The same as text")  # folded, below the page
    assert standin.responses == []
