"""Attachments in a real Open WebUI: what the model got of them, turn by turn, and what a person sees."""

from __future__ import annotations

import base64
import io
import json
import wave
from typing import TYPE_CHECKING, Any

import pytest

from scripts.launch.api import ApiError
from scripts.standin.drawing import COLOURS, draw, frame_colour, middle_colour
from tests.live.chats import SCRIPTED, answers, statuses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripts.harness.openwebui import Account, OpenWebUI
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest
    from tests.support.browser import Browser

    Json = dict[str, Any]

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("live_pipe")]

EVERYTHING_NAME = "Stand-in: script"
TEXT_ONLY, TEXT_ONLY_NAME = "openrouter.standin/text-only", "Stand-in: text only"
DRAWING, DRAWING_NAME = "openrouter.standin/drawing", "Stand-in: drawing"
NOT_FOUND = "there is no such file, or you may not read it"
NO_IMAGES = "this model does not read images"
NO_PDF = "this model does not read files of the type application/pdf"
NO_WAV = "this model does not read files of the type audio/wav"


# --- files, and what was said about them ---


def pdf(text: str) -> bytes:
    """A whole PDF with one page and one line."""
    line = f"BT /F1 18 Tf 72 720 Td ({text}) Tj ET".encode()
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        page,
        b"<</Length %d>>stream\n%s\nendstream" % (len(line), line),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    content, entries = b"%PDF-1.4\n", b"0000000000 65535 f \n"
    for number, each in enumerate(objects, start=1):
        entries += b"%010d 00000 n \n" % len(content)
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    count = len(objects) + 1
    trailer = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(content))
    return content + b"xref\n0 %d\n%s" % (count, entries) + trailer


def recording() -> bytes:
    """A second of silence, as WAV."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(1)
        written.setframerate(8_000)
        written.writeframes(b"\x80" * 8_000)
    return file.getvalue()


FILES = {
    "red.png": (draw("red"), "image/png"),
    "report.pdf": (pdf("The first word is heron."), "application/pdf"),
    "notes.txt": (b"The second word is crane.", "text/plain"),
    "talk.wav": (recording(), "audio/wav"),
}


def in_base64(name: str) -> str:
    return base64.b64encode(FILES[name][0]).decode()


def data_url(name: str) -> str:
    return f"data:{FILES[name][1]};base64,{in_base64(name)}"


def text(words: str) -> Json:
    return {"type": "input_text", "text": words}


def as_file(name: str) -> Json:
    return {"type": "input_file", "filename": name, "file_data": data_url(name)}


PICTURE = {"type": "input_image", "detail": "auto", "image_url": data_url("red.png")}
RECORDING = {"type": "input_audio", "input_audio": {"data": in_base64("talk.wav"), "format": "wav"}}
NO_PICTURE = text(f"[Image: 64 x 64 pixels, 1 KB, reference e8a9cbe4 not sent: {NO_IMAGES}]")


def upload(account: Account) -> list[Json]:
    """All files in the account's storage, as the page attaches them."""
    return [account.upload(name, *file) for name, file in FILES.items()]


def first_parts(request: RecordedRequest) -> list[Json]:
    """The chat's first message, without what Open WebUI puts before its words: the names of the files."""
    parts: list[Json] = request.body["input"][0]["content"]
    return parts[1:] if parts[0]["text"].startswith("<attached_files>") else parts


def shown_picture(account: Account, answer: Json) -> bytes:
    """The picture of an answer, from where the page has it."""
    (file,) = answer["files"]
    return account.api.content(file["url"])


# --- in ---


