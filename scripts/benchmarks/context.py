"""What context management costs and saves, without any model: money, counting, calibration, time.

Money: agent chats of 20, 40 and 80 turns (8,000 tokens of system prompt; each turn 200 tokens of the user, three
tool outputs of about 2,000 in as many rounds and an answer of 600: four requests), sent to the stand-in's model
of the providers' caches at four lists of prices. Costs are thousands of base-token equivalents: what the input
costs, divided by the plain input price. A fixed batch prunes as soon as so many tokens can be won; the best one
is chosen in hindsight, never and each turn among them.

Goals: batched pruning within 3 % of the best fixed batch from 40 turns on; at least 1.75 times cheaper than pruning
each turn at Anthropic's prices; the estimate at most 5 % under and 10 % over o200k_base, at 5 MB/s; after
five turns of calibration 95 % of the errors at most 5 %; a chat of a million counted tokens planned in 20 ms.
"""

from __future__ import annotations

import base64
import inspect
import json
import math
import os
import random
import statistics
import textwrap
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.conversation.budget import OVERHEAD_SHARE, Calibration, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import (
    ContentCache,
    build_conversation,
    is_model_input,
)
from open_webui_openrouter_pipe.conversation.estimate import estimate_tokens
from open_webui_openrouter_pipe.conversation.tokens import NO_TOKENS, TokenCounter, TokenCounts
from open_webui_openrouter_pipe.openrouter.request import with_breakpoints
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import LIMIT_STEPS_PER_UNIT, ModelTerms, PlanCaches, plan
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from scripts.benchmarks._aims import WINDOWS_TOKENS, measure_aims, tables
from scripts.benchmarks._chats import SHAPES
from scripts.paths import ROOT
from scripts.standin.cache import CachedModel, CacheRule, Prices, PromptCache, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from open_webui_openrouter_pipe.responses.items import Item

NAME = "context"

SAMPLES = ROOT / "tests" / "conversation" / "samples"
LENGTHS_TURNS = (20, 40, 80)
ROUNDS = 3
RETENTION_TURNS = 10
FIXED_BATCHES_TOKENS = (8_000, 14_000, 20_000, 27_000, 34_000, 40_000, 50_000, 60_000, 80_000, 120_000)
UNIT_TOKENS = 50
BLOCK_UNITS = 3
SECONDS_BETWEEN_REQUESTS = 20.0
WINDOW_TOKENS = 10_000_000
REPEATS = 7


@dataclass(frozen=True, slots=True)
class Market:
    """A list of prices with the caching that goes with it."""

    prices: CachePrices
    rule: CacheRule

    @property
    def model(self) -> CachedModel:
        """The model as the cache knows it; plain input costs 1."""
        cached = self.prices.read < 1
        read, write = Decimal(str(self.prices.read)), Decimal(str(self.prices.write))
        prices = Prices(
            Decimal(1), cache_read=read if cached else None, cache_write=write if cached else None
        )
        return CachedModel("model", prices, self.rule)


