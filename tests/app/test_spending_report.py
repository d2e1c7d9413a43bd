"""`/spending` in the app: who sees what of the ledger, by which days, and that it costs and sends nothing."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import Group, Person
from open_webui_openrouter_pipe.ports import Embed, Failed
from open_webui_openrouter_pipe.responses.effects import TextDelta
from tests.app.chat import Chat, app_on, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

EVENING = datetime(2026, 11, 28, 23, 30, tzinfo=UTC).timestamp()
STUDENTS = Group("g1", "Students")
PEOPLE = {
    "ada": Person("Ada *L*", groups=(STUDENTS,)),
    "root": Person("Root", is_admin=True),
    "idle": Person("Idle"),
}
LIMITS = "user: 4/day 90/month; group Students: 50/month; all: 500/month"
DAY_SECONDS = 86_400


@dataclass
class Clock:
    """What time it is."""

    seconds: float = EVENING

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def app(tmp_path: Any, clock: Clock) -> AsyncIterator[App]:
    """An app whose ledger has bills of two users, one of whom is deleted, in the last two months."""

    async def people() -> Any:
        return PEOPLE

    async def groups(user_id: str) -> Any:
        return PEOPLE[user_id].groups

    async with app_on(tmp_path, clock=clock, people=people, groups=groups) as opened:
        ledger = opened.worker.own.ledger
        for days, user, cost in ((0, "ada", 3.5), (0, "gone", 0.25), (1, "ada", 1.0), (40, "ada", 8.0)):
            clock.seconds = EVENING - days * DAY_SECONDS
            accounts = (f"user:{user}", "all")
            bill = Bill(user_id=user, accounts=accounts, cost=cost, model="a/m", input_tokens=1000)
            bill = replace(bill, id=f"{user} {opened.worker.memory.clock()}")
            ledger.write(replace(bill, cached_tokens=400, output_tokens=20, saved=0.75))
            bill = replace(bill, id=f"{bill.id} more")
            ledger.write(replace(bill, model="b/m", cost=0.0, input_tokens=10))
            await ledger.idle()
        clock.seconds = EVENING
        yield opened


def chat_of(app: App, standin: StandIn, user_id: str, **valves: Any) -> Chat:
    """A chat of a user."""
    role = "admin" if PEOPLE[user_id].is_admin else "user"
    return Chat(app, settings(standin, **valves), user_id=user_id, role=role)


async def asked(chat: Chat, command: str = "/spending") -> tuple[str, list[str]]:
    """The text that answers a command, and the pages beside it."""
    chat.messages.append({"role": "user", "content": command})
    async with aclosing(chat.app.answer(chat.call(), chat.settings)) as answer:
        outputs = [each async for each in answer]
    assert not any(isinstance(each, Failed) for each in outputs)
    text = "".join(each.delta for each in outputs if isinstance(each, TextDelta))
    return text, [each.html for each in outputs if isinstance(each, Embed)]


def table_rows(text: str, head: str) -> list[str]:
    """The rows of the table under a heading."""
    lines = text.partition(f"**{head}**\n\n")[2].partition("\n\n")[0].splitlines()
    return [line.replace("\\", "").strip("| ") for line in lines[2:]]


async def test_an_administrator_sees_what_all_have_spent(app: App, standin: StandIn) -> None:
    """By user, group, model and day, with limits that are near; nothing is sent, and nothing counted."""
    text, (page,) = await asked(chat_of(app, standin, "root", SPENDING_LIMITS=LIMITS))
    assert "Spending of all users, 2026-10-30 to 2026-11-28" in text
    assert text.startswith(f"{ANSWER_MARK}\\$4.75 (requests: 6).\n\n<details>\n")
    assert "40% of what the models read came from a cache; that saved \\$2.25." in text
    assert table_rows(text, "Limits") == [
        "Ada *L* | $3.50 | $4.00 a day | 87.5%",
        "The spending limit of all users | $4.75 | $500.00 a month | 0.9%",
        "The spending limit of the group Students | $0 | $50.00 a month | 0.0%",
    ]
    ada, gone = "$4.50 | 4 | 2,060 | 39.6% | $1.50", "$0.25 | 2 | 1,030 | 39.6% | $0.75"
    assert table_rows(text, "User") == [f"Ada *L* | {ada}", f"deleted users | {gone}"]
    assert table_rows(text, "Group") == [f"Students | {ada}", f"in no group | {gone}"]
    assert table_rows(text, "Model") == [
        "a/m | $4.75 | 3 | 3,060 | 40.0% | $2.25",
        "b/m | $0 | 3 | 30 | 0.0% | $0",
    ]
    assert [row[:18] for row in table_rows(text, "Day")] == ["2026-11-28 | $3.75", "2026-11-27 | $1.00"]
    assert "Ada *L*" in page
    assert standin.responses == []
    await app.worker.own.ledger.idle()
    assert "(requests: 6)" in (await asked(chat_of(app, standin, "root")))[0]


async def test_a_user_sees_their_own_alone(app: App, standin: StandIn) -> None:
    """Days, models, and what is left of limits, whoever else has spent."""
    text, (page,) = await asked(chat_of(app, standin, "ada", SPENDING_LIMITS=LIMITS))
    assert "Your spending, 2026-10-30" in text
    assert "\\$4.50 (requests: 4)." in text
    assert [each.rpartition(" | ")[0] for each in table_rows(text, "Limits")] == [
        "Your spending limit | $3.50 | $4.00 a day",
        "Your spending limit | $4.50 | $90.00 a month",
        "The spending limit of all users | $4.75 | $500.00 a month",
        "The spending limit of the group Students | $0 | $50.00 a month",
    ]
    assert "**User**" not in text
    assert "gone" not in page
    assert "day,model,requests" in page
    assert "Nothing was spent." in (await asked(chat_of(app, standin, "idle")))[0]
    database = app.worker.host.database
    earlier = {"account": "user:ada", "day": EVENING // DAY_SECONDS - 1, "cost": 30.0}
    await database.change(database.tables.spending.insert(), [earlier])  # as an earlier release counts
    text, _ = await asked(chat_of(app, standin, "ada", SPENDING_LIMITS="user: 90/month"))
    assert table_rows(text, "Limits") == ["Your spending limit | $34.50 | $90.00 a month | 38.3%"]


@pytest.mark.parametrize(
    ("command", "period", "spent"),
    [
        ("/spending 1", "2026-11-28 to 2026-11-28", "$3.75 (requests: 4)"),
        ("/spending 366", "2025-11-28 to 2026-11-28", "$12.75 (requests: 8)"),
        ("/spending 2026-11", "2026-11-01 to 2026-11-28", "$4.75 (requests: 6)"),
        ("/Spending 2026-10", "2026-10-01 to 2026-10-31", "$8.00 (requests: 2)"),
        ("/spending 2026-02", "2026-02-01 to 2026-02-28", "Nothing was spent."),
    ],
)
async def test_a_period_is_a_month_or_so_many_days(
    app: App, standin: StandIn, command: str, period: str, spent: str
) -> None:
    """Limits are of today, with which this month ends, and belong to no period before it."""
    text, _ = await asked(chat_of(app, standin, "root", SPENDING_LIMITS=LIMITS), command)
    assert period in text
    assert spent in text.replace("\\", "")
    assert ("**Limits**" in text) is period.endswith("2026-11-28")


async def test_days_and_limits_are_those_of_the_time_zone(app: App, standin: StandIn) -> None:
    """Half past eleven in the evening is another day in Berlin; a change of the zone loses and doubles nothing."""
    for zone, today, of_limit in (
        ("Europe/Berlin", "2026-11-29", "$3.50"),
        ("UTC", "2026-11-28", "$3.50"),
        ("America/New_York", "2026-11-28", "$3.50"),
        ("Atlantis", "2026-11-28", "$3.50"),
    ):
        text, _ = await asked(chat_of(app, standin, "ada", SPENDING_LIMITS="user: 9/day", TIME_ZONE=zone))
        assert f"time zone {zone if zone != 'Atlantis' else 'UTC'}" in text
        days = [row.split(" | ")[:2] for row in table_rows(text, "Day")]
        assert days == [[today, "$3.50"], [str(date.fromisoformat(today) - timedelta(days=1)), "$1.00"]]
        assert table_rows(text, "Limits")[0].startswith(f"Your spending limit | {of_limit}")


@pytest.mark.parametrize(("zone", "until"), [("UTC", ""), ("Asia/Tokyo", "until 15:00 UTC.")])
async def test_a_limit_begins_anew_with_the_day_of_the_zone(
    app: App, standin: StandIn, clock: Clock, zone: str, until: str
) -> None:
    """Of what was spent the evening before in UTC, Tokyo counts all as of today."""
    clock.seconds += 14 * 3600
    chat = chat_of(app, standin, "ada", SPENDING_LIMITS="user: 3/day", TIME_ZONE=zone)
    answer = await chat.ask("hello")
    assert (until in answer.error) if answer.error else not until
    text, _ = await asked(chat_of(app, standin, "root", SPENDING_LIMITS="user: 3/day", TIME_ZONE=zone))
    assert table_rows(text, "Limits") == ["Ada *L* | $3.50 | $3.00 a day | 116.7%"] * bool(until)


async def test_what_fails_is_counted_by_kind(app: App, standin: StandIn) -> None:
    """An answer that a provider refuses, and one that a limit stops; but not what its user stops or declines."""
    chat = chat_of(app, standin, "ada", RETRY_SECONDS=0)
    for order in ("error=400", "error=429", "error=429"):
        assert (await chat.ask(f"[[standin: {order}]]")).error
    declines = chat_of(app, standin, "ada", CONFIRM_ABOVE_DOLLARS=1e-9)
    declines.asks = AsyncMock(return_value=False)
    assert (await declines.ask("hello")).error
    stopped = chat_of(app, standin, "ada", SPENDING_LIMITS="user: 1/day")
    assert (await stopped.ask("hello")).error
    await app.worker.own.ledger.idle()
    usage = app.worker.host.database.tables.usage.c
    failed = sa.select(usage.account).where(usage.failure != "").distinct()
    found = await app.worker.host.database.fetch(failed)
    assert [row.account for row in found] == ["user:ada"]  # limits go by none
    text, _ = await asked(chat_of(app, standin, "root"))
    assert table_rows(text, "Errors") == [
        "The provider's rate limit | 2",
        "A spending limit was reached | 1",
        "The model is gone, or the request did not suit it | 1",
    ]


async def test_what_cannot_be_read_is_said(app: App, standin: StandIn) -> None:
    """In one line, and without numbers that would be wrong."""
    database = app.worker.host.database
    await database.change(sa.text("DROP TABLE openrouter_pipe_usage"))
    answer = await chat_of(app, standin, "ada").ask("/spending")
    assert answer.error == "The database cannot be reached."
