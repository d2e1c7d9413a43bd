"""How many tokens a model's provider bills for a token that we count, learned from its bills.

It does not decide where a chat is cut (those cuts would move with each bill), only when a request is too large.

The ratio is of text: media and sealed reasoning are counted by rules of their own and taken as counted. It is an
exponentially weighted average, and so is the variance of the bills around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .tokens import TokenCounts

PRIOR_DEVIATION = 0.12
BILL_WEIGHT = 0.4
"""Weight of the newest bill, once there have been so many that it is less than their mean."""
MIN_DEVIATION = 0.01
UPPER_DEVIATIONS = 2.0
MAX_SURPRISE_DEVIATIONS = 4.0
"""A single bill counts as straying no farther than this from what was expected."""
MIN_TEXT_TOKENS = 200
MIN_TEXT_SHARE = 0.5
"""Of what was counted: bills of smaller or less textual requests say little about the ratio of text."""
RATIO_RANGE = (0.4, 2.5)
"""Between which a tokenizer's ratio lies; other bills are for something else than the input alone."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Billed per counted text tokens, the standard deviation of single bills, and how many bills were seen."""

    ratio: float = 1.0
    deviation: float = PRIOR_DEVIATION
    seen: int = 0

    def upper_tokens(self, counts: TokenCounts) -> int:
        """Return what the provider will hardly exceed: the ratio and two standard deviations."""
        ratio = self.ratio + UPPER_DEVIATIONS * self.deviation
        return math.ceil(counts.text * ratio) + counts.media + counts.sealed

    def observed(self, counts: TokenCounts, billed_tokens: int) -> Calibration:
        """Return what is known after a request with these counts was billed; itself when the bill says nothing."""
        if counts.text < max(MIN_TEXT_TOKENS, MIN_TEXT_SHARE * counts.tokens):
            return self
        ratio = (billed_tokens - counts.media - counts.sealed) / counts.text
        low, high = RATIO_RANGE
        if not low <= ratio <= high:
            return self
        surprise = ratio - self.ratio
        if self.seen:
            bound = MAX_SURPRISE_DEVIATIONS * self.deviation
            surprise = max(-bound, min(bound, surprise))
        variance = self.deviation**2
        if self.seen:  # the first bill's distance says how the tokenizers differ, not how bills stray
            variance += BILL_WEIGHT * (surprise**2 - variance)
        weight = max(BILL_WEIGHT, 1 / (self.seen + 1))
        return Calibration(
            self.ratio + weight * surprise, max(MIN_DEVIATION, math.sqrt(variance)), self.seen + 1
        )

    def as_json(self) -> dict[str, Any]:
        """Return the calibration as plain JSON."""
        return {"ratio": self.ratio, "deviation": self.deviation, "seen": self.seen}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Calibration:
        """Read what `as_json` returned; a fresh calibration when it cannot be read."""
        try:
            read = cls(float(state["ratio"]), float(state["deviation"]), int(state["seen"]))
        except (KeyError, TypeError, ValueError):
            return cls()
        low, high = RATIO_RANGE
        return read if low <= read.ratio <= high and 0 <= read.deviation < high else cls()
