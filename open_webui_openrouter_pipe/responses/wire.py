"""Numbers as hosts and catalogues write them: as JSON numbers, or as text."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> float | None:
    """The finite number that a number or a text says; None for anything else, truth values among them."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
