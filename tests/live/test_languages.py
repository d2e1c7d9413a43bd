"""The page in German and in Japanese: a cut, an error and the button that continues, as a user sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By

from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from tests.live.test_notices import SMALL, add_chat, plain_turns
from tests.live.test_summaries import statuses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("standin")]

CUT_OFF = "[[standin: incomplete=max_output_tokens]]"
PAGES = {
    "de-DE": (
        "früheren Nachrichten mit ihren Antworten wurden",
        "Das OpenRouter-Konto hat",
        "Antwort fortsetzen",
    ),
    "ja-JP": ("応答とともに", "OpenRouter アカウントのクレジット", "応答の続きを生成"),
}
"""Of a cut, of an error, and the name of the button."""


@pytest.fixture(autouse=True)
def pruning(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[None]:
    """Long chats are cut without a summary; other tests find the valves as they were."""
    assert SMALL in live_pipe
    open_webui.admin.api.set_valves("openrouter", {"CONTEXT_STRATEGY": "prune"})
    yield
    open_webui.admin.api.set_valves("openrouter", {"CONTEXT_STRATEGY": None})


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Iterator[Browser]:
    """The browser, logged in; in English again afterwards."""
    browser.log_in(open_webui.admin)
    yield browser
    speak(browser, "en-US")


def speak(page: Browser, locale: str) -> None:
    """Choose the page's language as its settings do; it counts from the next page on."""
    page.driver.execute_script("localStorage.setItem('locale', arguments[0])", locale)


@pytest.mark.parametrize("locale", PAGES)
def test_a_cut_and_an_error_are_read_in_the_language_of_the_page(
    open_webui: OpenWebUI, page: Browser, standin: StandIn, locale: str
) -> None:
    """The page hands on its language with each message; it is nowhere in the request."""
    cut, error, _ = PAGES[locale]
    speak(page, locale)
    page.open_chat(add_chat(open_webui.admin, SMALL, plain_turns(9)).chat_id)
    page.send("How long is this?")
    page.wait(lambda: cut in page.last_message())
    page.screenshot(f"cut-{locale}")
    assert all(locale not in request.raw.decode() for request in standin.responses)
    standin.script({"do": "error=402", "times": 9})
    page.send("And this?")
    page.wait(lambda: error in page.last_message())
    page.screenshot(f"error-{locale}")


@pytest.mark.parametrize("locale", PAGES)
def test_the_button_that_a_line_names_is_there(open_webui: OpenWebUI, page: Browser, locale: str) -> None:
    """Under the answer that stopped, by the name that the page has for it."""
    name = PAGES[locale][2]
    speak(page, locale)
    page.open_chat(add_chat(open_webui.admin, SMALL, plain_turns(1, 20)).chat_id)
    page.send(f"Count. {CUT_OFF}")
    page.wait(lambda: name in page.last_message())
    page.wait(lambda: bool(page.driver.find_elements(By.CSS_SELECTOR, f"button[aria-label='{name}']")))
    page.screenshot(f"continue-{locale}")


def test_a_user_without_the_permission_reads_nothing_of_the_button(open_webui: OpenWebUI) -> None:
    """But what to do in its place."""
    api, user = open_webui.admin.api, open_webui.add_user("quiet")
    path = "/api/v1/users/default/permissions"
    permissions: dict[str, Any] = api.get(path)
    fields: dict[str, Any] = {"variables": {"{{USER_LANGUAGE}}": "pt-BR"}}
    said = []
    try:
        for allowed in (True, False):
            api.post(path, {**permissions, "chat": {**permissions["chat"], "continue_response": allowed}})
            _, answer = user.ask(SMALL, f"Count. {CUT_OFF}", **fields)
            said.append([line for line in statuses(answer) if "max_tokens" in line])
    finally:
        api.post(path, permissions)
    line = notice("answer_at_output_limit")
    portuguese = LANGUAGES["pt"]
    without = portuguese.lines["answer_at_output_limit.no_button"]
    assert said == [[in_language(line, portuguese)], [without]]
