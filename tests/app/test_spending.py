"""Money in the app: the line about it, the ledger, the question before it is spent, and the limits."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import httpx
import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.money.audit import Bill, ChatSpending
from open_webui_openrouter_pipe.money.limits import Group, limits_of, read_limits
from open_webui_openrouter_pipe.money.prices import Prices, dollars, read_prices
from open_webui_openrouter_pipe.ports import Model, Notice
from open_webui_openrouter_pipe.responses.effects import ResponseFinished, TextDelta, read_usage
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.turn import bill
from open_webui_openrouter_pipe.turn.bill import time_text
from open_webui_openrouter_pipe.turn.channel import OutputChannel
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.words.lines import LANGUAGES, notice
from scripts.benchmarks._chats import agent_chat, plain_chat
from scripts.benchmarks.long_chats import forecast_errors, within_share
from scripts.harness.page import Page, PipeInProcess
from tests.app.chat import MODEL, Broken, Chat, app_on, settings
from tests.support.rows import rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()
LINE = re.compile(r"\$(\d[\d.]*)")
CASES = Path(__file__).with_name("limits.txt")
CLAUDE = "anthropic/claude-sonnet-4.5"
LONG = "word " * 4000
ASKING = {"CONFIRM_ABOVE_DOLLARS": 0.005}
LIMITED = {"SPENDING_LIMITS": "user: 9/day"}


@dataclass
class World:
    """What time it is, and which groups the user is in."""

    seconds: float = NOON
    groups: list[Group] = field(default_factory=list)

    async def groups_of(self, _user_id: str) -> Sequence[Group]:
        return self.groups


@dataclass(slots=True, kw_only=True)
class User(Chat):
    """A user of an app, with one chat, and what it has cost."""

    standin: StandIn
    ledger: SpendingLedger
    world: World

    async def lines(self, text: str, *, ask: Any = None, **valves: Any) -> list[str]:
        """The status lines of an answer, and its error at the end."""
        self.settings, self.asks = settings(self.standin, **valves), ask
        answer = await self.ask(text)
        return [*answer.notices, *([answer.error] if answer.error else [])]

    def in_zone(self, zone: str) -> None:
        """Have the browser name this time zone."""
        self.metadata = {"variables": {"{{CURRENT_TIMEZONE}}": zone}}

    def begin(self, chat_id: str) -> None:
        self.chat_id, self.messages = chat_id, []

    async def settled(self) -> ChatSpending:
        """What the chat has cost, once all that ran beside the answers is over."""
        await self.app.idle()
        await self.app.worker.own.ledger.idle()
        return await self.ledger.of_chat(self.user_id, self.chat_id)

    async def held(self) -> float:
        """What is held for the user's requests."""
        sums = await self.ledger.sums(["user:ada"])
        return sums["user:ada"].held if sums else 0


@pytest.fixture
async def user(tmp_path: Path, standin: StandIn) -> AsyncIterator[User]:
    world = World()
    async with app_on(tmp_path, clock=lambda: world.seconds, groups=world.groups_of) as app:
        ledger = SpendingLedger(app.worker.host.database, clock=lambda: int(world.seconds))
        yield User(app, settings(standin), chat_id="chat-1", standin=standin, ledger=ledger, world=world)


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was to be held for requests, at each try."""
    amounts, hold = list[float](), SpendingLedger.hold

    async def note(ledger: SpendingLedger, estimate: Bill, amount: float, under: Any) -> bool:
        amounts.append(amount)
        return await hold(ledger, estimate, amount, under)

    monkeypatch.setattr(SpendingLedger, "hold", note)
    return amounts


def billed(standin: StandIn) -> float:
    """What the stand-in has billed."""
    return math.fsum(each.usage["cost"] for each in standin.responses if each.usage)


def prices_of(user: User, model_id: str) -> Prices:
    """A model's row of the list, as it was fetched."""
    model = user.app.worker.listing(user.settings.client).find(model_id)
    assert model
    return model.prices


# --- the line and the ledger


