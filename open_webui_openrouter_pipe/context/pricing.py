"""When it pays to change the past of a chat.

Owns the economics of a cached prefix. Changing something old makes the provider read all that follows anew;
leaving it there costs its reading with every request. It must not know turns or items: tokens in, a
decision out.

The rule is rent-or-buy: what the waiting has cost so far is held against what the change costs now. In a
chat that grows steadily, changing when the two are equal is the optimum of the economic order quantity; it
needs no guess of how long the chat will go on.
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE = 0.6
"""Share of the cost of a change that waiting may come to. Below one, because the decision comes once a turn
only and so is late by half a turn on average, and because each change makes the next one cheaper."""

RATIO_DIGITS = 2
CHEAP_READ = 0.25
"""Price up to which reading a whole chat from the cache costs less than reading its old turns alone."""


@dataclass(frozen=True, slots=True)
class CachePrices:
    """What a token costs when it is read from the cache and when it is written to it; plain input costs 1."""

    read: float = 1.0
    write: float = 1.0

    @classmethod
    def of(
        cls, price_input: float | None, price_read: float | None, price_write: float | None
    ) -> CachePrices:
        """Read a catalogue row, rounded, so that a small change of prices moves nothing decided before.

        A model without a price for cached reads does not cache; one without a price for writes does not
        bill them.
        """
        if not price_input or price_input < 0 or price_read is None:
            return cls()
        write = price_input if price_write is None else price_write
        return cls(round(price_read / price_input, RATIO_DIGITS), round(write / price_input, RATIO_DIGITS))

    @property
    def rides(self) -> bool:
        """Whether a question is asked best at the end of a chat that is in the cache, or else by itself."""
        return self.read <= CHEAP_READ

    def waiting_cost(self, prunable_tokens: int) -> float:
        """What one more request pays for carrying what could be pruned."""
        return prunable_tokens * self.read

    def change_cost(self, following_tokens: int, won_tokens: int) -> float:
        """What the next request pays more for `following_tokens`, of which `won_tokens` go away."""
        return (following_tokens - won_tokens) * self.write - following_tokens * self.read

    def pays(self, waited_cost: float, change_cost: float) -> bool:
        """Tell whether the waiting so far has cost enough to make the change worth it."""
        return waited_cost >= PATIENCE * change_cost
