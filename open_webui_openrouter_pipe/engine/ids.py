"""New artifact ids: the one place that reads the clock and rolls dice for them."""

from __future__ import annotations

import secrets
import time

from ..history.markers import item_id

_RANDOM_BITS = 20
"""Four characters of Crockford base32."""


def generate_item_id() -> str:
    """Make a new 20-character ULID: 16 characters of time in nanoseconds, 4 of randomness; later ids sort later."""
    return item_id(time.time_ns(), secrets.randbits(_RANDOM_BITS))
