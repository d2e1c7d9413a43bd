"""Prompt caching and its price, as the providers have them.

A pure module: the caller brings tokens, prices and the time, and gets back what was read, written and paid.
It must not know HTTP, JSON or the catalogue, so that a benchmark can drive it directly.

Sources: the providers' published rules. Automatic caches (OpenAI and most others) share the longest common
prefix in whole blocks; explicit caches (Anthropic) write at breakpoints and read at a block end at most
twenty blocks before a breakpoint. Nothing shorter than the model's minimum is cached, and a read renews the
entry.
"""

from __future__ import annotations

import hashlib
import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEARCH_DOLLARS = Decimal("0.01")
LOOKBACK_SEGMENTS = 20
MAX_BREAKPOINTS = 4
SHORT_TTL_SECONDS = 300.0
LONG_TTL_SECONDS = 3600.0
DIGEST_BYTES = 16
EPOCH_WEEKDAY = 3
"""The first of January 1970 was a Thursday."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the prompt that the provider sees as one block, and whether a cache breakpoint ends it.

    ``keyed_with`` are settings that are no part of the prompt, but without which an explicit cache knows neither
    this block nor those behind it. Automatic caches look at the tokens alone.
    """

    tokens: Sequence[int]
    breakpoint: bool = False
    keyed_with: bytes = b""


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How one model's provider caches; times are seconds, the rest is tokens."""

    kind: Literal["automatic", "explicit", "none"] = "automatic"
    minimum_tokens: int = 1024
    block_tokens: int = 128
    ttl_seconds: float = SHORT_TTL_SECONDS
    writes_billed: bool = False


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per token; a cache price that is missing means that the plain input price applies."""

    prompt: Decimal = Decimal(0)
    completion: Decimal = Decimal(0)
    input_cache_read: Decimal | None = None
    input_cache_write: Decimal | None = None
    input_cache_write_1h: Decimal | None = None


@dataclass(frozen=True, slots=True)
class PriceWindow:
    """Prices of whole requests, in place of others: of long ones, or at some hours.

    They have more prompt tokens than `above_tokens`, and come from `opens` to before `closes`, which are minutes of the
    UTC day, through midnight where it closes earlier; `weekdays` are 0 for Monday to 6, empty for all.
    """

    rates: dict[str, Decimal]
    above_tokens: int | None = None
    opens: int | None = None
    closes: int | None = None
    weekdays: frozenset[int] = frozenset()

    def covers(self, tokens: int, now: float) -> bool:
        """Whether a request of so many tokens falls into it."""
        day, minute = divmod(int(now // 60), 24 * 60)
        opens, closes = self.opens or 0, 24 * 60 if self.closes is None else self.closes
        open_minutes = (closes - opens) % (24 * 60) or 24 * 60
        return (
            (self.above_tokens is None or tokens > self.above_tokens)
            and (minute - opens) % (24 * 60) < open_minutes
            and (not self.weekdays or (day + EPOCH_WEEKDAY) % 7 in self.weekdays)
        )


@dataclass(frozen=True, slots=True)
class CachedModel:
    """What an account needs to know of a model."""

    id: str
    prices: Prices = field(default_factory=Prices)
    rule: CacheRule = field(default_factory=CacheRule)
    windows: tuple[PriceWindow, ...] = ()

    def prices_of(self, tokens: int, now: float) -> Prices:
        """The prices of a request of so many prompt tokens; of several windows, the last one decides each price."""
        rates: dict[str, Decimal] = {}
        for window in self.windows:
            rates |= window.rates if window.covers(tokens, now) else {}
        return replace(self.prices, **rates)


@dataclass(frozen=True, slots=True)
class Usage:
    """What one request's input came to: token counts, and dollars."""

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    input_cost: Decimal


class PromptCache:
    """What the providers remember, by model and session; a session names an account and a conversation."""

    def __init__(self) -> None:
        self._expiry: dict[tuple[str, str], dict[bytes, float]] = {}

    def account(self, model: CachedModel, session: str, segments: Sequence[Segment], now: float) -> Usage:
        """Read what is cached, write what is new, and say what the input costs.

        Args:
            model: The model with its prices and its caching rule.
            session: Names the account and the conversation; other sessions share nothing.
            segments: The prompt in the provider's order: tools, instructions, input items.
            now: The time in seconds since 1970.
        """
        known = self._expiry.get((model.id, session), {})
        entries = {digest: expiry for digest, expiry in known.items() if expiry > now}
        found = _LOOKS[model.rule.kind](model.rule, segments, entries)
        total = sum(len(segment.tokens) for segment in segments)
        self._expiry[model.id, session] = entries | dict.fromkeys(found.renewed, now + model.rule.ttl_seconds)
        written = found.written if model.rule.writes_billed else 0
        model = replace(model, prices=model.prices_of(total, now))
        return Usage(total, found.cached, written, _input_cost(model, total, found.cached, written))


@dataclass(frozen=True, slots=True)
class _Found:
    cached: int = 0
    written: int = 0
    renewed: tuple[bytes, ...] = ()


def _automatic(rule: CacheRule, segments: Sequence[Segment], entries: dict[bytes, float]) -> _Found:
    tokens = array("Q", itertools.chain.from_iterable(segment.tokens for segment in segments))
    if len(tokens) < rule.minimum_tokens:
        return _Found()
    size = rule.block_tokens
    digests = list(_chain(tokens[at : at + size].tobytes() for at in range(0, len(tokens) - size + 1, size)))
    hits = next((at for at, digest in enumerate(digests) if digest not in entries), len(digests)) * size
    cached = hits if hits >= rule.minimum_tokens else 0
    return _Found(cached, len(digests) * size - cached, tuple(digests))


def _explicit(rule: CacheRule, segments: Sequence[Segment], entries: dict[bytes, float]) -> _Found:
    digests = list(_chain(segment.keyed_with + array("Q", segment.tokens).tobytes() for segment in segments))
    ends = list(itertools.accumulate(len(segment.tokens) for segment in segments))
    marks = [at for at, segment in enumerate(segments) if segment.breakpoint][-MAX_BREAKPOINTS:]
    reachable = {at for mark in marks for at in range(max(0, mark - LOOKBACK_SEGMENTS), mark + 1)}
    hit = max((at for at in reachable if digests[at] in entries), default=None)
    cached = ends[hit] if hit is not None else 0
    kept = [at for at in marks if ends[at] >= rule.minimum_tokens]
    written = max(0, ends[kept[-1]] - cached) if kept else 0
    renewed = [*kept, hit] if hit is not None else kept
    return _Found(cached, written, tuple(digests[at] for at in renewed))


def _chain(pieces: Iterable[bytes]) -> Iterator[bytes]:
    running = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        running.update(piece)
        yield running.copy().digest()


def _input_cost(model: CachedModel, total: int, cached: int, written: int) -> Decimal:
    prices = model.prices
    long_lived = model.rule.ttl_seconds >= LONG_TTL_SECONDS
    write = (prices.input_cache_write_1h if long_lived else None) or prices.input_cache_write
    read_price = prices.prompt if prices.input_cache_read is None else prices.input_cache_read
    write_price = prices.prompt if write is None else write
    plain = total - cached - written
    return plain * prices.prompt + cached * read_price + written * write_price


_LOOKS: dict[str, Callable[[CacheRule, Sequence[Segment], dict[bytes, float]], _Found]] = {
    "automatic": _automatic,
    "explicit": _explicit,
    "none": lambda *_: _Found(),
}
