"""What long chats cost in the pipe, and how exact a forecast of that is.

Each chat is held with a stand-in whose model says the chat's own lines; its texts are always the same.

`compaction`: the agent's chat of the context benchmark (80 turns of four requests, with a tool) and a plain one (240
turns, no tools), in a window of 128,000 tokens, with either aim. All requests are billed by the stand-in, 20 seconds
apart, those for summaries included, with what they say. What the answers say costs the same everywhere and is omitted.
Costs are thousands of base-token equivalents: dollars divided by the plain input price.

`prices`: the input of each turn as it was expected to cost before it was sent, against its bill, with pauses in which
the cache stays warm or gets cold. Goal: within 10 % in 95 % of the turns.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from open_webui_openrouter_pipe.turn.bill import Spending
from scripts.benchmarks._chats import TOOL, Chat, agent_chat, plain_chat
from scripts.benchmarks.context import SECONDS_BETWEEN_REQUESTS
from scripts.harness.page import Page, PipeInProcess
from scripts.standin import StandIn, catalogue
from scripts.standin.summaries import FIELDS, instruction

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.turn.round import Answer
    from scripts.standin.state import RecordedRequest

Json = dict[str, Any]
Amounts = dict[str, float]

MARKETS = {
    "anthropic": "anthropic/claude-sonnet-128k",
    "openai": "openai/gpt-4o",
    "deepseek": "deepseek/deepseek-chat-v3.1",
    "no_cache": "mistralai/mistral-large-2411",
}
AGENT_TURNS = 80
PLAIN_TURNS = 240
AIMS = ("faithful", "thrifty")
WORKERS = 2

SUMMARY_WORDS = 780
"""What one summary says: about 790 tokens."""
MANY_ROUNDS = 1_000_000
"""A call stands in each line that says so, however many calls the request holds."""


# --- the model -----------------------------------------------------------------------------------------------


class Actor(StandIn):
    """A stand-in whose model says a chat's lines, whatever the request holds, and sums up when asked to."""

    def __init__(self, chat: Chat, seconds_between: float) -> None:
        super().__init__(orders=self._orders)
        self._chat, self._seconds_between = chat, seconds_between
        self._lines: Iterator[str] = iter(())
        self._rand = random.Random(7)  # noqa: S311 - a seeded simulation

    def turn(self, number: int) -> None:
        """The next requests belong to this turn."""
        turn = self._chat.turns[number]
        queries = (json.dumps({"query": f"select {number} {at}"}) for at in range(len(turn.outputs)))
        calls = [
            f"[[standin: call={TOOL} args={each}]] [[standin: rounds={MANY_ROUNDS}]]" for each in queries
        ]
        self._lines = iter([*calls, f"text={json.dumps(turn.answer)}"])

    def finished(self) -> list[RecordedRequest]:
        """The requests that have come to their end, once the turn is over; they are forgotten.

        Raises:
            ValueError: Not all lines were said, so the host took another way.
        """
        left = list(self._lines)
        failed = [record.error for record in self.responses if record.error]
        if left or failed:
            raise ValueError(f"{len(left)} lines were not said; errors: {failed}")
        found = [record for record in self.responses if record.usage]
        for record in found:
            self.log.remove(record)
        return found

    def _orders(self, body: Json) -> str:
        self.advance(self._seconds_between)
        if not instruction(body):
            return next(self._lines)
        text = " ".join(self._rand.choices(self._chat.system.split(), k=SUMMARY_WORDS))
        fields = {FIELDS[0]: text, **{name: [] for name in FIELDS[1:]}}
        return f"text={json.dumps(json.dumps(fields))}"


def piped(chat: Chat, model_id: str, **valves: Any) -> list[RecordedRequest]:
    """The requests of a chat through the pipe in this process; prices, and so its decisions, are the model's."""

    async def play() -> list[RecordedRequest]:
        turns = _turns(chat, model_id, seconds_between=SECONDS_BETWEEN_REQUESTS, **valves)
        return [record async for actor in turns for record in actor.finished()]

    return asyncio.run(play())


async def _turns(
    chat: Chat,
    model_id: str,
    *,
    clock: Callable[[], float] = time.time,
    seconds_between: float = 0.0,
    **valves: Any,
) -> AsyncGenerator[Actor]:
    """The actor after each turn, and after what the pipe does while the user reads."""
    outputs = chat.outputs()
    tools = {TOOL: lambda given: outputs[given["query"]]} if outputs else {}
    with tempfile.TemporaryDirectory() as folder, Actor(chat, seconds_between) as actor:
        host = PipeInProcess(Path(folder), base_url=actor.base_url, clock=clock, **valves)
        async with host as pipe:
            page = Page(pipe, model_id, tools=tools)
            page.system = chat.system
            for number, turn in enumerate(chat.turns):
                actor.turn(number)
                await page.ask(turn.text)
                await host.app.idle()
                yield actor


