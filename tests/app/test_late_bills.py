"""Bills of requests that were stopped, cut, or sent again: an estimate first, and what the stand-in billed later."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from open_webui_openrouter_pipe.conversation.masking import Secret
from tests.app.chat import Chat, app_on, settings
from tests.support.audited import audited
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.app import App
    from open_webui_openrouter_pipe.money.audit import Bill
    from scripts.standin import StandIn
    from scripts.standin.state import RecordedRequest

pytestmark = pytest.mark.anyio

LATE = "[[standin: reasoning=encrypted]] [[standin: deltas=300 ]] [[standin: delay=0.02]]"
NEVER = "[[standin: delay=0 first=600]]"
NO_COST = "[[standin: deltas=9]] [[standin: fail=eof after=5]]"
GOOGLE = "google/gemini-3-pro"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with app_on(tmp_path) as app:
        app.worker.own.late_bills.waits_seconds = (0.05,) * 1000
        yield app


async def rows_of(app: App) -> list[Bill]:
    """What the audit has of requests, the oldest first, once it is written."""
    await app.worker.own.ledger.idle()
    return [row for row in await audited(app.worker.host.database) if row.purpose != "failure"][::-1]


async def stop(chat: Chat, standin: StandIn, text: str) -> None:
    """Ask, and leave once the stand-in has begun to answer."""
    asking = asyncio.create_task(chat.ask(text))
    await eventually(lambda: bool(standin.responses and standin.responses[-1].status))
    await asyncio.sleep(0.1)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await eventually(lambda: standin.responses[-1].ended_at is not None)


@pytest.mark.parametrize("text", [LATE, NEVER, NO_COST])
@pytest.mark.parametrize("model", ["openai/gpt-5.2", GOOGLE, "standin/own-key"])
@pytest.mark.parametrize("limits", ["", "user: 9/day"])
async def test_an_estimate_is_replaced_by_the_bill(
    app: App, standin: StandIn, model: str, text: str, limits: str
) -> None:
    """Stopped in the middle, before the first word, or cut by the provider: first an estimate, then to the cent."""
    chat = Chat(app, settings(standin, SPENDING_LIMITS=limits), model=model)
    if text == NO_COST:
        await chat.ask(text)
    else:
        await stop(chat, standin, text)
    (estimate,) = await rows_of(app)
    assert (estimate.estimated, estimate.generation) == (True, *standin.bills)
    assert estimate.cost + estimate.provider_cost > 0
    standin.advance(60)
    while (true := (await rows_of(app))[0]).estimated:  # noqa: ASYNC110 - what is awaited knows no event
        await asyncio.sleep(0.05)
    assert len(await rows_of(app)) == 1
    (bill,) = standin.bills.values()
    assert (true.id, true.generation, true.estimated) == (estimate.id, bill["id"], False)
    paid = (bill["total_cost"], bill["upstream_inference_cost"])
    assert (true.cost, true.provider_cost) == pytest.approx(paid)
    assert true.output_tokens == bill["native_tokens_completion"]
    spent = await app.worker.own.ledger.of_chat("ada", chat.chat_id)
    assert spent.requests == 1
    assert spent.cost == pytest.approx(true.cost)


@pytest.mark.parametrize("summarizer", [LATE, NO_COST], ids=["left", "cut"])
async def test_the_estimate_of_a_summary_is_replaced_by_its_bill(
    app: App, byte_standin: StandIn, summarizer: str
) -> None:
    """Its user has left, or the provider has cut it: by its id, OpenRouter tells what was written until then."""
    standin = byte_standin
    standin.summarizer = summarizer
    valves = {"SUMMARY_AHEAD_RATIO": 1.0, "SPENDING_LIMITS": "user: 90/day"}
    chat = Chat(app, settings(standin, **valves), model="standin/small").grow(60)
    if summarizer == LATE:
        await stop(chat, standin, "Go on.")
    else:
        await chat.ask("Go on.")
    rows = [row for row in await rows_of(app) if row.purpose == "summary"]
    named = [row.generation for row in rows if row.estimated]
    assert set(named) <= standin.bills.keys()
    assert named
    standin.advance(60)
    while any(row.estimated for row in rows):
        await asyncio.sleep(0.05)
        rows = [row for row in await rows_of(app) if row.purpose == "summary"]
    assert {row.generation for row in rows} == {*named}
    for row in rows:
        bill = standin.bills[row.generation]
        assert row.cost == pytest.approx(bill["total_cost"])
        assert row.output_tokens == bill["native_tokens_completion"]


class Cutting(httpx.AsyncHTTPTransport):
    """The network, on which the first answer is cut right behind its headers."""

    was_cut = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.method == "GET" or self.was_cut:
            return response
        self.was_cut = True
        await response.aclose()
        return httpx.Response(200, headers=response.headers, stream=Cut())


class Cut(httpx.AsyncByteStream):
    """Bytes that do not come."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for error in (httpx.ReadError("cut"),):
            raise error
        yield b""


