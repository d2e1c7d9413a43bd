"""Reports of spending for tests: an administrator's with many users, a user's own, an empty one and a hostile one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple
from datetime import UTC, date, timedelta
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.context.spending import report_spending
from open_webui_openrouter_pipe.money.audit import REPORTED_SUMS, ChatSpending, UsageRow
from open_webui_openrouter_pipe.money.limits import AccountLimit, Group, Limit, Person
from tests.support.context_reports import HOSTILE_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable


DAYS = (date(2026, 10, 30), date(2026, 11, 28))
EPOCH = date(1970, 1, 1)
NAMES = ("Ada Lovelace", "Grace Hopper", "Émilie du Châtelet", "王小明", "Jürgen Müller-Lüdenscheidt")
MODELS = (
    "anthropic/claude-sonnet-4.5",
    "openai/gpt-5.2",
    "google/gemini-3-pro-image",
    "z-ai/glm-4.7:online",
)
GROUPS = (Group("g1", "Students"), Group("g2", "Staff"))


def spent(cost: float, requests: int = 3) -> ChatSpending:
    """So many requests that have cost so much together."""
    return ChatSpending(requests, 9_000, 5_400, 700, cost, cost / 2, cost / 20, cost / 4)


def found(rows: Iterable[tuple[date, str, str, ChatSpending]], **failures: int) -> list[UsageRow]:
    """What the ledger finds for rows of a day, an account, a model and what was spent."""
    listed = [*rows]
    parts: dict[tuple[Any, Any], list[ChatSpending]] = defaultdict(list)
    for day, account, model, of_row in listed:
        for by, value in (("day", (day - EPOCH).days), ("account", account), ("model", model)):
            parts[by, value].append(of_row)
    result = [usage_row(by, total(each), **{by: value}) for (by, value), each in parts.items()]
    result += [usage_row("failure", spent(0, count), failure=kind) for kind, count in failures.items()]
    return result + [
        usage_row("row", of_row, day=(day - EPOCH).days, account=account, model=model)
        for day, account, model, of_row in listed
    ]


def usage_row(by: Any, sums: ChatSpending, **names: Any) -> UsageRow:
    """A row of what the ledger finds."""
    key = {"day": 0, "account": "", "model": "", "failure": "", **names}
    return UsageRow(by, **key, **{name: getattr(sums, name) for name in REPORTED_SUMS})


def total(found: Iterable[ChatSpending]) -> ChatSpending:
    """Add up."""
    return ChatSpending(*map(sum, zip(*map(astuple, found), strict=True)))


def everyone(users: int) -> dict[str, Person]:
    """So many users of two groups, and one of neither."""
    return {
        f"u{at}": Person(f"{NAMES[at % len(NAMES)]} {at}", groups=GROUPS[at % 2 : at % 2 + 1] if at else ())
        for at in range(users)
    }


def under(account: str, scope: Any, dollars: float, used: float, group: str = "") -> AccountLimit:
    """A limit of a day that is spent so far."""
    return AccountLimit(Limit(scope, group, "day", dollars), account, used, zone=UTC)


def work(users: int, days: tuple[date, date] = DAYS) -> list[tuple[date, str, str, ChatSpending]]:
    """What many users spend: nothing on each seventh day."""
    length = (days[1] - days[0]).days + 1
    return [
        (days[0] + timedelta(days=at), f"user:u{user}", MODELS[user % 4], spent(0.11 + (user * at) % 7 / 9))
        for at in range(length)
        if at % 7 != 3
        for user in range(users)
        if (user + at) % 5
    ]


ADMIN = report_spending(
    found(work(14), limit=12, rate=7, connection=3, something=1),
    everyone(13),
    days=DAYS,
    zone="Europe/Berlin",
    of_all=True,
    limits=[
        ("Ada Lovelace 0", under("user:u0", "user", 2, 1.9)),
        ("", under("all", "all", 50, 21.5)),
        ("", under("group:g1", "group", 10, 10.2, "Students")),
    ],
)
OWN = report_spending(
    found(work(1), rate=1),
    {},
    days=DAYS,
    zone="UTC",
    of_all=False,
    limits=[("", under("user:u0", "user", 2, 0.4))],
)
EMPTY = report_spending([], {}, days=DAYS, zone="UTC", of_all=True)
HOSTILE = report_spending(
    found([(DAYS[0], "user:x", HOSTILE_TEXT, spent(1.0))]),
    {"x": Person(f"=cmd|{HOSTILE_TEXT}", groups=(Group("g", HOSTILE_TEXT),))},
    days=DAYS,
    zone="UTC",
    of_all=True,
    limits=[(HOSTILE_TEXT, under("user:x", "user", 0, 1.0))],
)
SPENDING_REPORTS = {
    "spending-admin": ADMIN,
    "spending-own": OWN,
    "spending-empty": EMPTY,
    "spending-hostile": HOSTILE,
}