# --- bills ---------------------------------------------------------------------------------------------------


def measure_compaction() -> dict[str, Any]:
    """Hold both chats in every way, and return the amounts by chat, way and market."""
    return {
        "agent_80_turns": costs(agent_chat(AGENT_TURNS)),
        "plain_240_turns": costs(plain_chat(PLAIN_TURNS)),
    }


def costs(chat: Chat) -> dict[str, dict[str, Amounts]]:
    """The amounts by aim and market; prices decide what the pipe does, so each market has a chat of its own."""
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        jobs = {aim: {name: pool.submit(_own, chat, name, aim) for name in MARKETS} for aim in AIMS}
        return {aim: {name: job.result() for name, job in of_aim.items()} for aim, of_aim in jobs.items()}


def _own(chat: Chat, market: str, aim: str) -> Amounts:
    return billed(piped(chat, MARKETS[market], CONTEXT_AIM=aim), MARKETS[market])


def billed(requests: Sequence[RecordedRequest], model_id: str) -> Amounts:
    """What requests to a model cost, in thousands of base tokens, dollars, tokens and requests."""
    kilotoken = 1000 * float(catalogue.BY_ID[model_id].cached.prices.prompt)
    answers, summaries = (
        [record.usage or {} for record in requests if record.is_summary is is_summary]
        for is_summary in (False, True)
    )
    summaries_cost = sum(usage["cost"] for usage in summaries)
    cost = summaries_cost + sum(usage["cost_details"]["upstream_inference_input_cost"] for usage in answers)
    tokens = [usage["input_tokens"] for usage in answers]
    return {
        "cost_kilotokens": round(cost / kilotoken),
        "of_which_summaries": round(summaries_cost / kilotoken),
        "dollars": round(cost, 3),
        "summaries": len(summaries),
        "answers": len(answers),
        "average_context_tokens": round(statistics.mean(tokens)),
        "largest_context_tokens": max(tokens),
        "cached_share": round(
            sum(usage["input_tokens_details"]["cached_tokens"] for usage in answers) / sum(tokens), 3
        ),
    }


# --- forecasts -----------------------------------------------------------------------------------------------

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
FORECAST_PLAIN_TURNS: Final = 20
FORECAST_AGENT_TURNS: Final = 8
"""Of four requests each."""


def measure_prices() -> dict[str, float]:
    """The share of turns within 10 %, by model."""
    chats = (plain_chat(FORECAST_PLAIN_TURNS), agent_chat(FORECAST_AGENT_TURNS))
    return {
        model: within_share([error for chat in chats for error in forecast_errors(chat, model)])
        for model in MODELS
    }


def within_share(errors: list[float]) -> float:
    """The share of turns whose forecast was exact enough."""
    return round(sum(abs(error) <= EXACT_SHARE for error in errors) / len(errors), 3)


@contextmanager
def noted_forecasts() -> Iterator[list[float]]:
    """What the input of each request was expected to cost before it was sent, in dollars."""
    found, close = list[float](), Spending.close

    def note(spending: Spending, plan: Plan, answer: Answer) -> None:
        found.append(spending.sent.input_cost)
        close(spending, plan, answer)

    with patch.object(Spending, "close", note):
        yield found


def forecast_errors(chat: Chat, model: str) -> list[float]:
    """By how much the input of each turn was expected to cost more or less than it did, as a share of that."""
    return asyncio.run(_forecast_errors(chat, model))


async def _forecast_errors(chat: Chat, model: str) -> list[float]:
    rand, paused_seconds, errors = random.Random(model), [0.0], list[float]()  # noqa: S311 - a seeded simulation
    with noted_forecasts() as forecasts:
        async for actor in _turns(chat, model, clock=lambda: time.time() + sum(paused_seconds)):
            details: Iterator[Json] = ((record.usage or {})["cost_details"] for record in actor.finished())
            errors.append(sum(forecasts) / sum(each["upstream_inference_input_cost"] for each in details) - 1)
            forecasts.clear()
            paused_seconds.append(rand.choice(PAUSES_SECONDS))
            actor.advance(paused_seconds[-1])
    return errors


BENCHMARKS = {"compaction": measure_compaction, "prices": measure_prices}
