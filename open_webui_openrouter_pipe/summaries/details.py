"""Exact details of a text, and whether a source supports the details that a summary states.

Owns the one pattern for exact details (links, quotations, dates, times, amounts, paths, identifiers), how numbers
and dates are compared however they are written, and the mark on statements that the source does not support. It
reads by rules alone and in linear time; it must not judge what matters, nor correct anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..conversation.masking import MASK, mask_secrets
from .dates import DATE, DATES, TIME, TIMES, Date, read_date, read_dates, read_time
from .quantities import LETTERS, NUMBER, Quantity, number_values, plain_decimal, quantities, spelled_numbers
from .summary import MODEL_LISTS, ModelSummary, SummaryRefused

UNVERIFIED: Final = "(unverified)"
"""Follows each statement with a number, date, path or name that the source does not hold."""
INFERRED: Final = "INFERRED:"
"""By this a model marks its own conclusions, which may hold numbers of their own."""
WORDS_CHARACTERS: Final = 80
"""Of a detail and the words around it; a longer detail stands alone."""
MAX_LINK_CHARACTERS: Final = 2_000
MAX_WORD_CHARACTERS: Final = 300
"""A longer word is data, such as a picture in base64, and not a detail."""

_LETTER = rf"0-9{LETTERS}"
_GAP = "[ \u00a0\u202f]"
_NUMBER = NUMBER
_MULTIPLES = {"k": 3, "thousand": 3, "m": 6, "mio": 6, "million": 6, "b": 9, "bn": 9, "billion": 9}
_MULTIPLES |= {"tsd": 3, "tausend": 3, "mil": 3, "millionen": 6, "millione": 6, "milhõe": 6, "milioni": 6}
_MULTIPLES |= {"mrd": 9, "milliard": 9, "milliarde": 9, "milliarden": 9, "万": 4, "萬": 4, "億": 8, "亿": 8}
"""What a number is multiplied by when this follows it, as a number of zeros."""
_MULTIPLE = (
    r"(?:[kKMB]|bn|Mio\.?|Mrd\.?|Tsd\.?|(?:thousand|million|billion|milliard)s?|Tausend|Millionen|Milliarden?"
    r"|mil|millones|milhões|milioni|[万萬億亿])"
)
_NO_UNIT = "all|and|any|are|as|at|be|but|by|can|for|had|has|if|in|is|it|its|not|of|on|or|so|the|this|to|us|was|we|who"
_UNIT = (
    rf"(?:{_GAP}?(?!(?:{_NO_UNIT})\b)(?:%|‰|°[CF]?|[€$£¥]|[A-Za-zµμΩ]{{1,3}}[²³23]?|[a-z]{{4,24}}(?<=s)|people)"
    r"|[A-Za-z]{4})(?:/[A-Za-z]{1,12}| per [a-z]{1,12})?"
)
_AMOUNT = (
    rf"(?!\d{{1,3}}(?:\.\d{{1,3}}){{3}})(?:(?:[A-Z]{{3}}|[A-Z]{{0,3}}[$€£¥₹]){_GAP}?)?[-+\u2212±]?{_NUMBER}"
    rf"(?:[-/\u2013]{_NUMBER})?(?:{_GAP}?{_MULTIPLE}(?![{_LETTER}]))?(?:{_UNIT})?"
    rf"(?![{_LETTER}]|[./\\@#+:'\u2019~-]\w)"
)
_LINK = r"(?i:[a-z][a-z0-9+.-]{1,15}://|www\.|mailto:)(?:[^\s<>\"`()\[\]]|\([^\s<>\"`()]{0,200}\))++"
_QUOTED = (
    rf"(?<![{_LETTER}])\"(?=\S)[^\"\n]{{2,200}}+\"(?![{_LETTER}])|“[^“”\n]{{2,200}}+”|„[^„“”\n]{{2,200}}+[“”]"
    r"|«[^«»\n]{2,200}+»|「[^「」\n]{1,200}+」|(?<!`)`[^`\n]{1,200}+`(?!`)"
    rf"|(?<![{_LETTER}])['\u2018](?=\S)(?:[^'\u2018\u2019\n]|['\u2019](?=[{_LETTER}])){{2,80}}+['\u2019](?![{_LETTER}])"
)
_GROUPS = (
    r"\+\d{1,3}(?:[ -]?(?:\(\d{2,5}\)|\d{2,12})){1,6}+(?!\w)|\d{2,6}(?: \d{2,6}){2,6}+(?![\w.,])"
    r"|[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}+(?: [A-Z0-9]{1,3}\b)?"
)
"""Telephone numbers, bank accounts, and other digits in groups."""
_WINDOWS_PATH = r"[A-Za-z]:\\(?:[^\\/:*?\"<>|\n]{1,80}\\){0,30}+[^\s\\/:*?\"<>|,;()]{0,200}"
_WORD = rf"[{_LETTER}./\\@#$+~-](?:[{_LETTER}./\\@#$+:'\u2019~-]|\(\))*+"
_KINDS = {
    "link": _LINK,
    "quoted": _QUOTED,
    "date": rf"{DATE}(?:(?:T|,?{_GAP}(?:(?:at|um){_GAP})?){TIME})?",
    "time": TIME,
    "path": _WINDOWS_PATH,
    "groups": _GROUPS,
    "amount": _AMOUNT,
    "word": _WORD,
}
_DATA = r"data:[\w/+.-]{1,80};base64,[A-Za-z0-9+/=]*+"
_DETAIL = re.compile("|".join([_DATA, *(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items())]))

_FILE = re.compile(
    r"[^@]+\.(?i:7z|bat|bmp|c|cc|cfg|conf|cpp|cs|css|csv|db|docx?|env|epub|gif|go|gz|h|hpp|html?|ini|ipynb|jar|java|jpe?g"
    r"|jsx?|jsonl?|key|kt|lock|log|lua|md|mkv|mov|mp[34]|parquet|pdf|pem|php|png|pptx?|ps1|py|rb|rs|rst|rtf|s?css|sh|sql"
    r"|sqlite|svelte|svg|swift|tar|tex|tgz|toml|tsx?|tsv|txt|vue|wav|webm|webp|xlsx?|xml|xsd|ya?ml|zip|zst)"
)
_CODE_NAME = re.compile(
    r"\w_\w|^__\w|[a-zà-ÿ][A-ZÀ-Þ]|\w\.\w\w|\w\w\.\w|\w::\w|\w->\w|\w\(\)|^--\w|^@\w|\w@\w|^\$\w"
)
_OWNED_KINDS = frozenset({"amount", "date", "time"})
_BARE = re.compile(f"{DATE}|{TIME}|{_AMOUNT}")
_OWNER = re.compile(rf"[^\W\d_]{{3}}|[^\W{_LETTER}]")
"""A word that may say what a number is of."""
_TRIMMED = " \t,;:|·"
_DIGIT = re.compile(r"\d")
_WORDLIKE = re.compile(f"[{_LETTER}]")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_SMALL = re.compile(rf"[-+\u2212]?\d{{1,2}}|{_ORDINAL.pattern}")


def exact_details(text: str) -> Mapping[str, str]:
    """Return the exact details of a text in their order, each with the words around it, on one line.

    Quotations keep their marks. Numbers without a unit count from three digits on. The words are "" for an amount, a
    date or a time of which the text does not say what it is of: nobody could use it. Secrets are none.
    """
    text = mask_secrets(text)
    details: dict[str, str] = {}
    words, end = "", -1
    for kind, detail, start in _find_details(text):
        if MASK in detail:
            continue
        if start + len(detail) > end:
            words, end = _with_words(text, start, start + len(detail), after=end)
        has_owner = kind not in _OWNED_KINDS or _OWNER.search(_BARE.sub(" ", words))
        details[detail] = (words if has_owner else "") or details.get(detail, "")
    return details


def mentioned_paths(text: str) -> tuple[str, ...]:
    """Return the links and the files that a text names, in their order, each once."""
    found = (detail for kind, detail, _ in _find_details(mask_secrets(text)) if kind in {"link", "path"})
    return tuple(dict.fromkeys(found))


def stands_alone(detail: str) -> bool:
    """Whether an exact detail says by itself what it is, and cannot be a sentence.

    So do links, paths, names, digits in groups, and a single quoted word.
    """
    kind = next((kind for kind, found, _ in _find_details(detail) if found == detail), "amount")
    is_word = detail[1:-1].isascii() and not any(map(str.isspace, detail))
    return is_word if kind == "quoted" else kind not in _OWNED_KINDS


def _with_words(text: str, start: int, end: int, *, after: int) -> tuple[str, int]:
    """Return the words around a detail within its line, none of those before `after`, and where they end.

    Words are not cut; scripts without spaces between words are cut anywhere.
    """
    room = max(0, WORDS_CHARACTERS - (end - start))
    first = max(text.rfind("\n", max(0, start - room), start) + 1, after)
    line_end = text.find("\n", end, end + room)
    last = line_end if line_end >= 0 else min(len(text), end + room)
    left = max(first, start - max(room // 2, room - (last - end)))
    right = min(last, end + room - (start - left))
    if left > first:
        while left < start and _is_in_word(text, left):
            left += 1
    if right < last or line_end < 0:
        while right > end and _is_in_word(text, right):
            right -= 1
    words = text[left:start].lstrip(_TRIMMED) + text[start:end] + text[end:right].rstrip(_TRIMMED)
    return " ".join(words.split()), right


def _is_in_word(text: str, position: int) -> bool:
    """Whether a cut here would divide a word of a script with spaces between words."""
    return all(char < "\u2e80" and not char.isspace() for char in text[position - 1 : position + 1].ljust(2))


def missing_details(details: Iterable[str], text: str) -> tuple[str, ...]:
    """Return those of the details that do not occur in the text, word for word and as a whole."""
    return tuple(detail for detail in details if not _occurs(detail, text))


def _find_details(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each detail with its kind and where it begins; words are paths, names, or not a detail."""
    for match in _DETAIL.finditer(text):
        kind, detail = match.lastgroup, match[0]
        if kind in {"link", "path"}:
            detail = detail.rstrip(".,;:!?'\u2019*_~")
            if len(detail) <= MAX_LINK_CHARACTERS:
                yield kind, detail, match.start()
        elif kind == "word":
            word = detail.rstrip(".:'\u2019+-\u2212\\~$#@")
            if word and len(word) <= MAX_WORD_CHARACTERS:
                if _is_path(word):
                    yield "path", word, match.start()
                elif _CODE_NAME.search(word) or (_DIGIT.search(word) and not _SMALL.fullmatch(word)):
                    yield "name", word, match.start()
        elif kind and not _SMALL.fullmatch(detail):
            yield kind, detail, match.start()


