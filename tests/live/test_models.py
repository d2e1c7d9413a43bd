"""What the page shows of the models, to an administrator and to an ordinary user, with access control on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By

from scripts import build
from scripts.harness.openwebui import OpenWebUI
from scripts.launch import pipe
from tests.support.browser import Browser
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scripts.harness.openwebui import Account
    from scripts.standin import StandIn

pytestmark = [pytest.mark.live, pytest.mark.browser]

CLAUDE = "openrouter.anthropic/claude-sonnet-4.5"
DEEPSEEK = "openrouter.deepseek/deepseek-v3.2"
OPENED = {"NEW_MODEL_ACCESS": "public", "MODEL_ACCESS_APPLIES_TO": "all"}


@pytest.fixture
def controlled(tmp_path: Path, standin: StandIn) -> Iterator[OpenWebUI]:
    """An Open WebUI that asks who may use which model, with our pipe in it."""
    server = OpenWebUI(tmp_path / "controlled", {"BYPASS_MODEL_ACCESS_CONTROL": "false"})
    try:
        content = build.build(target=tmp_path / "dist").read_text("utf-8")
        pipe.install(server.admin.api, content, pipe.Upstream(pipe.STANDIN_KEY, standin.base_url))
        yield server
    finally:
        server.close()


def shown(account: Account) -> dict[str, Any]:
    """The pipe's models as the page gets them for this account, by their id."""
    models = account.api.get("/api/models?refresh=true")["data"]
    return {model["id"]: model for model in models if model["id"].startswith("openrouter.")}


def selector(page: Browser, name: str) -> str:
    """Open the list of models, keep what is seen, and return its text."""
    page.click(By.ID, "model-selector-model-button")
    page.find(By.CSS_SELECTOR, "[role=option]")
    loaded = "return [...document.querySelectorAll('[role=option] img')].every(each => each.naturalWidth > 0)"
    page.wait(lambda: bool(page.driver.execute_script(loaded)))
    page.screenshot(name)
    return page.find(By.CSS_SELECTOR, "[role=listbox]").text


def test_models_have_rows_and_are_opened_to_everybody(controlled: OpenWebUI, tmp_path: Path) -> None:
    """The administrator sees names, icons and tags at once; a user nothing, until one valve opens all models."""
    admin, eve = controlled.admin, controlled.add_user("eve")
    eve.api.post("/api/v1/users/user/settings/update", {"ui": {"showChangelog": False}})
    models = wait_until(lambda: all("info" in each for each in shown(admin).values()) and shown(admin))
    claude, deepseek = (models[name]["info"]["meta"] for name in (CLAUDE, DEEPSEEK))
    assert (claude["capabilities"]["vision"], deepseek["capabilities"]["vision"]) == (True, False)
    assert "Price per million tokens" in claude["description"]
    assert {"name": "Anthropic"} in models[CLAUDE]["tags"]
    assert shown(eve) == {}

    with Browser(controlled.url, tmp_path / "admin") as page:
        page.log_in(admin)
        assert "Anthropic" in selector(page, "models-as-administrator")

    admin.api.set_valves(pipe.FUNCTION_ID, OPENED)
    shown(admin)  # the list is asked for, which sets off the pass
    wait_until(lambda: shown(eve).keys() == models.keys())
    with Browser(controlled.url, tmp_path / "eve") as page:
        page.log_in(eve)
        assert "Anthropic" in selector(page, "models-as-user")
        page.driver.refresh()
        page.pick_model(models[CLAUDE]["name"])
        page.send("Good morning")
        assert "You said: Good morning" in page.wait_for_answer()
        page.screenshot("first-chat-of-a-user")
