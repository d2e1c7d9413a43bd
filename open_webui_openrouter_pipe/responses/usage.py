"""What a round cost: the Responses `usage` object as a value, and its sum over rounds.

Counts are tokens, costs are US dollars as OpenRouter bills them. Missing values are zero, unknown ones are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .wire import as_count, as_number, as_object


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
        """Add field by field."""
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Usage)))

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


def read_usage(wire: Any) -> Usage | None:
    """Read the wire's `usage` object; None when there is none. Values of a wrong type count as zero."""
    if not isinstance(wire, dict):
        return None
    input_details = as_object(wire.get("input_tokens_details"))
    output_details = as_object(wire.get("output_tokens_details"))
    return Usage(
        input_tokens=as_count(wire.get("input_tokens")) or 0,
        cached_tokens=as_count(input_details.get("cached_tokens")) or 0,
        cache_write_tokens=as_count(input_details.get("cache_write_tokens")) or 0,
        output_tokens=as_count(wire.get("output_tokens")) or 0,
        reasoning_tokens=as_count(output_details.get("reasoning_tokens")) or 0,
        cost=as_number(wire.get("cost")) or 0.0,
    )
