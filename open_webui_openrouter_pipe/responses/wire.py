"""Values off the wire, coerced to a type, and names as the wire accepts them.

Each coercer returns a value of the wanted type, or an empty one, and never raises. The host allows any text as the
name of a tool (MCP servers use dots and slashes), providers only `^[a-zA-Z0-9_-]{1,64}$`.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import Any, Final

_MAX_COUNT: Final = 2**53
"""Beyond it a JSON number is not exact, and a count nonsense."""

_ACCEPTED: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEPT_CHARACTERS: Final = 55


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
    """Return an integer from 0 to 2**53, None for anything else (booleans too)."""
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None


def is_web_address(value: Any) -> bool:
    """Whether a value is an http or https URL, to which a page may link."""
    return as_text(value)[:8].lower().startswith(("https://", "http://"))


def as_number(value: Any) -> float | None:
    """Return a finite number, None for anything else; numbers in strings, as prices are written, are read."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def wire_name(name: str) -> str:
    """Return the name to send; a changed one ends in a digest, so that two names never become the same."""
    if _ACCEPTED.fullmatch(name):
        return name
    if not name:
        return "unnamed_tool"
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:_KEPT_CHARACTERS]}_{digest}"
