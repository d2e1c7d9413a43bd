"""Spoken questions in a chat: the host's instructions for them leave its beginning as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.app.chat import NewChat, app_on

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

VOICE = "Keep it short."


async def voice_prompt() -> str:
    """What the administrator has set."""
    return VOICE


@pytest.mark.parametrize(
    ("steady", "expected"),
    [
        (True, [["hi"], ["hi", VOICE, "hi"], ["hi", "hi", "hi"]]),
        (False, [["hi"], [VOICE, "hi", "hi"], ["hi", "hi", "hi"]]),
    ],
)
async def test_they_stand_before_the_spoken_question(
    tmp_path: Path, standin: StandIn, *, steady: bool, expected: list[list[str]]
) -> None:
    """And leave no trace in the next request; switched off they stay in front, where the host wrote them."""
    async with app_on(tmp_path, voice_prompt=voice_prompt) as app:
        chat = NewChat(app, standin)(STEADY_SYSTEM_PROMPT=steady)
        for spoken in (False, True, False):
            system = [{"role": "system", "content": VOICE}] if spoken else []
            chat.metadata = {"features": {"voice": spoken}, "base_system_prompt": VOICE if spoken else None}
            chat.messages[:0] = system
            await chat.ask("hi")
            del chat.messages[: len(system)]
    inputs = [request.body["input"] for request in standin.responses]
    texts = [
        [item["content"][0]["text"] for item in each if item.get("role") in {"system", "user"}]
        for each in inputs
    ]
    assert texts == expected
