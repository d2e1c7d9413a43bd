"""Videos in the app: the job, its price and bill, what is said meanwhile, and who takes it up again."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from open_webui_openrouter_pipe.openrouter import client
from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.turn import video
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import notice
from scripts.standin.videos import FILM as FILM_BYTES
from tests.app.chat import NewChat, app_on, audit_of
from tests.support.audited import audited
from tests.support.files import PICTURES, FakeFiles, data_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.host.call import Call
    from scripts.standin import StandIn
    from tests.app.chat import Chat

pytestmark = pytest.mark.anyio
FILM = "standin/film"
NOON = 1_796_000_000


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


class Network(httpx.AsyncHTTPTransport):
    """The way to the stand-in: which hosts are asked, and the paths that do not work."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: set[str] = set()
        self.broken = ""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.hosts.add(request.url.host)
        if self.broken and self.broken in request.url.path:
            raise httpx.ConnectError("refused", request=request)
        return await super().handle_async_request(request)


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is asked for at once; `test_video.py` of the turn has how long that really takes."""
    monkeypatch.setattr(video, "POLL_SECONDS", 0.01)


@pytest.fixture
def world(tmp_path: Path, network: Network, files: FakeFiles, standin: StandIn) -> Callable[..., Any]:
    """Opens an app, for which each question about a job comes half a minute later."""

    def clock() -> float:
        asked = [each for each in standin.requests if each.path.startswith("/videos/gen-vid")]
        return NOON + 30 * len(asked)

    return lambda: app_on(tmp_path, network, files=files, clock=clock)


@pytest.fixture
async def app(world: Callable[..., Any]) -> AsyncIterator[App]:
    async with world() as found:
        yield found


@pytest.fixture
def new_chat(app: App, standin: StandIn) -> NewChat:
    return NewChat(app, standin, {"model": FILM})


async def test_a_message_becomes_a_video_that_is_stored_and_billed(
    new_chat: NewChat, standin: StandIn, files: FakeFiles, app: App
) -> None:
    """Its price is said before, and the job's state at most as often as it is asked for."""
    answer = await new_chat().ask("A lighthouse at night.")
    [(file_id, (_, film))] = files.kept.items()
    assert answer.text == f"<video>\n/api/v1/files/{file_id}/content\n</video>"
    assert (film.name, film.media_type, film.content == FILM_BYTES) == ("video.webm", "video/webm", True)
    assert [*answer.notices] == [
        "Begun: Stand-in: film, 4 s, 720p, $0.40...",
        "The video is being made, 0:30 so far...",
        "The video is being made, 1:00 so far...",
    ]
    [begun] = [each.body for each in standin.requests if each.method == "POST"]
    assert begun == {
        "model": FILM,
        "prompt": "A lighthouse at night.",
        "duration": 4,
        "resolution": "720p",
        "generate_audio": True,
    }
    assert [(each.model, each.cost, each.estimated) for each in await audit_of(app)] == [(FILM, 0.4, False)]


def begun(standin: StandIn) -> list[dict[str, Any]]:
    """The bodies of the jobs that were begun."""
    return [each.body for each in standin.requests if (each.method, each.path) == ("POST", "/videos")]


async def stop_at(chat: Chat, text: str, line: str) -> Call:
    """Ask, and stop when a line is shown; the chat is as before, as the host has it for Regenerate."""
    chat.messages.append({"role": "user", "content": text})
    call = chat.call()
    async with aclosing(chat.app.answer(call, chat.settings)) as outputs:
        async for output in outputs:
            if isinstance(output, Notice) and line in output.text:
                break
    del chat.messages[-1]
    return call


def again(chat: Chat) -> None:
    """Take the last question and its answer back."""
    del chat.messages[-2:]


async def costs_of(app: App) -> list[tuple[float, bool]]:
    return [(each.cost, each.estimated) for each in await audit_of(app) if each.purpose == "answer"]


