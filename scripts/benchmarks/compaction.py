"""What long chats cost under different ways of keeping them inside a window of 128,000 tokens.

Two chats, request by request, always the same texts: the agent's chat of the context benchmark (80 turns of four
requests, with a tool) and a plain one (240 turns, no tools). The ways:

    truncation     the oldest turns go until the request fits
    open_webui     Open WebUI's own compaction with its defaults, run in a real Open WebUI on this pipe
    resummarised   over 100,000 tokens, all but the last ten messages are summarized anew on every turn; tool
                   outputs become facts
    faithful       this pipe, as it is by default
    thrifty        this pipe with the aim to cost least

All requests are priced by the stand-in's model of the providers' caches, 20 seconds apart, those for summaries
included, with what they say. What the answers say costs the same everywhere and is omitted. Costs are thousands of
base-token equivalents: dollars divided by the plain input price. `python -m scripts.benchmarks.compaction` prints
them as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, cast

from open_webui_openrouter_pipe.conversation.budget import ContextSettings, split_window
from open_webui_openrouter_pipe.conversation.conversation import is_model_input
from open_webui_openrouter_pipe.conversation.facts import state_fact
from scripts.benchmarks._chats import Chat, agent_chat, message, plain_chat, text_of
from scripts.benchmarks._stage import Pay, Sent, hosted, piped
from scripts.benchmarks.context import SECONDS_BETWEEN_REQUESTS, vocabulary
from scripts.standin import catalogue
from scripts.standin.cache import CachedModel, PromptCache
from scripts.standin.prompt import PromptReader, local_tokenizer

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.responses.items import Item
    from scripts.standin.cache import CachedModel, Segment

Amounts = dict[str, float]
Policy = Callable[[Chat, Pay], None]

MARKETS = {
    "anthropic": "anthropic/claude-sonnet-128k",
    "openai": "openai/gpt-4o",
    "deepseek": "deepseek/deepseek-chat-v3.1",
    "no_cache": "mistralai/mistral-large-2411",
}
WINDOW_TOKENS = 128_000
AGENT_TURNS = 80
PLAIN_TURNS = 240
AIMS = ("faithful", "thrifty")
WORKERS = 2
SPANS = ("average_context_tokens", "summaries")

RESUMMARISED_TRIGGER_TOKENS = 100_000
RESUMMARISED_KEPT_MESSAGES = 10
RESUMMARISED_PROMPT = (
    "Summarise the following conversation in a narrative form. Keep decisions, findings and open questions. "
    "Lines that begin with [Tool: are results of tools; do not restate their numbers.\n\n"
)
SUMMARY_TOKENS = 790
"""As long as the stand-in's own summaries."""


def run() -> dict[str, Any]:
    """Play both chats in every way, and return the amounts by chat, way and market."""
    return {
        "agent_80_turns": costs(agent_chat(AGENT_TURNS)),
        "plain_240_turns": costs(plain_chat(PLAIN_TURNS)),
    }


def costs(chat: Chat, markets: Mapping[str, str] = MARKETS) -> dict[str, dict[str, Amounts]]:
    """The amounts of one chat; Open WebUI's are missing where it is not installed."""
    shared: dict[str, Policy] = {"truncation": truncated, "resummarised": resummarised}
    if find_spec("open_webui"):
        shared["open_webui"] = hosted
    amounts = {name: billed(chat, policy, markets) for name, policy in shared.items()}
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        jobs = {
            aim: {name: pool.submit(_own, chat, name, model_id, aim) for name, model_id in markets.items()}
            for aim in AIMS
        }
        own = {aim: {name: job.result() for name, job in of_aim.items()} for aim, of_aim in jobs.items()}
        return {**amounts, **own}


def billed(chat: Chat, policy: Policy, markets: Mapping[str, str]) -> dict[str, Amounts]:
    """What a chat costs in several markets when its requests are the same in all of them."""
    ledger = Ledger(markets)
    policy(chat, ledger.pay)
    return ledger.amounts()


