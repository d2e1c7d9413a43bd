"""The passages that fit a query, best first: lines that have most of its terms, where rare terms count for more.

A passage is a line of a text, or a sentence of a long one; what stands in the line before or behind counts for a part,
since an answer seldom has the words of its question. Terms weigh as in BM25 (Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009), with Lucene's inverse document frequencies, which are never negative. What
BM25 adds for terms that are repeated, and subtracts for length, is omitted: in single lines it finds no more.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from hashlib import sha256
from heapq import nlargest
from itertools import accumulate, chain, groupby, islice, pairwise, starmap
from operator import attrgetter, getitem, or_
from typing import TypeAlias

from ..conversation.conversation import ContentCache, DigestedItem, Turn
from ..conversation.media import embedded_text
from ..responses.items import (
    InputPart,
    Item,
    OutputPart,
    is_function_call,
    is_function_call_output,
    is_message,
)
from ..responses.values import read_json
from .words import TermsOfWords, find_terms, query_terms

PASSAGE_CHARACTERS = 300
"""A longer line is divided."""
INDEX_TERMS = 1_000_000
"""How many terms of texts a worker keeps: those of some three million tokens of chats."""
TERM_BYTES = 125
"""What one of them takes in memory, about."""
NUMBER_BITS = 256
"""What a number takes in memory."""
AUTHOR_CHARACTERS = 64

_LINE = re.compile(r"[^\n]+\n*|\n+")
_SENTENCE = re.compile(r".*?(?:[.!?]\s+|[\u3002\uff01\uff1f]\s*|\Z)", re.DOTALL)
_TABLE_RULE = re.compile(r"^(.{1,300})\n(?=.{0,9}--)[ \t|:+-]+\n", re.MULTILINE)
"""Below the names of a table's columns, which its group is."""
_DELIMITERS = ",\t;"


@dataclass(frozen=True, slots=True)
class SourceText:
    """What an item of a turn (by index) says; `author` is "user", "assistant", "system" or "tool" with its name."""

    turn: int
    author: str
    text: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class ChatPassage:
    """A line of a text: which turn (by index) and author it is of, and at which character it starts.

    `digest` names the item that it is of. Passages of a text follow each other without a gap. `columns` is the line
    that names them, of a table's row.
    """

    turn: int
    author: str
    text: str
    digest: bytes
    start: int
    columns: str = ""

    @property
    def end(self) -> int:
        """The offset behind its last character."""
        return self.start + len(self.text)


Numbers: TypeAlias = tuple[int, ...] | int
"""Of passages: a few of them, or the bits of many."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages of texts that follow each other, numbered from zero.

    Of each term, `passages` has those that it stands in; `rare` are, by passage, the terms that stand in no other.
    `bounds` are those of each text's passages, `firsts` the numbers of the texts' first passages, the last one how many
    passages there are. `parts` are the numbers of the parts (turns) that the texts are of.
    """

    passages: Mapping[str, Numbers]
    rare: Mapping[int, Sequence[str]]
    bounds: Sequence[Sequence[int]]
    firsts: Sequence[int]
    parts: Sequence[int]

    @property
    def size(self) -> int:
        """What it takes in memory, in terms that stand in a few passages."""
        of_bits = sum(each.bit_length() for each in self.passages.values() if isinstance(each, int))
        of_numbers = sum(len(each) for each in self.passages.values() if isinstance(each, tuple))
        return 1 + len(self.passages) + of_numbers // 4 + of_bits // 1_000


TextIndex: TypeAlias = ContentCache[Postings]
"""What is kept from search to search, by the digest of a text, or a name for several."""


@dataclass(frozen=True, slots=True)
class SearchedTexts:
    """Texts that are searched, and what reads one of them, by its number."""

    postings: Postings
    read: Callable[[int], SourceText]


def new_index(max_terms: int = INDEX_TERMS) -> TextIndex:
    """Return an empty index that keeps so many terms."""
    return ContentCache(max_terms, lambda postings: postings.size)


