"""Prices, the rules by which providers cache, and what the input of a chat's next turn will cost. Pure.

A provider reads what it has cached of a request at a lower price, as long as it keeps it.

`Prices.cost` alone multiplies tokens by prices; `paid` is the bill, and the list
where there is none.

Sources: OpenRouter's `pricing` and `usage`; the providers' published rules of prompt caching (minimum, block, how long
an entry is kept).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from ..planning.simulate import CachePrices
from ..responses.effects import Usage
from ..responses.tools import SERVER_TOOLS
from ..responses.values import as_count, as_list, as_number, as_object, as_text
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
MOST_PER_TOKEN: Final = 0.001
"""Dollars: no token costs as much, and no picture as little.

Below it, the price beside a picture is that of one of its tokens, as Google's
models have it.
"""

_NAMES: Final = {
    "input": "prompt",
    "output": "completion",
    "read": "input_cache_read",
    "write": "input_cache_write",
    "write_long": "input_cache_write_1h",
    "request": "request",
    "search": "web_search",
    "image": "image",
    "image_output": "image_output",
    "audio": "audio",
    "audio_read": "input_audio_cache",
    "audio_output": "audio_output",
    "reasoning": "internal_reasoning",
}
"""OpenRouter's names of what `Prices` holds."""
_LEAST: Final = "min_prompt_tokens"
_START: Final = "utc_start"
_END: Final = "utc_end"
_WEEKDAYS: Final = "utc_days"
_CONDITIONS: Final = {_LEAST, _START, _END, _WEEKDAYS}
_DAYS: Final = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)
_END_OF_DAY: Final = 2400


class Cost(NamedTuple):
    """What a request costs by the list, in dollars.

    `read` is what of `input` comes from the cache; `extras` are the request
    itself, searches and pictures.
    """

    input: float
    read: float
    output: float
    extras: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.input + self.output + self.extras


class Paid(NamedTuple):
    """What is paid for a request, in dollars.

    The `provider` is one whose own key is in the OpenRouter account.
    """

    openrouter: float = 0.0
    provider: float = 0.0

    @classmethod
    def total(cls, paid: Iterable[Paid]) -> Paid:
        """Return what is paid for all of them."""
        return cls(*map(sum, zip(cls(), *paid, strict=True)))


