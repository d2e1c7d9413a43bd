"""Attachments as a request carries them: what is read, what becomes a note, what is kept; cases in `library.txt`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from open_webui_openrouter_pipe.errors import AttachmentUnavailable
from open_webui_openrouter_pipe.history.turn import assistant_message, input_message
from open_webui_openrouter_pipe.media.choice import MediaSettings, form_of
from open_webui_openrouter_pipe.media.library import HeldFiles, MediaLibrary
from open_webui_openrouter_pipe.media.memory import (
    CHECKED_SECONDS,
    ENTRY_BYTES,
    MEMORY_BYTES,
    ByteBudget,
    EncodedFiles,
)
from open_webui_openrouter_pipe.ports import FileContent, FilledItems, Model, Room
from tests.media.test_kinds import package
from tests.support.files import FakeFiles, data_url
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from open_webui_openrouter_pipe.responses.items import InputPart, Item

pytestmark = pytest.mark.anyio

CASES = Path(__file__).with_name("library.txt")
PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgAQAAAAAdquFJAAAAPUlEQVR42u3BAQ0AAADCoPdPbQ43oAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAADgzwCX4AABS8wbSgAAAABJRU5ErkJggg=="
)
"""A black picture of 640 x 480 pixels."""
JPEG = b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAP//////////////////////////////////////////////////////////////////"
    "////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAI"
    "AQEAAD8AN//Z"
)
CONTENTS = {
    "png": PNG,
    "jpeg": JPEG,
    "pdf": b"%PDF-1.4\n%%EOF",
    "plain": "\ufeffZürich".encode(),
    "html": b"<html><script>",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "wav": b"RIFF\x24\0\0\0WAVEfmt " + bytes(20),
    "mp4": b"\0\0\0\x18ftypmp42" + bytes(12),
    "zip": package("a.txt"),
    **{name: package("[Content_Types].xml", f"{name}/a.xml") for name in ("word", "xl", "ppt")},
    "cut": b"%PDF-1.4\n1 0 obj\n<<",
    "cut-docx": package("word/document.xml")[:-30],
    "cut-png": PNG[:-20],
    "binary": b"\1\2\0\xff",
    "empty": b"",
    "large": PNG + bytes(2**20),
    **dict.fromkeys(("a", "b", "c", "old", "drawn", "new"), PNG),
}
TYPES = {"jpeg": "image/jpeg", "pdf": "application/pdf", "plain": "text/plain", "mp4": "video/mp4"}
URL = "https://example.org/a.png"
ALL = ("image", "file", "audio", "video")


def model(*modalities: str, maker: str = "openai") -> Model:
    """A model that reads these and text."""
    inputs = frozenset({"text", *modalities})
    return Model(f"{maker}/m", "", input_modalities=inputs, output_modalities=frozenset({"text"}))


def image(source: str) -> InputPart:
    return {"type": "input_image", "detail": "auto", "image_url": source}


def path(file_id: str) -> str:
    """Where the host shows a file."""
    return f"/api/v1/files/{file_id}/content"


NAMES: dict[str, Any] = {
    **{f"image {name}": image(path(name)) for name in (*CONTENTS, "gone", "broken")},
    **{
        f"file {name}": {"type": "input_file", "filename": name, "file_id": name}
        for name in (*CONTENTS, "gone")
    },
    **{f"inline {name}": image(data_url("image/png", content)) for name, content in CONTENTS.items()},
    **{f"data {name}": data_url(TYPES.get(name, "image/png"), each) for name, each in CONTENTS.items()},
    **{f"base64 {name}": b64encode(content).decode() for name, content in CONTENTS.items()},
}


@dataclass
class FakeDownloads:
    """The web."""

    pages: Mapping[str, bytes] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)

    async def fetch(self, url: str, room: Room) -> FileContent:
        """Fetch a page."""
        room.ask()
        self.fetched.append(url)
        if url not in self.pages:
            raise AttachmentUnavailable("the address is not allowed")
        await room.take(len(self.pages[url]))
        return FileContent("page", "", self.pages[url])


class Storage(FakeFiles):
    """One in which a file is broken."""

    async def read(self, user_id: str, file_id: str, room: Room) -> FileContent:
        if file_id == "broken":
            raise RuntimeError((user_id, file_id))
        return await super().read(user_id, file_id, room)


def library(
    files: FakeFiles | None = None,
    *,
    reads: Sequence[str] = ALL,
    downloads: FakeDownloads | None = None,
    encoded: EncodedFiles | None = None,
    **settings: Any,
) -> MediaLibrary:
    """A library over all files, or these, for a model that reads everything unless more is said."""
    return MediaLibrary(
        Storage.of(CONTENTS) if files is None else files,
        (downloads or FakeDownloads()).fetch,
        encoded or EncodedFiles(ByteBudget()),
        MediaSettings(**settings),
        model(*reads),
        "ada",
        "chat\nm1",
    )


def next_call(shown: MediaLibrary, turn: str = "") -> MediaLibrary:
    """The library of the next call, of the same turn unless another is named; the one before holds nothing more."""
    shown.held.release()
    assert not shown.held.found
    return replace(shown, held=HeldFiles(), turn=turn or shown.turn)


def chat(*turns: Sequence[InputPart]) -> tuple[list[Item], list[int]]:
    """A chat whose users sent these parts, each but the last answered."""
    items: list[Item] = []
    for number, parts in enumerate(turns):
        items.append(input_message("user", [{"type": "input_text", "text": f"question {number}"}, *parts]))
        items.append(assistant_message("so it is", key=str(number)))
    return items[:-1], [index // 2 for index in range(len(items) - 1)]


def sent(filled: FilledItems) -> list[Any]:
    """The parts that users' messages hold beside their question."""
    messages = [cast("Any", item) for item in filled.items if item.get("role") == "user"]
    return [part for message in messages for part in message["content"][1:]]


