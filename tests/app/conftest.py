"""What all tests of the app have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.openrouter import catalog
from open_webui_openrouter_pipe.turn import channel
from scripts.harness.page import PATIENT_SECONDS
from tests.app.chat import LATE, NewChat, app_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the first list of models takes longer than a user would wait: these tests need it.

    Nor is anything said of silences, which any request may have there.
    """
    monkeypatch.setattr(catalog, "FIRST_WAIT_SECONDS", PATIENT_SECONDS)
    monkeypatch.setattr(channel, "SILENT_SECONDS", (PATIENT_SECONDS,))


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    """An app on a database of its own."""
    async with app_on(tmp_path) as opened:
        yield opened


@pytest.fixture
def new_chat(app: App, standin: StandIn) -> NewChat:
    """Begins chats in the app."""
    return NewChat(app, standin)


@pytest.fixture
def long_chat(app: App, standin: StandIn) -> NewChat:
    """Begins chats in the app that soon are too long for their model."""
    return NewChat(app, standin, LATE)