def test_what_a_model_reads_reaches_it_as_it_is(open_webui: OpenWebUI, standin: StandIn) -> None:
    """In the turn in which it was attached, with the same bytes on the next one, and without the host's excerpts."""
    admin = open_webui.admin
    first, answer = admin.ask(SCRIPTED, "What is this?", files=upload(admin))
    _, later = admin.ask(SCRIPTED, "And now?", after=first)
    one, two = answers(standin)
    documents = [as_file("report.pdf"), as_file("notes.txt")]
    assert first_parts(one) == [text("What is this?"), PICTURE, *documents, RECORDING]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert two.body["input"][-1]["content"] == [text("And now?")]
    assert b"<source" not in one.raw + two.raw
    assert (statuses(answer), statuses(later), [one.status, two.status]) == ([], [], [200, 200])


def test_what_a_model_does_not_read_is_named(open_webui: OpenWebUI, standin: StandIn) -> None:
    """By a note in its place on every turn, and by a status line once in each chat; all else is sent as text."""
    admin = open_webui.admin
    files = upload(admin)
    first, answer = admin.ask(TEXT_ONLY, "What is this?", files=files)
    _, later = admin.ask(TEXT_ONLY, "And now?", after=first)
    _, elsewhere = admin.ask(TEXT_ONLY, "What is this?", files=files)
    one, two, three = answers(standin)
    assert first_parts(one) == [
        text("What is this?"),
        NO_PICTURE,
        as_file("report.pdf"),
        text('<document name="notes.txt">\nThe second word is crane.\n</document>'),
        text(f"[File: talk.wav, file {files[3]['id']} not sent: {NO_WAV}]"),
    ]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert one.body["plugins"] == [{"id": "file-parser", "pdf": {"engine": "cloudflare-ai"}}]
    assert [each.status for each in (one, two, three)] == [200] * 3
    said = [f"Images not sent: 1. {NO_IMAGES.capitalize()}.", f"talk.wav was not sent: {NO_WAV}."]
    assert (statuses(answer), statuses(later), statuses(elsewhere)) == (said, [], said)


def test_a_document_that_the_model_does_not_read_stays_with_the_host(
    open_webui: OpenWebUI, standin: StandIn, valves: Callable[..., None]
) -> None:
    """Its text reaches the model as Open WebUI's excerpts, behind the words, which stay the same bytes."""
    admin = open_webui.admin
    valves(DOCUMENTS="native")
    files = upload(admin)[:2]
    first, answer = admin.ask(TEXT_ONLY, "What is this?", files=files)
    _, later = admin.ask(TEXT_ONLY, "And now?", after=first)
    _, elsewhere = admin.ask(TEXT_ONLY, "What is this?", files=files)
    one, two, _ = answers(standin)
    asked_first = [text("What is this?"), NO_PICTURE]
    excerpts = first_parts(one)[-1]["text"]
    assert (first_parts(one)[:-1], first_parts(two)) == (asked_first, asked_first)
    assert ">The first word is heron.</source>" in excerpts
    said = [
        f"report.pdf reaches this model in excerpts by Open WebUI: {NO_PDF}.",
        f"Images not sent: 1. {NO_IMAGES.capitalize()}.",
    ]
    assert (statuses(answer), statuses(later), statuses(elsewhere)) == (said, [], said)


def test_of_thirty_images_the_newest_are_sent(
    open_webui: OpenWebUI, standin: StandIn, valves: Callable[..., None]
) -> None:
    """As many as allowed; the others are named in their places, and with one more only half as many stay."""
    admin = open_webui.admin
    valves(MAX_INPUT_IMAGES_PER_REQUEST=5)
    pictures = [draw(f"picture {number}") for number in range(31)]
    files = [admin.upload(f"{number}.png", each, "image/png") for number, each in enumerate(pictures)]
    first, answer = admin.ask(SCRIPTED, "Which?", files=files[:30])
    _, later = admin.ask(SCRIPTED, "And this?", after=first, files=files[30:])
    pictures_sent, notes = [], []
    for request in answers(standin):
        parts = [part for item in request.body["input"] if item["role"] == "user" for part in item["content"]]
        urls = [part["image_url"] for part in parts if "image_url" in part]
        pictures_sent.append([base64.b64decode(url.partition(",")[2]) for url in urls])
        texts = [part["text"] for part in parts if "text" in part]
        notes.append([each for each in texts if each.startswith("[Image: 64 x 64 pixels, ")])
    assert pictures_sent == [pictures[25:30], pictures[29:]]
    assert [len(set(each)) for each in notes] == [25, 29]
    assert notes[1][:25] == notes[0]
    assert [statuses(answer), statuses(later)] == [
        ["Images not sent: 25. A request holds at most 5."],
        ["Earlier images no longer shown to the model: 4."],
    ]


