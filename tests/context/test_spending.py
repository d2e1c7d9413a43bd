"""The page and the text that answer `/spending`, of reports in `tests/support/spending_reports.py`."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from io import StringIO
from itertools import chain
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.context.spending import (
    MAX_ROWS,
    SHOWN_ROWS,
    SpendingReport,
    report_spending,
    spending_file,
    spending_page,
    spending_text,
)
from open_webui_openrouter_pipe.errors import FailureKind
from open_webui_openrouter_pipe.money.audit import ChatSpending
from open_webui_openrouter_pipe.money.limits import Person
from open_webui_openrouter_pipe.words.lines import LANGUAGES, speaker
from tests.context.test_page import Document
from tests.support.spending_reports import (
    ADMIN,
    DAYS,
    EMPTY,
    HOSTILE,
    OWN,
    SPENDING_REPORTS,
    found,
    spent,
    usage_row,
)


def read(report: SpendingReport) -> Document:
    document = Document()
    document.feed(spending_page(report))
    document.close()
    assert document.open_tags == []
    return document


def file_rows(report: SpendingReport) -> list[dict[str, str]]:
    return [*csv.DictReader(spending_file(report).splitlines())]


@pytest.mark.parametrize("report", SPENDING_REPORTS.values(), ids=SPENDING_REPORTS)
def test_a_page_loads_nothing_and_has_no_handler(report: SpendingReport) -> None:
    """Its one address is made by its script, of what the page has already."""
    names = {name for _, attributes in read(report).elements for name in attributes}
    assert {name for name in names if name.startswith("on")} == set()
    assert names & {"src", "href", "srcset", "action", "data"} == set()
    assert "url(" not in spending_page(report).partition("</style>")[0]
    assert "default-src 'none'" in spending_page(report)


@given(
    st.text()
    | st.sampled_from(["</script>", "</textarea>", "<!--", "&quot;", "'", '"', "`", "\0", "=1+1", "x\r=1+1"])
)
def test_no_name_becomes_markup(name: str) -> None:
    """Whatever users and models are called, elements and lines are the same, and no cell of the file is a formula."""
    shapes: list[Any] = []
    for each in (name, "x"):
        rows = found([(DAYS[0], "user:u", f"m{each}", spent(1.0))])
        report = report_spending(rows, {"u": Person(each)}, days=DAYS, zone="UTC", of_all=True)
        elements = [(tag, tuple(attributes)) for tag, attributes in read(report).elements]
        shapes.append((elements, len(spending_text(report).splitlines())))
        # a field of a page makes each end of a line a \n
        cells = chain(*csv.reader(StringIO(spending_file(report).replace("\r", "\n"))))
        assert [cell for cell in cells if re.match(r"\s*[=+@-]", cell)] == []
    assert shapes[0] == shapes[1]


def test_the_file_adds_up_to_the_report() -> None:
    """With a last row for what no row is left for."""
    for report in (ADMIN, OWN, replace(ADMIN, rows=ADMIN.rows[:5])):
        rows = file_rows(report)
        assert sum(float(row["cost"]) for row in rows) == pytest.approx(report.total.cost)
        assert sum(int(row["requests"]) for row in rows) == report.total.requests
    assert (rows[-1]["day"], rows[-1]["user"], rows[-1]["model"]) == ("", "", "")
    assert [*file_rows(OWN)[0]][:2] == ["day", "model"]
    assert file_rows(HOSTILE)[0]["user"].startswith("'=cmd|")


def test_long_tables_end_with_the_others() -> None:
    """And are folded by a button that only the script shows."""
    rows = found([(DAYS[0], f"user:{at}", "m", spent(at / 4)) for at in range(MAX_ROWS + 5)])
    people = {str(at): Person(f"User {at}") for at in range(MAX_ROWS + 5)}
    report = report_spending(rows, people, days=DAYS, zone="UTC", of_all=True)
    page = spending_page(report)
    table = page.partition('aria-label="User"')[2].partition("</table>")[0]
    assert table.count("<tr>") == 1 + MAX_ROWS + 1
    assert "all others<td" in table.rpartition("<tr>")[2]
    assert page.count("<button hidden>Show all 201</button>") == 1
    assert len(page) < 120_000
    assert f"const shownRows = {SHOWN_ROWS};" in page
    assert f"| \u2026 |{'  |' * 5}\n" in spending_text(report)


def test_of_a_day_without_spending_the_plot_has_a_bar() -> None:
    """Of no height, so that the days keep their places."""
    plot = spending_page(ADMIN).partition('class="plot"')[2].partition("</div>")[0]
    assert plot.count("<i ") == 30
    assert plot.count("height:0.0%") == 4
    assert plot.count("height:100.0%") == 1
    assert "plot" not in spending_page(EMPTY).partition("</style>")[2]
    one = report_spending(
        found([(DAYS[0], "user:u", "m", spent(0.0))]), {}, days=(DAYS[0], DAYS[0]), zone="UTC", of_all=False
    )
    assert "height:0.0%" in spending_page(one)


def test_who_has_spent_in_other_days_of_the_month_is_not_listed() -> None:
    """Their sums are for the limits alone."""
    rows = [
        usage_row("account", ChatSpending(), account="user:u"),
        usage_row("model", ChatSpending(), model="m"),
    ]
    report = report_spending(rows, {"u": Person("Ada")}, days=DAYS, zone="UTC", of_all=True)
    assert report == EMPTY


def test_what_was_lost_by_caching_has_a_sign() -> None:
    """Writing into a cache may cost more than is saved yet."""
    report = report_spending(
        found([(DAYS[0], "user:u", "m", replace(spent(1.0), saved=-0.5))]),
        {},
        days=DAYS,
        zone="UTC",
        of_all=False,
    )
    assert "| \u2212$0.50 |" in spending_text(report)
    assert 'data-n="-0.5"' in spending_page(report)


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_every_kind_of_failure_has_words(language: Any) -> None:
    """One that is not known is something else."""
    kinds = get_args(FailureKind)
    rows = found([(DAYS[0], "user:u", "m", spent(1.0))], **dict.fromkeys([*kinds, "unheard_of"], 2))
    report = report_spending(rows, {}, days=DAYS, zone="UTC", of_all=True)
    text = spending_text(report, speaker(language))
    lines = {speaker(language)(f"spending_failure_{kind}") for kind in kinds}
    assert len(lines) == len(kinds)
    assert all(f"| {line} | 2 |" in text.replace("\\", "") for line in lines)


def test_all_words_are_the_notices() -> None:
    """In another language no English is left but names, and what the file has for other programs."""
    page = spending_page(ADMIN, lambda name, **values: "«»")
    seen = re.sub(r"<(style|script|textarea).*?</\1>|<[^>]*>|«»", " ", page, flags=re.DOTALL)
    names = {name for name, _ in (*ADMIN.users, *ADMIN.groups, *ADMIN.models, *ADMIN.limits)}
    for quoted in names - {""}:
        seen = seen.replace(quoted, " ")
    assert re.findall(r"[^\W\d_]+", seen) == []
