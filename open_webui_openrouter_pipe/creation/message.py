"""What the newest message asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..responses.items import Item, is_message
from ..responses.values import as_list, as_object, as_text


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text with its pictures (addresses or data URLs) and recordings (`data` in base64 and `format`)."""

    text: str = ""
    pictures: tuple[str, ...] = ()
    recordings: tuple[Mapping[str, Any], ...] = ()


def read_wanted(items: Iterable[Item]) -> Wanted:
    """Read the user's messages among the items of a turn, whose attachments are in place."""
    parts = [
        as_object(part)
        for item in items
        if is_message(item) and item["role"] == "user"
        for part in as_list(item["content"])
    ]
    texts = [as_text(part.get("text")) for part in parts if part.get("type") == "input_text"]
    return Wanted(
        "\n\n".join(filter(None, map(str.strip, texts))),
        tuple(as_text(part.get("image_url")) for part in parts if part.get("type") == "input_image"),
        tuple(as_object(part.get("input_audio")) for part in parts if part.get("type") == "input_audio"),
    )
