"""Checking a summary against its source: no figure stands in it that nobody wrote.

Owns which words of a model state figures (numbers, amounts, dates, times, identifiers, paths, links), whether the
source holds them, perhaps written otherwise, and leaving out what is not founded. It reads by rules alone and in
linear time; it must not correct anything, and it says nothing about words without figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .figures import NUMBER, Day, clocks_in, dates_in, is_small, multiplied_in, numbers_in, values
from .measures import LETTER
from .receipt import TOKEN_CHARACTERS, mentions
from .summary import TOLD_LISTS, Told

CONCLUDED: Final = "INFERRED:"
"""By this a model marks what it concludes itself; such words may hold figures of their own."""
LEAST_DIGITS: Final = 2
"""A name with fewer digits is an identifier only where marks hold it together."""
_TENS: Final = ("ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TEENS: Final = ("eleven", "twelve", "thirteen", "fourteen", "fifteen")
NUMBER_WORDS: Final = MappingProxyType(
    {word: str(10 * at) for at, word in enumerate(_TENS, start=1)}
    | {word: str(at) for at, word in enumerate(_TEENS, start=11)}
    | {"dozen": "12", "hundred": "100", "thousand": "1000", "million": "1000000"}
)
"""Numbers that are often written as words."""

_WORD: Final = re.compile(
    rf"(?<![{LETTER}.,])\d{{1,3}}(?:[ \u00a0\u202f]\d{{3}})++(?:[.,]\d{{1,30}}+)?(?![{LETTER}])"
    rf"|[{LETTER}]++(?:(?:[-./\\:@+#]{{1,3}}+(?=[{LETTER}])|(?<=\d)[,'\u2019](?=\d))[{LETTER}]++)*+"
)
"""A word with the marks inside it, or a number with spaces between its groups."""
_SAID_NUMBER: Final = re.compile(r"(?<!\d)(?<!\d\.)\d++\.\d++(?!\.\d)|\d++")
_SHORT_VERSION: Final = re.compile(r"(?<![\d.])\d{1,4}\.\d{1,4}(?=\.\d)")
_QUANTITY: Final = re.compile(
    rf"(?:(?i:mid|pre|post|early|late|sub|top|over|under|non|circa|ca)-|[A-Za-z]{{1,2}}(?=\d+\Z))?"
    rf"(?:{NUMBER})(?:[-/x:](?:{NUMBER.replace('mark', 'sign')}))?(?:[-./]?[^\W\d]+)*+"
)
_NUMBER: Final = re.compile(NUMBER)
_DIGIT: Final = re.compile(r"\d")
_GROUPED: Final = re.compile(r"\d(?:[,'\u2019_\s]|\.\d{3}\.)\d")
_SPACE: Final = re.compile(r"\s")
_ORDINAL: Final = re.compile(r"\d+(?:st|nd|rd|th)", re.IGNORECASE)
_HELD_TOGETHER: Final = re.compile(r"[-./\\:@+#_]")
_LINK: Final = re.compile(rf"(?<![{LETTER}])(?i:[a-z][a-z0-9+.-]{{1,15}}://|www\.)[^\s<>\"`()\[\]]++")
_NEEDLESS: Final = re.compile(r"\A(?i:[a-z][a-z0-9+.-]{1,15}://(?:www\.)?|www\.|v(?=\d))")
"""How links and versions begin, with or without it."""
_ROOT: Final = re.compile(r"\.{0,2}/|~/|\\\\|[A-Za-z]:\\")
_ESCAPE: Final = re.compile(r"\\[nrt]")
_UNIFORM: Final = str.maketrans(dict.fromkeys('*`"“”„«»', " ") | dict.fromkeys("\u2010\u2011\u2212", "-"))
"""Emphasis and quotation marks do not count, and hyphens are all the same."""
_LIST_NUMBER: Final = re.compile(r"^[ \t]*+(?:[-*+•][ \t]++)?\d{1,3}[.)](?=\s)", re.MULTILINE)
_PIECE: Final = re.compile(rf"\d+|(?:(?![\d_])[{LETTER}])+|[^\W{LETTER}]+")
_LEADING_ZEROS: Final = re.compile(r"(?<= )0+(?=\d)")
_SENTENCE_END: Final = re.compile(
    r"((?:(?<=[.!?…])|(?<=[.!?…][\"”\u2019)*]))[ \t]+(?=[^a-z0-9\s])|(?<=[。\uff01\uff1f])|\n\s*+)"
)
"""An abbreviation before a small letter or a number ends no sentence."""


@dataclass(frozen=True, slots=True)
class Source:
    """What was said and done, as what figures can be looked up in."""

    words: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[tuple[Day, str]]
    """Each with its year, empty where none stands beside it."""
    clocks: frozenset[str]
    pieces: str
    """Every run of letters and every run of digits, with one space between two."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Source:
        """Read some texts once."""
        text = _plain("\n".join(texts))
        pieces = _pieces(text)
        words = {
            word for word in set(_WORD.findall(text)) if len(word) <= TOKEN_CHARACTERS and _DIGIT.search(word)
        }
        _, dates = dates_in(text)
        _, clocks = clocks_in(text)
        said = {*_SAID_NUMBER.findall(text), *_SHORT_VERSION.findall(text)}
        numbers = {value for number in said for value in values(number)}
        numbers |= {value for word in words if _GROUPED.search(word) for value in _values_in(word)}
        numbers |= {f"20{year}" for _, year in dates if len(year) == 2}
        numbers |= {value for word, value in NUMBER_WORDS.items() if f" {word} " in pieces}
        return cls(
            frozenset(map(str.casefold, words)),
            frozenset(numbers | multiplied_in(text)),
            frozenset((day, shown) for days, year in dates for day in days for shown in _years(year)),
            frozenset(shown for clock in clocks for time in clock for shown in (time, time[:-3])),
            pieces,
        )

    def founds(self, text: str) -> bool:
        """Whether all figures that a text states stand here."""
        text = _LIST_NUMBER.sub("", _plain(text))
        links = _LINK.findall(text)
        text = _LINK.sub(" ", text)
        places = mentions(text)
        text, dates = dates_in(text)
        text, clocks = clocks_in(text)
        return (
            all(any(self._has_date(day, year) for day in days) for days, year in dates)
            and not any(map(self.clocks.isdisjoint, clocks))
            and all(map(self._has, links))
            and all(map(self._has_place, places))
            and all(self._has_word(found, text) for found in _WORD.finditer(text))
        )

    def _has(self, name: str) -> bool:
        """Whether a name stands here, whatever marks are in it."""
        pieces = _pieces(_NEEDLESS.sub("", name))
        return pieces.isspace() or pieces in self.pieces

    def _has_date(self, day: Day, year: str) -> bool:
        """Whether a day stands here: in its year, or one of them without a year while the year stands elsewhere."""
        years = _years(year)
        if not year:
            return any(found == day for found, _ in self.days)
        apart = (day, "") in self.days and not self.numbers.isdisjoint(years)
        return apart or any((day, shown) in self.days for shown in years)

    def _has_place(self, place: str) -> bool:
        """Whether a path stands here; of a file without a folder, its name without the ending is enough."""
        folder, _, file = place.replace("\\", "/").rpartition("/")
        if not folder:
            return self._has(file.rpartition(".")[0] or place)
        return self._has(place) or not (_ROOT.match(place) or "." in file)

    def _has_word(self, found: re.Match[str], text: str) -> bool:
        word = found[0]
        digits = len(_DIGIT.findall(word))
        if not digits or word.casefold() in self.words or _ORDINAL.fullmatch(word):
            return True
        if _SPACE.search(word):
            return self._has_number(_values_in(word)) or self._has_each(word.split(" "))
        numbers = [*numbers_in(text, *found.span())] if _QUANTITY.fullmatch(word) else []
        if numbers and all(numbers):
            return all(map(self._has_number, numbers))
        return (digits < LEAST_DIGITS and not _HELD_TOGETHER.search(word)) or self._has(word)

    def _has_each(self, groups: Sequence[str]) -> bool:
        """Whether numbers that stand side by side are here, rather than one number in groups of digits."""
        return all(group[0] != "0" and not values(group).isdisjoint(self.numbers) for group in groups)

    def _has_number(self, meanings: frozenset[str]) -> bool:
        return all(map(is_small, meanings)) or not meanings.isdisjoint(self.numbers)