@dataclass(frozen=True, slots=True)
class PriceBand:
    """Other prices for the whole of a large request, or one at some hours.

    It has more input tokens than `more_than_tokens`. `start` and `end` are UTC
    clocks as numbers (1030 is half past ten), the end not included; past
    midnight where it is the lower one. `days` are the weekdays on which it is
    sent, from 0 for Monday; none for all.
    """

    prices: tuple[tuple[str, float | None], ...]
    more_than_tokens: int = -1
    start: int = 0
    end: int = _END_OF_DAY
    days: frozenset[int] = frozenset()

    @property
    def has_hours(self) -> bool:
        """Whether it depends on the time."""
        return bool(self.days) or (self.start, self.end) != (0, _END_OF_DAY)

    def holds(self, input_tokens: float, seconds: float | None) -> bool:
        """Whether it holds for so much input at this time.

        In epoch seconds; None is no hour in particular.
        """
        if input_tokens <= self.more_than_tokens:
            return False
        if seconds is None:
            return not self.has_hours
        now = datetime.fromtimestamp(seconds, UTC)
        clock = now.hour * 100 + now.minute
        is_within = self.start <= clock < self.end
        if self.start >= self.end:
            is_within = clock >= self.start or clock < self.end
        return is_within and (not self.days or now.weekday() in self.days)


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per token, per request and per search; None where unknown.

    `read` is for what the provider has cached, `write` for what it caches,
    `write_long` for what it keeps an hour; `audio`, `audio_read` and
    `audio_output` for spoken tokens, `reasoning` for thinking. `image` and
    `image_output` are for a token of a picture, or from `MOST_PER_TOKEN` on
    for a whole one. `bands` replace prices by size and by the hour; of two
    that hold, the later one counts.
    """

    input: float | None = None
    output: float | None = None
    read: float | None = None
    write: float | None = None
    write_long: float | None = None
    request: float | None = None
    search: float | None = None
    image: float | None = None
    image_output: float | None = None
    audio: float | None = None
    audio_read: float | None = None
    audio_output: float | None = None
    reasoning: float | None = None
    bands: tuple[PriceBand, ...] = ()

    @property
    def are_known(self) -> bool:
        """Whether anything can be said about what a request costs."""
        return self.input is not None

    def at(self, input_tokens: float, seconds: float | None = None) -> Prices:
        """Return what holds for a request of this size at this time.

        In epoch seconds; None is no hour in particular.
        """
        changed: dict[str, float | None] = {}
        for band in self.bands:
            if band.holds(input_tokens, seconds):
                changed |= dict(band.prices)
        return replace(self, **changed, bands=()) if changed else self

    def dearest(self) -> Prices:
        """Return the most that each may be, whatever the size and the hour."""
        if not self.bands:
            return self
        changed = (dict[str, Any](band.prices) for band in self.bands)
        return highest([self, *(replace(self, **each) for each in changed)])

    def cost(self, usage: Usage, *, seconds: float | None = None, long: bool = False) -> Cost:
        """Return what a request costs by the list.

        It was sent at `seconds`, and is kept for an hour where it is `long`.
        What has no price of its own costs as much as plain text. How much of
        the audio was cached no bill says: as little as can be.
        """
        now = self.at(usage.input_tokens, seconds) if self.bands else self
        plain, output = now.input or 0.0, now.output or 0.0
        write = now.write_long if long and now.write_long is not None else now.write
        write = plain if write is None else write
        read = plain if now.read is None else now.read
        audio = plain if now.audio is None else now.audio
        audio_read = read if now.audio_read is None else now.audio_read
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        uncached = usage.input_tokens - cached - written
        spoken = min(usage.audio_tokens, uncached)
        spoken_cached = min(usage.audio_tokens - spoken, cached)
        read_cost = (cached - spoken_cached) * read + spoken_cached * audio_read
        input_cost = (uncached - spoken) * plain + spoken * audio
        input_cost += written * write + read_cost
        by_token = now.image_output if (now.image_output or 0.0) < MOST_PER_TOKEN else None
        kinds = (
            (usage.reasoning_tokens, now.reasoning),
            (usage.audio_output_tokens, now.audio_output),
            (usage.image_output_tokens, by_token),
        )
        output_cost, left = 0.0, usage.output_tokens
        for tokens, price in kinds:
            of_kind = 0 if price is None else min(tokens, left)
            output_cost += of_kind * (price or 0.0)
            left -= of_kind
        output_cost += left * output
        by_picture = 0.0 if by_token is not None else now.image_output or 0.0
        extras = usage.searches * (now.search or 0.0) + usage.pictures * by_picture
        extras += (now.request or 0.0) if usage.total_tokens else 0.0
        return Cost(input_cost, read_cost, output_cost, extras)


NO_PRICES: Final = Prices()


def paid(usage: Usage, listed: float) -> Paid:
    """Return what is paid: the bill, or what the list says where there is none: of a failure, nothing.

    A bill of nothing is none, unless the list has nothing either. With a
    provider's key in the account, OpenRouter is paid its fee, which may be
    nothing, and the provider the rest.
    """
    if usage.byok_requests:
        return Paid(usage.cost, usage.provider_cost or listed)
    return Paid(usage.cost or listed)


def highest(rows: Iterable[Prices]) -> Prices:
    """Return the highest of each price."""
    most = dict[str, Any]()
    for row in rows:
        for name in _NAMES:
            price, so_far = getattr(row, name), most.get(name)
            if price is not None:
                most[name] = max(price, so_far or 0.0)
    return Prices(**most)


def read_prices(pricing: Any) -> Prices:
    """Read the `pricing` of a model, or of one of its endpoints.

    What cannot be read is left out. A negative price marks a router whose
    price varies. `discount` is a share that is yet to be taken off. A band
    with a condition that is not known holds for nothing.
    """
    row = as_object(pricing)
    discount = as_number(row.get("discount")) or 0.0
    share = 1 - discount if 0 < discount <= 1 else 1.0
    entries = map(as_object, as_list(row.get("overrides")))
    bands = (_read_band(entry, share) for entry in entries)
    return Prices(
        **dict(_read_each(row, share)),
        bands=tuple(filter(None, bands)),
    )


def _read_each(row: Mapping[str, Any], share: float) -> Iterator[tuple[str, float]]:
    for name, wire in _NAMES.items():
        if (price := _price(row.get(wire), share)) is not None:
            yield name, price


def _price(value: Any, share: float) -> float | None:
    """Dollars from a decimal string."""
    number = as_number(value)
    if number is None or number < 0:
        return None
    return number * share


def _read_band(entry: Mapping[str, Any], share: float) -> PriceBand | None:
    prices = tuple(_read_each(entry, share))
    other = entry.keys() - _NAMES.values() - _CONDITIONS
    # what is a number is another price
    unknown = any(as_number(entry[name]) is None for name in other)
    if not prices or unknown:
        return None
    start = as_count(entry.get(_START, 0))
    end = as_count(entry.get(_END, _END_OF_DAY))
    least = as_count(entry[_LEAST]) if _LEAST in entry else -1
    days = [*map(as_text, as_list(entry.get(_WEEKDAYS)))]
    named = [_DAYS.index(day.lower()) for day in days if day.lower() in _DAYS]
    are_read = len(named) == len(days) and bool(days) == (_WEEKDAYS in entry)
    if least is None or start is None or end is None or not are_read:
        return None
    return PriceBand(prices, least, start, end, frozenset(named))


def cache_prices(prices: Prices) -> CachePrices:
    """Return what a plan needs to know of a row, by size.

    The hour does not count: what was decided in a chat would change with it,
    and with that the cached prefix.
    """
    if not prices.bands:
        return CachePrices.of(prices.input, prices.read, prices.write)
    base = prices.at(0)
    sizes = sorted({band.more_than_tokens for band in prices.bands} - {-1})
    bands: list[tuple[int, CachePrices]] = []
    for size in sizes if base.input else ():
        above = prices.at(size + 1)
        plain = base.input if above.input is None else above.input
        read = plain if above.read is None else above.read
        write = plain if above.write is None else above.write
        bands.append((size, CachePrices.of(base.input, read, write)))
    found = CachePrices.of(base.input, base.read, base.write)
    return replace(found, bands=tuple(bands))


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


def dollars(amount: float, provider: float = 0.0) -> str:
    """Write an amount with two digits that count, and never fewer than cents: $12.30, $0.03, $0.0095.

    What a `provider` is paid besides is named, if there is anything.
    """
    if provider:
        return notice("cost_both", cost=dollars(amount), provider=dollars(provider))
    if amount <= 0:
        return notice("dollars", amount=0, decimals=0)
    decimals = 2
    while decimals < 8 and amount * 10**decimals < 9.95:
        decimals += 1
    text = f"{amount:.{decimals}f}"
    zeros = len(text) - len(text.rstrip("0"))
    return notice("dollars", amount=amount, decimals=max(2, decimals - zeros))


def tool_parts(paid: Iterable[tuple[tuple[str, ...], float]]) -> list[str]:
    """Write what was paid for tools, by those that were called together."""
    sums = defaultdict[tuple[str, ...], float](float)
    for names, cost in paid:
        sums[names] += cost
    parts = []
    for names, cost in sums.items():
        titles = [notice(f"switch_{name}") if name in SERVER_TOOLS else name for name in names]
        title = notice("joined", lines=titles, separator=" + ")
        parts.append(notice("joined", lines=(title, dollars(cost)), separator=" "))
    return parts


def needs_breakpoints(model_id: str) -> bool:
    """Return whether the model's provider caches only up to explicit breakpoints."""
    return model_id.lstrip("~").partition("/")[0] in EXPLICIT_VENDORS
