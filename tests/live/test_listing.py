"""The selector when something is wrong, the answer of its first entry, and variants that are chosen there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser

pytestmark = [pytest.mark.live, pytest.mark.browser, pytest.mark.usefixtures("live_pipe")]

STATUS = "openrouter.status"
REFUSED = "OpenRouter: key refused (check API_KEY in the valves)"
ADDRESS = "OpenRouter: wrong BASE_URL (it is not an address)"
VARIANT, VARIANT_NAME = "openrouter.openai/gpt-5.2:nitro@preset/team", "OpenAI: GPT-5.2 (nitro) (preset team)"
PRESET = "openrouter.@preset/team"


@pytest.fixture
def valves_afterwards(open_webui: OpenWebUI) -> Iterator[None]:
    """Other tests find the valves and the models as they were."""
    before = open_webui.admin.api.valves("openrouter")
    yield
    names = ("MODELS", "MODEL_FILTERS", "VARIANTS", "STATUS_ENTRY")
    kept = {name: before.get(name) for name in (*names, "API_KEY", "BASE_URL")}
    open_webui.admin.api.set_valves("openrouter", kept)
    listed_models(open_webui)


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Browser:
    """The browser, logged in."""
    browser.log_in(open_webui.admin)
    return browser


def listed_models(open_webui: OpenWebUI) -> list[str]:
    """The pipe's models once the test of the key is over: an entry's answer waits for it."""
    api = open_webui.admin.api
    api.models()
    if STATUS in api.models():
        open_webui.admin.complete(STATUS, [{"role": "user", "content": "?"}])
    return [name for name in api.models() if name.startswith("openrouter.")]


def open_selector(page: Browser) -> None:
    """Show the list of models from its beginning."""
    page.click(By.ID, "model-selector-model-button")
    page.find(By.ID, "model-search-input")
    page.find(By.CSS_SELECTOR, "[role=option]")


def option_labels(page: Browser) -> list[str]:
    """The models in the open selector, in their order."""
    script = "return [...document.querySelectorAll('[role=option]')].map(each => each.ariaLabel)"
    labels: list[str] = page.driver.execute_script(script)
    return [label.removeprefix("Select ").removesuffix(" model") for label in labels if label]


@pytest.mark.usefixtures("valves_afterwards")
def test_a_refused_key_is_seen_in_the_selector_and_explained_in_a_chat(
    open_webui: OpenWebUI, page: Browser, standin: StandIn
) -> None:
    """The entry stands before the models; an administrator reads what to do, a user whom to ask."""
    open_webui.admin.api.set_valves("openrouter", {"API_KEY": "sk-or-bad"})
    models = listed_models(open_webui)
    assert (models[0], len(models) > 20) == (STATUS, True)
    page.new_chat()
    open_selector(page)
    page.screenshot("status-refused-key-selector")
    assert REFUSED in option_labels(page)
    page.new_chat()
    page.pick_model(REFUSED)
    page.send("Why does nothing work?")
    answer = page.wait_for_answer()
    page.screenshot("status-refused-key-answer")
    assert "OpenRouter refuses the API key" in answer
    user = open_webui.add_user("status-reader")
    asked = user.complete(STATUS, [{"role": "user", "content": "Why?"}])
    assert asked["choices"][0]["message"]["content"].startswith("OpenRouter cannot be used at present.")
    assert standin.responses == []


@pytest.mark.usefixtures("valves_afterwards")
def test_a_wrong_address_leaves_one_entry(open_webui: OpenWebUI, page: Browser) -> None:
    """Instead of the page's own hint, which sends people to the wrong settings."""
    open_webui.admin.api.set_valves("openrouter", {"BASE_URL": "not a url"})
    assert listed_models(open_webui) == [STATUS]
    page.new_chat()
    open_selector(page)
    page.screenshot("status-wrong-address-selector")
    assert ADDRESS in option_labels(page)


@pytest.mark.usefixtures("valves_afterwards")
def test_an_administrator_sees_what_the_key_may_spend(open_webui: OpenWebUI, page: Browser) -> None:
    """When the entry is always there."""
    open_webui.admin.api.set_valves("openrouter", {"STATUS_ENTRY": "always"})
    listed_models(open_webui)
    page.new_chat()
    page.pick_model("OpenRouter: ready")
    page.send("How much is left?")
    answer = page.wait_for_answer()
    page.screenshot("status-ready-answer")
    assert "Its limit is $50.00 a month" in answer


@pytest.mark.usefixtures("valves_afterwards")
def test_a_variant_is_chosen_and_answers(open_webui: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """Open WebUI takes ids with a colon and an at sign, and the pipe asks for them by their own name."""
    valves = {"MODELS": "openai/*", "VARIANTS": "openai/gpt-5.2:nitro@preset/team, @preset/team"}
    open_webui.admin.api.set_valves("openrouter", valves)
    assert {VARIANT, PRESET} <= set(listed_models(open_webui))
    page.new_chat()
    page.pick_model(VARIANT_NAME)
    page.send("Good morning")
    first = page.wait_for_answer()
    page.send("And good night")
    page.wait_for_answer()
    page.screenshot("variant-answer")
    open_webui.admin.ask(PRESET, "Good morning")
    models = [each.body["model"] for each in standin.responses if b"### Task:" not in each.raw]
    assert "You said: Good morning" in first
    assert models == ["openai/gpt-5.2:nitro@preset/team"] * 2 + ["@preset/team"]
    assert {(each.status, *each.warnings) for each in standin.responses} == {(200,)}