def _is_path(word: str) -> bool:
    """Whether a word names a file or a folder: by its root, its depth or its ending."""
    if not any(map(str.isalpha, word)):
        return False
    if word.startswith(("/", "./", "../", "~/", "\\\\")) or (word[0] == "." and word[1:2].isalpha()):
        return True
    if "/" in word:
        return word.count("/") > 1 or word[-1] == "/" or any(mark in word for mark in "._-")
    return _FILE.fullmatch(word) is not None


def _occurs(detail: str, text: str) -> bool:
    """Whether a detail stands in a text and is not a part of a longer word or number."""
    if detail not in text:
        return False
    before = rf"(?<![{_LETTER}])(?<!\d[.,])" if _WORDLIKE.match(detail) else ""
    after = rf"(?![{_LETTER}]|[.,]\d)" if _WORDLIKE.match(detail[-1]) else ""
    return re.search(f"{before}{re.escape(detail)}{after}", text) is not None


_MULTIPLIED = rf"({_NUMBER})(?:[ \u00a0\u202f-]?({_MULTIPLE})(?![{_LETTER}]))?"
_NUMBERS = re.compile(_MULTIPLIED)
_ALL_NUMBERS = re.compile(rf"(?<!\d)(?={_MULTIPLIED})")
"""The numbers that begin at each run of digits, also inside of others: "12 345" may be one number or two."""
_QUANTITY = re.compile(
    rf"(?:[A-Za-z]{{1,2}}(?=\d)|[a-z]{{2,5}}-)?{_NUMBER}(?:[-x/]{_NUMBER})?(?:[-./]?[^\W\d_]++)*+"
)
"""A word of which only the number has to be supported, such as "64-bit", "p95" or "mid-2024"."""
_PIECE = re.compile(rf"\d+|(?:(?![\d_])[{_LETTER}])+|[^\W{_LETTER}]+")
_LEADING_ZEROS = re.compile(r"(?<= )0+(?=\d)")
_PREFIX = re.compile(r"\A(?i:[a-z][a-z0-9+.-]{1,15}://(?:www\.)?|www\.|v(?=\d))")
_LIST_NUMBER = re.compile(r"^[ \t]*+(?:[-*+•][ \t]++)?\d{1,3}[.)](?=\s)", re.MULTILINE)
_ESCAPED_SPACE = re.compile(r"\\[nrt]")
_UNIFORM = str.maketrans(
    dict.fromkeys('*`"“”„«»', " ") | dict.fromkeys("\u2010\u2011\u2212", "-") | {"\u00d7": "x"}
)
_SENTENCE_END = re.compile(
    r"((?:(?<=[.!?…])|(?<=[.!?…][\"”\u2019)*]))[ \t]+(?=[^a-z0-9\s])|(?<=[。\uff01\uff1f])|\n\s*+)"
)
"""An abbreviation before a small letter or a number does not end a sentence."""