async def test_the_last_line_says_what_the_answer_has_cost(user: User, standin: StandIn) -> None:
    """Its price as it was billed; nothing where the line is off."""
    (line,) = await user.lines("one", COST_LINE="cost")
    match = LINE.fullmatch(line)
    assert match
    assert float(match[1]) == pytest.approx(billed(standin), rel=0.05)
    assert await user.lines("two", COST_LINE="off") == []


async def test_the_forecast_says_until_when_the_cache_is_warm(user: User) -> None:
    """By the clock of the user's zone, or in UTC, marked; where it makes no difference, only one price."""
    user.model = CLAUDE
    for chat_id, zone, text, after in (
        ("one", "", LONG, r" \(\$[\d.]+ after 12:05 UTC\)"),
        ("one", "Europe/Berlin", "two", r" \(\$[\d.]+ after 13:05\)"),
        ("two", "Europe/Berlin", "short", ""),
    ):
        if chat_id != user.chat_id:
            user.begin(chat_id)
        user.in_zone(zone)
        (line,) = await user.lines(text, COST_LINE="forecast")
        assert re.fullmatch(rf"\$[\d.]+ · next message from \$[\d.]+{after}", line)


@pytest.mark.parametrize("valves", [UserValves(), UserValves(CONTEXT_AIM="thrifty")])
async def test_rounds_are_one_answer(tmp_path: Path, standin: StandIn, valves: UserValves) -> None:
    """With a tool there are two requests, and one price for both; what was said of the first is not said again."""
    host = PipeInProcess(tmp_path, base_url=standin.base_url, COST_LINE="cost", ENABLE_USER_OVERRIDE=False)
    async with host as pipe:
        page = Page(pipe, MODEL, tools={"get_weather": lambda _: "sunny"}, valves=valves)
        answer = await page.ask("[[standin: call=get_weather]]")
        again = await page.ask("And now?")
    costs = [each.usage["cost"] for each in standin.responses if each.usage]
    (*said, last), (next_line,) = answer.notices, again.notices
    assert [line.endswith("CONTEXT_AIM.") for line in said] == [True] * (valves != UserValves())
    assert (last, next_line) == (dollars(costs[0] + costs[1]), dollars(costs[2]))
    usages = [event["response"]["usage"] for event in answer.events if event.get("response")]
    assert [(each["price"], each["requests"]) for each in usages] == [(dollars(costs[0]), 1), (last, 2)]


async def test_everything_is_in_the_ledger(user: User, standin: StandIn) -> None:
    """Answers, tasks and summaries, with what was read from the cache and what that saved."""
    await user.lines(LONG)
    await user.lines("two")
    await user.title()
    total = await user.settled()
    assert total.cost == pytest.approx(billed(standin))
    usages = [each.usage for each in standin.responses if each.usage]
    assert total.cached_tokens == sum(each["input_tokens_details"]["cached_tokens"] for each in usages) > 0
    assert total.input_cost == pytest.approx(
        sum(each["cost_details"]["upstream_inference_input_cost"] for each in usages)
    )
    assert total.saved == pytest.approx(total.cached_tokens * (1.75 - 0.175) / 1e6, rel=0.01)
    sums = await user.ledger.sums(["user:ada", "all"])
    assert [sums[name].day for name in ("user:ada", "all")] == [pytest.approx(total.cost)] * 2
    user.model = "standin/small"
    for text in ["word " * 900] * 10:
        await user.lines(text)
    assert any(each.is_summary for each in standin.responses)
    assert (await user.settled()).cost == pytest.approx(billed(standin))