def founded(told: Told, texts: Iterable[str]) -> tuple[Told, tuple[str, ...]]:
    """What a model said without the entries and sentences that state figures which stand nowhere in the texts.

    Gives what was left out as well, in its order. What the model marks as its own conclusion stays.
    """
    source = Source.of(texts)
    left_out: list[str] = []

    def stays(words: str) -> bool:
        if CONCLUDED in words or source.founds(words):
            return True
        left_out.append(words)
        return False

    parts = [*_SENTENCE_END.split(told.summary_text), ""]
    sentences = zip(parts[::2], parts[1::2], strict=True)
    text = "".join(sentence + end for sentence, end in sentences if stays(sentence)).strip()
    lists = (tuple(filter(stays, getattr(told, name))) for name in TOLD_LISTS)
    return Told(text, *lists), tuple(left_out)


def _years(year: str) -> frozenset[str]:
    """How a year may be written."""
    return frozenset({year, f"20{year}" if len(year) == len("24") else year})


def _plain(text: str) -> str:
    """The text without emphasis, quotation marks and escapes of line ends."""
    return _ESCAPE.sub(" ", text).translate(_UNIFORM)


def _pieces(text: str) -> str:
    return _LEADING_ZEROS.sub("", f" {' '.join(_PIECE.findall(text.casefold()))} ")


def _values_in(word: str) -> frozenset[str]:
    """What the numbers of a word may mean, groups joined."""
    joined = _SPACE.sub("", word)
    return frozenset(value for found in _NUMBER.finditer(joined) for value in values(found[0]))
