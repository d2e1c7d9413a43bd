"""What most live tests have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scripts.harness.openwebui import OpenWebUI
    from scripts.standin import StandIn
    from tests.support.browser import Browser


@pytest.fixture
def valves(open_webui: OpenWebUI, live_pipe: list[str]) -> Iterator[Callable[..., None]]:
    """Sets valves of the pipe; other tests find them as they were."""
    assert live_pipe
    api = open_webui.admin.api
    stored = api.valves("openrouter")
    before = {**stored, **json.loads(stored.get("ADVANCED") or "{}")}
    changed: set[str] = set()

    def change(**values: Any) -> None:
        changed.update(values)
        api.set_valves("openrouter", values)

    yield change
    api.set_valves("openrouter", {name: before.get(name) for name in changed})


@pytest.fixture
def accepted(standin: StandIn) -> Iterator[None]:
    """Every request of the test is valid, to the letter."""
    yield
    verdicts = [(each.status, each.warnings, each.error) for each in standin.responses]
    assert verdicts == [(200, [], "")] * len(verdicts)


@pytest.fixture
def page(open_webui: OpenWebUI, browser: Browser) -> Browser:
    """The browser, with the administrator at the chat."""
    browser.log_in(open_webui.admin)
    return browser
