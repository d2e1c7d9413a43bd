"""What was spent, for `/spending`: as values, as text, and as a page. Pure.

Money is dollars, a share a number up to 1. Names come from users and are escaped. `spending.js` sorts the tables, folds
long ones, and offers the file; without it all of that is seen at once.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from io import StringIO
from typing import Any, Final, NamedTuple, get_args

from ..errors import FailureKind
from ..money.audit import REPORTED_SUMS, ChatSpending, UsageRow
from ..money.limits import EPOCH, USER, AccountLimit, Person, next_month
from ..money.prices import dollars
from ..words.lines import Say, notice
from .page import document, escaped, paragraph, table
from .report import folded_text, markdown_row, plain

SHOWN_ROWS: Final = 10
"""Of a table that is folded, as in `spending.js`."""
MAX_ROWS: Final = 200
"""Of a table; the others are added up in its last row."""
MAX_TEXT_ROWS: Final = 20

_FORMULA: Final = tuple("=+-@")
"""What a spreadsheet would calculate a cell from that begins so."""
_COLUMNS: Final = (
    "context_page_cost",
    "spending_requests",
    "context_tokens",
    "context_cached",
    "spending_saved",
)

Sums = Sequence[tuple[str, ChatSpending]]
"""What was spent by the name of who or what it was spent on; "" for users that are deleted, and in no group."""


class SpentRow(NamedTuple):
    """What a user has spent on a model in a day; name and id of the user are "" where it is one's own report."""

    day: date
    user: str
    user_id: str
    model: str
    spent: ChatSpending


@dataclass(frozen=True, slots=True)
class SpendingReport:
    """What was spent from the day `first` to `last`, in the time zone of this name, by all users or by one.

    What is added up by something begins with the dearest, `failures` with the most frequent kind, `limits` with the one
    of which most is spent; each of these has the name of whose it is, "" for the reader's own. `rows` are the dearest
    ones alone.
    """

    zone: str
    first: date
    last: date
    of_all: bool
    total: ChatSpending
    days: Mapping[date, ChatSpending]
    users: Sums
    groups: Sums
    models: Sums
    failures: Sequence[tuple[str, int]]
    limits: Sequence[tuple[str, AccountLimit]]
    rows: Sequence[SpentRow]


def days_of(period: str, today: date) -> tuple[date, date]:
    """Return the first and the last day of a period: a month such as "2026-10", or so many days up to today.

    This month ends with today.
    """
    year, _, month = period.partition("-")
    if month:
        first = date(int(year), int(month), 1)
        last = next_month(first) - timedelta(days=1)
        return first, today if first <= today < last else last
    return today - timedelta(days=int(period) - 1), today


def report_spending(
    found: Iterable[UsageRow],
    people: Mapping[str, Person],
    *,
    days: tuple[date, date],
    zone: str,
    of_all: bool,
    limits: Sequence[tuple[str, AccountLimit]] = (),
) -> SpendingReport:
    """Put together what was found; `people` are the host's users by id."""
    parts = defaultdict[str, dict[str, ChatSpending]](dict)
    groups, users = (defaultdict[str, list[ChatSpending]](list) for _ in range(2))
    by_day, rows = dict[date, ChatSpending](), list[SpentRow]()
    for row in found:
        spent, by, day = row.spent, row.by, EPOCH + timedelta(days=row.day)
        if not spent.requests:  # of an earlier day of this month
            continue
        user_id = row.account.removeprefix(USER)
        person = people.get(user_id) if of_all else None
        if by == "row":
            rows.append(
                SpentRow(day, person.name if person else "", user_id if of_all else "", row.model, spent)
            )
        elif by == "day":
            by_day[day] = spent
        elif by == "account":
            users[user_id if person else ""].append(spent)
            for group in {each.name for each in person.groups} if person and person.groups else {""}:
                groups[group].append(spent)
        else:
            parts[by][row.model or row.failure] = spent
    named = [(people[user_id].name if user_id else "", _total(spent)) for user_id, spent in users.items()]
    failures = {kind: spent.requests for kind, spent in parts["failure"].items()}
    length = (days[1] - days[0]).days + 1
    all_days = [days[0] + timedelta(days=at) for at in range(length)]
    return SpendingReport(
        zone,
        *days,
        of_all,
        _total(by_day.values()),
        {day: by_day.get(day, ChatSpending()) for day in all_days},
        _dearest(named) if of_all else (),
        _dearest((name, _total(spent)) for name, spent in groups.items()) if {*groups} - {""} else (),
        _dearest(parts["model"].items()),
        sorted(failures.items(), key=lambda each: (-each[1], each[0])),
        sorted(limits, key=lambda each: -each[1].share),
        rows,
    )


