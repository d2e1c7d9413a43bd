"""What context management costs and saves, without any model: money, calibration, time.

Money: agent chats of 20, 40 and 80 turns (8,000 tokens of system prompt; each turn 200 tokens of the user, three
tool outputs of about 2,000 in as many rounds and an answer of 600: four requests), sent to the stand-in's model
of the providers' caches at four lists of prices. Costs are thousands of base-token equivalents: what the input
costs, divided by the plain input price. A fixed batch prunes as soon as so many tokens can be won; the best one
is chosen in hindsight, never and each turn among them.

Goals: batched pruning within 3 % of the best fixed batch from 40 turns on; at least 1.75 times cheaper than pruning
each turn at Anthropic's prices; after five turns of calibration 95 % of the errors at most 5 %; a chat of a million
counted tokens planned in 20 ms.

Growth: the n-th request of a chat that has outgrown its window, planned by a worker that has planned the one before,
and by one that has never seen the chat. Goals: request 1,000 takes at most three times as long as request 100 and at
most ten times as long as `json.dumps` of what it sends; what a worker needs that has never seen the chat is at most
linear in its length.
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
from functools import partial
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
from open_webui_openrouter_pipe.conversation.facts import MAX_FACT_TOKENS
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter, TokenCounts
from open_webui_openrouter_pipe.openrouter.request import with_breakpoints
from open_webui_openrouter_pipe.planning.plan import Plan
from open_webui_openrouter_pipe.planning.planner import (
    LIMIT_STEPS_PER_UNIT,
    AvailableSummaries,
    ModelTerms,
    PlanCaches,
    may_be_shortened,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.recall.tool import RECALL_TOOL
from open_webui_openrouter_pipe.summaries.segments import Segment as SummarySegment
from open_webui_openrouter_pipe.summaries.summary import Summary
from scripts.benchmarks._chats import (
    AGENT_TOKENS,
    ROUNDS,
    Chat,
    agent_chat,
    call_and_output,
    log_line,
    message,
    plain_chat,
    row,
    text_of,
)
from scripts.benchmarks.aims import measure_aims, write_summary
from scripts.paths import ROOT
from scripts.standin.cache import CachedModel, CacheRule, Prices, PromptCache, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from open_webui_openrouter_pipe.responses.items import Item

SAMPLES = ROOT / "tests" / "conversation" / "samples"
LENGTHS_TURNS = (20, 40, 80)
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
            Decimal(1),
            input_cache_read=read if cached else None,
            input_cache_write=write if cached else None,
        )
        return CachedModel("model", prices, self.rule)


_RULE = CacheRule(minimum_tokens=1024 // UNIT_TOKENS, block_tokens=BLOCK_UNITS)
MARKETS = {
    "anthropic": Market(CachePrices(0.1, 1.25), replace(_RULE, kind="explicit", writes_billed=True)),
    "openai": Market(CachePrices(0.5, 1.0), _RULE),
    "deepseek": Market(CachePrices(0.1, 1.0), _RULE),
    "no_cache": Market(CachePrices(), CacheRule("none")),
}


FREED_TOKENS = ROUNDS * (AGENT_TOKENS["output"] - MAX_FACT_TOKENS)
"""By stating the outputs of a turn as facts."""


@dataclass(frozen=True)
class FixedBatch(CachePrices):
    """Prunes once so many tokens can be won, whatever they cost."""

    batch_tokens: int = 0

    def pays(
        self,
        freed_tokens: int,
        requests: int,
        following_tokens: int,  # noqa: ARG002
        *,
        tokens: float,  # noqa: ARG002
    ) -> bool:
        """Whether nothing is missing: of each turn as much is won, in as many requests."""
        turns = math.sqrt(freed_tokens * requests / (ROUNDS + 1) / FREED_TOKENS)
        return turns * FREED_TOKENS >= self.batch_tokens


def run() -> dict[str, Any]:
    """Measure everything, by subject; of the aims, the cells that are played quickly."""
    return {
        "aims": measure_aims(),
        "cost_kilotokens": measure_cost(),
        "calibration": measure_calibration(),
        "planning": measure_planning(),
        "growth": measure_growth(),
    }


# --- money ---------------------------------------------------------------------------------------------------


def measure_cost() -> dict[str, Any]:
    """Cost and breaks of each policy, market and length, and how batched compares with the best fixed batch."""
    chat = _AgentChat(max(LENGTHS_TURNS))
    shared = {
        "off": chat.requests("off", CachePrices()),
        "every_turn_10": chat.requests("every_turn", CachePrices()),
        "every_turn_3": chat.requests("every_turn", CachePrices(), retention_turns=3),
        **{
            f"fixed_{batch}": chat.requests("batched", FixedBatch(batch_tokens=batch))
            for batch in FIXED_BATCHES_TOKENS
        },
    }
    return {name: _compare_in_market(chat, market, shared) for name, market in MARKETS.items()}


def _compare_in_market(
    chat: _AgentChat, market: Market, shared: dict[str, list[Plan]]
) -> dict[str, dict[str, Any]]:
    batched = chat.requests("batched", market.prices)
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


class _AgentChat:
    """The cost of the requests of an agent's chat."""

    def __init__(self, turns: int) -> None:
        chat = agent_chat(turns)
        self._system = message("system", chat.system)
        self._items, self._turn_of_item = chat.all_items()
        self._ends = [end for end, item in enumerate(self._items, start=1) if is_model_input(item)]
        self._counter, self._caches = TokenCounter(ContentCache()), PlanCaches()
        self._units: dict[str, list[int]] = {}

    def requests(
        self, pruning: Any, prices: CachePrices, retention_turns: int = RETENTION_TURNS
    ) -> list[Plan]:
        """The plan of every request, each planned from the beginning."""
        settings = ContextSettings(
            context_strategy="prune",
            context_aim="thrifty",
            tool_output_pruning=pruning,
            tool_output_retention_turns=retention_turns,
        )
        model = ModelTerms("anthropic/model", WINDOW_TOKENS, prices=prices)

        def planned(end: int) -> Plan:
            chat = build_conversation(
                self._items[:end], self._turn_of_item[:end], instructions=[self._system]
            )
            return plan(chat, settings, model=model, counter=self._counter, caches=self._caches)

        return list(map(planned, self._ends))

    def bill(self, plans: Sequence[Plan], market: Market) -> dict[int, tuple[float, int]]:
        """Thousands of base tokens and broken prefixes so far, after each number of turns."""
        cache, cost, breaks, now = PromptCache(), Decimal(0), 0, 0.0
        bill: dict[int, tuple[float, int]] = {}
        for end, planned in zip(self._ends, plans, strict=True):
            segments = self._segments(planned, explicit=market.rule.kind == "explicit")
            cost += cache.account(market.model, "chat", segments, now).input_cost * UNIT_TOKENS
            breaks += bool(planned.new_breaks)
            now += SECONDS_BETWEEN_REQUESTS
            bill[self._turn_of_item[end - 1] + 1] = (float(cost) / 1000, breaks)
        return bill

    def _segments(self, planned: Plan, *, explicit: bool) -> list[Segment]:
        items = with_breakpoints(planned.items, planned.marks) if explicit else planned.items
        last = len(items) - 1 if explicit else None
        return [
            Segment(self._tokens(item), breakpoint=at == last or "prompt_cache_breakpoint" in str(item)[-90:])
            for at, item in enumerate(items)
        ]

    def _tokens(self, item: Item) -> Sequence[int]:
        """The item as a run of equal numbers, one for each unit of its tokens: equal items have equal runs."""
        name = f"{item['type']} {text_of(item)}"
        if name not in self._units:
            count = max(1, round(self._counter.item(item).tokens / UNIT_TOKENS))
            self._units[name] = [len(self._units) + 1] * count
        return self._units[name]


