"""Prompts of the workspace in the real page: chosen by their command, filled in there, and sent as written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("live_pipe", "prompt")]

MODEL = "openrouter.openai/gpt-5.2"


@pytest.fixture
def prompt(open_webui: OpenWebUI) -> Iterator[None]:
    """A prompt with a variable that the user fills."""
    api = open_webui.admin.api
    form = {"command": "wave", "name": "Wave", "content": "Greet {{name}} kindly."}
    created = api.post("/api/v1/prompts/create", form)
    yield
    api.delete(f"/api/v1/prompts/id/{created['id']}/delete")


def test_a_prompt_is_sent_with_its_variables_filled(
    open_webui: OpenWebUI, browser: Browser, standin: StandIn
) -> None:
    """The model reads the text as it stood in the message field."""
    sent, _ = open_webui.admin.ask(MODEL, "Hello.")
    browser.log_in(open_webui.admin)
    browser.open_chat(sent.chat_id)
    field = browser.find(By.ID, "chat-input")
    field.send_keys("/wave")
    browser.wait(lambda: "Wave" in browser.find(By.TAG_NAME, "body").text)
    field.send_keys(Keys.ENTER)
    browser.find(By.ID, "input-variable-0").send_keys("Emma", Keys.ENTER)
    browser.wait(lambda: "Greet Emma kindly." in browser.find(By.ID, "chat-input").text)
    browser.find(By.ID, "chat-input").send_keys(Keys.ENTER)
    browser.wait_for_text("You said: Greet Emma kindly.")
    browser.screenshot("prompt-with-a-variable")
    asked = [request.body["input"] for request in standin.responses if "session_id" in request.body]
    assert asked[-1][-1]["content"] == [{"type": "input_text", "text": "Greet Emma kindly."}]
