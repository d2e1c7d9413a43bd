"""The forms of the valves in a real page: a fresh host that has the key alone, wrong values, and stored ones."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from scripts import build
from scripts.harness.openwebui import OpenWebUI
from scripts.launch import pipe
from scripts.launch.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser]

MODEL = "openrouter.openai/gpt-5.2"
TITLE = "Advanced · More Settings"
_TOASTS = (By.CSS_SELECTOR, "[data-sonner-toast]")
_SWITCH = f"//*[@role='dialog']//div[normalize-space()='{TITLE}']/following-sibling::button"


@pytest.fixture(scope="module")
def open_webui(tmp_path_factory: pytest.TempPathFactory, standin_session: StandIn) -> Iterator[OpenWebUI]:
    """A host of its own, in which nothing is set but the key, and the stand-in's address in place of OpenRouter's."""
    server = OpenWebUI(tmp_path_factory.mktemp("fresh"))
    try:
        content = build.build(target=tmp_path_factory.mktemp("dist")).read_text("utf-8")
        upstream = pipe.Upstream(pipe.STANDIN_KEY, standin_session.base_url)
        assert MODEL in pipe.install(server.admin.api, content, upstream)
        yield server
    finally:
        server.close()


def store(open_webui: OpenWebUI, valves: Mapping[str, object]) -> None:
    """Write valves past the host's own check, as an older version or another tool may have left them."""
    with closing(sqlite3.connect(open_webui.data / "webui.db")) as database:
        database.execute("UPDATE function SET valves = ? WHERE id = 'openrouter'", [json.dumps(valves)])
        database.commit()


def test_a_fresh_host_needs_the_key_alone(open_webui: OpenWebUI, standin: StandIn) -> None:
    """The first chat is answered; only the key and the address are stored."""
    assert set(open_webui.admin.api.valves("openrouter")) == {"API_KEY", "BASE_URL"}
    _, answer = open_webui.admin.ask(MODEL, "Hello")
    assert "You said: Hello" in answer["content"]
    assert {each.status for each in standin.responses} == {200}


def test_a_form_says_what_is_wrong(open_webui: OpenWebUI, browser: Browser) -> None:
    """In the page's own message, and nothing is saved; once it is right, it is saved as it was typed."""
    page = browser
    page.log_in(open_webui.admin)
    page.driver.get(f"{open_webui.url}/admin/functions")
    page.click(By.CSS_SELECTOR, "button[aria-label='Valves']")
    dialog = page.find(By.CSS_SELECTOR, "[role=dialog]")
    page.wait(lambda: TITLE in dialog.text)
    page.screenshot("admin-valves")
    page.click(By.XPATH, _SWITCH)
    field = dialog.find_elements(By.CSS_SELECTOR, "textarea")[-1]
    field.send_keys('{"RETRY_SECOND": 5}')
    page.click(By.CSS_SELECTOR, "[role=dialog] button[type=submit]")
    line = "Not saved. ADVANCED: there is no RETRY_SECOND here, perhaps RETRY_SECONDS."
    page.wait(lambda: line in [each.text for each in page.driver.find_elements(*_TOASTS)])
    page.screenshot("admin-valves-refused")
    assert "ADVANCED" not in open_webui.admin.api.valves("openrouter")
    field.clear()
    field.send_keys('{"RETRY_SECONDS": 5}')
    page.click(By.CSS_SELECTOR, "[role=dialog] button[type=submit]")
    page.wait(lambda: "Valves updated successfully" in page.driver.find_element(By.TAG_NAME, "body").text)
    assert open_webui.admin.api.valves("openrouter")["ADVANCED"] == '{"RETRY_SECONDS": 5}'
    with pytest.raises(ApiError, match=r"Not saved\. CLIP_LAST_MESSAGES takes a whole number, 0 to 50\."):
        open_webui.admin.api.set_user_valves("openrouter", {"CLIP_LAST_MESSAGES": 51})


def test_stored_valves_that_no_longer_fit_break_nothing(open_webui: OpenWebUI, standin: StandIn) -> None:
    """They have their defaults, with one line in the log that names them; those that protect chats stop them."""
    api = open_webui.admin.api
    kept = {name: value for name, value in api.valves("openrouter").items() if name != "ADVANCED"}
    old = {"CONTEXT_STRATEGY": "shrink", "RETRY_SECONDS": -1, "APP_TITLE": "House"}
    try:
        store(open_webui, {**kept, **old})
        for question in ("Hello", "Again"):
            _, answer = open_webui.admin.ask(MODEL, question)
            assert f"You said: {question}" in answer["content"]
        assert standin.responses[-1].headers["x-openrouter-title"] == "House"
        log = open_webui.log.read_text("utf-8")
        assert log.count("valves cannot be read, and have no effect: CONTEXT_STRATEGY, RETRY_SECONDS") == 1
        assert "shrink" not in log
        api.set_valves("openrouter", {"CONTEXT_STRATEGY": None, "RETRY_SECONDS": None, "WEB_FETCH": False})
        assert json.loads(api.valves("openrouter")["ADVANCED"]) == {
            "APP_TITLE": "House",
            "WEB_FETCH": False,
        }
        asked = len(standin.responses)
        store(open_webui, {**kept, "ZDR": "perhaps"})
        _, answer = open_webui.admin.ask(MODEL, "Is this private?")
        assert "ZDR" in str(answer["error"])
        assert len(standin.responses) == asked
    finally:
        store(open_webui, kept)