def _own(chat: Chat, market: str, model_id: str, aim: str) -> Amounts:
    """Prices decide what the pipe does, so each market has a chat of its own."""
    policy = partial(piped, model_id=model_id, valves={"CONTEXT_AIM": aim})
    return billed(chat, policy, {market: model_id})[market]


def table(costs: Mapping[str, Mapping[str, Amounts]]) -> str:
    """One chat's costs as a table in Markdown; in brackets what of it is for summaries."""
    rows = [f"| {' | '.join(['way', *MARKETS, 'average context', 'summaries'])} |"]
    rows.append("| --- " * (len(MARKETS) + 3) + "|")
    for name, by_market in costs.items():
        cells = [
            f"{found['cost_kilotokens']:,} ({found['of_which_summaries']:,})" for found in by_market.values()
        ]
        rows.append(f"| {' | '.join([name, *cells, *map(partial(_range, by_market), SPANS)])} |")
    return "\n".join(rows)


def _range(by_market: Mapping[str, Amounts], name: str) -> str:
    values = sorted({found[name] for found in by_market.values()})
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


# --- bills ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Bill:
    """What the requests of one chat have cost so far in one market."""

    model: CachedModel
    cache: PromptCache = field(default_factory=PromptCache)
    now: float = 0.0
    cost: Decimal = Decimal(0)
    summary_cost: Decimal = Decimal(0)
    answers: int = 0
    answers_tokens: int = 0
    cached_tokens: int = 0
    most_tokens: int = 0
    summaries: int = 0

    def add(self, segments: Sequence[Segment], summary_tokens: int) -> None:
        """Take one more request."""
        usage = self.cache.account(self.model, "chat", segments, self.now)
        cost = usage.input_cost + summary_tokens * self.model.prices.completion
        self.now += SECONDS_BETWEEN_REQUESTS
        self.cost += cost
        if summary_tokens:
            self.summaries += 1
            self.summary_cost += cost
            return
        self.answers += 1
        self.answers_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.most_tokens = max(self.most_tokens, usage.input_tokens)

    def amounts(self) -> Amounts:
        """In thousands of base tokens, dollars, tokens and requests."""
        kilotoken = 1000 * self.model.prices.prompt
        return {
            "cost_kilotokens": round(float(self.cost / kilotoken)),
            "of_which_summaries": round(float(self.summary_cost / kilotoken)),
            "dollars": round(float(self.cost), 3),
            "summaries": self.summaries,
            "answers": self.answers,
            "average_context_tokens": round(self.answers_tokens / max(1, self.answers)),
            "largest_context_tokens": self.most_tokens,
            "cached_share": round(self.cached_tokens / max(1, self.answers_tokens), 3),
        }


class Ledger:
    """The bills of one chat in several markets."""

    def __init__(self, markets: Mapping[str, str]) -> None:
        models = {name: catalogue.find(model_id) for name, model_id in markets.items()}
        self._bills = {name: Bill(model.cached) for name, model in models.items() if model}

    def pay(self, sent: Sent) -> None:
        """Take one more request."""
        segments = reader().read(sent.body, {}).segments
        for bill in self._bills.values():
            bill.add(segments, sent.summary_tokens)

    def amounts(self) -> dict[str, Amounts]:
        """The amounts by market."""
        return {name: bill.amounts() for name, bill in self._bills.items()}


@cache
def reader() -> PromptReader:
    """Counts like the stand-in, by o200k_base where its vocabulary lies in the cache directory."""
    vocabulary("o200k_base")
    return PromptReader(local_tokenizer())


# --- policies that need no pipe ------------------------------------------------------------------------------


