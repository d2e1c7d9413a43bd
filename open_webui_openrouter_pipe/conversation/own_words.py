"""What of a user's message is in the user's own words, and what is material: quoted, fenced, tagged or pasted.

Owns the division of a message into passages, whether a quotation stands in the user's own words, and the patterns for
lines that may be lasting instructions. The division goes by marks that need no knowledge of a language, and where
they leave a doubt it says material: a mail must never count as the user's own order. It runs in linear time; it must
not shorten or drop anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

LONG_PARAGRAPH_CHARACTERS = 600
LONG_MESSAGE_CHARACTERS = 2_000
"""Of a message as long as this, only the first paragraph counts as the user's own."""
MAX_LIST_CHARACTERS = 600
"""A list directly after a line that ends with a colon is the user's own up to this length."""
MIN_QUOTE_CHARACTERS = 4
INSTRUCTION_CHARACTERS = 400

_FENCE = re.compile(r"([ \t]{0,40})(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?(`{3,}(?=[^`]*+$)|~{3,})")
"""An opening fence of CommonMark, also in a list, and at any indentation: what is deeper is code all the same."""
_CLOSING_FENCE = re.compile(r"([ \t]*+)(`{3,}|~{3,})[ \t]*+$")
_CLOSING_INDENTATION = 3
_TAG = re.compile(r"(?:<|\[)([A-Za-z][\w.:-]{0,60})(?=[\s>\]=/])")
_CLOSING_TAG = re.compile(r"(?:</|\[/)([A-Za-z][\w.:-]{0,60})[ \t]{0,3}[>\]]")
_MATERIAL_LINE = re.compile(
    r"[ \t]{0,40}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?>|[ \t]{0,40}(?:[\|\uff1e]|//|/\*|\*/|#|--|<!--|;|%|\"\"\"|''')"
    r"|(?: {4}|\t)"
    r"|[ \t]{0,40}\[?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/.:]\d\d[-/.:]\d\d)"
)
"""A quoted line, a row of a table, a comment, indented code, or a line of a log."""
_PASTE_BEGINS = re.compile(
    r"[ \t]{0,40}(?:(?P<mark>[-=_*~+#])(?:[ \t]?(?P=mark)){2,}[ \t]*+$|(?:https?://|www\.)\S++[ \t]*+$)"
)
"""A rule, or a line with nothing but an address."""
_FIELD = re.compile(r"[ \t]{0,3}\w[\w .-]{0,30}: +\S")
"""A field of a mail or a ticket; two in a row begin one."""
_GREETING = re.compile(
    r"[ \t]{0,3}(?:hi|hello|dear|good (?:morning|day|evening)|hallo|hey"
    r"|sehr geehrte[rsn]?|liebe[rs]?|guten (?:tag|morgen)"
    r"|bonjour|ch[eè]re?s?|madame|monsieur|hola|estimad[oa]s?|querid[oa]s?|buenos d[ií]as|ol[aá]|prezad[oa]s?|car[oa]s?"
    r"|ciao|gentil[ei]|egregio|buongiorno|beste|geachte|witam|szanown[yai]"
    r"|здравствуйте|уважаем\w{2,3}|привет|добрый день)\b|[ \t]{0,3}(?:尊敬的|您好|你好|亲爱的|拝啓|お世話に|안녕하)",
    re.IGNORECASE,
)
_HAS_FRAME = re.compile(r"[ \t]{0,40}(?:>|`{3}|~{3}|<[A-Za-z]|\[[A-Za-z])")
"""A quotation, a fence or a tag, which says by itself where it ends."""
_BULLET = re.compile(r"[ \t]{0,3}[-*+•][ \t]")
_QUOTED = re.compile(
    r"\"[^\"]{2,}+\"|“[^“”]{2,}+”|„[^„“”]{2,}+[“”]|«[^«»]{2,}+»|「[^「」]{2,}+」|『[^『』]{2,}+』"
    r"|»[^«»]{2,}+«|\u2039[^\u2039\u203a]{2,}+\u203a|\u203a[^\u2039\u203a]{2,}+\u2039|„[^„«»]{2,}+«|”[^“”]{2,}+”|`[^`]{2,}+`"
    r"|(?<!\w)['\u2018](?=\S)[^'\u2018\u2019]{2,}+['\u2019](?!\w)"
)

_INSTRUCTION = re.compile(
    r"\b(?:always|never|must|do not|don'?t|from now on|make sure|ensure"
    r"|immer|nie|niemals|muss|musst|müssen|darfst? nicht|ab jetzt|ab sofort|auf keinen fall|bitte keine?n?"
    r"|toujours|jamais|dois|doit|doivent|devez|désormais|dorénavant|interdit|ne \w{1,20} (?:pas|plus)"
    r"|siempre|nunca|jamás|debes?|deben|debe|a partir de ahora|prohibido"
    r"|sempre|jamais|deves?|devem|deve|a partir de agora|proibido"
    r"|(?:non (?:\w{1,20} ){1,3}|^\W{0,5})mai(?! \d)|devi|devono|d'ora in poi|vietato"
    r"|altijd|nooit|moet|vanaf nu|zawsze|nigdy|musisz|nie wolno"
    r"|всегда|никогда|должен|должна|должно|должны|нельзя|обязательно|отныне)\b"
    r"|总是|始终|永远|绝不|绝对不|不要|不得|必须|务必|禁止|从现在起"
    r"|必ず|常に|決して|絶対に|ないでください|てはいけ|なければならない|今後は"
    r"|항상|절대|반드시|하지 ?마",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。\uff01\uff1f]+[.!?。\uff01\uff1f]*")


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of lines of a message: the user's own words, or material."""

    text: str
    is_own: bool


