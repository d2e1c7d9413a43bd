"""The passages that fit a query, best first: those that have most of its terms, where rare terms count for more.

This is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) without what it
adds for terms that are repeated, and subtracts for length: in passages that are short and alike long, neither changes
what is found. The weights are Lucene's inverse document frequencies, which are never negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from heapq import nlargest
from itertools import chain, islice

from .passages import ChatPassage, IndexedText, Postings, SourceText, TextIndex, index_text, post_terms
from .words import TermsOfWords, query_terms

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
        term: weight * rarity(len(numbers[term]), postings.count) for term, weight in query.weights.items()
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
    start, *rest = text.starts[number : number + 2]
    end = rest[0] if rest else len(source.text)
    return ChatPassage(source.turn, source.author, source.text[start:end], source.digest, start)
