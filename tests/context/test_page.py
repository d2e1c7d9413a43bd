"""The page that answers `/context`: what it says of a report, and that nothing in a chat gets out of its text.

`pages.txt` holds pages, a line an element, and the same as text; `python -m tests.context.test_page` writes them anew.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.report import (
    ContextReport,
    ReportedBreak,
    ReportedSummary,
    context_text,
)
from open_webui_openrouter_pipe.money.audit import ChatSpending
from open_webui_openrouter_pipe.money.prefix import BreakCause
from open_webui_openrouter_pipe.planning.simulate import BreakReason
from open_webui_openrouter_pipe.words.lines import notice
from tests.support.context_reports import EMPTY, HOSTILE, HOSTILE_TEXT, LONG, REPORTS, SMALL, turn

PAGES = Path(__file__).with_name("pages.txt")
QUOTED = "a *b* [c](d) <e> https://a.example/b or www.a.example or anna@a.example at 10:30"
WINDOW = replace(SMALL, turns=(), breaks=(), summaries=())
RECORDED = {
    "empty": EMPTY,
    "small": SMALL,
    "unknown window": replace(WINDOW, window_tokens=None, cost=None),
    "overfull": replace(WINDOW, window_tokens=48_000),
    "quoted": replace(
        WINDOW,
        turns=[turn(1, text=QUOTED)],
        summaries=[ReportedSummary(1, 1, 90, 9, f"- one\n---\n2. two - 3.5\n{QUOTED}")],
    ),
    "dearer with a cache": replace(WINDOW, cost=ChatSpending(1, cost=0.4184, saved=-1)),
}
ENDLESS = {"meta", "thead", "tbody", "tr", "th", "td"}
"""HTML lets these end with what follows, or at once."""


@dataclass
class Document(HTMLParser):
    """What a browser reads in a page: its elements in order, and its texts."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ENDLESS:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(report: ContextReport) -> Document:
    document = Document()
    document.feed(context_page(report))
    document.close()
    assert document.open_tags == []
    return document


def recorded(name: str) -> str:
    """A page without its style and script, and the text beside it."""
    page = re.sub(r"<(style|script)>.*?</\1>|sha256-[^']*", "", context_page(RECORDED[name]), flags=re.DOTALL)
    elements = re.sub(r"(?<=.)(?=<(?!/|t[dh]|i |span|small|code|b>))", "\n", page)
    return f"## {name}\n{elements}\n\n{context_text(RECORDED[name])}\n"


@pytest.mark.parametrize("name", RECORDED)
def test_a_report_is_drawn_as_it_is_recorded(name: str) -> None:
    """The bar with its parts and what is free, turns, costs, changes of the prefix, summaries with their commands."""
    assert recorded(name) in PAGES.read_text("utf-8")


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_page_loads_nothing_and_runs_nothing_but_its_own_script(report: ContextReport) -> None:
    """No address, no handler in the markup, one script, and a policy that names it by its digest."""
    page, document = context_page(report), read(report)
    names = {name for _, attributes in document.elements for name in attributes}
    assert {name for name in names if name.startswith("on")} == set()
    assert names & {"src", "href", "srcset", "action", "data"} == set()
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(each["content"] for _, each in document.elements if "http-equiv" in each)
    assert policy == (
        "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )
    assert "url(" not in page.partition("</style>")[0]


@given(st.text() | st.sampled_from(["</script>", "<!--", "&quot;", "'", '"', "`", "\0", "{}", "]]>"]))
def test_no_text_of_a_chat_becomes_markup(text: str) -> None:
    """Whatever it is, the elements are the same."""
    shapes = []
    for each in (text, "x"):
        report = replace(
            SMALL,
            model=each,
            turns=[replace(said, text=each) for said in SMALL.turns],
            summaries=[replace(summary, text=summary.text and f"{each}.") for summary in SMALL.summaries],
            breaks=[replace(found, cause=each) for found in SMALL.breaks],
        )
        shapes.append([(tag, tuple(attributes)) for tag, attributes in read(report).elements])
    assert shapes[0] == shapes[1]


def test_hostile_text_is_shown_as_it_is() -> None:
    """But for what no database keeps as text."""
    texts = read(replace(HOSTILE, summaries=[ReportedSummary(1, 1, 9, 9, HOSTILE_TEXT)])).texts
    assert HOSTILE_TEXT.replace("\0", "?").replace("\ud800", "?") in texts
    assert context_page(HOSTILE).encode().count(b"\0") == 0


def test_of_a_long_chat_the_newest_turns_are_seen_at_once() -> None:
    """The others are one table that is to be opened, and the page stays small."""
    page = context_page(LONG)
    opened, seen = re.findall(r'<table class="turns".*?</table>', page, re.DOTALL)
    numbers = [re.findall(r'<tr><th scope="row">(\d+)', table) for table in (opened, seen)]
    assert [list(map(int, each)) for each in numbers] == [[*range(1, 993)], [*range(993, 1_001)]]
    assert page.index("<details><summary>Earlier turns: 992</summary>") < page.index(opened)
    assert len(page) < 220_000


def test_every_cause_has_words_of_its_own() -> None:
    """All that the plan announces and the audit finds; what it does not know is said to be unknown."""
    causes = {*get_args(BreakReason), *get_args(BreakCause), "something new"}
    unknown = notice("context_cause_unknown")
    pages = {cause: read(replace(SMALL, breaks=[ReportedBreak(1, cause, None)])).texts for cause in causes}
    assert {cause for cause, texts in pages.items() if unknown in texts} <= {"unknown", "something new"}


def test_all_words_are_the_notices() -> None:
    """In another language no English is left but what the report quotes and what one types."""
    page = context_page(
        SMALL, lambda name, **values: f"«{values.get('restore', '')}{values.get('discard', '')}»"
    )
    seen = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>|«[^»]*»", " ", page, flags=re.DOTALL)
    for quoted in (*(said.text for said in SMALL.turns), SMALL.summaries[0].text):
        seen = seen.replace(quoted, " ", 1)
    labels = re.findall(r'(?:aria-label|lang)="([^"]*)"', page)
    assert re.findall(r"[^\W\d_]+", seen + re.sub(r"«[^»]*»", "", " ".join(labels))) == []


if __name__ == "__main__":
    PAGES.write_text("\n".join(map(recorded, RECORDED)), "utf-8")
