"""Coercers for values off the wire: each returns a value of the wanted type, or an empty one, and never raises."""

from __future__ import annotations

import math
from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array, [] for anything else."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a string as it is, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int | None:
    """Return an integer of at least 0, None for anything else (booleans too)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def as_number(value: Any) -> float | None:
    """Return a finite number, None for anything else; numbers in strings, as prices are written, are read."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
