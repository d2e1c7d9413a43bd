"""Spoken questions in a chat: the host's instructions for them leave its beginning as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.app.chat import Chat, app_on, settings

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

VOICE = "Keep it short."


async def voice_prompt() -> str:
    """What the administrator has set."""
    return VOICE


async def prompts_sent(folder: Path, standin: StandIn, *, steady: bool) -> list[list[str]]:
    """The texts of three requests without the answers: a typed question, a spoken one, and a typed one."""
    async with app_on(folder, voice_prompt=voice_prompt) as app:
        chat = Chat(app, replace(settings(standin), steady_system_prompt=steady))
        for spoken in (False, True, False):
            system = [{"role": "system", "content": VOICE}] if spoken else []
            chat.metadata = {"features": {"voice": spoken}, "base_system_prompt": VOICE if spoken else None}
            chat.messages[:0] = system
            await chat.ask("hi")
            del chat.messages[: len(system)]
    inputs = [request.body["input"] for request in standin.responses]
    return [
        [item["content"][0]["text"] for item in each if item.get("role") in {"system", "user"}]
        for each in inputs
    ]


async def test_they_stand_before_the_spoken_question(tmp_path: Path, standin: StandIn) -> None:
    """And leave no trace in the next request."""
    sent = await prompts_sent(tmp_path, standin, steady=True)
    assert sent == [["hi"], ["hi", VOICE, "hi"], ["hi", "hi", "hi"]]


async def test_switched_off_they_stay_where_the_host_wrote_them(tmp_path: Path, standin: StandIn) -> None:
    """In front."""
    sent = await prompts_sent(tmp_path, standin, steady=False)
    assert sent == [["hi"], [VOICE, "hi", "hi"], ["hi", "hi", "hi"]]
