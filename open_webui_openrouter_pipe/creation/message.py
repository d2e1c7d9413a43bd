"""What the newest message asks for, and what its requests and their bills have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..history.reading import EMPTY_MESSAGE
from ..responses.effects import Usage, read_usage
from ..responses.items import Item, is_message
from ..responses.values import as_list, as_number, as_object, as_text


@dataclass(frozen=True, slots=True)
class Wanted:
    """A text with its pictures (addresses or data URLs) and recordings (`data` in base64 and `format`)."""

    text: str = ""
    pictures: tuple[str, ...] = ()
    recordings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """A body, and lines about what of it is not as the user has set it.

    Nobody says what a model can: one that refuses an attempt is asked for less by the next, which costs nothing.
    """

    body: Mapping[str, Any]
    lines: tuple[str, ...] = ()


def references(pictures: Iterable[str]) -> list[dict[str, Any]]:
    """Return pictures (addresses or data URLs) in the form in which these endpoints take them."""
    return [{"type": "image_url", "image_url": {"url": url}} for url in pictures]


def told_usage(wire: Mapping[str, Any]) -> Usage | None:
    """Read the usage of an answer, None for one that does not say what it costs."""
    return read_usage(wire) if as_number(wire.get("cost")) is not None else None


def read_wanted(items: Iterable[Item], filled: Iterable[Item]) -> Wanted:
    """Read the user's messages among the items of a turn, before and after their attachments were put in place.

    So the notes about those that are not sent are no part of the text.
    """
    texts = [as_text(part.get("text")) for part in _parts(items) if part.get("type") == "input_text"]
    media = [*_parts(filled)]
    return Wanted(
        "\n\n".join(text for each in texts if (text := each.strip()) not in {"", EMPTY_MESSAGE}),
        tuple(as_text(part.get("image_url")) for part in media if part.get("type") == "input_image"),
        tuple(as_object(part.get("input_audio")) for part in media if part.get("type") == "input_audio"),
    )


def _parts(items: Iterable[Item]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        if is_message(item) and item["role"] == "user":
            yield from map(as_object, as_list(item["content"]))
