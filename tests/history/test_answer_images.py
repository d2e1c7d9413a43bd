"""Images of answers: what Markdown shows of the host's files and inline goes along; a model has nothing fetched."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.parts import take_images
from open_webui_openrouter_pipe.responses.values import reference_of
from tests.history.builders import assistant, build, user

PATH = "/api/v1/files/f1/content"
DATA = "data:image/png;base64,iVBORw0KGgo="


def image(address: str) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": address}


def test_files_of_the_host_are_taken_and_stay_in_the_text() -> None:
    """To the byte, with a title, blanks, or without the path's end."""
    text = f'A ![red house]({PATH}) and ![]( {PATH[:-8]} "a title" ).'
    assert take_images(text) == (text, [image(PATH), image(PATH)])


def test_content_inline_leaves_a_reference() -> None:
    """The text around it stays; the notes name it alike."""
    text = f"One ![a]({DATA}), two ![b]({DATA.replace('data:image', 'DATA:IMAGE')})."
    name = f"reference:{reference_of(DATA)}"
    assert take_images(text) == (f"One ![a]({name}), two ![b]({name}).", [image(DATA), image(DATA)])


@pytest.mark.parametrize(
    "text",
    [
        "![x](https://example.org/a.png)",
        "![x](//example.org/api/v1/files/f1/content)",
        f"![x](https://example.org{PATH})",
        f"[x]({PATH})",
        "![x](/api/v1/files/../users/content)",
        f"![x]({PATH.upper()})",
        "![x](/api/v1/files/f1/content?x=1)",
        "![x](data:image/svg+xml,%3Csvg)",
        "![x](data:text/html;base64,QQ==)",
        f"`![x]({PATH})`",
        f"```\n![x]({DATA})\n```",
    ],
)
def test_all_else_is_text(text: str) -> None:
    """Addresses of the web above all, and what is quoted as code."""
    assert take_images(text) == (text, [])


def test_images_stand_at_the_same_place_ever_after() -> None:
    """A request begins as the one before."""
    answers = [assistant(f"![a]({DATA}) ![b]({PATH})"), assistant(f"Again ![b]({PATH})")]
    chat = [user("Draw."), answers[0], user("And now?"), answers[1], user("Thanks.")]
    requests = [build(chat[:count]).items for count in (1, 2, 3, 5)]
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier
    assert DATA not in str(requests[1])
