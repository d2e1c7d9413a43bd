"""How one user is addressed: lines in their language, questions on the page, spoken answers; cases in `wording.txt`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.wording import (
    Wording,
    in_theme,
    may_continue,
    page_question,
    user_language,
    with_voice_prompt_last,
)
from open_webui_openrouter_pipe.ports import Embed, Failed, Notice
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.words.lines import LANGUAGES, notice
from tests.support.rows import rows

pytestmark = pytest.mark.anyio

CASES = Path(__file__).with_name("wording.txt")
COST = notice("cost_line", line=notice("next_cost", cost="1¢"))
CUT, STOP = notice("lacking_clipped", count=3), notice("answer_at_output_limit")
SEARCH = Notice(notice("searching"), done=False)
LINES = [SEARCH, *map(Notice, (notice("searched"), CUT, STOP, COST, "Look out."))]
VOICE = "Speak.\n\nKeep it short."
QUESTION = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(("chosen", "header", "code"), rows(CASES, "Languages"))
def test_the_users_language(chosen: Any, header: str | None, code: str | None) -> None:
    """What the page sends as a variable, otherwise what the client accepts."""
    metadata = {"variables": {"{{USER_LANGUAGE}}": chosen}} if chosen else None
    request = SimpleNamespace(headers={"accept-language": header}) if header is not None else None
    found = user_language(metadata, request)
    assert (found and found.code) == code


@pytest.mark.parametrize(("language", "shown", "button", "expected"), rows(CASES, "Lines"))
async def test_what_a_user_reads(
    language: str, shown: Any, *, button: bool | None, expected: list[Any]
) -> None:
    """With its weight. Whether there is a button is a question to the host's database: one line names it."""
    asked: list[str] = []

    async def has() -> bool:
        asked.append(line.text)
        return bool(button)

    wording = Wording(LANGUAGES[language], shown, None if button is None else has)
    said = []
    for line in LINES:
        output = await wording.say(line)
        said += [[output.text, output.weight]] if isinstance(output, Notice) else []
    assert (said, asked) == (expected, [STOP] if expected and button is not None else [])


async def test_answers_and_errors_always_arrive() -> None:
    """The error in the user's language."""
    quiet, text, failed = (
        Wording(LANGUAGES["de"], "none"),
        TextDelta(0, 0, "Hello"),
        notice("model_not_found"),
    )
    said = [await quiet.say(text), await quiet.say(Failed(failed))]
    assert said == [text, Failed("OpenRouter kennt dieses Modell nicht. Bitte wählen Sie ein anderes.")]


async def test_channels_have_no_button_and_administrators_have_it() -> None:
    """Neither needs a look at the host's permissions."""
    call = read_call(
        {"model": "x.m", "messages": []}, user={"id": "u", "role": "admin"}, metadata={}, task=None
    )
    chats = ("chat", "channel:1")
    assert [await may_continue(replace(call, chat_id=chat)) for chat in chats] == [True, False]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [(True, True), (False, False), (None, False), ({"error": "Client session disconnected."}, None)],
)
async def test_a_question_is_a_confirmation_of_the_page(reply: Any, answer: Any) -> None:
    """Its answer says whether the user agrees (one that is closed says no), and None that nobody was there."""
    events = list[dict[str, Any]]()

    async def event_call(event: dict[str, Any]) -> Any:
        events.append(event)
        return reply

    ask = page_question(event_call)
    assert ask
    assert await ask("Title", "Text") is answer
    assert events == [{"type": "confirmation", "data": {"title": "Title", "message": "Text"}}]
    assert page_question(None) is None


def spoken(messages: list[Any], base: str | None) -> tuple[Call, Call]:
    """A call, and the same with the instructions for spoken answers behind its base prompt."""
    body, metadata = {"model": "f.a/m", "messages": messages}, {"base_system_prompt": base}
    call = read_call(body, user={}, metadata=metadata, task=None)
    return call, with_voice_prompt_last(call, VOICE)


@pytest.mark.parametrize(
    ("text", "base", "expected"),
    [
        (VOICE, VOICE, (VOICE, "")),
        (f"{VOICE}\nMine.", f"{VOICE}\nMine.", (f"Mine.\n{VOICE}", "Mine.")),
        (f"Ours.\n{VOICE}\nMine.", f"Ours.\n{VOICE}\nMine.", (f"Ours.\nMine.\n{VOICE}", "Ours.\nMine.")),
        (f"{VOICE}\nA.\n<source>", f"{VOICE}\nA.", (f"A.\n<source>\n{VOICE}", "A.")),
        (f"It said: {VOICE}", f"It said: {VOICE}", (f"It said: {VOICE}", f"It said: {VOICE}")),
        ("Be kind.", "Be kind.", ("Be kind.", "Be kind.")),
        (VOICE, None, (VOICE, "")),
        ([{"type": "text", "text": VOICE}], VOICE, ([{"type": "text", "text": VOICE}], VOICE)),
    ],
)
def test_spoken_instructions_stand_behind_the_base_prompt(
    text: Any, base: str | None, expected: tuple[Any, str]
) -> None:
    """Everything else keeps its order; what only quotes them, or is not known, stays as it is."""
    call, moved = spoken([{"role": "system", "content": text}, QUESTION], base)
    system = {"role": "system", "content": expected[0]}
    assert moved == replace(call, messages=[system, QUESTION], base_system_prompt=expected[1])


@pytest.mark.parametrize("messages", [[], ["x"], [None, QUESTION], [QUESTION]])
def test_a_call_without_a_system_prompt_stays_as_it_is(messages: list[Any]) -> None:
    """Also one with messages of an odd shape."""
    call, moved = spoken(messages, VOICE)
    assert moved == call


@pytest.mark.parametrize(
    ("answer", "shown"),
    [("dark", "dark"), ("light", "light"), ({"error": "nobody"}, ""), ("blue", ""), (TimeoutError(), "")],
)
async def test_a_page_has_the_theme_of_the_tab(answer: Any, shown: str) -> None:
    """Which the tab says of itself; where it says nothing, the page is as it was."""

    async def page(question: dict[str, Any]) -> Any:
        assert question["type"] == "execute"
        if isinstance(answer, Exception):
            raise answer
        return answer

    html = '<!doctype html><html lang="en"><p>&lt;html'
    expected = html.replace("<html", f'<html data-theme="{shown}"') if shown else html
    assert await in_theme(Embed(html), page) == Embed(expected)
