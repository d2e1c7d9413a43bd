"""Attachments in a real Open WebUI: what the model got of them, turn by turn, and what a person sees."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from scripts.harness.browser import Browser
from scripts.harness.openwebui import Account, OpenWebUI
from scripts.launch.api import ApiError
from scripts.standin import StandIn
from scripts.standin.drawing import COLOURS, draw, frame_colour, middle_colour
from scripts.standin.state import RecordedRequest
from tests.live.chats import talk
from tests.live.items import answers, statuses
from tests.live.models import SCRIPTED, Json, Valves
from tests.media.test_kinds import recording
from tests.support.files import data_url

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("admin")]

TEXT_ONLY = "openrouter.standin/text-only"
DRAWING = "openrouter.standin/drawing"
NOT_FOUND = "there is no such file, or you may not read it"
NO_IMAGES = "this model does not read images"
NO_WAV = "this model does not hear; choose one that does"
LINE = b"BT /F1 18 Tf 72 720 Td (The first word is heron.) Tj ET"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
PDF = (
    b"%%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"
    b"2 0 obj\n<</Type/Pages/Kids[3 0 R]/Count 1>>\nendobj\n3 0 obj\n%s\nendobj\n"
    b"4 0 obj\n<</Length %d>>stream\n%s\nendstream\nendobj\n"
    b"5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\n"
    b"trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n0\n%%%%EOF\n"
) % (PAGE, len(LINE), LINE)
FILES = {
    "red.png": (draw("red"), "image/png"),
    "report.pdf": (PDF, "application/pdf"),
    "notes.txt": (b"The second word is crane.", "text/plain"),
    "talk.wav": (recording(), "audio/wav"),
}


def text(words: str) -> Json:
    return {"type": "input_text", "text": words}


def as_file(name: str) -> Json:
    content, kind = FILES[name]
    return {"type": "input_file", "filename": name, "file_data": data_url(kind, content)}


PICTURE = {"type": "input_image", "detail": "auto", "image_url": data_url("image/png", draw("red"))}
AUDIO = {"data": base64.b64encode(recording()).decode(), "format": "wav"}
WHOLE = [PICTURE, as_file("report.pdf"), as_file("notes.txt"), {"type": "input_audio", "input_audio": AUDIO}]
REFERENCE = sha256(PICTURE["image_url"].encode()).hexdigest()[:8]
NO_PICTURE = text(f"[Image: 64 x 64 pixels, 1 KB, reference {REFERENCE} not sent: {NO_IMAGES}]")


def upload(account: Account) -> list[Json]:
    """All files in the account's storage, as the page attaches them."""
    return [account.upload(name, *file) for name, file in FILES.items()]


def first_parts(request: RecordedRequest) -> list[Json]:
    """The chat's first message, without what Open WebUI puts before its words: the names of the files."""
    assert request.status == 200
    parts: list[Json] = request.body["input"][0]["content"]
    return parts[1:] if parts[0]["text"].startswith("<attached_files>") else parts


def ask_about(account: Account, model: str, files: list[Json]) -> list[list[str]]:
    """Ask about files, once more in the same chat, and in another one; returns the lines above the answers."""
    first, answer = account.ask(model, "What is this?", files=files)
    _, later = account.ask(model, "And now?", after=first)
    _, elsewhere = account.ask(model, "What is this?", files=files)
    return [statuses(each) for each in (answer, later, elsewhere)]


# --- in ---


def test_what_a_model_reads_reaches_it_as_it_is(admin: Account, standin: StandIn) -> None:
    """In the turn in which it was attached, with the same bytes on the next one, and without the host's excerpts."""
    said = ask_about(admin, SCRIPTED, upload(admin))
    one, two, _ = answers(standin)
    assert first_parts(one) == [text("What is this?"), *WHOLE]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert two.body["input"][-1]["content"] == [text("And now?")]
    assert b"<source" not in one.raw + two.raw
    assert said == [[], [], []]


def test_what_a_model_does_not_read_is_named(admin: Account, standin: StandIn) -> None:
    """By a note in its place on every turn, and by a status line once in each chat; all else is sent as text."""
    files = upload(admin)
    said = ask_about(admin, TEXT_ONLY, files)
    one, two, _ = answers(standin)
    assert first_parts(one) == [
        text("What is this?"),
        NO_PICTURE,
        as_file("report.pdf"),
        text('<document name="notes.txt">\nThe second word is crane.\n</document>'),
        text(f"[File: talk.wav, file {files[3]['id']} not sent: {NO_WAV}]"),
    ]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert one.body["plugins"] == [{"id": "file-parser", "pdf": {"engine": "cloudflare-ai"}}]
    lines = [f"Attachments not sent: 1 ({NO_IMAGES}).", f"talk.wav was not sent: {NO_WAV}."]
    assert said == [lines, [], lines]


def test_a_document_that_the_model_does_not_read_stays_with_the_host(
    admin: Account, standin: StandIn, valves: Valves
) -> None:
    """Its text reaches the model as Open WebUI's excerpts, behind the words, which stay the same bytes."""
    valves(DOCUMENTS="native")
    said = ask_about(admin, TEXT_ONLY, upload(admin)[:2])
    one, two, _ = answers(standin)
    asked_first = [text("What is this?"), NO_PICTURE]
    excerpts = first_parts(one)[-1]["text"]
    assert (first_parts(one)[:-1], first_parts(two)) == (asked_first, asked_first)
    assert ">The first word is heron.</source>" in excerpts
    no_pdf = "this model does not read PDFs"
    lines = [
        f"report.pdf reaches this model in excerpts by Open WebUI: {no_pdf}.",
        f"Attachments not sent: 1 ({NO_IMAGES}).",
    ]
    assert said == [lines, [], lines]


