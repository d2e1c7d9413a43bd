"""What a person sees: two reasoned turns, a tool at work, Stop, an error; each kept as a screenshot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from tests.live.test_chat import MODEL, TWO_ROUNDS, WEATHER, bytes_of, types_of

if TYPE_CHECKING:
    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("live_pipe")]

NAME = "OpenAI: GPT-5.2"
MARKER = re.compile(r"\[[0-9A-Z]{20}\]")


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in."""
    browser.log_in(open_webui.admin)
    return browser


def opened_thinking(page: Browser) -> str:
    """Unfold the last thinking block, and give the answer's whole visible text."""
    page.driver.find_elements(By.XPATH, "//*[contains(text(), 'Thought for')]")[-1].click()
    page.wait_for_text("the last one matters most")
    return page.last_answer()


def shown_usage(page: Browser) -> str:
    """Point at the last answer's info button until its text appears, and give the text."""

    def text() -> str:
        button = page.driver.find_elements(By.CSS_SELECTOR, "[id^='info-']")[-1]
        ActionChains(page.driver).move_to_element(button).perform()
        return "".join(box.text for box in page.driver.find_elements(By.CSS_SELECTOR, "[data-tippy-root]"))

    page.wait(lambda: "cost" in text())
    return text()


def test_two_reasoned_turns(page: Browser, standin: StandIn) -> None:
    """Thinking block, answer and usage are seen, the marker is not; the second turn replays the first's thinking."""
    page.pick_model(NAME)
    page.send("Good morning")
    first = page.wait_for_answer()
    page.send("And good night")
    second = page.wait_for_answer()
    thinking = opened_thinking(page)
    usage = shown_usage(page)
    page.screenshot("two-reasoned-turns")
    assert "You said: Good morning" in first
    assert "You said: And good night" in second
    assert "Reading the request" in thinking
    assert "cached_tokens" in usage
    assert "cost" in usage
    assert not MARKER.search(first + thinking)
    chats = [request for request in standin.responses if "### Task" not in str(request.body["input"])]
    given = [item for item in chats[0].output if item["type"] == "reasoning"]
    sent = chats[1].body["input"]
    assert types_of(sent) == ["message", "reasoning", "message", "message"]
    assert bytes_of(sent[1:2]) == bytes_of(given)


def test_a_tool_at_work(open_webui: OpenWebUI, page: Browser) -> None:
    """Tool cards stand where the calls were made, with nothing between them that a reader would stumble over."""
    open_webui.add_tool("seen_weather", WEATHER)
    sent, _ = open_webui.admin.ask(MODEL, f"{TWO_ROUNDS} Weather?", tool_ids=["seen_weather"])
    page.open_chat(sent.chat_id)
    page.wait_for_text("The tools answered")
    seen = page.last_answer()
    page.screenshot("tool-at-work")
    assert seen.count("Explored") == 2
    assert not MARKER.search(seen)


def test_stop_in_mid_answer(page: Browser, standin: StandIn) -> None:
    """The written part stays on the page, and the next question is answered."""
    page.pick_model("Stand-in: script")
    page.send("[[standin: slow=600]] count")
    page.wait(lambda: len(page.last_answer().split()) > 5)
    page.stop()
    stopped = page.last_answer()
    page.send("go on")
    answer = page.wait_for_answer()
    page.screenshot("stopped-and-gone-on")
    assert stopped
    assert "You said" in answer
    assert standin.responses[-1].status == 200


def test_an_error_is_one_clear_line(page: Browser, standin: StandIn) -> None:
    """It says what happened and what to do, and the question stays."""
    standin.script({"do": "error=402", "times": 9})
    page.pick_model(NAME)
    page.send("one")
    page.wait_for_text("credits")
    page.screenshot("error")
    assert "\n" not in page.last_answer()


def test_the_hosts_own_tools_do_not_keep_a_small_model_from_answering(
    page: Browser, standin: StandIn
) -> None:
    """With all that Open WebUI offers by default, a model of 8,000 tokens answers; the page says what was omitted."""
    page.pick_model("Mistral: Small 8k")
    page.send("Hello small model. " + "It is late. " * 500)
    answer = page.wait_for_answer()
    page.wait(lambda: "Built-in tools of Open WebUI omitted" in page.last_message())
    page.screenshot("tools-omitted")
    assert "You said: Hello small model." in answer
    (request,) = [each for each in standin.responses if b"### Task:" not in each.raw]
    assert (request.status, request.body.get("tools")) == (200, None)


def test_a_message_that_cannot_fit_says_what_uses_up_the_context(
    open_webui: OpenWebUI, page: Browser
) -> None:
    """The page shows one line with the sizes and what to do about them."""
    sent, answer = open_webui.admin.ask("openrouter.standin/small", "one word and another " * 8_000)
    message = answer["error"]["content"]["message"]
    page.open_chat(sent.chat_id)
    page.wait_for_text(message[:40])
    page.screenshot("context-error")
    assert "tokens" in page.last_answer()
    assert "\n" not in message