async def test_a_stopped_video_goes_on_is_billed_and_is_taken_up(
    new_chat: NewChat, standin: StandIn, app: App
) -> None:
    """Once, also when its end is known only after the Stop; what was shown is made anew."""
    chat, text = new_chat(), "A lighthouse. [[video: polls=9 cost=0.5]]"
    call = await stop_at(chat, text, "0:3")
    told = app.cost_of(call)
    assert told is not None
    assert (told.usage.cost, told.if_stopped) == (0.4, notice("video_stopped"))
    assert await costs_of(app) == [(0.5, False)]
    answer = await chat.ask(text)
    assert "<video>" in answer.text
    assert (len(begun(standin)), await costs_of(app)) == (1, [(0.5, False)])
    again(chat)
    assert "<video>" in (await chat.ask(text)).text
    assert (len(begun(standin)), await costs_of(app)) == (2, [(0.5, False)] * 2)


async def test_a_restarted_server_takes_the_job_up(
    world: Callable[..., Any], standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its estimate counts from when it was accepted, and its bill takes the place of that."""
    text, fields = "A lighthouse. [[video: polls=9999 cost=0.5]]", {"model": FILM, "chat_id": "chat"}
    async with world() as first:
        await stop_at(NewChat(first, standin)(**fields), text, "0:3")
        await first.worker.own.ledger.idle()
        found = await audited(first.worker.host.database, limit=9)
        assert [(each.cost, each.saved, each.estimated) for each in found] == [(0.4, 0, True)]
        await first.aclose()
    for job in standin.videos.values():
        job.orders["polls"] = "1"
    monkeypatch.setattr(video, "MOST_SECONDS", 1.0)  # however long ago it was begun
    async with world() as second:
        chat = NewChat(second, standin)(**fields)
        assert "<video>" in (await chat.ask(text)).text
        assert (len(begun(standin)), await costs_of(second)) == (1, [(0.5, False)])


async def test_another_question_is_another_job(new_chat: NewChat, standin: StandIn) -> None:
    """So is the same one with other settings, and in another chat."""
    chat, text = new_chat(), "A lighthouse. [[video: polls=9]]"
    await stop_at(chat, text, "0:3")
    await chat.ask("A ship.")
    again(chat)
    chat.settings = replace(chat.settings, creation={"video_seconds": 8})
    await chat.ask(text)
    await new_chat().ask(text)
    assert len(begun(standin)) == 4


@pytest.mark.parametrize(
    ("orders", "line", "cost"),
    [
        ("end=failed error=Bad_film.", 'could not be made. {It said: "Bad film."} The bill is $0.', 0.0),
        ("end=failed cost=0.1", "The video could not be made. The bill is $0.10", 0.1),
        ("end=cancelled", "The provider cancelled the video. The bill is $0.", 0.0),
        # It may have been made.
        ("end=expired", "The video is not available any more. The bill is $0.40", 0.4),
    ],
)
async def test_what_comes_to_nothing_says_why_and_what_was_billed(
    new_chat: NewChat, standin: StandIn, app: App, orders: str, line: str, cost: float
) -> None:
    """And is not taken up again."""
    chat = new_chat()
    answer = await chat.ask(f"A lighthouse. [[video: polls=1 {orders}]]")
    parts = re.split(r"[{}]", line)
    assert all(part in (answer.error or "") for part in parts), answer.error
    assert await costs_of(app) == [(cost, "expired" in orders)]
    again(chat)
    await chat.ask(f"A lighthouse. [[video: polls=1 {orders}]]")
    assert len(begun(standin)) == 2


async def test_the_price_is_asked_before(new_chat: NewChat, standin: StandIn) -> None:
    """Above the threshold, and where it is not known; who declines pays nothing."""
    asked: list[tuple[str, str]] = []

    async def ask(title: str, text: str) -> bool:
        asked.append((title, text))
        return len(asked) > 2

    chat = new_chat(asks=ask, CONFIRM_ABOVE_DOLLARS=0.3)
    declined = await chat.ask("A lighthouse.")
    sketch = new_chat(asks=ask, CONFIRM_ABOVE_DOLLARS=0.3, model="standin/sketch")
    unknown = await sketch.ask("A lighthouse.")
    assert (declined.error, unknown.error) == tuple(notice("declined", cost=cost) for cost in ("$0.40", "$?"))
    assert begun(standin) == []
    assert "<video>" in (await chat.ask("A lighthouse, then.")).text
    cheap = new_chat(asks=ask, CONFIRM_ABOVE_DOLLARS=0.5)
    assert "<video>" in (await cheap.ask("A lighthouse.")).text
    more = "Cancel sends nothing and costs nothing."
    assert [text for _, text in asked] == [
        f"Stand-in: film, 4 s, 720p: that costs about $0.40. {more}",
        f"Stand-in: sketch: that costs about $?. {more}",
        f"Stand-in: film, 4 s, 720p: that costs about $0.40. {more}",
    ]


async def test_a_video_counts_under_limits_from_its_beginning(new_chat: NewChat, standin: StandIn) -> None:
    """Nothing of it is held for ever: what was refused by OpenRouter leaves all of the limit."""
    chat = new_chat(SPENDING_LIMITS="user: 0.5/day")
    refused = await chat.ask("A lighthouse. [[video: refused=400]]")
    assert "No such film" in (refused.error or "")
    await stop_at(chat, "A lighthouse. [[video: polls=99 cost=0.5]]", "1:")
    assert "<video>" in (await chat.ask("A second one.")).text
    limited = await chat.ask("A third one.")
    assert "Your spending limit of $0.50 a day is used up" in (limited.error or "")
    assert len(begun(standin)) == 3  # the refused one among them


async def test_a_paid_video_is_taken_up_when_it_has_used_up_the_limit(
    new_chat: NewChat, standin: StandIn
) -> None:
    """Nothing else is begun."""
    chat, text = new_chat(SPENDING_LIMITS="user: 0.3/day"), "A lighthouse. [[video: polls=9]]"
    await stop_at(chat, text, "0:3")
    assert "<video>" in (await chat.ask(text)).text
    assert "used up" in ((await chat.ask("Another one.")).error or "")
    assert len(begun(standin)) == 1


async def test_continue_takes_a_video_up(new_chat: NewChat, standin: StandIn) -> None:
    """The chat then ends with the answer that was stopped."""
    chat, text = new_chat(), "A lighthouse. [[video: polls=9]]"
    call = await stop_at(chat, text, "0:3")
    stopped = [*call.messages, {"role": "assistant", "content": ""}]
    again = replace(call, messages=stopped)
    outputs = [each async for each in chat.app.answer(again, chat.settings)]
    assert any("<video>" in getattr(each, "delta", "") for each in outputs)
    assert len(begun(standin)) == 1


async def test_where_a_setting_protects_nothing_is_sent(new_chat: NewChat, standin: StandIn) -> None:
    """The endpoint takes no preferences of providers; what is by default holds nobody up."""
    for name, value in {"ZDR": True, "PROVIDER_ONLY": "a", "DATA_COLLECTION": "deny"}.items():
        answer = await new_chat(**{name: value}).ask("A lighthouse.")
        assert "Nothing was sent" in (answer.error or ""), name
    assert begun(standin) == []
    assert "<video>" in (await new_chat(PROVIDER_SORT="price").ask("A lighthouse.")).text


async def test_what_cannot_be_fetched_is_shown_where_it_is(new_chat: NewChat, network: Network) -> None:
    """The key goes to OpenRouter alone; a signed address at a place that is not public is not asked either."""
    signed = "[[video: polls=1 content=404 url=https://10.0.0.1/film.mp4]]"
    linked = await new_chat().ask(f"A lighthouse. {signed}")
    without = await new_chat().ask("A lighthouse. [[video: polls=1 unsigned=0]]")
    lost = await new_chat().ask("A lighthouse. [[video: polls=1 content=404]]")
    assert linked.text == "<video>\nhttps://10.0.0.1/film.mp4\n</video>"
    assert without.text.startswith("<video>\n/api/v1/files/")
    assert "The video is not available any more. The bill is $0.40" in (lost.error or "")
    assert network.hosts == {"127.0.0.1"}


async def test_a_job_of_which_nothing_is_heard_can_be_looked_for_again(
    new_chat: NewChat, standin: StandIn, app: App, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it may have been billed, its estimate counts."""
    monkeypatch.setattr(client, "_GET_WAITS_SECONDS", ())
    chat, text = new_chat(), "A lighthouse. [[video: polls=1]]"
    await app.models(chat.settings)
    network.broken = "/videos/gen"
    lost = await chat.ask(text)
    assert (lost.error, await costs_of(app)) == (notice("video_lost"), [(0.4, True)])
    network.broken = ""
    again(chat)
    assert "<video>" in (await chat.ask(text)).text
    assert (len(begun(standin)), await costs_of(app)) == (1, [(0.4, False)])


async def test_what_was_never_sent_costs_nothing(
    new_chat: NewChat, standin: StandIn, app: App, network: Network
) -> None:
    """Neither where OpenRouter is not reached, nor while it is left alone for that."""
    chat = new_chat(RETRY_SECONDS=0)
    await app.models(chat.settings)
    network.broken = "/videos"
    errors = [(await chat.ask(f"A lighthouse, {at}.")).error or "" for at in range(6)]
    assert "The next try is in" in errors[-1]
    assert (begun(standin), await costs_of(app)) == ([], [])


async def test_a_stop_before_the_job_is_accepted_says_that_it_goes_on(
    new_chat: NewChat, app: App, network: Network
) -> None:
    """What was agreed to is sent whether or not somebody waits for it."""
    chat = new_chat()
    call = await stop_at(chat, "A lighthouse.", "Begun")
    told = app.cost_of(call)
    assert told is not None
    assert told.if_stopped == notice("video_stopped")


async def test_whoever_waits_for_a_video_holds_nobody_up(new_chat: NewChat, app: App) -> None:
    """Its place among the requests that run is another's meanwhile."""
    chat = new_chat(MAX_REQUESTS=1)
    chat.messages.append({"role": "user", "content": "A lighthouse. [[video: polls=200]]"})
    async with aclosing(app.answer(chat.call(), chat.settings)) as outputs:
        async for output in outputs:
            if isinstance(output, Notice) and "0:30" in output.text:
                other = await new_chat(MAX_REQUESTS=1).ask("A ship. [[video: polls=1]]")
                break
        else:
            pytest.fail("nothing was said of the job")
    assert "<video>" in other.text
    assert notice("waiting_for_place") not in other.notices


async def test_pictures_of_the_message_go_with_it(new_chat: NewChat, standin: StandIn) -> None:
    """Those of the newest message alone, and what the user has set is said where it is not offered."""
    chat = new_chat(user=UserValves(VIDEO_SECONDS=7, VIDEO_RESOLUTION="1080p"))
    picture = {"type": "image_url", "image_url": {"url": data_url("image/png", PICTURES["image/png"])}}
    await chat.ask(cast("Any", [{"type": "text", "text": "Earlier."}, picture]))
    answer = await chat.ask(cast("Any", [{"type": "text", "text": "It moves."}, picture, picture]))
    assert "VIDEO_SECONDS: 6, since this model does not offer 7." in answer.notices
    assert [each["frame_type"] for each in begun(standin)[-1]["frame_images"]] == [
        "first_frame",
        "last_frame",
    ]
    assert begun(standin)[-1]["prompt"] == "It moves."


async def test_what_the_host_adds_is_no_part_of_a_video(new_chat: NewChat, standin: StandIn) -> None:
    """Such as the sources that it has found: the user's own words are sent alone."""
    chat = new_chat(metadata={"base_user_prompt": "A ship."})
    await chat.ask("### Task:\n<context>A source.</context>\n\nA ship.")
    assert begun(standin)[-1]["prompt"] == "A ship."


async def test_commands_tasks_and_programs(new_chat: NewChat, standin: StandIn) -> None:
    """Commands are answered as ever, a task makes no video, and a program gets where it is."""
    chat = new_chat()
    assert "`/context`" in (await chat.ask("/help")).text
    assert [type(each).__name__ for each in await chat.title()] == ["ResponseFinished"]
    assert begun(standin) == []
    assert (await new_chat(chat_id="").ask("A lighthouse.")).text.startswith("/api/v1/files/")
