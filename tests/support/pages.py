"""The documentation as data: its pages, their fenced blocks, headings, links and commands."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from scripts.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"^( *)```(.*)$")
_HEADING = re.compile(r"^#{1,6} (.+)$")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


class Block(NamedTuple):
    """A fenced block: its page and line, its language, the name behind that ("" for none), and its text."""

    page: str
    line: int
    language: str
    name: str
    text: str


class Link(NamedTuple):
    """A link or picture: the page that has it, and its target as it is written."""

    page: Path
    target: str


def name_of(page: Path) -> str:
    """A page by its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks() -> list[Block]:
    """All fenced blocks of all pages, in their order. Raises ValueError where one is not closed."""
    return [block for page in PAGES for block in _blocks(page)]


def links() -> list[Link]:
    """All links of all pages; what is in code is none."""
    return [
        Link(page, target)
        for page in PAGES
        for target in _LINK.findall(_CODE.sub("", "\n".join(_prose(page))))
    ]


def inline_code() -> list[str]:
    """What stands between single backticks in the prose and tables of all pages."""
    return [code for page in PAGES for line in _prose(page) for code in _CODE.findall(line)]


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked, by GitHub's rule."""
    headings = [found[1] for line in _prose(page) if (found := _HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def _blocks(page: Path) -> Iterator[Block]:
    opened: list[str] | None = None
    line, words = 0, [""]
    for number, content in enumerate(page.read_text("utf-8").splitlines(), start=1):
        fence = _FENCE.match(content)
        if fence is None:
            if opened is not None:
                opened.append(content)
        elif opened is None:
            opened, line, words = [], number, [*fence[2].split(), "", ""]
        else:
            yield Block(name_of(page), line, words[0], words[1], textwrap.dedent("\n".join(opened)) + "\n")
            opened = None
    if opened is not None:
        raise ValueError(f"{page}:{line}: a block that is not closed")


def _prose(page: Path) -> Iterator[str]:
    is_inside = False
    for content in page.read_text("utf-8").splitlines():
        if _FENCE.match(content):
            is_inside = not is_inside
        elif not is_inside:
            yield content
