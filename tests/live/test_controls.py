"""What users switch, in a real page: their valves, an answer with its sources, and their own key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from scripts.launch.api import ApiError
from scripts.standin.state import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("live_pipe")]

NAME = "OpenAI: GPT-5.2"
KEY = "sk-or-v1-my-own-key"
CLAUDE = "anthropic/claude-sonnet-4.5"


@pytest.fixture(autouse=True)
def _default_valves(open_webui: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves as they were."""
    yield
    api = open_webui.admin.api
    api.set_valves("openrouter", {"USER_CONTROLS": None})
    api.set_user_valves("openrouter", {})


def open_valves(page: Browser) -> str:
    """Open the user's valves by the button in the message field, and return what they show."""
    page.click(By.CSS_SELECTOR, "#message-input-container button[aria-label='Valves']")
    dialog = page.find(By.CSS_SELECTOR, "[role=dialog]")
    page.wait(lambda: "Storage · Persist Reasoning Tokens" in dialog.text)
    return dialog.text


def test_a_search_on_the_user_s_own_key(open_webui: OpenWebUI, browser: Browser, standin: StandIn) -> None:
    """The form shows what is set but not the key; the search, its source and its replay are the user's to pay."""
    api, page = open_webui.admin.api, browser
    api.set_user_valves("openrouter", {"WEB_SEARCH": "on", "API_KEY": KEY, "REASONING_EFFORT": "high"})
    page.log_in(open_webui.admin)
    page.pick_model(NAME)
    shown = open_valves(page)
    page.screenshot("user-valves")
    assert {"Models · Reasoning Effort", "Search · Web Search", "OpenRouter · My Own API Key"} <= set(
        shown.splitlines()
    )
    assert KEY not in page.driver.page_source
    assert KEY not in str(api.get("/api/v1/functions/id/openrouter/valves/user"))
    page.new_chat()
    page.pick_model(NAME)
    page.send("Search the web for tall cats.")
    answer = page.wait_for_answer()
    page.wait(lambda: "Searched the web for: tall cats." in page.last_message())
    page.wait(lambda: "1 Source" in page.last_message())
    page.screenshot("answer-with-sources")
    page.send("Thank you.")
    page.wait_for_answer()
    chats = [each for each in standin.responses if b"### Task" not in each.raw]
    assert "What was found" in answer
    assert [each.status for each in chats] == [200, 200]
    assert {each.account for each in standin.responses} == {account_of(KEY)}
    searches = [item for item in chats[0].output if item["type"] == "openrouter:web_search"]
    assert [item for item in chats[1].body["input"] if item["type"] == "openrouter:web_search"] == searches
    assert KEY.encode() not in open_webui.log.read_bytes()
    stored = api.get("/api/v1/functions/id/openrouter/valves/user")
    assert stored["API_KEY"].startswith("sealed:owned:")
    assert (stored["WEB_SEARCH"], stored["REASONING_EFFORT"]) == ("on", "high")


def test_what_no_longer_fits_is_not_taken_for_the_defaults(open_webui: OpenWebUI, standin: StandIn) -> None:
    """Open WebUI hands on the defaults then. What can be read holds; without zero data retention nothing is sent."""
    api = open_webui.admin.api
    settings = api.get("/api/v1/users/user/settings") or {}
    kept = dict((settings.get("functions") or {}).get("valves") or {})

    def ask_with(valves: dict[str, object]) -> str:
        functions = {"valves": {**kept, "openrouter": valves}}
        api.post("/api/v1/users/user/settings/update", {**settings, "functions": functions})
        body = {
            "model": f"openrouter.{CLAUDE}",
            "messages": [{"role": "user", "content": "Hello"}],
            "stream": False,
        }
        return str(api.post("/api/chat/completions", body))

    assert "You said: Hello" in ask_with({"ZDR": True, "REASONING_EFFORT": "huge"})
    assert standin.responses[-1].body["provider"] == {"zdr": True}
    asked = len(standin.responses)
    with pytest.raises(ApiError, match=r"Nothing was sent.*ZDR"):
        ask_with({"ZDR": "perhaps"})
    assert len(standin.responses) == asked


def test_hidden_controls_are_not_in_the_form(open_webui: OpenWebUI, browser: Browser) -> None:
    """Only what the administrator names."""
    open_webui.admin.api.set_valves("openrouter", {"USER_CONTROLS": "WEB_SEARCH"})
    browser.log_in(open_webui.admin)
    browser.pick_model(NAME)
    shown = set(open_valves(browser).splitlines())
    browser.screenshot("user-valves-hidden")
    assert "Search · Web Search" in shown
    assert not {"Models · Reasoning Effort", "OpenRouter · My Own API Key", "Pictures · Size"} & shown
