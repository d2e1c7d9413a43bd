"""The words: the vocabulary of docs/architecture.md is the code's own, and texts say what is."""

from __future__ import annotations

import re

import pytest

from scripts.paths import PACKAGE, ROOT
from tests.support.pages import PAGES, name_of

TERMS = re.findall(
    r"^\| ([a-z ,]+) \|",
    (ROOT / "docs" / "architecture.md")
    .read_text("utf-8")
    .partition("## Vocabulary")[2]
    .partition("\n## ")[0],
    re.MULTILINE,
)
"""The first column of the table."""

HISTORY = re.compile(
    r"\b(?:TODO|FIXME|XXX):|\b(?:[Ii]ssue|[Tt]icket|[Pp]ull request) #\d+|\bcommit [0-9a-f]{7,}\b|/home/\w"
)
"""What is about work on the text, and not about the pipe."""


def words_of(source: str) -> str:
    """A source in lower case, with a blank in the place of all that parts words, in names as in sentences."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", " ", source).lower()


def test_the_code_uses_each_term_of_the_vocabulary() -> None:
    """In a name or a sentence; a term that nothing uses is not one of ours."""
    text = " ".join(words_of(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py"))
    terms = [term for row in TERMS for term in row.split(", ") if term != "word"]
    assert len(terms) > 20
    assert [term for term in terms if term not in text] == []


def test_each_term_is_explained_once() -> None:
    """A thing has one word, and a word one meaning."""
    terms = [term for row in TERMS for term in row.split(", ")]
    assert len(set(terms)) == len(terms)


def test_pages_and_code_say_what_is() -> None:
    """No word about how a text came about, or is to be changed."""
    paths = [*PAGES, *PACKAGE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py")]
    found = [
        (name_of(path), match[0]) for path in paths for match in HISTORY.finditer(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class MissingArtifact:", "class missing artifact "),
        ("chain_digests", "chain digests"),
        ("a prefix-break", "a prefix break"),
    ],
)
def test_names_are_read_word_by_word(source: str, words: str) -> None:
    """They end at underscores, capitals and signs."""
    assert words_of(source) == words
