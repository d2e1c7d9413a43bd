"""The instructions for spoken answers: behind the base prompt, wherever in it the host wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.wording import with_voice_prompt_last

VOICE = "Speak.\n\nKeep it short."
QUESTION = {"role": "user", "content": "hi"}


def moved(text: Any, base: str | None) -> tuple[Any, str | None]:
    """The system prompt and its base, with the instructions behind it."""
    body = {"model": "f.a/m", "messages": [{"role": "system", "content": text}, QUESTION]}
    call = read_call(body, user={}, metadata={"base_system_prompt": base}, task=None)
    call = with_voice_prompt_last(call, VOICE)
    assert call.messages[1:] == [QUESTION]
    return call.messages[0]["content"], call.base_system_prompt


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        (VOICE, VOICE, (VOICE, "")),
        (f"{VOICE}\nBe kind.", f"{VOICE}\nBe kind.", (f"Be kind.\n{VOICE}", "Be kind.")),
        (f"Ours.\n{VOICE}\nMine.", f"Ours.\n{VOICE}\nMine.", (f"Ours.\nMine.\n{VOICE}", "Ours.\nMine.")),
        (f"{VOICE}\nA.\n<source>", f"{VOICE}\nA.", (f"A.\n<source>\n{VOICE}", "A.")),
        (f"It said: {VOICE}", f"It said: {VOICE}", (f"It said: {VOICE}", f"It said: {VOICE}")),
        ("Be kind.", "Be kind.", ("Be kind.", "Be kind.")),
        (VOICE, None, (VOICE, "")),
        ([{"type": "text", "text": VOICE}], VOICE, ([{"type": "text", "text": VOICE}], VOICE)),
    ],
)
def test_they_stand_behind_the_base_prompt(text: Any, base: str | None, expected: tuple[Any, str]) -> None:
    """Everything else keeps its order; what only quotes them, or is not known, stays as it is."""
    assert moved(text, base) == expected


@pytest.mark.parametrize("messages", [[], ["x"], [None, QUESTION], [QUESTION]])
def test_a_call_without_a_system_prompt_stays_as_it_is(messages: list[Any]) -> None:
    """Also one with messages of an odd shape."""
    call = read_call({"model": "f.a/m", "messages": messages}, user={}, metadata=None, task=None)
    assert with_voice_prompt_last(call, VOICE) == call


def test_the_call_says_whether_it_is_spoken() -> None:
    """By the switch that the page sends with each question of a call."""
    body = {"model": "f.a/m", "messages": [QUESTION]}
    features: list[Any] = [{"voice": True}, {"voice": False}, {}, None]
    calls = [read_call(body, user={}, metadata={"features": each}, task=None) for each in features]
    assert [call.is_spoken for call in calls] == [True, False, False, False]