@dataclass(frozen=True, slots=True)
class GroundingSource:
    """What was said and done, as sets in which details can be looked up.

    A number is written as a plain decimal; a date is its year as written ("" without one) and day and month,
    the smaller first; a time is "HH:MM". `pieces` are all runs of letters and all runs of digits, with one
    space between two.
    """

    numbers: frozenset[str]
    dates: frozenset[Date]
    times: frozenset[str]
    quantities: frozenset[Quantity]
    pieces: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> GroundingSource:
        """Read some texts once."""
        text = _plain("\n".join(texts))
        pieces = _pieces(text)
        digits = map(plain_decimal, set(re.findall(r"\d+", text)))
        numbers = spelled_numbers(text, pieces).union(digits, *_numbers(text, _ALL_NUMBERS))
        dates = {
            (known, day)
            for year, day in read_dates(text)
            for known in ("any", year, year[-2:], *((f"19{year}", f"20{year}") if len(year) == 2 else ()))
        }
        times = {time for found in TIMES.finditer(text) for time in read_time(found[0])}
        amounts = (amount for _, _, each in quantities(text) for amount in each)
        return cls(numbers, frozenset(dates), frozenset(times), frozenset(amounts), pieces)

    def supports(self, statement: str) -> bool:
        """Whether all numbers, dates, paths and identifiers of a statement stand here, perhaps written otherwise."""
        text = _LIST_NUMBER.sub("", _plain(statement))
        return self._has_all(text) or self._has_all(self._without_known_quantities(text))

    def _has_all(self, text: str) -> bool:
        return all(self._has(found.lastgroup or "", found[0]) for found in _DETAIL.finditer(text))

    def _without_known_quantities(self, text: str) -> str:
        """Return the text without the quantities that stand here, perhaps in other units."""
        known = [
            (start, end) for start, end, each in quantities(text) if not each.isdisjoint(self.quantities)
        ]
        left, position = [], 0
        for start, end in known:
            left.append(text[position:start])
            position = max(position, end)
        return " ".join([*left, text[position:]])

    def _has(self, kind: str, detail: str) -> bool:
        if kind == "word":
            return self._has_word(detail.rstrip(".:'\u2019+-\\~$#@/"))
        if kind == "amount":
            return _ORDINAL.fullmatch(detail) is not None or self._has_numbers(detail)
        if kind == "quoted":
            return self.supports(detail[1:-1])
        if kind not in {"date", "time"}:
            return not kind or self._has_pieces(detail)
        date = DATES.match(detail) if kind == "date" else None
        times = TIMES.findall(detail, date.end() if date else 0)
        return (not date or self._has_date(date[0])) and not any(
            self.times.isdisjoint(read_time(time)) for time in times
        )

    def _has_word(self, word: str) -> bool:
        if _is_path(word):
            folder, _, file = word.rpartition("/")
            is_plain = "." not in file and word[0] not in "/~" and not _DIGIT.search(word)
            name = word if folder else file.rpartition(".")[0]
            return is_plain or self._has_pieces(name) or self._has_pieces(word)
        return (
            not _DIGIT.search(word)
            or (_QUANTITY.fullmatch(word) is not None and self._has_numbers(word))
            or self._has_pieces(word)
        )

    def _has_pieces(self, name: str) -> bool:
        """Whether a name stands here, whatever marks are in it."""
        pieces = _pieces(_PREFIX.sub("", name))
        return pieces.isspace() or pieces in self.pieces

    def _has_numbers(self, text: str) -> bool:
        """Whether all numbers of a text stand here; single digits always do."""
        return all(
            any(len(value) < 2 for value in meanings) or not meanings.isdisjoint(self.numbers)
            for meanings in _numbers(text)
        )

    def _has_date(self, text: str) -> bool:
        """Whether each day stands here, and its year beside it if the text has one."""
        return all((year or "any", day) in self.dates for year, day in read_date(text))


