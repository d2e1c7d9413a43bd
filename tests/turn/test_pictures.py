"""Pictures of a model through the whole pipe: stored before they are shown, and replayed; see `rounds.txt`."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.ports import FileContent, RequestOrigin
from open_webui_openrouter_pipe.responses.items import Item, picture_address
from open_webui_openrouter_pipe.turn.recorder import PictureStorage
from open_webui_openrouter_pipe.words.lines import notice
from tests.support.files import PICTURES, FakeFiles, data_url
from tests.support.rows import rows
from tests.support.wire import frames
from tests.turn.pipe import NOT_OVER, Json, Router, chat, completed, message, opened, stream

pytestmark = pytest.mark.anyio

JPEG = PICTURES["image/jpeg"]
BARE = base64.b64encode(JPEG).decode()
DAMAGED = f"{BARE.rstrip('=')}{'A' * 400}*"
ADDRESS = "https://images.example.org/1.png"


def not_stored(reason: str) -> str:
    return notice("attachment_not_stored", reason=reason)


NAMES = {
    "BARE": BARE,
    "INLINE": data_url("image/jpeg", JPEG),
    "DAMAGED": DAMAGED,
    "DAMAGED AS IT IS": f"data:image/jpeg;base64,{DAMAGED}",
    "SVG": data_url("image/svg+xml", b"<svg onload='alert(1)'/>"),
    "HTML": data_url("image/png", b"<!DOCTYPE html><script>alert(1)</script>"),
    "TOO LARGE": AttachmentUnavailable("the file is larger than 1 MB"),
    "DISK FULL": OSError("disk full"),
    "not stored: the file is larger than 1 MB": not_stored("the file is larger than 1 MB"),
    "not stored: fault": not_stored(notice("file_not_stored")),
    "not stored: damaged": not_stored(notice("file_damaged")),
    "no picture": notice("attachment_not_a_picture"),
}


def picture(result: str, **more: Any) -> Json:
    return {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": result, **more}


async def test_a_picture_is_stored_shown_by_its_path_and_sent_back(tmp_path: Path) -> None:
    """The chat does not hold its bytes, the next request does; the file belongs to the message that shows it."""
    files = FakeFiles()
    router = Router(stream(picture(BARE, prompt="a cat")), stream(message("done")))
    (_, shown), _ = (await chat(tmp_path, router, "draw", "and now?", files=files)).turns
    ((file_id, (owner, file)),) = files.kept.items()
    assert (owner, file) == ("user", FileContent("picture.jpeg", "image/jpeg", JPEG))
    assert files.stored_for == [("user", "chat", "message-1")]
    assert (shown.pictures, shown.notices) == ([f"/api/v1/files/{file_id}/content"], [])
    assert BARE not in repr(shown.events)
    ((replayed,),) = router.sent("image_generation_call")[1:]
    assert replayed == {**picture(data_url("image/jpeg", JPEG), prompt="a cat"), "id": replayed["id"]}


@pytest.mark.parametrize(
    ("result", "chat_id", "valves", "refusal", "shown", "line"),
    rows(Path(__file__).parent / "rounds.txt", "pictures", NAMES),
)
async def test_a_picture_that_is_not_stored_is_shown_if_it_is_one(
    tmp_path: Path,
    *,
    result: str,
    chat_id: str,
    valves: Json,
    refusal: Exception | None,
    shown: str | None,
    line: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A chat that is not saved leaves nothing behind; what is no picture is neither shown nor kept nor sent back."""
    caplog.set_level(logging.WARNING)
    files, router = FakeFiles(refusal=refusal), Router(stream(picture(result)), stream(message("done")))
    page = await chat(tmp_path, router, "draw", "and now?", files=files, chat_id=chat_id, **valves)
    (_, first), (_, second) = page.turns
    assert (first.pictures, files.kept) == ([shown] if shown else [], {})
    assert [each for each in first.notices if each != notice("answer_empty")] == ([line] if line else [])
    assert (first.error, second.error) == (None, None)
    if refusal:
        assert [item["result"] for item in router.sent("image_generation_call")[1]] == [result]
    if shown is None:
        assert result not in repr([first.events, router.inputs])
    assert ("a picture is not stored" in caplog.text) == (line is not None and shown is not None)