@pytest.mark.parametrize(
    ("reads", "settings", "turns", "parts", "lines", "read"), rows(CASES, "Filled", NAMES)
)
async def test_what_is_sent_of_attachments(
    reads: Any,
    settings: dict[str, Any],
    turns: list[Any],
    parts: list[Any],
    lines: list[str],
    read: list[str],
) -> None:
    """The content in the form that the model reads, or a note and a line; what is not sent is not read."""
    files = Storage.of(CONTENTS)
    filled = await library(files, reads=ALL if reads == "all" else reads, **settings).fill(*chat(*turns))
    assert (sent(filled), [*filled.notices.values()]) == (parts, lines)
    assert sorted(files.read_ids) == read


@pytest.mark.parametrize(("item", "expected"), rows(CASES, "Items", NAMES))
async def test_what_is_sent_of_other_items(item: Any, expected: Any) -> None:
    """Parts that cannot be sent become notes; whatever is in there, the rest of the chat is sent."""
    items, _ = chat([image(data_url("image/png", PNG))])
    filled = await library().fill([item, *items], [0, 0])
    assert filled.items == [expected, *items]


@pytest.mark.parametrize(("file_id", "name"), rows(CASES, "Names"))
async def test_what_nobody_has_named_is_called_by_its_kind(file_id: str, name: str) -> None:
    """A name of the host's is better, and one of the user's is best."""
    items, turns = chat([{"type": "input_file", "filename": "", "file_id": file_id}])
    for is_named, expected in ((False, name), (True, f"{file_id}.bin")):
        files = FakeFiles.of(CONTENTS, named=is_named)
        (part,) = sent(await library(files, reads=["file"]).fill(items, turns))
        assert part["filename"] == expected


@pytest.mark.parametrize(("media_type", "reads", "maker", "parses_pdf", "form"), rows(CASES, "Forms"))
def test_who_reads_what(
    media_type: str, reads: Any, maker: str, *, parses_pdf: bool, form: str | None
) -> None:
    """By the model's modalities; office documents are read by OpenAI's models alone."""
    office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    asked = None if reads is None else model(*reads, maker=maker)
    assert form_of(media_type.replace("DOCX", office), asked, parses_pdf=parses_pdf) == form


@pytest.mark.parametrize(("selection", "latest", "shown"), rows(CASES, "Selections", NAMES))
async def test_which_images_of_the_chat_are_sent(selection: Any, latest: list[Any], shown: list[str]) -> None:
    """Those of the chat, of the current turn, or of the latest answer where the user sent none."""
    items, turns = chat([image(path("old"))], latest)
    drawn: Any = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": path("drawn")}
    files = FakeFiles.of(CONTENTS)
    shown_of = library(files, image_selection=selection)
    filled = await shown_of.fill([items[0], drawn, *items[1:]], [0, 0, *turns[1:]])
    assert sorted(files.read_ids) == sorted(shown)
    picture = cast("Any", filled.items[1])
    if "drawn" in shown:
        assert picture == {**drawn, "result": data_url("image/png", PNG)}
    else:
        assert picture["content"][0]["text"] == "[Image: file drawn no longer shown]"


@pytest.mark.parametrize(("file_id", "reads_files", "parses_pdf", "reason"), rows(CASES, "Documents"))
async def test_why_a_document_stays_with_the_host(
    file_id: str, *, reads_files: bool, parses_pdf: bool, reason: str | None
) -> None:
    """Nothing for what the model is given."""
    books = library(reads=["file"] * reads_files, parses_pdf=parses_pdf)
    refusal = await books.refusal(file_id)
    assert (refusal and refusal.user_message) == reason


async def test_what_is_right_already_stays_the_same_object() -> None:
    """Nothing is copied of text alone, nor of an image that says what it is, with lines as mail programs write it."""
    items, turns = chat([], [])
    assert (await library().fill(items, turns)).items is items
    text = b64encode(PNG * 400).decode()
    lined = "data:image/png;base64," + "\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    items, turns = chat([image(lined)], [image(path("png"))])
    before = str(items)
    assert (await library().fill(items, turns)).items[0] is items[0]
    assert str(items) == before


