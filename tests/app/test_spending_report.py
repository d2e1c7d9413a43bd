"""`/spending` in the app: who sees what of the ledger, by which days, and that it costs and sends nothing."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import Group, Person
from open_webui_openrouter_pipe.ports import Embed
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
            ledger.write(replace(bill, cached_tokens=400, output_tokens=20, saved=0.75))
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
    answer = await chat.ask(command)
    assert answer.error is None
    call = replace(chat.call(), messages=[{"role": "user", "content": command}])
    async with aclosing(chat.app.answer(call, chat.settings)) as outputs:
        return answer.text, [each.html async for each in outputs if isinstance(each, Embed)]


def table_rows(text: str, head: str) -> list[str]:
    """The rows of the table under a heading."""
    lines = text.partition(f"**{head}**\n\n")[2].partition("\n\n")[0].splitlines()
    return [line.replace("\\", "").strip("| ") for line in lines[2:]]


async def test_an_administrator_sees_what_all_have_spent(app: App, standin: StandIn) -> None:
    """By user, group, model and day, with limits that are near; nothing is sent."""
    text, (page,) = await asked(chat_of(app, standin, "root", SPENDING_LIMITS=LIMITS))
    assert "Spending of all users, 2026-10-30 to 2026-11-28" in text
    assert table_rows(text, "By user") == [
        "Ada *L* | $4.50 | 4 | 2,060 | 39.6% | $3.00",
        "deleted users | $0.25 | 2 | 1,050 | 39.6% | $1.50",
    ] or text
    assert "Ada *L*" in page
    assert standin.responses == []
