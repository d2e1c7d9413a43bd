"""Puts placeholders of the same length in the place of all that somebody has written, in requests and answers. Pure.

What is kept is listed in `placeholders.txt`, closed lists alone: names of fields, and values of fields by the rule
of the field. Everything else is a text, and a text is `x` as often as it has characters: so the placeholders of deltas
joined are that of the whole text, and two texts of one length cannot be told apart. Names of tools, of users, and
whatever else is used to find one thing by another, have the same placeholder wherever they stand in a file.

What people fill in, as arguments, results and metadata, may have fields with the names of the API's, and says nothing
by them: there every text is `x`, and every number 1.

Of an error the wording is what matters, and it may quote the request or an answer. Known words of errors are kept, and
numbers beside units; but not between quotation marks or braces, where only words of the API are, and not what stands in
the request.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count, groupby
from typing import Any, Final

from ..responses.values import as_list, as_object

_FILLER: Final = "x"
_DIGITS: Final = "0123456789abcdefghijklmopqrstuvwyz"
"""Without the filler, and what names begin with."""
_MAX_WORDS_CHARACTERS: Final = 80
_MAX_NUMBER_DIGITS: Final = 7
_MAX_NUMBER_GROUPS: Final = 2
"""Of an amount, as 1.5 or 200,000; more of them in a row are an address, a telephone number or a date."""
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
_ENCODED: Final = re.compile(rf"^{_DATA.pattern}[A-Za-z0-9+/=]*")
_AMOUNT: Final = re.compile(r"\d{1,4}[a-z]?|\d{2,4}x\d{2,4}|\d{1,2}:\d{1,2}")
"""In words: a version, minutes, the size or the shape of a picture. A text has one at most."""
_PLACE: Final = re.compile(r"(?<=[a-z])(?:\[\d{1,3}\]|\.\d{1,3}(?=[.:]|$)|-20\d\d-\d\d-\d\d(?!\w))")
"""After a word: a position, as in `input[3].content` and `messages.3.content`, or the day of a version."""
_NUMBER: Final = re.compile(r"[0-9.]{1,15}")
_ERROR_NUMBER: Final = re.compile(rf"[0-9]{{1,{_MAX_NUMBER_DIGITS}}}|[0-9]{{1,3}}[hkms]")
_GLUE: Final = ("-", "/", "@", "+", "#")
_COMPARISONS: Final = frozenset({">", "<", ">=", "<=", "≥", "≤"})
_BESIDE: Final = re.compile(r"[ :=(<>≤≥$\"']{1,4}")
"""What may stand between a number and its unit."""
_MARK: Final = re.compile("['\"`“”„«»「」\n]")
_CLOSED: Final[Mapping[str, str]] = {"”": "“„", "“": "„", "»": "«", "«": "»", "」": "「"}
"""What these marks close; the others close themselves."""


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    """The lists by their heads; of two with the same name the second is one of words in texts."""
    lists: dict[str, frozenset[str]] = {}
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


@dataclass(frozen=True, eq=False)
class Said:
    """What a request says, to be found where an error quotes it; of one that is None nothing is known."""

    request: Any

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All numbers in its texts."""
        return frozenset(word for text in _texts(self.request) for word in re.findall(r"\d+", text))

    @cached_property
    def _phrases(self) -> frozenset[int]:
        """The hashes of each `_PHRASE_WORDS` words in a row; the words themselves would need much memory."""
        texts = (_WORD.findall(text.lower()) for text in _texts(self.request))
        return frozenset(hash(phrase) for words in texts for phrase in _phrases(words))

    def repeats(self, words: Sequence[str]) -> Sequence[int]:
        """Return at which of these words a phrase begins that also stands in it."""
        phrases = _phrases(words)
        return [start for start, each in enumerate(phrases) if hash(each) in self._phrases]


def _phrases(words: Sequence[str]) -> Sequence[tuple[str, ...]]:
    return [*zip(*(words[start:] for start in range(_PHRASE_WORDS)), strict=False)]


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

    def answer(self, value: Any, said: Said) -> Any:
        """Return the JSON value of an answer, or of an event of it, to a request that said this."""
        return self._value(value, "", said)

    def page(self, text: str, said: Said) -> str:
        """Return what came instead of JSON."""
        return _error_text(text, said)

    def _value(self, value: Any, key: str, said: Said | None) -> Any:
        """`key` is the field in which it stands."""
        match value:
            case dict():
                is_schemas = key == "properties"
                return {
                    self._key(name): self._filled_in(each)
                    if not is_schemas and _is_filled_in(each, name, value, said)
                    else self._value(each, "" if is_schemas else name, said)
                    for name, each in value.items()
                }
            case list():
                return [self._value(each, key, said) for each in value]
            case str():
                return self._text(value, _rules().get(key.lower(), ""), said)
            case bool() | None:
                return value
            case _:
                rule = _rules().get(key.lower(), "schema")
                if rule in {"ids", "names"}:
                    return self._name(str(value))
                return value if rule != "schema" and math.isfinite(value) else 1

    def _filled_in(self, value: Any) -> Any:
        """What somebody filled in."""
        match value:
            case dict():
                return {self._key(name): self._filled_in(each) for name, each in value.items()}
            case list():
                return [*map(self._filled_in, value)]
            case str():
                return _replaced(value)
            case _:
                return value if value is None or isinstance(value, bool) else 1

    def _key(self, name: str) -> str:
        return name if name.lower() in _rules() else self._name(name)

    def _text(self, text: str, rule: str, said: Said | None) -> str:
        match rule:
            case "ids":
                has_name = any(name in text for name in self._names if len(name) >= _PHRASE_WORDS)
                is_kept = _is_words(text) or (_ID.fullmatch(text) and not has_name)
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

    def _error(self, text: str, said: Said) -> str:
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


