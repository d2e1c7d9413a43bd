"""Models that draw, through the whole pipe to the stand-in: what is asked of them, and what comes back for editing."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Page, PipeInProcess
from scripts.standin.drawing import COLOURS, frame_colour, middle_colour
from tests.support.files import FakeFiles

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

DRAWING, PICTURES_ONLY, SILENT = "standin/drawing", "standin/pictures-only", "standin/text-only"


def open_pipe(folder: Path, standin: StandIn, **more: Any) -> PipeInProcess:
    return PipeInProcess(folder, base_url=standin.base_url, **more)


@pytest.fixture
async def pipe(tmp_path: Path, standin: StandIn) -> AsyncIterator[Pipe]:
    async with open_pipe(tmp_path, standin) as opened:
        yield opened


async def test_models_that_draw_are_listed(pipe: Pipe) -> None:
    """Those that only draw too; those that answer with a video or with numbers are not."""
    listed = {model["id"] for model in await pipe.pipes()}
    assert {DRAWING, PICTURES_ONLY, SILENT} <= listed
    assert not listed & {"standin/video-only", "standin/embeddings-only"}


@pytest.mark.parametrize("model", [DRAWING, PICTURES_ONLY])
async def test_a_picture_goes_back_for_editing(tmp_path: Path, standin: StandIn, model: str) -> None:
    """The frame of the second has the colour of the first, which only who was sent it can know."""
    async with open_pipe(tmp_path, standin, SAVE_ATTACHMENTS=False) as pipe:
        page = Page(pipe, model)
        answers = [await page.ask("Draw a red house."), await page.ask("Make it blue.")]
    assert [answer.error for answer in answers] == [None, None]
    first, second = (base64.b64decode(answer.pictures[0].partition(",")[2]) for answer in answers)
    assert (middle_colour(first), middle_colour(second)) == (COLOURS["red"], COLOURS["blue"])
    assert frame_colour(second) == COLOURS["red"]


async def test_a_picture_of_the_host_s_files_is_shown(tmp_path: Path, standin: StandIn) -> None:
    """What was stored is what the model drew."""
    files = FakeFiles()
    async with open_pipe(tmp_path, standin, files=files) as pipe:
        answer = await Page(pipe, PICTURES_ONLY).ask("A green leaf.")
    ((file_id, (_, file)),) = files.kept.items()
    assert (answer.pictures, answer.notices) == ([f"/api/v1/files/{file_id}/content"], [])
    assert middle_colour(file.content) == COLOURS["green"]


async def call(pipe: Pipe, model: str, text: str = "Draw.", **fields: Any) -> Any:
    """One call of the host by a user who has set a shape and a size."""
    body = {"model": f"openrouter.{model}", "messages": [{"role": "user", "content": text}], "stream": False}
    valves = UserValves(IMAGE_ASPECT_RATIO="16:9", IMAGE_SIZE="2K")
    task = fields.pop("task", None)
    return await pipe.pipe(
        {**body, **fields},
        __user__={"id": "user", "valves": valves},
        __metadata__={"chat_id": "chat", "message_id": "message"},
        __task__=task,
    )


WIDE = {"aspect_ratio": "16:9", "image_size": "2K"}


@pytest.mark.parametrize(
    ("model", "fields", "sent"),
    [
        (DRAWING, {}, (["image", "text"], WIDE)),
        (f"{DRAWING}:nitro", {}, (["image", "text"], WIDE)),
        (PICTURES_ONLY, {}, (["image"], WIDE)),
        (SILENT, {}, (None, None)),
        (
            DRAWING,
            {"modalities": ["image"], "image_config": {"image_size": "4K"}},
            (["image"], {**WIDE, "image_size": "4K"}),
        ),
        (DRAWING, {"task": "title_generation"}, (None, None)),
    ],
    ids=["both", "variant", "pictures only", "text only", "own parameters", "task"],
)
async def test_what_a_request_asks_for(
    pipe: Pipe, standin: StandIn, model: str, fields: dict[str, Any], sent: tuple[Any, Any]
) -> None:
    """Pictures of chats with models that draw alone; parameters that the model was given count more, key by key."""
    await call(pipe, model, **fields)
    body = standin.responses[-1].body
    assert (body.get("modalities"), body.get("image_config")) == sent
    assert standin.responses[-1].status == 200


async def test_a_size_that_the_administrator_hides_is_not_sent(pipe: Pipe, standin: StandIn) -> None:
    """Neither by the user's valve nor by a parameter of the call, which would cost more; an administrator's is."""
    pipe.valves = pipe.valves.model_copy(update={"USER_CONTROLS": "IMAGE_ASPECT_RATIO"})
    await call(pipe, DRAWING, image_config={"image_size": "4K", "aspect_ratio": "1:1"})
    assert standin.responses[-1].body["image_config"] == {"aspect_ratio": "1:1"}


async def test_a_task_is_not_drawn(pipe: Pipe, standin: StandIn) -> None:
    """A title by a model that only draws is empty, so that Open WebUI takes the first message for it."""
    completion = await call(pipe, PICTURES_ONLY, task="title_generation")
    chunks = await call(pipe, PICTURES_ONLY, task="title_generation", stream=True)
    lines = "".join([line async for line in chunks.body_iterator]).split("\n\n")
    streamed = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    (choice,) = completion["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    assert [chunk["choices"][0]["finish_reason"] for chunk in streamed] == ["stop"]
    assert standin.responses == []


@pytest.mark.parametrize(
    ("valves", "writers"), [({}, set()), ({"SUMMARY_MODEL": "standin/plain"}, {"standin/plain"})]
)
async def test_no_summary_is_drawn(
    tmp_path: Path, standin: StandIn, valves: dict[str, Any], writers: set[str]
) -> None:
    """Old turns are shortened without one, and a line says so, unless another model is set that writes them."""
    async with open_pipe(tmp_path, standin, **valves) as pipe:
        page = Page(pipe, PICTURES_ONLY)
        answers = [await page.ask(f"{turn} " + "a house by the sea " * 1_000) for turn in range(8)]
    assert [answer.error for answer in answers] == [None] * 8
    assert answers[-1].notices or writers
    summaries = [each.body for each in standin.responses if each.is_summary]
    assert {body["model"] for body in summaries} == writers
    assert not any("modalities" in body or "image_config" in body for body in summaries)
    drawn = {tuple(each.body["modalities"]) for each in standin.responses if not each.is_summary}
    assert drawn == {("image",)}
