"""Speech, transcripts and pictures of endpoints of their own, through the app: what is sent, shown, kept and billed."""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.ports import Sketch
from open_webui_openrouter_pipe.valves import UserValves
from scripts.standin.drawing import COLOURS, draw, frame_colour, middle_colour
from scripts.standin.endpoints import tone
from tests.app.chat import NewChat, app_on, audit_of
from tests.support.files import FakeFiles, data_url, wav
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.money.audit import Bill
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SPEAKER, SAMPLES_ONLY = "openai/gpt-4o-mini-tts", "google/gemini-3-flash-tts"
WHISPER, SCRIBE, PLAIN = (
    "openai/whisper-large-v3",
    "elevenlabs/scribe-v2",
    "mistralai/voxtral-mini-transcribe",
)
STREAMING, EDITING, SEVERAL = "openai/gpt-image-2", "black-forest-labs/flux.3-pro", "bytedance/seedream-5"
SHOWN = [{"type": "image_url", "image_url": {"url": data_url("image/png", draw("green"))}}]
RECORDING = base64.b64encode(wav(tone(2.0))).decode()


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture
async def app(tmp_path: Path, files: FakeFiles) -> AsyncIterator[App]:
    async with app_on(tmp_path, files=files) as app:
        app.worker.own.late_bills.waits_seconds = (0.05,) * 1000
        yield app


@pytest.fixture
def new_chat(app: App, standin: StandIn) -> NewChat:
    return NewChat(app, standin, {"user": UserValves(STATUS_LINES="all")})


def posted(standin: StandIn) -> list[dict[str, Any]]:
    """The bodies that were posted, as far as they were answered."""
    return [each.body for each in standin.requests if each.method == "POST" and each.status == 200]


def stored(files: FakeFiles, text: str) -> tuple[str, bytes]:
    """The media type and the content of the file that a text names."""
    file_id = text.partition("/api/v1/files/")[2].partition("/")[0]
    file = files.kept[file_id][1]
    return file.media_type, file.content


async def bill_of(app: App) -> Bill:
    """The only bill, once it is no estimate."""
    while True:
        bills = [row for row in await audit_of(app) if row.purpose != "failure"]
        if len(bills) == 1 and not bills[0].estimated:
            return bills[0]
        await asyncio.sleep(0.05)


def heard(*recordings: str) -> Any:
    """The content of a message that consists of recordings."""
    return [{"type": "input_audio", "input_audio": {"data": each, "format": "wav"}} for each in recordings]


def shown_with(text: str) -> Any:
    """The content of a message with a picture."""
    return [{"type": "text", "text": text}, *SHOWN]


@pytest.mark.parametrize(
    ("model", "valves", "kind", "sent"),
    [
        (SPEAKER, {}, "audio/mpeg", {"voice": "alloy", "response_format": "mp3"}),
        (
            SPEAKER,
            {"SPEECH_VOICE": "nova", "SPEECH_SPEED": 2.0, "SPEECH_FORMAT": "wav"},
            "audio/wav",
            {"voice": "nova", "response_format": "pcm", "speed": 2.0},
        ),
        (SAMPLES_ONLY, {"SPEECH_SPEED": 2.0}, "audio/wav", {"voice": "Kore", "response_format": "pcm"}),
    ],
)
async def test_a_message_is_spoken(
    new_chat: NewChat, files: FakeFiles, model: str, valves: dict[str, Any], kind: str, sent: dict[str, Any]
) -> None:
    """Stored once, and playable whatever the model can; billed as OpenRouter says later."""
    standin, chat = new_chat.standin, new_chat(model=model, user=UserValves(STATUS_LINES="all", **valves))
    answer = await chat.ask("Good morning.")
    assert answer.error is None
    media_type, content = stored(files, answer.text)
    assert answer.text == f"<audio>\n/api/v1/files/{next(iter(files.kept))}/content\n</audio>"
    assert (len(files.kept), media_type) == (1, kind)
    assert content.startswith(b"RIFF" if kind == "audio/wav" else b"\xff\xfb")
    (body,) = posted(standin)
    assert body == {"model": model, "input": "Good morning.", **sent}
    refused = ["SPEECH_SPEED: 1, since this model does not offer 2."] if model == SAMPLES_ONLY else []
    assert answer.notices[1:] == (*refused,)
    standin.advance(60)
    bill = await bill_of(new_chat.app)
    ((generation, billed),) = standin.bills.items()
    assert bill.generation == generation
    assert bill.cost == pytest.approx(billed["total_cost"])


async def test_what_is_not_read_is_not_spoken(new_chat: NewChat) -> None:
    """A picture beside the text: the user is told, and hears the text alone."""
    answer = await new_chat(model=SPEAKER).ask(shown_with("Say it"))
    assert answer.notices[0] == "Attachments not sent: 1 (this model does not read images)."
    assert [body["input"] for body in posted(new_chat.standin)] == ["Say it"]


