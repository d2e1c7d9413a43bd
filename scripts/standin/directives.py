r"""The directives by which a chat message chooses what the stand-in does.

Owns the syntax alone; what a directive means stands in ``planner``. The grammar:

    directive := "[[standin:" pair+ "]]"
    pair      := key ["=" value]            a key alone counts as true
    key       := letters, digits, "_"
    value     := a JSON string, object or array, or a bare word up to the next blank or "]]"

The first pair names the directive and its value; the others are its options. Any number of directives may
stand anywhere in one text, and each counts:

    [[standin: reasoning=summary text="Let me see."]] [[standin: call=get_weather args={"city": "Paris"}]]
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

OPENING = "[[standin:"
CLOSING = "]]"
KEY = re.compile(r"\s*([A-Za-z0-9_]+)\s*")
BARE_WORD = re.compile(r"(?:(?!\]\])\S)+")
JSON_OPENINGS = ('"', "{", "[")


class DirectiveError(ValueError):
    """A directive that cannot be read; says where."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive: its name, its value, and its options by key."""

    name: str
    value: Any
    options: dict[str, Any]

    def text(self, key: str, default: str) -> str:
        """An option as text."""
        return str(self.options.get(key, default))

    def number(self, key: str, default: float) -> float:
        """An option as a number."""
        return float(self.options.get(key, default))

    def count(self, key: str, default: int) -> int:
        """An option as a whole number."""
        return int(self.options.get(key, default))

    def value_text(self, default: str = "") -> str:
        """The directive's value as text; the default for a key that stands alone."""
        return default if self.value is True else str(self.value)


def parse(text: str) -> tuple[Directive, ...]:
    """All directives of a text, in order.

    Raises:
        DirectiveError: A directive is opened but has no readable pair or no end.
    """
    found: list[Directive] = []
    at = text.find(OPENING)
    while at >= 0:
        directive, end = _directive(text, at + len(OPENING))
        found.append(directive)
        at = text.find(OPENING, end)
    return tuple(found)


def without_directives(text: str) -> str:
    """The text with its directives cut out, as a person would have written it."""
    pieces: list[str] = []
    end = 0
    at = text.find(OPENING)
    while at >= 0:
        pieces.append(text[end:at])
        _, end = _directive(text, at + len(OPENING))
        at = text.find(OPENING, end)
    return "".join([*pieces, text[end:]]).strip()


def bracketed(text: str) -> str:
    """The text as directives, whether or not it has their brackets."""
    return text if OPENING in text else f"{OPENING} {text}{CLOSING}"


def plain_text(text: str) -> str:
    """A text without its directives, if it has any that can be read."""
    try:
        return without_directives(text) if OPENING in text else text
    except DirectiveError:
        return text


def _directive(text: str, at: int) -> tuple[Directive, int]:
    pairs: list[tuple[str, Any]] = []
    while not text.startswith(CLOSING, at := _past_blanks(text, at)):
        key, value, at = _pair(text, at)
        pairs.append((key, value))
    if not pairs:
        raise DirectiveError(f"empty directive at {at}")
    (name, value), *options = pairs
    return Directive(name, value, dict(options)), at + len(CLOSING)


def _pair(text: str, at: int) -> tuple[str, Any, int]:
    key = KEY.match(text, at)
    if key is None:
        raise DirectiveError(f"no key at {at}: {text[at : at + 30]!r}")
    if not text.startswith("=", key.end()):
        return key.group(1), True, key.end()
    value, end = _value(text, _past_blanks(text, key.end() + 1))
    return key.group(1), value, end


def _value(text: str, at: int) -> tuple[Any, int]:
    if text.startswith(JSON_OPENINGS, at):
        try:
            return json.JSONDecoder(strict=False).raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise DirectiveError(f"bad JSON at {at}: {error}") from error
    word = BARE_WORD.match(text, at)
    if word is None:
        raise DirectiveError(f"no value at {at}")
    return word.group(), word.end()


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
