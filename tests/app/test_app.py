"""The app: what it takes care of for every request."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.app import App, HostResources
from open_webui_openrouter_pipe.store.database import Database
from scripts.harness.page import FakeRecords
from tests.app.chat import Chat, settings

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio


async def test_a_worker_that_never_listed_models_knows_them(tmp_path: Path, standin: StandIn) -> None:
    """The first question already asks for sealed reasoning, which only models that reason may be asked for."""
    database = Database.from_url(f"sqlite:///{tmp_path}/rows.db")
    async with aclosing(App(HostResources(database, FakeRecords(), "secret"))) as app:
        await Chat(app, settings(standin)).ask("one")
    assert standin.responses[0].body["include"] == ["reasoning.encrypted_content"]
