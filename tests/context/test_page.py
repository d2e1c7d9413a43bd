"""The page that answers `/context`: what it says of a report, and that nothing in a chat gets out of its text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.report import (
    ContextReport,
    PartName,
    ReportedBreak,
    ReportedSummary,
    ReportedTurn,
)
from open_webui_openrouter_pipe.money.prefix import BreakCause
from open_webui_openrouter_pipe.planning.simulate import BreakReason
from open_webui_openrouter_pipe.ports import ChatSpending
from open_webui_openrouter_pipe.words.lines import notice
from tests.support.context_reports import (
    HOSTILE,
    HOSTILE_TEXT,
    LONG,
    OVERFULL,
    REPORTS,
    SMALL,
    UNKNOWN_WINDOW,
)

UNSEEN = {"style", "script", "title"}
ENDLESS = {"meta"}
LEFT_OPEN = {"thead", "tbody", "tr", "th", "td"}
"""HTML lets these end with what follows."""


@dataclass
class Document(HTMLParser):
    """What a browser reads in a page: its elements in order, and its text by the classes around it."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open_tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ENDLESS | LEFT_OPEN:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open_tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if not UNSEEN.intersection(self.open_tags):
            self.texts.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if attributes.get("class") == name]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """The elements with the names of their attributes."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements]


def read(report: ContextReport) -> Document:
    document = Document()
    document.feed(context_page(report))
    document.close()
    assert document.open_tags == []
    return document


def with_text(text: str) -> ContextReport:
    """A report in which each text of a chat is this one."""
    return replace(
        SMALL,
        model=text,
        turns=[replace(each, text=text) for each in SMALL.turns],
        summaries=[replace(each, text=each.text and f"{text}.") for each in SMALL.summaries],
        breaks=[replace(each, cause=text) for each in SMALL.breaks],
    )


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
    assert page.startswith('<!doctype html><html lang="en"><head>')


@given(st.text() | st.sampled_from(["</script>", "<!--", "&quot;", "'", '"', "`", "\0", "{}", "]]>"]))
def test_no_text_of_a_chat_becomes_markup(text: str) -> None:
    """Whatever it is, the elements are the same."""
    assert read(with_text(text)).shape() == read(with_text("x")).shape()


def test_hostile_text_is_shown_as_it_is() -> None:
    """But for what no database keeps as text."""
    texts = read(replace(HOSTILE, summaries=[ReportedSummary(1, 1, 9, 9, HOSTILE_TEXT)])).texts
    assert HOSTILE_TEXT.replace("\0", "?").replace("\ud800", "?") in texts
    assert context_page(HOSTILE).encode().count(b"\0") == 0


def test_the_bar_has_the_parts_in_their_sizes_and_a_text_in_its_place() -> None:
    """Each part that is there, and what is free; the text says the same shares as the legend."""
    document = read(SMALL)
    free = 128_000 - sum(SMALL.parts.values())
    pieces = {each["class"]: each["style"] for _, each in document.elements if "style" in each}
    assert pieces == {part: f"flex-grow:{tokens}" for part, tokens in (*SMALL.parts.items(), ("free", free))}
    (bar,) = document.of_class("bar")
    label = str(bar["aria-label"])
    assert (bar["role"], label.partition(", ")[0]) == ("img", "System prompt and sources 0.9%")
    assert [share for share in re.findall(r"[\d.]+%", label) if share not in document.texts] == []
    assert len(label.split(", ")) == len(get_args(PartName)) + 1
    assert {"54,548", "42.6%"} < set(document.texts)


def test_what_is_kept_for_the_answer_is_not_in_use() -> None:
    """The line above the bar counts what is sent."""
    assert "About 57,068 of 128,000 tokens, 45% of the window." in read(SMALL).texts


def test_an_overfull_window_shows_its_end() -> None:
    """The bar holds all, says how much is too many, and marks where the window ends."""
    document = read(OVERFULL)
    taken = sum(OVERFULL.parts.values())
    assert f"Tokens more than fit into the window: {taken - 48_000:,}." in document.texts
    (end,) = document.of_class("end")
    assert end["style"] == f"width:{48_000 / taken:.1%}"
    assert document.of_class("free") == []
    assert read(SMALL).of_class("end") == []


def test_an_unknown_window_has_nothing_free() -> None:
    """The parts fill the bar, and their shares are of themselves."""
    document = read(UNKNOWN_WINDOW)
    assert document.of_class("free") == []
    assert f"{8_400 / sum(SMALL.parts.values()):.1%}" in document.texts
    assert notice("context_window_unknown", tokens=57_068) in document.texts


def test_a_turn_is_one_row() -> None:
    """Number, first words, tokens sent of all, state, and whether it is cached."""
    turn = ReportedTurn(7, "When does it sail?", 1_234, 56_789, "shortened", cached=False)
    texts = read(replace(SMALL, turns=[turn])).texts
    start = texts.index("When does it sail?")
    assert texts[start - 1 : start + 5] == ["7", "When does it sail?", "1,234", "56,789", "shortened", "no"]


def test_of_a_long_chat_the_newest_turns_are_seen_at_once() -> None:
    """The others are one table that is to be opened, and the page stays small."""
    page = context_page(LONG)
    opened, seen = re.findall(r'<table class="turns".*?</table>', page, re.DOTALL)
    numbers = [re.findall(r'<tr><th scope="row">(\d+)', table) for table in (opened, seen)]
    assert [list(map(int, each)) for each in numbers] == [[*range(1, 993)], [*range(993, 1_001)]]
    assert page.index("<details><summary>Earlier turns: 992</summary>") < page.index(opened)
    assert len(page) < 220_000


def test_costs_are_said_where_they_are_counted() -> None:
    """Without a cache there is nothing to say of it, and a chat for which it was dearer has saved nothing."""
    said = {text for text in read(SMALL).texts if "$" in text}
    assert said == {
        "This chat has cost $0.42 so far (requests: 14).",
        "76% of its input was read from the provider's cache, for $0.031.",
        "Sending the whole chat without a cache would have cost $0.97 more.",
        "$0.012",
        "$0.0041",
    }
    plain = ChatSpending(1, cost=0.4184, saved=-1)
    shown = read(replace(SMALL, cost=plain, breaks=())).texts
    assert [text for text in shown if "$" in text] == ["This chat has cost $0.42 so far (requests: 1)."]
    assert "Cost" not in read(replace(SMALL, cost=None, breaks=())).texts


def test_a_break_says_why_where_and_at_what_price() -> None:
    """The place may be before all turns, and a planned one has no price."""
    texts = read(SMALL).texts
    start = texts.index("the system prompt changed")
    assert texts[start : start + 12] == [
        *("the system prompt changed", "turn 11", "no", "$0.012"),
        *("old turns were summarized", "turn 8", "yes", "not counted"),
        *("the tools changed", "before the first turn", "no", "$0.0041"),
    ]


def test_every_cause_has_words_of_its_own() -> None:
    """All that the plan announces and the audit finds; what it does not know is said to be unknown."""
    causes = {*get_args(BreakReason), *get_args(BreakCause)} - {"unknown"}
    unknown = notice("context_cause_unknown")
    shown = {
        cause: unknown in read(replace(SMALL, breaks=[ReportedBreak(1, cause, None)])).texts
        for cause in (*causes, "unknown", "something new")
    }
    assert {cause for cause, is_unknown in shown.items() if is_unknown} == {"unknown", "something new"}


def test_a_summary_has_its_text_and_two_commands() -> None:
    """The buttons are hidden until the script has somebody who hears them; what to type stands beside them."""
    document = read(SMALL)
    buttons = [attributes for tag, attributes in document.elements if tag == "button"]
    assert [(each["value"], each["aria-label"], "hidden" in each) for each in buttons] == [
        ("/restore 2-5", "Restore: Turns 2 to 5", True),
        ("/discard 2-5", "Discard: Turns 2 to 5", True),
    ]
    assert SMALL.summaries[0].text in document.texts
    assert {"/restore 2-5", "/discard 2-5"} < set(document.texts)
    assert notice("context_summary_missing", first=6, last=7) in document.texts


def test_all_words_are_the_notices() -> None:
    """In another language no English is left but what the report quotes and what one types."""
    page = context_page(
        SMALL, lambda name, **values: f"«{values.get('restore', '')}{values.get('discard', '')}»"
    )
    seen = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>|«[^»]*»", " ", page, flags=re.DOTALL)
    for quoted in (*(turn.text for turn in SMALL.turns), SMALL.summaries[0].text):
        seen = seen.replace(quoted, " ", 1)
    assert re.findall(r"[^\W\d_]+", seen) == []
    labels = re.findall(r'(?:aria-label|lang)="([^"]*)"', page)
    assert re.findall(r"[^\W\d_]+", re.sub(r"«[^»]*»", "", " ".join(labels))) == []


def test_the_same_report_gives_the_same_bytes() -> None:
    """A page depends on nothing else."""
    assert context_page(LONG) == context_page(LONG)
