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
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from heapq import nlargest
from itertools import accumulate, chain, islice, pairwise

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
from .words import TermsOfWords, find_terms, query_terms

PASSAGE_CHARACTERS = 300
"""A longer line is divided."""
INDEX_TERMS = 4_000_000
"""How many terms of passages a worker keeps, each about 25 bytes: those of some six million tokens of chats."""
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


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text's passages: their bounds, and the terms of each, as often as they stand there."""

    bounds: tuple[int, ...]
    terms: tuple[tuple[str, ...], ...]

    @property
    def size(self) -> int:
        """How many terms its passages have in all, which is what it takes in memory."""
        return sum(map(len, self.terms))


@dataclass(frozen=True, slots=True)
class Postings:
    """The passages of some texts, numbered from zero.

    `passages` are the numbers of those that have a term, in their order, each as often as it stands there. `firsts` are
    the numbers of the texts' first passages; the last one is how many passages there are.
    """

    passages: Mapping[str, Sequence[int]]
    firsts: Sequence[int]

    @property
    def size(self) -> int:
        """How many numbers there are, which is what it takes in memory."""
        return sum(map(len, self.passages.values()))

    def is_unique(self, term: str) -> bool:
        """Whether a term that some passage has stands in no other."""
        numbers = self.passages[term]
        return numbers[0] == numbers[-1]

    def position(self, number: int) -> tuple[int, int]:
        """Return the index of a passage's text, and that of the passage in it."""
        text = bisect_right(self.firsts, number) - 1
        return text, number - self.firsts[text]


@dataclass(frozen=True, slots=True)
class TextIndex:
    """What is kept from search to search: texts by their items' digests, postings by the digests of all their texts."""

    texts: ContentCache[IndexedText]
    postings: ContentCache[Postings]


def new_index(max_terms: int = INDEX_TERMS) -> TextIndex:
    """Return an empty index that keeps so many terms of texts, and half as many postings."""
    texts = ContentCache[IndexedText](max_terms, lambda text: 1 + text.size)
    return TextIndex(texts, ContentCache(max_terms // 2, lambda postings: 1 + postings.size))


def index_text(text: str, terms: TermsOfWords) -> IndexedText:
    """Cut a text into passages and find their terms."""
    bounds = passage_bounds(text)
    passages = (text[start:end] for start, end in pairwise(bounds))
    return IndexedText(bounds, tuple(tuple(find_terms(passage, terms)) for passage in passages))


def post_terms(texts: Sequence[IndexedText]) -> Postings:
    """List the passages that have each term.

    Repetitions stay: omitting them here would cost more than it does for the few terms of a query.
    """
    passages: defaultdict[str, list[int]] = defaultdict(list)
    for number, terms in enumerate(chain.from_iterable(text.terms for text in texts)):
        for term in terms:
            passages[term].append(number)
    return Postings(dict(passages), [*accumulate((len(text.terms) for text in texts), initial=0)])


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
    try:
        fields = json.loads(arguments)
    except (ValueError, RecursionError):
        fields = None
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
            return embedded_text(part.get("file_data") or "") or ""
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


def make_query(question: str) -> dict[str, float]:
    """Return the terms that are looked for with their weights, without stop words."""
    return dict(islice(query_terms(question[:MAX_QUERY_CHARACTERS]).items(), MAX_QUERY_TERMS))


@dataclass(frozen=True, slots=True)
class Found:
    """The passages that fit a query, the best first, each with its score; they are put together when they are read.

    `best` is the highest weight of the query's terms in one of all the passages that were searched, `searched` their
    number.
    """

    passages: Iterator[tuple[ChatPassage, float]]
    best: float
    searched: int


def search(
    sources: Sequence[SourceText], query: Mapping[str, float], index: TextIndex, *, limit: int
) -> Found:
    """Return at most `limit` passages, the best first, of equal ones the first.

    A score is the weight of the query's terms that a passage has, and more if it has words of its own. Texts that the
    index lacks are added to it.
    """
    terms = TermsOfWords()
    texts = [
        index.texts.get_or_compute(source.digest, partial(index_text, source.text, terms))
        for source in sources
    ]
    name = sha256(b"".join(source.digest for source in sources)).digest()
    postings = index.postings.get_or_compute(name, partial(post_terms, texts))

    weights = _weights(query, postings)

    def with_bonus(number: int) -> tuple[float, int]:
        at, passage = postings.position(number)
        unique = sum(postings.is_unique(term) for term in set(texts[at].terms[passage]))
        return weights[number] * (1 + UNIQUE_TERM_BONUS * min(MAX_UNIQUE_TERMS, unique)), -number

    def passages() -> Iterator[tuple[ChatPassage, float]]:
        best = nlargest(CANDIDATES * limit, weights, key=lambda number: (weights[number], -number))
        rules = cache(lambda text: [*_TABLE_RULE.finditer(text)])
        for score, number in nlargest(limit, map(with_bonus, best)):
            at, passage = postings.position(-number)
            start, end = texts[at].bounds[passage : passage + 2]
            columns = _columns(source := sources[at], start, end, rules)
            found = source.text[start:end]
            yield ChatPassage(source.turn, source.author, found, source.digest, start, columns), score

    return Found(passages(), max(weights.values(), default=0.0), postings.firsts[-1])


def _weights(query: Mapping[str, float], postings: Postings) -> dict[int, float]:
    """Return what the passages have of the query's terms, by their numbers."""
    searched = postings.firsts[-1]
    found: defaultdict[int, float] = defaultdict(float)
    for term, weight in query.items():
        having = set(postings.passages.get(term, ()))
        beside = {number + step for number in having for step in (-1, 1)} - having - {-1, searched}
        whole = weight * (TERM_WEIGHT + rarity(len(having), searched))
        for numbers, part in ((having, whole), (beside, NEIGHBOR_SHARE * whole)):
            for number in numbers:
                found[number] += part
    return found


def rarity(passages_with: int, passages: int) -> float:
    """Return the inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (passages - passages_with + 0.5) / (passages_with + 0.5))
