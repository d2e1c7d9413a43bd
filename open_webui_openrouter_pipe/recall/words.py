"""The terms by which texts are compared, in any script: words by Unicode's rules, folded, and cut to their beginnings.

A word counts by its first letters, which is nearly as good as a stemmer and needs to know no language (McNamee and
Mayfield, "Character N-Gram Tokenization for European Language Text Retrieval", 2004); a number or an identifier counts
whole. Long words count by their parts as well, as in compounds; in scripts without blanks, each pair of characters.
"""

from __future__ import annotations

import pkgutil
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from operator import add

STEM_CHARACTERS = 5
COMPOUND_CHARACTERS = 11
"""From here on a word counts by its parts as well."""
LONGEST_COMPOUND = 32
"""Nothing longer is a word of a language."""
FIRST_PART_CHARACTERS = 3
"""The first part of a compound has so many letters at least."""
LAST_PARTS = 5
"""Of a question's compound: its last 5 to 9 letters may be a word."""
PART_WEIGHT = 0.25
MAX_TERM_CHARACTERS = 40
PLURAL_CHARACTERS = 4
"""The shortest word that loses an ending -s."""

# Han, Kana, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer: no blanks, or blanks that do not part words alone.
_UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u3005-\u3007\u3041-\u3096"
    "\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\uff66-\uff9d\U00020000-\U0003ffff"
)
# Accents as characters of their own, and the vowel signs of Indic scripts: Python's \w has neither.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
_MARKS += (
    "\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b57"
)
_MARKS += "\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d"

_ASCII_WORDS = bytes(ord(chr(code).lower() if chr(code).isalnum() else " ") for code in range(128)).ljust(256)
"""Makes bytes of ASCII words in lower case with blanks between them: many times as fast as an expression."""
_WORD = re.compile(rf"[^\W_{_UNSPACED}]+(?:[{_MARKS}]+[^\W_{_UNSPACED}]*)*")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]+")
_DIGIT = re.compile(r"\d")


class TermsOfWords(dict[str, str]):
    """The term of each word as it is written, found once; kept for as long as texts are read together.

    `parts` are the terms of long words' parts, of all such words that were asked for.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        super().__init__()
        self.parts: dict[str, tuple[str, ...]] = {}

    def __missing__(self, word: str) -> str:
        """Find the term of a new word, and those of its parts."""
        term = self[word] = word_term(word)
        if parts := tuple(word_parts(word)):
            self.parts[word] = parts
        return term


def find_terms(text: str, terms: TermsOfWords) -> list[str]:
    """Return the terms of a text, each as often as it stands there."""
    words = _words(text)
    found = list(map(terms.__getitem__, words))
    if not terms.parts.keys().isdisjoint(words):
        found += chain.from_iterable(terms.parts[word] for word in words if word in terms.parts)
    if not text.isascii():
        for run in _UNSPACED_RUN.findall(text):
            found += _pairs(unicodedata.normalize("NFKC", run))
    return found


def _words(text: str) -> list[str]:
    """Return the words of a text as they are written, or in lower case."""
    if not text.isascii():
        return _WORD.findall(text)
    return text.encode("ascii").translate(_ASCII_WORDS).decode("ascii").split()


def word_term(word: str) -> str:
    """Return the term of a word: folded, without a plural's -s, and cut to its beginning unless it has digits."""
    folded = fold_word(word)
    if _DIGIT.search(folded):
        return folded[:MAX_TERM_CHARACTERS]
    if len(folded) >= PLURAL_CHARACTERS and folded.endswith("s") and not folded.endswith("ss"):
        folded = folded[:-1]
    return folded[:STEM_CHARACTERS]


def word_parts(word: str) -> Iterator[str]:
    """Yield what may be the term of a compound's later parts, the last one at the end.

    Nothing for a word that is short or has digits.
    """
    folded = fold_word(word)
    if COMPOUND_CHARACTERS <= len(folded) <= LONGEST_COMPOUND and not _DIGIT.search(folded):
        for start in range(FIRST_PART_CHARACTERS, len(folded) - STEM_CHARACTERS + 1):
            yield folded[start : start + STEM_CHARACTERS]


def fold_word(word: str) -> str:
    """Return a word without regard to case and accents."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", word.casefold())))


def _pairs(run: str) -> Iterator[str]:
    return map(add, run, run[1:]) if len(run) > 1 else iter((run,))


@cache
def _stop_words() -> tuple[frozenset[str], frozenset[str]]:
    """The words of a question that count for nothing, and the pairs of characters of those in scripts without blanks.

    The index has them all. Of a language that is not among them, what many passages have counts for little all the
    same.
    """
    text = (pkgutil.get_data(__package__, "stop_words.txt") or b"").decode()
    words = {word for line in text.splitlines() if not line.startswith("#") for word in line.split()}
    runs = {word for word in words if _UNSPACED_RUN.fullmatch(word)}
    return frozenset(words - runs), frozenset(chain.from_iterable(map(_pairs, runs)))


def query_terms(text: str) -> dict[str, float]:
    """Return the terms of a question in their order, with weights: less for a long word's parts; no stop words."""
    stop_words, stop_pairs = _stop_words()
    weights: dict[str, float] = {}
    for word in _words(text):
        folded = fold_word(word)
        if folded in stop_words or (len(folded) == 1 and not folded.isdigit()):
            continue
        weights[word_term(word)] = 1.0
        for part in [*word_parts(word)][-LAST_PARTS:]:
            weights.setdefault(part, PART_WEIGHT)
    for run in _UNSPACED_RUN.findall(text):
        pairs = _pairs(unicodedata.normalize("NFKC", run))
        weights.update((pair, 1.0) for pair in pairs if pair not in stop_pairs)
    return weights