async def test_a_command_says_what_a_chat_has_cost(user: User, standin: StandIn) -> None:
    """In all, by day and model, and what of it no answer was; the command itself costs nothing."""
    user.in_zone("Europe/Berlin")
    assert "has cost \\$0 so far (requests: 0)" in (await user.ask("/cost")).text
    for model in (MODEL, MODEL, CLAUDE):
        user.model = model
        await user.lines(LONG)
    await user.title()
    total = await user.settled()
    await user.app.worker.own.ledger.idle()
    text = (await user.ask("/cost")).text
    assert not re.search(r"(?<!\\)\$", text)  # two of them would be a formula
    whole, *listed = filter(None, text.replace("\\$", "$").splitlines())
    assert f"This chat has cost {dollars(total.cost)} so far (requests: 4)." in whole
    *days, others, after = listed
    found = [re.fullmatch(r"- \d+ \w+, (.+): \$([\d.]+) \(requests: (\d)\)", day) for day in days]
    assert {(each[1].replace("\\", ""), each[3]) for each in found if each} == {
        ("OpenAI: GPT-5.2", "2"),
        ("Anthropic: Claude Sonnet 4.5", "1"),
    }
    assert re.fullmatch(r"- titles and the like: \$[\d.]+", others)
    assert re.fullmatch(r"- next message from \$[\d.]+ \(\$[\d.]+ after [\w: ]+\)", after)
    user.language = LANGUAGES["de"]
    assert re.search(
        r"^- \d+\\\. \w+, ", (await user.ask("/cost")).text, re.MULTILINE
    )  # or it would be a list
    user.language = None
    assert len(standin.responses) == 4
    user.begin("temporary:1")
    assert "temporary chat" in (await user.ask("/cost")).text


async def test_an_answer_that_is_stopped_is_billed_by_our_own_count(user: User, standin: StandIn) -> None:
    """Otherwise stopping each answer just before its end would cost nothing; nothing is held any more."""
    user.messages = [{"role": "user", "content": f"{LONG} [[standin: slow=60]]"}]
    async with aclosing(user.app.answer(user.call(), settings(standin, **LIMITED))) as outputs:
        async for output in outputs:
            if isinstance(output, TextDelta):
                break
    total = await user.settled()
    assert total.input_tokens == pytest.approx(4020, rel=0.1)
    assert total.cost > 0.006
    assert await user.held() == 0


async def test_an_answer_that_is_stopped_before_it_begins_costs_its_prompt(
    user: User, standin: StandIn
) -> None:
    """The provider has read it; the audit, which has no guesses, knows nothing of that."""
    answer = asyncio.create_task(user.lines(f"{LONG} [[standin: hang]]", **LIMITED))
    await eventually(lambda: standin.responses)
    answer.cancel()
    await asyncio.wait({answer})
    total = await user.settled()
    assert (total.requests, total.output_tokens, total.cached_tokens) == (1, 0, 0)
    assert total.cost == pytest.approx(total.input_tokens * 1.75e-6)
    assert total.cost > 0.006
    assert await user.held() == 0


@pytest.mark.parametrize("failure", ["error=429 retry_after=9", "error=503"])
async def test_what_is_stopped_between_two_attempts_costs_nothing(
    user: User, standin: StandIn, failure: str
) -> None:
    """Nobody was answering it."""
    answer = asyncio.create_task(user.lines(f"{LONG} [[standin: {failure}]]", **LIMITED, RETRY_SECONDS=60))
    await eventually(lambda: standin.responses and standin.responses[0].finished)
    await asyncio.sleep(0.3)
    answer.cancel()
    await asyncio.wait({answer})
    assert (await user.settled(), await user.held()) == (ChatSpending(), 0)


async def test_what_is_stopped_before_any_provider_was_reached_costs_nothing(
    tmp_path: Path, standin: StandIn
) -> None:
    """It waits for a connection all the time."""
    network = Broken("/responses")
    async with app_on(tmp_path, network) as app:
        chat = Chat(app, settings(standin, RETRY_SECONDS=60), chat_id="chat-1")
        answer = asyncio.create_task(chat.ask(LONG))
        await eventually(lambda: "/responses" in network.asked)
        await asyncio.sleep(0.1)
        answer.cancel()
        await asyncio.wait({answer})
        await app.idle()
        await app.worker.own.ledger.idle()
        assert await app.worker.own.ledger.of_chat("ada", "chat-1") == ChatSpending()


# --- as it is billed


