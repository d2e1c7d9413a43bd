"""Money in the app: the line about it, the ledger, the question before it is spent, and the limits."""

from __future__ import annotations

import asyncio
import math
import re
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import Group, limits_of, read_limits
from open_webui_openrouter_pipe.ports import ChatSpending
from open_webui_openrouter_pipe.responses.effects import ResponseFinished, TextDelta
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.turn import bill
from open_webui_openrouter_pipe.turn.bill import time_text
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.worker import Host
from scripts.benchmarks._chats import agent_chat, plain_chat
from scripts.benchmarks.prices import forecast_errors, within_share
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords, Page, PipeInProcess
from tests.app.chat import MODEL, Chat, settings
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()
LINE = re.compile(
    r"\$(\d[\d.]*) · (next message from .+ · )?([\d,]+) tokens in( \([\d,]+ cached\))? · ([\d,]+) out · [\d.]+ s"
    r"( · [\d,]+ tok/s)?"
)
CLAUDE = "anthropic/claude-sonnet-4.5"
LONG = "word " * 4000
ASKING = {"CONFIRM_ABOVE_DOLLARS": 0.005}
LIMITED = {"SPENDING_LIMITS": "user: 9/day"}


@dataclass
class Asked:
    """A page that is asked, and answers the same each time."""

    answer: bool | None
    questions: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, title: str, text: str) -> bool | None:
        self.questions.append((title, text))
        return self.answer


@dataclass(slots=True, kw_only=True)
class User(Chat):
    """A user of an app, with one chat, and what it has cost."""

    standin: StandIn
    ledger: SpendingLedger

    async def lines(self, text: str, *, ask: Any = None, **valves: Any) -> list[str]:
        """The status lines of an answer, and its error at the end."""
        self.settings, self.asks = settings(self.standin, **valves), ask
        answer = await self.ask(text)
        return [*answer.notices, *([answer.error] if answer.error else [])]

    def in_zone(self, zone: str) -> None:
        """Have the browser name this time zone."""
        self.metadata = {"variables": {"{{CURRENT_TIMEZONE}}": zone}}

    def begin(self, chat_id: str) -> None:
        """Begin another chat."""
        self.chat_id, self.messages = chat_id, []

    async def spend(self, dollars: float, *accounts: str) -> None:
        """Spend what was not sent by this app."""
        accounts = accounts or (f"user:{self.user_id}", "all")
        self.ledger.write(Bill(user_id="eve", chat_id="other", accounts=accounts, cost=dollars))
        await self.ledger.idle()

    async def total(self, requests: int) -> ChatSpending:
        """What the chat has cost, once so many requests are billed."""
        while (  # noqa: ASYNC110 - written by a task that is the app's own
            found := await self.ledger.of_chat(self.user_id, self.chat_id)
        ).requests < requests:
            await asyncio.sleep(0.01)
        return found

    async def held(self) -> float:
        """What is held for the user's requests."""
        sums = await self.ledger.sums(["user:ada"])
        return sums["user:ada"].held if sums else 0


@dataclass
class World:
    """What the apps of a test share."""

    folder: Path
    standin: StandIn
    groups: list[Group] = field(default_factory=list)
    seconds: float = NOON

    def clock(self) -> float:
        return self.seconds

    async def groups_of(self, user_id: str) -> Sequence[Group]:
        return self.groups

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[User]:
        """A user in a worker of their own."""
        database = open_database(f"sqlite:///{self.folder}/rows.db")
        host = Host(database, FakeRecords(), "secret", groups=self.groups_of)
        ledger = SpendingLedger(database, clock=lambda: int(self.seconds))
        async with aclosing(App(host, clock=self.clock)) as app:
            yield User(app, settings(self.standin), chat_id="chat-1", standin=self.standin, ledger=ledger)
            await app.idle()


@pytest.fixture
def world(tmp_path: Path, standin: StandIn) -> World:
    return World(tmp_path, standin)


@pytest.fixture
async def user(world: World) -> AsyncIterator[User]:
    async with world.worker() as found:
        yield found


def billed(standin: StandIn) -> float:
    """What the stand-in has billed."""
    return math.fsum(each.usage["cost"] for each in standin.responses if each.usage)


# --- the line and the ledger


async def test_the_last_line_says_what_the_answer_has_cost(user: User, standin: StandIn) -> None:
    """Its price as it was billed; nothing where the line is off."""
    (line,) = await user.lines("one", COST_LINE="cost")
    match = LINE.fullmatch(line)
    assert match
    assert float(match[1]) == pytest.approx(billed(standin), rel=0.05)
    assert match[2] is None
    assert await user.lines("two", COST_LINE="off") == []


