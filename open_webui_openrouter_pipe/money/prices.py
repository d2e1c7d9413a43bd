"""Prices, the rules by which providers cache, and what the input of a chat's next turn will cost. Pure.

A provider reads what it has cached of a request at a lower price, as long as it keeps it.

Sources: OpenRouter's `pricing` and `usage`; the providers' published rules of prompt caching (minimum, block, how long
an entry is kept).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..responses.effects import Usage
from ..words.lines import notice

KEPT_SECONDS: Final = 300.0
KEPT_LONG_SECONDS: Final = 3600.0
"""How long a provider keeps an entry after its last use; the longer one where the request asks for an hour."""
MINIMUM_TOKENS: Final = 1024
BLOCK_TOKENS: Final = 128
"""What is cached at least, and in which steps, where nothing else is known."""
_MINIMA: Final = (
    ("anthropic/claude-opus-4.1", 1024),
    ("anthropic/claude-opus-4.", 4096),
    ("anthropic/claude-haiku-4.5", 4096),
    ("anthropic/claude-3.5-haiku", 2048),
    ("google/gemini-2.5-pro", 4096),
    ("google/gemini-3", 4096),
    ("deepseek/", 64),
)
"""Minimum of tokens by the beginning of a model's id; the first that fits counts."""
_BLOCKS: Final = (("google/", 256), ("deepseek/", 64))
QUESTION_TOKENS: Final = 40
"""How long the next message is taken to be."""
EXPLICIT_VENDORS: Final = frozenset({"anthropic", "qwen", "alibaba"})


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per token, per request and per search; None where unknown.

    `read` is for what the provider has cached, `write` for what it caches, `write_long` for what it keeps an hour.
    """

    input: float | None = None
    output: float | None = None
    read: float | None = None
    write: float | None = None
    write_long: float | None = None
    request: float | None = None
    search: float | None = None

    @property
    def are_known(self) -> bool:
        """Whether anything can be said about what a request costs."""
        return self.input is not None

    def input_cost(self, usage: Usage, *, long: bool = False) -> float:
        """Return what the input costs; `long` where it is kept for an hour."""
        plain = self.input or 0.0
        write = self.write_long if long and self.write_long is not None else self.write
        written = plain if write is None else write
        uncached_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        return (
            uncached_tokens * plain + usage.cache_write_tokens * written + self.read_cost(usage.cached_tokens)
        )

    def read_cost(self, cached_tokens: int) -> float:
        """Return what tokens cost that are read from the cache."""
        return cached_tokens * ((self.input or 0.0) if self.read is None else self.read)

    def cost(self, usage: Usage, *, long: bool = False) -> float:
        """Return what a request costs: as it was billed where the bill says so, otherwise by these prices.

        A bill of nothing at all is no bill where there is a price: so it is with a provider's own key.
        """
        if usage.cost:
            return usage.cost
        output_cost = usage.output_tokens * (self.output or 0.0)
        return self.input_cost(usage, long=long) + output_cost + (self.request or 0.0)


NO_PRICES: Final = Prices()


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How a model's provider caches: at breakpoints, by itself, or not at all."""

    kind: Literal["explicit", "automatic", "none"]
    minimum_tokens: int = MINIMUM_TOKENS
    block_tokens: int = BLOCK_TOKENS
    is_kept_long: bool = False
    bills_writes: bool = False

    @classmethod
    def of(cls, model_id: str, prices: Prices, *, long: bool = False) -> CacheRule:
        """Return a model's rule; one without a price for cached reads does not cache."""
        if prices.read is None:
            return cls("none")
        base = model_id.lstrip("~")
        return cls(
            "explicit" if needs_breakpoints(model_id) else "automatic",
            ([tokens for name, tokens in _MINIMA if base.startswith(name)] or [MINIMUM_TOKENS])[0],
            ([tokens for name, tokens in _BLOCKS if base.startswith(name)] or [BLOCK_TOKENS])[0],
            long,
            # writing to the cache costs more than reading the input
            bills_writes=prices.write is not None and prices.write > (prices.input or 0),
        )

    @property
    def kept_seconds(self) -> float:
        """How long an entry is kept after its last use."""
        return KEPT_LONG_SECONDS if self.is_kept_long else KEPT_SECONDS


def next_input(bill: Usage, rule: CacheRule, *, is_cached: bool) -> Usage:
    """Return what the input of a chat's next turn will be billed as, after the bill of this one.

    Its answer and a short message come to it.
    """
    added = bill.output_tokens + QUESTION_TOKENS
    total = bill.input_tokens + added
    cached = cacheable_tokens(bill.input_tokens, rule) if is_cached else 0
    written = cacheable_tokens(total, rule) - cached if rule.bills_writes else 0
    return Usage(input_tokens=total, cached_tokens=cached, cache_write_tokens=max(0, written))


def cacheable_tokens(tokens: float, rule: CacheRule) -> int:
    """Return how much of a beginning of this size can be cached."""
    if rule.kind == "none" or tokens < rule.minimum_tokens:
        return 0
    return int(tokens) if rule.kind == "explicit" else int(tokens // rule.block_tokens) * rule.block_tokens


def dollars(amount: float) -> str:
    """Write an amount with two digits that count, and never fewer than cents: $12.30, $0.03, $0.0095."""
    if amount <= 0:
        return notice("dollars", amount=0, decimals=0)
    decimals = 2
    while decimals < 8 and amount * 10**decimals < 9.95:
        decimals += 1
    text = f"{amount:.{decimals}f}"
    zeros = len(text) - len(text.rstrip("0"))
    return notice("dollars", amount=amount, decimals=max(2, decimals - zeros))


def needs_breakpoints(model_id: str) -> bool:
    """Return whether the model's provider caches only up to explicit breakpoints."""
    return model_id.lstrip("~").partition("/")[0] in EXPLICIT_VENDORS
