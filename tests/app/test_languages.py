"""Lines in the language of the user from the call to the page, and the same request whatever the language."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.openrouter.listing import STATUS_ID
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import LANGUAGES, in_language, notice
from scripts.harness.page import PipeInProcess
from tests.app.chat import Chat, app_on, settings

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

MODEL = "openai/gpt-5.2"


async def events(pipe: Pipe, text: str, code: str, **more: Any) -> list[dict[str, Any]]:
    """What a page with this language gets for a message."""
    user = {"id": "u", "role": more.pop("role", "user"), "valves": more.pop("valves", None)}
    body = {
        "model": f"x.{more.pop('model', MODEL)}",
        "messages": [{"role": "user", "content": text}],
        "stream": True,
    }
    metadata = {"chat_id": "c", "message_id": text, "variables": {"{{USER_LANGUAGE}}": code}}
    answer = await pipe.pipe({**body, **more}, __user__=user, __metadata__=metadata)
    return [event async for event in answer]


def lines(got: list[dict[str, Any]]) -> list[str]:
    """The status lines, and an error as the last one."""
    said = [event["event"]["data"]["description"] for event in got if "event" in event]
    return [*said, *(event["error"]["message"] for event in got if "error" in event)]


@pytest.mark.parametrize("code", LANGUAGES)
async def test_status_lines_are_in_the_language_of_the_page(
    tmp_path: Path, standin: StandIn, code: str
) -> None:
    """Those of a search; the answer is the model's own, and so is the request."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, WEB_SEARCH="on") as pipe:
        said = lines(await events(pipe, "Please search the web for tall cats.", code))
    assert said[0] == in_language(notice("searching"), LANGUAGES[code])
    assert said[1].startswith(in_language(notice("searched_for", query=""), LANGUAGES[code]))


async def test_the_request_is_the_same_in_every_language(tmp_path: Path, standin: StandIn) -> None:
    """Also where attachments are refused, with a note to the model beside the line to the user."""
    bodies, said = [], []
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = {"role": "user", "content": [{"type": "text", "text": "Look."}, image]}
    for code in ("en-US", "de-DE", "ja-JP"):
        folder = tmp_path / code
        folder.mkdir()
        async with PipeInProcess(folder, base_url=standin.base_url) as pipe:
            said.append(lines(await events(pipe, "Look.", code, messages=[message])))
        bodies.append(json.dumps(standin.responses[-1].body["input"]))
    assert len(standin.responses) == 3
    assert bodies[0] == bodies[1] == bodies[2]
    assert len({tuple(each) for each in said}) == 3


async def test_an_error_is_in_the_language_and_its_log_in_english(
    tmp_path: Path, standin: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference joins both."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        (said,) = lines(await events(pipe, "Hello", "de-DE", model="nobody/nothing"))
    assert said.startswith("OpenRouter kennt dieses Modell nicht. Bitte wählen Sie ein anderes. (Referenz ")
    assert "OpenRouter does not know this model" in caplog.text
    assert said[-7:-1] in caplog.text


async def test_a_call_that_cannot_be_read_is_an_error_in_the_language(
    tmp_path: Path, standin: StandIn
) -> None:
    """Before anything is known of the call."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        metadata = {"variables": {"{{USER_LANGUAGE}}": "es-ES"}}
        answer = await pipe.pipe({"model": "x.m", "messages": None, "stream": True}, __metadata__=metadata)
    assert answer["error"]["message"] == "Esta petición no tiene mensajes legibles."


@pytest.mark.parametrize("role", ["user", "admin"])
async def test_the_status_entry_answers_in_the_language(tmp_path: Path, standin: StandIn, role: str) -> None:
    """To users whether to wait or whom to ask, to administrators what to do."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, API_KEY="") as pipe:
        got = await events(pipe, "What is wrong?", "fr-FR", model=STATUS_ID, role=role)
    text = next(event["delta"] for event in got if event.get("type") == "response.output_text.delta")
    advice = "status_no_key_advice" if role == "admin" else "status_for_users_ask"
    assert text.startswith(in_language(notice(advice), LANGUAGES["fr"]))


async def test_a_user_who_wants_quiet_gets_no_status_lines(tmp_path: Path, standin: StandIn) -> None:
    """Their own valve decides."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, WEB_SEARCH="on", COST_LINE="cost") as pipe:
        for shown, count in (("all", 3), ("important", 0), ("none", 0)):
            valves = UserValves(STATUS_LINES=shown)
            assert (
                len(lines(await events(pipe, f"Search the web for {shown}.", "en", valves=valves))) == count
            )


async def test_who_says_nothing_reads_the_hosts_own_language(tmp_path: Path, standin: StandIn) -> None:
    """Such as an automation, which has no page: its errors are read in the chat all the same."""
    async with app_on(tmp_path, default_locale=lambda: "pt-BR") as app:
        answer = await Chat(app, settings(standin), model="nobody/nothing").ask("Hello")
    assert str(answer.error).startswith("O OpenRouter não conhece este modelo. Escolha outro.")