async def test_the_forecast_says_until_when_the_cache_is_warm(user: User) -> None:
    """By the clock of the user's zone, or in UTC, marked; where it makes no difference, only one price."""
    user.model = CLAUDE
    (line,) = await user.lines(LONG, COST_LINE="forecast")
    assert re.search(r"· next message from \$[\d.]+ \(\$[\d.]+ after 12:05 UTC\) ·", line)
    user.in_zone("Europe/Berlin")
    (line,) = await user.lines("two", COST_LINE="forecast")
    assert "after 13:05)" in line
    user.begin("chat-2")
    (line,) = await user.lines("short", COST_LINE="forecast")
    assert re.search(r"· next message from \$[\d.]+ ·", line)


@pytest.mark.parametrize("valves", [UserValves(), UserValves(CONTEXT_AIM="thrifty")])
async def test_rounds_are_one_answer(tmp_path: Path, standin: StandIn, valves: UserValves) -> None:
    """With a tool there are two requests, and one line for both; it begins with what an earlier round said."""
    host = PipeInProcess(tmp_path, base_url=standin.base_url, COST_LINE="cost", ENABLE_USER_OVERRIDE=False)
    async with host as pipe:
        page = Page(pipe, MODEL, tools={"get_weather": lambda _: "sunny"}, valves=valves)
        answer = await page.ask("[[standin: call=get_weather]]")
        again = await page.ask("And now?")
    tokens = [each.usage["input_tokens"] for each in standin.responses if each.usage]
    (*said, last), (next_line,) = answer.notices, again.notices
    assert [line.endswith("CONTEXT_AIM.") for line in said] == [True] * (valves != UserValves())
    assert last.startswith(" · ".join([*said, "$0."]))
    assert next_line.startswith("$0.")
    assert f"{tokens[0] + tokens[1]:,} tokens in" in last
    assert f"{tokens[2]:,} tokens in" in next_line


async def test_everything_is_in_the_ledger(user: User, standin: StandIn) -> None:
    """Answers and tasks, with what was read from the cache and what that saved."""
    await user.lines(LONG)
    await user.lines("two")
    await user.title()
    total = await user.total(3)
    assert total.cost == pytest.approx(billed(standin))
    usages = [each.usage for each in standin.responses if each.usage]
    assert total.cached_tokens == sum(each["input_tokens_details"]["cached_tokens"] for each in usages) > 0
    assert total.input_cost == pytest.approx(
        sum(each["cost_details"]["upstream_inference_input_cost"] for each in usages)
    )
    assert total.saved == pytest.approx(total.cached_tokens * (1.75 - 0.175) / 1e6, rel=0.01)
    sums = await user.ledger.sums(["user:ada", "all"])
    assert [sums[name].day for name in ("user:ada", "all")] == [pytest.approx(total.cost)] * 2


async def test_summaries_are_in_the_ledger(user: User, standin: StandIn) -> None:
    """Whoever waits for them."""
    user.model = "standin/small"
    for text in ("hello", *["word " * 900] * 10):
        await user.lines(text)
    await user.app.idle()
    assert any(each.is_summary for each in standin.responses)
    assert (await user.total(len(standin.responses))).cost == pytest.approx(billed(standin))


async def test_an_answer_that_is_stopped_is_billed_by_our_own_count(user: User, standin: StandIn) -> None:
    """Otherwise stopping each answer just before its end would cost nothing; nothing is held any more."""
    user.messages = [{"role": "user", "content": f"{LONG} [[standin: slow=60]]"}]
    async with aclosing(user.app.answer(user.call(), settings(standin, **LIMITED))) as outputs:
        async for output in outputs:
            if isinstance(output, TextDelta):
                break
    total = await user.total(1)
    assert total.input_tokens == pytest.approx(4020, rel=0.1)
    assert total.cost > 0.006
    assert await user.held() == 0


@pytest.mark.parametrize(
    "failure",
    [
        "error=400",
        *(f"fail={kind} after=0 code=400" for kind in ("failed", "response.error", "nested", "flat")),
    ],
)
async def test_a_request_that_fails_at_once_costs_nothing(user: User, failure: str) -> None:
    """Whether its stream has begun or not; and what was held for it is given back."""
    lines = await user.lines(f"[[standin: {failure}]]", **LIMITED, COST_LINE="cost")
    assert len(lines) == 1
    await user.app.idle()
    while await user.held():  # noqa: ASYNC110 - given back by a task that is the app's own
        await asyncio.sleep(0.01)
    assert await user.ledger.of_chat("ada", "chat-1") == ChatSpending()


