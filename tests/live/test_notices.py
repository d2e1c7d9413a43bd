"""What the page says when a request lacks something of its chat: each notice as a user sees it, as a screenshot."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from scripts.harness.openwebui import Sent
from tests.live.test_summaries import PRESET_FORM, SUMMARIZED, day, statuses
from tests.support.long_chats import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser]

LARGE, LARGE_NAME = "openrouter.openai/gpt-5.2", "OpenAI: GPT-5.2"
SMALL, SMALL_NAME = "openrouter.mistralai/mistral-small-8k", "Mistral: Small 8k"
PIER, LIBRARY = "pier", "library"
FILTER = """
class Filter:
    def request(self, body: dict) -> dict:
        sources = [
            f'<source id="{number}" name="report {number}">{"The ship was late. " * 400}</source>'
            for number in range(1, 13)
        ]
        found = {"role": "system", "content": "\\n".join(sources)}
        return {**body, "messages": [found, *body["messages"]]}
"""
CUT = re.compile(r"\d+ of \d+ earlier turns (?:were|was) (?:left out|shortened): about [\d,]+ tokens")
RETRIEVED = re.compile(
    r"The retrieved text was cut to its beginning: about [\d,]+ of its [\d,]+ tokens were left out\."
)
FAILED = re.compile(r"The conversation could not be summarized: .+\.")
VALVES = {"CONTEXT_STRATEGY": "prune"}


@pytest.fixture(scope="module")
def pier(open_webui: OpenWebUI, live_pipe: list[str]) -> OpenWebUI:
    """The session's Open WebUI with two presets of a small model: a plain one, and one with retrieved text."""
    api = open_webui.admin.api
    assert {LARGE, SMALL} <= set(live_pipe)
    form = {"id": LIBRARY, "name": LIBRARY, "content": FILTER, "meta": {"description": LIBRARY}}
    api.post("/api/v1/functions/create", form)
    api.post(f"/api/v1/functions/id/{LIBRARY}/toggle", {})
    for name, filters in ((PIER, []), (f"{PIER}-{LIBRARY}", [LIBRARY])):
        meta = {**PRESET_FORM["meta"], "filterIds": filters}  # type: ignore[dict-item]
        api.post("/api/v1/models/create", {**PRESET_FORM, "id": name, "name": name, "meta": meta})
    api.models()
    return open_webui


@pytest.fixture(autouse=True)
def defaults_afterwards(pier: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves as they were."""
    yield
    names = ("CONTEXT_STRATEGY", "SUMMARY_AHEAD_RATIO")
    pier.admin.api.set_valves("openrouter", dict.fromkeys(names))


@pytest.fixture
def page(pier: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in."""
    browser.log_in(pier.admin)
    return browser


def add_chat(account: Account, model: str, turns: list[tuple[str, str]]) -> Sent:
    """A saved chat of these questions and answers, as if the last one had just been sent."""
    messages: dict[str, dict[str, Any]] = {}
    parent: str | None = None
    for role, text in [said for turn in turns for said in zip(("user", "assistant"), turn, strict=True)]:
        name = str(uuid.uuid4())
        if parent:
            messages[parent]["childrenIds"].append(name)
        message = {"id": name, "parentId": parent, "role": role, "content": text, "timestamp": 1_700_000_000}
        about = {"models": [model]} if role == "user" else {"model": model, "modelName": model, "done": True}
        messages[name] = {**message, **about, "childrenIds": list[str]()}
        parent = name
    history = {"messages": messages, "currentId": parent}
    chat = {"title": "Harbour", "models": [model], "history": history, "messages": list(messages.values())}
    return Sent(account.api.post("/api/v1/chats/new", {"chat": chat})["id"], str(parent))


def plain_turns(count: int, tokens: int = 900) -> list[tuple[str, str]]:
    """Turns of about so many tokens."""
    return [(f"Question {at}", f"Answer {at}: {words(tokens, at)}") for at in range(count)]


def answers(standin: StandIn) -> list[RecordedRequest]:
    """The requests for answers, the host's own tasks aside."""
    return [each for each in standin.responses if b"### Task:" not in each.raw and not each.is_summary]


def test_a_switch_to_a_smaller_model_is_shown_on_the_page(
    pier: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """The large model gets all and the page says nothing; the small one gets less, and the page says how much less."""
    pier.admin.api.set_valves("openrouter", VALVES)
    sent = add_chat(pier.admin, LARGE, plain_turns(14))
    sent, answer = pier.admin.ask(LARGE, "And the large model?", after=sent)
    assert statuses(answer) == []
    page.open_chat(sent.chat_id)
    page.pick_model(SMALL_NAME)
    page.send("And the small model?")
    text = page.wait_for_answer()
    page.wait(lambda: bool(CUT.search(page.last_message())))
    page.screenshot("notice-smaller-model")
    assert "You said: And the small model?" in text
    large, small = answers(standin)
    assert len(small.raw) < len(large.raw)


def test_a_small_window_is_shown_on_the_page(pier: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """A chat that outgrows eight thousand tokens: the line stands with the answer that lost something."""
    pier.admin.api.set_valves("openrouter", VALVES)
    page.open_chat(add_chat(pier.admin, SMALL, plain_turns(9)).chat_id)
    page.send("How long is this?")
    page.wait_for_answer()
    page.wait(lambda: bool(CUT.search(page.last_message())))
    page.screenshot("notice-small-window")
    assert [each.status for each in answers(standin)] == [200]


def test_retrieved_text_that_was_cut_is_shown_on_the_page(
    pier: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """With its size; the model gets the first sources, whole, and the chat's own words."""
    preset = f"{PIER}-{LIBRARY}"
    page.open_chat(add_chat(pier.admin, preset, plain_turns(2, 40)).chat_id)
    page.send("Was the ship late?")
    answer = page.wait_for_answer()
    page.wait(lambda: bool(RETRIEVED.search(page.last_message())))
    page.screenshot("notice-retrieved-text")
    assert "You said: Was the ship late?" in answer
    (request,) = answers(standin)
    text = request.raw.decode()
    assert (request.status, 'name=\\"report 1\\"' in text, 'name=\\"report 12\\"' in text) == (
        200,
        True,
        False,
    )
    assert "Question 0" in text


def test_a_summary_that_failed_and_was_made_later_is_shown_on_the_page(
    pier: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """First why there is none; then, with one of the next answers, what it made of the chat."""
    pier.admin.api.set_valves("openrouter", {"SUMMARY_AHEAD_RATIO": 1.0})
    page.open_chat(add_chat(pier.admin, PIER, [(day(at), day(at + 50)) for at in range(16)]).chat_id)
    standin.summarizer = "junk"
    page.send("How was the week?")
    page.wait_for_answer()
    page.show_statuses()
    page.wait(lambda: bool(FAILED.search(page.last_message())))
    page.screenshot("notice-summary-failed")
    standin.summarizer = "keep"
    for question in ("And then?", "And after that?", "And now?"):
        page.send(question)
        page.wait_for_answer()
        page.show_statuses()
        if SUMMARIZED.search(page.last_message()):
            break
    assert SUMMARIZED.search(page.last_message())
    page.screenshot("notice-summary-made-later")
