"""Bills in the ledger and in the audit: sums, holds, limits that workers keep together, and the page's query."""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from collections import defaultdict
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.money.audit import (
    AUDIT_COLUMNS,
    Bill,
    ChatSpending,
    bill_json,
    read_bill,
    sound_bill,
)
from open_webui_openrouter_pipe.money.limits import EPOCH, AccountLimit, AccountSums, Limit
from open_webui_openrouter_pipe.planning.plan import Step
from open_webui_openrouter_pipe.store.bills import CHAT_SUMS, HOLD_SECONDS
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.store.schema import create_tables, define_tables
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS, KEPT_SPENDING_DAYS
from scripts.paths import ROOT
from tests.store.contract import NOW, watch
from tests.store.test_sweep import AGED, FakeHost, sweep
from tests.support.audited import audited

pytestmark = pytest.mark.anyio

BILL = Bill(
    user_id="ada",
    chat_id="chat-1",
    accounts=("user:ada", "all"),
    cost=0.5,
    input_tokens=100,
    cached_tokens=40,
    output_tokens=10,
    input_cost=0.25,
    read_cost=0.125,
    saved=0.75,
    provider_cost=1.0,
)
UNDER = (
    AccountLimit(Limit("user", "", "day", 2), "user:ada"),
    AccountLimit(Limit("all", "", "month", 5), "all"),
)


def ledger_at(database: Database, seconds: int = NOW) -> SpendingLedger:
    """A ledger at a time."""
    return SpendingLedger(database, clock=lambda: seconds)


NUMBERS = count()


async def write(ledger: SpendingLedger, *bills: Bill) -> None:
    """Write bills, each of a request of its own unless it has an id, and wait until they are written."""
    for bill in bills:
        ledger.write(bill if bill.id else replace(bill, id=f"of-{next(NUMBERS)}"))
    await ledger.idle()


async def test_bills_are_summed_by_chat_and_by_account(database: Database) -> None:
    """In one batch or in several; an earlier day counts in its month alone, the month before not at all."""
    ledger = ledger_at(database)
    await write(
        ledger, BILL, BILL, replace(BILL, chat_id="chat-2"), replace(BILL, user_id="eve", accounts=("all",))
    )
    await write(ledger, BILL)
    expected = ChatSpending(3, 300, 120, 30, 1.5, 0.75, 0.375, 2.25, 3.0)
    assert await ledger.of_chat("ada", "chat-1") == expected
    assert (await ledger.of_chat("eve", "chat-1")).requests == 1
    assert await ledger.of_chat("ada", "none") == ChatSpending()
    for days in (1, 40):
        await write(ledger_at(database, NOW - days * DAY_SECONDS), BILL)
    assert await ledger.sums(["user:ada", "all", "user:eve"]) == {
        "user:ada": AccountSums(day=2.0, month=2.5, provider_day=4.0, provider_month=5.0),
        "all": AccountSums(day=2.5, month=3.0, provider_day=5.0, provider_month=6.0),
    }


