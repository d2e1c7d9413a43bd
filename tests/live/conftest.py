"""What most live tests have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.harness.browser import Browser
from scripts.harness.openwebui import TOOL, WEATHER, Account, OpenWebUI
from scripts.standin import StandIn
from tests.live.models import Valves


@pytest.fixture(scope="session")
def admin(open_webui: OpenWebUI, live_pipe: list[str]) -> Account:
    """The administrator of the session's Open WebUI, with our pipe and a tool that tells the weather."""
    assert live_pipe
    open_webui.add_tool(TOOL, WEATHER)
    return open_webui.admin


@pytest.fixture
def valves(admin: Account) -> Iterator[Valves]:
    """Sets valves of the pipe; other tests find them as they were, and the administrator's own empty."""
    api = admin.api
    stored = api.valves("openrouter")
    before = {**stored, **json.loads(stored.get("ADVANCED") or "{}")}
    changed: set[str] = set()

    def change(**values: Any) -> None:
        changed.update(values)
        api.set_valves("openrouter", values)

    yield change
    api.set_valves("openrouter", {name: before.get(name) for name in changed})
    api.set_user_valves("openrouter", {})
    api.models()


@pytest.fixture
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request of the test is valid, to the letter."""
    yield
    verdicts = [(each.status, each.warnings, each.error) for each in standin.responses]
    assert verdicts == [(200, [], "")] * len(verdicts)


@pytest.fixture
def page(admin: Account, browser: Browser) -> Browser:
    """The browser, with the administrator at the chat."""
    browser.log_in(admin)
    return browser
