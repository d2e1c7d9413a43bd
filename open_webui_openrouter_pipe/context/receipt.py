"""The loss receipt: which exact details a text holds, and which of them another text misses.

Owns what counts as an exact detail: quantities, dates and times, identifiers, paths, links, addresses, names
from code, quotations. It reads by rules alone and in linear time; it must not judge what matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .measures import DATE, LETTER, MEASURE, MONEY, NUMBER

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


def mentions(text: str) -> tuple[str, ...]:
    """The links and the files that a text names, in their order, each once."""
    found = (detail for kind, detail in _found(text) if kind in {"link", "path"})
    return tuple(dict.fromkeys(found))


def missing(details: Iterable[str], text: str) -> tuple[str, ...]:
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
