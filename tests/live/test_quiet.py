"""What stands beside an answer: nothing by default, warnings whole, its price at its button, or above it if wanted."""

from __future__ import annotations

import re
from typing import Any, Literal

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from scripts.harness.browser import DESKTOP, PHONE, Browser
from scripts.harness.openwebui import Account
from scripts.standin import StandIn
from tests.live.chats import saved_chat
from tests.live.items import answers, inputs, kinds
from tests.live.models import Valves
from tests.support.long_chats import words

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("admin")]

NAME, TINY = "OpenAI: GPT-5.2", "openrouter.mistralai/mistral-small-8k"
ANSWER_AND_TASKS = 4
"""The requests of a chat's first message: with its title, its tags, and suggestions."""
STATUS = (By.CSS_SELECTOR, "button[aria-label='Toggle status history']")
FIGURES = (By.CSS_SELECTOR, "button[id^='info-']")
PRICE = re.compile(r"\$[\d.]+")
LINES = (
    "return [...document.querySelectorAll('#messages-container blockquote p')].map(each => each.innerText)"
)
TO_LAST = "[...document.querySelectorAll('blockquote')].at(-1).scrollIntoView({block: 'center'})"
WIDER = """
return [...document.querySelectorAll('#messages-container blockquote p')].filter(
  each => each.scrollWidth > each.clientWidth || each.getBoundingClientRect().right > innerWidth
).length
"""


def look_as(page: Browser, size: tuple[int, int], theme: Literal["light", "dark"]) -> None:
    """Have the page shown in a window of this size and a theme of the host's."""
    page.resize(size)
    change = f"document.documentElement.classList.toggle('dark', {str(theme == 'dark').lower()})"
    page.driver.execute_script(change)


def figures(page: Browser) -> list[str]:
    """The lines of the panel at the last answer's button, opened by pointing at that."""
    page.wait(lambda: bool(page.driver.find_elements(*FIGURES)))
    ActionChains(page.driver).move_to_element(page.driver.find_elements(*FIGURES)[-1]).perform()
    page.wait(lambda: bool(page.driver.find_elements(By.CSS_SELECTOR, "[data-tippy-root] pre")))
    return page.driver.find_element(By.CSS_SELECTOR, "[data-tippy-root] pre").text.splitlines()


