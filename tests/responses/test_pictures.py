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


@pytest.mark.parametrize(
    ("item", "address"),
    [
        (drawn(result=None), ""),
        (drawn(result=""), ""),
        (drawn(imageUrl="HTTPS://a.example/b.png"), "HTTPS://a.example/b.png"),
        (cast("Item", {"type": "openrouter:files", "status": "completed", "result": BARE}), ""),
    ],
    ids=["missing", "empty", "of the web", "of another kind"],
)
def test_an_item_has_an_address_only_for_what_it_draws(item: Item, address: str) -> None:
    """What is missing is nothing unusable; what a server tool names is drawn from where it is."""
    assert without_unusable(item) is item
    assert (picture_address(item), inline_picture(item)) == (address, "")


@pytest.mark.parametrize(
    ("path", "file_id", "address"),
    [
        (PATH, "0a-1B_2", PATH),
        (host_file_path("7f"), "7f", "/api/v1/files/7f/content"),
        ("/api/v1/files/../content", None, ""),
        ("/api/v1/files/a/b/content", None, ""),
        ("/api/v1/files//content", None, ""),
        (f"https://x{PATH}", None, f"https://x{PATH}"),
        (f"{PATH}?a", None, ""),
    ],
)
def test_only_the_path_of_a_file_of_the_host_names_one(path: str, file_id: str | None, address: str) -> None:
    """A stored picture is drawn from there; nothing else that only looks like it."""
    assert host_file_id(path) == file_id
    assert picture_address(drawn(result=path)) == address