def mark_ungrounded(summary: ModelSummary, texts: Iterable[str]) -> tuple[ModelSummary, tuple[str, ...]]:
    """Mark the sentences and entries that state details which stand nowhere in the texts.

    Returns the summary, and the marked statements as they were written. A model's own conclusions are not
    marked. Raises SummaryRefused when the texts support nothing at all.
    """
    source = GroundingSource.of(texts)
    ungrounded: list[str] = []
    grounded = 0

    def marked(statement: str) -> str:
        nonlocal grounded
        if not statement.strip():
            return statement
        shown = mask_secrets(statement)
        if INFERRED in statement or source.supports(statement):
            grounded += 1
            return shown
        ungrounded.append(shown)
        return f"{shown} {UNVERIFIED}"

    parts = _SENTENCE_END.split(summary.summary_text)
    text = "".join(part if position % 2 else marked(part) for position, part in enumerate(parts))
    lists = {
        name: tuple(replace(entry, text=marked(entry.text)) for entry in getattr(summary, name))
        for name in MODEL_LISTS
    }
    goal = marked(summary.goal)
    if ungrounded and not grounded:
        raise SummaryRefused("not grounded")
    return replace(summary, summary_text=text, goal=goal, **lists), tuple(ungrounded)


def _plain(text: str) -> str:
    """Return the text without emphasis, quotation marks and escaped line ends."""
    return _ESCAPED_SPACE.sub(" ", text).translate(_UNIFORM)


def _pieces(text: str) -> str:
    return _LEADING_ZEROS.sub("", f" {' '.join(_PIECE.findall(text.casefold()))} ")


def _numbers(text: str, pattern: re.Pattern[str] = _NUMBERS) -> Iterator[frozenset[str]]:
    """Yield the values that each number of a text may have; "1,234" is 1234 or 1.234."""
    for number, multiple in pattern.findall(text):
        values = number_values(number)
        if multiple:
            zeros = _MULTIPLES[multiple.casefold().rstrip("s.")]
            values |= {_shifted(value, zeros) for value in values}
        yield values


def _shifted(value: str, zeros: int) -> str:
    whole, _, rest = value.partition(".")
    return plain_decimal(whole + rest[:zeros].ljust(zeros, "0"), rest[zeros:])