def _total(found: Iterable[ChatSpending]) -> ChatSpending:
    """Add up."""
    spent = [*found]
    return ChatSpending(*(sum(getattr(each, part.name) for each in spent) for part in fields(ChatSpending)))


def _paid(spent: ChatSpending) -> float:
    return spent.cost + spent.provider_cost


def _dearest(found: Iterable[tuple[str, ChatSpending]]) -> Sums:
    return sorted(found, key=lambda each: -_paid(each[1]))


# --- tables, for the page and for the text --------------------------------------------------------------------


class _Cell(NamedTuple):
    """What is read, and what it is sorted by where that is a number."""

    words: str
    number: float | None = None


class _Table(NamedTuple):
    title: str
    columns: Sequence[str]
    """The names of their words."""
    rows: Sequence[Sequence[_Cell]]


def _tables(report: SpendingReport, say: Say) -> Iterator[_Table]:
    """Yield what has rows."""
    limits = [_limit_cells(whose, limit, say) for whose, limit in report.limits]
    failures = [
        (
            _Cell(say(f"spending_failure_{kind if kind in get_args(FailureKind) else 'other'}")),
            _number(count, say),
        )
        for kind, count in report.failures
    ]
    days = [(day.isoformat(), spent) for day, spent in reversed([*report.days.items()]) if spent.requests]
    whose = ("spending_whose", "spending_used", "spending_limit", "context_share")
    tables = (
        _Table("spending_limits", whose, limits),
        _summed("user", report.users, say, "spending_deleted_user"),
        _summed("group", report.groups, say, "spending_no_group"),
        _summed("model", report.models, say),
        _summed("day", days, say),
        _Table("spending_failures", ("spending_kind", "spending_requests"), failures),
    )
    return (each for each in tables if each.rows)


def _limit_cells(whose: str, under: AccountLimit, say: Say) -> tuple[_Cell, ...]:
    limit = under.limit
    of = "user" if limit.scope == "each" else limit.scope
    name = whose or say(f"limit_of_{of}", group=limit.group)
    size = say("spending_of_period", amount=dollars(limit.dollars), period=notice(f"period_{limit.period}"))
    share = min(under.share, 9.99)
    shown = say("context_page_share", share=share)
    return _Cell(name), _amount(under.used, say), _Cell(size, limit.dollars), _Cell(shown, share)


def _summed(by: str, sums: Sums, say: Say, without_name: str = "") -> _Table:
    """Return a table of sums; of a long one the last row adds up the others."""
    rows = [
        (_Cell(name or (say(without_name) if without_name else "?")), *_cells(spent, say))
        for name, spent in sums[:MAX_ROWS]
    ]
    if others := sums[MAX_ROWS:]:
        rows.append((_Cell(say("spending_others")), *_cells(_total(spent for _, spent in others), say)))
    return _Table(f"spending_{by}", (f"spending_{by}", *_COLUMNS), rows)


def _cells(spent: ChatSpending, say: Say) -> tuple[_Cell, ...]:
    share = spent.cached_tokens / max(1, spent.input_tokens)
    saved = _amount(abs(spent.saved), say)
    if spent.saved < 0:  # writing into a cache costs more than it has saved yet
        saved = _Cell(f"\u2212{saved.words}", spent.saved)
    return (
        _Cell(say("context_page_amount", amount=dollars(spent.cost, spent.provider_cost)), _paid(spent)),
        _number(spent.requests, say),
        _number(spent.input_tokens + spent.output_tokens, say),
        _Cell(say("context_page_share", share=share), share),
        saved,
    )


def _amount(amount: float, say: Say) -> _Cell:
    return _Cell(say("context_page_amount", amount=dollars(amount)), amount)


def _number(number: int, say: Say) -> _Cell:
    return _Cell(say("context_page_number", number=number), number)


def _lines(report: SpendingReport, say: Say) -> tuple[str, list[str]]:
    """Return the title, and what stands above the tables."""
    name = "spending_title" if report.of_all else "spending_title_own"
    lines = [say("spending_zone", zone=report.zone)]
    total = report.total
    if total.requests:
        cost = dollars(total.cost, total.provider_cost)
        lines.append(say("spending_total", cost=cost, requests=total.requests))
    else:
        lines.append(say("spending_nothing"))
    if total.cached_tokens:
        share = total.cached_tokens / max(1, total.input_tokens)
        lines.append(say("spending_cached", share=share, cost=dollars(total.saved)))
    return say(name, first=report.first.isoformat(), last=report.last.isoformat()), lines


