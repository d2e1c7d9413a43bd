"""Pictures of a model through the whole pipe: stored before they are shown, and replayed as what was stored."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.ports import FileContent, RequestOrigin
from open_webui_openrouter_pipe.responses.items import Item, picture_address
from open_webui_openrouter_pipe.turn.recorder import PictureStorage
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import Answer, Page
from tests.support.files import PICTURES, FakeFiles, data_url
from tests.support.wire import frames
from tests.turn.test_rounds_in_the_pipe import MODEL, Router, completed, message, open_pipe, opened, stream

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

JPEG = PICTURES["image/jpeg"]
BARE = base64.b64encode(JPEG).decode()


def picture(result: str, **more: Any) -> Json:
    return {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": result, **more}


async def draw(
    folder: Path,
    router: Router,
    *questions: str,
    files: FakeFiles | None,
    chat_id: str = "chat",
    **valves: Any,
) -> list[Answer]:
    """Ask in one chat of a host with these files, and return the answers."""
    async with open_pipe(folder, router, files=files, **valves) as pipe:
        page = Page(pipe, MODEL, chat_id=chat_id)
        return [await page.ask(question) for question in questions]


async def test_a_picture_is_stored_shown_by_its_path_and_sent_back(tmp_path: Path) -> None:
    """The chat does not hold its bytes, the next request does; the file belongs to the message that shows it."""
    files = FakeFiles()
    router = Router(stream(picture(BARE, prompt="a cat")), stream(message("done")))
    shown, _ = await draw(tmp_path, router, "draw", "and now?", files=files)
    ((file_id, (owner, file)),) = files.kept.items()
    path = f"/api/v1/files/{file_id}/content"
    assert (owner, file) == ("user", FileContent("picture.jpeg", "image/jpeg", JPEG))
    assert files.stored_for == [("user", "chat", "message-1")]
    assert (shown.pictures, shown.notices) == ([path], [])
    assert BARE not in repr(shown.events)
    ((replayed,),) = router.sent("image_generation_call")[1:]
    assert replayed == {**picture(data_url("image/jpeg", JPEG), prompt="a cat"), "id": replayed["id"]}


async def test_a_picture_that_comes_with_the_last_event_is_stored_too(tmp_path: Path) -> None:
    """Some providers send the item's fields with the terminal event alone."""
    begun = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": None}
    files = FakeFiles()
    body = frames(*opened(begun), completed(picture(data_url("image/png", JPEG))))
    (answer,) = await draw(tmp_path, Router(body), "draw", files=files)
    assert answer.pictures == [f"/api/v1/files/{file_id}/content" for file_id in files.kept]
    assert len(files.kept) == 1


