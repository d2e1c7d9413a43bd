"""Pictures in items: found in any of their fields and forms, known by their content, and never a path of a provider."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest

from open_webui_openrouter_pipe.responses.items import (
    Item,
    image_type,
    inline_picture,
    picture_address,
    with_picture,
    without_unusable,
)
from open_webui_openrouter_pipe.responses.values import decode, host_file_id, host_file_path
from tests.support.files import PICTURES, data_url

PNG = PICTURES["image/png"]
BARE = base64.b64encode(PNG).decode()
URL_SAFE = base64.urlsafe_b64encode(b"\xff\xd8\xff\xfb\xef\xbe" * 8).decode()
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
PATH = "/api/v1/files/0a-1B_2/content"


def drawn(**fields: Any) -> Item:
    return cast("Item", {"type": "openrouter:image_generation", "status": "completed", **fields})


@pytest.mark.parametrize(("kind", "content"), PICTURES.items())
def test_a_picture_is_known_by_its_content(kind: str, content: bytes) -> None:
    """Whatever its data URL says, and bare base64 says nothing."""
    bare = base64.b64encode(content).decode()
    assert image_type(content) == kind
    assert picture_address(drawn(result=bare)) == data_url(kind, content)
    assert decode(data_url("text/html", content)) == decode(bare) == content


@pytest.mark.parametrize("name", ["result", "imageUrl", "imageB64"])
@pytest.mark.parametrize(
    "value",
    [
        BARE,
        data_url("image/png", PNG),
        f"DATA:image/png;x=1;BASE64,{BARE}",
        f"{BARE[:9]}\n{BARE[9:]}",
        URL_SAFE,
    ],
    ids=["base64", "data URL", "capitals", "lines", "URL-safe"],
)
def test_a_picture_comes_inline_in_any_field(name: str, value: str) -> None:
    """Such an item is a provider's own, and stays as it is until the picture is stored."""
    item = drawn(prompt="a cat", **{name: value})
    assert without_unusable(item) is item
    assert inline_picture(item) == value
    assert with_picture(item, host_file_path("7f")) == drawn(
        prompt="a cat", result="/api/v1/files/7f/content"
    )


@pytest.mark.parametrize(
    "value",
    [
        PATH,
        data_url("image/png", SVG),
        data_url("image/svg+xml", SVG),
        f"data:image/svg+xml,{SVG.decode()}",
        base64.b64encode(b"<!DOCTYPE html><p>x").decode(),
        base64.b64encode(b"RIFF\x40\x00\x00\x00WAVEfmt ").decode(),
        "data:image/png;base64,",
        "javascript:alert(1)",
        "//a.example/b.png",
        "file:///etc/passwd",
        "héron",
        ["a list"],
    ],
)
def test_nothing_else_is_taken_from_a_provider(value: Any) -> None:
    """A path would name any file of the user; SVG and HTML can run scripts; what is unknown is no picture."""
    item = drawn(prompt="a cat", result=value, imageUrl="https://a.example/b.png")
    assert without_unusable(item) == drawn(prompt="a cat", imageUrl="https://a.example/b.png")
    assert inline_picture(item) == ""
    assert without_unusable(drawn(result=value)) == drawn()


@pytest.mark.parametrize("value", [None, ""])
def test_a_picture_that_is_missing_is_nothing_unusable(value: Any) -> None:
    """As in an item that has failed."""
    item = drawn(result=value)
    assert without_unusable(item) is item
    assert picture_address(item) == ""


def test_a_web_address_is_drawn_from_where_it_is() -> None:
    """It is what a server tool names; nothing is stored of it."""
    item = drawn(imageUrl="HTTPS://a.example/b.png")
    assert (without_unusable(item), inline_picture(item)) == (item, "")
    assert picture_address(item) == "HTTPS://a.example/b.png"


def test_a_stored_picture_is_drawn_from_the_host() -> None:
    """Its path names the file."""
    assert picture_address(drawn(result=PATH)) == PATH
    assert host_file_id(PATH) == "0a-1B_2"
    assert host_file_id(host_file_path("7f")) == "7f"


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/files/../content",
        "/api/v1/files/a/b/content",
        "/api/v1/files//content",
        f"https://x{PATH}",
        f"{PATH}?a",
    ],
)
def test_only_the_path_of_a_file_names_one(address: str) -> None:
    """Nothing that only looks like it."""
    assert host_file_id(address) is None
    assert picture_address(drawn(result=address)) in {"", address if address.startswith("https:") else ""}


def test_other_items_hold_no_picture() -> None:
    """Their fields of these names are something else."""
    item = cast("Item", {"type": "openrouter:files", "status": "completed", "result": BARE})
    assert (inline_picture(item), picture_address(item)) == ("", "")
