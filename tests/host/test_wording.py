"""The language of a user, as the host's page and other clients tell it, and the lines that a user gets."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from open_webui_openrouter_pipe.host.call import Call, read_call
from open_webui_openrouter_pipe.host.wording import Wording, may_continue, user_language
from open_webui_openrouter_pipe.ports import Failed, Notice, Output
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.words.lines import LANGUAGES, notice, without_button

pytestmark = pytest.mark.anyio

GERMAN = LANGUAGES["de"]
CUT = notice("lacking_clipped", count=3)
WAIT = notice("searching")
BUTTON = notice("answer_at_output_limit")


def request(header: str | None) -> Any:
    return SimpleNamespace(headers={} if header is None else {"accept-language": header})


@pytest.mark.parametrize(
    ("chosen", "header", "code"),
    [
        pytest.param("ja-JP", "de", "ja", id="the page's own language counts first"),
        pytest.param("pl-PL", "de", "en", id="one that we do not have is not replaced by another"),
        pytest.param(None, "fr-FR,fr;q=0.9,en;q=0.8", "fr", id="a channel has the header alone"),
        pytest.param(None, "en;q=0.3, es;q=0.7, pl", "es", id="the header's weights count"),
        pytest.param(None, "de;q=0, it", "en", id="a language that is refused"),
        pytest.param(None, "de;q=high, pt", "pt", id="a weight that is not a number"),
        pytest.param(None, None, None, id="a program says nothing"),
        pytest.param(7, "", None, id="nothing readable"),
    ],
)
def test_the_users_language(chosen: Any, header: str | None, code: str | None) -> None:
    """What the page sends as a variable, otherwise what the client accepts."""
    metadata = {"variables": {"{{USER_LANGUAGE}}": chosen}} if chosen else {}
    found = user_language(metadata, request(header))
    assert (found and found.code) == code


def test_an_automation_says_nothing_of_a_language() -> None:
    """It has neither variables nor a request."""
    assert user_language(None, None) is None


@pytest.mark.parametrize(
    ("shown", "seen"),
    [
        (
            "all",
            [
                "Das Web wird durchsucht...",
                "Nur die letzten 3 Nachrichten dieses Chats werden an das Modell gesendet.",
            ],
        ),
        ("important", ["Nur die letzten 3 Nachrichten dieses Chats werden an das Modell gesendet."]),
        ("none", []),
    ],
)
async def test_a_quiet_user_reads_less(shown: Any, seen: list[str]) -> None:
    """Of status lines those about cuts, or none; the answer and an error always arrive."""
    wording, text, failed = (
        Wording(GERMAN, shown),
        TextDelta(0, 0, "Hello"),
        Failed(notice("model_not_found")),
    )
    outputs: list[Output] = [Notice(WAIT, done=False), Notice(CUT), text, failed]
    said = [each for output in outputs if (each := await wording.say(output))]
    assert [each.text for each in said if isinstance(each, Notice)] == seen
    assert said[-2:] == [text, Failed("OpenRouter kennt dieses Modell nicht. Bitte wählen Sie ein anderes.")]


PRICE = notice("joined", lines=("$0.01", notice("cost_seconds", seconds=1.5)), separator=" · ")
COST = notice("cost_line", line=PRICE)


@pytest.mark.parametrize(("has_button", "cut"), [(True, BUTTON), (False, without_button(BUTTON))])
async def test_what_an_answer_lacks_stays_in_sight(has_button: bool, cut: str) -> None:  # noqa: FBT001 - the case
    """The page shows the last line alone, so it begins with them, once each; waits stay behind it."""

    async def has() -> bool:
        return has_button

    wording = Wording(may_continue=has)
    said = [await wording.say(Notice(line)) for line in (WAIT, CUT, BUTTON, CUT, COST)]
    assert said[-1] == Notice(f"{CUT} · {cut} · $0.01 · 1.5 s")
    assert [each.text for each in said[:-1] if isinstance(each, Notice)] == [WAIT, CUT, cut, CUT]
    assert await Wording().say(Notice(COST)) == Notice(COST)


async def test_a_line_of_nobody_is_important() -> None:
    """What is not known to be routine is shown."""
    assert await Wording(shown="important").say(Notice("Look out.")) == Notice("Look out.")


@pytest.mark.parametrize("has_button", [True, False])
async def test_only_who_has_the_button_reads_of_it(has_button: bool) -> None:  # noqa: FBT001 - the case
    """Others read what they can do."""

    async def has() -> bool:
        return has_button

    said = await Wording(GERMAN, may_continue=has).say(Notice(BUTTON))
    assert isinstance(said, Notice)
    assert ("„Antwort fortsetzen“" in said.text) == has_button


async def test_other_lines_do_not_ask_for_the_permission() -> None:
    """It costs the host's database a question."""

    async def has() -> bool:
        raise AssertionError

    assert await Wording(may_continue=has).say(Notice(CUT)) == Notice(CUT)


def a_call(**more: Any) -> Call:
    call = read_call({"model": "x.m", "messages": []}, user={"id": "u"}, metadata={}, task=None)
    return replace(call, **more)


async def test_channels_have_no_button_and_administrators_have_it() -> None:
    """Neither needs a look at the host's permissions."""
    assert await may_continue(a_call(chat_id="chat", is_admin=True))
    assert not await may_continue(a_call(chat_id="channel:1", is_admin=True))
