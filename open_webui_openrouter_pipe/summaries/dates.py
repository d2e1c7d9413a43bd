"""Dates and times of day: how they are written in eight languages, and what they mean.

Owns the patterns of dates and times, and their reading as year, day and month, and hour and minute. A date counts as a
whole: it must not take its year from another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from .quantities import LETTERS

Date: TypeAlias = tuple[str, tuple[int, ...]]
"""A year as written, "" without one, and day and month, the smaller first."""

_LETTER: Final = rf"0-9{LETTERS}"
_GAP: Final = "[ \u00a0\u202f]"
_HALF: Final = rf"{_GAP}?[AaPp]\.?[Mm]\b\.?"
TIME: Final = (
    rf"(?<!\d)(?:\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?:Z|[-+]\d{{2}}:?\d{{2}})?(?:{_HALF})?|\d{{1,2}}{_HALF})"
    rf"(?![{_LETTER}:])(?: (?:UTC|GMT|[A-Z]{{1,3}}T)\b)?"
)
_MONTH: Final = (
    "(?i:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?|janvier|f[ée]vrier|mars|avril|juin|juillet|ao[ûu]t"
    "|septembre|octobre|novembre|d[ée]cembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|sep?tiembre|octubre"
    "|noviembre|diciembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro|gennaio|febbraio"
    r"|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre)\b\.?"
)
_BEGINNINGS: Final = (
    "jan/ene/gen feb/fév/fev mar/mär apr/abr/avr may/mai/mag jun/juin/giu jul/juil/lug aug/aoû/aou/ago sep/set "
    "oct/okt/out/ott nov dec/dez/déc/dic"
)
_MONTHS: Final = {
    beginning: month
    for month, beginnings in enumerate(_BEGINNINGS.split(), start=1)
    for beginning in beginnings.split("/")
}
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|er|\.)?(?![\d:])"
_DAYS: Final = rf"{_DAY}(?:{_GAP}?(?:[-\u2013]|to|bis){_GAP}?{_DAY})?"
DATE: Final = (
    r"(?<!\d)(?:\d{4}(?P<mark>[-/.])\d{1,2}(?P=mark)\d{1,2}|\d{1,2}(?P<sign>[-/.])\d{1,2}(?P=sign)(?:\d{4}|\d{2})"
    r"|(?:\d{4}年)?\d{1,2}月\d{1,2}[日号號]"
    rf"|{_DAYS}(?:{_GAP}|-)(?:of |de )?{_MONTH}(?:(?:,?{_GAP}|-)(?:de |del )?\d{{4}})?"
    rf"|{_MONTH}{_GAP}{_DAYS}(?:,?{_GAP}\d{{4}})?)"
    rf"(?![\d/-]|\.\d|[{_LETTER}](?<!T))"
)
DATES: Final = re.compile(DATE)
TIMES: Final = re.compile(TIME)
_SHORT_DATES: Final = re.compile(r"(?<![\d./])(\d{1,2})(?:\.[ ]?(\d{1,2})\.|/(\d{1,2})(?![./]))(?!\d)")
"""Days and months that may as well be something else: read in a source, and not in a statement."""
_YEARS: Final = re.compile(r"(?<![\d.,])\d{4}(?![\d]|[.,]\d)")
_YEAR_CHARACTERS: Final = 20
"""How far a year may be from the day and month that it is of."""


def read_dates(text: str) -> Iterator[Date]:
    """Yield the dates of a source; one without a year has that which stands beside it, unless it is of another date."""
    found = list(DATES.finditer(text))
    for before, date, behind in zip([None, *found], found, [*found[1:], None], strict=False):
        first = max(before.end() if before else 0, date.start() - _YEAR_CHARACTERS)
        last = min(behind.start() if behind else len(text), date.end() + _YEAR_CHARACTERS)
        beside = _YEARS.findall(text, date.end(), last) + _YEARS.findall(text, first, date.start())
        for year, day in read_date(date[0]):
            yield from ((each, day) for each in ([year] if year else ["", *beside]))
    for one, other, another in _SHORT_DATES.findall(text):
        yield "", tuple(sorted((int(one), int(other or another))))


def read_date(text: str) -> Iterator[Date]:
    """Yield the days of a date, each with the year as written and day and month, the smaller first."""
    numbers = re.findall(r"\d+", text)
    names = (word.casefold() for word in re.findall(r"[^\W\d月]{3,}", text))
    month = next((month for name in names if (month := _MONTHS.get(name[:4]) or _MONTHS.get(name[:3]))), 0)
    is_short = month or "月" in text
    year = next(
        (number for number in numbers if len(number) == 4), "" if is_short or not numbers else numbers[-1]
    )
    days = [int(number) for number in numbers if number is not year]
    if month:
        yield from ((year, (min(day, month), max(day, month))) for day in days)
    else:
        yield year, tuple(sorted(days))


def read_time(text: str) -> Iterator[str]:
    """Yield the times on a clock of 24 hours that a time of day may mean."""
    hour, minute = (int(number) for number in (*re.findall(r"\d+", text), "0")[:2])
    half = re.search(r"[AaPp](?=\.?[Mm])", text)
    if half:
        hour = hour % 12 + (12 if half[0] in "Pp" else 0)
    yield f"{hour:02}:{minute:02}"
    if not half and 0 < hour < 12 and text[0] != "0":
        yield f"{hour + 12:02}:{minute:02}"