async def test_bills_of_an_earlier_release_stay(database: Database) -> None:
    """It knew of no provider that is paid besides; what it has written counts on, and so does what it still writes."""
    await write(ledger_at(database), replace(BILL, provider_cost=0.0))
    tables = database.tables
    for table in (tables.audit, tables.ledger, tables.spending):
        await database.change(sa.text(f"ALTER TABLE {table.fullname} DROP COLUMN provider_cost"))
    await database.change(tables.version.update().values(version=tables.count() - 3))
    await database.run(lambda connection: connection.run_sync(create_tables, tables))
    earlier = {"account": "all", "day": NOW // DAY_SECONDS - 1, "cost": 4.0}
    await database.change(tables.spending.insert(), [earlier])
    ledger = ledger_at(database)
    await write(ledger, BILL)
    assert await ledger.of_chat("ada", "chat-1") == ChatSpending(2, 200, 80, 20, 1.0, 0.5, 0.25, 1.5, 1.0)
    assert await ledger.sums(["user:ada", "all"]) == {
        "user:ada": AccountSums(day=1.0, month=1.0, provider_day=1.0, provider_month=1.0),
        "all": AccountSums(day=1.0, month=5.0, provider_day=1.0, provider_month=1.0),
    }


async def test_a_bill_that_is_late_leaves_the_chat_in_use(database: Database) -> None:
    """One from a log of long ago, too: the sweep looks when a chat was last used."""
    await write(ledger_at(database), BILL)
    await write(ledger_at(database), replace(BILL, created=NOW - 100 * DAY_SECONDS))
    await sweep(database, FakeHost())
    assert (await ledger_at(database).of_chat("ada", "chat-1")).requests == 2


async def test_a_bill_of_a_provider_alone_is_written(database: Database) -> None:
    """OpenRouter's fee may be nothing."""
    ledger = ledger_at(database)
    await write(ledger, replace(BILL, cost=0.0))
    assert await ledger.sums(["user:ada"]) == {"user:ada": AccountSums(provider_day=1.0, provider_month=1.0)}


CLOCKS_CHANGE = datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()
"""In Berlin."""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Kiritimati"])
@pytest.mark.parametrize("account", ["", "user:a"])
async def test_usage_is_added_up_by_each_column(database: Database, zone: str, account: str) -> None:
    """Of users alone, in the days of any zone; what has failed is counted apart, a summary without a text is not."""
    there, dice = ZoneInfo(zone), random.Random(zone)
    last = datetime.fromtimestamp(CLOCKS_CHANGE, there).date()
    days = (last - timedelta(days=2), last)
    expected: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    of_limits: dict[str, list[float]] = defaultdict(lambda: [0, 0])
    for _ in range(90):
        midnight = datetime(last.year, last.month, last.day - dice.choice((-1, 0, 1, 1, 2, 20)), tzinfo=there)
        seconds = int(midnight.timestamp()) + dice.randint(-2 * 3600, 4 * 3600)
        user, model, failure = dice.choice("ab"), dice.choice("mn"), dice.choice(("", "", "", "rate"))
        bill = replace(BILL, accounts=(f"user:{user}", "all"), model=model, failure=failure)
        bill = replace(bill, purpose=dice.choice(("failure", "failure", "summary")))
        await write(ledger_at(database, seconds), bill)
        day = datetime.fromtimestamp(seconds, there).date()
        failed = failure if bill.purpose == "failure" else ""
        if account and account != f"user:{user}":
            continue
        if days[0] <= day <= days[1]:
            number = (day - EPOCH).days
            row: list[tuple[str, Any]] = [("failure", failed)]
            if not failed:
                columns = {"day": number, "account": f"user:{user}", "model": model}
                row = [*columns.items(), ("row", tuple(columns.values()))]
            for by, value in row:
                expected[by][value][0] += bill.requests
                expected[by][value][1] += bill.cost
        if not failed and day.replace(day=1) == last.replace(day=1) and day <= last:
            of_limits[f"user:{user}"][0] += (day == last) * bill.provider_cost
            of_limits[f"user:{user}"][1] += bill.cost
    found: dict[str, dict[Any, list[float]]] = defaultdict(dict)
    limits = {}
    for each in await ledger_at(database).usage(days, there, account):
        key = (each.day, each.account, each.model) if each.by == "row" else getattr(each, each.by)
        if each.requests:
            found[each.by][key] = [each.requests, each.cost]
        if each.by == "account":
            limits[each.account] = [each.provider_day, each.month_cost]
        assert isinstance(each.requests, int)
    assert {*expected} == {"day", "account", "model", "failure", "row"}
    assert found == expected
    assert limits == of_limits


def estimate(name: str, cost: float = 0.25) -> Bill:
    """What a request is estimated to cost before it is sent."""
    return replace(BILL, id=name, cost=cost, provider_cost=0.0, output_tokens=0)


async def test_a_bill_takes_the_place_of_its_hold(database: Database) -> None:
    """And so does a release, at no cost; who asks again and again holds once."""
    ledger = ledger_at(database)
    for _ in range(2):
        assert await ledger.hold(estimate("h0"), 5, UNDER) is True
    ledger.release(estimate("h0"))
    await ledger.idle()
    assert await ledger.hold(estimate("h1"), 1.5, UNDER) is True
    assert await ledger.sums(["user:ada"]) == {"user:ada": AccountSums(held=1.5)}
    assert await ledger.hold(estimate("h2"), 0.125, UNDER) is True
    assert await ledger.hold(estimate("h3"), 0.5, UNDER) is True
    assert await ledger.hold(estimate("h4"), 0.1, UNDER) is False
    await write(ledger, replace(BILL, id="h1"))
    ledger.release(estimate("h3"))
    await ledger.idle()
    assert await ledger.sums(["user:ada", "all"]) == {
        "user:ada": AccountSums(0.5, 0.5, 0.125, 1.0, 1.0),
        "all": AccountSums(0.5, 0.5, 0.125, 1.0, 1.0),
    }
    assert (await ledger.of_chat("ada", "chat-1")).requests == 1


async def rows(database: Database) -> dict[str, tuple[float, bool]]:
    """What the audit's rows say of costs, and whether that is estimated."""
    found = await database.fetch(sa.select(database.tables.audit))
    return {row.id: (row.cost, row.estimated) for row in found}


async def added_up(database: Database) -> None:
    """Check that all sums are those of the rows."""
    audit, numbers = database.tables.audit.c, [name for name in CHAT_SUMS if name != "requests"]
    of_rows = [sa.func.coalesce(sa.func.sum(audit[name]), 0) for name in numbers]
    [whole] = await database.fetch(sa.select(*of_rows))
    for table in (database.tables.ledger, database.tables.usage):
        query = sa.select(*(sa.func.coalesce(sa.func.sum(table.c[name]), 0) for name in numbers))
        query = query.where(table.c.account == "all") if "account" in table.c else query
        [found] = await database.fetch(query)
        assert [*map(float, found)] == pytest.approx([*map(float, whole)])


async def test_a_bill_counts_once_however_often_it_is_written(database: Database) -> None:
    """A bill in the place of an estimate counts by the difference, in the quarter and under the model of each."""
    ledger = ledger_at(database)
    guess = replace(BILL, id="b1", model="asked", cost=2.0, estimated=True, created=NOW - 3600)
    real = replace(BILL, id="b1", model="served", generation="gen-1")
    for bills in ([guess], [guess, guess], [real], [guess], [real, replace(real, cost=9.0)]):
        await write(ledger, *bills)
        await added_up(database)
    assert await rows(database) == {"b1": (0.5, False)}
    assert await ledger.of_chat("ada", "chat-1") == ChatSpending(1, 100, 40, 10, 0.5, 0.25, 0.125, 0.75, 1.0)
    found = await database.fetch(sa.select(database.tables.usage).filter_by(account="user:ada"))
    assert {(row.model, row.requests, row.cost) for row in found} == {("asked", 0, 0.0), ("served", 1, 0.5)}
    await write(ledger, replace(guess, id="b2"), replace(real, id="b2"))
    assert (await rows(database))["b2"] == (0.5, False)
    await added_up(database)


async def run_out(database: Database) -> None:
    """Let time go by until what is held has run out."""
    await database.change(sa.update(database.tables.hold).values(until=NOW))


async def test_a_hold_that_runs_out_is_an_estimated_bill(database: Database) -> None:
    """Of all workers that look at once one writes it; who was only slow replaces it by the true one."""
    slow, ledgers = ledger_at(database), [ledger_at(database) for _ in range(4)]
    assert await slow.hold(estimate("h1"), 2, UNDER) is True
    assert await ledgers[0].hold(estimate("h2"), 0.5, UNDER) is False
    await run_out(database)
    left = await asyncio.gather(
        *(ledger.hold(estimate("h2"), 0.5, UNDER) for ledger in ledgers[:2]),
        *(ledger.settle() for ledger in ledgers),
    )
    assert left[0] is True
    assert await rows(database) == {"h1": (0.25, True)}
    sums = await slow.sums(["user:ada", "all"])
    assert sums == dict.fromkeys(["user:ada", "all"], AccountSums(0.25, 0.25, 0.5))
    await added_up(database)
    await write(slow, replace(BILL, id="h1"))
    assert await rows(database) == {"h1": (0.5, False)}
    await added_up(database)


async def test_a_hold_is_renewed_as_long_as_its_request_runs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of another worker that has died is settled meanwhile; then the worker looks no more."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.bills.RENEWING_SECONDS", 0.02)
    dead, ledger, hold = ledger_at(database), ledger_at(database), database.tables.hold
    assert await dead.hold(estimate("dead"), 0.5, UNDER) is True
    await dead.aclose()
    assert await ledger.hold(estimate("runs"), 0.5, UNDER) is True
    [begin] = await database.fetch(sa.select(database.now))
    await database.change(sa.update(hold).values(until=begin[0] + 1).where(hold.c.id == "runs"))
    await database.change(sa.update(hold).values(until=NOW).where(hold.c.id == "dead"))
    async with asyncio.timeout(30):
        while [*await rows(database)] != ["dead"]:  # noqa: ASYNC110 - rows set no event
            await asyncio.sleep(0.01)
    found = await database.fetch(sa.select(hold))
    assert {(row.id, row.until >= begin[0] + HOLD_SECONDS) for row in found} == {("runs", True)}
    await write(ledger, replace(BILL, id="runs"))
    assert ledger._renewing
    async with asyncio.timeout(30):
        await ledger._renewing
    assert await database.fetch(sa.select(hold)) == []