def test_another_users_files_are_refused(open_webui: OpenWebUI, admin: Account, standin: StandIn) -> None:
    """With the same words as a file that does not exist; nothing of them is in any request, and the chat goes on."""
    missing = {"type": "file", "id": "no-such-file", "url": "no-such-file", "name": "missing.pdf"}
    picture, *documents = [*upload(admin), missing]
    said, _, _ = ask_about(open_webui.add_user("stranger"), SCRIPTED, [picture, *documents])
    one, two, _ = answers(standin)
    notes = [
        f"Image: file {picture['id']}",
        *(f"File: {each['name']}, file {each['id']}" for each in documents),
    ]
    assert first_parts(one)[1:] == [text(f"[{note} not sent: {NOT_FOUND}]") for note in notes]
    assert json.dumps(one.body["input"][0]) == json.dumps(two.body["input"][0])
    assert not any(word in each.raw for each in standin.responses for word in (b"heron", b"crane", b"base64"))
    shown = ["The image", *(each["name"] for each in documents)]
    assert sorted(said) == sorted(f"{name} was not sent: {NOT_FOUND}." for name in shown)


# --- out ---


def shown_picture(account: Account, answer: Json) -> bytes:
    """The picture of an answer, from where the page has it."""
    (file,) = answer["files"]
    return account.api.content(file["url"])


def test_a_drawn_picture_is_stored_replayed_and_edited(admin: Account, standin: StandIn) -> None:
    """It is a file of Open WebUI's, shown by its address, and goes back whole, with the same bytes on each turn."""
    (_, drawn), (_, edited), _ = talk(admin, DRAWING, "Draw a red house.", "Make it blue.", "Thank you.")
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


def test_a_picture_of_a_shared_chat_is_for_those_who_may_read_it(
    open_webui: OpenWebUI, admin: Account
) -> None:
    """Before the chat is shared with them, and to others, it does not exist."""
    reader, other = open_webui.add_user("invited"), open_webui.add_user("onlooker")
    sent, answer = admin.ask(DRAWING, "Draw a red house.")

    def seen(account: Account) -> Any:
        try:
            return middle_colour(shown_picture(account, answer))
        except ApiError as error:
            return error.status

    assert (seen(reader), seen(other)) == (404, 404)
    reader_id = reader.api.get("/api/v1/auths/")["id"]
    grant = {"principal_type": "user", "principal_id": reader_id, "permission": "read"}
    admin.api.post(f"/api/v1/chats/{sent.chat_id}/share")
    admin.api.post(f"/api/v1/chats/shared/{sent.chat_id}/access/update", {"access_grants": [grant]})
    assert (seen(reader), seen(other)) == (COLOURS["red"], 404)


# --- on the page ---


@pytest.mark.browser
def test_files_go_in_and_pictures_come_out_on_the_page(
    page: Browser, standin: StandIn, tmp_path: Path
) -> None:
    """What is attached reaches the model, lines above an answer name what it does not read; pictures stay."""
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name in ("Stand-in: script", "Stand-in: text only"):
        page.new_chat()
        page.pick_model(name)
        page.attach([tmp_path / name for name in FILES])
        page.send("What is this?")
        page.wait_for_answer()
    page.wait(lambda: f"talk.wav was not sent: {NO_WAV}." in page.last_message())
    page.screenshot("attachments-not-sent")
    page.wait(lambda: f"Attachments not sent: 1 ({NO_IMAGES})." in page.last_message())
    question, *parts = first_parts(answers(standin)[0])
    assert question == text("What is this?")
    assert sorted(map(json.dumps, parts)) == sorted(map(json.dumps, WHOLE))

    page.new_chat()
    page.pick_model("Stand-in: drawing")
    for number, order in enumerate(("Draw a red house.", "Make it blue."), start=1):
        page.send(order)
        page.wait_for_answer()
        page.wait_for_pictures(number)
    page.driver.refresh()
    page.wait_for_pictures(2)
    page.screenshot("picture-after-reload")


@pytest.mark.browser
def test_a_damaged_file_is_named_on_the_page(page: Browser, standin: StandIn, tmp_path: Path) -> None:
    """With what to do; so is a file that nothing reads. The model gets a note of each."""
    files = {"report.pdf": PDF[:-120], "data.bin": bytes(range(256)) * 20}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    page.new_chat()
    page.pick_model("Stand-in: script")
    page.attach([tmp_path / name for name in files])
    page.send("What do they say?")
    page.wait_for_answer()
    page.show_statuses()
    lines = (
        "report.pdf is damaged and was not read. Save it again and attach it anew.",
        "data.bin was not sent: no model can read it; attach text, a PDF or an image.",
    )
    page.wait(lambda: all(line in page.last_message() for line in lines))
    page.screenshot("attachments-damaged")
    question, *notes = answers(standin)[0].body["input"][0]["content"]
    assert question["text"].endswith("What do they say?")
    assert "<source" not in question["text"]
    assert [note["text"].partition(" not sent: ")[2] for note in notes] == [
        "the file is damaged]",
        "no model can read it; attach text, a PDF or an image]",
    ]
