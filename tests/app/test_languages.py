"""Lines in the language of the user from the call to the page, and the same request whatever the language."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from scripts.harness.page import PipeInProcess, failure_of
from tests.app.chat import MODEL, NewChat, app_on, sent

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

LOST = "nobody/nothing"


@pytest.mark.parametrize("code", LANGUAGES)
async def test_status_lines_are_in_the_language_of_the_page(new_chat: NewChat, code: str) -> None:
    """Those of a search; the answer is the model's own."""
    chat = new_chat(language=LANGUAGES[code], WEB_SEARCH="on")
    answer = await chat.ask("Please search the web for tall cats.")
    assert answer.notices[0] == in_language(notice("searching"), LANGUAGES[code])
    assert answer.notices[1].startswith(in_language(notice("searched_for", query=""), LANGUAGES[code]))


async def test_the_request_is_the_same_in_every_language(new_chat: NewChat, standin: StandIn) -> None:
    """Also where attachments are refused, with a note to the model beside the line to the user."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said, bodies = set(), set()
    for code in ("en", "de", "ja"):
        messages = [{"role": "user", "content": [image]}]
        said.add((await new_chat(language=LANGUAGES[code], messages=messages).ask("Look.")).notices)
        bodies.add(json.dumps(sent(standin)["input"]))
    assert (len(said), len(bodies), len(standin.responses)) == (3, 1, 3)


@pytest.mark.parametrize(
    ("role", "advice"), [("user", "status_for_users_ask"), ("admin", "status_no_key_advice")]
)
async def test_the_status_entry_answers_in_the_language(new_chat: NewChat, role: str, advice: str) -> None:
    """To users whether to wait or whom to ask, to administrators what to do."""
    answer = await new_chat(language=LANGUAGES["fr"], model="status", role=role, API_KEY="").ask(
        "What is wrong?"
    )
    assert answer.text.startswith(f"{ANSWER_MARK}{in_language(notice(advice), LANGUAGES['fr'])}")


async def test_who_says_nothing_reads_the_hosts_own_language(tmp_path: Path, standin: StandIn) -> None:
    """Such as an automation, which has no page: its errors are read in the chat all the same."""
    async with app_on(tmp_path, default_locale=lambda: "pt-BR") as app:
        answer = await NewChat(app, standin)(model=LOST).ask("Hello")
    assert str(answer.error).startswith("O OpenRouter não conhece este modelo. Escolha outro.")


async def test_an_error_is_in_the_language_and_its_log_in_english(
    tmp_path: Path, standin: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference joins both; also where nothing can be read of the call. Quiet users read no status lines."""

    async def said(messages: Any, model: str = LOST, code: str = "de-DE", shown: Any = "all") -> list[Any]:
        metadata = {"chat_id": "c", "message_id": "m", "variables": {"{{USER_LANGUAGE}}": code}}
        user = {"id": "u", "role": "user", "valves": UserValves(STATUS_LINES=shown)}
        body = {"model": f"x.{model}", "messages": messages, "stream": True}
        answer = await pipe.pipe(body, __user__=user, __metadata__=metadata)
        events = [answer] if isinstance(answer, dict) else [event async for event in answer]
        failures = [failure_of(event["item"]) for event in events if "item" in event]
        told = [event.get("error", event.get("event")) for event in events if {"error", "event"} & set(event)]
        return [*told, *filter(None, failures)]

    search = [{"role": "user", "content": "Search the web for foxes."}]
    async with PipeInProcess(tmp_path, base_url=standin.base_url, WEB_SEARCH="on", COST_LINE="cost") as pipe:
        lost = (await said(search))[-1]
        (unreadable,) = await said(None, code="es-ES")
        counts = [len(await said(search, MODEL, shown=shown)) for shown in ("all", "important", "none")]
    assert lost.startswith("OpenRouter kennt dieses Modell nicht. Bitte wählen Sie ein anderes. (Referenz ")
    assert "OpenRouter does not know this model" in caplog.text
    assert lost[-7:-1] in caplog.text
    assert (unreadable["message"], counts) == (
        "Esta petición no nombra ningún modelo o no tiene mensajes.",
        [4, 3, 0],
    )
