"""How many tokens a model's provider bills for what we count, learned from its bills.

A bill is a constant, for what providers add to each request unseen, and a ratio of the text; media and sealed reasoning
are counted by rules of their own and taken as counted. A single bill never moves either: what is learned is the
median of a bill, the one before it and what was known, so that it takes two bills to contradict the others.

It does not decide where a chat is cut (those cuts would move with each bill), only when a request is too large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from statistics import median
from typing import Any

from .tokens import TokenCounts

MIN_RATIO_TOKENS = 4_000
"""Of text: in the bills of smaller requests, the constant weighs more than any difference of tokenizers."""
MAX_CONSTANT_TOKENS = 1_000
"""What vendors add unseen is some tens to some hundreds of tokens, most of it with tools."""
CONSTANT_GAIN = 0.5
PRIOR_TOKENS = 2_000
"""How much text is taken to have been billed as counted, before the first bill."""
MAX_KNOWN_TOKENS = 50_000
"""How much billed text outweighs a smaller new bill; a larger one weighs at least as much as all before it."""
EXACT_SHARE = 0.02
"""Two bills that are no farther apart are exact."""
MIN_TEXT_SHARE = 0.5
"""Of what was counted: bills of requests with less text say little about the ratio of text."""
RATIO_RANGE = (0.4, 2.5)
"""Between which a tokenizer's ratio lies; other bills are for something else than the input alone."""
UPPER_DEVIATIONS = 3.0
MIN_MARGIN = 0.03
"""Within which the ratio of a growing chat moves from one bill to the next, however exact they were before."""
MIN_BILLS_BELOW_ONE = 6
"""From so many bills on, a ratio below one is believed: by then 95 % of the errors are under 5 %."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Tokens billed with every request, and billed per counted token of text, with the mean deviation of that ratio.

    `known_tokens` is how much text the ratio rests on, `bills` how many bills of large requests were seen.
    `last_constant_tokens` and `last_ratio` are what the newest bills would say by themselves.
    """

    constant_tokens: float = 0.0
    ratio: float = 1.0
    deviation: float = 0.0
    known_tokens: float = PRIOR_TOKENS
    bills: int = 0
    last_constant_tokens: float = 0.0
    last_ratio: float = 1.0

    @property
    def upper_ratio(self) -> float:
        """What a large request will hardly exceed, as a share of its counted text; 1 as long as nothing is sure."""
        if not self.bills:
            return 1.0
        upper = self.ratio + max(UPPER_DEVIATIONS * self.deviation, MIN_MARGIN)
        return upper if self.bills >= MIN_BILLS_BELOW_ONE else max(1.0, upper)

    def upper_tokens(self, counts: TokenCounts) -> int:
        """Return what the provider will hardly exceed."""
        return math.ceil(self.constant_tokens + counts.text * self.upper_ratio) + counts.media + counts.sealed

    def observed(self, counts: TokenCounts, billed_tokens: int) -> Calibration:
        """Return what is known after a request with these counts was billed; itself when the bill says nothing."""
        billed_text_tokens = billed_tokens - counts.media - counts.sealed
        if billed_text_tokens <= 0 or counts.text < MIN_TEXT_SHARE * counts.tokens:
            return self
        if counts.text < MIN_RATIO_TOKENS:
            return self._with_constant(billed_text_tokens - self.ratio * counts.text)
        ratio = (billed_text_tokens - self.constant_tokens) / counts.text
        low, high = RATIO_RANGE
        return self._with_ratio(ratio, counts.text) if low <= ratio <= high else self

    def _with_constant(self, constant_tokens: float) -> Calibration:
        steady = median((constant_tokens, self.last_constant_tokens, self.constant_tokens))
        moved = self.constant_tokens + CONSTANT_GAIN * (steady - self.constant_tokens)
        return replace(
            self,
            constant_tokens=min(max(moved, 0.0), MAX_CONSTANT_TOKENS),
            last_constant_tokens=constant_tokens,
        )

    def _with_ratio(self, ratio: float, text_tokens: int) -> Calibration:
        """Average by size; two exact bills that no constant explains take the place of all that was known before."""
        seen = replace(self, bills=self.bills + 1, last_ratio=ratio)
        steady = median((ratio, self.last_ratio, self.ratio))
        surprise = abs(steady - self.ratio)
        if surprise * text_tokens > MAX_CONSTANT_TOKENS and abs(ratio - self.last_ratio) <= EXACT_SHARE:
            return replace(seen, ratio=steady, known_tokens=text_tokens)
        known_tokens = min(self.known_tokens, max(text_tokens, MAX_KNOWN_TOKENS))
        gain = text_tokens / (known_tokens + text_tokens)
        return replace(
            seen,
            ratio=self.ratio + gain * (steady - self.ratio),
            deviation=self.deviation + gain * (surprise - self.deviation),
            known_tokens=known_tokens + text_tokens,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the calibration as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Calibration:
        """Read what `as_json` returned; a fresh calibration when it cannot be read."""
        try:
            read = cls(**{field.name: state[field.name] for field in fields(cls)})
            is_sound = all(math.isfinite(value) for value in asdict(read).values())
        except (KeyError, TypeError, ValueError):
            return cls()
        low, high = RATIO_RANGE
        return read if is_sound and low <= read.ratio <= high else cls()