def _is_filled_in(value: Any, name: str, holder: Mapping[str, Any], said: Said | None) -> bool:
    """Whether people decide what stands in a field; a text is decided by its rule."""
    match name.lower():
        case _ if isinstance(value, str | bool | None):
            return False
        case "enum" | "default" | "const" | "examples" | "arguments" | "result":
            return True
        case "metadata":
            return said is None or "message" not in holder  # or else of an error
        case "input":  # in answers: what a validator quotes, or a tool got
            return said is not None or not isinstance(value, list)
        case "output":
            types = [as_object(each).get("type") for each in as_list(value)]
            return not isinstance(value, list) or not all(isinstance(x, str) and _is_words(x) for x in types)
        case _:
            return False


def _is_words(text: str, known: frozenset[str] | None = None) -> bool:
    """Whether a text is nothing but known words, by default those of the API, and one amount at most."""
    if len(text) > _MAX_WORDS_CHARACTERS or not _VALUE.fullmatch(text):
        return False
    known = _api_words() if known is None else known
    words = re.split(r"[^a-z0-9_:]+|:(?!\d)|(?<!\d):", _PLACE.sub(" ", text.lower()))
    unknown = [part for word in words if word not in known for part in word.split("_") if part]
    unknown = [part for part in unknown if part not in known]
    return len(unknown) <= 1 and all(map(_AMOUNT.fullmatch, unknown))


def _is_word(word: str, known: frozenset[str]) -> bool:
    """Whether it is one of these, or joined of them."""
    return word in known or all(part in known or not part for part in word.split("_"))


def _error_text(text: str, said: Said) -> str:
    """The text of an error: its known words and amounts, but no quotation."""
    if len(text) > _MAX_ERROR_CHARACTERS or said.request is None:
        return _replaced(text)
    words = list(_WORD.finditer(text))
    lowered = [found[0].lower() for found in words]
    kept = [_is_word(word, _error_words()) and not word.isdecimal() for word in lowered]
    for index in _amounts(text, words):
        kept[index] = lowered[index] not in said.numbers
    for start in said.repeats(lowered):
        kept[start : start + _PHRASE_WORDS] = [False] * _PHRASE_WORDS
    starts = [found.start() for found in words]
    for quoted in _quotations(text):
        first, end = (bisect_left(starts, place) for place in quoted)
        if not all(
            is_kept if word[:1].isdecimal() else _is_word(word, _api_words())
            for word, is_kept in zip(lowered[first:end], kept[first:end], strict=True)
        ):
            kept[first:end] = [False] * (end - first)
    characters = [character if character.isascii() else _FILLER for character in text]
    for found, is_kept in zip(words, kept, strict=True):
        characters[found.start() : found.end()] = found[0] if is_kept else _FILLER * len(found[0])
    return "".join(characters)


def _amounts(text: str, words: Sequence[re.Match[str]]) -> Iterator[int]:
    """Which words are numbers that a unit stands beside, or positions in a request."""
    near = ["", "", *(found[0].lower() for found in words), ""]
    rows = groupby(range(len(words)), lambda index: words[index][0][:1].isdecimal())
    for row in (list(indexes) for is_number, indexes in rows if is_number):
        first, last = row[0], row[-1]
        before = text[words[first - 1].end() if first else 0 : words[first].start()]
        after = text[words[last].end() : words[last + 1].start() if last + 1 < len(words) else len(text)]
        gaps = {text[words[index].end() : words[index + 1].start()] for index in row[:-1]}
        is_short = all(_ERROR_NUMBER.fullmatch(words[index][0]) for index in row)
        is_glued = before.endswith(_GLUE) or after.startswith(_GLUE)
        if len(row) > _MAX_NUMBER_GROUPS or not gaps <= {".", ","} or not is_short or is_glued:
            continue
        earlier, previous, following = near[first], near[first + 1], near[last + 3]
        unit = earlier if previous in {"is", "of", "to"} else previous
        if (
            (unit in _lists()["units"] and _BESIDE.fullmatch(before))
            or (following in _lists()["units"] and _BESIDE.fullmatch(after))
            or before.strip() in _COMPARISONS
            or words[last][0][-1:].isalpha()
            or (
                before in {".", "["}
                and previous in _error_words()
                and first == last
                and len(near[first + 2]) <= 3
            )
        ):
            yield from row


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    """Where something stands between quotation marks, or braces: their places. An apostrophe in a word is none."""
    if (brace := text.find("{")) >= 0:
        closed = text.rfind("}") + 1
        yield brace, closed if closed > text.rfind("{") else len(text)
    opened: dict[str, int] = {}
    for found in _MARK.finditer(text):
        mark, start, end = found[0], found.start(), found.end()
        opening = next((each for each in _CLOSED.get(mark, mark) if each in opened), "")
        is_pair = not mark.isascii()
        if mark == "\n":
            opened.clear()
        elif opening and (is_pair or not text[end : end + 1].isalnum()):
            yield opened.pop(opening), end
        elif is_pair or not text[start - 1 : start].isalnum():
            opened.setdefault(mark, start)


_SEALED: Final = frozenset({"encrypted_content", "signature"})


def _texts(value: Any, *, filled_in: bool = False) -> Iterator[str]:
    """All texts of a JSON value, and numbers that people filled in; not what is sealed or encoded."""
    match value:
        case str():
            yield _ENCODED.sub("", value, count=1)
        case dict():
            for name, each in value.items():
                if name not in _SEALED:
                    yield from _texts(each, filled_in=filled_in or _is_filled_in(each, name, value, None))
        case list():
            for each in value:
                yield from _texts(each, filled_in=filled_in)
        case int() | float() if filled_in:
            yield str(value)
