"""What a person sees of an answer that is slow, stopped, cut off or refused; each state is kept as a screenshot.

After each of them the chat goes on, and no request has a line of ours in it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from scripts.harness.browser import DEVICES, Browser
from tests.live.items import statuses, text_of
from tests.live.models import SCRIPTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.browser]

MODEL = "Stand-in: script"
OURS = re.compile("Stop is safe|Stopped|was stopped|output limit|too few credits")
SLOW = '''
import asyncio


class Tools:
    async def slow_report(self) -> str:
        """
        Fetch the report.
        """
        await asyncio.sleep(60)
        return "The report."
'''
LINK = (By.CSS_SELECTOR, "a[href='https://openrouter.ai/settings/credits']")
SAID = r"Invalid 'input[3].id': C:\[tmp] \(x\) [a](b) <i> *all* [1]"
"""What a provider may say, with all that Markdown and formulas have a meaning for."""
FRAME = (By.CSS_SELECTOR, "#messages-container iframe")


@pytest.fixture
def chat(page: Browser, standin: StandIn) -> Iterator[Browser]:
    """A chat, whose last question is answered as any other, with nothing of ours in any request."""
    page.new_chat()
    page.pick_model(MODEL)
    yield page
    page.send("Go on.")
    assert "Go on." in page.wait_for_answer()
    bodies = [request.body for request in standin.responses]
    assert not any(OURS.search(repr(body)) for body in bodies)


def pictures_of(page: Browser, name: str) -> None:
    """Screenshots on a desktop and a phone, light and dark."""
    for device, size in DEVICES.items():
        page.resize(size)
        for theme in ("light", "dark"):
            change = f"document.documentElement.classList.toggle('dark', {str(theme == 'dark').lower()})"
            page.driver.execute_script(change)
            page.screenshot(f"waiting-{name}-{device}-{theme}")
    page.resize()
    page.driver.execute_script("document.documentElement.classList.remove('dark')")


def test_a_silence_is_said_and_ends_with_the_first_word(chat: Browser) -> None:
    """One line after 8 seconds, another after 20; none once the answer has come."""
    chat.send("[[standin: delay=0 first=25]] Take your time.")
    chat.wait(lambda: "Waiting for the model... 8 s. Stop is safe." in chat.last_message(), 15)
    pictures_of(chat, "silent")
    chat.wait(lambda: "Waiting for the model... 20 s. Stop is safe." in chat.last_message(), 20)
    chat.wait_for_text("Take your time.")
    assert "Waiting" not in chat.last_message()
    pictures_of(chat, "answered")


def test_an_answer_that_is_stopped_before_its_first_word_says_so(chat: Browser) -> None:
    """Also once the chat is loaded again."""
    chat.send("[[standin: delay=0 first=60]] Nothing yet.")
    chat.wait(lambda: "8 s. Stop is safe." in chat.last_message(), 15)
    chat.stop()
    chat.wait(lambda: "Stopped." in chat.last_message())
    pictures_of(chat, "stopped")
    chat.driver.refresh()
    chat.wait(lambda: "Stopped." in chat.last_message())


def test_what_to_do_about_an_error_has_a_link_that_works(chat: Browser, standin: StandIn) -> None:
    """It stands in the answer as any text, also once the chat is loaded again; nothing is paid for suggestions."""
    standin.script("error=402", times=9)
    chat.send("One.")
    chat.wait_for_text("too few credits")
    pictures_of(chat, "error")
    chat.driver.refresh()
    chat.wait_for_text("too few credits")
    assert chat.find(*LINK).text == "openrouter.ai/settings/credits"
    assert "Follow up" not in chat.last_message()
    tasks = [body for request in standin.responses if "### Task" in (body := repr(request.body))]
    assert not any("follow-up" in body or "tags" in body for body in tasks)
    standin.reset()


def test_what_a_provider_says_is_read_as_it_is(chat: Browser, standin: StandIn) -> None:
    """In an error, which quotes it."""
    standin.script(f"error=400 message={json.dumps(SAID)}", times=9)
    chat.send("Two.")
    assert SAID in chat.wait_for_answer().replace("\u2060", "")
    standin.reset()


def test_a_page_of_ours_has_the_theme_of_the_hosts(chat: Browser) -> None:
    """Also where the system prefers the other one, and the embed may not look at the host's page."""
    features = [{"name": "prefers-color-scheme", "value": "light"}]
    chat.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    chat.driver.execute_script("document.documentElement.classList.add('dark')")
    chat.send("/context")
    chat.wait_for_answer()
    chat.screenshot("waiting-context-dark")
    chat.driver.switch_to.frame(chat.find(*FRAME))
    assert chat.find(By.TAG_NAME, "body").value_of_css_property("background-color") == "rgba(23, 23, 23, 1)"
    chat.driver.switch_to.default_content()
    chat.driver.execute_script("document.documentElement.classList.remove('dark')")


def test_an_answer_at_its_output_limit_says_so_at_its_end(chat: Browser) -> None:
    """And goes on behind that: the model sees its own words alone, and Copy has no others."""
    chat.send("[[standin: incomplete=max_output_tokens]] One two three four five six seven eight nine ten.")
    chat.wait_for_text("output limit")
    first = chat.last_answer()
    assert first.index("You said") < first.index("The answer stopped at the output limit.")
    pictures_of(chat, "limit")
    assert "output limit" not in chat.copy_answer()
    chat.press("Continue Response")
    chat.wait(lambda: len(chat.last_answer()) > len(first) + 10, 30)
    chat.wait_for_answer()
    pictures_of(chat, "continued")
    assert "The answer stopped at the output limit." in chat.last_answer()


def test_a_tool_that_is_stopped_says_so(
    open_webui: OpenWebUI, admin: Account, page: Browser, standin: StandIn
) -> None:
    """The host draws it as one that was done; the chat goes on without its call."""
    open_webui.add_tool("slow", SLOW)
    sent = admin.send(SCRIPTED, "[[standin: call=slow_report args={}]] Fetch it.", tool_ids=["slow"])
    page.open_chat(sent.chat_id)
    page.wait(lambda: "slow_report" in page.last_message(), 30)
    page.stop()
    page.wait(lambda: "slow_report was stopped." in page.last_message())
    pictures_of(page, "tool")
    assert "slow_report was stopped." in statuses(admin.wait(sent))
    _, answer = admin.ask(SCRIPTED, "Go on.", after=sent)
    assert "Go on." in text_of(answer)
    assert not any(OURS.search(repr(request.body)) for request in standin.responses)