def spending_text(report: SpendingReport, say: Say = notice, *, folded: bool = False) -> str:
    """Return the report as Markdown, in the words that `say` returns; `folded` beside a page of it."""
    title, lines = _lines(report, say)
    parts = [f"**{title}**", *lines]
    for listed in _tables(report, say):
        rows = [markdown_row(*map(say, listed.columns))]
        rows.append(markdown_row("---", *["---:"] * (len(listed.columns) - 1)))
        rows += [
            markdown_row(plain(name.words), *(each.words for each in cells))
            for name, *cells in listed.rows[:MAX_TEXT_ROWS]
        ]
        if len(listed.rows) > MAX_TEXT_ROWS:
            rows.append(markdown_row("\u2026", *[""] * (len(listed.columns) - 1)))
        parts += [f"**{say(listed.title)}**", "\n".join(rows)]
    text = "\n\n".join(parts)
    return folded_text(lines[1], text, say) if folded else text


# --- the page -------------------------------------------------------------------------------------------------


def spending_page(report: SpendingReport, say: Say = notice) -> str:
    """Draw a report as an HTML document, in the words that `say` returns."""

    def shown(name: str, **values: Any) -> str:
        return escaped(say(name, **values))

    title, (zone, *lines) = _lines(report, shown)
    content = paragraph(zone, "muted") + "".join(paragraph(line, "use") for line in lines)
    if report.total.requests:
        content += _plot(report.days, shown)
    for listed in _tables(report, say):
        label = shown(listed.title)
        drawn = table(
            "sums" if listed.rows[0][2:] else "counts",
            label,
            map(shown, listed.columns),
            map(_row, listed.rows),
        )
        button = shown("spending_all_rows", count=len(listed.rows))
        folds = f"<button hidden>{button}</button>" if len(listed.rows) > SHOWN_ROWS else ""
        content += f"<section><h2>{label}</h2>{drawn}{folds}</section>"
    if report.rows:
        label, text = shown("spending_file"), escaped(spending_file(report))
        content += (
            f'<section class="file"><a hidden download="spending.csv">{shown("spending_download")}</a>'
            f"<details><summary>{label}</summary>"
            f'<textarea readonly rows="8" aria-label="{label}">{text}</textarea></details></section>'
        )
    return document("spending", title, content, shown)


def _row(cells: Sequence[_Cell]) -> str:
    name, *others = cells
    drawn = "".join(f'<td data-n="{number:.9g}">{escaped(words)}' for words, number in others)
    return f'<tr><th scope="row" dir="auto">{escaped(name.words)}{drawn}'


def _plot(days: Mapping[date, ChatSpending], say: Say) -> str:
    """Draw a bar for each day, as high as what was spent in it."""
    most = max(map(_paid, days.values())) or 1.0
    bars = ""
    for day, spent in days.items():
        amount = say("context_page_amount", amount=dollars(spent.cost, spent.provider_cost))
        bars += f'<i style="height:{_paid(spent) / most:.1%}" title="{day}: {amount}"></i>'
    first, *_, last = [*days, *days]
    top = say("spending_most", cost=dollars(most))
    return (
        f'<div class="plot" role="img" aria-label="{say("spending_day")}: {top}">{bars}</div>'
        f'<p class="axis muted"><span>{first}</span><span>{top}</span><span>{last}</span></p>'
    )


def spending_file(report: SpendingReport) -> str:
    """Return the rows as CSV (RFC 4180), with names of columns that are the same in all languages.

    What no row is left for is the last one, so that the sums are those of the report.
    """
    of_user = ("user", "user_id") if report.of_all else ()
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("day", *of_user, "model", *REPORTED_SUMS))
    for row in report.rows:
        names = (row.user, row.user_id, row.model) if report.of_all else (row.model,)
        writer.writerow((row.day, *map(_cell_text, names), *_file_sums(row.spent)))
    listed = _total(row.spent for row in report.rows)
    if listed.requests < report.total.requests:
        rest = (a - b for a, b in zip(_values(report.total), _values(listed), strict=True))
        writer.writerow(("", *("" for _ in of_user), "", *_file_sums(ChatSpending(*rest))))
    return file.getvalue()


def _values(spent: ChatSpending) -> list[Any]:
    return [getattr(spent, part.name) for part in fields(ChatSpending)]


def _file_sums(spent: ChatSpending) -> Iterator[str]:
    for name in REPORTED_SUMS:
        value = getattr(spent, name)
        yield f"{value:.6f}" if isinstance(value, float) else str(value)


def _cell_text(text: str) -> str:
    """Return a text of one line that no spreadsheet takes for a formula."""
    text = " ".join(text.split())
    return f"'{text}" if text.startswith(_FORMULA) else text
