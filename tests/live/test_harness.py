"""The harness itself against a real Open WebUI: a small function is installed, changed, asked and stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scripts.harness.openwebui import OpenWebUI
    from tests.support.browser import Browser

pytestmark = pytest.mark.live

ECHO = '''"""
title: Echo
"""
import asyncio

from pydantic import BaseModel


class Pipe:
    class Valves(BaseModel):
        GREETING: str = "You said"

    class UserValves(BaseModel):
        SIGNATURE: str = ""

    def __init__(self):
        self.valves = self.Valves()

    def pipes(self):
        return [{"id": "echo", "name": "Echo"}, {"id": "endless", "name": "Endless"}]

    async def pipe(self, body, __user__, __event_emitter__, __event_call__, __metadata__):
        text = body["messages"][-1]["content"]
        signature = __user__["valves"].SIGNATURE
        if body["model"].endswith("endless"):
            return self.count()
        if text == "confirm":
            text = str(await __event_call__({"type": "confirmation", "data": {"title": "?", "message": "?"}}))
        if text == "tools":
            text = ", ".join(sorted(__metadata__["tools"]))
        await __event_emitter__({"type": "status", "data": {"description": "echoing", "done": True}})
        return f"{self.valves.GREETING}: {text}{signature}"

    async def count(self):
        for number in range(100_000):
            yield f"{number} "
            await asyncio.sleep(0.05)
'''

TOOL = '''
class Tools:
    def dice(self) -> str:
        """Roll a die."""
        return "4"
'''


@pytest.fixture
def echo(open_webui: OpenWebUI) -> OpenWebUI:
    """The session's Open WebUI with the echo function in its first state."""
    open_webui.admin.api.install_function("probe", "Probe", ECHO)
    open_webui.admin.api.set_valves("probe", {"GREETING": None})
    open_webui.admin.api.models()
    return open_webui


def test_an_installed_function_offers_its_models(echo: OpenWebUI) -> None:
    """Both of the function's models are listed."""
    listed = [model for model in echo.admin.api.models() if model.startswith("probe.")]
    assert listed == ["probe.echo", "probe.endless"]


def test_a_saved_chat_goes_on(echo: OpenWebUI) -> None:
    """Two messages in the frontend's way make one chat of four messages, the second answering the first."""
    first, answer = echo.admin.ask("probe.echo", "one")
    second, follow_up = echo.admin.ask("probe.echo", "two", after=first)
    messages = echo.admin.chat(second.chat_id)["history"]["messages"]
    assert (answer["content"], follow_up["content"]) == ("You said: one", "You said: two")
    assert (first.chat_id, len(messages)) == (second.chat_id, 4)


def test_bare_calls_answer_whole_and_streamed(echo: OpenWebUI) -> None:
    """The bare API gives one object without streaming, and chunks that add up to the same text with it."""
    messages = [{"role": "user", "content": "hello"}]
    whole = echo.admin.complete("probe.echo", messages)["choices"][0]["message"]["content"]
    chunks = echo.admin.stream("probe.echo", messages)
    streamed = "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )
    assert (whole, streamed) == ("You said: hello", "You said: hello")


def test_valves_of_administrator_and_user_take_effect(echo: OpenWebUI) -> None:
    """The administrator's valve changes every answer, the user's only their own."""
    user = echo.add_user("signer")
    echo.admin.api.set_valves("probe", {"GREETING": "Heard"})
    user.api.set_user_valves("probe", {"SIGNATURE": " (signed)"})
    answers = [account.ask("probe.echo", "word")[1]["content"] for account in (user, echo.admin)]
    assert answers == ["Heard: word (signed)", "Heard: word"]


def test_changed_code_takes_effect(echo: OpenWebUI) -> None:
    """Installing over an existing function replaces its code and leaves it active."""
    echo.admin.api.install_function("probe", "Probe", ECHO.replace("You said", "Now"))
    assert echo.admin.ask("probe.echo", "word")[1]["content"] == "Now: word"


def test_stop_ends_an_answer(echo: OpenWebUI) -> None:
    """After Stop the partial answer is stored as done."""
    with echo.admin.session() as session:
        sent = echo.admin.send("probe.endless", "count", session_id=session.id)
        session.wait_for("response:completion", count=5)
        echo.admin.stop(sent)
        assert echo.admin.wait(sent)["content"].startswith("0 1 2 ")


def test_a_tab_receives_events_and_answers_calls(echo: OpenWebUI) -> None:
    """The websocket brings the status event, and its reply to a confirmation reaches the function."""
    with echo.admin.session({"confirmation": True}) as session:
        _, answer = echo.admin.ask("probe.echo", "confirm", session_id=session.id)
        statuses = session.of_type("status")
    assert answer["content"] == "You said: True"
    assert statuses == [{"description": "echoing", "done": True}]


def test_a_tool_reaches_the_function(echo: OpenWebUI) -> None:
    """A toolkit that was added and chosen for the chat is among the function's tools."""
    echo.add_tool("dice_tools", TOOL)
    _, answer = echo.admin.ask("probe.echo", "tools", tool_ids=["dice_tools"])
    assert "dice" in answer["content"].removeprefix("You said: ").split(", ")


@pytest.mark.browser
def test_a_person_chats_in_the_browser(echo: OpenWebUI, browser: Browser) -> None:
    """Log in, pick a model, send, read the answer, then stop an endless one, all by what is on the screen."""
    browser.log_in(echo.admin)
    browser.pick_model("Echo")
    browser.send("Good morning")
    assert browser.wait_for_answer() == "You said: Good morning"
    browser.new_chat()
    browser.pick_model("Endless")
    browser.send("count")
    browser.wait_for_text("3 4 5")
    browser.stop()
    stopped = browser.wait_for_answer()
    browser.screenshot("harness")
    assert stopped.startswith("0 1 2 3 4 5")