@pytest.mark.parametrize(
    ("model", "detail", "text", "lines"),
    [
        (
            PLAIN,
            "speakers",
            "The keeper opens",
            ["TRANSCRIPT: text, since this model does not offer speakers."],
        ),
        (
            WHISPER,
            "speakers",
            "`0:00` The keeper",
            ["TRANSCRIPT: times, since this model does not offer speakers."],
        ),
        (SCRIBE, "speakers", "**Ada** `0:00` The keeper", []),
        (SCRIBE, "times", "`0:00` The keeper", []),
        (SCRIBE, "text", "The keeper opens", []),
    ],
)
async def test_a_recording_is_written_down(
    new_chat: NewChat, model: str, detail: Any, text: str, lines: list[str]
) -> None:
    """With what the model knows of speakers and times; the bill is the answer's."""
    chat = new_chat(model=model, user=UserValves(STATUS_LINES="all", TRANSCRIPT=detail))
    answer = await chat.ask(heard(RECORDING))
    assert (answer.error, answer.text[: len(text)]) == (None, text)
    assert answer.notices[1:] == (*lines,)
    assert (await bill_of(new_chat.app)).cost == pytest.approx(sum(posted_costs(new_chat.standin)))


def posted_costs(standin: StandIn) -> list[float]:
    """What was billed."""
    return [bill["total_cost"] for bill in standin.bills.values()]


async def test_several_recordings_are_written_down_in_their_order(new_chat: NewChat) -> None:
    """One bill for all of them; a request each."""
    chat = new_chat(model=WHISPER)
    answer = await chat.ask(heard(RECORDING, base64.b64encode(wav(tone(1.0))).decode()))
    headings = [line for line in answer.text.splitlines() if line.startswith("**")]
    assert headings == ["**1**", "**2**"]
    assert (await bill_of(new_chat.app)).cost == pytest.approx(0.0003)


@pytest.mark.parametrize(
    ("model", "text", "line"),
    [
        (WHISPER, "What?", "Attach a recording: this model writes down what is said in it."),
        (SPEAKER, " ", "Write what is wanted: this model needs a text."),
        (SEVERAL, SHOWN, "Write what is wanted: this model needs a text."),
    ],
)
async def test_what_is_missing_is_said_for_nothing(
    new_chat: NewChat, model: str, text: Any, line: str
) -> None:
    """Nothing is sent."""
    answer = await new_chat(model=model).ask(text)
    assert (answer.error, answer.text) == (line, "")
    assert posted(new_chat.standin) == []


async def test_pictures_come_with_partial_ones_before(
    new_chat: NewChat, files: FakeFiles, standin: StandIn
) -> None:
    """The page draws those, the host stores none of them; the picture is a file, an item, and on the bill."""
    chat = new_chat(model=STREAMING)
    chat.messages = [{"role": "user", "content": "A red square"}]
    outputs = [output async for output in chat.app.answer(chat.call(), chat.settings)]
    assert [bool(output.url) for output in outputs if isinstance(output, Sketch)] == [True, True]
    writer = NativeWriter(new_id=lambda: "x", clock=lambda: 0.0)
    events = [event["event"] for output in outputs for event in writer.render(output) if "event" in event]
    shown = [
        (each["type"], each["data"]["files"][0]["url"][:15]) for each in events if "files" in each["data"]
    ]
    sketch = ("chat:message:files", "data:image/png;")
    assert shown == [
        sketch,
        sketch,
        (*("files", "/api/v1/files/f")[:1], f"/api/v1/files/{next(iter(files.kept))}"[:15]),
    ]
    ((_, picture),) = files.kept.values()
    assert middle_colour(picture.content) == COLOURS["red"]
    (body,) = posted(standin)
    assert body == {"model": STREAMING, "prompt": "A red square", "stream": True}
    assert (await bill_of(new_chat.app)).cost == pytest.approx(posted_costs(standin)[0])


@pytest.mark.parametrize("model", [STREAMING, EDITING])
async def test_a_later_message_edits_the_latest_picture(
    new_chat: NewChat, files: FakeFiles, model: str
) -> None:
    """Unless it brings a picture itself."""
    chat = new_chat(model=model)
    for text in ("A red square", "Make it blue"):
        assert (await chat.ask(text)).error is None
    edited = [*files.kept.values()][-1][1].content
    assert (middle_colour(edited), frame_colour(edited)) == (COLOURS["blue"], COLOURS["red"])
    assert (await chat.ask(shown_with("Make it black"))).error is None
    assert posted(new_chat.standin)[-1]["input_references"] == SHOWN


