"""How much of a model's window is left for input.

Owns the arithmetic of window, reserves and budget. It must not look models up: the catalogue's figures come
in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import ContextBudgetExceeded

FALLBACK_WINDOW_TOKENS = 8192
OUTPUT_SHARE = 0.20
OVERHEAD_SHARE = 0.05
LEAST_OVERHEAD_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Budget:
    """A window and what of it is spoken for, in tokens."""

    window_tokens: int
    output_reserve_tokens: int
    overhead_reserve_tokens: int

    @property
    def input_tokens(self) -> int:
        """What the input may come to."""
        return self.window_tokens - self.output_reserve_tokens - self.overhead_reserve_tokens


def smallest_window(windows_tokens: Iterable[int | None]) -> int:
    """Give the window that holds for every model that may serve; unknown ones count as the fallback."""
    known = (tokens if tokens and tokens > 0 else FALLBACK_WINDOW_TOKENS for tokens in windows_tokens)
    return min(known, default=FALLBACK_WINDOW_TOKENS)


class NoRoom(ContextBudgetExceeded):
    """The window leaves no room for any input, whatever the request holds."""

    def __init__(self, budget: Budget) -> None:
        """Name the window."""
        self.budget = budget
        self.limit_tokens = self.needed_tokens = 0
        super().__init__(
            f"The model's window of {budget.window_tokens:,} tokens leaves no room for any input.",
            advice="Choose a model with a larger window.",
            detail=str(budget),
        )


def budget_of(window_tokens: int, *, output_tokens: int) -> Budget:
    """Divide a window; `output_tokens` is what the request asks for, or the setting's reserve."""
    return Budget(
        window_tokens,
        min(output_tokens, int(window_tokens * OUTPUT_SHARE)),
        max(LEAST_OVERHEAD_TOKENS, int(window_tokens * OVERHEAD_SHARE)),
    )