@pytest.mark.parametrize(
    ("chat_id", "valves"),
    [("temporary:1", {}), ("local:1", {}), ("chat", {"SAVE_ATTACHMENTS": False})],
    ids=["temporary", "local", "switched off"],
)
async def test_a_picture_stays_inline_where_nothing_may_be_stored(
    tmp_path: Path, chat_id: str, valves: Json
) -> None:
    """A chat that is not saved leaves nothing behind, and the administrator decides on the others."""
    files = FakeFiles()
    router = Router(stream(picture(BARE)))
    (answer,) = await draw(tmp_path, router, "draw", files=files, chat_id=chat_id, **valves)
    assert (answer.pictures, files.kept) == ([data_url("image/jpeg", JPEG)], {})
    assert answer.notices == []


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (AttachmentUnavailable("the file is larger than 1 MB"), "the file is larger than 1 MB"),
        (OSError("disk full"), notice("attachment_storage_failed")),
    ],
)
async def test_a_picture_that_cannot_be_stored_is_shown_all_the_same(
    tmp_path: Path, refusal: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is paid for; the user learns why the chat becomes large, and the next turn has it still."""
    router = Router(stream(picture(BARE)), stream(message("done")))
    with caplog.at_level(logging.WARNING):
        first, second = await draw(tmp_path, router, "draw", "and now?", files=FakeFiles(refusal=refusal))
    assert first.pictures == [data_url("image/jpeg", JPEG)]
    assert first.notices == [notice("attachment_not_stored", reason=reason)]
    assert (first.error, second.error) == (None, None)
    assert [item["result"] for item in router.sent("image_generation_call")[1]] == [BARE]
    assert "a picture is not stored" in caplog.text


@pytest.mark.parametrize(
    "result",
    [
        data_url("image/svg+xml", b"<svg onload='alert(1)'/>"),
        data_url("image/png", b"<!DOCTYPE html><script>alert(1)</script>"),
        "/api/v1/files/anyones/content",
    ],
    ids=["svg", "html", "a path"],
)
@pytest.mark.parametrize("chat_id", ["chat", "temporary:1"])
async def test_what_is_no_picture_is_neither_shown_nor_kept(
    tmp_path: Path, result: str, chat_id: str
) -> None:
    """Its type is known by its content, and only we say where a file of the user is."""
    files = FakeFiles()
    router = Router(stream(picture(result), message("Here.")), stream(message("done")))
    answer, _ = await draw(tmp_path, router, "draw", "and now?", files=files, chat_id=chat_id)
    assert (answer.pictures, files.kept) == ([], {})
    assert answer.notices == [notice("attachment_not_a_picture")]
    assert result not in repr([answer.events, router.inputs])


ADDRESS = "https://images.example.org/1.png"


@dataclass
class Web:
    """One address, and what was asked for."""

    content: bytes | Exception
    fetched: list[str] = field(default_factory=list)

    async def fetch(self, url: str) -> FileContent:
        self.fetched.append(url)
        if isinstance(self.content, Exception):
            raise self.content
        return FileContent("1.png", "image/png", self.content)


async def kept(web: Web | None, files: FakeFiles | None) -> str:
    """Where a picture is after it was kept, that was at an address."""
    storage = PictureStorage(files, RequestOrigin("ada", "chat", "m", "model"), web)
    item, line = await storage.keep(cast("Item", picture("", imageUrl=ADDRESS)))
    assert line is None
    return picture_address(item)


async def test_a_picture_at_an_address_is_fetched_and_stored() -> None:
    """A provider deletes it some day; the guard of all downloads decides whether it may be fetched."""
    files, web = FakeFiles(), Web(JPEG)
    path = await kept(web, files)
    ((file_id, (_, file)),) = files.kept.items()
    assert (path, web.fetched) == (f"/api/v1/files/{file_id}/content", [ADDRESS])
    assert file == FileContent("picture.jpeg", "image/jpeg", JPEG)


@pytest.mark.parametrize(
    ("web", "files"),
    [
        (Web(AttachmentUnavailable("the address is not allowed")), FakeFiles()),
        (Web(OSError("a fault")), FakeFiles()),
        (Web(b"<svg onload='alert(1)'/>"), FakeFiles()),
        (Web(JPEG), FakeFiles(refusal=AttachmentUnavailable("full"))),
        (Web(JPEG), None),
        (None, FakeFiles()),
    ],
    ids=["refused", "fails", "no picture", "storage full", "no storage", "no network"],
)
async def test_a_picture_that_cannot_be_fetched_stays_at_its_address(
    web: Web | None, files: FakeFiles | None
) -> None:
    """From there the page shows it; nothing of the rest is stored."""
    assert await kept(web, files) == ADDRESS
    assert files is None or files.kept == {}


async def test_a_damaged_picture_is_not_stored(tmp_path: Path) -> None:
    """It begins as a picture does, and the rest is not base64."""
    files = FakeFiles()
    (answer,) = await draw(
        tmp_path, Router(stream(picture(f"{BARE.rstrip('=')}{'A' * 400}*"))), "draw", files=files
    )
    reason = notice("attachment_damaged")
    assert (files.kept, answer.notices) == ({}, [notice("attachment_not_stored", reason=reason)])


@pytest.mark.parametrize("breaks", [False, True], ids=["ends early", "breaks off"])
async def test_an_unfinished_answer_names_no_file(tmp_path: Path, breaks: bool) -> None:  # noqa: FBT001 - of the test
    """What was not finished is shown as far as it came, which a path of a provider never is."""
    begun = {**picture("/api/v1/files/anyones/content"), "status": "in_progress"}
    body = frames({"type": "response.output_item.added", "output_index": 0, "item": begun})

    async def connection() -> AsyncIterator[bytes]:
        yield body.removesuffix(b"data: [DONE]\n\n")
        raise httpx.ReadError("lost")

    router = Router(connection() if breaks else body)
    (answer,) = await draw(tmp_path, router, "draw", files=FakeFiles())
    assert answer.pictures == []
    assert answer.error == notice("stream_lost" if breaks else "stream_incomplete")


async def test_partial_pictures_are_not_stored(tmp_path: Path) -> None:
    """Only the finished one is."""
    files = FakeFiles()
    partial = {
        "type": "response.image_generation_call.partial_image",
        "output_index": 0,
        "item_id": "ig_1",
        "partial_image_index": 0,
        "partial_image_b64": base64.b64encode(PICTURES["image/png"]).decode(),
    }
    first, last = opened(picture(BARE))
    (answer,) = await draw(
        tmp_path, Router(frames(first, partial, last, completed(picture(BARE)))), "draw", files=files
    )
    assert [file.content for _, file in files.kept.values()] == [JPEG]
    assert len(answer.pictures) == 1
