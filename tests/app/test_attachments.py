"""Attachments of a chat, through the app: what the model reads, and a line about the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from open_webui_openrouter_pipe.host.call import AttachedFile
from open_webui_openrouter_pipe.ports import FileContent
from tests.app.chat import NewChat, app_on
from tests.support.files import PICTURES, FakeFiles, data_url

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

PDF, ARCHIVE = b"%PDF-1.4\n%%EOF", b"PK\3\4" + bytes(30)
FILES = {"pdf": PDF, "zip": ARCHIVE, "scan": ARCHIVE}
NOT_READ = "this model does not read files of the type application/zip"


async def attached(_call: Any) -> dict[int, tuple[AttachedFile, ...]]:
    """Three files at the first message."""
    return {0: tuple(AttachedFile(name, f"{name}\n!", "", None) for name in FILES)}


async def without_text(ids: Collection[str]) -> frozenset[str]:
    """The host found none in the scan."""
    return frozenset({"scan"} & set(ids))


async def unavailable(_ids: Collection[str]) -> frozenset[str]:
    """Its database cannot be reached."""
    raise SQLAlchemyError


@pytest.mark.parametrize(("sources", "kinds"), [(["gone"], ["input_text"]), ([], ["input_text"] * 2)])
async def test_what_the_host_gives_to_everybody_stays_with_it(
    tmp_path: Path, standin: StandIn, sources: list[str], kinds: list[str]
) -> None:
    """A setting of its own lets it give excerpts of what the user may not read; otherwise a note says so."""

    async def attached_there(_call: Any) -> dict[int, tuple[AttachedFile, ...]]:
        return {0: (AttachedFile("gone", "gone", "", None),)}

    found = [
        {"source": {"type": "file", "id": name}, "document": ["text"], "metadata": [{}]} for name in sources
    ]
    host: dict[str, Any] = {"attached_documents": attached_there, "files_without_text": without_text}
    async with app_on(tmp_path, files=FakeFiles(), **host) as app:
        await NewChat(app, standin)(metadata={"sources": found}).ask("?")
    (request,) = standin.responses
    assert [part["type"] for part in request.body["input"][0]["content"]] == kinds


@pytest.mark.parametrize("look", [without_text, unavailable])
async def test_what_the_model_does_not_read_stays_with_the_host(
    tmp_path: Path, standin: StandIn, look: Any
) -> None:
    """The rest is sent with its message; each line is said once in each chat, whatever the database does."""
    storage = FakeFiles(kept={name: ("ada", FileContent("", "", content)) for name, content in FILES.items()})
    host = {"files": storage, "attached_documents": attached, "files_without_text": look}
    async with app_on(tmp_path, **host) as app:
        new_chat = NewChat(app, standin)
        first, second = new_chat(), new_chat()
        answers = [await first.ask("one"), await first.ask("two"), await second.ask("three")]
    sent = [response.body["input"][0]["content"] for response in standin.responses]
    note = ["input_text"] if look is without_text else []
    assert [[part["type"] for part in parts] for parts in sent] == [["input_text", "input_file", *note]] * 3
    lines = (
        f"zip ! reaches this model in excerpts by Open WebUI: {NOT_READ}.",
        f"scan ! was not sent: {NOT_READ}."
        if look is without_text
        else f"scan ! reaches this model in excerpts by Open WebUI: {NOT_READ}.",
    )
    assert [(answer.notices, answer.error) for answer in answers] == [
        (lines, None),
        ((), None),
        (lines, None),
    ]


async def test_that_a_model_reads_no_images_is_said_once(new_chat: NewChat) -> None:
    """In each chat, however many follow; the chat goes on."""
    picture = {"type": "image_url", "image_url": {"url": data_url("image/png", PICTURES["image/png"])}}
    shown: list[dict[str, Any]] = [
        {"role": "user", "content": [picture]},
        {"role": "assistant", "content": "!"},
    ]
    answers = []
    for _ in range(2):
        chat = new_chat(model="standin/text-only")
        for text in ("one", "two"):
            chat.messages += shown
            answers.append(await chat.ask(text))
    line = "Images not sent: 1. This model does not read images."
    assert [(answer.error, answer.notices) for answer in answers] == [(None, (line,)), (None, ())] * 2