async def test_an_attempt_that_nothing_came_of_has_a_row_once_it_was_billed(
    tmp_path: Path, standin: StandIn
) -> None:
    """The answer that is asked for again has its own; together they are what the stand-in has billed."""
    async with app_on(tmp_path, Cutting()) as app:
        app.worker.own.late_bills.waits_seconds = (0.05,) * 1000
        chat = Chat(app, settings(standin))
        await chat.ask("[[standin: deltas=5]] [[standin: delay=0 first=0.5]]")
        assert len(await rows_of(app)) == 1
        standin.advance(60)
        while len(rows := await rows_of(app)) < 2:  # noqa: ASYNC110 - what is awaited knows no event
            await asyncio.sleep(0.05)
        costs = {row.generation: row.cost for row in rows}
        assert costs == {name: pytest.approx(bill["total_cost"]) for name, bill in standin.bills.items()}
        assert not any(row.estimated for row in rows)
        assert (await app.worker.own.ledger.of_chat("ada", chat.chat_id)).requests == 2


async def test_an_attempt_that_has_cost_nothing_is_no_request(tmp_path: Path, standin: StandIn) -> None:
    """OpenRouter tells of it all the same."""
    async with app_on(tmp_path, Cutting()) as app:
        app.worker.own.late_bills.waits_seconds = (0.05,) * 1000
        chat = Chat(app, settings(standin))
        await chat.ask("[[standin: deltas=5]] [[standin: delay=0 first=0.5]]")
        nothing = dict.fromkeys(("total_cost", "native_tokens_prompt", "native_tokens_completion"), 0)
        await eventually(lambda: len(standin.bills) == 2)
        cut, _ = standin.bills.values()
        cut |= {**nothing, "is_byok": False}
        standin.advance(60)
        await eventually(lambda: not app.worker.own.late_bills._timers)
        await app.idle()
        assert len(await rows_of(app)) == 1


async def test_an_answer_with_its_bill_is_not_asked_for(app: App, standin: StandIn) -> None:
    """Nor one that nobody began."""
    chat = Chat(app, settings(standin))
    await chat.ask("Hi")
    standin.script("error=503", times=9)
    await chat.ask("Hi")
    await asyncio.sleep(0.2)
    (row, *_) = await rows_of(app)
    assert (row.estimated, row.generation) == (False, *standin.bills)
    assert "/generation" not in {each.path for each in standin.requests}


async def test_what_is_not_told_stays_an_estimate(app: App, standin: StandIn) -> None:
    """It is asked for as often as is said, with the key that paid."""
    app.worker.own.late_bills.waits_seconds = (0.05, 0.05)
    used = settings(standin)
    own_key = replace(used.controls, own_api_key=Secret("sk-or-own"))
    chat = Chat(app, replace(used, controls=own_key))
    await stop(chat, standin, LATE)

    def asked() -> list[RecordedRequest]:
        return [each for each in standin.requests if each.path == "/generation"]

    await eventually(lambda: len(asked()) == 2)
    await asyncio.sleep(0.2)
    assert [each.account for each in asked()] == [standin.responses[0].account] * 2
    (row,) = await rows_of(app)
    assert row.estimated