@pytest.mark.parametrize(
    ("model", "text", "later_hours"),
    [
        ("standin/bands", "short", 0),
        ("standin/bands", LONG, 0),
        *(("standin/hours", "short", hours) for hours in (3, 5, 12, 19, 22, 29)),
    ],
)
async def test_the_list_says_what_is_billed(
    user: User, standin: StandIn, model: str, text: str, later_hours: int
) -> None:
    """By the size of the request, and by the hour at which it is sent, whenever the list was fetched."""
    await user.lines("Fetch the list", COST_LINE="off")
    user.world.seconds += later_hours * 3600
    standin.advance(user.world.seconds - standin.now())
    user.begin("chat-2")
    user.model = model
    await user.lines(text)
    (usage,) = [each.usage for each in standin.responses[1:] if each.usage]
    total = await user.settled()
    assert total.cost == pytest.approx(usage["cost"])
    assert total.input_cost == pytest.approx(usage["cost_details"]["upstream_inference_input_cost"], rel=1e-4)
    read = read_usage(usage)
    assert read
    assert prices_of(user, model).cost(read, seconds=user.world.seconds).total == pytest.approx(
        usage["cost"], rel=1e-4
    )


@pytest.mark.parametrize(("model", "fee"), [("standin/own-key", 0.05), ("standin/own-key-without-fee", 0.0)])
async def test_what_a_provider_is_paid_is_said_and_kept_apart(
    user: User, standin: StandIn, model: str, fee: float
) -> None:
    """Where its key is in the OpenRouter account: in the line, in the ledger, and in `/context`."""
    user.model = model
    (line,) = await user.lines(LONG, COST_LINE="cost")
    (usage,) = [each.usage for each in standin.responses if each.usage]
    upstream = usage["cost_details"]["upstream_inference_cost"]
    found = re.fullmatch(r"\$([\d.]+) \+ \$([\d.]+) at your provider", line)
    assert found
    assert [*map(float, found.groups())] == pytest.approx([upstream * fee, upstream], rel=0.05)
    total = await user.settled()
    assert (total.cost, total.provider_cost) == pytest.approx((upstream * fee, upstream))
    sums = (await user.ledger.sums(["user:ada"]))["user:ada"]
    assert (sums.day, sums.provider_day) == pytest.approx((upstream * fee, upstream))
    assert (sums.month, sums.provider_month) == (sums.day, sums.provider_day)
    assert "at your provider so far (requests: 1)" in (await user.ask("/context")).text


async def test_a_summary_that_a_provider_is_paid_for_is_counted(user: User, standin: StandIn) -> None:
    """Where OpenRouter has no fee, too: said by the command, and kept."""
    user.model = "standin/own-key-without-fee"
    user.settings = settings(standin)
    for number in range(12):
        text = f"Question {number} {'word ' * 60}"
        user.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": "word " * 300}]
    answer = await user.ask("/compact")
    assert re.search(r"The summaries cost \\\$0 \+ \\\$[\d.]+ at your provider\.", answer.text)
    upstream = [
        each.usage["cost_details"]["upstream_inference_cost"] for each in standin.responses if each.usage
    ]
    total = await user.settled()
    assert total.cost == 0
    assert total.provider_cost == pytest.approx(sum(upstream))
    assert total.provider_cost > 0


@pytest.mark.parametrize(("counts", "sent"), [("both", False), ("openrouter", True)])
async def test_a_limit_counts_what_the_valve_says(
    user: User, standin: StandIn, counts: str, *, sent: bool
) -> None:
    """What providers are paid, too, or OpenRouter alone; each for today and for the month."""
    for period in ("day", "month"):
        user.ledger.write(
            Bill(id=period, user_id="ada", chat_id="o", accounts=("user:ada",), cost=0.1, provider_cost=1.95)
        )
        await user.ledger.idle()
        (*said,) = await user.lines("one", SPENDING_LIMITS=f"user: 2/{period}", LIMITS_COUNT=counts)
        assert [line.startswith("Your spending limit of $2.00") for line in said] == [True] * (not sent)
        await user.settled()
        user.world.seconds += 86_400
    assert len(standin.responses) == (2 if sent else 0)