def truncated(chat: Chat, pay: Pay) -> None:
    """Each request without the oldest turns that do not fit."""
    output_tokens = ContextSettings().context_max_output_tokens
    budget_tokens = split_window(WINDOW_TOKENS, output_tokens=output_tokens).input_tokens
    turns = [chat.items(number) for number in range(len(chat.turns))]
    sizes = [_tokens(items) for items in turns]
    head = [message("system", chat.system)]
    for number, items in enumerate(turns):
        for current in _requests(items):
            max_tokens = budget_tokens - _tokens(head) - _tokens(current)
            first = number
            while first and max_tokens >= sizes[first - 1]:
                first -= 1
                max_tokens -= sizes[first]
            pay(Sent(_body([*head, *chain(*turns[first:number]), *current])))


def resummarised(chat: Chat, pay: Pay) -> None:
    """Over the threshold, everything but the last messages is summarized anew on each turn."""
    turns = [chat.items(number) for number in range(len(chat.turns))]
    facts = [list(map(_fact, items)) for items in turns]
    sizes = [_tokens(items) for items in turns]
    system = message("system", chat.system)
    kept = RESUMMARISED_KEPT_MESSAGES // 2 - 1
    for number, items in enumerate(turns):
        head, first = [system], 0
        if _tokens([system, items[0]]) + sum(sizes[:number]) > RESUMMARISED_TRIGGER_TOKENS:
            first = max(0, number - kept)
            source = _newest(facts[:first])
            pay(Sent({"input": [message("user", RESUMMARISED_PROMPT + source)]}, SUMMARY_TOKENS))
            head = [system, message("system", _block(number, facts[:first]))]
        for current in _requests(items):
            pay(Sent(_body([*head, *chain(*turns[first:number]), *current])))


def _fact(item: Item) -> str:
    """An item as a summarizer reads it: who says it and the text, a tool's output as its fact, nothing of a call."""
    if item["type"] == "function_call":
        return ""
    if item["type"] == "function_call_output":
        return f"tool: {state_fact(text_of(item))}"
    return f"{item.get('role')}: {text_of(item)}"


def _newest(facts: Sequence[Sequence[str]]) -> str:
    """As many of the newest turns as a summarizer with the same window can read."""
    texts = ["\n".join(filter(None, turn)) for turn in facts]
    max_tokens = WINDOW_TOKENS - SUMMARY_TOKENS - 1_000
    first = len(texts)
    while first and max_tokens > 0:
        max_tokens -= len(reader().tokenizer.encode(texts[first - 1]))
        first -= max_tokens > 0
    return "\n".join(texts[first:])


def _block(number: int, facts: Sequence[Sequence[str]]) -> str:
    """The summary's words, which are others each time, and all lines of tools."""
    words = f"summary-{number} " * (SUMMARY_TOKENS // len(reader().tokenizer.encode(f"summary-{number} ")))
    tools = [text.removeprefix("tool: ") for text in chain(*facts) if text.startswith("tool: ")]
    lines = "\n".join(f"- {text}" for text in tools)
    return f"[Previous conversation summary]\n{words}\n[Tool calls]\n{lines}\n[End of summary]"


def _requests(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """What of a turn each of its requests holds."""
    return (items[:end] for end, item in enumerate(items, start=1) if is_model_input(item))


def _body(items: Sequence[Item]) -> dict[str, Any]:
    """With breakpoints after the instructions, the latest user message and the end of the request."""
    last = max(at for at, item in enumerate(items) if item.get("role") == "user")
    marked = [at == last or item.get("role") == "system" for at, item in enumerate(items)]
    body = [_marked(item) if here else item for item, here in zip(items, marked, strict=True)]
    return {"input": body, "cache_control": {"type": "ephemeral"}}


def _marked(item: Any) -> Item:
    marked: Any = {**item["content"][0], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return cast("Item", {**item, "content": [marked]})


def _tokens(items: Sequence[Item]) -> int:
    return reader().read({"input": list(items)}, {}).tokens


BENCHMARKS = {"compaction": run}

if __name__ == "__main__":
    for title, found in run().items():
        print(f"{title}\n\n{table(found)}\n")
