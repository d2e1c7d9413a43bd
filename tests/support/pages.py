"""The documentation as data: its pages, their fenced blocks, headings, links and commands."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from scripts.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(r"^ *```(\S*) *(\S*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
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
    """All fenced blocks of all pages, in their order."""
    return [
        Block(
            name_of(page),
            text.count("\n", 0, found.start()) + 1,
            found[1],
            found[2],
            textwrap.dedent(found[3]),
        )
        for page in PAGES
        for text in [page.read_text("utf-8")]
        for found in _BLOCK.finditer(text)
    ]


def links() -> list[Link]:
    """All links of all pages; what is in code is none."""
    return [Link(page, target) for page in PAGES for target in _LINK.findall(_CODE.sub("", _prose(page)))]


def inline_code() -> list[str]:
    """What stands between single backticks in the prose and tables of all pages."""
    return [code for page in PAGES for code in _CODE.findall(_prose(page))]


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked, by GitHub's rule."""
    headings = _HEADING.findall(_prose(page))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def _prose(page: Path) -> str:
    """A page without its blocks. Raises ValueError where one is not closed."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    if "```" in text:
        raise ValueError(f"{page}: a block that is not closed")
    return text