@pytest.mark.parametrize(
    ("model", "valves", "tokens"),
    rows(CASES, "a model | valves => how long the answer may be, null for any length"),
)
async def test_under_a_limit_what_is_held_for_an_answer_is_the_most_that_it_can_be(
    user: User, standin: StandIn, tries: list[float], model: str, valves: dict[str, Any], tokens: int | None
) -> None:
    """As long as the model can write and the window has room, and so long that it costs a tenth of the limit."""
    user.model = model
    await user.lines("one", **valves)
    await user.lines(f"two {LONG}", **valves)
    assert [each.body.get("max_output_tokens") for each in standin.responses] == [tokens] * 2
    if tokens:
        assert tries[0] == pytest.approx(tokens * (prices_of(user, model).output or 0) * 1.05, rel=0.05)


@pytest.mark.parametrize(
    "failure",
    [
        "error=400",
        *(
            f"fail={kind} after=0 code=400 type=invalid_request"
            for kind in ("failed", "response.error", "nested", "flat")
        ),
    ],
)
async def test_a_request_that_fails_at_once_costs_nothing(user: User, failure: str) -> None:
    """Whether its stream has begun or not; and what was held for it is given back."""
    lines = await user.lines(f"[[standin: {failure}]]", **LIMITED, COST_LINE="cost")
    assert len(lines) == 1
    assert (await user.settled(), await user.held()) == (ChatSpending(), 0)


