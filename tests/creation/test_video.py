"""What is asked of a model that makes videos, what that costs, and what is read of its job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.creation.message import Wanted, read_wanted
from open_webui_openrouter_pipe.creation.video import (
    read_job,
    video_cost,
    video_request,
)
from scripts.standin.videos import USUAL
from tests.support.rows import rows

CASES = Path(__file__).with_name("video.txt")


@pytest.mark.parametrize(
    ("row", "pictures", "wishes", "fields", "lines"),
    rows(
        CASES,
        "of a row, so many pictures, what is set => the fields of the request | the lines about it",
        {"FILM": USUAL},
    ),
)
def test_what_is_set_becomes_what_the_model_offers(
    row: Any, pictures: int, wishes: dict[str, Any], fields: dict[str, Any], lines: list[str]
) -> None:
    """A table, in which pictures stand by what they are and where they are."""
    wanted = Wanted("A film.", tuple(f"data:{number}" for number in range(1, pictures + 1)))
    made = video_request("a/m", row, wanted, {f"video_{name}": value for name, value in wishes.items()})
    body = dict(made.body)
    for name in ("frame_images", "input_references"):
        for part in body.get(name, ()):
            assert part["type"] == "image_url"
    if frames := body.get("frame_images"):
        body["frame_images"] = [[each["frame_type"], each["image_url"]["url"]] for each in frames]
    if references := body.get("input_references"):
        body["input_references"] = [each["image_url"]["url"] for each in references]
    assert body == {"model": "a/m", "prompt": "A film.", **fields}
    assert [*made.lines] == lines


def test_what_is_made_is_named_before() -> None:
    """With as much as is known of it."""
    sizes = [video_request("a/m", row, Wanted("x"), {}).size for row in (USUAL, {})]
    assert sizes == [("4 s", "720p"), ()]


@pytest.mark.parametrize(
    ("skus", "resolution", "has_sound", "dollars"),
    rows(CASES, "prices | resolution | with sound => dollars of 4 seconds"),
)
def test_the_price_that_names_most_counts(
    skus: dict[str, Any], resolution: str, has_sound: Any, dollars: float | None
) -> None:
    """A table."""
    assert video_cost(skus, 4, resolution, has_sound=has_sound) == (dollars and pytest.approx(dollars))


@pytest.mark.parametrize(
    ("wire", "expected"),
    rows(
        CASES,
        "an answer => the end of its job, its signed addresses, how many videos, what it says, what it has cost",
    ),
)
def test_a_job_is_read_whatever_it_says(wire: dict[str, Any], expected: list[Any]) -> None:
    """A table."""
    job = read_job(wire)
    cost = job.usage.cost if job.usage else None
    assert [job.end, [*job.addresses], job.outputs, job.error, cost] == expected


def test_the_newest_message_is_what_is_wanted() -> None:
    """All that the user says in the turn, with its attachments, and not what was answered."""
    said = [
        {"type": "input_text", "text": " A film. "},
        {"type": "input_image", "image_url": "data:1"},
        {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
    ]
    items: Any = [
        {"type": "message", "role": "user", "content": said},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "No."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Now."}]},
    ]
    assert read_wanted(items, items) == Wanted(
        "A film.\n\nNow.", ("data:1",), ({"data": "x", "format": "wav"},)
    )
