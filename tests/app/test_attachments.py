"""Files of a chat through the app: what the model reads, a line about the rest, and pictures that it draws."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from open_webui_openrouter_pipe.host.call import AttachedFile
from open_webui_openrouter_pipe.ports import FileContent
from open_webui_openrouter_pipe.responses.effects import ResponseFinished
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Page, PipeInProcess
from scripts.standin.drawing import COLOURS, frame_colour, middle_colour
from tests.app.chat import NewChat, app_on, sent, settings
from tests.media.test_kinds import package
from tests.support.files import PICTURES, FakeFiles, data_url

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

PDF, ARCHIVE = b"%PDF-1.4\n%%EOF", package("a.txt")
FILES = {"pdf": PDF, "zip": ARCHIVE, "scan": ARCHIVE, "binary": b"\1\2\0", "cut": b"%PDF-1.4\n"}
NOT_READ = "this model does not read archives"
EXCERPTS = f"reaches this model in excerpts by Open WebUI: {NOT_READ}."
DRAWING, PICTURES_ONLY, SILENT = "standin/drawing", "standin/pictures-only", "standin/text-only"


def host_with(names: Collection[str], *, is_available: bool = True) -> dict[str, Any]:
    """A host that has found no text in the scan, and knows these files at the first message."""

    async def attached(_call: Any) -> dict[int, tuple[AttachedFile, ...]]:
        return {0: tuple(AttachedFile(name, f"{name}\n!", "", None) for name in names)}

    async def without_text(ids: Collection[str]) -> frozenset[str]:
        if not is_available:
            raise SQLAlchemyError
        return frozenset({"scan"} & set(ids))

    kept = {name: ("ada", FileContent("", "", content)) for name, content in FILES.items()}
    return {"files": FakeFiles(kept), "attached_documents": attached, "files_without_text": without_text}


@pytest.mark.parametrize(("sources", "kinds"), [(["gone"], ["input_text"]), ([], ["input_text"] * 2)])
async def test_what_the_host_gives_to_everybody_stays_with_it(
    tmp_path: Path, standin: StandIn, sources: list[str], kinds: list[str]
) -> None:
    """A setting of its own lets it give excerpts of what the user may not read; otherwise a note says so."""
    found = [
        {"source": {"type": "file", "id": name}, "document": ["text"], "metadata": [{}]} for name in sources
    ]
    async with app_on(tmp_path, **host_with(["gone"])) as app:
        await NewChat(app, standin)(metadata={"sources": found}).ask("?")
    (request,) = standin.responses
    assert [part["type"] for part in request.body["input"][0]["content"]] == kinds


@pytest.mark.parametrize(
    ("is_available", "scan", "note"),
    [(True, f"was not sent: {NOT_READ}.", ["input_text"]), (False, EXCERPTS, [])],
)
async def test_what_the_model_does_not_read_stays_with_the_host(
    tmp_path: Path, standin: StandIn, *, is_available: bool, scan: str, note: list[str]
) -> None:
    """The rest is sent with its message; each line is said once in each chat, whatever the database does."""
    async with app_on(tmp_path, **host_with(FILES, is_available=is_available)) as app:
        first, second = (NewChat(app, standin)() for _ in range(2))
        answers = [await chat.ask("?") for chat in (first, first, second)]
    binary = "binary ! was not sent: no model can read it; attach text, a PDF or an image."
    cut = "reaches this model in excerpts by Open WebUI: the file is damaged."
    lines = (f"zip ! {EXCERPTS}", f"scan ! {scan}", binary, f"cut ! {cut}")
    assert [(sorted(answer.notices), answer.error) for answer in answers] == [
        (sorted(lines), None),
        ([], None),
        (sorted(lines), None),
    ]
    sent = [[part["type"] for part in each.body["input"][0]["content"]] for each in standin.responses]
    assert sent == [["input_text", "input_file", *note, "input_text"]] * 3


async def test_that_a_model_reads_no_images_is_said_once(new_chat: NewChat) -> None:
    """In each chat, however many follow; the chat goes on."""
    url = {"url": data_url("image/png", PICTURES["image/png"])}
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": url}]}
    answers = []
    for chat in (new_chat(model="standin/text-only") for _ in range(2)):
        for text in ("one", "two"):
            chat.messages += [shown, {"role": "assistant", "content": "!"}]
            answers.append(await chat.ask(text))
    line = "Attachments not sent: 1 (this model does not read images)."
    assert [(answer.error, answer.notices) for answer in answers] == [(None, (line,)), (None, ())] * 2


# --- models that draw


async def test_models_that_draw_are_listed(app: App, standin: StandIn) -> None:
    """Those that only draw too; those that answer with a video or with numbers are not."""
    listed = {model["id"] for model in await app.models(settings(standin))}
    assert {DRAWING, PICTURES_ONLY, SILENT} <= listed
    assert not listed & {"standin/video-only", "standin/embeddings-only"}


@pytest.mark.parametrize("model", [DRAWING, PICTURES_ONLY])
@pytest.mark.parametrize("kept", [False, True])
async def test_a_picture_goes_back_for_editing(
    tmp_path: Path, standin: StandIn, model: str, *, kept: bool
) -> None:
    """Kept by the host or not; the frame of the second has the first's colour, which only who was sent it can know."""
    files = FakeFiles() if kept else None
    async with PipeInProcess(tmp_path, base_url=standin.base_url, files=files) as pipe:
        page = Page(pipe, model)
        answers = [await page.ask("Draw a red house."), await page.ask("Make it blue.")]
    assert [(answer.error, answer.notices) for answer in answers] == [(None, [])] * 2
    (first,), (second,) = (answer.pictures for answer in answers)
    drawn = [content_of(address, files) for address in (first, second)]
    assert list(map(middle_colour, drawn)) == [COLOURS["red"], COLOURS["blue"]]
    assert frame_colour(drawn[1]) == COLOURS["red"]


def content_of(address: str, files: FakeFiles | None) -> bytes:
    """The picture at an address: of a data URL, or of one of the host's files."""
    if files is None:
        return base64.b64decode(address.partition(",")[2])
    return files.kept[address.removeprefix("/api/v1/files/").removesuffix("/content")][1].content


async def test_a_task_is_not_drawn(new_chat: NewChat, standin: StandIn) -> None:
    """A title by a model that only draws is empty, so that Open WebUI takes the first message for it."""
    assert [type(output) for output in await new_chat(model=PICTURES_ONLY).title()] == [ResponseFinished]
    assert standin.responses == []
    await new_chat(model=DRAWING, user=UserValves(IMAGE_SIZE="2K")).title()
    assert not {"modalities", "image_config"} & set(sent(standin))


@pytest.mark.parametrize(
    ("valves", "writers"), [({}, set()), ({"SUMMARY_MODEL": "standin/plain"}, {"standin/plain"})]
)
async def test_no_summary_is_drawn(
    new_chat: NewChat, standin: StandIn, valves: dict[str, Any], writers: set[str]
) -> None:
    """Old turns are shortened without one, and a line says so, unless another model is set that writes them."""
    chat = new_chat(model=PICTURES_ONLY, **valves)
    answers = [await chat.ask(f"{turn} " + "a house by the sea " * 1_000) for turn in range(8)]
    assert [answer.error for answer in answers] == [None] * 8
    assert answers[-1].notices or writers
    summaries = [each.body for each in standin.responses if each.is_summary]
    assert {body["model"] for body in summaries} == writers
    assert not any("modalities" in body or "image_config" in body for body in summaries)
    drawn = {tuple(each.body["modalities"]) for each in standin.responses if not each.is_summary}
    assert drawn == {("image",)}
