"""The ledger: sums by chat and by account, holds, and limits that many workers keep together."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import AccountLimit, AccountSums, Limit
from open_webui_openrouter_pipe.ports import ChatSpending
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.ledger import HOLD_SECONDS, SpendingLedger
from open_webui_openrouter_pipe.store.sweep import DAY_SECONDS, KEPT_SPENDING_DAYS
from scripts.harness.database import open_database
from tests.store.contract import NOW
from tests.store.test_sweep import AGED, FakeHost, sweep
from tests.store.workers import Servers, run_workers, spend_until_refused

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

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
)
UNDER = (
    AccountLimit(Limit("user", "", "day", 2), "user:ada"),
    AccountLimit(Limit("all", "", "month", 5), "all"),
)


def ledger_at(database: Database, seconds: int = NOW) -> SpendingLedger:
    """A ledger at a time."""
    return SpendingLedger(database, clock=lambda: seconds)


async def write(ledger: SpendingLedger, *bills: Bill) -> None:
    """Write bills, and wait until they are written."""
    for bill in bills:
        ledger.write(bill)
    await ledger.idle()


async def test_bills_are_summed_by_chat(database: Database) -> None:
    """In one batch or in several; each chat of each user apart."""
    ledger = ledger_at(database)
    await write(ledger, BILL, BILL, replace(BILL, chat_id="chat-2"), replace(BILL, user_id="eve"))
    await write(ledger, BILL)
    expected = ChatSpending(3, 300, 120, 30, 1.5, 0.75, 0.375, 2.25)
    assert await ledger.of_chat("ada", "chat-1") == expected
    assert (await ledger.of_chat("eve", "chat-1")).requests == 1
    assert await ledger.of_chat("ada", "none") == ChatSpending()


async def test_accounts_have_a_day_and_a_month(database: Database) -> None:
    """What was spent on an earlier day counts in its month alone; that of the month before not at all."""
    for days in (0, 1, 40):
        await write(ledger_at(database, NOW - days * DAY_SECONDS), BILL)
    assert await ledger_at(database).sums(["user:ada", "all", "user:eve"]) == {
        "user:ada": AccountSums(day=0.5, month=1.0),
        "all": AccountSums(day=0.5, month=1.0),
    }


async def test_a_bill_takes_the_place_of_its_hold(database: Database) -> None:
    """And so does a release, at no cost."""
    ledger = ledger_at(database)
    assert await ledger.hold("h1", 1.5, UNDER) is True
    assert await ledger.sums(["user:ada"]) == {"user:ada": AccountSums(held=1.5)}
    assert await ledger.hold("h2", 0.125, UNDER) is True
    assert await ledger.hold("h3", 0.5, UNDER) is True
    assert await ledger.hold("h4", 0.1, UNDER) is False
    await write(ledger, replace(BILL, hold="h1"))
    ledger.release("h3", BILL.accounts)
    await ledger.idle()
    assert await ledger.sums(["user:ada", "all"]) == {
        "user:ada": AccountSums(0.5, 0.5, 0.125),
        "all": AccountSums(0.5, 0.5, 0.125),
    }
    assert (await ledger.of_chat("ada", "chat-1")).requests == 1


async def test_a_bill_that_is_not_written_is_in_the_log(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """With its price, whose it was, and its chat."""
    await database.change(sa.text(f"DROP TABLE {database.tables.ledger.fullname}"))
    await write(ledger_at(database), BILL, replace(BILL, chat_id="", cost=0.25))
    assert "bill not written: $0.500000 of user ada in chat chat-1" in caplog.messages
    assert "bill not written: $0.250000 of user ada in chat none" in caplog.messages


async def test_a_hold_of_a_worker_that_died_ends_by_itself(database: Database) -> None:
    """After an hour nobody is held up any more, and the sweep deletes it."""
    assert await ledger_at(database).hold("h1", 5, UNDER) is True
    assert await ledger_at(database, NOW + HOLD_SECONDS - 1).hold("h2", 1, UNDER) is False
    assert await ledger_at(database, NOW + HOLD_SECONDS).hold("h3", 1, UNDER) is True
    await sweep(database, FakeHost(), now=NOW + HOLD_SECONDS)
    table = database.tables.hold
    assert {row.id for row in await database.fetch(table.select())} == {"h3"}


async def test_bills_survive_what_is_deleted(database: Database) -> None:
    """A chat's row goes with its chat or user; what limits go by stays for two months, whoever is deleted."""
    await write(ledger_at(database, AGED), BILL, replace(BILL, user_id="eve", accounts=("user:eve",)))
    host = FakeHost(users={"ada"}, chats=set())
    await sweep(database, host)
    assert await ledger_at(database).of_chat("ada", "chat-1") == ChatSpending()
    assert await ledger_at(database).of_chat("eve", "chat-1") == ChatSpending()
    assert len(await database.fetch(database.tables.spending.select())) == 3
    await sweep(database, host, now=AGED + (KEPT_SPENDING_DAYS + 1) * DAY_SECONDS)
    assert await database.fetch(database.tables.spending.select()) == []


async def test_of_many_at_once_one_goes_beyond(database: Database) -> None:
    """Forty requests that ask in the same instant, each as dear as the limit: one begins."""
    ledgers = [ledger_at(database) for _ in range(2)]
    begun = await asyncio.gather(*(ledgers[at % 2].hold(f"h{at}", 2, UNDER) for at in range(40)))
    assert begun.count(True) == 1


async def test_two_workers_keep_a_limit(processes: ForkServerContext, servers: Servers) -> None:
    """Two processes spend as fast as they can, up to two dollars at seven cents each: 29 requests, one of them over."""
    await run_workers(processes, spend_until_refused, [(servers, at, 0.07, UNDER) for at in (0, 1)])
    database = open_database(servers.database_url, schema=servers.schema)
    chat = await SpendingLedger(database).of_chat("ada", "chat-1")
    assert chat.requests == 29
    assert chat.cost == pytest.approx(29 * 0.07)
    await database.aclose()