async def test_a_release_keeps_a_late_hold_from_counting(database: Database) -> None:
    """The transaction of a hold may succeed although its request has given up on it."""
    ledger, late = ledger_at(database), ledger_at(database)
    ledger.release(estimate("h1"))
    await ledger.idle()
    assert await late.hold(estimate("h1"), 0.5, UNDER) is True
    await run_out(database)
    await ledger.settle()
    assert await late.hold(estimate("h2"), 0.5, UNDER) is True
    ledger.release(estimate("h2"))
    await ledger.idle()
    assert await database.fetch(sa.select(database.tables.hold)) == []
    assert await late.hold(estimate("h3"), 0.5, UNDER) is True
    await run_out(database)
    await ledger.settle()  # while the release waits for the database
    assert (await late.sums(["all"]))["all"].day == 0.25
    late.release(estimate("h3"))
    await late.idle()
    assert await rows(database) == dict.fromkeys(["h1", "h2", "h3"], (0.0, False))
    await added_up(database)


async def test_a_bill_that_is_not_written_can_be_entered_from_the_log(
    database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error with all that the bill has but its steps, and no text of a user."""
    monkeypatch.setattr("open_webui_openrouter_pipe.store.beside.CLOSING_SECONDS", 0.05)
    await database.change(sa.text(f"ALTER TABLE {database.tables.ledger.fullname} RENAME TO away"))
    bills = [
        replace(each, created=NOW) for each in (replace(BILL, id="b1"), record(2, replace(PRUNED, steps=())))
    ]
    ledger = ledger_at(database)
    for bill in bills:
        ledger.write(bill)
    await ledger.aclose()
    bills = [replace(each, steps=()) for each in bills]
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert [read_bill(line[line.index("{") :]) for line in lines] == bills
    assert [line.partition(":")[0] for line in lines] == ["bill not written, the worker ends"] * 2


async def test_a_bill_of_a_worker_that_is_cancelled_twice_is_in_the_log(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The function is replaced, and Open WebUI stops at once: so soon the database cannot answer."""
    ledger = ledger_at(database)
    ledger.write(replace(BILL, id="b1"))
    await asyncio.sleep(0)
    assert ledger._writing
    for _ in range(2):
        ledger._writing.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({ledger._writing})
    assert ["b1" in each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [True]


NUMBERS_OF_BILLS = [each.name for each in AUDIT_COLUMNS if each.type in {"int", "float"}]


@given(
    st.dictionaries(
        st.sampled_from(NUMBERS_OF_BILLS),
        st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()),
    )
)
def test_odd_numbers_lower_no_sum(odd: dict[str, Any]) -> None:
    """Whatever a provider or a line of the log says: all that is added is a number, and none below nothing."""
    bill = sound_bill(replace(BILL, id="b1", **odd))
    for name in CHAT_SUMS:
        value = getattr(bill, name)
        assert math.isfinite(value)
        assert value >= 0 or name == "saved"
    read = read_bill(bill_json(replace(BILL, id="b1", **odd)))
    assert read in (None, bill)


@given(st.one_of(st.text(), st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps)))
def test_a_line_that_is_no_bill_is_none(text: str) -> None:
    """Whatever is pasted."""
    assert read_bill(text) is None
    assert read_bill(json.dumps({"id": text, "cost": text})) is None