def test_an_answer_is_quiet_and_its_price_is_at_its_button(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """By default nothing stands above it; whoever opens a shared chat reads the price, unless it is not stored."""
    valves(COST_LINE=None)
    page.new_chat()
    page.pick_model(NAME)
    page.send("What is a quiet answer?")
    page.wait_for_answer()
    assert page.driver.find_elements(*STATUS) == []
    page.screenshot("quiet-default")
    lines = figures(page)
    page.screenshot("quiet-figures")
    assert [line.partition(":")[0] for line in lines[:5]] == [
        "price",
        "seconds",
        "requests",
        "model",
        "provider",
    ]
    assert PRICE.search(lines[0])
    shown = {}
    for stored in (True, False):
        valves(ADVANCED=None if stored else '{"STORE_COST": false}')
        sent, answer = admin.ask("openrouter.openai/gpt-5.2", "And shared?")
        share: Any = admin.api.post(f"/api/v1/chats/{sent.chat_id}/share", {})
        page.driver.get(f"{page.url}/s/{share['share_id']}")
        shown[stored] = figures(page)
        page.screenshot(f"quiet-shared-{'price' if stored else 'without-price'}")
        assert ("cost" in answer["usage"]) is stored
    assert any(line.startswith("price: ") for line in shown[True])
    assert not any("price" in line or "cost" in line for line in shown[False])
    assert any(line.startswith("input_tokens: ") for line in shown[False])


@pytest.mark.usefixtures("standin")
def test_warnings_are_lines_of_their_own(
    admin: Account, page: Browser, standin: StandIn, valves: Valves
) -> None:
    """Two at once, the graver first, whole on a phone, also after a reload; neither copied nor sent to a model."""
    turns: list[Any] = [(f"Question {at}", f"Answer {at}: {words(900, at)}") for at in range(10)]
    chat = saved_chat(admin, TINY, turns)
    valves(CONTEXT_STRATEGY="prune")
    page.open_chat(chat.chat_id)
    page.send("What was left out?")
    page.wait_for_answer()
    said = page.driver.execute_script(LINES)
    assert len(said) >= 2
    assert "earlier turns" in said[0].lower()
    assert "built-in tools" in " ".join(said).lower()
    assert page.driver.find_elements(*STATUS) == []
    for size, name in ((DESKTOP, "desktop"), (PHONE, "phone")):
        for theme in ("light", "dark"):
            look_as(page, size, theme)
            page.driver.execute_script(TO_LAST)
            page.screenshot(f"quiet-warnings-{name}-{theme}")
            assert page.driver.execute_script(WIDER) == 0
    look_as(page, DESKTOP, "light")
    page.open_chat(chat.chat_id)
    assert page.driver.execute_script(LINES)[-len(said) :] == said
    copied = page.copy_answer()
    assert not any(line in copied for line in said)
    page.send("And then?")
    page.wait_for_answer()
    assert kinds(inputs(standin)[-1])[-3:] == ["user", "assistant", "user"]
    assert not any(line in str(answers(standin)[-1].body["input"]) for line in said)


def test_the_price_stands_above_an_answer_where_it_is_wanted(page: Browser, valves: Valves) -> None:
    """As one figure, or with the next message's; on a phone too."""
    for shown in ("cost", "forecast"):
        valves(COST_LINE=shown)
        page.new_chat()
        page.pick_model("Anthropic: Claude Sonnet 4.5")
        page.send(f"Hello {words(1200, 1)}")
        page.wait_for_answer()
        page.wait(lambda: bool(page.driver.find_elements(*STATUS)))
        line = page.driver.find_element(*STATUS).text
        assert PRICE.match(line)
        assert ("next message" in line) is (shown == "forecast")
        look_as(page, PHONE, "dark")
        status = page.driver.find_element(*STATUS)
        page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", status)
        page.screenshot(f"quiet-line-{shown}-phone-dark")
        look_as(page, DESKTOP, "light")
        page.screenshot(f"quiet-line-{shown}")


def test_a_wait_is_seen_and_gone(page: Browser, standin: StandIn) -> None:
    """While a busy provider is waited for; then nothing of it stands above the answer."""
    page.new_chat()
    page.pick_model("Stand-in: script")
    page.send("Hello")
    page.wait(lambda: len(standin.responses) == ANSWER_AND_TASKS)
    standin.script("error=429 retry_after=8")
    page.click(By.ID, "chat-input")
    page.find(By.ID, "chat-input").send_keys("Wait for me", Keys.ENTER)
    page.wait(lambda: "trying again" in page.last_message(), 30)
    page.screenshot("quiet-wait")
    page.wait_for_answer()
    assert page.driver.find_elements(*STATUS) == []


def test_who_stops_an_answer_is_told_what_it_has_cost(page: Browser, valves: Valves) -> None:
    """At its button, and above it where costs are to stand there, after a reload too; the chat's sum has it."""
    valves(COST_LINE="cost")
    page.new_chat()
    page.pick_model("Stand-in: script")
    page.send("[[standin: slow=600]] Count, please.")
    page.wait(lambda: len(page.last_answer().split()) > 5)
    page.stop()
    page.wait(lambda: "stopped; about $" in page.last_message())
    assert figures(page)[0].startswith('price: "~$')
    page.screenshot("quiet-stopped")
    page.driver.refresh()
    page.wait(lambda: "stopped; about $" in page.last_message())
    page.send("/cost")
    page.wait_for_text("This chat has cost $")
    page.screenshot("quiet-cost-command")