def gather(
    index: TextIndex,
    name: bytes,
    turns: Sequence[int],
    texts: Callable[[int], Sequence[SourceText]],
    terms: TermsOfWords,
) -> SearchedTexts:
    """Return the texts of some turns, to be searched together; they are indexed once, under a name for all of them."""

    def post() -> Postings:
        numbered = [(number, text) for number, turn in enumerate(turns) for text in texts(turn)]
        indexed = [
            index.get_or_compute(text.digest, partial(_index, text.text, terms)) for _, text in numbered
        ]
        return _join(indexed, [number for number, _ in numbered])

    def read(text: int) -> SourceText:
        number = postings.parts[text]
        return texts(turns[number])[text - bisect_left(postings.parts, number)]

    postings = index.get_or_compute(name, post)
    return SearchedTexts(postings, read)


def gather_turns(
    index: TextIndex, texts: Iterable[SourceText], terms: TermsOfWords
) -> Iterator[SearchedTexts]:
    """Yield texts, which stand in the order of their turns, to be searched turn by turn."""
    for _, group in groupby(texts, key=attrgetter("turn")):
        found = tuple(group)
        name = sha256(b"".join(text.digest for text in found)).digest()
        yield gather(index, name, (0,), partial(getitem, (found,)), terms)


def _index(text: str, terms: TermsOfWords) -> Postings:
    """Cut a text into passages and find their terms."""
    bounds, passages = passage_bounds(text), defaultdict[str, list[int]](list)
    for number, (start, end) in enumerate(pairwise(bounds)):
        for term in dict.fromkeys(find_terms(text[start:end], terms)):
            passages[term].append(number)
    return _postings(passages, [bounds], [0])


def _join(texts: Sequence[Postings], parts: Sequence[int]) -> Postings:
    passages, start = defaultdict[str, list[int]](list), 0
    for text in texts:
        for term, numbers in text.passages.items():
            found = _numbers(numbers) if isinstance(numbers, int) else numbers
            passages[term].extend(map(start.__add__, found))
        start += text.firsts[-1]
    return _postings(passages, [text.bounds[0] for text in texts], parts)


def _postings(
    passages: Mapping[str, list[int]], bounds: Sequence[Sequence[int]], parts: Sequence[int]
) -> Postings:
    rare = defaultdict[int, list[str]](list)
    for term, numbers in passages.items():
        if len(numbers) == 1:
            rare[numbers[0]].append(term)
    firsts = accumulate((max(0, len(each) - 1) for each in bounds), initial=0)
    packed = {term: _packed(numbers) for term, numbers in passages.items()}
    return Postings(packed, dict(rare), bounds, [*firsts], parts)


