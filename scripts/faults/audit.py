"""What the stand-in has billed beside what the database has: rows, sums of them, holds, and markers.

A law with means of its own: SQL and regular expressions, nothing of the package.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MOST_ROUNDING = 1e-6
"""Dollars by which a row may differ from its bill."""
ULID = "[0-9A-HJKMNP-TV-Z]{20}"
MARKER = re.compile(rf'\[({ULID})\]: #|"openrouter_pipe\.artifact", "id": "({ULID})"|"call_({ULID})["_]')
"""In a text, beside reasoning, and in the id of a call; as JSON has them."""
ROWS = """SELECT id, generation, estimated, cost, provider_cost, user_id, chat_id, model, purpose, created
    FROM openrouter_pipe_audit WHERE purpose <> 'failure' AND NOT rejected"""
SUMS = {
    "ledger": """SELECT user_id || ' ' || chat_id, sum(cost + provider_cost)
        FROM openrouter_pipe_ledger GROUP BY 1""",
    "usage": """SELECT account, sum(cost + provider_cost) FROM openrouter_pipe_usage GROUP BY 1""",
}
HOLDS = "SELECT count(*) FROM openrouter_pipe_hold"
CHATS = "SELECT chat::jsonb::text FROM chat UNION ALL SELECT to_jsonb(m)::text FROM chat_message m"
ARTIFACTS = "SELECT id FROM openrouter_pipe_artifact"

Row = dict[str, Any]


@dataclass
class Report:
    """Figures by their names, in order, and what must not be."""

    figures: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        width = max(map(len, self.figures))
        lines = [f"{name:<{width}}  {value}" for name, value in self.figures.items()]
        return "\n".join([*lines, *(f"VIOLATION: {each}" for each in self.violations or ["none"])])


def fetch(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query finds."""
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def audit(url: str, bills: list[Row], report: Report) -> None:
    """Compare the stand-in's bills with the database at this address."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        rows: list[Row] = connection.execute(ROWS).fetchall()
    compare_bills(rows, {bill["id"]: bill for bill in bills}, report)
    compare_sums(partial(fetch, url), rows, report)
    left = fetch(url, HOLDS)[0][0]
    report.figures["holds left"] = left
    if left:
        report.violations.append(f"{left} holds are left")
    known = {name for (name,) in fetch(url, ARTIFACTS)}
    chats = [chat for (chat,) in fetch(url, CHATS)]
    marked = {ulid for chat in chats for found in MARKER.findall(chat) for ulid in found if ulid}
    report.figures["markers in chats"] = len(marked)
    report.figures["artifacts"] = len(known)
    report.violations += [f"the marker {ulid} has no artifact" for ulid in sorted(marked - known)]


def _paid(row: Row) -> float:
    return float(row["cost"] + row["provider_cost"])


def _billed(bill: Row) -> float:
    return float(bill["total_cost"] + (bill["upstream_inference_cost"] or 0))


def compare_bills(rows: list[Row], bills: dict[str, Row], report: Report) -> None:
    """Compare rows with the bills by their generations."""
    figures, violations = report.figures, report.violations
    named = defaultdict[str, list[Row]](list)
    for row in rows:
        named[row["generation"]].append(row)
    unnamed = [row for row in named.pop("", []) if row["estimated"]]
    for generation, found in named.items():
        if len(found) > 1:
            violations.append(f"{generation} has {len(found)} rows")
        if generation not in bills and any(_paid(row) and not row["estimated"] for row in found):
            violations.append(f"{generation} has a row and was never billed")
    true = [(found[0], bills[name]) for name, found in named.items() if name in bills]
    exact = [(row, bill) for row, bill in true if not row["estimated"]]
    for row, bill in exact:
        if abs(_paid(row) - _billed(bill)) > MOST_ROUNDING:
            violations.append(f"{bill['id']}: ${_paid(row):.6f} for ${_billed(bill):.6f}")
    guessed = [(row, bill) for row, bill in true if row["estimated"]]
    missing = [bill for name, bill in bills.items() if name not in named]
    figures["requests billed"] = len(bills)
    figures["of them stopped or left"] = sum(bill["cancelled"] for bill in bills.values())
    figures["dollars billed"] = f"{sum(map(_billed, bills.values())):.6f}"
    figures["rows"] = len(rows)
    figures["dollars of rows"] = f"{sum(map(_paid, rows)):.6f}"
    figures["equal to their bills"] = len(exact)
    figures["estimated, with an id"] = len(guessed)
    sums = [sum(_paid(row) for row, _ in guessed), sum(_billed(bill) for _, bill in guessed)]
    figures["dollars of these, and in truth"] = f"{sums[0]:.6f} {sums[1]:.6f}"
    figures["estimated, without an id"] = len(unnamed)
    figures["bills without their id in a row"] = len(missing)
    sums = [sum(map(_paid, unnamed)), sum(map(_billed, missing))]
    figures["dollars of these two"] = f"{sums[0]:.6f} {sums[1]:.6f}"
    violations += _unmatched(unnamed, missing, true)


def _unmatched(unnamed: list[Row], missing: list[Row], true: list[tuple[Row, Row]]) -> list[str]:
    """Find bills for which there is no row of the same user and model that is an estimate without an id.

    Those whose answer never began cannot be named, and those of a killed worker are known by their holds alone.
    """
    users = {bill["user"]: row["user_id"] for row, bill in true if bill["user"]}
    free = Counter((row["user_id"], row["model"].partition(":")[0]) for row in unnamed)
    found = list[str]()
    for bill in missing:
        key = (users.get(bill["user"], ""), bill["model"].partition(":")[0])
        free[key] -= 1
        if free[key] < 0:
            said = "named" if bill["is_named"] else "never begun"
            found.append(
                f"{bill['id']} of {key[0]} at {bill['model']} (${_billed(bill):.6f}, {said}, began at "
                f"{bill['began_at']:.1f}, told at {bill['told_at']:.1f}) has no row"
            )
    return found


def compare_sums(
    query: Callable[[str], list[tuple[Any, ...]]],
    rows: list[Row],
    report: Report,
    *,
    unknown: Collection[str] = (),
) -> None:
    """Compare rows with the sums of chats and accounts, which `query` reads, but for those that are `unknown`."""
    chats, accounts = Counter[str](), Counter[str]()
    for row in rows:
        chats[f"{row['user_id']} {row['chat_id']}"] += _paid(row)  # type: ignore[assignment]
        for account in (f"user:{row['user_id']}", "all"):
            accounts[account] += _paid(row)  # type: ignore[assignment]
    for (name, statement), expected in zip(SUMS.items(), (chats, accounts), strict=True):
        there = {key: float(dollars) for key, dollars in query(statement)}
        wrong = [
            f"{name} of {key}: ${there.get(key, 0.0):.6f}, and its rows ${expected.get(key, 0.0):.6f}"
            for key in sorted({*there, *expected}.difference(unknown))
            if abs(there.get(key, 0.0) - expected.get(key, 0.0)) > MOST_ROUNDING
        ]
        report.figures[f"sums of {name} that differ"] = f"{len(wrong)} of {len(there)}"
        report.violations += wrong