def test_another_users_files_are_refused(open_webui: OpenWebUI, standin: StandIn) -> None:
    """With the same words as a file that does not exist; nothing of them is in any request, and the chat goes on."""
    stranger = open_webui.add_user("stranger")
    files = upload(open_webui.admin)
    missing = {"type": "file", "id": "no-such-file", "url": "no-such-file", "name": "missing.pdf"}
    first, answer = stranger.ask(SCRIPTED, "What is this?", files=[*files, missing])
    stranger.ask(SCRIPTED, "And now?", after=first)
    one, two = answers(standin)
    names = ["Image", *(f"File: {file['name']}" for file in [*files[1:], missing])]
    ids = [file["id"] for file in [*files, missing]]
    notes = [
        f"{name}{':' if name == 'Image' else ','} file {each}" for name, each in zip(names, ids, strict=True)
    ]
    assert first_parts(one)[1:] == [text(f"[{note} not sent: {NOT_FOUND}]") for note in notes]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert not any(word in each.raw for each in standin.responses for word in (b"heron", b"crane", b"base64"))
    shown = ["The image", *(name.removeprefix("File: ") for name in names[1:])]
    assert sorted(statuses(answer)) == sorted(f"{name} was not sent: {NOT_FOUND}." for name in shown)


# --- out ---


def test_a_drawn_picture_is_stored_replayed_and_edited(open_webui: OpenWebUI, standin: StandIn) -> None:
    """It is a file of Open WebUI's, shown by its address, and goes back whole, with the same bytes on each turn."""
    admin = open_webui.admin
    first, drawn = admin.ask(DRAWING, "Draw a red house.")
    second, edited = admin.ask(DRAWING, "Make it blue.", after=first)
    admin.ask(DRAWING, "Thank you.", after=second)
    house, blue = shown_picture(admin, drawn), shown_picture(admin, edited)
    one, two, three = standin.responses
    replayed = two.body["input"][1]
    assert drawn["files"][0]["url"].startswith("/api/v1/files/")
    assert "base64" not in json.dumps([drawn, edited])
    assert [item["type"] for item in one.output] == [replayed["type"], "message"]
    assert json.dumps(three.body["input"][: len(two.body["input"])]) == json.dumps(two.body["input"])
    assert base64.b64decode(replayed["result"].partition(",")[2]) == house
    assert (middle_colour(house), middle_colour(blue)) == (COLOURS["red"], COLOURS["blue"])
    assert frame_colour(blue) == COLOURS["red"]


def test_a_picture_of_a_shared_chat_is_for_those_who_may_read_it(open_webui: OpenWebUI) -> None:
    """Before the chat is shared with them, and to others, it does not exist."""
    reader, other = open_webui.add_user("invited"), open_webui.add_user("onlooker")
    sent, answer = open_webui.admin.ask(DRAWING, "Draw a red house.")
    assert (seen(reader, answer), seen(other, answer)) == (404, 404)
    share(open_webui, sent.chat_id, reader)
    assert (seen(reader, answer), seen(other, answer)) == (COLOURS["red"], 404)


