"""How people write quantities, dates and times: the patterns, as text to build others of.

Owns the units, currencies, months and the grammar around them. Everything is bounded or possessive, so that
no text makes a search slow.

What figures mean, however they are written: the values of numbers, the days of dates, the times of day.

Owns reading "1,234.50", "1.5k", "5 March" or "2:30 pm" as values that can be compared. Where a way of writing has
two meanings ("1,234", "3/5/2024"), it gives both. It must not judge whether a figure is true.

The loss receipt: which exact details a text holds, and which of them another text misses.

Owns what counts as an exact detail: quantities, dates and times, identifiers, paths, links, addresses, names
from code, quotations. It reads by rules alone and in linear time; it must not judge what matters.

Checking a summary against its source: no figure stands in it that nobody wrote.

Owns which words of a model state figures (numbers, amounts, dates, times, identifiers, paths, links), whether the
source holds them, perhaps written otherwise, and leaving out what is not founded. It reads by rules alone and in
linear time; it must not correct anything, and it says nothing about words without figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .summary import MODEL_LISTS, ModelSummary

LETTER = r"A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"
"""What words are made of in scripts that put spaces between them; other scripts end a token."""

_GAP = "[ \u00a0\u202f]"
_SYMBOLS = (
    "B kB KB MB GB TB PB EB KiB MiB GiB TiB PiB bit kbit Mbit Gbit bps kbps Kbps Mbps Gbps Tbps Hz kHz "
    "MHz GHz THz ns µs μs us ms s sec secs min mins h hr hrs d wk mo yr yrs nm µm μm um mm cm dm m km ft "
    "yd mi nmi ly pc m² km² cm² mm² ft² m2 km2 cm2 ft2 sqm sqft ha ac ml mL cl dl l L hl m³ cm³ mm³ km³ "
    "m3 cm3 cc gal qt pt oz lb lbs ng µg μg ug mg g kg t kt Mt °C °F ℃ ℉ ° K V mV kV A mA µA W mW kW MW "
    "GW TW Wh kWh MWh GWh TWh Ah mAh Ω kΩ MΩ µF nF pF mH dB dBA dBm Pa hPa kPa MPa GPa bar mbar psi atm "
    "mmHg N kN Nm J kJ MJ GJ cal kcal eV keV MeV GeV TeV mol mmol µmol ppm ppb rpm fps dpi ppi px em rem "
    "vh vw mph kph kn Bq kBq Sv mSv µSv lm lx cd IU FLOPS GFLOPS TFLOPS MIPS pp pct bp % ‰ \u00d7 x € $ £ "
    "¥ ₹ ₩ ₽ ₺ ₿ ¢"
)
_CURRENCIES = (
    "USD EUR GBP JPY CHF CNY INR AUD CAD SEK NOK DKK PLN CZK HUF BRL MXN ZAR KRW SGD HKD NZD TRY RUB UAH "
    "ILS AED SAR THB IDR BTC ETH USDT"
)
_WORDS = (
    "bytes? kilobytes? megabytes? gigabytes? terabytes? petabytes? bits? hertz kilohertz megahertz "
    "gigahertz nanoseconds? microseconds? milliseconds? seconds? minutes? hours? days? weeks? fortnights? "
    "months? quarters? years? decades? centur(?:y|ies) millimet(?:er|re)s? centimet(?:er|re)s? "
    "met(?:er|re)s? kilomet(?:er|re)s? inch(?:es)? foot feet yards? miles? acres? hectares? "
    "lit(?:er|re)s? millilit(?:er|re)s? gallons? pints? cups? tablespoons? teaspoons? grams? grammes? "
    "kilograms? kilos? milligrams? tons? tonnes? ounces? pounds? stones? degrees? celsius fahrenheit "
    "kelvin volts? amps? amperes? watts? kilowatts? megawatts? ohms? joules? calories? pascals? newtons? "
    "knots? decibels? pixels? dots? points? percent percentage basis dollars? cents? euros? pence yen "
    "yuan rupees? francs? rubles? people persons? men women children staff users? requests? tokens? rows? "
    "records? lines? files? pages? words? characters? columns? items? units? pieces? copies times rounds? "
    "turns? steps? cores? threads? nodes? replicas? workers? servers? dozen pairs? boxes barrels? sheep "
    "fish Sekunden? Minuten? Stunden? Tagen? Tage? Wochen? Monaten? Monate? Jahren? Jahre? Metern? "
    "Kilometern? Litern? Gramm Kilogramm Tonnen? Grad Prozent Stück Euro Personen Leute Seiten? Zeilen? "
    "secondes? heures? jours? semaines? mois années? ans? mètres? kilomètres? litres? grammes? pour_cent "
    "segundos? minutos? horas? días? semanas? meses años? metros? kilómetros? litros? gramos? por_ciento"
)
_VERBS = (
    "this was has his its does plus thus less versus always perhaps across unless besides is as us yes "
    "needs shows means says gives takes makes works runs uses gets goes fails fixes returns remains "
    "equals comes contains listens starts ends describes exists belongs stands holds applies towards "
    "afterwards"
)
_MULTIPLES = (
    "thousands? millions? billions? trillions? hundreds? lakhs? crores? Tausend Millionen Milliarden "
    "Million Milliarde milliers millones millions milliards mil"
)
_SHORT_MULTIPLES = "k K M m bn mn tn Mio\\.? Mrd\\.? Tsd\\.?"
_MONTHS = (
    "January February March April May June July August September October November December Jan Feb Mar "
    "Apr Jun Jul Aug Sept Sep Oct Nov Dec Januar Jänner Februar März Mai Juni Juli Oktober Dezember Dez "
    "Okt janvier février mars avril mai juin juillet août septembre octobre novembre décembre enero "
    "febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre gennaio febbraio "
    "aprile maggio giugno luglio settembre ottobre dicembre janeiro fevereiro março maio junho julho "
    "setembro outubro dezembro januari februari maart augustus december"
)
MONTHS = frozenset(_MONTHS.split())
"""The names of the months, also short ones."""
_DAYS = (
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mon Tues? Wed Thu(?:rs)? Fri Sat Sun Montag "
    "Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag lundi mardi mercredi jeudi vendredi samedi "
    "dimanche"
)
_ZONES = "UTC GMT CET CEST EST EDT CST CDT MST MDT PST PDT BST IST JST AEST MEZ MESZ"


def _any(words: str, *, escape: bool = False) -> str:
    """One of the words, the longest first."""
    chosen = sorted(set(words.split()), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(word) if escape else word.replace("_", " ") for word in chosen) + ")"


_ENDS = rf"(?![{LETTER}]|[-.:@/][{LETTER}]{{0,40}}\d)"
_DIGITS = (
    r"(?:\d{1,3}(?:[,.'\u2019\u00a0\u202f ]\d{3}){1,9}+(?!\d)(?:[.,]\d{1,30}+)?"
    r"|\d++(?:[.,/]\d{1,30}+)?(?:[eE][-+\u2212]?\d{1,4}+)?)(?![.,]?\d)"
)
NUMBER = rf"(?>[-+\u2212±]?{_DIGITS}(?:{_GAP}?[-\u2013—]{_GAP}?{_DIGITS})?)"
_MULTIPLE = rf"(?:{_any(_SHORT_MULTIPLES)}|(?i:{_any(_MULTIPLES)})){_ENDS}"
_NAMED_UNIT = (
    rf"(?:{_any(_SYMBOLS, escape=True)}|{_any(_CURRENCIES)}|(?i:{_any(_WORDS)})"
    r"(?: (?i:points|Celsius|Fahrenheit))?)"
)
_PREFIX = rf"(?:(?i:square|cubic|metric|nautical|fluid|light|sq\.?|cu\.?){_GAP})?"
_PER = rf"(?:{_GAP}?/{_GAP}?[{LETTER}²³]{{1,20}}|{_GAP}(?i:per|pro|par|por){_GAP}{_NAMED_UNIT}{_ENDS})?"
_UNIT = rf"{_PREFIX}{_NAMED_UNIT}{_ENDS}{_PER}"
_COUNTED = rf"(?!(?i:{_any(_VERBS)})\b)[A-Za-z]{{3,24}}+(?<=s){_ENDS}"
_MIXED = (
    rf"(?>\d{{1,4}}{_GAP}?)(?:years?|months?|weeks?|d|days?|h|hrs?|hours?|min|minutes?|ft|feet|lbs?|pounds?)"
    rf"(?:{_GAP}\d{{1,2}}{_GAP}?(?:months?|weeks?|days?|h|hrs?|hours?|m|min|minutes?|s|secs?|seconds?|in|inch(?:es)?|oz)"
    rf"(?![{LETTER}])){{1,3}}"
)
MEASURE = (
    rf"(?=[-+\u2212±]?\d)(?:{_MIXED}|(?>{NUMBER}{_GAP}?)(?=[^\d\s])(?:(?:{_MULTIPLE}{_GAP})?{_UNIT}"
    rf"|{_MULTIPLE}(?:{_GAP}{_COUNTED})?|{_COUNTED}"
    r"|[元円圆个個人件台年月日时時分秒万萬億亿公千米克度岁歳회원명개]{1,3}))"
)
MONEY = (
    rf"(?=[A-Z$€£¥₹₩₽₺₿])(?:(?:[A-Z]{{1,3}})?[$€£¥₹₩₽₺₿]{_GAP}?{_DIGITS}"
    rf"(?:{_GAP}?[-\u2013]{_GAP}?[$€£¥₹₩₽₺₿]?{_DIGITS})?(?:{_GAP}?{_MULTIPLE})?{_PER}"
    rf"|{_any(_CURRENCIES)}{_GAP}?{_DIGITS}(?:{_GAP}?{_MULTIPLE})?)"
)

_CLOCK = (
    rf"(?:\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?:{_GAP}?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b|Uhr\b|Z\b))?"
    rf"|\d{{1,2}}{_GAP}?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b|Uhr\b|o'clock\b))(?![\d:])"
    rf"(?:{_GAP}?(?:{_any(_ZONES)}\b(?:[-+]\d{{1,2}}(?::?\d{{2}})?)?|[-+]\d{{2}}:?\d{{2}}(?!\d)))?"
)
_MONTH = _any(_MONTHS)
_YEAR = r"\d{4}(?!\d)"
_DAY = r"\d{1,2}(?:st|nd|rd|th|er|º)?(?![\d:])"
_NUMERIC_DAY = (
    r"(?:\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{4}\.\d{1,2}\.\d{1,2}|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{2,4}"
    r"|\d{4}年\d{1,2}月(?:\d{1,2}日)?)(?![\d/-]|\.\d)"
)
_YEAR_AFTER = rf"(?:(?:,?{_GAP}|-)(?:de |of )?{_YEAR})"
_NAMED_DAY = (
    rf"(?:{_MONTH}\.?{_GAP}{_DAY}(?:,?{_GAP}{_YEAR})?|{_MONTH}\.?,?{_GAP}(?:de |of )?{_YEAR}"
    rf"|[QH][1-4][ /-]?{_YEAR})"
)
_COUNTED_DAY = rf"(?:{_DAY}\.?(?:{_GAP}|-)(?:of |de |d')?{_MONTH}\b\.?{_YEAR_AFTER}?|\d{{4}}[ -]?[QH][1-4])"
_WITH_CLOCK = rf"(?:(?:T|,?{_GAP}|{_GAP}(?:at|um){_GAP}){_CLOCK})?"
DATE = (
    rf"(?:(?=[A-Z])(?:(?:{_any(_DAYS)}\.?,?{_GAP})?{_NAMED_DAY}|{_any(_DAYS)}\.?,?{_GAP}{_COUNTED_DAY})"
    rf"|(?=\d)(?:{_NUMERIC_DAY}|{_COUNTED_DAY}))(?![{LETTER}](?<!T)){_WITH_CLOCK}|(?=\d){_CLOCK}"
)


NUMBER_figures: Final = (
    r"\d{1,3}(?:,\d{2,3}){0,8},\d{3}(?!\d)(?:\.\d{1,30}+)?"
    r"|\d{1,3}(?:(?P<mark>[.'\u2019_])\d{3})(?:(?P=mark)\d{3}){0,8}+(?!\d)(?:[.,]\d{1,30}+)?"
    r"|\d++(?:[.,]\d{1,30}+)?"
)
"""A number without spaces in it, also one of hundreds of digits."""

Day = tuple[int, int]
"""A month and a day of it."""
Date = tuple[set[Day], str]
"""The days that a date may mean, and its year, which may be empty or have two digits."""

_MULTIPLES_figures: Final = {
    **dict.fromkeys(("k", "K", "thousand", "tausend", "tsd"), 3),
    **dict.fromkeys(("M", "million", "millions", "millionen", "mio", "mn"), 6),
    **dict.fromkeys(("B", "bn", "billion", "billions", "milliarde", "milliarden", "mrd"), 9),
}
"""Words and letters behind a number, each with the zeros that it stands for."""
_MULTIPLE_figures: Final = re.compile(
    rf"[ \u00a0\u202f-]?((?-i:[kKMB])|(?i:{'|'.join(name for name in _MULTIPLES_figures if len(name) > 1)}))(?![{LETTER}])"  # noqa: E501
)
_NUMBER: Final = re.compile(NUMBER_figures)
_MULTIPLIED: Final = re.compile(rf"(?<![\d.,'\u2019_])(\d[\d.,'\u2019_]*+){_MULTIPLE_figures.pattern}")

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
_NUMERIC_DAY_figures: Final = re.compile(
    r"(?<![\d./-])(?:(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})(?![\d/-]|\.\d)"
    r"|(?P<one>\d{1,2})(?P<sign>[-/.])(?P<two>\d{1,2})(?P=sign)(?P<era>\d{4}|\d{2})(?![\d/-]|\.\d))"
)
_CLOCK_figures: Final = re.compile(
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
        multiple = _MULTIPLE_figures.match(text, found.end())
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

    return _CLOCK_figures.sub(take, text), found


def _decimal(whole: str, rest: str = "") -> str:
    whole, rest = whole.lstrip("0") or "0", rest.rstrip("0")
    return f"{whole}.{rest}" if rest else whole


def _multiplied(number: str, name: str) -> frozenset[str]:
    zeros = _MULTIPLES_figures[name if len(name) == 1 else name.lower()]
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
    {_NUMERIC_DAY_figures: _numeric_days, _DAY_FIRST: _named_days, _MONTH_FIRST: _named_days}
)
"""How each form of dates is read, in this order."""


LINK_CHARACTERS = 2_000
TOKEN_CHARACTERS = 300
"""A longer token is data, such as a picture in base64, and no detail."""
LEAST_BARE_DIGITS = 3

_FILE_ENDINGS = (
    "7z avi bak bat bmp bz2 c cc cfg conf cpp cs css csv db doc docx env epub gif go gz h hpp htm html "
    "ico ini ipynb jar java jpeg jpg js json jsonl jsx key kt lock log lua m4a md mkv mov mp3 mp4 odt ogg "
    "parquet pdf pem php png ppt pptx ps1 py pyi rar rb rs rst rtf scss sh sql sqlite svelte svg swift "
    "tar tex tgz toml ts tsv tsx txt vue wasm wav webm webp xls xlsx xml xsd yaml yml zip zst"
)

_LINK = (
    r"(?i:[a-z][a-z0-9+.-]{1,15}://|www\.|mailto:)"
    r"(?:[^\s<>\"`()\[\]]|\([^\s<>\"`()]{0,200}\))++"
)
_QUOTED = (
    rf"(?=[\"“„«\u2018「『'`])(?:(?<![{LETTER}])\"(?=\S)[^\"\n]{{2,200}}+\"(?![{LETTER}])"
    rf"|“[^“”\n]{{2,200}}+”|„[^„“”\n]{{2,200}}+[“”]|«[^«»\n]{{2,200}}+»"
    rf"|\u2018[^\u2018\u2019\n]{{2,200}}+\u2019(?![{LETTER}])|「[^「」\n]{{1,200}}+」|『[^『』\n]{{1,200}}+』"
    rf"|(?<![{LETTER}])'(?=\S)(?:[^'\n]|'(?=[{LETTER}])){{2,80}}+'(?![{LETTER}])"
    r"|(?<!`)`[^`\n]{1,200}+`(?!`))"
)
_WINDOWS_PATH = r"[A-Za-z]:\\(?:[^\\/:*?\"<>|\n]{1,80}\\){0,30}+[^\s\\/:*?\"<>|,;()]{0,200}"
_GROUPS = (
    r"\+\d{1,3}(?:[ -]?(?:\(\d{2,5}\)|\d{2,12})){1,6}+(?!\w)"
    r"|[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}+(?: [A-Z0-9]{1,3}\b)?"
    r"|\d{2,6}(?: \d{2,6}){2,6}+(?![\w.,])"
)
"""Telephone numbers, bank accounts, and other digits in groups."""
_BARE = rf"{NUMBER}(?![{LETTER}]|[./\\@#+:'\u2019~-]\w)"
_SHORT = r"\$\{\w{1,80}\}|--\w[\w-]{0,80}(?:=[^\s,;\"'`]{1,200})?"
_CAPITALS = r"(?<![A-Z][A-Z] )[A-Z]{4,40}(?![A-Za-z0-9_]|[.:/@#'\u2019-]\w| [A-Z]{2})"
"""A word in capitals, where its neighbours are none: a constant, and no shouting."""
_TOKEN = (
    rf"(?:[{LETTER}./\\@#$+\u2212-]|~(?=/)|(?<!\*)\*(?=\.\w))"
    rf"(?:[{LETTER}./\\@#$+:'\u2019~-]|\(\)|(?<=/)\*{{1,2}}(?=[/.]))*+(?:={{1,2}}(?![\w=]))?"
)
_NOTHING = rf"[^{LETTER}\d./\\@#$£€¥₹₩₽₺₿+\u2212±~*\"'`“„«\u2018「『-]++|data:[\w/+.-]{{1,80}};base64,[A-Za-z0-9+/=]*+"
"""Characters with which no detail begins, and data in text."""
_KINDS = {
    "link": _LINK,
    "quoted": _QUOTED,
    "date": DATE,
    "path": _WINDOWS_PATH,
    "groups": _GROUPS,
    "money": MONEY,
    "measure": MEASURE,
    "number": _BARE,
    "short": _SHORT,
    "capitals": _CAPITALS,
    "token": _TOKEN,
}

_DETAIL = re.compile("|".join([_NOTHING, *(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items())]))
_FILES = frozenset(_FILE_ENDINGS.split())
_NAME = re.compile(
    r"\w_\w|^__\w|[a-zà-ÿ][A-ZÀ-Þ]|\w\.\w\w|\w\w\.\w|\w::\w|\w->\w|\w\(\)|^--\w|^@\w|\w@\w|^\$\w"
)
_DIGIT = re.compile(r"\d")
_SMALL = re.compile(rf"[-+\u2212]?\d{{1,{LEAST_BARE_DIGITS - 1}}}|\d+(?:st|nd|rd|th)")
_ROOTS = ("/", "./", "../", "~/", "\\\\")
_LETTER = re.compile(rf"[{LETTER}]")
_PART_OF_NUMBER = (re.compile(r"\d[.,]"), re.compile(r"[.,]\d"))


def exact_details(text: str) -> tuple[str, ...]:
    """The exact details of a text, in their order, each once.

    Quotations and code keep their marks. Numbers without a unit count from three digits on.
    """
    return tuple(dict.fromkeys(detail for _, detail in _found(text)))


def mentioned_paths(text: str) -> tuple[str, ...]:
    """The links and the files that a text names, in their order, each once."""
    found = (detail for kind, detail in _found(text) if kind in {"link", "path"})
    return tuple(dict.fromkeys(found))


def missing_details(details: Iterable[str], text: str) -> tuple[str, ...]:
    """Those of the details that do not occur in the text, word for word and as a whole."""
    return tuple(detail for detail in details if not _occurs(detail, text))


def _found(text: str) -> Iterator[tuple[str, str]]:
    """Each detail with its kind."""
    for match in _DETAIL.finditer(text):
        kind, detail = match.lastgroup or "", match[0]
        if kind in {"link", "path"}:
            detail = detail.rstrip(".,;:!?'\u2019*_~")
            if len(detail) <= LINK_CHARACTERS:
                yield kind, detail
        elif kind == "token":
            yield from _in_token(detail)
        elif kind and (kind != "number" or _counts(detail)):
            yield kind, detail


def _in_token(token: str) -> Iterator[tuple[str, str]]:
    """What a word of unknown kind is, without the punctuation that follows it; nothing when it is plain."""
    token = token.rstrip(".:'\u2019+-\u2212\\~$#@")
    if not token or len(token) > TOKEN_CHARACTERS:
        return
    if _is_place(token):
        yield "path", token
    elif _NAME.search(token) or (_DIGIT.search(token) and _counts(token)):
        yield "name", token


def _counts(token: str) -> bool:
    """Whether a word with digits says more than a small number or a place in a list."""
    return _SMALL.fullmatch(token) is None


def _is_place(token: str) -> bool:
    """Whether a word names a file or a folder: by its root, its depth or its ending."""
    if not any(map(str.isalpha, token)):
        return False
    if token.startswith(_ROOTS) or (token[0] == "." and token[1:2].isalpha()):
        return True
    if "/" in token:
        return token.count("/") > 1 or token[-1] == "/" or any(mark in token for mark in "._-")
    stem, _, ending = token.rpartition(".")
    return "@" not in token and bool(stem) and ending.lower() in _FILES


def _occurs(detail: str, text: str) -> bool:
    at = text.find(detail)
    while at >= 0 and not _stands_alone(text, at, at + len(detail)):
        at = text.find(detail, at + 1)
    return at >= 0


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether a stretch of a text is no part of a longer word or number."""
    for inside, outside in ((text[start], text[start - 1 : start]), (text[end - 1], text[end : end + 1])):
        if _LETTER.match(inside) and _LETTER.match(outside):
            return False
    before, after = _PART_OF_NUMBER
    return not (
        (text[start].isdigit() and before.fullmatch(text[max(0, start - 2) : start]))
        or (text[end - 1].isdigit() and after.fullmatch(text[end : end + 2]))
    )


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
    rf"(?:{NUMBER_figures})(?:[-/x:](?:{NUMBER_figures.replace('mark', 'sign')}))?(?:[-./]?[^\W\d]+)*+"
)
_NUMBER_summary_check: Final = re.compile(NUMBER_figures)
_DIGIT_summary_check: Final = re.compile(r"\d")
_GROUPED: Final = re.compile(r"\d(?:[,'\u2019_\s]|\.\d{3}\.)\d")
_SPACE: Final = re.compile(r"\s")
_ORDINAL_summary_check: Final = re.compile(r"\d+(?:st|nd|rd|th)", re.IGNORECASE)
_HELD_TOGETHER: Final = re.compile(r"[-./\\:@+#_]")
_LINK_summary_check: Final = re.compile(
    rf"(?<![{LETTER}])(?i:[a-z][a-z0-9+.-]{{1,15}}://|www\.)[^\s<>\"`()\[\]]++"
)
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
class GroundingSource:
    """What was said and done, as what figures can be looked up in."""

    words: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[tuple[Day, str]]
    """Each with its year, empty where none stands beside it."""
    clocks: frozenset[str]
    pieces: str
    """Every run of letters and every run of digits, with one space between two."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> GroundingSource:
        """Read some texts once."""
        text = _plain("\n".join(texts))
        pieces = _pieces(text)
        words = {
            word
            for word in set(_WORD.findall(text))
            if len(word) <= TOKEN_CHARACTERS and _DIGIT_summary_check.search(word)
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
        links = _LINK_summary_check.findall(text)
        text = _LINK_summary_check.sub(" ", text)
        places = mentioned_paths(text)
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
        digits = len(_DIGIT_summary_check.findall(word))
        if not digits or word.casefold() in self.words or _ORDINAL_summary_check.fullmatch(word):
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


def drop_ungrounded(told: ModelSummary, texts: Iterable[str]) -> tuple[ModelSummary, tuple[str, ...]]:
    """What a model said without the entries and sentences that state figures which stand nowhere in the texts.

    Gives what was left out as well, in its order. What the model marks as its own conclusion stays.
    """
    source = GroundingSource.of(texts)
    left_out: list[str] = []

    def stays(words: str) -> bool:
        if CONCLUDED in words or source.founds(words):
            return True
        left_out.append(words)
        return False

    parts = [*_SENTENCE_END.split(told.summary_text), ""]
    sentences = zip(parts[::2], parts[1::2], strict=True)
    text = "".join(sentence + end for sentence, end in sentences if stays(sentence)).strip()
    lists = (tuple(filter(stays, getattr(told, name))) for name in MODEL_LISTS)
    return ModelSummary(text, *lists), tuple(left_out)


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
    return frozenset(value for found in _NUMBER_summary_check.finditer(joined) for value in values(found[0]))
