"""Puts placeholders of the same length in the place of all that somebody has written, in requests and answers. Pure.

What is kept is listed in `placeholders.txt`, closed lists alone: names of fields, and values of fields by the rule
of the field. Everything else is a text, and a text is `x` as often as it has characters: so the placeholders of deltas
joined are that of the whole text, and two texts of one length cannot be told apart. Names of tools, of users, and
whatever else is used to find one thing by another, have the same placeholder wherever they stand in a file.

Of an error the wording is what matters, and it may quote the request. Known words of errors and short numbers are kept,
but not between quotation marks, where only words of the API are, and not what stands in the request.
"""

from __future__ import annotations

import json
import pkgutil
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, Final

from ..responses.values import as_list, as_object

_FILLER: Final = "x"
_DIGITS: Final = "0123456789abcdefghijklmopqrstuvwyz"
"""Without the filler, and what names begin with."""
_MAX_WORDS_CHARACTERS: Final = 80
_MAX_NUMBER_DIGITS: Final = 7
_MAX_ERROR_CHARACTERS: Final = 20_000
"""A longer text of an error is replaced like any other."""
_PHRASE_WORDS: Final = 4
"""So many words in a row that also stand in the request are a quotation of it."""

_ID: Final = re.compile(
    r"(?:gen|resp|msg|rs|fc|fco|call|toolu|srvtoolu|ws|st|ig|req|chatcmpl)(?:_tmp)?[_-](?=\D*\d)[A-Za-z0-9_-]{4,80}"
)
_MODEL: Final = re.compile(r"~?([a-z0-9-]+)/[a-z0-9._-]{1,80}(?::([a-z-]+))?")
_WORD: Final = re.compile(r"\w+")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.:;=/,\[\] -]*")
_DATA: Final = re.compile(r"data:([a-z]+/[a-z0-9.+-]+)(?:;charset=[a-z0-9-]+)?;base64,")
_AMOUNT: Final = re.compile(r"\d{1,4}[a-z]?|\d{2,4}x\d{2,4}|")
"""In words: a version, minutes, the size of a picture."""
_NUMBER: Final = re.compile(r"[0-9.]{1,15}")
_MARK: Final = re.compile("['\"`“”\n]")


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    """The lists by their heads; of two with the same name the second is one of words in texts."""
    lists: dict[str, frozenset[str]] = {}
    name = ""
    for line in (pkgutil.get_data(__package__, "placeholders.txt") or b"").decode().splitlines():
        if line.startswith("# "):
            name = line[2:].partition(":")[0]
            name = f"{name} of texts" if name in lists else name
            lists[name] = frozenset()
        else:
            lists[name] |= frozenset(line.split())
    return lists


@cache
def _rules() -> Mapping[str, str]:
    """The rule of each known field."""
    kinds = ("ids", "models", "names", "fields", "words", "numbers", "errors", "data", "texts", "schema")
    return {name: kind for kind in kinds for name in _lists()[kind]}


@cache
def _api_words() -> frozenset[str]:
    return _lists()["api"] | _lists()["providers"] | _rules().keys()


@cache
def _error_words() -> frozenset[str]:
    """The listed words, and those by which refusals are known, so that a recorded error is known by them as well."""
    refusals = (pkgutil.get_data(__package__, "refusals.txt") or b"").decode().lower()
    return _api_words() | _lists()["errors of texts"] | frozenset(_WORD.findall(refusals))


@dataclass(frozen=True, slots=True)
class _Said:
    """What a request says, to be found where an error quotes it."""

    request: Any

    def repeats(self, phrases: Collection[tuple[str, ...]]) -> Collection[tuple[str, ...]]:
        """Return those of the phrases, each of one word or of `_PHRASE_WORDS`, that stand in it."""
        found = set[tuple[str, ...]]()
        for text in _texts(self.request):
            last = deque[str](maxlen=_PHRASE_WORDS)
            for word in _WORD.finditer(text):
                last.append(word[0].lower())
                found.update(each for each in ((last[-1],), tuple(last)) if each in phrases)
        return found


