"""The most that a request may cost, which is held of a spending limit while it runs. Pure.

A request whose price is not known is not free: it holds what the dearest offered model would cost, so that beside it
little else runs near a limit. What it has cost is known with its bill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from ..planning.price import Prices
from ..ports import Model, RequestBody

HELD_OUTPUT_TOKENS: Final = 16_384
"""What an answer is taken to have at most where the request sets no limit."""
HELD_SHARE: Final = 1.1
"""Of the counted input: what the provider may count at most."""


@dataclass(frozen=True, slots=True)
class CostCeiling:
    """What bounds a request's cost: the models that may answer, first the one that is asked, and all offered ones.

    Of a model that the catalogue does not have, there is None. `searches` is how often the web may be searched.
    """

    models: Sequence[Model | None] = ()
    offered: Sequence[Model] = ()
    searches: int = 0

    def highest_cost(self, body: RequestBody, input_tokens: int) -> float:
        """Return the most that a request may be expected to cost: nothing cached, a long answer, every search."""
        prices, asked = self.prices, next(iter(self.models), None)
        dearest = max(prices.input or 0.0, prices.write or 0.0, prices.write_long or 0.0)
        most = (asked.max_output_tokens if asked else None) or HELD_OUTPUT_TOKENS
        output_tokens = body.get("max_output_tokens") or min(most, HELD_OUTPUT_TOKENS)
        return (
            input_tokens * HELD_SHARE * dearest
            + output_tokens * (prices.output or 0.0)
            + (prices.request or 0.0)
            + self.searches * (prices.search or 0.0)
        )

    @property
    def prices(self) -> Prices:
        """The highest prices of the models; one without a price may cost what the dearest offered one does."""
        prices = [prices_of(model) for model in self.models]
        if not all(each.are_known for each in prices):
            prices += map(prices_of, self.offered)
        return _highest(prices)


def prices_of(model: Model | None) -> Prices:
    """Return the prices of a model of the catalogue; none of one that it does not have."""
    if model is None:
        return Prices()
    return Prices(
        model.price_input,
        model.price_output,
        model.price_cache_read,
        model.price_cache_write,
        model.price_cache_write_1h,
        model.price_request,
        model.price_search,
    )


def _highest(prices: Sequence[Prices]) -> Prices:
    """The highest of each price that is known."""
    names = [field.name for field in fields(Prices)]
    known = ([price for each in prices if (price := getattr(each, name)) is not None] for name in names)
    return Prices(*(max(values, default=None) for values in known))