class Saying(httpx.AsyncHTTPTransport):
    """The network to a service that ends each answer like this, and lists a free variant of a model that costs."""

    def __init__(self, end: dict[str, Any]) -> None:
        super().__init__()
        self.end = {"id": "gen-1", "output": [], **end}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            event = {"type": f"response.{self.end['status']}", "response": self.end}
            return httpx.Response(200, text=f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")
        answer = await super().handle_async_request(request)
        if "/v1/models" not in request.url.path:
            return answer
        listed = json.loads(await answer.aread())["data"]
        paid = next(row for row in listed if row["id"] == MODEL)
        free = {**paid, "id": f"{MODEL}:free", "pricing": {"prompt": "0", "completion": "0"}}
        return httpx.Response(200, json={"data": [*listed, free]})


@pytest.mark.parametrize(
    ("end", "is_paid"),
    [
        ({"status": "completed", "model": f"{MODEL}:free", "usage": {"input_tokens": 5000}}, False),
        ({"status": "completed", "model": MODEL, "usage": {"input_tokens": 5000}}, True),
        ({"status": "failed", "model": MODEL, "usage": {"input_tokens": 5000, "cost": 0}}, False),
        ({"status": "failed", "model": MODEL, "usage": {"input_tokens": 5000, "cost": 0.01}}, True),
    ],
)
async def test_without_a_bill_the_model_that_has_answered_counts_and_a_failure_costs_what_is_billed(
    tmp_path: Path, standin: StandIn, end: dict[str, Any], *, is_paid: bool
) -> None:
    """Asked is a free variant, in whose place the model that costs may answer."""
    async with app_on(tmp_path, Saying(end)) as app:
        chat = Chat(app, settings(standin, RETRY_SECONDS=0), chat_id="chat-1", model=f"{MODEL}:free")
        for _ in range(2):  # from the second on the list is known
            await chat.ask("Hello")
            await app.idle()
        await app.worker.own.ledger.idle()
        total = await app.worker.own.ledger.of_chat("ada", "chat-1")
    assert (total.cost > 0) is is_paid


# --- the question


async def test_an_expensive_message_is_asked_about(user: User, standin: StandIn) -> None:
    """A yes sends it; below the threshold, and where nobody can be asked, nothing is asked."""
    yes, absent = AsyncMock(return_value=True), AsyncMock(return_value=None)
    assert await user.lines(f'{LONG} [[standin: text="Read."]]', ask=yes, **ASKING) == []
    title, text = yes.call_args.args
    assert re.fullmatch(r"Send this for about \$0\.00[67]\d?\?", title)
    assert re.match(
        r"The model reads about [34],\d\d0 tokens for this message, 0 of them from the provider's", text
    )
    await user.lines("cheap by now", ask=yes, **ASKING)
    user.begin("chat-2")
    await user.lines(LONG, ask=absent, **ASKING)
    await user.lines(LONG, **ASKING)
    assert (yes.call_count, absent.call_count, len(standin.responses)) == (1, 1, 4)


async def think(_title: str, _text: str) -> bool | None:
    """Never answer."""
    await asyncio.Event().wait()
    return True


@pytest.mark.parametrize("no", [AsyncMock(return_value=False), think])
async def test_a_no_costs_nothing(
    user: User, standin: StandIn, monkeypatch: pytest.MonkeyPatch, no: Any
) -> None:
    """Nor does a question left open. Neither message nor title is sent; the next message is another matter."""
    monkeypatch.setattr(bill, "ANSWER_SECONDS", 0.01 if no is think else bill.ANSWER_SECONDS)
    (line,) = await user.lines(LONG, ask=no, **ASKING, **LIMITED)
    assert re.fullmatch(r"Not sent: you did not agree to about \$0\.00[67]\d?\. Nothing was charged\.", line)
    await user.title()
    assert standin.responses == []
    assert await user.ledger.sums(["user:ada"]) == {}
    user.messages.clear()
    assert await user.lines("short", ask=no, **ASKING) == []
    await user.title()
    assert len(standin.responses) == 2


async def test_what_is_held_after_the_user_has_left_is_released(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is slow holds it only then."""
    asked, may_hold = asyncio.Event(), asyncio.Event()
    hold, holds = SpendingLedger.hold, list[tuple[SpendingLedger, float]]()

    async def hold_late(ledger: SpendingLedger, *given: Any) -> bool:
        asked.set()
        await may_hold.wait()
        found = await hold(ledger, *given)
        holds.append((ledger, await user.held()))
        return found

    monkeypatch.setattr(SpendingLedger, "hold", hold_late)
    answer = asyncio.create_task(user.lines("one", **LIMITED))
    await asked.wait()
    answer.cancel()
    await asyncio.wait({answer})
    may_hold.set()
    await eventually(lambda: holds)
    ((ledger, held),) = holds
    await asyncio.sleep(0)
    await ledger.idle()
    assert (held > 0, await user.held()) == (True, 0)


async def test_giving_up_a_warm_cache_is_asked_about(user: User, standin: StandIn) -> None:
    """A switch of model that costs more than the threshold, as long as the other model has the chat in its cache."""
    yes = AsyncMock(return_value=True)
    await user.lines(f'{LONG} [[standin: text="Read."]]')
    user.model = CLAUDE
    await user.lines("switched", ask=yes, CONFIRM_ABOVE_DOLLARS=0.012)
    title, text = yes.call_args.args
    assert title.startswith("Send this for about $0.01")
    assert f"{MODEL} still has this chat in its cache" in text
    await user.lines("again", ask=yes, CONFIRM_ABOVE_DOLLARS=0.012)
    user.world.seconds += 301
    user.model = "openai/gpt-5.6-sol"
    await user.lines("both are cold", ask=yes, CONFIRM_ABOVE_DOLLARS=0.02)
    assert (yes.call_count, len(standin.responses)) == (1, 4)


# --- the limits


@pytest.mark.parametrize(
    ("spent", "role", "valves", "line", "sent"),
    rows(
        CASES,
        "what accounts have spent | role | valves => what the line begins with"
        " | service tier and provider of what is sent",
    ),
)
async def test_limits_are_kept_and_said_once(
    user: User,
    standin: StandIn,
    caplog: pytest.LogCaptureFixture,
    *,
    spent: dict[str, float],
    role: str,
    valves: Any,
    line: str,
    sent: Any,
) -> None:
    """At one nothing is sent, and a task gets nothing; near it there may be a cheaper path. Later all goes on."""
    caplog.set_level(logging.INFO)
    user.world.groups, user.role = [Group("g1", "Students")], role
    user.in_zone("Europe/Berlin")
    for account, amount in spent.items():
        user.ledger.write(Bill(id=account, user_id="eve", chat_id="other", accounts=(account,), cost=amount))
    await user.ledger.idle()
    lines = await user.lines("one", **valves)
    assert [each.startswith(line) for each in lines] == [True] * bool(line)
    bodies = [each.body for each in standin.responses]
    assert [[body.get("service_tier"), body.get("provider")] for body in bodies] == ([sent] if sent else [])
    if sent:
        await user.settled()  # what is held until then may be all that is left
    else:
        assert [type(each) for each in await user.title()] == [ResponseFinished]
        assert standin.responses == []
        assert [each.levelname for each in caplog.records if "limit" in each.message] == ["INFO"]
        user.world.seconds += 3 * 86_400
        user.messages.clear()
    assert await user.lines("two", **valves) == []


async def test_who_is_near_a_limit_is_told_so_once_in_each_period(user: User) -> None:
    """Also where the line has the same words as the day before."""
    user.in_zone("Europe/Berlin")
    user.world.seconds += 14 * 3_600
    valves = {"SPENDING_LIMITS": "user: 2/day", "TIME_ZONE": "America/New_York"}
    for day in ("one", "two"):
        user.ledger.write(Bill(id=day, user_id="eve", chat_id="other", accounts=("user:ada",), cost=1.7))
        await user.ledger.idle()
        (line,) = await user.lines(f"{day}, first", **valves)
        assert line.startswith("Your spending limit of $2.00 a day is nearly used up, until 06:00:")
        await user.settled()
        assert await user.lines(f"{day}, second", **valves) == []
        await user.settled()
        user.world.seconds += 86_400


@pytest.mark.parametrize("wrong", ["a valve", "the database", "the groups"])
async def test_limits_that_are_not_known_let_no_user_chat(user: User, standin: StandIn, wrong: str) -> None:
    """Rather than let them spend without; where nothing that is missing is needed, all goes on."""

    async def fail(user_id: str) -> Sequence[Group]:
        raise StoreUnavailable("The groups of a user cannot be read.", detail=user_id)

    limits, said, others = "user: 2/day", ["cannot be checked"], ""
    if wrong == "a valve":
        limits = others = "user: 2/week"
        said = ["SPENDING_LIMITS", "user: 2/week"]
    elif wrong == "the database":
        await user.ledger._database.change(sa.text("DROP TABLE openrouter_pipe_spending"))
    else:
        user.app.worker.spending = replace(user.app.worker.spending, groups=fail)
        limits, others = "each of Students: 2/day", limits
    (line,) = await user.lines("one", SPENDING_LIMITS=limits)
    assert ([part in line for part in said], standin.responses) == ([True] * len(said), [])
    user.role = "admin" if wrong == "a valve" else "user"
    assert await user.lines("two", SPENDING_LIMITS=others) == []
    assert len(standin.responses) == 1


@pytest.mark.parametrize(
    ("model", "valves", "least", "most"),
    rows(CASES, "a model | valves => the least and the most that is held for a request"),
)
async def test_what_is_held_is_the_most_that_a_request_may_cost(
    user: User, tries: list[float], model: str, valves: dict[str, Any], least: float, most: float
) -> None:
    """With every search that it may do, by the dearest model that may answer; without a price, by that of all."""
    user.model = model
    await user.lines("one", SPENDING_LIMITS="user: 20/day", **valves)
    assert least <= tries[0] < most


@pytest.mark.parametrize(
    ("pricing", "kinds", "least", "most"),
    rows(
        CASES,
        "prices of a model | kinds of the parts that are sent"
        " => the least and the most that is held for 1,000 tokens",
    ),
)
def test_what_is_held_counts_pictures_and_speech(
    pricing: dict[str, str], kinds: list[str], least: float, most: float
) -> None:
    """At their dearest, each picture by itself where it has a price of its own."""
    ceiling = bill.CostCeiling([Model("a/m", "M", prices=read_prices(pricing))])
    body = {"input": [{"content": [{"type": kind}]} for kind in kinds]}
    assert least <= ceiling.highest_cost(body, 1_000, seconds=NOON) < most


async def test_an_own_key_is_under_no_limit(user: User) -> None:
    """What users pay themselves is in their chat's row, and in nobody's account."""
    chosen = settings(user.standin, SPENDING_LIMITS="user: 0/day")
    user.settings = replace(chosen, spending=replace(chosen.spending, own_key=True))
    assert (await user.ask("hi")).error is None
    assert (await user.settled()).cost > 0
    assert await user.ledger.sums(["user:ada", "all"]) == {}


async def test_near_a_limit_requests_wait_for_each_other(
    user: User, standin: StandIn, monkeypatch: pytest.MonkeyPatch, tries: list[float]
) -> None:
    """What is held by one that runs may be all that is left: the other waits, and then says why it was not sent."""
    limits = "user: 0.2/day"
    under = limits_of("ada", (), read_limits(limits), is_admin=False)
    monkeypatch.setattr(bill, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(bill, "WAIT_SECONDS", 0.05)
    for name, amount in (("other", 0.19), ("more", 0.05)):
        await user.ledger.hold(Bill(id=name), amount, under)
    waiting, over, refused = await user.lines("one", SPENDING_LIMITS=limits)
    assert waiting.startswith("Waiting for other answers")
    assert (over, refused.startswith("Nothing was sent")) == ("The wait is over.", True)
    monkeypatch.setattr(bill, "WAIT_SECONDS", 60.0)
    tries.clear()
    second = asyncio.create_task(user.lines("two", SPENDING_LIMITS=limits))
    await eventually(lambda: len(tries) > 1)
    for name in ("other", "more"):
        user.ledger.release(Bill(id=name))
    assert (await second)[:2] == [waiting, over]
    assert len(standin.responses) == 1


async def test_who_leaves_when_the_wait_is_over_holds_nothing(
    user: User, monkeypatch: pytest.MonkeyPatch, tries: list[float]
) -> None:
    """What nobody ends would be renewed as long as the worker lives."""
    limits = "user: 0.2/day"
    under = limits_of("ada", (), read_limits(limits), is_admin=False)
    monkeypatch.setattr(bill, "_POLL_SECONDS", 0.01)
    for name, amount in (("other", 0.19), ("more", 0.05)):
        await user.ledger.hold(Bill(id=name), amount, under)
    put = OutputChannel.put

    async def stalled(channel: OutputChannel, output: Any) -> None:
        if isinstance(output, Notice) and output.text == notice("place_found"):
            await asyncio.Event().wait()
        await put(channel, output)

    monkeypatch.setattr(OutputChannel, "put", stalled)
    waiting = asyncio.create_task(user.lines("one", SPENDING_LIMITS=limits))
    await eventually(lambda: bool(tries))
    for name in ("other", "more"):
        user.ledger.release(Bill(id=name))
    ledger = user.app.worker.own.ledger
    await eventually(lambda: bool(ledger._held))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await ledger.idle()
    await user.ledger.idle()
    assert not ledger._held
    assert await user.held() == 0


@pytest.mark.parametrize(
    ("later_seconds", "zone", "text"),
    rows(CASES, "seconds after noon | a time zone => what the beginning of December is called"),
)
def test_times_are_those_of_the_user(later_seconds: float, zone: str, text: str) -> None:
    """A day that is not today is named; an unknown zone is UTC, marked."""
    assert time_text(datetime(2026, 12, 1, tzinfo=UTC), NOON + later_seconds, zone) == text


# --- how exact the forecast is


@pytest.mark.parametrize("model", [MODEL, CLAUDE])
def test_forecasts_are_exact(model: str) -> None:
    """Within 10 % of the billed input in 95 % of the turns of long chats, with warm and cold caches, with tools too."""
    errors = [*forecast_errors(plain_chat(12), model), *forecast_errors(agent_chat(4), model)]
    assert within_share(errors) >= 0.95
