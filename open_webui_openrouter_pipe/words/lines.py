"""The words that users see, status lines and error lines, by name; and how they are said in the user's language.

The texts stand in `words`, one file a language. `notice` returns a `Line`: a text in English, for logs and for what a
model reads, that keeps its name and values, so that `in_language` can say it in another language where it leaves for
the user. It must not decide when a line is shown.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from string import Formatter
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias


class Language:
    """A language by its ISO 639 code; its file is read when the first line of it is said.

    The forms of its numbers and days follow the Unicode CLDR, version 46.
    """

    def __init__(self, code: str) -> None:
        self.code = code

    @property
    def lines(self) -> Mapping[str, str]:
        """Templates of `str.format` by name.

        A value may be a line, a number, a day, or several lines; of these, what separates them stands in the place of
        the form where it is not a comma.
        """
        return self._read[0]

    @property
    def routine(self) -> frozenset[str]:
        """The names of lines about waits, and about what went as it should."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Mapping[str, str], frozenset[str]]:
        lines, routine, is_routine = {}, set(), False
        file = pkgutil.get_data(__package__, f"{self.code}.txt") or b""
        for line in file.decode().strip("\n").split("\n"):
            if line.startswith("#"):
                is_routine = line.startswith("# routine")
            else:
                name, text = line.split(" = ", 1)
                lines[name] = text
                if is_routine:
                    routine.add(name)
        return MappingProxyType(lines), frozenset(routine)

    def number(self, value: float, form: str) -> str:
        """Write a number in this form of Python's `format`, with the separators of the language."""
        sample = self.lines["number"]  # 1,234.5
        return format(value, form).translate({ord(","): sample[1], ord("."): sample[5]})


ENGLISH: Final = Language("en")
LANGUAGES: Final = MappingProxyType(
    {"en": ENGLISH, **{code: Language(code) for code in ("de", "fr", "es", "pt", "zh", "ja")}}
)
"""By their codes."""
_TRADITIONAL: Final = frozenset({"hant", "hk", "mo", "tw"})
"""Subtags of Chinese in traditional characters, of which there is no file."""

WEIGHTS: Final = (
    (3, ("lacking_omitted", "lacking_clipped", "lacking_shortened", "not_summarized", "summarized")),
    (2, ("lacking_", "artifact", "attachment", "document", "image")),
)
"""By the beginnings of names: what is lost of the chat, then of its tools, files and stored items; all else is 1."""

Say: TypeAlias = Callable[..., str]
"""Returns the line of a name with its values, as `notice` does."""


class Line(str):
    """A line for the user. Its text is English; its name and values say it in every language."""

    __slots__ = ("name", "values")
    name: str
    values: Mapping[str, object]

    def __new__(cls, name: str, values: Mapping[str, object]) -> Self:
        """Fill in the English words.

        Raises:
            KeyError: There is no such line, or it needs a value that is missing.
        """
        line = super().__new__(cls, _write(name, values, ENGLISH))
        line.name, line.values = name, values
        return line

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What a copy is created from."""
        return self.name, self.values


def notice(name: str, /, **values: object) -> str:
    """Return the `Line` of this name with its values; whoever passes it on need not know that it is one.

    Raises:
        KeyError: There is no such line, or it needs a value that is missing.
    """
    return Line(name, values)


def for_admins(text: str) -> str:
    """Return a line, and those within it, as who can change settings and add credits reads it; often it is the same."""
    if not isinstance(text, Line):
        return text
    name = f"{text.name}.admin" if f"{text.name}.admin" in ENGLISH.lines else text.name
    values = {
        key: for_admins(value) if isinstance(value, str) else value for key, value in text.values.items()
    }
    return Line(name, values)


def weight(text: str) -> int:
    """How much the line matters: 0 for waits and what went well; most where turns of the chat do not arrive."""
    if not isinstance(text, Line):
        return 1
    if text.name in ENGLISH.routine:
        return 0
    return next((number for number, names in WEIGHTS if text.name.startswith(names)), 1)


def listed(lines: Iterable[str]) -> str:
    """Return lines as a list, "" for none."""
    items = [notice("list_item", line=line) for line in lines]
    return notice("joined", lines=items, separator="\n") if items else ""


def is_line(text: str, *names: str) -> bool:
    """Whether a text is the line of one of these names."""
    return isinstance(text, Line) and text.name in names


def without_button(text: str) -> str:
    """Return the line for a user who has no button to continue an answer; most lines need none."""
    if isinstance(text, Line) and f"{text.name}.no_button" in ENGLISH.lines:
        return Line(f"{text.name}.no_button", text.values)
    return text


def in_language(text: str, language: Language) -> str:
    """Say a line in a language, as far as that has words for it; a text that is not a line stays as it is."""
    if not isinstance(text, Line):
        return text
    return str(text) if language is ENGLISH else _write(text.name, text.values, language)


def speaker(language: Language) -> Say:
    """Return what `notice` is in a language, for texts that are put together of several lines."""

    def say(name: str, /, **values: object) -> str:
        return in_language(notice(name, **values), language)

    return say


def find_language(tags: Iterable[str]) -> Language:
    """Return the language of the first tag (BCP 47, such as "pt-BR") that has one here; English where none has."""
    for tag in tags:
        code, *subtags = tag.strip().lower().replace("_", "-").split("-")
        if code in LANGUAGES and not (code == "zh" and _TRADITIONAL.intersection(subtags)):
            return LANGUAGES[code]
    return ENGLISH


def _write(name: str, values: Mapping[str, object], language: Language) -> str:
    """Fill a template; one that the language lacks is English."""
    source = language if name in language.lines else ENGLISH
    return _Filler(language).vformat(source.lines[name], (), values).strip()


class _Filler(Formatter):
    """Fills values into templates in the forms of a language."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, str):
            return in_language(value, self._language)
        if isinstance(value, date):
            month = self._language.lines["months"].split(", ")[value.month - 1]
            return self._language.lines["day"].format(day=value.day, month=month)
        if isinstance(value, Sequence):
            return (format_spec or ", ").join(in_language(each, self._language) for each in value)
        return self._language.number(value, format_spec)
