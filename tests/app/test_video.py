"""Videos in the app: the job, its price and bill, what is said meanwhile, and who takes it up again."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from scripts.standin.server import create_app
from scripts.standin.state import Service
from scripts.standin.videos import FILM as FILM_BYTES
from tests.app.chat import NewChat, app_on, audit_of
from tests.support.files import FakeFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]
FILM = "standin/film"
NOON = 1_796_000_000


class InLoop(Service):
    """The stand-in without sockets, for which a clock that skips does not wait."""

    base_url = "https://openrouter.test/api/v1"


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture
async def app(tmp_path: Path, files: FakeFiles, service: InLoop) -> AsyncIterator[App]:
    """Its days go by the loop's clock."""
    transport, clock = httpx.ASGITransport(create_app(service)), asyncio.get_running_loop().time
    async with app_on(tmp_path, transport, files=files, clock=lambda: NOON + clock()) as found:
        yield found


@pytest.fixture
def service() -> InLoop:
    """A stand-in."""
    return InLoop()


@pytest.fixture
def new_chat(app: App, service: InLoop) -> NewChat:
    return NewChat(app, cast("Any", service), {"model": FILM})


async def test_a_message_becomes_a_video_that_is_stored_and_billed(
    new_chat: NewChat, service: InLoop, files: FakeFiles, app: App
) -> None:
    """Its price is said before, and the job's state at most as often as it is asked for."""
    answer = await new_chat().ask("A lighthouse at night.")
    [(file_id, (_, film))] = files.kept.items()
    assert answer.text == f"<video>/api/v1/files/{file_id}/content</video>"
    assert (film.name, film.media_type, film.content == FILM_BYTES) == ("video.webm", "video/webm", True)
    assert [re.sub(r"(\d:\d)\d", r"\1x", line) for line in answer.notices] == [
        "A video of 4 s, 720p is being made, for about $0.40...",
        "The video is being made, 0:3x so far...",
        "The video is being made, 1:0x so far...",
    ]
    [begun] = [each.body for each in service.requests if each.method == "POST"]
    assert begun == {
        "model": FILM,
        "prompt": "A lighthouse at night.",
        "duration": 4,
        "resolution": "720p",
        "generate_audio": True,
    }
    assert [(each.model, each.cost, each.estimated) for each in await audit_of(app)] == [(FILM, 0.4, False)]
