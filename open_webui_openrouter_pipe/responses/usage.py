"""What a round cost: the Responses `usage` object as a value, and its sum over rounds.

Counts are tokens, costs are US dollars as OpenRouter bills them. Missing figures are zero; unknown ones are
kept out. This module owns the reading and adding of usage; it does not price anything.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and dollars of one round, or the sum of several."""

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Add figure by figure."""
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Usage)))

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


def read_usage(wire: Any) -> Usage | None:
    """Read the wire's `usage` object; None when there is none. Wrong types count as zero."""
    if not isinstance(wire, dict):
        return None
    input_details = _object(wire.get("input_tokens_details"))
    output_details = _object(wire.get("output_tokens_details"))
    return Usage(
        input_tokens=_count(wire.get("input_tokens")),
        cached_tokens=_count(input_details.get("cached_tokens")),
        cache_write_tokens=_count(input_details.get("cache_write_tokens")),
        output_tokens=_count(wire.get("output_tokens")),
        reasoning_tokens=_count(output_details.get("reasoning_tokens")),
        cost=_dollars(wire.get("cost")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _dollars(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
