"""What figures mean, however they are written: the values of numbers, the days of dates, the times of day.

Owns reading "1,234.50", "1.5k", "5 March" or "2:30 pm" as values that can be compared. Where a way of writing has
two meanings ("1,234", "3/5/2024"), it gives both. It must not judge whether a figure is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from .measures import LETTER, MONTHS

NUMBER: Final = (
    r"\d{1,3}(?:,\d{2,3}){0,8},\d{3}(?!\d)(?:\.\d{1,30}+)?"
    r"|\d{1,3}(?:(?P<mark>[.'\u2019_])\d{3})(?:(?P=mark)\d{3}){0,8}+(?!\d)(?:[.,]\d{1,30}+)?"
    r"|\d++(?:[.,]\d{1,30}+)?"
)
"""A number without spaces in it, also one of hundreds of digits."""

Day = tuple[int, int]
"""A month and a day of it."""
Date = tuple[set[Day], str]
"""The days that a date may mean, and its year, which may be empty or have two digits."""

_MULTIPLES: Final = {
    **dict.fromkeys(("k", "K", "thousand", "tausend", "tsd"), 3),
    **dict.fromkeys(("M", "million", "millions", "millionen", "mio", "mn"), 6),
    **dict.fromkeys(("B", "bn", "billion", "billions", "milliarde", "milliarden", "mrd"), 9),
}
"""Words and letters behind a number, each with the zeros that it stands for."""
_MULTIPLE: Final = re.compile(
    rf"[ \u00a0\u202f-]?((?-i:[kKMB])|(?i:{'|'.join(name for name in _MULTIPLES if len(name) > 1)}))(?![{LETTER}])"
)
_NUMBER: Final = re.compile(NUMBER)
_MULTIPLIED: Final = re.compile(rf"(?<![\d.,'\u2019_])(\d[\d.,'\u2019_]*+){_MULTIPLE.pattern}")

_MONTH_BEGINNINGS: Final = (
    ("jan", "jän", "ene", "gen"),
    ("feb", "fév", "fev"),
    ("mar", "mär", "maa"),
    ("apr", "avr", "abr"),
    ("may", "mai", "mag"),
    ("jun", "juin", "giu"),
    ("jul", "juil", "lug"),
    ("aug", "aoû", "ago"),
    ("sep", "set"),
    ("oct", "okt", "ott", "out"),
    ("nov",),
    ("dec", "déc", "dez", "dic"),
)
"""How the names of the months begin in the languages whose names `measures` knows."""
_ORDINAL: Final = "(?:st|nd|rd|th|er|º)?"
_TO: Final = r"\.?[ \u00a0]?(?:[-\u2013]|to|bis)[ \u00a0]?"
_DAY_FIRST: Final = re.compile(
    rf"(?<![\d.,:/-])(?:(?P<one>\d{{1,2}}){_ORDINAL}{_TO})?(?P<two>\d{{1,2}}){_ORDINAL}\.?"
    r"[ \u00a0-](?:of |de |d')?(?P<month>[^\W\d_]{3,10}+)"
)
_MONTH_FIRST: Final = re.compile(
    rf"(?<!\w)(?P<month>[^\W\d_]{{3,10}}+)\.?[ \u00a0](?P<one>\d{{1,2}}){_ORDINAL}(?![\d:]|[.,]\d)"
    rf"(?:{_TO}(?P<two>\d{{1,2}}){_ORDINAL}(?![\d:]))?"
)
_NUMERIC_DAY: Final = re.compile(
    r"(?<![\d./-])(?:(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})(?![\d/-]|\.\d)"
    r"|(?P<one>\d{1,2})(?P<sign>[-/.])(?P<two>\d{1,2})(?P=sign)(?P<era>\d{4}|\d{2})(?![\d/-]|\.\d))"
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.,])(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?![\d:])"
    r"(?:[ \u00a0\u202f]?(?P<half>[AaPp])\.?[Mm]\b)?"
)


def values(number: str) -> frozenset[str]:
    """What a number may mean, as plain decimals without needless zeros: "1,234" is 1234 or 1.234.

    Nothing for what is none, such as an address of four numbers.
    """
    if number.isdigit():
        return frozenset({_decimal(number)})
    plain = re.sub(r"['\u2019_\s]", "", number)
    marks = re.findall(r"[.,]", plain)
    if not marks:
        return frozenset({_decimal(plain)})
    whole, _, rest = plain.rpartition(marks[-1])
    found = set()
    if marks.count(marks[-1]) == 1:
        found.add(_decimal(re.sub(r"\D", "", whole), rest))
    if len(rest) == 3 and len(set(marks)) == 1:
        found.add(_decimal(re.sub(r"\D", "", plain)))
    return frozenset(found)


def numbers_in(text: str, start: int, end: int) -> Iterator[frozenset[str]]:
    """The numbers between two places of a text, each with its values; a multiple behind it counts."""
    for found in _NUMBER.finditer(text, start, end):
        multiple = _MULTIPLE.match(text, found.end())
        yield values(found[0]) | (_multiplied(found[0], multiple[1]) if multiple else frozenset())


def multiplied_in(text: str) -> set[str]:
    """The values of all numbers with a multiple behind them."""
    found = set(_MULTIPLIED.findall(text))
    return {value for number, name in found for value in _multiplied(number.rstrip(".,'\u2019_"), name)}


def is_small(value: str) -> bool:
    """Whether a value has one digit only."""
    return len(value) < 2


def dates_in(text: str) -> tuple[str, list[Date]]:
    """The text without its dates, and the dates.

    A year that stands beside the name of a month is left in the text.
    """
    found: list[Date] = []

    def take(match: re.Match[str]) -> str:
        days = _READERS[match.re](match)
        found.extend(days)
        return " " if days else match[0]

    for form in _READERS:
        text = form.sub(take, text)
    return text, found


def clocks_in(text: str) -> tuple[str, list[set[str]]]:
    """The text without its times of day, and each of them as what it may be on a clock of 24 hours."""
    found: list[set[str]] = []

    def take(match: re.Match[str]) -> str:
        hour, minute = int(match["hour"]), int(match["minute"])
        if hour > 24 or minute > 59:
            return match[0]
        hours = {hour, hour % 12 + 12 * (match["half"] in "pP")} if match["half"] else {hour}
        second = f":{match['second']}" if match["second"] else ""
        found.append({f"{each}:{minute:02}{second}" for each in hours})
        return " "

    return _CLOCK.sub(take, text), found


def _decimal(whole: str, rest: str = "") -> str:
    whole, rest = whole.lstrip("0") or "0", rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def _multiplied(number: str, name: str) -> frozenset[str]:
    zeros = _MULTIPLES[name if len(name) == 1 else name.lower()]
    return frozenset(_shifted(value, zeros) for value in values(number))


def _shifted(value: str, zeros: int) -> str:
    whole, _, rest = value.partition(".")
    digits = rest.ljust(zeros, "0")
    return _decimal(whole + digits[:zeros], digits[zeros:])


def _numeric_days(match: re.Match[str]) -> list[Date]:
    if match["year"]:
        pairs = [(int(match["month"]), int(match["day"]))]
    else:
        one, two = int(match["one"]), int(match["two"])
        pairs = [(one, two), (two, one)]
    real = {(month, day) for month, day in pairs if 1 <= month <= 12 and 1 <= day <= 31}
    return [(real, match["year"] or match["era"])] if real else []


def _named_days(match: re.Match[str]) -> list[Date]:
    """One date, or two for a stretch of days."""
    if match["month"] not in MONTHS:
        return []
    name = match["month"].lower()
    month = next(at for at, beginnings in enumerate(_MONTH_BEGINNINGS, 1) if name.startswith(beginnings))
    return [({(month, int(day))}, "") for day in (match["one"], match["two"]) if day]


_READERS: Final[Mapping[re.Pattern[str], Callable[[re.Match[str]], list[Date]]]] = MappingProxyType(
    {_NUMERIC_DAY: _numeric_days, _DAY_FIRST: _named_days, _MONTH_FIRST: _named_days}
)
"""How each form of dates is read, in this order."""
