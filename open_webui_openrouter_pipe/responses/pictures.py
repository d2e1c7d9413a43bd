"""Pictures that models draw: which items hold one, in which field and form, and of what kind it is by its content.

Pure. A picture arrives inline (base64 or a data URL), or as the web address that a server tool names. Once it is among
the host's files, its item holds the path of its content there; no provider may send such a path, which would name any
file of the user. Source: `image_generation_call` and `openrouter:image_generation` of OpenRouter's schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from .inline import base64_of, decode
from .items import Item
from .references import host_file_id
from .wire import as_text, is_web_address

_KINDS: Final = frozenset({"image_generation_call", "openrouter:image_generation"})
_FIELDS: Final = ("imageUrl", "result", "imageB64")
_BEGINNING_CHARACTERS: Final = 256
"""Enough for the head of a data URL and the bytes by which a picture's type is known."""
_TYPES: Final[Mapping[bytes, str]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The raster images that providers read and pages draw, by their first bytes; WebP's begin with a size."""


def is_picture(item: Item) -> bool:
    """Whether the item is a picture that was drawn, or should have been."""
    return item["type"] in _KINDS


def image_type(content: bytes) -> str | None:
    """Return the media type of a raster image by its first bytes; None for anything else, such as SVG."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)


def without_unusable(item: Item) -> Item:
    """Return a picture's item as a provider may send it: a raster image inline, or a web address, and nothing else."""
    kept = {
        name: value
        for name, value in item.items()
        if name not in _FIELDS or not value or is_web_address(value) or _inline_type(as_text(value))
    }
    return cast("Item", kept) if len(kept) < len(item) else item


def inline_picture(item: Item) -> str:
    """Return the base64 text or data URL of a raster image that the item holds, "" without one."""
    return next((address for address in _addresses(item) if _inline_type(address)), "")


def with_picture(item: Item, address: str) -> Item:
    """Return the item with a data URL, or the path of a file of the host, as its only picture."""
    others = {name: value for name, value in item.items() if name not in _FIELDS}
    return cast("Item", {**others, "result": address})


def picture_address(item: Item) -> str:
    """Return from where a page draws the picture: a data URL, a path of the host or a web address; "" without one."""
    for address in _addresses(item):
        if is_web_address(address) or host_file_id(address):
            return address
        if kind := _inline_type(address):
            return address if len(base64_of(address)) < len(address) else f"data:{kind};base64,{address}"
    return ""


def _addresses(item: Item) -> list[str]:
    fields = cast("Mapping[str, Any]", item)
    return [text for name in _FIELDS if (text := as_text(fields.get(name)))] if is_picture(item) else []


def _inline_type(address: str) -> str | None:
    """The media type of an inline picture, by its beginning alone."""
    return image_type(decode(address, limit_characters=_BEGINNING_CHARACTERS))