def test_without_storage_a_picture_stays_in_the_chat(
    open_webui: OpenWebUI, valves: Callable[..., None]
) -> None:
    """With SAVE_ATTACHMENTS off no file is made; the picture is inline, and can be edited all the same."""
    painter = open_webui.add_user("guest-painter")
    valves(SAVE_ATTACHMENTS=False)
    first, drawn = painter.ask(DRAWING, "Draw a red house.")
    _, edited = painter.ask(DRAWING, "Make it blue.", after=first)
    pictures = [answer["files"][0]["url"].partition(",") for answer in (drawn, edited)]
    house, blue = (base64.b64decode(payload) for _, _, payload in pictures)
    assert {head for head, _, _ in pictures} == {"data:image/png;base64"}
    assert painter.api.get("/api/v1/files/")["items"] == []
    assert (middle_colour(house), middle_colour(blue)) == (COLOURS["red"], COLOURS["blue"])
    assert frame_colour(blue) == COLOURS["red"]


def share(open_webui: OpenWebUI, chat_id: str, reader: Account) -> str:
    """Share a chat of the administrator's with one user; return the share's id."""
    reader_id = reader.api.get("/api/v1/auths/")["id"]
    grant = {"principal_type": "user", "principal_id": reader_id, "permission": "read"}
    api = open_webui.admin.api
    shared = api.post(f"/api/v1/chats/{chat_id}/share")
    api.post(f"/api/v1/chats/shared/{chat_id}/access/update", {"access_grants": [grant]})
    return str(shared["share_id"])


def seen(account: Account, answer: Json) -> Any:
    """The colour in the middle of an answer's picture, or the status with which it is refused."""
    try:
        return middle_colour(shown_picture(account, answer))
    except ApiError as error:
        return error.status


# --- on the page ---


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """The files on a disk."""
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in FILES]


@pytest.mark.browser
def test_files_attached_on_the_page_reach_the_model(
    page: Browser, standin: StandIn, paths: list[Path]
) -> None:
    """All four as they are, on this turn and the next; lines above an answer name what another does not read."""
    for name in (EVERYTHING_NAME, TEXT_ONLY_NAME):
        page.new_chat()
        page.pick_model(name)
        page.attach(paths)
        page.send("What is this?")
        page.wait_for_answer()
        if name == TEXT_ONLY_NAME:
            page.wait(lambda: f"talk.wav was not sent: {NO_WAV}." in page.last_message())
            page.screenshot("attachments-not-sent")
            page.show_statuses()
            page.wait(lambda: f"Images not sent: 1. {NO_IMAGES.capitalize()}." in page.last_message())
        page.screenshot(f"attachments-{name[10:]}")
        page.send("And now?")
        page.wait_for_answer()
        page.screenshot(f"attachments-{name[10:]}-next-turn")
    one, two, *others = answers(standin)
    parts = first_parts(one)
    assert parts[0] == text("What is this?")
    assert sorted(map(json.dumps, parts[1:])) == sorted(
        map(json.dumps, [PICTURE, as_file("report.pdf"), as_file("notes.txt"), RECORDING])
    )
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert [each.status for each in (one, two, *others)] == [200] * 4


@pytest.mark.browser
def test_a_drawn_picture_is_on_the_page(open_webui: OpenWebUI, page: Browser, standin: StandIn) -> None:
    """When it was drawn, after a reload, edited, and on the page of a shared chat for who may read that."""
    page.pick_model(DRAWING_NAME)
    page.send("Draw a red house.")
    page.wait_for_answer()
    page.wait_for_pictures(1)
    page.screenshot("picture-drawn")
    page.send("Make it blue.")
    page.wait_for_answer()
    page.wait_for_pictures(2)
    page.driver.refresh()
    page.wait_for_pictures(2)
    page.screenshot("picture-after-reload")
    chat_id = page.driver.current_url.rpartition("/")[2]
    reader = open_webui.add_user("page-reader")
    share_id = share(open_webui, chat_id, reader)
    page.driver.delete_all_cookies()
    page.driver.execute_script("localStorage.clear()")
    page.log_in(reader)
    page.driver.get(f"{open_webui.url}/s/{share_id}")
    page.wait_for_pictures(2)
    page.screenshot("picture-of-a-shared-chat")