async def test_odd_texts_are_written(database: Database) -> None:
    """Half a character, and one that PostgreSQL does not take."""
    await write(ledger_at(database), replace(BILL, id="b1", model="a\0b\ud800"))
    assert [row.model for row in await database.fetch(sa.select(database.tables.audit))] == ["ab?"]


async def test_bills_survive_what_is_deleted(database: Database) -> None:
    """A chat's row goes with its chat or user; what limits and reports go by stays for 400 days, whoever is deleted."""
    await write(ledger_at(database, AGED), BILL, replace(BILL, user_id="eve", accounts=("user:eve",)))
    earlier = {"account": "all", "day": AGED // DAY_SECONDS, "cost": 4.0}
    await database.change(database.tables.spending.insert(), [earlier])
    host = FakeHost(users={"ada"}, chats=set())
    await sweep(database, host)
    assert await ledger_at(database).of_chat("ada", "chat-1") == ChatSpending()
    assert await ledger_at(database).of_chat("eve", "chat-1") == ChatSpending()
    usage, spending = database.tables.usage, database.tables.spending
    for days, left in ((0, [3, 1]), (KEPT_SPENDING_DAYS - 1, [3, 1]), (KEPT_SPENDING_DAYS + 1, [0, 0])):
        await sweep(database, host, now=AGED + days * DAY_SECONDS)
        assert [len(await database.fetch(table.select())) for table in (usage, spending)] == left


async def test_of_many_at_once_one_goes_beyond(database: Database) -> None:
    """Forty requests that ask in the same instant, each as dear as the limit: one begins."""
    ledgers = [ledger_at(database) for _ in range(2)]
    begun = await asyncio.gather(*(ledgers[at % 2].hold(estimate(f"h{at}"), 2, UNDER) for at in range(40)))
    assert begun.count(True) == 1


# --- the audit

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
WHOLE = replace(
    PRUNED, estimated=True, model="other", tokens_sent=9000, steps=(Step("evict", 9000, triggered=False),)
)
REJECTED = replace(NOT_BILLED, rejected=True, tokens_sent=0, steps=())
SUMMARY = Bill(model="vendor/model", purpose="summary", tokens_sent=900, details_omitted=3, cost=0.25)
AHEAD = replace(SUMMARY, purpose="summary_ahead")
TASK = Bill(model="vendor/model", purpose="task", cost=0.125)
NO_REQUEST = Bill(purpose="failure", failure="rate")
FAILED = replace(SUMMARY, failure="longer_than_its_source")
METRICS_OF_ROWS = {
    "requests": 4,
    "context_summary_count": 2,
    "context_prune_count": 2,
    "context_overflow_reject_count": 1,
    "avg_prompt_tokens_per_turn": pytest.approx((5100 + 5000 + 5100) / 3),
    "cached_share": pytest.approx(8000 / 10_200),
    "cost": pytest.approx(0.025),
    "summary_cost": pytest.approx(0.75),
    "task_cost": 0.125,
    "estimated_cost": pytest.approx(0.0125),
    "prefix_break_count": 4,
    "prefix_break_cost": pytest.approx(1.0),
}
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Metrics\n")[2].partition("\n## ")[0]


def record(number: int, row: Bill = PRUNED, chat_id: str | None = "chat-1") -> Bill:
    """A row; later numbers are newer."""
    named = replace(row, id=f"{number:020}", user_id="ada", message_id=f"m{number}")
    return replace(named, chat_id=chat_id)  # type: ignore[arg-type]


async def metrics(database: Database) -> dict[str, float]:
    """What the query that docs/operations.md shows to administrators returns, 0 for NULL."""
    query = PAGE.partition("```sql\n")[2].partition("```")[0]
    table = database.tables.audit
    assert query.count(table.name) == 1
    [row] = await database.fetch(sa.text(query.replace(table.name, table.fullname)))
    return {name: float(value or 0) for name, value in row._mapping.items()}


def test_the_table_and_the_page_have_a_column_for_each_field() -> None:
    """A field that is added to the bill needs a column, unless it is for the ledger alone."""
    columns = {column.name for column in define_tables(None).audit.c}
    of_bill = asdict(PRUNED).keys() - {"requests", "accounts"}
    assert columns == {"pruned"} | of_bill
    rows = re.findall(r"^\| (`.+?`) \| (.+)$", PAGE, re.MULTILINE)
    listed = {name for names, text in rows for name in re.findall(r"`(\w+)`", f"{names} {text}")}
    assert listed - {"answer", "task"} == columns - {"id"}


async def test_records_are_read_as_they_were_written(database: Database) -> None:
    """Large windows, fractions of dollars and the steps included; in one transaction for those of a moment."""
    log = SpendingLedger(database)
    assert await metrics(database) == dict.fromkeys(METRICS_OF_ROWS, 0)
    commits = watch(database, "commit")
    kinds = (PRUNED, NOT_BILLED, WHOLE, REJECTED, SUMMARY, AHEAD, FAILED, TASK, NO_REQUEST)
    records = [record(number, row) for number, row in enumerate(kinds)]
    for each in records:
        log.write(each)
    await log.idle()
    assert len(commits) == 1
    assert await audited(database) == records[::-1]
    assert await audited(database, limit=1) == records[-1:]
    assert await metrics(database) == METRICS_OF_ROWS


async def test_the_breaks_of_a_chat_are_listed(database: Database) -> None:
    """Those of this user's chat alone, the newest first; none for a chat without an id."""
    log = SpendingLedger(database)
    found = [replace(PRUNED, break_position=f"turn {turn}", break_cause="edit") for turn in (1, 2, 3)]
    others = [replace(PRUNED, break_position="", break_cause=""), PRUNED]
    for number, row in enumerate([*found, *others]):
        log.write(record(number, row, "c" if number < 4 else ""))
    await log.idle()
    expected = [("turn 3", "edit", 0.25), ("turn 2", "edit", 0.25)]
    assert await log.breaks("ada", "c", limit=2) == expected
    assert await log.breaks("bob", "c", limit=2) == await log.breaks("ada", "", limit=2) == []


async def test_what_a_chat_has_cost_is_added_up_by_day_and_model(database: Database) -> None:
    """By the days of a time zone, the latest first; what cost nothing is not listed, nor what others have asked."""
    log, table = SpendingLedger(database), database.tables.audit
    midnight = int(datetime(2024, 5, 2, tzinfo=UTC).timestamp())
    for number, (seconds, model, cost, provider) in enumerate(
        [
            *((-60, "a", 1.0, 0.0), (0, "a", 2.0, 0.5), (0, "b", 0.0, 0.25), (0, "b", 0.0, 0.0)),
            *((899, "a", 4.0, 0.0), (20 * 3600, "a", 8.0, 0.0)),
        ]
    ):
        log.write(replace(record(number, WHOLE, "c"), model=model, cost=cost, provider_cost=provider))
        await log.idle()
        unset = table.c.created > midnight + 2 * DAY_SECONDS
        await database.change(table.update().where(unset).values(created=midnight + seconds))
    log.write(replace(record(9, WHOLE, "c"), user_id="bob", cost=99.0))
    await log.idle()

    def spent(requests: int, cost: float, provider: float = 0.0) -> ChatSpending:
        return ChatSpending(requests=requests, cost=cost, provider_cost=provider)

    first, second = date(2024, 5, 1), date(2024, 5, 2)
    assert await log.costs("ada", "c", UTC) == [
        (second, "b", spent(1, 0.0, 0.25)),
        (second, "a", spent(3, 14.0, 0.5)),
        (first, "a", spent(1, 1.0)),
    ]
    assert [each[:2] for each in await log.costs("ada", "c", timezone(timedelta(hours=5, minutes=45)))] == [
        (date(2024, 5, 3), "a"),
        (second, "b"),
        (second, "a"),
    ]
    assert await log.costs("ada", "d", UTC) == []


async def test_a_refused_record_costs_the_others_nothing(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that were gathered with it are written by themselves."""
    log = SpendingLedger(sqlite_database)
    for each in (record(1), record(2, chat_id=None), record(3)):
        log.write(each)
    await log.idle()
    assert await audited(sqlite_database) == [record(3), record(1)]
    assert [each.partition(",")[0] for each in caplog.messages] == ["bill not written"]
