"""What the page says about money: the line with its forecast, the question before an expensive message, the refusal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from tests.live.test_notices import add_chat, answers, plain_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("live_pipe")]

MODEL = "openrouter.anthropic/claude-sonnet-4.5"
LINE = re.compile(
    r"\$[\d.]+ · next message from \$[\d.]+ \(\$[\d.]+ after (tomorrow at )?\d\d:\d\d( UTC)?\)"
    r" · [\d,]+ tokens in( \([\d,]+ cached\))? · [\d,]+ out · [\d.]+ s( · [\d,]+ tok/s)?"
)
DECLINED = re.compile(r"Not sent: you did not agree to about \$[\d.]+\. Nothing was charged\.")
REACHED = re.compile(
    r"The spending limit of all users of \$[\d.]+ a month is used up, until .+ Nothing was sent\."
)


@pytest.fixture(autouse=True)
def defaults_afterwards(open_webui: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves as they were."""
    yield
    names = ("CONFIRM_ABOVE_DOLLARS", "SPENDING_LIMITS")
    open_webui.admin.api.set_valves("openrouter", {**dict.fromkeys(names), "COST_LINE": "off"})


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in, with a long chat."""
    browser.log_in(open_webui.admin)
    browser.open_chat(add_chat(open_webui.admin, MODEL, plain_turns(4)).chat_id)
    return browser


def wait_for(page: Browser, line: re.Pattern[str]) -> None:
    """Wait until the last message shows a line."""
    page.wait(lambda: bool(line.search(page.last_message())))


def test_the_line_is_shown_with_the_answer(open_webui: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """With the billed tokens, and in the host's panel of usage too."""
    open_webui.admin.api.set_valves("openrouter", {"COST_LINE": "forecast"})
    page.send("What does this cost?")
    page.wait_for_answer()
    wait_for(page, LINE)
    (request,) = answers(standin)
    assert request.usage
    assert f"{request.usage['input_tokens']:,} tokens in" in page.last_message()
    page.screenshot("money-line")
    info = page.driver.find_elements(By.CSS_SELECTOR, "[id^='info-']")
    if info:
        ActionChains(page.driver).move_to_element(info[-1]).perform()
        page.screenshot("money-usage-panel")


def test_an_expensive_message_is_asked_about(open_webui: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """In the host's own dialogue; Cancel sends nothing, Confirm sends the message."""
    open_webui.admin.api.set_valves("openrouter", {"CONFIRM_ABOVE_DOLLARS": 0.001})
    page.send("Is this expensive?")
    page.find(By.XPATH, "//*[contains(text(), 'Send this for about')]")
    page.screenshot("money-question")
    page.click(By.XPATH, "//button[normalize-space()='Cancel']")
    wait_for(page, DECLINED)
    page.screenshot("money-declined")
    assert standin.responses == []
    page.send("And now?")
    page.click(By.XPATH, "//button[normalize-space()='Confirm']")
    page.wait(lambda: "And now?" in page.last_answer())
    assert len(answers(standin)) == 1


def test_at_the_limit_the_page_says_until_when(
    open_webui: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """And nothing is sent."""
    open_webui.admin.api.set_valves("openrouter", {"SPENDING_LIMITS": "all: 0/month"})
    page.send("One more?")
    wait_for(page, REACHED)
    page.screenshot("money-limit")
    assert standin.responses == []
