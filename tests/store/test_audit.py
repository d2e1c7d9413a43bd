"""The audit of contexts in SQLite and PostgreSQL: one contract for both."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.planning.plan import Step
from open_webui_openrouter_pipe.store.beside import AuditLog
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.schema import define_tables
from scripts.paths import ROOT
from tests.store.contract import watch
from tests.support.audited import audited

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000
PRUNED = Bill(
    model="vendor/model",
    purpose="answer",
    window_tokens=10_000_000_000,
    budget_tokens=6976,
    limit_tokens=6500,
    tokens_before=9000,
    tokens_sent=5000,
    steps=(
        Step("cap", 8000, triggered=True),
        Step("summary", 7000, triggered=False),
        Step("evict", 5000, triggered=True),
    ),
    input_tokens=5100,
    cached_tokens=4000,
    cost=0.0125,
    break_position="instructions",
    break_cause="prompt",
    lost_tokens=10_000_000_000,
    lost_cost=0.25,
    expected_cached_tokens=4900,
)
NOT_BILLED = replace(PRUNED, input_tokens=0, cached_tokens=0, cost=0.0)
WHOLE = replace(PRUNED, model="other", tokens_sent=9000, steps=(Step("evict", 9000, triggered=False),))
REJECTED = replace(NOT_BILLED, rejected=True, tokens_sent=0, steps=())
SUMMARY = Bill(
    model="vendor/model",
    purpose="summary",
    window_tokens=10_000,
    budget_tokens=10_000,
    limit_tokens=10_000,
    tokens_before=8000,
    tokens_sent=900,
    details_omitted=3,
    input_tokens=30_000,
    cached_tokens=29_000,
    cost=0.25,
)
AHEAD = replace(SUMMARY, purpose="summary_ahead")
FAILED = replace(SUMMARY, failure="longer_than_its_source")
ROWS = (PRUNED, NOT_BILLED, WHOLE, REJECTED, SUMMARY, AHEAD, FAILED)
METRICS_OF_ROWS = {
    "requests": 4,
    "context_summary_count": 2,
    "context_prune_count": 2,
    "context_overflow_reject_count": 1,
    "avg_prompt_tokens_per_turn": pytest.approx((5100 + 5000 + 5100) / 3),
    "cached_share": pytest.approx(8000 / 10_200),
    "cost": pytest.approx(0.025),
    "summary_cost": pytest.approx(0.75),
    "prefix_break_count": 4,
    "prefix_break_cost": pytest.approx(1.0),
}


def record(number: int, row: Bill = PRUNED, *, user_id: str = "ada", chat_id: str = "chat-1") -> Bill:
    """A row; later numbers are newer."""
    return replace(row, id=f"{number:020}", user_id=user_id, chat_id=chat_id, message_id=f"m{number}")


async def metrics(database: Database) -> dict[str, float]:
    """What the query that docs/operations.md shows to administrators returns, 0 for NULL."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Metrics\n")[2]
    query = page.partition("```sql\n")[2].partition("```")[0]
    table = database.tables.audit
    assert query.count(table.name) == 1
    [row] = await database.fetch(sa.text(query.replace(table.name, table.fullname)))
    return {name: float(value or 0) for name, value in row._mapping.items()}


async def test_the_page_lists_all_columns(sqlite_database: Database) -> None:
    """Of the table that administrators query."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Metrics\n")[2]
    rows = re.findall(r"^\| (`.+?`) \| (.+)$", page.partition("\n## ")[0], re.MULTILINE)
    listed = {name for names, text in rows for name in re.findall(r"`(\w+)`", f"{names} {text}")}
    columns = {column.name for column in sqlite_database.tables.audit.columns}
    assert listed - {"answer"} == columns - {"id"}


@pytest.fixture
def log(database: Database) -> AuditLog:
    """The audit of each database."""
    return AuditLog(database, clock=lambda: NOW)


async def test_records_are_read_as_they_were_written(database: Database, log: AuditLog) -> None:
    """Large windows, fractions of dollars and the steps included; in one transaction for those of a moment."""
    assert await metrics(database) == dict.fromkeys(METRICS_OF_ROWS, 0)
    commits = watch(database, "commit")
    records = [record(number, row) for number, row in enumerate(ROWS)]
    for each in records:
        log.write(each)
    await log.idle()
    assert len(commits) == 1
    assert await audited(database) == records[::-1]
    assert await audited(database, limit=1) == records[-1:]
    assert await metrics(database) == METRICS_OF_ROWS


async def test_the_breaks_of_a_chat_are_listed(log: AuditLog) -> None:
    """Those of this user's chat alone, the newest first; none for a chat without an id."""
    found = [replace(PRUNED, break_position=f"turn {turn}", break_cause="edit") for turn in (1, 2, 3)]
    others = [replace(PRUNED, break_position="", break_cause=""), PRUNED]
    for number, row in enumerate([*found, *others]):
        log.write(replace(record(number, row), user_id="ada", chat_id="c" if number < 4 else ""))
    await log.idle()
    expected = [("turn 3", "edit", 0.25), ("turn 2", "edit", 0.25)]
    assert await log.breaks("ada", "c", limit=2) == expected
    assert await log.breaks("bob", "c", limit=2) == await log.breaks("ada", "", limit=2) == []


async def test_a_refused_record_costs_the_others_nothing(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that were gathered with it are written by themselves."""
    log = AuditLog(sqlite_database)
    refused = replace(record(2), chat_id=None)  # type: ignore[arg-type]
    for each in (record(1), refused, record(3)):
        log.write(each)
    await log.idle()
    assert await audited(sqlite_database) == [record(3), record(1)]
    assert [each.partition(":")[0] for each in caplog.messages] == ["audit of contexts"]


def test_the_table_has_a_column_for_each_field() -> None:
    """A field that is added to the bill needs a column, unless it is for the ledger alone."""
    of_bill = asdict(PRUNED).keys() - {"requests", "accounts", "hold"}
    assert {column.name for column in define_tables(None).audit.c} == {"pruned", "created"} | of_bill
