"""The passages that fit a query, best first, by BM25.

The formula is Robertson and Zaragoza's ("The Probabilistic Relevance Framework: BM25 and Beyond", 2009), with weights
for the query's terms, and with Lucene's inverse document frequency, which is never negative.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from heapq import nlargest
from itertools import chain, islice
from typing import TypeAlias

from .passages import ChatPassage, IndexedText, SourceText, TextIndex, index_text
from .words import TermsOfWords, query_terms

SATURATION = 1.2
"""k1: how soon it counts no more that a passage repeats a term."""
LENGTH_SHARE = 0.75
"""b: how far a term counts for less in a long passage."""
CONTEXT_WEIGHT = 0.1
"""Of a term that stands in the context of a question, not in the question."""
UNIQUE_TERM_BONUS = 0.2
MAX_UNIQUE_TERMS = 5
"""What a passage has alone makes it worth finding: of texts that repeat each other (logs, tables, templates), those
lines are meant that differ."""
CANDIDATES = 4
"""By BM25 alone, so many times as many passages are found as are returned."""
MAX_QUESTION_TERMS = 40
MAX_CONTEXT_TERMS = 20
MAX_QUERY_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for: terms with their weights, of which a passage must have one that is `required`."""

    weights: Mapping[str, float]
    required: frozenset[str]


_Candidate: TypeAlias = tuple[float, int, int]
"""A passage: its score, and the numbers of its text and in it, negated: of equal ones the first is the largest."""

NO_QUERY = Query({}, frozenset())


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

    A passage of the usual length that has every term of the query once scores 1, and more if it has words of its own.
    Texts that the index lacks are added to it.
    """
    terms = TermsOfWords()
    texts = [
        index.texts.get_or_compute(source.digest, partial(index_text, source.text, terms))
        for source in sources
    ]
    name = sha256(b"".join(source.digest for source in sources)).digest()
    frequencies = index.frequencies.get_or_compute(name, partial(_count_passages, texts))
    best = nlargest(CANDIDATES * limit, _scored(texts, query, frequencies))

    def with_bonus(candidate: _Candidate) -> _Candidate:
        score, at, number = candidate
        unique = sum(frequencies[term] == 1 for term in texts[-at].counts[-number])
        return score * (1 + UNIQUE_TERM_BONUS * min(MAX_UNIQUE_TERMS, unique)), at, number

    chosen = nlargest(limit, map(with_bonus, best))
    return [(_passage(sources[-at], texts[-at], -number), score) for score, at, number in chosen]


def _count_passages(texts: Sequence[IndexedText]) -> Counter[str]:
    """Count the passages that have each term."""
    return Counter(chain.from_iterable(chain.from_iterable(text.counts for text in texts)))


def _scored(texts: Sequence[IndexedText], query: Query, frequencies: Counter[str]) -> Iterator[_Candidate]:
    """Yield the passages that have a required term, with their scores."""
    passages = sum(len(text.starts) for text in texts)
    mean_length = sum(sum(text.lengths) for text in texts) / max(1, passages)
    least_norm, norm_of_term = (
        SATURATION * (1 - LENGTH_SHARE),
        SATURATION * LENGTH_SHARE / max(1, mean_length),
    )
    weighted = {term: weight * rarity(frequencies[term], passages) for term, weight in query.weights.items()}
    scale = (SATURATION + 1) / max(1e-9, sum(weighted.values()))
    for at, text in enumerate(texts):
        for number, counts in enumerate(text.counts):
            if counts.keys().isdisjoint(query.required):
                continue
            norm, score = least_norm + norm_of_term * text.lengths[number], 0.0
            for term, weight in weighted.items():
                if count := counts.get(term):
                    score += weight * count / (count + norm)
            yield scale * score, -at, -number


def rarity(passages_with: int, passages: int) -> float:
    """Return the inverse document frequency of a term that so many of all passages have."""
    return math.log(1 + (passages - passages_with + 0.5) / (passages_with + 0.5))


def _passage(source: SourceText, text: IndexedText, number: int) -> ChatPassage:
    start, *rest = text.starts[number : number + 2]
    end = rest[0] if rest else len(source.text)
    return ChatPassage(source.turn, source.author, source.text[start:end], source.digest, start)