_RULE = CacheRule(minimum_tokens=1024 // UNIT_TOKENS, block_tokens=BLOCK_UNITS)
MARKETS = {
    "anthropic": Market(CachePrices(0.1, 1.25), replace(_RULE, kind="explicit", writes_billed=True)),
    "openai": Market(CachePrices(0.5, 1.0), _RULE),
    "deepseek": Market(CachePrices(0.1, 1.0), _RULE),
    "no_cache": Market(CachePrices(), CacheRule("none")),
}


@dataclass(frozen=True)
class FixedBatch(CachePrices):
    """Prunes once so many tokens can be won, whatever they cost."""

    batch_tokens: int = 0

    def pays(self, accrued_cost: float, coming_tokens: int, following_tokens: int) -> bool:  # noqa: ARG002
        """Whether nothing is missing."""
        return coming_tokens >= (ROUNDS + 1) * self.batch_tokens


def run() -> dict[str, Any]:
    """Measure everything, by subject; of the aims, the cells that are played quickly."""
    return {
        "aims": measure_aims(),
        "cost_kilotokens": measure_cost(),
        "counting": measure_counting(),
        "calibration": measure_calibration(),
        "planning": measure_planning(),
    }


# --- money ---------------------------------------------------------------------------------------------------


def measure_cost() -> dict[str, Any]:
    """Cost and breaks of each policy, market and length, and how batched compares with the best fixed batch."""
    chat = AgentChat(max(LENGTHS_TURNS))
    shared = {
        "off": chat.requests(_settings("off", RETENTION_TURNS), CachePrices()),
        "every_turn_10": chat.requests(_settings("every_turn", RETENTION_TURNS), CachePrices()),
        "every_turn_3": chat.requests(_settings("every_turn", 3), CachePrices()),
    }
    for batch in FIXED_BATCHES_TOKENS:
        fixed = FixedBatch(batch_tokens=batch)
        shared[f"fixed_{batch}"] = chat.requests(_settings("batched", RETENTION_TURNS), fixed)
    return {name: _compare_in_market(chat, market, shared) for name, market in MARKETS.items()}


def _compare_in_market(
    chat: AgentChat, market: Market, shared: dict[str, list[Plan]]
) -> dict[str, dict[str, Any]]:
    batched = chat.requests(_settings("batched", RETENTION_TURNS), market.prices)
    bills = {name: chat.bill(plans, market) for name, plans in {**shared, "batched": batched}.items()}
    results: dict[str, dict[str, Any]] = {}
    for turns in LENGTHS_TURNS:
        costs = {name: bill[turns][0] for name, bill in bills.items()}
        rivals = [name for name in costs if name not in {"batched", "every_turn_3"}]
        best = min(rivals, key=lambda name: costs[name])
        shown = ("off", "every_turn_10", "every_turn_3", "batched")
        results[f"{turns}_turns"] = {
            **{name: round(costs[name]) for name in shown},
            "breaks": {name: bills[name][turns][1] for name in shown},
            "best_fixed": best,
            "batched_over_best_fixed": round(costs["batched"] / costs[best] - 1, 4),
            "every_turn_10_per_batched": round(costs["every_turn_10"] / costs["batched"], 3),
        }
    return results


def _settings(pruning: Any, retention_turns: int) -> ContextSettings:
    return ContextSettings(
        context_strategy="prune",
        context_aim="thrifty",
        tool_output_pruning=pruning,
        tool_output_retention_turns=retention_turns,
    )


class AgentChat:
    """An agent's chat of fixed sizes, and the cost of its requests."""

    def __init__(self, turns: int) -> None:
        """Write the chat."""
        self._counter = TokenCounter(ContentCache())
        self._caches = PlanCaches()
        self._units: dict[tuple[str, str], list[int]] = {}
        self._rand = random.Random(11)  # noqa: S311 - a seeded simulation
        self._system = _said("system", self._prose(8_000))
        self.items: list[Item] = []
        self.turn_of_item: list[int] = []
        for turn in range(turns):
            items = list(self._turn(turn))
            self.items += items
            self.turn_of_item += [turn] * len(items)

    def requests(self, settings: ContextSettings, prices: CachePrices) -> list[Plan]:
        """The plan of every request, each planned from the beginning."""
        model = ModelTerms("anthropic/model", WINDOW_TOKENS, prices=prices)
        return [self._plan(end, settings, model) for end in self._ends()]

    def bill(self, plans: Sequence[Plan], market: Market) -> dict[int, tuple[float, int]]:
        """Thousands of base tokens and broken prefixes so far, after each number of turns."""
        cache, cost, breaks, now = PromptCache(), Decimal(0), 0, 0.0
        bill: dict[int, tuple[float, int]] = {}
        for end, planned in zip(self._ends(), plans, strict=True):
            segments = self._segments(planned, explicit=market.rule.kind == "explicit")
            cost += cache.account(market.model, "chat", segments, now).input_cost * UNIT_TOKENS
            breaks += bool(planned.new_breaks)
            now += SECONDS_BETWEEN_REQUESTS
            bill[self.turn_of_item[end - 1] + 1] = (float(cost) / 1000, breaks)
        return bill

    def _plan(self, end: int, settings: ContextSettings, model: ModelTerms) -> Plan:
        chat = build_conversation(self.items[:end], self.turn_of_item[:end], instructions=[self._system])
        return plan(chat, settings, model=model, counter=self._counter, caches=self._caches)

    def _ends(self) -> Iterator[int]:
        return (end for end, item in enumerate(self.items, start=1) if is_model_input(item))

    def _segments(self, planned: Plan, *, explicit: bool) -> list[Segment]:
        items = with_breakpoints(planned.items, planned.marks) if explicit else planned.items
        last = len(items) - 1 if explicit else None
        return [
            Segment(self._tokens(item), breakpoint=at == last or "prompt_cache_breakpoint" in str(item)[-90:])
            for at, item in enumerate(items)
        ]

    def _tokens(self, item: Item) -> Sequence[int]:
        """The item as a run of equal numbers, one for each unit of its tokens: equal items have equal runs."""
        fields: Any = item
        text = fields.get("output") or fields.get("arguments") or fields["content"]
        text = text if isinstance(text, str) else text[0]["text"]
        units = self._units.get((item["type"], text))
        if units is None:
            count = max(1, round(self._counter.item(item).tokens / UNIT_TOKENS))
            units = self._units[item["type"], text] = [len(self._units) + 1] * count
        return units

    def _turn(self, turn: int) -> Iterator[Item]:
        yield _said("user", self._prose(196))
        for number in range(ROUNDS):
            call_id = f"call_{turn}_{number}"
            arguments = json.dumps({"query": f"select {turn} {number}"})
            yield {"type": "function_call", "call_id": call_id, "name": "query", "arguments": arguments}
            yield {"type": "function_call_output", "call_id": call_id, "output": self._rows(1_970)}
        content: Any = [{"type": "output_text", "text": self._prose(600), "annotations": []}]
        yield {
            "type": "message",
            "role": "assistant",
            "id": f"m{turn}",
            "status": "completed",
            "content": content,
        }

    def _prose(self, tokens: int) -> str:
        words: list[str] = []
        while estimate_tokens(" ".join(words)) < tokens:
            words += self._rand.choices(_WORDS, k=max(1, tokens // 20))
        return " ".join(words)

    def _rows(self, tokens: int) -> str:
        rows: list[dict[str, Any]] = []
        while estimate_tokens(json.dumps(rows)) < tokens:
            rows += [_row(self._rand) for _ in range(3)]
        return json.dumps(rows)


def _said(role: Any, text: str) -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


# --- counting ------------------------------------------------------------------------------------------------


def measure_counting() -> dict[str, Any]:
    """The estimate's error against o200k_base for each kind of text, and its speed."""
    texts = sample_texts()
    joined = "\n".join(texts.values()) * 4
    seconds = _best_seconds(lambda: estimate_tokens(joined), clock=time.perf_counter)
    results: dict[str, Any] = {"megabytes_per_second": round(len(joined.encode()) / seconds / 1e6, 1)}
    if encode := vocabulary("o200k_base"):
        errors = {name: estimate_tokens(text) / len(encode(text)) - 1 for name, text in texts.items()}
        results["error_against_o200k"] = {name: round(error, 4) for name, error in errors.items()}
    return results


def vocabulary(name: str) -> Callable[[str], Sequence[int]] | None:
    """The encoding of a vocabulary in tiktoken's cache directory; None when it is not there."""
    directory = Path(os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(ROOT / ".cache" / "tiktoken")))
    if not directory.is_dir() or not any(directory.iterdir()):
        return None
    import tiktoken

    return tiktoken.get_encoding(name).encode_ordinary


def sample_texts() -> dict[str, str]:
    """A text of each kind; the generated ones are the same on every machine."""
    rand = random.Random(5)  # noqa: S311 - a seeded simulation
    modules: tuple[ModuleType, ...] = (inspect, json, random, statistics, textwrap, base64)
    rows = [[_row(rand) for _ in range(40)] for _ in range(30)]
    return {
        "python": "\n".join(inspect.getsource(module) for module in modules),
        "typescript": (SAMPLES / "typescript.ts.txt").read_text("utf-8"),
        "markdown_english": (SAMPLES / "english.md").read_text("utf-8"),
        "markdown_chinese": (SAMPLES / "chinese.md").read_text("utf-8"),
        "json_rows": "\n".join(json.dumps(row) for row in rows),
        "json_indented": "\n".join(json.dumps(row, indent=2) for row in rows),
        "json_minified": json.dumps(rows, separators=(",", ":")),
        "log": "\n".join(_log_line(rand) for _ in range(800)),
        "base64": base64.b64encode(rand.randbytes(60_000)).decode(),
        "csv": "\n".join(",".join(map(str, row.values())) for row in chain.from_iterable(rows)),
        "csv_numbers": "\n".join(
            ",".join(f"{rand.uniform(-500, 500):.3f}" for _ in range(8)) for _ in range(300)
        ),
    }


_VOCABULARY = """
    account active after amount answer are before board build by call cancelled carrier change chat
    city cost customer date day deliver email every file first for from_address harbour have invoice
    is item last late list message month name never north number of on open order paid parcel
    pending place price reason report request return route sent ship shop signed south state status
    stock store sum table team that the this time total transfer under user value wait was weight
    when which will with without year
"""
_WORDS = _VOCABULARY.split()


def _row(rand: random.Random) -> dict[str, Any]:
    return {
        "id": rand.randrange(10**6),
        "customer_name": f"{rand.choice(_WORDS).title()} {rand.choice(_WORDS).title()}",
        "email": f"{rand.choice(_WORDS)}.{rand.choice(_WORDS)}@example.com",
        "total": round(rand.uniform(1, 5000), 2),
        "status": rand.choice(["paid", "open", "cancelled"]),
        "created_at": f"2026-{rand.randint(1, 12):02}-{rand.randint(1, 28):02}T{rand.randint(0, 23):02}:15:00Z",
        "note": " ".join(rand.choices(_WORDS, k=6)),
    }


def _log_line(rand: random.Random) -> str:
    level = rand.choice(["INFO", "WARNING", "ERROR", "DEBUG"])
    address = ".".join(str(rand.randint(1, 254)) for _ in range(4))
    said = " ".join(rand.choices(_WORDS, k=5))
    return (
        f"2026-11-{rand.randint(1, 28):02} 0{rand.randint(0, 9)}:{rand.randint(10, 59)}:{rand.randint(10, 59)},"
        f"{rand.randint(100, 999)} {level} [worker-{rand.randint(1, 9)}] {address} - {said} "
        f"id={rand.randrange(10**6)} took {rand.uniform(1, 900):.2f}ms"
    )


# --- calibration ---------------------------------------------------------------------------------------------


def measure_calibration() -> dict[str, Any]:
    """The 95th percentile of the error from the sixth turn on, for tokenizers that are not the counter's."""
    encode = vocabulary("o200k_base")
    exact: Callable[[str], int] = estimate_tokens if encode is None else (lambda text: len(encode(text)))
    tokenizers: dict[str, Callable[[str], float]] = {
        "coarser_by_class": lambda text: exact(text) * _coarseness(text),
    }
    if other := vocabulary("cl100k_base"):
        tokenizers["cl100k"] = lambda text: len(other(text))
    return {name: _calibrated(count) for name, count in tokenizers.items()}


def _coarseness(text: str) -> float:
    """How much coarser a tokenizer is: most for prose, less for code and data, not at all beyond ASCII."""
    if sum(character > "\x7f" for character in text) > 0.10 * len(text):
        return 1.0
    dense = sum(not (character.isalpha() or character.isspace()) for character in text) / max(1, len(text))
    return 1.1 if dense > 0.22 else 1.25 if dense > 0.10 else 1.45


def _calibrated(count: Callable[[str], float]) -> dict[str, float]:
    """Twenty chats of twenty turns, each turn of other texts; every request is billed by the other count."""
    texts = list(sample_texts().values())
    errors, under_upper, under_limit = [], [], []
    for seed in range(20):
        rand = random.Random(seed)  # noqa: S311 - a seeded simulation
        calibration, counts, billed = Calibration(), NO_TOKENS, 0.0
        for turn in range(20):
            for text in (_excerpt(rand, rand.choice(texts)) for _ in range(3)):
                counts = counts.plus(TokenCounts(estimate_tokens(text)))
                billed += count(text)
            if turn >= 5:
                upper = calibration.upper_tokens(counts) / counts.tokens
                expected = calibration.ratio * counts.text + calibration.constant_tokens
                errors.append(abs(expected / billed - 1))
                under_upper.append(upper * counts.tokens >= billed)
                step = math.ceil(upper / (1 + OVERHEAD_SHARE) * LIMIT_STEPS_PER_UNIT) / LIMIT_STEPS_PER_UNIT
                under_limit.append(step * (1 + OVERHEAD_SHARE) * counts.tokens >= billed)
            calibration = calibration.observed(counts, round(billed))
    return {
        "p95_error": round(statistics.quantiles(errors, n=20)[-1], 4),
        "bills_under_upper_bound": round(statistics.mean(under_upper), 3),
        "bills_under_limit": round(statistics.mean(under_limit), 3),
    }


def _excerpt(rand: random.Random, text: str) -> str:
    length = rand.randint(400, 6_000)
    start = rand.randrange(max(1, len(text) - length))
    return text[start : start + length]


# --- time ----------------------------------------------------------------------------------------------------


def measure_planning() -> dict[str, Any]:
    """How long a chat of a million tokens takes when its items were counted before (processor time)."""
    source = "".join(sample_texts()["python"] for _ in range(4))
    items, turns = _million(source)
    counter, caches = TokenCounter(ContentCache()), PlanCaches()
    model = ModelTerms("anthropic/model", 2_000_000, prices=MARKETS["anthropic"].prices)
    conversation = build_conversation(items, turns)

    def planned() -> Plan:
        return plan(conversation, ContextSettings(), model=model, counter=counter, caches=caches)

    first = planned()
    return {
        "items": len(items),
        "tokens": first.tokens_before,
        "naming_ms": round(1e3 * _best_seconds(lambda: build_conversation(items, turns)), 1),
        "planning_ms": round(1e3 * _best_seconds(planned), 1),
    }


def _million(source: str) -> tuple[list[Item], list[int]]:
    """Eighty turns of five rounds, cut out of a text at ever new offsets."""
    items: list[Item] = []
    turns: list[int] = []
    for turn in range(80):
        start = turn * 997
        items.append(_said("user", source[start : start + 800]))
        for number in range(5):
            call_id = f"call_{turn}_{number}"
            text = source[start + number * 5_000 :][:11_000]
            items.append({"type": "function_call", "call_id": call_id, "name": "read", "arguments": call_id})
            items.append({"type": "function_call_output", "call_id": call_id, "output": text})
        items.append(_said("assistant", source[start : start + 1_600]))
        turns += [turn] * (len(items) - len(turns))
    return items, turns


def _best_seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """The shortest of several runs, so that another program's noise counts little."""

    def once() -> float:
        started = clock()
        work()
        return clock() - started

    return min(once() for _ in range(REPEATS))


if __name__ == "__main__":
    print("\n".join(tables(measure_aims(SHAPES, WINDOWS_TOKENS))))