# --- texts of all kinds ---------------------------------------------------------------------------------------


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
    rows = [[row(rand) for _ in range(40)] for _ in range(30)]
    return {
        "python": "\n".join(inspect.getsource(module) for module in modules),
        "typescript": (SAMPLES / "typescript.ts.txt").read_text("utf-8"),
        "markdown_english": (SAMPLES / "english.md").read_text("utf-8"),
        "markdown_chinese": (SAMPLES / "chinese.md").read_text("utf-8"),
        "json_rows": "\n".join(map(json.dumps, rows)),
        "json_indented": "\n".join(json.dumps(some, indent=2) for some in rows),
        "json_minified": json.dumps(rows, separators=(",", ":")),
        "log": "\n".join(log_line(rand) for _ in range(800)),
        "base64": base64.b64encode(rand.randbytes(60_000)).decode(),
        "csv": "\n".join(",".join(map(str, each.values())) for each in chain.from_iterable(rows)),
        "csv_numbers": "\n".join(
            ",".join(f"{rand.uniform(-500, 500):.3f}" for _ in range(8)) for _ in range(300)
        ),
    }


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
        calibration, counts, billed = Calibration(), TokenCounts(), 0.0
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
        items.append(message("user", source[start : start + 800]))
        for number in range(5):
            call_id, text = f"call_{turn}_{number}", source[start + number * 5_000 :][:11_000]
            items += call_and_output(call_id, "read", call_id, text)
        items.append(message("assistant", source[start : start + 1_600]))
        turns += [turn] * (len(items) - len(turns))
    return items, turns