# --- the question


async def test_an_expensive_message_is_asked_about(user: User, standin: StandIn) -> None:
    """A yes sends it; below the threshold, and where nobody can be asked, nothing is asked."""
    yes, absent = Asked(answer=True), Asked(answer=None)
    assert await user.lines(f'{LONG} [[standin: text="Read."]]', ask=yes, **ASKING) == []
    ((title, text),) = yes.questions
    assert re.fullmatch(r"Send this for about \$0\.00[67]\d?\?", title)
    assert re.match(
        r"The model reads about [34],\d\d0 tokens for this message, none of them from the provider's", text
    )
    await user.lines("cheap by now", ask=yes, **ASKING)
    user.begin("chat-2")
    await user.lines(LONG, ask=absent, **ASKING)
    await user.lines(LONG, **ASKING)
    assert (len(yes.questions), len(absent.questions), len(standin.responses)) == (1, 1, 4)


async def test_a_no_costs_nothing(user: User, standin: StandIn) -> None:
    """Nothing is sent, neither the message nor a title; the next message is another matter."""
    no = Asked(answer=False)
    (line,) = await user.lines(LONG, ask=no, **ASKING, **LIMITED)
    assert re.fullmatch(r"Not sent: you did not agree to about \$0\.00[67]\d?\. Nothing was charged\.", line)
    await user.title()
    assert standin.responses == []
    assert await user.ledger.sums(["user:ada"]) == {}
    user.messages.clear()
    assert await user.lines("short", ask=no, **ASKING) == []
    await user.title()
    assert len(standin.responses) == 2