@pytest.mark.parametrize("is_partial", [False, True])
async def test_only_the_finished_picture_is_stored(tmp_path: Path, *, is_partial: bool) -> None:
    """It may come with the last event alone, or after parts of it."""
    files = FakeFiles()
    partial = {
        "type": "response.image_generation_call.partial_image",
        "output_index": 0,
        "item_id": "ig_1",
        "partial_image_index": 0,
        "partial_image_b64": base64.b64encode(PICTURES["image/png"]).decode(),
    }
    first, last = opened(picture(BARE) if is_partial else {**picture(""), "result": None})
    end = completed(picture(data_url("image/png", JPEG)))
    body = frames(first, *[partial] * is_partial, last, end)
    ((_, answer),) = (await chat(tmp_path, Router(body), "draw", files=files)).turns
    assert answer.pictures == [f"/api/v1/files/{file_id}/content" for file_id in files.kept]
    assert [file.content for _, file in files.kept.values()] == [JPEG]


@pytest.mark.parametrize("breaks", [False, True], ids=["ends early", "breaks off"])
async def test_an_unfinished_answer_names_no_file(tmp_path: Path, breaks: bool) -> None:  # noqa: FBT001 - of the test
    """What was not finished is shown as far as it came, which a path of a provider never is."""
    begun = {**picture("/api/v1/files/anyones/content"), "status": "in_progress"}
    body = frames({"type": "response.output_item.added", "output_index": 0, "item": begun})
    router = Router([body.removesuffix(NOT_OVER), httpx.ReadError("lost")] if breaks else body)
    ((_, answer),) = (await chat(tmp_path, router, "draw", files=FakeFiles())).turns
    assert answer.pictures == []
    assert answer.error == notice("stream_broken")


class Web:
    """One address, and what was asked for."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content, self.fetched = content, list[str]()

    async def fetch(self, url: str) -> FileContent:
        self.fetched.append(url)
        if isinstance(self.content, Exception):
            raise self.content
        return FileContent("1.png", "image/png", self.content)


@pytest.mark.parametrize(
    ("web", "files", "is_stored"),
    [
        (Web(JPEG), FakeFiles(), True),
        (Web(AttachmentUnavailable("the address is not allowed")), FakeFiles(), False),
        (Web(OSError("a fault")), FakeFiles(), False),
        (Web(b"<svg onload='alert(1)'/>"), FakeFiles(), False),
        (Web(JPEG), FakeFiles(refusal=AttachmentUnavailable("full")), False),
        (Web(JPEG), None, False),
        (None, FakeFiles(), False),
    ],
    ids=["stored", "refused", "fails", "no picture", "storage full", "no storage", "no network"],
)
async def test_a_picture_at_an_address_is_fetched_and_stored(
    web: Web | None, files: FakeFiles | None, *, is_stored: bool
) -> None:
    """A provider deletes it some day; otherwise it stays there, from where the page shows it, without a line."""
    storage = PictureStorage(files, RequestOrigin("ada", "chat", "m", "model"), web)
    item, line = await storage.keep(cast("Item", picture("", imageUrl=ADDRESS)))
    kept = files.kept if files else {}
    address = f"/api/v1/files/{next(iter(kept))}/content" if is_stored else ADDRESS
    assert (picture_address(item), line) == (address, None)
    stored = [FileContent("picture.jpeg", "image/jpeg", JPEG)] * is_stored
    assert [file for _, file in kept.values()] == stored
    assert not is_stored or (web and web.fetched) == [ADDRESS]