@dataclass(slots=True, eq=False)
class Placeholders:
    """Those of one file, in which a name has the same one wherever it stands."""

    _names: dict[str, str] = field(default_factory=dict)
    _given: set[str] = field(default_factory=set)

    def request(self, body: Any) -> Any:
        """Return the JSON value of a request with placeholders."""
        for key in ("tools", "input"):
            for each in map(as_object, as_list(as_object(body).get(key))):
                if isinstance(name := each.get("name"), str):
                    self._name(name)  # before ids, which may hold it
        return self._value(body, "", None)

    def answer(self, value: Any, request: Any) -> Any:
        """Return the JSON value of an answer, or of an event of it, to this request, as that was."""
        return self._value(value, "", _Said(request))

    def page(self, text: str, request: Any) -> str:
        """Return what came instead of JSON."""
        return _error_text(text, _Said(request))

    def _value(self, value: Any, key: str, said: _Said | None) -> Any:
        match value:
            case dict():
                return {
                    name if name.lower() in _rules() else self._name(name): self._value(each, name, said)
                    for name, each in value.items()
                }
            case list():
                return [self._value(each, key, said) for each in value]
            case str():
                return self._text(value, _rules().get(key.lower(), ""), said)
            case bool() | None:
                return value
            case _:
                is_kept = _rules().get(key.lower(), "schema") != "schema"
                return value if is_kept else json.loads(re.sub("[1-9]", "1", str(value)))

    def _text(self, text: str, rule: str, said: _Said | None) -> str:
        match rule:
            case "ids":
                is_kept = _is_words(text) or (_ID.fullmatch(text) and not self._has_name(text))
                shown = text if is_kept else self._name(text)
            case "errors" if said:
                shown = self._error(text, said)
            case "words" | "errors":
                shown = text if _is_words(text, _error_words()) else _replaced(text)
            case "numbers":
                shown = text if _NUMBER.fullmatch(text) else _replaced(text)
            case "models":
                shown = self._model(text)
            case "fields":
                shown = text if text.lower() in _rules() else self._name(text)
            case "names":
                shown = self._name(text)
            case _:
                found = _DATA.match(text) if rule == "data" else None
                start = found[0] if found and _is_words(found[1]) else ""
                filler = "A" if start else _FILLER
                shown = start + filler * (len(text) - len(start))
        return shown

    def _model(self, text: str) -> str:
        base, is_preset, preset = text.partition("@preset/")
        found = _MODEL.fullmatch(base)
        is_known = (
            found and found[1] in _lists()["authors"] and (not found[2] or found[2] in _lists()["variants"])
        )
        kept = base if is_known or not base else self._name(base)
        return f"{kept}{is_preset}{self._name(preset) if preset else ''}"

    def _error(self, text: str, said: _Said) -> str:
        """The text of an error; JSON in it, as providers' own errors are, is read, and has blanks at its end."""
        start = text.find("{") if text.lstrip()[:1] != "[" else 0
        try:
            inner, end = json.JSONDecoder().raw_decode(text, start)
        except ValueError:
            return _error_text(text, said)
        if not isinstance(inner, dict | list):
            return _error_text(text, said)
        written = json.dumps(self._value(inner, "", said), ensure_ascii=False, separators=(",", ":"))
        before, after = _error_text(text[:start], said), _error_text(text[end:], said)
        return f"{before}{written.ljust(end - start)}{after}"

    def _has_name(self, text: str) -> bool:
        return any(name in text for name in self._names if len(name) >= _PHRASE_WORDS)

    def _name(self, name: str) -> str:
        """The placeholder of a name: of its length, as far as there are any left."""
        if name not in self._names:
            candidates = (_numbered(number, len(name)) for number in count(len(self._names)))
            self._names[name] = next(each for each in candidates if each not in self._given)
            self._given.add(self._names[name])
        return self._names[name]


def _numbered(number: int, characters: int) -> str:
    """A name made of a number: of this length where that has room for it."""
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return f"n{digits}".ljust(characters, _FILLER) if characters > len(digits) else digits


def _replaced(text: str) -> str:
    return _FILLER * len(text)


def _is_words(text: str, known: frozenset[str] | None = None) -> bool:
    """Whether a text is nothing but known words, by default those of the API, and short numbers."""
    if len(text) > _MAX_WORDS_CHARACTERS or not _VALUE.fullmatch(text):
        return False
    known = _api_words() if known is None else known
    return all(_is_word(word, known) for word in re.split(r"[^A-Za-z0-9_]+", text.lower()) if word)


def _is_word(word: str, known: frozenset[str]) -> bool:
    """Whether it is one of these, or joined of them."""
    return word in known or all(part in known or _AMOUNT.fullmatch(part) for part in word.split("_"))


def _error_text(text: str, said: _Said) -> str:
    """The text of an error: its known words and short numbers, but no quotation."""
    if len(text) > _MAX_ERROR_CHARACTERS:
        return _replaced(text)
    words = list(_WORD.finditer(text))
    lowered = [found[0].lower() for found in words]
    phrases = list(zip(*(lowered[start:] for start in range(_PHRASE_WORDS)), strict=False))
    repeated = said.repeats({*phrases, *((word,) for word in lowered if word.isdigit())})
    kept = [_is_word(word, _error_words()) for word in lowered]
    for index, word in enumerate(lowered):
        if word.isdigit():
            kept[index] = len(word) <= _MAX_NUMBER_DIGITS and (word,) not in repeated
    for start, phrase in enumerate(phrases):
        if phrase in repeated:
            kept[start : start + _PHRASE_WORDS] = [False] * _PHRASE_WORDS
    starts = [found.start() for found in words]
    for quoted in _quotations(text):
        first, end = (bisect_left(starts, place) for place in quoted)
        if not all(_is_word(word, _api_words()) for word in lowered[first:end]):
            kept[first:end] = [False] * (end - first)
    characters = [character if character.isascii() else _FILLER for character in text]
    for found, is_kept in zip(words, kept, strict=True):
        characters[found.start() : found.end()] = found[0] if is_kept else _FILLER * len(found[0])
    return "".join(characters)


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """Where something stands between quotation marks: their places. An apostrophe within a word is none."""
    opened: dict[str, int] = {}
    for found in _MARK.finditer(text):
        mark, start, end = found[0], found.start(), found.end()
        opening = "“" if mark == "”" else mark
        if mark == "\n":
            opened.clear()
        elif mark != "“" and opening in opened and not text[end : end + 1].isalnum():
            yield opened.pop(opening), end
        elif mark != "”" and not text[start - 1 : start].isalnum():
            opened.setdefault(mark, start)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