async def test_nobody_waits_for_ever_for_an_answer(
    user: User, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question that is left open counts as a no."""

    async def wait(_title: str, _text: str) -> bool | None:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(bill, "ANSWER_SECONDS", 0.01)
    (line,) = await user.lines(LONG, ask=wait, **ASKING)
    assert ("Nothing was charged." in line, standin.responses) == (True, [])


async def test_whoever_is_asked_keeps_nobody_waiting(user: User, standin: StandIn) -> None:
    """Its place among the running requests is others' until the answer is there."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def think(_title: str, _text: str) -> bool | None:
        asked.set()
        return await may_answer.wait()

    first = asyncio.create_task(user.lines(LONG, ask=think, **ASKING, MAX_REQUESTS=1))
    await asked.wait()
    other = replace(user, user_id="eve", chat_id="chat-2", messages=[])
    assert await other.lines("short", MAX_REQUESTS=1) == []
    may_answer.set()
    await first
    assert len(standin.responses) == 2


async def test_what_is_held_after_the_user_has_left_is_released(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is slow holds it only then."""
    asked, may_hold, held = asyncio.Event(), asyncio.Event(), asyncio.Event()
    hold, ledgers = SpendingLedger.hold, list[SpendingLedger]()

    async def hold_late(ledger: SpendingLedger, *given: Any) -> bool:
        ledgers.append(ledger)
        asked.set()
        await may_hold.wait()
        found = await hold(ledger, *given)
        assert await user.held() > 0
        held.set()
        return found

    monkeypatch.setattr(SpendingLedger, "hold", hold_late)
    answer = asyncio.create_task(user.lines("one", **LIMITED))
    await asked.wait()
    answer.cancel()
    await asyncio.wait({answer})
    await ledgers[0].idle()
    may_hold.set()
    await held.wait()
    await asyncio.sleep(0)
    await ledgers[0].idle()
    assert await user.held() == 0


async def test_giving_up_a_warm_cache_is_asked_about(user: User, world: World, standin: StandIn) -> None:
    """A switch of model that costs more than the threshold, as long as the other model has the chat in its cache."""
    yes = Asked(answer=True)
    await user.lines(f'{LONG} [[standin: text="Read."]]')
    user.model = CLAUDE
    await user.lines("switched", ask=yes, CONFIRM_ABOVE_DOLLARS=0.012)
    ((title, text),) = yes.questions
    assert title.startswith("Send this for about $0.01")
    assert f"{MODEL} still has this chat in its cache" in text
    await user.lines("again", ask=yes, CONFIRM_ABOVE_DOLLARS=0.012)
    world.seconds += 301
    user.model = "openai/gpt-5.6-sol"
    await user.lines("both are cold", ask=yes, CONFIRM_ABOVE_DOLLARS=0.02)
    assert (len(yes.questions), len(standin.responses)) == (1, 4)


# --- the limits


async def test_at_a_limit_nothing_is_sent(user: User, world: World, standin: StandIn) -> None:
    """The line says whose limit it is and until when; a task gets nothing; the next day all goes on."""
    limits = {"SPENDING_LIMITS": "user: 2/day 20/month; all: 3/day"}
    await user.spend(1.99)
    await user.spend(0.02)
    user.in_zone("Europe/Berlin")
    assert await user.lines("one", **limits) == [
        "Your spending limit of $2.00 a day is used up, until tomorrow at 01:00. Nothing was sent."
    ]
    assert [type(each) for each in await user.title()] == [ResponseFinished]
    assert standin.responses == []
    world.seconds += 12 * 3600
    user.messages.clear()
    assert await user.lines("one", **limits) == []


async def test_the_limits_of_groups_and_of_all(user: User, world: World) -> None:
    """What others spend counts there; administrators are only under the limit of all."""
    world.groups = [Group("g1", "Students")]
    await user.spend(5, "group:g1")
    limits = {"SPENDING_LIMITS": "group Students: 5/month; all: 30/month"}
    (line,) = await user.lines("one", **limits)
    assert line.startswith(
        "The spending limit of the group Students of $5.00 a month is used up, until on 1 Dec"
    ) or ("1 December" in line)
    user.role = "admin"
    assert await user.lines("one", **limits) == []
    await user.spend(30, "all")
    (line,) = await user.lines("one", **limits)
    assert line.startswith("The spending limit of all users of $30.00 a month is used up")


async def test_near_a_limit_the_cheaper_path_is_taken_and_said(user: User, standin: StandIn) -> None:
    """Said once; the service tier or the provider only where the valve has it."""
    await user.spend(1.7)
    lines = []
    for count, ways in enumerate(({}, {"NEAR_LIMIT": "flex"}, {"NEAR_LIMIT": "floor"}), start=1):
        lines += await user.lines(f"question {count}", SPENDING_LIMITS="user: 2/day", **ways)
        await user.total(count)  # what is held until then may be all that is left
    (line,) = lines
    assert line.startswith(
        "Your spending limit of $2.00 a day is nearly used up, until tomorrow at 00:00 UTC"
    )
    taken = [(each.body.get("service_tier"), each.body.get("provider")) for each in standin.responses]
    assert taken == [(None, None), ("flex", None), (None, {"sort": "price"})]


async def test_a_limit_that_cannot_be_read_lets_no_user_chat(user: User, standin: StandIn) -> None:
    """Rather than let them spend without one; an administrator reads the part that is wrong, and can chat."""
    lines = []
    for role in ("user", "admin"):
        user.role = role
        lines += await user.lines("one", SPENDING_LIMITS="user: 2/week")
        assert len(standin.responses) == (role == "admin")
    assert "SPENDING_LIMITS" in lines[0]
    assert "user: 2/week" in lines[0]
    assert "Users cannot chat" in lines[1]
    assert len(lines) == 2


@pytest.mark.parametrize("missing", ["database", "groups"])
async def test_limits_that_cannot_be_checked_let_nobody_chat(
    user: User, standin: StandIn, missing: str
) -> None:
    """Without the database nobody knows what was spent, without the groups not who is in those that limits name."""

    async def fail(user_id: str) -> Sequence[Group]:
        raise StoreUnavailable("The groups of a user cannot be read.", detail=user_id)

    await user.spend(0.1)
    if missing == "database":
        await user.ledger._database.change(sa.text("DROP TABLE openrouter_pipe_spending"))
        limits, unlimited = "user: 2/day", ""
    else:
        user.app.worker.spending = replace(user.app.worker.spending, groups=fail)
        limits, unlimited = "each of Students: 2/day", "user: 2/day"
    (line,) = await user.lines("one", SPENDING_LIMITS=limits)
    assert ("cannot be checked" in line, standin.responses) == (True, [])
    assert await user.lines("two", SPENDING_LIMITS=unlimited) == []


@pytest.mark.parametrize(
    ("model", "valves", "least", "most"),
    [
        (MODEL, {}, 0.2, 0.3),
        (MODEL, {"WEB_SEARCH": "auto", "WEB_SEARCH_MAX_SEARCHES": 7}, 0.27, 0.37),
        (f"{MODEL}:online", {}, 0.21, 0.31),
        ("openai/gpt-4.1-mini", {"FALLBACK_MODELS": MODEL}, 0.2, 0.3),
        ("nobody/unknown", {"MODELS": f"{MODEL}, openai/gpt-4.1-mini"}, 0.2, 0.3),
    ],
    ids=["prices", "searches", "variant", "fallbacks", "unknown prices"],
)
async def test_what_is_held_is_the_most_that_a_request_may_cost(
    user: User, monkeypatch: pytest.MonkeyPatch, model: str, valves: dict[str, Any], least: float, most: float
) -> None:
    """With every search that it may do, by the dearest model that may answer; without a price, by that of all."""
    held: list[float] = []
    hold = SpendingLedger.hold

    async def note(ledger: SpendingLedger, name: str, amount: float, under: Any) -> bool:
        held.append(amount)
        return await hold(ledger, name, amount, under)

    monkeypatch.setattr(SpendingLedger, "hold", note)
    user.model = model
    await user.lines("one", SPENDING_LIMITS="user: 20/day", **valves)
    assert least <= held[0] < most


async def test_an_own_key_is_under_no_limit(user: User) -> None:
    """What users pay themselves is in their chat's row, and in nobody's account."""
    chosen = settings(user.standin, SPENDING_LIMITS="user: 0/day")
    user.settings = replace(chosen, spending=replace(chosen.spending, own_key=True))
    assert (await user.ask("hi")).error is None
    assert (await user.total(1)).cost > 0
    assert await user.ledger.sums(["user:ada", "all"]) == {}


async def test_near_a_limit_requests_wait_for_each_other(
    user: User, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held by one that runs may be all that is left: the other waits, and then says why it was not sent."""
    limits = "user: 0.2/day"
    under = limits_of("ada", (), read_limits(limits), is_admin=False)
    assert await user.ledger.hold("other", 0.19, under)
    monkeypatch.setattr(bill, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(bill, "WAIT_SECONDS", 0.05)
    await user.ledger.hold("more", 0.05, under)
    waiting, over, refused = await user.lines("one", SPENDING_LIMITS=limits)
    assert waiting.startswith("Waiting for other answers")
    assert (over, refused.startswith("Nothing was sent")) == ("The wait is over.", True)
    monkeypatch.setattr(bill, "WAIT_SECONDS", 60.0)
    tries, hold = list[str](), SpendingLedger.hold

    async def counted(ledger: SpendingLedger, name: str, *given: Any) -> bool:
        tries.append(name)
        return await hold(ledger, name, *given)

    monkeypatch.setattr(SpendingLedger, "hold", counted)
    second = asyncio.create_task(user.lines("two", SPENDING_LIMITS=limits))
    await eventually(lambda: len(tries) > 1)
    user.ledger.release("other", ["user:ada"])
    user.ledger.release("more", ["user:ada"])
    assert (await second)[:2] == [waiting, over]
    assert len(standin.responses) == 1


async def test_two_workers_refuse_together(world: World, standin: StandIn) -> None:
    """Twelve chats at once in two workers on one database: no more than one request goes beyond the limit."""
    limits = {"SPENDING_LIMITS": "user: 0.05/day"}
    async with world.worker() as first, world.worker() as second:
        users = [
            replace(each, chat_id=f"chat-{at}", messages=[]) for at in range(6) for each in (first, second)
        ]
        for _ in range(4):
            await asyncio.gather(*(each.lines(LONG, **limits) for each in users))
        costs = [each.usage["cost"] for each in standin.responses if each.usage]
        assert 0.05 <= sum(costs) < 0.05 + max(costs)
        (line,) = await users[0].lines(LONG, **limits)
        assert "is used up" in line


@pytest.mark.parametrize(
    ("later_seconds", "zone", "text"),
    [
        (0, "Europe/Berlin", "1 December at 01:00"),
        (86_400, "Asia/Tokyo", "tomorrow at 09:00"),
        (129_599, "nowhere", "tomorrow at 00:00 UTC"),
        (129_600, "", "00:00 UTC"),
    ],
)
def test_times_are_those_of_the_user(later_seconds: float, zone: str, text: str) -> None:
    """A day that is neither today nor tomorrow is named; an unknown zone is UTC, marked."""
    assert time_text(datetime(2026, 12, 1, tzinfo=UTC), NOON + later_seconds, zone) == text


# --- how exact the forecast is


@pytest.mark.parametrize("model", [MODEL, CLAUDE])
def test_forecasts_are_exact(model: str) -> None:
    """Within 10 % of the billed input in 95 % of the turns of long chats, with warm and cold caches, with tools too."""
    errors = [*forecast_errors(plain_chat(12), model), *forecast_errors(agent_chat(4), model)]
    assert within_share(errors) >= 0.95