async def test_more_of_the_same_is_no_new_line() -> None:
    """A line about what the model does not read, or about a selection, has one name, however many there are."""
    parts = [[image(data_url("image/png", PNG))]] * 3
    for shown in (library(reads=[]), library(image_selection="user_turn_only")):
        names = [set((await shown.fill(*chat(*parts[:count]))).notices) for count in (2, 3)]
        assert names[0] == names[1]
        assert len(names[0]) == 1


# --- what is kept


async def test_a_file_is_read_once_for_many_turns_and_requests() -> None:
    """Within a request, and while the right to it holds; then it is checked again. Another user has no part in it."""
    files, seconds = FakeFiles.of(CONTENTS), [0.0]
    shown = library(files, encoded=EncodedFiles(ByteBudget(), clock=lambda: seconds[0]))
    items, turns = chat([image(path("png"))], [image(path("png"))])
    first = await shown.fill(items, turns)
    assert (await shown.fill(items, turns)).items == first.items
    assert (await next_call(shown).fill(items, turns)).items == first.items
    assert files.read_ids == ["png"]
    others = await replace(next_call(shown), user_id="eve").fill(items, turns)
    assert [part["type"] for part in sent(others)] == ["input_text"] * 2
    seconds[0] = CHECKED_SECONDS + 1
    await next_call(shown).fill(items, turns)
    assert files.read_ids == ["png"] * 3


async def test_memory_is_bounded() -> None:
    """All of it is used. What was used least recently is forgotten, and read again."""
    files = FakeFiles.of(CONTENTS)
    size = ENTRY_BYTES + len(path("a")) + len(data_url("image/png", PNG))
    for entries, names, read in ((2, "aabbacab", "abcb"), (1, "abb", "ab")):
        budget = ByteBudget()
        small = library(files, encoded=EncodedFiles(budget))
        for name in names:
            await small.fill(*chat([image(path(name))]))
            small = next_call(small)
            budget.limit_bytes = entries * size
            budget.settle()
            budget.limit_bytes = MEMORY_BYTES
        assert "".join(files.read_ids) == read
        files.read_ids.clear()


async def test_an_address_is_fetched_and_never_forwarded() -> None:
    """Twice the same is one download; of a chat that is not saved nothing is stored."""
    files, downloads = FakeFiles(), FakeDownloads({URL: PNG})
    filled = await library(files, downloads=downloads).fill(*chat([image(URL)], [image(URL)]))
    assert sent(filled) == [image(data_url("image/png", PNG))] * 2
    assert (downloads.fetched, files.kept) == ([URL], {})


async def test_a_download_is_stored_once_for_a_chat() -> None:
    """Other workers and later turns read it from there, even if the address has something else by then."""
    files, downloads = FakeFiles(), FakeDownloads({URL: PNG})
    saving = replace(library(files, downloads=downloads), saved_for=("chat", "m1"))
    others = [replace(saving, user_id="eve"), replace(saving, saved_for=("other chat", "m1"))]
    found = []
    for shown in (saving, saving, *others):
        filled = await replace(next_call(shown), encoded=EncodedFiles(ByteBudget())).fill(*chat([image(URL)]))
        found += [part["image_url"] for part in sent(filled)]
        downloads.pages = {URL: JPEG}
    assert found == [data_url("image/png", PNG)] * 2 + [data_url("image/jpeg", JPEG)] * 2
    assert downloads.fetched == [URL] * 3
    assert files.stored_for == [("ada", "chat", "m1"), ("eve", "chat", "m1"), ("ada", "other chat", "m1")]


async def test_a_download_that_cannot_be_stored_is_sent() -> None:
    """The storage is a convenience."""
    files = FakeFiles(refusal=AttachmentUnavailable("it is full"))
    saving = replace(library(files, downloads=FakeDownloads({URL: PNG})), saved_for=("chat", "m1"))
    assert await saving.fill(*chat([image(URL)])) == await library().fill(
        *chat([image(data_url("image/png", PNG))])
    )


async def test_a_dead_address_is_not_tried_at_every_turn() -> None:
    """It may take a minute each time; later it is tried again. A file of the host is looked for each time."""
    files, downloads, seconds = FakeFiles(), FakeDownloads(), [0.0]
    shown = library(files, downloads=downloads, encoded=EncodedFiles(ByteBudget(), clock=lambda: seconds[0]))
    items, turns = chat([image(URL), image(path("gone"))])
    first, again = [await shown.fill(items, turns) for _ in range(2)]
    assert first == again
    assert (downloads.fetched, files.read_ids) == ([URL], ["gone"] * 2)
    seconds[0], downloads.pages = CHECKED_SECONDS + 1, {URL: PNG}
    assert (await next_call(shown).fill(items, turns)).items == first.items  # in a turn it is asked once
    later = next_call(shown, turn="chat\nm2")
    assert sent(await later.fill(items, turns))[0] == image(data_url("image/png", PNG))