GROWTH_WINDOW_TOKENS = 128_000
GROWTH_REQUESTS = (100, 250, 1_000)
REQUESTS_TO_MEASURE = 5
_WHOLE = ContextSettings(recall_tool=True)
GROWTH_SETTINGS = {
    "summaries": _WHOLE,
    "summaries_recall": replace(_WHOLE, recall=True),
    "no_summaries": replace(_WHOLE, context_strategy="prune"),
    "no_summaries_recall": replace(_WHOLE, context_strategy="prune", recall=True),
}


def measure_growth() -> dict[str, Any]:
    """How long the plan of a request takes in a short and in a long chat (processor time)."""
    last = GROWTH_REQUESTS[-1] + REQUESTS_TO_MEASURE
    chats = {"plain": plain_chat(last), "tools": agent_chat(-(-last // (ROUNDS + 1)))}
    return {
        f"{kind}_{name}": _growth(_GrowingChat(chat, settings))
        for kind, chat in chats.items()
        for name, settings in GROWTH_SETTINGS.items()
    }


class _GrowingChat:
    """Plans the requests of a chat whose summaries are written as soon as one is required."""

    def __init__(self, chat: Chat, settings: ContextSettings) -> None:
        self._system = message("system", chat.system)
        self._items, self._turn_of_item = chat.all_items()
        self._ends = [end for end, item in enumerate(self._items, start=1) if is_model_input(item)]
        self._settings, self._written = settings, dict[SummarySegment, Summary]()
        self._model = ModelTerms("anthropic/model", GROWTH_WINDOW_TOKENS, prices=MARKETS["anthropic"].prices)
        self.forget()

    def forget(self) -> None:
        """Go on with a worker that has never seen the chat; summaries stay."""
        self._counter = TokenCounter(ContentCache(), vocabulary("o200k_base"))
        self._caches = PlanCaches()

    def plan(self, request: int) -> tuple[Plan, float]:
        """The plan of a request, by its number, and the seconds that it took."""
        end = self._ends[request - 1]
        built = build_conversation(self._items[:end], self._turn_of_item[:end], instructions=[self._system])
        conversation = replace(built, tools=(RECALL_TOOL,))
        asked = partial(may_be_shortened, conversation, self._settings, model=self._model)
        fitted = partial(plan, conversation, self._settings, model=self._model)
        available = AvailableSummaries(dict(self._written), "request")
        started = time.process_time()
        asked(counter=self._counter, caches=self._caches)
        planned = fitted(counter=self._counter, caches=self._caches, summaries=available)
        seconds = time.process_time() - started
        for target in (*planned.required_summaries, *planned.prefetch_summaries):
            self._written[target.segment] = write_summary(target, self._counter)
        return planned, seconds


def _growth(chat: _GrowingChat) -> dict[str, float]:
    warm, cold, dumps = {}, {}, 0.0
    for number in GROWTH_REQUESTS:
        chat.plan(number - 1)  # what it requires is written
        chat.forget()
        cold[number] = chat.plan(number - 1)[1]
        planned = [chat.plan(number + at) for at in range(REQUESTS_TO_MEASURE)]
        warm[number] = statistics.median(seconds for _, seconds in planned)
        dumps = statistics.median(_best_seconds(partial(json.dumps, sent.items)) for sent, _ in planned)
    first, shorter, last = GROWTH_REQUESTS
    return {
        f"request_{first}_ms": round(1e3 * warm[first], 1),
        f"request_{last}_ms": round(1e3 * warm[last], 1),
        "ratio": round(warm[last] / warm[first], 2),
        "times_json_dumps": round(warm[last] / dumps, 1),
        f"cold_{shorter}_ms": round(1e3 * cold[shorter], 1),
        f"cold_{last}_ms": round(1e3 * cold[last], 1),
        f"cold_{last}_per_cold_{shorter}": round(cold[last] / cold[shorter], 2),
    }


def _best_seconds(work: Callable[[], object]) -> float:
    """The shortest of several runs, so that another program's noise counts little."""

    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return min(once() for _ in range(REPEATS))


BENCHMARKS = {"context": run}
