"""How exact the forecast of a request's price is: the input as it was expected before it was sent, against its bill.

Whole chats through the pipe and the stand-in, with pauses in which its cache stays warm or gets cold, turn by turn.
Goal: within 10 % of the billed input cost in 95 % of the turns.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from open_webui_openrouter_pipe.ports import ChatSpending
from open_webui_openrouter_pipe.store.ledger import SpendingLedger
from open_webui_openrouter_pipe.turn.bill import Spending
from scripts.benchmarks._chats import agent_chat, plain_chat
from scripts.benchmarks._stage import Actor, page_of
from scripts.harness.page import PipeInProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.turn.round import Answer
    from scripts.benchmarks._chats import Chat
    from scripts.harness.page import Page

EXACT_SHARE: Final = 0.1
PAUSES_SECONDS: Final = (20.0, 60.0, 120.0, 400.0)
MODELS: Final = (
    "openai/gpt-5.2",
    "openai/gpt-5.6-sol",
    "anthropic/claude-sonnet-4.5",
    "google/gemini-3-flash",
    "deepseek/deepseek-v3.2",
    "mistralai/mistral-large-2512",
)
PLAIN_TURNS: Final = 20
AGENT_TURNS: Final = 8
"""Of four requests each."""


def run() -> dict[str, Any]:
    """The share of turns within 10 %, and the largest error, by chat and model."""
    chats = {"plain": plain_chat(PLAIN_TURNS), "agent": agent_chat(AGENT_TURNS)}
    errors = {
        f"{name} {model}": forecast_errors(chat, model) for name, chat in chats.items() for model in MODELS
    }
    everything = [error for found in errors.values() for error in found]
    shown = {
        name: {"within_share": within_share(found), "largest_error": round(max(map(abs, found)), 3)}
        for name, found in errors.items()
    }
    return {"all": {"within_share": within_share(everything), "turns": len(everything)}, **shown}


def within_share(errors: list[float]) -> float:
    """The share of turns whose forecast was exact enough."""
    return round(sum(abs(error) <= EXACT_SHARE for error in errors) / len(errors), 3)


@contextmanager
def noted_forecasts() -> Iterator[list[float]]:
    """What the input of each request was expected to cost before it was sent, in dollars."""
    found, close = list[float](), Spending.close

    def note(spending: Spending, plan: Plan, answer: Answer) -> Bill:
        found.append(spending.expected_cost)
        return close(spending, plan, answer)

    with patch.object(Spending, "close", note):
        yield found


def forecast_errors(chat: Chat, model: str) -> list[float]:
    """By how much the input of each turn was expected to cost more or less than it did, as a share of that."""
    return asyncio.run(_play(chat, model))


async def _play(chat: Chat, model: str) -> list[float]:
    rand, paused_seconds = random.Random(model), [0.0]  # noqa: S311 - a seeded simulation
    errors, before = list[float](), ChatSpending()
    with tempfile.TemporaryDirectory() as folder, Actor(chat) as actor, noted_forecasts() as forecasts:
        host = PipeInProcess(
            Path(folder), base_url=actor.base_url, clock=lambda: time.time() + sum(paused_seconds)
        )
        async with host as pipe:
            database = host.open_database()
            ledger = SpendingLedger(database)
            page = page_of(chat, pipe, model)
            for number, turn in enumerate(chat.turns):
                actor.turn(number)
                await page.ask(turn.text)
                so_far = await _billed(ledger, page, requests=len(actor.responses))
                cost = so_far.input_cost - before.input_cost
                errors.append(sum(forecasts) / cost - 1)
                forecasts.clear()
                before, pause = so_far, rand.choice(PAUSES_SECONDS)
                paused_seconds.append(pause)
                actor.advance(pause)
            await database.aclose()
    return errors


async def _billed(ledger: SpendingLedger, page: Page, *, requests: int) -> ChatSpending:
    """What the chat has cost, once so many requests are in the ledger."""
    while (  # noqa: ASYNC110 - written by a task that is the pipe's own
        so_far := await ledger.of_chat(page.user_id, page.chat_id)
    ).requests < requests:
        await asyncio.sleep(0.01)
    return so_far


BENCHMARKS = {"prices": run}
