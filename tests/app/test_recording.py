"""A recording while users chat: what they read of it, what stands in the file, and what it leaves alone."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.openrouter.recordings import Recordings
from open_webui_openrouter_pipe.replay.recordings import read_recording
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Page, PipeInProcess
from tests.app.chat import NewChat, app_on

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

LINE = notice("recorded")
CALL = '[[standin: reasoning=summary text="Zoe knows."]] [[standin: call=ask_zoe args={"of": "Zoe"}]] Where is Zoe?'
OK = 200


def begun(folder: Path, *, seconds_ago: float = 0.0) -> Recordings:
    """A recording of ten minutes in an app's folder."""
    recordings = Recordings(folder / "openrouter_pipe" / "recordings")
    recordings.begin(time.time() - seconds_ago, minutes=10)
    return recordings


def lines(recordings: Recordings) -> list[Any]:
    return [json.loads(line) for path in recordings.files() for line in path.read_text("utf-8").splitlines()]


async def test_a_chat_with_a_tool_is_recorded_and_its_user_reads_it(tmp_path: Path, standin: StandIn) -> None:
    """Once an answer, however many requests that takes; the file has each, in its form and without its texts."""
    recordings = begun(tmp_path)
    async with PipeInProcess(tmp_path, base_url=standin.base_url, cache_folder=tmp_path) as pipe:
        page = Page(
            pipe, "openai/gpt-5.2", tools={"ask_zoe": lambda _: "Zoe is in Paris."}, chat_id="chat-of-zoe"
        )
        page.system = "You know Zoe."
        answers = [await page.ask(CALL), await page.ask("And Zoe?")]
    assert [answer.notices.count(LINE) for answer in answers] == [1, 1]
    written = lines(recordings)
    assert (len(written), {line["status"] for line in written}) == (len(standin.responses), {OK})
    text = json.dumps(written)
    assert [word for word in ("Zoe", "zoe", "Paris", "sk-or", "chat-of") if word in text] == []
    exchanges = read_recording(written)
    assert exchanges is not None
    for exchange, request in zip(exchanges, standin.responses, strict=True):
        items = exchange.as_json()["items"]
        assert [item["type"] for item in items] == [item["type"] for item in request.output]
        assert exchange.as_json()["usage"]["cost"] == pytest.approx(
            request.usage["cost"] if request.usage else 0
        )
        assert shape(exchange.request) == shape(request.body)
    call, output = exchanges[1].input[-2:]
    assert (call["name"], call["call_id"]) == (exchanges[0].request["tools"][0]["name"], output["call_id"])


def shape(value: Any) -> Any:
    """A JSON value with the lengths of its texts in their place, whatever its fields are called."""
    if isinstance(value, dict):
        return [(len(name), shape(each)) for name, each in value.items()]
    return (
        [shape(each) for each in value]
        if isinstance(value, list)
        else len(value)
        if isinstance(value, str)
        else value
    )


async def test_whoever_hides_all_lines_reads_this_one(tmp_path: Path, standin: StandIn) -> None:
    """It says who else learns something of the answer."""
    recordings = begun(tmp_path)
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        chat = NewChat(app, standin)(user=UserValves(STATUS_LINES="none"), COST_LINE="forecast")
        assert (await chat.ask("Hello")).notices == (LINE,)
        await app.idle()
        assert len(lines(recordings)) == 1


async def test_a_task_of_a_chat_is_recorded_and_what_has_no_lines_is_not(
    tmp_path: Path, standin: StandIn
) -> None:
    """A caller without a page, and a channel: nobody would read there that it is."""
    recordings = begun(tmp_path)
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        chat = NewChat(app, standin)()
        await chat.title()
        await app.idle()
        assert len(lines(recordings)) == 1
        for chat_id in ("", "channel:1"):
            assert (await NewChat(app, standin)(chat_id=chat_id).ask("Hello")).notices == ()
        await app.idle()
        assert (len(lines(recordings)), len(standin.responses)) == (1, 3)


@pytest.mark.parametrize("ended", ["never begun", "by its time", "by hand"])
async def test_nothing_is_recorded_while_no_recording_runs(
    tmp_path: Path, standin: StandIn, ended: str
) -> None:
    """Off by default; another worker, or one after a restart, sees the same."""
    recordings = Recordings(tmp_path / "openrouter_pipe" / "recordings")
    if ended != "never begun":
        recordings = begun(tmp_path, seconds_ago=601.0 if ended == "by its time" else 0.0)
    if ended == "by hand":
        recordings.end()
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        assert LINE not in (await NewChat(app, standin)().ask("Hello")).notices
        await app.idle()
    assert recordings.files() == {}


async def test_an_answer_that_is_refused_is_recorded_with_each_attempt(
    tmp_path: Path, standin: StandIn
) -> None:
    """A failure has its kind, and what was asked again is the next line."""
    recordings = begun(tmp_path)
    async with app_on(tmp_path, cache_folder=tmp_path) as app:
        standin.script('error=429 message="Zoe is busy" retry_after=0')
        answer = await NewChat(app, standin)().ask("Hello")
        assert (answer.error, LINE in answer.notices) == (None, True)
        await app.idle()
    first, second = lines(recordings)
    assert (first["status"], first["kind"], second["status"], second["kind"]) == (
        429,
        "RateLimited",
        OK,
        None,
    )
    assert "Zoe" not in json.dumps(first)
