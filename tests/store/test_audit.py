"""The audit of contexts in SQLite and PostgreSQL: one contract for both."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.conversation.budget import Budget
from open_webui_openrouter_pipe.planning.audit import AuditRow, Metrics, SummaryOutcome, metrics, summary_row
from open_webui_openrouter_pipe.ports import Audited
from open_webui_openrouter_pipe.responses.usage import Usage
from open_webui_openrouter_pipe.store.audit import AuditFilter, AuditLog
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.schema import tables
from scripts.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000
SENT = AuditRow(
    model="vendor/model",
    window_tokens=10_000_000_000,
    budget_tokens=6976,
    limit_tokens=6500,
    tokens_before=9000,
    tokens_after_cap=8000,
    tokens_after_retention=7000,
    tokens_after_summary=6500,
    tokens_after_prune=6000,
    tokens_after_landing=5000,
    retention_triggered=True,
    summary_triggered=True,
    prune_triggered=False,
    landing_triggered=True,
    overflow_rejected=False,
    billed_tokens=5100,
    cached_tokens=4000,
    cost=0.0125,
)
UNBILLED = replace(SENT, billed_tokens=0, cached_tokens=0, cost=0.0, retention_triggered=False)
CALM = replace(
    SENT, summary_triggered=False, retention_triggered=False, landing_triggered=False, model="other"
)
REJECTED = replace(UNBILLED, overflow_rejected=True, landing_triggered=False, summary_triggered=False)
BILLED = Usage(input_tokens=30_000, cached_tokens=29_000, cost=0.25)
SUMMARY = summary_row(
    "vendor/model",
    SummaryOutcome(8000, 900, facts_lost=3),
    ahead=False,
    budget=Budget(10_000, 0, 0),
    usage=BILLED,
)
AHEAD = replace(SUMMARY, purpose="summary_ahead")
FAILED = replace(SUMMARY, failure="longer than its source")
ROWS = (SENT, UNBILLED, CALM, REJECTED, SUMMARY, AHEAD, FAILED)


def record(number: int, row: AuditRow = SENT, *, user_id: str = "ada", chat_id: str = "c1") -> Audited:
    """A record; later numbers are newer."""
    return Audited(f"{number:020}", user_id, chat_id, f"m{number}", row)


class Contract:
    """What holds on every database."""

    @pytest.fixture
    def log(self, database: Database) -> AuditLog:
        return AuditLog(database, clock=lambda: NOW)

    async def test_a_record_comes_back_as_it_was(self, log: AuditLog) -> None:
        """Each figure, large windows and fractions of dollars among them; the newest first."""
        records = [record(number, row) for number, row in enumerate(ROWS)]
        for each in records:
            log.write(each)
        await log.idle()
        assert await log.records() == records[::-1]
        assert await log.records(limit=1) == records[-1:]

    async def test_records_are_chosen(self, log: AuditLog) -> None:
        """By owner, chat, model and time."""
        first, second, third = record(1), record(2, CALM, chat_id="c2"), record(3, user_id="eve")
        for each in (first, second, third):
            log.write(each)
        await log.idle()
        chosen = [
            AuditFilter(user_id="ada"),
            AuditFilter(chat_id="c2"),
            AuditFilter(model="other"),
            AuditFilter(since=NOW + 1),
        ]
        assert [await log.records(each) for each in chosen] == [[second, first], [second], [second], []]

    async def test_the_metrics_are_those_of_the_rows(self, log: AuditLog) -> None:
        """The database's arithmetic is that of the values."""
        for number, row in enumerate(ROWS):
            log.write(record(number, row))
        await log.idle()
        assert await log.metrics() == metrics(ROWS)
        assert await log.metrics(AuditFilter(model="other")) == metrics([CALM])
        assert (
            await log.metrics(AuditFilter(user_id="nobody"))
            == metrics([])
            == Metrics(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        )

    async def test_the_documented_query_gives_the_metrics(self, database: Database, log: AuditLog) -> None:
        """An administrator may copy it out of docs/context.md."""
        for number, row in enumerate(ROWS):
            log.write(record(number, row))
        await log.idle()
        page = (ROOT / "docs" / "context.md").read_text("utf-8")
        query = page.partition("```sql\n")[2].partition("```")[0]
        with_table = query.replace("turn_context_audit", str(database.tables.audit))
        found = await database.run(lambda connection: connection.exec_driver_sql(with_table))
        expected = metrics(ROWS)
        assert {name: float(value) for name, value in found.mappings().one().items()} == {
            "context_summary_count": expected.summary_count,
            "context_prune_count": expected.prune_count,
            "context_overflow_reject_count": expected.overflow_reject_count,
            "avg_prompt_tokens_per_turn": pytest.approx(expected.avg_prompt_tokens),
            "summary_cost": pytest.approx(expected.summary_cost),
        }

    async def test_old_records_are_forgotten(self, database: Database) -> None:
        """Those written before the moment go, the others stay."""
        for number, now in enumerate((NOW - 1, NOW)):
            log = AuditLog(database, clock=lambda now=now: now)  # type: ignore[misc]
            log.write(record(number))
            await log.idle()
        await log.forget(NOW)
        assert await log.records() == [record(1)]


class TestSqlite(Contract):
    @pytest.fixture
    def database(self, sqlite_database: Database) -> Database:
        return sqlite_database


@pytest.mark.servers
class TestPostgres(Contract):
    @pytest.fixture
    def database(self, postgres_database: Database) -> Database:
        return postgres_database


def test_the_table_has_each_figure() -> None:
    """A figure that is added to the row needs a migration."""
    own = {"id", "user_id", "chat_id", "message_id", "created"}
    assert {column.name for column in tables(None).audit.c} == own | asdict(SENT).keys()


async def test_a_database_that_is_away_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says that the record is lost."""
    log = AuditLog(Database.from_url(f"sqlite:///{tmp_path}/no/such/folder/rows.db"))
    log.write(record(1))
    await log.aclose()
    # The driver's threads still report to the event loop for a moment.
    await asyncio.sleep(0.2)
    assert [each.getMessage().partition(" not")[0] for each in caplog.records] == ["audit of contexts: 1"]
