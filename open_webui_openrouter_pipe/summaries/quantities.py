"""Numbers as words, and quantities in other units: what lets "zwölf" support 12, and "90 minutes" 1.5 hours.

Owns the words for numbers up to a hundred in eight languages, and the units of time, length, weight and data that
convert into each other exactly. It must not round: what is nearly the same is not the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

LETTERS: Final = r"A-Za-z_\u00c0-\u024f\u0370-\u052f"
"""Letters of scripts that put spaces between words; other scripts end a word."""
NUMBER: Final = (
    "(?:\\d{1,3}(?:[,.'\u2019_]\\d{3}|[ \u00a0\u202f]\\d{3}){1,9}+(?!\\d)|\\d++)(?:[.,]\\d{1,30}+)?"
)

MAX_CHARACTERS: Final = 40
"""A longer number is data and not a quantity."""

Quantity: TypeAlias = tuple[str, Fraction]
"""A dimension, and how many of its smallest unit."""


# --- numbers as words ---


def _tens(words: str) -> dict[str, int]:
    return {word: 10 * ten for ten, each in enumerate(words.split(), start=1) for word in each.split("/")}


def _from(first: int, words: str) -> dict[str, int]:
    return {word: at for at, each in enumerate(words.split(), start=first) for word in each.split("/")}


def _combined(tens: Mapping[str, int], ones: Mapping[str, int], form: str) -> dict[str, int]:
    return {
        form.format(ten=ten, one=one): value + digit
        for ten, value in tens.items()
        for one, digit in ones.items()
        if value > 10
    }


def _english() -> dict[str, int]:
    ones = _from(1, "one two three four five six seven eight nine")
    tens = _tens("ten twenty thirty forty fifty sixty seventy eighty ninety")
    teens = _from(11, "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
    large = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000}
    return {**ones, **tens, **teens, **large, **_combined(tens, ones, "{ten} {one}")}


def _german() -> dict[str, int]:
    ones = _from(1, "ein/eine/einen/einer/eins zwei drei vier fünf sechs sieben acht neun")
    tens = _tens("zehn zwanzig dreissig vierzig fünfzig sechzig siebzig achtzig neunzig")
    teens = _from(11, "elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn")
    large = {"dutzend": 12, "hundert": 100, "tausend": 1_000, "million": 1_000_000}
    return {**ones, **tens, **teens, **large, **_combined(tens, ones, "{one}und{ten}")}


def _french() -> dict[str, int]:
    ones = _from(1, "un/une deux trois quatre cinq six sept huit neuf")
    tens = _tens("dix vingt trente quarante cinquante soixante")
    teens = _from(11, "onze douze treize quatorze quinze seize") | {
        f"dix {word}": 10 + value for word, value in ones.items() if value > 6
    }
    below_twenty = {**ones, "dix": 10, **teens}
    eighties = {f"quatre {word}": 80 for word in ("vingt", "vingts")} | {
        f"quatre vingt {word}": 80 + value for word, value in below_twenty.items()
    }
    sixties = {f"soixante {word}": 60 + value for word, value in below_twenty.items()} | {
        "soixante et onze": 71
    }
    combined = _combined(tens, ones, "{ten} {one}") | _combined(tens, {"un": 1, "une": 1}, "{ten} et {one}")
    large = {"douzaine": 12, "cent": 100, "mille": 1_000}
    return {**below_twenty, **tens, **combined, **sixties, **eighties, **large}


def _spanish() -> dict[str, int]:
    ones = _from(1, "un/uno/una dos tres cuatro cinco seis siete ocho nueve")
    tens = _tens("diez veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa")
    teens = _from(11, "once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve")
    twenties = _from(
        21,
        "veintiuno/veintiún veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho "
        "veintinueve",
    )
    large = {"docena": 12, "cien": 100, "ciento": 100, "mil": 1_000}
    return {**ones, **tens, **teens, **twenties, **large, **_combined(tens, ones, "{ten} y {one}")}


def _portuguese() -> dict[str, int]:
    ones = _from(1, "um/uma dois/duas três quatro cinco seis sete oito nove")
    tens = _tens("dez vinte trinta quarenta cinquenta/cinqüenta sessenta setenta oitenta noventa")
    teens = _from(
        11,
        "onze doze treze catorze/quatorze quinze dezesseis/dezasseis dezessete/dezassete dezoito "
        "dezenove/dezanove",
    )
    large = {"dúzia": 12, "cem": 100, "cento": 100, "mil": 1_000}
    return {**ones, **tens, **teens, **large, **_combined(tens, ones, "{ten} e {one}")}


def _italian() -> dict[str, int]:
    ones = _from(1, "un/uno/una due tre/tré quattro cinque sei sette otto nove")
    tens = _tens("dieci venti trenta quaranta cinquanta sessanta settanta ottanta novanta")
    teens = _from(11, "undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove")
    vowels = {one: value for one, value in ones.items() if value in {1, 8}}
    shortened = {ten[:-1]: value for ten, value in tens.items()}
    large = {"dozzina": 12, "cento": 100, "mille": 1_000}
    joined = _combined(tens, ones, "{ten}{one}") | _combined(shortened, vowels, "{ten}{one}")
    return {**ones, **tens, **teens, **large, **joined}


NUMBER_WORDS: Final[Mapping[str, int]] = {
    word.casefold(): value
    for language in (_italian(), _portuguese(), _spanish(), _french(), _german(), _english())
    for word, value in language.items()
}
"""Words for numbers, with one space between two; of a word of two languages the last one's meaning."""
_MAX_WORDS: Final = max(phrase.count(" ") for phrase in NUMBER_WORDS) + 1
_FIRST_WORDS: Final = frozenset(phrase.partition(" ")[0] for phrase in NUMBER_WORDS)
_ENGLISH_TOO: Final = frozenset({"once", "seize", "cent", "doze", "mil", "mille", "dix"})
"""Numbers elsewhere, and something else in English: no numbers beside "the"."""