def divide_message(text: str) -> tuple[Passage, ...]:
    """Divide a user's message into the user's own words and material; the lines stay as they are, in their order."""
    lines = text.splitlines()
    own = [is_own or not line.strip() for is_own, line in zip(_own_lines(lines), lines, strict=True)]
    return tuple(
        Passage("\n".join(line for _, line in group), is_own)
        for is_own, group in groupby(zip(own, lines, strict=True), key=lambda pair: pair[0])
    )


def own_words(text: str) -> str:
    """Return what of a message is in the user's own words."""
    return "\n".join(passage.text for passage in divide_message(text) if passage.is_own)


def stands_in_own_words(quotation: str, text: str) -> bool:
    """Whether a quotation stands in the user's own words; white space does not matter.

    It may hold what stands in quotation marks, but says something beside that, and neither begins nor ends in it.
    """
    wanted = " ".join(quotation.split())
    words = " ".join(own_words(text).split())
    quoted = [match.span() for match in _QUOTED.finditer(words)]
    starts, ends = [span[0] for span in quoted], [span[1] for span in quoted]
    start = words.find(wanted) if len(wanted) >= MIN_QUOTE_CHARACTERS else -1
    while start >= 0:
        end = start + len(wanted)
        within = quoted[bisect_right(ends, start) : bisect_left(starts, end)]
        beside = len(wanted) - sum(last - first for first, last in within)
        if all(start <= first and last <= end for first, last in within) and beside >= MIN_QUOTE_CHARACTERS:
            return True
        start = words.find(wanted, end)
    return False


def possible_instructions(text: str) -> tuple[str, ...]:
    """Return the lines in the user's own words that may be lasting instructions; of a long line its sentences."""
    found: list[str] = []
    for line in own_words(text).splitlines():
        candidates = [line]
        if len(line) > INSTRUCTION_CHARACTERS:
            candidates = _SENTENCE.findall(line)
        found += (each.strip() for each in candidates if _INSTRUCTION.search(each))
    return tuple(each for each in dict.fromkeys(found) if len(each) <= INSTRUCTION_CHARACTERS)


def _own_lines(lines: list[str]) -> Iterator[bool]:
    """Yield for each line whether it is in the user's own words."""
    framed = [*_framed(lines)]
    pasted = _paste_start(lines, framed)
    for number, line in enumerate(lines):
        yield not (framed[number] or number >= pasted or _MATERIAL_LINE.match(line))


def _framed(lines: list[str]) -> Iterator[bool]:
    """Yield for each line whether it stands in a fence or between tags."""
    tagged_until = _tagged_until(lines)
    tag_end, fence, indentation = -1, "", 0
    for number, line in enumerate(lines):
        tag_end = max(tag_end, tagged_until.get(number, -1))
        if fence:
            yield True
            closing = _CLOSING_FENCE.match(line)
            is_deeper = closing and len(closing[1]) > indentation + _CLOSING_INDENTATION
            if closing and not is_deeper and closing[2].startswith(fence):
                fence = ""
        elif opening := _FENCE.match(line):
            fence, indentation = opening[2], len(opening[1])
            yield True
        else:
            yield number <= tag_end


def _tagged_until(lines: list[str]) -> dict[int, int]:
    """Return by the line of each opening tag the line of the last closing tag of its name, if one follows."""
    last = {
        tag[1].lower(): number for number, line in enumerate(lines) for tag in _CLOSING_TAG.finditer(line)
    }
    ends: dict[int, int] = {}
    for number, line in enumerate(lines):
        for tag in _TAG.finditer(line):
            end = last.get(tag[1].lower(), -1)
            if end >= number:
                ends[number] = max(end, ends.get(number, -1))
    return ends


def _paste_start(lines: list[str], framed: list[bool]) -> int:
    """Return the line from which on the message is pasted text; the number of lines when none is.

    Framed lines say by themselves where they end.
    """
    is_long = (
        sum(len(line) for line, skip in zip(lines, framed, strict=True) if not skip) > LONG_MESSAGE_CHARACTERS
    )
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    paragraph, characters, list_characters, previous = 0, 0, 0, ""
    for number, line in enumerate(lines):
        if framed[number] or not line.strip():
            paragraph += number > first and not framed[number]
            characters, list_characters, previous = 0, 0, ""
            continue
        characters += len(line)
        is_bullet = bool(_BULLET.match(line))
        if list_characters:
            list_characters += len(line)
        if (
            (paragraph and (is_long or characters > LONG_PARAGRAPH_CHARACTERS))
            or _PASTE_BEGINS.match(line)
            or (_FIELD.match(line) and _FIELD.match(previous))
            or (number > first and _GREETING.match(line))
            or (list_characters and (not is_bullet or list_characters > MAX_LIST_CHARACTERS))
        ):
            return number
        if line.rstrip().endswith((":", "\uff1a")) and not is_bullet:
            following = lines[number + 1 : number + 3]
            if following and _BULLET.match(following[0]):
                list_characters = 1
            elif not any(_HAS_FRAME.match(each) for each in following):
                return number + 1
        previous = line
    return len(lines)
