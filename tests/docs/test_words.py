"""The vocabulary: identifiers and prose use the field's terms and none of the words listed here.

`python -m tests.docs.test_words` prints every offender, sorted by file.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

if __name__ == "__main__":
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2]))

from scripts.paths import PACKAGE, ROOT
from tests.support.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CODE = (PACKAGE, ROOT / "scripts", ROOT / "tests")

IN_IDENTIFIERS = {
    "a value, a name, a summary, summarized, said": "tell tells telling tellings told untold tellable",
    "the summary writer, the summarizer's state": "scribe desk bureau clerk",
    "evict, prune": "land landed landing landings lands relieve relieved relieves relieving",
    "available summaries, a segment or run of turns": "shelf shelves stretch stretches",
    "a row codec, an outbox, a channel": "parcel parcels shelter sheltered shelters outlet outlets",
    "resources, services": "ground grounds belongings means",
    "a request, a time": "moment moments",
    "accrued, awaited": "waited",
    "a summary message, an instruction": "standing",
    "desired, required, requested": "wish wished wishes wishing",
    "external, another family's": "foreign",
    "details, numbers": "receipt receipts figure figures",
    "emit, reserve, reconcile, flush, finish": "settle settled settles settling",
    "collect, collector": "noter noters",
    "an index, offset, position, path, cell": "place placed places placing",
    "a missing artifact": "hole holes",
    "a detail level": "lean gone spent",
    "the prompt cache's clock": "warm warmth",
    "created, built, a batch": "made",
    "a request": "asking",
}
"""What to say instead → words that no identifier holds, in any of its parts between underscores and capitals."""

ALLOWED_IDENTIFIERS: dict[str, str] = {"connection_made": "asyncio calls its protocols so"}
"""Identifier → why it keeps a word from above: it is another program's name, which we must use as it is."""

IN_PROSE = {
    "say what is said": r"told|untold|tellable|tellings?",
    "whether, return whether": r"tells? whether",
    "return": r"gives? back",
    "the field's term": r"scribes?|landings?|relieve[sd]?|parcels?|shelter(?:s|ed)?|belongings|noters?|warmth",
    "a range, a run, an index": r"stretch(?:es)?|shelf|shelves",
    "a channel, a queue": r"outlets?",
    "external, another": r"foreign(?! key)",
    "details": r"receipts?",
    "is, totals": r"comes? to(?= (?:\d|so |how|that|what|more|less|about|nothing|at ))|what (?:\w+ ){1,3}comes? to",
    "available": r"at hand",
    "unavailable": r"(?:is|are) away",
    "omitted": r"left out",
}
"""What to say instead → a pattern for words that are wrong in every sentence of ours."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_INSTEAD = {word: instead for instead, words in IN_IDENTIFIERS.items() for word in words.split()}
_PROSE = re.compile(
    rf"(?<![\w`/.-])(?:{'|'.join(f'({pattern})' for pattern in IN_PROSE.values())})(?![\w`])", re.IGNORECASE
)
"""One group for each entry above."""


class Offender(NamedTuple):
    """A wrong word with its file and line, and what to say instead."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        """One line that editors can jump to."""
        return f"{self.path}:{self.line}: {self.word} (say: {self.instead})"


def identifier_offenders(path: Path) -> Iterator[Offender]:
    """Wrong words in the names that a module defines, its own name among them; a test's name is a sentence."""
    shown = path.relative_to(ROOT).as_posix()
    for line, name in [(1, path.stem), *_defined_names(ast.parse(path.read_text("utf-8")))]:
        if name.startswith("test_"):
            yield from _prose_offenders(path, line, name.replace("_", " "))
            continue
        for word in [] if name in ALLOWED_IDENTIFIERS else _WORD.findall(name):
            if instead := _INSTEAD.get(word.lower()):
                yield Offender(shown, line, name, instead)
                break


def _defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def page_offenders(page: Path) -> Iterator[Offender]:
    """Wrong words in a page of the documentation."""
    return _prose_offenders(page, 1, page.read_text("utf-8"))


def comment_offenders(path: Path) -> Iterator[Offender]:
    """Wrong words in a module's docstrings, and behind each `#`."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(prose))):
                yield from _prose_offenders(path, node.lineno, prose)
    for number, line in enumerate(text.splitlines(), start=1):
        if "#" in line:
            yield from _prose_offenders(path, number, line.partition("#")[2])


def _prose_offenders(path: Path, first_line: int, text: str) -> Iterator[Offender]:
    for line, content in enumerate(text.splitlines(), start=first_line):
        for found in _PROSE.finditer(content):
            instead = list(IN_PROSE)[found.lastindex - 1] if found.lastindex else ""
            yield Offender(path.relative_to(ROOT).as_posix(), line, found[0], instead)


def modules(*folders: Path) -> list[Path]:
    """All modules in the folders."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def offenders() -> list[Offender]:
    """All of them, sorted by file and line."""
    found = [offender for path in modules(*CODE) for offender in identifier_offenders(path)]
    found += [offender for page in PAGES for offender in page_offenders(page)]
    found += [offender for path in modules(*CODE) for offender in comment_offenders(path)]
    return sorted(found)


def test_the_vocabulary_is_kept() -> None:
    """Names, documentation, docstrings and comments hold none of the words above."""
    found = offenders()
    assert not found, "\n".join(["", *map(str, found)])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("told_turns", ["told"]),
        ("_untold", ["untold"]),
        ("GoneLevel", ["Gone"]),
        ("HTTPOutlet", ["Outlet"]),
        ("grounded", []),
        ("placeholder", []),
        ("mesh", []),
    ],
)
def test_an_identifier_is_read_word_by_word(name: str, words: list[str]) -> None:
    """Words end at underscores and capitals, so `grounded` and `placeholder` are words of their own."""
    assert [word for word in _WORD.findall(name) if word.lower() in _INSTEAD] == words


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Tell whether it fits.", 1),
        ("What the request comes to.", 1),
        ("The model comes to rest.", 0),
        ("The `outlet` filter of the host, and a foreign key.", 0),
        ("The store is away; no summary is at hand.", 2),
    ],
)
def test_prose_is_read_phrase_by_phrase(text: str, count: int) -> None:
    """Quoted names of other programs and their own terms are left alone."""
    assert len(list(_PROSE.finditer(text))) == count


if __name__ == "__main__":
    sys.stdout.writelines(f"{offender}\n" for offender in offenders())
