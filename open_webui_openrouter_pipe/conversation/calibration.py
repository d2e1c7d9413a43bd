"""What a model's own tokenizer makes of our counts, learned from what the provider billed.

Owns one weight for each content class with its uncertainty, as a value: an observation gives the next one.
It must not be used for the fold (whose bounds would move); it moves only the line at which a request is too
large. Whoever uses it keeps it, by model.

The method is a Bayesian linear regression (a Kalman filter whose state is the weights): tokens billed are
the sum of the classes' counts times their weights. Before anything is seen the weights are one and vary
together, because a vendor's tokenizer is usually coarser or finer for all classes at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .tokens import TokenCounts

CLASSES = len(TokenCounts._fields)
PRIOR_DEVIATION = 0.20
PRIOR_CORRELATION = 0.7
DRIFT_DEVIATION = 0.004
NOISE_DEVIATION = 0.01
NOISE_RANGE = (0.004, 0.05)
NOISE_MEMORY = 0.9
SURPRISE_DEVIATIONS = 4.0
ADMISSION_DEVIATIONS = 1.645
"""One-sided 95 %."""
LEAST_TOKENS = 200
LEAST_RATIO, MOST_RATIO = 0.4, 2.5
"""Between which a tokenizer's count lies, as a share of the plain count."""
FIRST_BILLS = 2

Matrix = tuple[tuple[float, ...], ...]


def _prior() -> Matrix:
    variance = PRIOR_DEVIATION**2
    return tuple(
        tuple(variance if row == column else variance * PRIOR_CORRELATION for column in range(CLASSES))
        for row in range(CLASSES)
    )


@dataclass(frozen=True, slots=True)
class Calibration:
    """The weights of the classes, how they vary, and how far single observations stray (as a share)."""

    weights: tuple[float, ...] = (1.0,) * CLASSES
    covariance: Matrix = field(default_factory=_prior)
    noise: float = NOISE_DEVIATION
    seen: int = 0

    def expected_tokens(self, tally: TokenCounts) -> int:
        """What the provider will probably bill."""
        return max(0, round(_dot(self.weights, tally)))

    def upper_tokens(self, tally: TokenCounts) -> int:
        """What the provider will bill at most, with 95 % confidence."""
        expected = _dot(self.weights, tally)
        spread = math.sqrt(_spread(self.covariance, tally) + (self.noise * expected) ** 2)
        return max(0, math.ceil(expected + ADMISSION_DEVIATIONS * spread))

    def observed(self, tally: TokenCounts, billed_tokens: int) -> Calibration:
        """What is known after a request with these counts was billed.

        Too small ones teach nothing, and neither do bills that no tokenizer explains: the provider has read more.
        """
        if tally.tokens < LEAST_TOKENS or not LEAST_RATIO <= billed_tokens / tally.tokens <= MOST_RATIO:
            return self
        shares = [count / billed_tokens for count in tally]
        surprise = 1.0 - _dot(self.weights, shares)
        reach = [_dot(row, shares) for row in self.covariance]
        known = _dot(reach, shares)
        variance = known + self.noise**2
        bound = SURPRISE_DEVIATIONS * math.sqrt(variance)
        step = max(-bound, min(bound, surprise)) / variance
        return Calibration(
            tuple(max(0.0, weight + gain * step) for weight, gain in zip(self.weights, reach, strict=True)),
            _narrowed(self.covariance, reach, variance),
            self._next_noise(surprise, known),
            self.seen + 1,
        )

    def state(self) -> dict[str, Any]:
        """The calibration as plain JSON."""
        return {
            "classes": list(TokenCounts._fields),
            "weights": list(self.weights),
            "covariance": [list(row) for row in self.covariance],
            "noise": self.noise,
            "seen": self.seen,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Calibration:
        """Read what `state` gave; a fresh one when the classes have changed since or it cannot be read."""
        try:
            if tuple(state["classes"]) != TokenCounts._fields:
                return cls()
            covariance = tuple(tuple(map(float, row)) for row in state["covariance"])
            weights = tuple(map(float, state["weights"]))
            if len(weights) != CLASSES or [len(row) for row in covariance] != [CLASSES] * CLASSES:
                return cls()
            return cls(weights, covariance, float(state["noise"]), int(state["seen"]))
        except (KeyError, TypeError, ValueError):
            return cls()

    def _next_noise(self, surprise: float, known_variance: float) -> float:
        """How far bills stray by themselves; the first ones say more about the weights."""
        if self.seen < FIRST_BILLS:
            return self.noise
        excess = max(0.0, surprise**2 - known_variance)
        low, high = NOISE_RANGE
        return min(high, max(low, math.sqrt(NOISE_MEMORY * self.noise**2 + (1 - NOISE_MEMORY) * excess)))


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(mine * other for mine, other in zip(left, right, strict=True))


def _spread(covariance: Matrix, tally: Sequence[float]) -> float:
    return max(0.0, _dot([_dot(row, tally) for row in covariance], tally))


def _narrowed(covariance: Matrix, reach: Sequence[float], variance: float) -> Matrix:
    drift = DRIFT_DEVIATION**2
    return tuple(
        tuple(
            value - reach[row] * reach[column] / variance + (drift if row == column else 0.0)
            for column, value in enumerate(values)
        )
        for row, values in enumerate(covariance)
    )