async def test_a_stopped_picture_leaves_no_partial_one(new_chat: NewChat, standin: StandIn) -> None:
    """Its bill is an estimate until OpenRouter tells it."""
    chat = new_chat(model=STREAMING)
    asking = asyncio.create_task(chat.ask("[[standin: delay=600]] A red square"))
    await eventually(lambda: any(each.path == "/images" and each.status for each in standin.requests))
    await asyncio.sleep(0.1)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await eventually(lambda: bool(standin.bills))
    standin.advance(60)
    assert (await bill_of(new_chat.app)).cost == pytest.approx(posted_costs(standin)[0])
    writer = NativeWriter(new_id=lambda: "x", clock=lambda: 0.0)
    writer.render(Sketch("data:,"))
    assert writer.stop("")[0] == {"event": {"type": "chat:message:files", "data": {"files": []}}}


@pytest.mark.parametrize("model", [SPEAKER, WHISPER, STREAMING])
@pytest.mark.parametrize("order", ["error=402", "error=500"])
async def test_a_refusal_costs_nothing(new_chat: NewChat, model: str, order: str) -> None:
    """And says why."""
    new_chat.standin.script(order, times=9)
    chat = new_chat(model=model, RETRY_SECONDS=0, SPENDING_LIMITS="user: 9/day")
    answer = await chat.ask(heard(RECORDING) if model == WHISPER else "Hi")
    assert answer.error
    rows = await audit_of(new_chat.app)
    assert {(row.purpose, row.cost) for row in rows} == {("failure", 0.0)}
    assert (
        await new_chat.app.worker.spending.admit("ada", chat.settings.spending, is_admin=False, zone="")
    ).state


@pytest.mark.parametrize("model", [SPEAKER, WHISPER, EDITING])
async def test_what_may_have_been_made_is_not_asked_for_twice(new_chat: NewChat, model: str) -> None:
    """A server that was too slow may have gone on: the estimate counts."""
    new_chat.standin.script("error=504", times=9)
    answer = await new_chat(model=model).ask(heard(RECORDING) if model == WHISPER else "Hi")
    assert answer.error
    assert len([each for each in new_chat.standin.requests if each.method == "POST"]) == 1
    rows = [row for row in await audit_of(new_chat.app) if row.purpose == "answer"]
    assert [(row.estimated, row.cost > 0) for row in rows] == [(True, True)]


@pytest.mark.parametrize("model", [SPEAKER, EDITING])
async def test_a_stop_between_two_attempts_costs_nothing(new_chat: NewChat, model: str) -> None:
    """What was refused until then has made nothing."""
    new_chat.standin.script("error=429", times=9)
    chat = new_chat(model=model)
    chat.messages = [{"role": "user", "content": "Hi"}]
    lines = list[str]()
    async with aclosing(chat.app.answer(chat.call(), chat.settings)) as outputs:
        async for output in outputs:
            lines.append(getattr(output, "text", ""))
            if "trying again" in lines[-1]:
                break
    assert "trying again" in lines[-1]
    assert await audit_of(new_chat.app) == []


async def test_the_price_is_agreed_on_before(new_chat: NewChat) -> None:
    """By the price of the list; whoever declines pays nothing."""
    asked = list[tuple[str, str]]()

    async def decline(title: str, question: str) -> bool:
        asked.append((title, question))
        return False

    for model in (SPEAKER, SEVERAL):
        chat = new_chat(model=model, CONFIRM_ABOVE_DOLLARS=0.00001, asks=decline)
        assert "did not agree" in ((await chat.ask("A red square")).error or "")
    assert [title for title, _ in asked] == ["Send this for about $0.00014?", "Send this for about $0.03?"]
    assert posted(new_chat.standin) == []


async def test_what_no_endpoint_makes_is_asked_as_any_model(new_chat: NewChat) -> None:
    """Such as a batch that a workspace's model is based on: OpenRouter says what is wrong with it."""
    await new_chat(model="qwen/qwen3-coder:batch").ask("Hi")
    assert {each.path for each in new_chat.standin.requests if each.method == "POST"} == {"/responses"}


async def test_tasks_make_nothing(new_chat: NewChat) -> None:
    """A title is the host's own words."""
    for model in (SPEAKER, WHISPER, STREAMING):
        chat = new_chat(model=model)
        chat.messages = [{"role": "user", "content": "A red square"}]
        await chat.title()
    assert posted(new_chat.standin) == []


async def test_a_program_gets_a_link(new_chat: NewChat, files: FakeFiles) -> None:
    """To the file, where a page shows a player or a picture."""
    texts = []
    for model in (SPEAKER, EDITING):
        chat = new_chat(model=model, chat_id="", metadata={"message_id": None})
        texts.append((await chat.ask("A red square")).text)
    speech, picture = ([*files.kept][index] for index in range(2))
    assert texts == [f"/api/v1/files/{speech}/content", f"![](/api/v1/files/{picture}/content)"]
