"""The passages that fit a query, best first: those that have most of its terms, where rare terms count for more.

This is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) without what it
adds for terms that are repeated, and subtracts for length: in passages that are short and alike long, neither changes
what is found. The weights are Lucene's inverse document frequencies, which are never negative.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
MIN_PASSAGE_CHARACTERS = PASSAGE_CHARACTERS // 2
INDEX_TERMS = 4_000_000
"""How many terms of passages a worker keeps, each about 25 bytes: those of some six million tokens of chats."""
AUTHOR_CHARACTERS = 64

_SENTENCE_ENDS = (". ", "! ", "? ", "\u3002", "\uff01", "\uff1f")


@dataclass(frozen=True, slots=True)
class SourceText:
    """What an item of a turn (by index) says; `author` is "user", "assistant", "system" or "tool" with its name."""

    turn: int
    author: str
    text: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class ChatPassage:
    """A run of lines of a text: which turn (by index) and author it is of, and at which character it starts.

    `digest` names the item that it is of. Passages of a text follow each other without a gap.
    """

    turn: int
    author: str
    text: str
    digest: bytes
    start: int

    @property
    def end(self) -> int:
        """The offset behind its last character."""
        return self.start + len(self.text)


def join_neighbors(passages: Iterable[ChatPassage]) -> list[ChatPassage]:
    """Return the passages in their order, those in one that follow each other in a text."""
    runs: list[list[ChatPassage]] = []
    for passage in passages:
        last = runs[-1][-1] if runs else None
        if last and (last.turn, last.digest, last.end) == (passage.turn, passage.digest, passage.start):
            runs[-1].append(passage)
        else:
            runs.append([passage])
    return [replace(run[0], text="".join(passage.text for passage in run)) for run in runs]


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
    """Return where passages of a text start, and its end: behind a paragraph, a line, a sentence or a blank."""
    bounds = [0]
    while len(text) - bounds[-1] > PASSAGE_CHARACTERS:
        bounds.append(_cut_behind(text, bounds[-1] + MIN_PASSAGE_CHARACTERS, bounds[-1] + PASSAGE_CHARACTERS))
    return (*bounds, len(text)) if text else ()


def _cut_behind(text: str, first: int, last: int) -> int:
    """Return where to cut a text between two offsets."""
    for mark in ("\n\n", "\n"):
        if (at := text.rfind(mark, first, last)) >= 0:
            return at + len(mark)
    end = max(text.rfind(mark, first, last) + len(mark) for mark in _SENTENCE_ENDS)
    return end if end > first else text.rfind(" ", first, last) + 1 or last


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


CONTEXT_WEIGHT = 0.1
"""Of a term that stands in the context of a question, not in the question."""
UNIQUE_TERM_BONUS = 0.3
MAX_UNIQUE_TERMS = 5
"""What a passage has alone makes it worth finding: of texts that repeat each other (logs, tables, templates), those
lines are meant that differ."""
CANDIDATES = 8
"""By their terms alone, so many times as many passages are found as are returned."""
MAX_QUESTION_TERMS = 40
MAX_CONTEXT_TERMS = 20
MAX_QUERY_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: terms with their weights, of which a passage must have one that is `required`."""

    weights: Mapping[str, float]
    required: frozenset[str]


def make_query(question: str, context: Sequence[str] = ()) -> Query:
    """Return the query for a question, and for less weight what else it may be about; without stop words."""
    asked = _first_terms(question, MAX_QUESTION_TERMS)
    about = _first_terms("\n".join(text[:MAX_QUERY_CHARACTERS] for text in context), MAX_CONTEXT_TERMS)
    weights = {term: weight * CONTEXT_WEIGHT for term, weight in about.items()} | asked
    return Query(weights, frozenset(asked))


def _first_terms(text: str, count: int) -> dict[str, float]:
    return dict(islice(query_terms(text[:MAX_QUERY_CHARACTERS]).items(), count))


def search(
    sources: Sequence[SourceText], query: Query, index: TextIndex, *, limit: int = 50
) -> list[tuple[ChatPassage, float]]:
    """Return at most `limit` passages with their scores, the best first, of equal ones the first.

    A passage that has every term of the query scores 1, and more if it has words of its own. Texts that the index lacks
    are added to it.
    """
    terms = TermsOfWords()
    texts = [
        index.texts.get_or_compute(source.digest, partial(index_text, source.text, terms))
        for source in sources
    ]
    name = sha256(b"".join(source.digest for source in sources)).digest()
    postings = index.postings.get_or_compute(name, partial(post_terms, texts))

    def with_bonus(number: int, score: float) -> float:
        at, passage = postings.position(number)
        unique = sum(postings.is_unique(term) for term in set(texts[at].terms[passage]))
        return score * (1 + UNIQUE_TERM_BONUS * min(MAX_UNIQUE_TERMS, unique))

    scored = ((score, -number) for number, score in _scores(query, postings).items())
    best = nlargest(CANDIDATES * limit, scored)
    chosen = nlargest(limit, ((with_bonus(-number, score), number) for score, number in best))
    found = ((*postings.position(-number), score) for score, number in chosen)
    return [(_passage(sources[at], texts[at], passage), score) for at, passage, score in found]


def _scores(query: Query, postings: Postings) -> dict[int, float]:
    """Return the scores of the passages that have a required term, by their numbers."""
    numbers = {term: set(postings.passages.get(term, ())) for term in query.weights}
    weighted = {
        term: weight * rarity(len(numbers[term]), postings.firsts[-1])
        for term, weight in query.weights.items()
    }
    total = max(1e-9, sum(weighted.values()))
    scores = dict.fromkeys(chain.from_iterable(numbers[term] for term in query.required), 0.0)
    for term, weight in weighted.items():
        for number in numbers[term]:
            if number in scores:
                scores[number] += weight / total
    return scores


def rarity(passages_with: int, passages: int) -> float:
    """Return the inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (passages - passages_with + 0.5) / (passages_with + 0.5))


def _passage(source: SourceText, text: IndexedText, number: int) -> ChatPassage:
    start, end = text.bounds[number : number + 2]
    return ChatPassage(source.turn, source.author, source.text[start:end], source.digest, start)