_CJK_DIGITS: Final = {
    char: value
    for chars, value in (
        ("〇零", 0),
        ("一", 1),
        ("二两兩", 2),
        ("三", 3),
        ("四", 4),
        ("五", 5),
        ("六", 6),
        ("七", 7),
        ("八", 8),
        ("九", 9),
    )
    for char in chars
}
_CJK_UNITS: Final = {"十": 10, "百": 100, "千": 1_000}
_CJK_MULTIPLES: Final = {"万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8}
_CJK_NUMBER: Final = f"[{''.join([*_CJK_DIGITS, *_CJK_UNITS, *_CJK_MULTIPLES])}]{{1,16}}+"
_CJK_NUMBERS: Final = re.compile(_CJK_NUMBER)


def spelled_numbers(text: str, pieces: str) -> frozenset[str]:
    """Return the numbers that a text has as words; `pieces` are its words in lower case, one space between two."""
    words, found, at = pieces.split(), set[int](), 0
    unclear: frozenset[str] = _ENGLISH_TOO if " the " in pieces else frozenset()
    while at < len(words):
        taken = 1
        if words[at] in _FIRST_WORDS and words[at] not in unclear:
            phrases = ((count, " ".join(words[at : at + count])) for count in range(_MAX_WORDS, 0, -1))
            taken, phrase = next((pair for pair in phrases if pair[1] in NUMBER_WORDS), (1, ""))
            found.update({NUMBER_WORDS[phrase]} if phrase else ())
        at += taken
    found.update(_read_cjk(number) for number in set(_CJK_NUMBERS.findall(text)))
    return frozenset(map(str, found))


def _read_cjk(number: str) -> int:
    """Return the value of "三百二十", or of digits in a row as in a year."""
    if all(char in _CJK_DIGITS for char in number):
        return int("".join(str(_CJK_DIGITS[char]) for char in number))
    total, part, digit = 0, 0, 0
    for char in number:
        if char in _CJK_DIGITS:
            digit = _CJK_DIGITS[char]
        elif char in _CJK_UNITS:
            part, digit = part + (digit or 1) * _CJK_UNITS[char], 0
        else:
            total, part, digit = total + (part + digit or 1) * _CJK_MULTIPLES[char], 0, 0
    return total + part + digit


# --- quantities ---

_DATA: Final = {letter: power for power, letter in enumerate("kmgtp", start=1)}
_UNITS: Final[Mapping[str, tuple[Quantity, ...]]] = {
    **{
        unit: (("time", Fraction(milliseconds)),)
        for milliseconds, units in (
            (1, "ms millisecond milliseconds millisekunde millisekunden milliseconde millisecondes 毫秒"),
            (
                1_000,
                "s sec secs second seconds sek sekunde sekunden seconde secondes segundo segundos secondo secondi 秒",
            ),
            (60_000, "min mins minute minutes minuten minuto minutos minuti 分 分钟 分鐘 分間"),
            (
                3_600_000,
                "h hr hrs hour hours std stunde stunden heure heures hora horas ora ore 小时 小時 時間",
            ),
            (86_400_000, "d day days tag tage tagen jour jours día días dia dias giorno giorni 天 日間"),
            (
                604_800_000,
                "week weeks woche wochen semaine semaines semana semanas settimana settimane 周 週 週間 星期",
            ),
        )
        for unit in units.split()
    },
    **{
        unit: (("months", Fraction(months)),)
        for months, units in (
            (1, "month months monat monate monaten mois mes meses mês mese mesi 个月 個月 か月 ヶ月 カ月"),
            (12, "year years jahr jahre jahren an ans année années año años ano anos anno anni 年間"),
        )
        for unit in units.split()
    },
    **{
        unit: (("length", Fraction(micrometres)),)
        for micrometres, units in ((10**3, "mm"), (10**4, "cm"), (10**6, "m"), (10**9, "km"))
        for unit in units.split()
    },
    **{unit: (("weight", Fraction(grams)),) for grams, unit in ((1, "g"), (10**3, "kg"), (10**6, "t"))},
    **{
        f"{letter}b": (("data", Fraction(1_000**power)), ("data", Fraction(1_024**power)))
        for letter, power in _DATA.items()
    },
    **{f"{letter}ib": (("data", Fraction(1_024**power)),) for letter, power in _DATA.items()},
}
"""How much a unit is; a gigabyte may be either of two."""
_CJK_UNIT: Final = "|".join(sorted((unit for unit in _UNITS if unit[0] > "\u2fff"), key=len, reverse=True))
_COUNTED: Final = re.compile(
    rf"(?<![{LETTERS}\d.,:])(?:(?P<number>{NUMBER})|(?P<word>[{LETTERS}]{{1,20}}+))[ \u00a0\u202f-]?"
    rf"(?:(?P<cjk>{_CJK_UNIT})|(?P<unit>[A-Za-zÀ-ÿ]{{1,13}}+)(?![{LETTERS}\d]))"
    rf"|(?P<numeral>{_CJK_NUMBER})[ \u00a0\u202f]?(?P<after>{_CJK_UNIT})"
)
_JOINT: Final = re.compile(r"[ \u00a0,]{0,2}(?:(?:and|und|et|y|e) )?")


def quantities(text: str) -> Iterator[tuple[int, int, frozenset[Quantity]]]:
    """Yield where a text has quantities, and how much each may be; "1 h 30 min" is one."""
    start, end, sums = 0, -1, frozenset[Quantity]()
    position = 0
    while found := _COUNTED.search(text, position):
        values = _values(found)
        unit = (found["unit"] or found["cjk"] or found["after"]).casefold()
        amounts = frozenset(
            (dimension, value * factor) for value in values for dimension, factor in _UNITS.get(unit, ())
        )
        if not amounts:  # the second word may be a number itself: "about ninety minutes"
            position = found.start("unit") if found["unit"] else found.end()
            continue
        joint = _JOINT.match(text, end) if sums else None
        if joint and joint.end() == found.start():
            sums = frozenset(
                (of, before + now)
                for of, before in sums
                for other, now in amounts
                if of == other and now < before
            )
        else:
            start, sums = found.start(), amounts
        end = position = found.end()
        yield found.start(), end, amounts
        if sums and sums != amounts:
            yield start, end, sums


def _values(found: re.Match[str]) -> Iterable[Fraction]:
    """Return what the number before a unit may be."""
    if found["numeral"]:
        return [Fraction(_read_cjk(found["numeral"]))]
    if found["number"]:
        return map(Fraction, number_values(found["number"]) if len(found["number"]) <= MAX_CHARACTERS else ())
    word = found["word"].casefold()
    known = 1 if word in {"a", "an"} else NUMBER_WORDS.get(word)
    return [Fraction(known)] if known else []


def number_values(number: str) -> frozenset[str]:
    """Return the plain decimals that a number may be: "1,234" is 1234 or 1.234."""
    number = re.sub(r"[^\d.,]", "", number)
    at = max(number.rfind("."), number.rfind(","))
    whole, mark, rest = (number[:at], number[at], number[at + 1 :]) if at >= 0 else (number, "", "")
    values = set()
    if not mark:
        values.add(plain_decimal(number))
    elif mark not in whole:
        values.add(plain_decimal(re.sub(r"[.,]", "", whole), rest))
    if mark and len(rest) == 3 and not set(whole) & ({".", ","} - {mark}):
        values.add(plain_decimal(re.sub(r"[.,]", "", number)))
    return frozenset(values)


def plain_decimal(whole: str, rest: str = "") -> str:
    """Return a number without zeros that say nothing."""
    return f"{whole.lstrip('0') or '0'}.{rest.rstrip('0')}".rstrip(".")
