"""Images of answers: what Markdown shows of the host's files and inline goes along; a model has nothing fetched."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.history.turn import take_images
from open_webui_openrouter_pipe.responses.values import reference_of

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


def built(*messages: tuple[str, str]) -> list[Any]:
    """The items of these messages."""
    history = read_history([{"role": role, "content": content} for role, content in messages])
    return build_input(history, {}, Options()).items


def test_images_stand_behind_their_turn() -> None:
    """Once a turn follows, and at the same place ever after; the same one is not sent twice."""
    chat = [
        ("user", "Draw."),
        ("assistant", f"![a]({DATA}) ![b]({PATH})"),
        ("user", "And now?"),
        ("assistant", f"Again ![b]({PATH})"),
        ("user", "Thanks."),
    ]
    requests = [built(*chat[:count]) for count in (1, 2, 3, 5)]
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier
    contents = [item["content"] for item in requests[-1]]
    assert contents[2] == [image(DATA), image(PATH)]
    assert [item["role"] for item in requests[-1]] == [
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
        "user",
    ]
    assert DATA not in str(contents[1])
    assert DATA not in str(requests[1])


def test_a_drawn_picture_is_not_sent_twice() -> None:
    """The page may show by Markdown what the answer holds as an item."""
    marker = "[0ABCDEFGHJKMNPQRSTVW]: #"
    history = read_history(
        [
            {"role": "user", "content": "Draw."},
            {"role": "assistant", "content": f"{marker}\n![a]({PATH})"},
            {"role": "user", "content": "Thanks."},
        ]
    )
    drawn: Any = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PATH}
    items = build_input(history, {"0ABCDEFGHJKMNPQRSTVW": drawn}, Options()).items
    assert [item["type"] for item in items] == ["message", "image_generation_call", "message", "message"]