def _packed(numbers: Sequence[int]) -> Numbers:
    """Return numbers in order as what takes less memory."""
    if len(numbers) * NUMBER_BITS < numbers[-1]:
        return tuple(numbers)
    found = bytearray(numbers[-1] // 8 + 1)
    for number in numbers:
        found[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(found, "little")


def _bits(numbers: Numbers) -> int:
    return numbers if isinstance(numbers, int) else reduce(or_, map((1).__lshift__, numbers), 0)


def passage_bounds(text: str) -> tuple[int, ...]:
    """Return where passages of a text start, and its end: behind a line, or in a long one behind a sentence."""
    bounds = [0]
    for line in _LINE.finditer(text):
        whole = line.end() - line.start() <= PASSAGE_CHARACTERS
        ends = [line.end()] if whole else [each.end() for each in _SENTENCE.finditer(text, *line.span())]
        for end in ends:
            while end - bounds[-1] > PASSAGE_CHARACTERS:
                last = bounds[-1] + PASSAGE_CHARACTERS
                bounds.append(text.rfind(" ", bounds[-1] + PASSAGE_CHARACTERS // 2, last) + 1 or last)
            bounds.append(end)
    return tuple(dict.fromkeys(bounds)) if text else ()


def _columns(
    source: SourceText, start: int, end: int, rules: Callable[[str], Sequence[re.Match[str]]]
) -> str:
    """Return the line that names the columns of the table that has a row there; "" where there is none."""
    text, row = source.text, source.text[start:end]
    if "|" in row:
        rule = next((each for each in reversed(rules(text)) if each.end() <= start and "|" in each[1]), None)
        return rule[1] if rule and text.find("\n\n", rule.start(), start) < 0 else ""
    first = text[: max(0, text.find("\n"))]
    is_table = source.author.startswith("tool") and len(first) < min(start, PASSAGE_CHARACTERS)
    return first if is_table and any(first.count(each) == row.count(each) > 1 for each in _DELIMITERS) else ""


def texts_of_turns(turns: Sequence[Turn]) -> Iterator[SourceText]:
    """Yield what the items of a conversation's turns say, in their order."""
    for index, turn in enumerate(turns):
        yield from texts_of_entries(index, turn, tuple(turn.entries))


def texts_of_entries(index: int, turn: Turn, entries: Sequence[DigestedItem]) -> Iterator[SourceText]:
    """Yield what some items of a turn, by its index in the conversation, say in their order."""
    names = {each.item["call_id"]: each.item["name"] for each in turn.entries if is_function_call(each.item)}
    for entry in entries:
        if text := item_text(entry.item).strip():
            yield SourceText(index, _author(entry.item, names), text, entry.digest)


def item_text(item: Item) -> str:
    """Return what an item says, without media; "" for reasoning and other items."""
    if is_message(item):
        return _content_text(item["content"])
    if is_function_call(item):
        return _arguments_text(item["arguments"])
    if is_function_call_output(item):
        return item["output"] if isinstance(item["output"], str) else _content_text(item["output"])
    return ""


def _arguments_text(arguments: str) -> str:
    """Return a call's arguments as lines of names and values; texts as they are, so that they can be read."""
    fields = read_json(arguments)
    if not isinstance(fields, dict):
        return arguments
    texts = (
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in fields.values()
    )
    return "\n".join(map("{}: {}".format, fields, texts))


def _content_text(content: Sequence[InputPart | OutputPart]) -> str:
    """Join the texts of a message's parts, attached text files among them."""
    return "\n".join(filter(None, map(_part_text, content)))


def _part_text(part: InputPart | OutputPart) -> str:
    match part["type"]:
        case "input_text" | "output_text":
            return part["text"]
        case "refusal":
            return part["refusal"]
        case "input_file":
            return embedded_text(part) or ""
    return ""


def _author(item: Item, names: Mapping[str, str]) -> str:
    """Name who wrote an item; a tool's name is one line."""
    if is_message(item):
        return item["role"]
    name = names.get(item["call_id"], "") if is_function_call(item) or is_function_call_output(item) else ""
    return " ".join(f"tool {name}".split())[:AUTHOR_CHARACTERS]


TERM_WEIGHT = 0.5
"""Of each term that a passage has, beside its rarity: two that are common say as much as one that is rare."""
NEIGHBOR_SHARE = 0.4
"""Of the weight of a term that stands in the passage before or behind."""
UNIQUE_TERM_BONUS = 0.3
MAX_UNIQUE_TERMS = 5
"""What a passage has alone makes it worth finding: of texts that repeat each other (logs, tables, templates), those
lines are meant that differ."""
CANDIDATES = 4
"""By their terms alone, so many times as many passages are found as are returned."""
MAX_QUERY_TERMS = 40
MAX_QUERY_CHARACTERS = 20_000
WEIGHT_UNITS = 4_096


def make_query(question: str) -> dict[str, float]:
    """Return the terms that are looked for with their weights, without stop words."""
    return dict(islice(query_terms(question[:MAX_QUERY_CHARACTERS]).items(), MAX_QUERY_TERMS))


@dataclass(frozen=True, slots=True)
class Found:
    """The passages that fit a query, the best first, each with its score; they are put together when they are read.

    `best` is the highest weight of the query's terms in one of all the passages that were searched, `searched` their
    number.
    """

    passages: Iterable[tuple[ChatPassage, float]]
    best: float
    searched: int


def search(groups: Sequence[SearchedTexts], query: Mapping[str, float], *, limit: int) -> Found:
    """Return at most `limit` passages of all the texts, the best first, of equal ones the first.

    A score is the weight of the query's terms that a passage has, and more if it has words of its own.
    """
    starts = [*accumulate((group.postings.firsts[-1] for group in groups), initial=0)]
    all_postings = [group.postings.passages for group in groups]
    sums = _weights(query, all_postings, starts)

    @cache
    def is_unique(term: str) -> bool:
        having = (passages for passages in all_postings if term in passages)
        return len([*islice(having, 2)]) == 1

    def with_bonus(score: float, number: int) -> tuple[float, int]:
        group = bisect_right(starts, number) - 1
        unique = sum(map(is_unique, groups[group].postings.rare.get(number - starts[group], ())))
        return score * (1 + UNIQUE_TERM_BONUS * min(MAX_UNIQUE_TERMS, unique)), -number

    def passages() -> Iterator[tuple[ChatPassage, float]]:
        rules = cache(lambda text: [*_TABLE_RULE.finditer(text)])
        for score, number in nlargest(limit, starmap(with_bonus, sums.highest(CANDIDATES * limit))):
            group = bisect_right(starts, -number) - 1
            postings, passage = groups[group].postings, -number - starts[group]
            text = bisect_right(postings.firsts, passage) - 1
            source, first = groups[group].read(text), passage - postings.firsts[text]
            start, end = postings.bounds[text][first : first + 2]
            columns, found = _columns(source, start, end, rules), source.text[start:end]
            yield ChatPassage(source.turn, source.author, found, source.digest, start, columns), score

    largest = next((score for score, _ in sums.highest(1)), 0.0)
    return Found(passages(), largest, starts[-1])


def _weights(
    query: Mapping[str, float], groups: Sequence[Mapping[str, Numbers]], starts: Sequence[int]
) -> BitSums:
    """Return what the passages of all groups have of the query's terms."""
    searched, sums = starts[-1], BitSums()
    all_bits = (1 << searched) - 1
    for term, weight in query.items():
        having = 0
        for start, passages in zip(starts, groups, strict=False):
            having |= _bits(passages.get(term, 0)) << start
        beside = (having << 1 | having >> 1) & all_bits & ~having
        whole = weight * (TERM_WEIGHT + rarity(having.bit_count(), searched))
        sums.add(having, whole)
        sums.add(beside, NEIGHBOR_SHARE * whole)
    return sums


class BitSums:
    """Sums of weights by number, held bit by bit: those of all numbers are added at once.

    Each of the integers in `_bits` has one bit of all sums (bit-sliced arithmetic: Rinfret, O'Neil and O'Neil,
    "Bit-Sliced Index Arithmetic", 2001). Weights are rounded to 1 / WEIGHT_UNITS.
    """

    def __init__(self) -> None:
        """All sums are zero."""
        self._bits: list[int] = []

    def add(self, numbers: int, weight: float) -> None:
        """Add a weight to the sums of these numbers, which are bits."""
        units = round(weight * WEIGHT_UNITS)
        for place in range(units.bit_length()):
            carry, at = numbers if units >> place & 1 else 0, place
            while carry:
                self._bits += [0] * (at + 1 - len(self._bits))
                self._bits[at], carry, at = self._bits[at] ^ carry, self._bits[at] & carry, at + 1

    def highest(self, count: int) -> Iterator[tuple[float, int]]:
        """Yield the highest sums that are not zero, each with its number; of equal ones the first numbers."""
        chosen, equal = 0, reduce(or_, self._bits, 0)
        for bits in reversed(self._bits):
            more = chosen | equal & bits
            if more.bit_count() > count:
                equal &= bits
            else:
                chosen, equal = more, equal & ~bits
        places = [(1 << at, f"{bits:b}"[::-1]) for at, bits in enumerate(self._bits)]
        for number in islice(chain(_numbers(chosen), _numbers(equal)), count):
            units = sum(unit for unit, bits in places if bits[number : number + 1] == "1")
            yield units / WEIGHT_UNITS, number


def _numbers(bits: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, from the lowest."""
    return (found.start() for found in re.finditer("1", f"{bits:b}"[::-1]))


def rarity(passages_with: int, passages: int) -> float:
    """Return the inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (passages - passages_with + 0.5) / (passages_with + 0.5))
