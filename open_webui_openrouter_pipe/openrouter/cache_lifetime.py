"""How long Anthropic's cache keeps a chat: five minutes, or for a higher price of writing an hour.

Pure. Source of the prices and lifetimes: Anthropic's guide to prompt caching, and the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from ..planning.price import KEPT_LONG_SECONDS, KEPT_SECONDS
from ..ports import Model

CacheLifetime = Literal["5m", "1h"]

_SECONDS: Final[dict[CacheLifetime, float]] = {"5m": KEPT_SECONDS, "1h": KEPT_LONG_SECONDS}
_READ, _WRITE, _WRITE_1H = 0.1, 1.25, 2.0
"""What Anthropic charges for a token read from the cache and written to it, of what plain input costs."""


def cheapest_lifetime(pauses_seconds: Sequence[float], model: Model | None) -> CacheLifetime:
    """Return the lifetime with which the chat so far would have cost least.

    Its turns are taken to be of one size. After a pause within the lifetime, all turns before it are read and the new
    one is written; after a longer one all are written anew. With no pause beyond five minutes, an hour only costs
    more; with each beyond an hour too. The order matters little, the number of turns that a pause loses much.
    """
    prices = _prices(model)
    costs = {lifetime: _cost(pauses_seconds, lifetime, prices) for lifetime in _SECONDS}
    return "1h" if costs["1h"] < costs["5m"] else "5m"


def _prices(model: Model | None) -> dict[str, float]:
    """The catalogue's prices, and Anthropic's usual ones where it names none."""
    plain = (model.price_input if model else None) or 1.0
    known = (
        (model.price_cache_read, model.price_cache_write, model.price_cache_write_1h)
        if model
        else (None,) * 3
    )
    usual = {"read": _READ, "5m": _WRITE, "1h": _WRITE_1H}
    return {
        name: share * plain if price is None else price
        for (name, share), price in zip(usual.items(), known, strict=True)
    }


def _cost(pauses_seconds: Sequence[float], lifetime: CacheLifetime, prices: dict[str, float]) -> float:
    """What the turns cost, the size of one turn times its prices; the first is written in any case."""
    cost = prices[lifetime]
    for turns_before, pause_seconds in enumerate(pauses_seconds, 1):
        kept = pause_seconds < _SECONDS[lifetime]
        cost += turns_before * prices["read" if kept else lifetime] + prices[lifetime]
    return cost
