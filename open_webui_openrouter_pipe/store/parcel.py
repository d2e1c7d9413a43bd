"""Rows as single values, for Redis: the sealed bytes with their names before them.

Pure: bytes in, bytes out. A value that does not read is None, never an error.
"""

from __future__ import annotations

import json
from typing import Final

from .rows import SealedRow

GONE: Final = b"-"
"""The value of a row that was deleted."""

# JSON text holds no NUL byte, so the first one ends the names.
_SEPARATOR: Final = b"\0"


def wrap(row: SealedRow) -> bytes:
    """Write a row as one value."""
    names = json.dumps([*row[:8], *row[9:]], separators=(",", ":")).encode()
    return names + _SEPARATOR + row.payload


def unwrap(value: bytes, *, user_id: str, row_id: str) -> SealedRow | None:
    """Read a row; None when the value is no row, or not this one of this owner."""
    names, separator, payload = value.partition(_SEPARATOR)
    if not separator:
        return None
    try:
        fields = json.loads(names)
        row = SealedRow._make([*fields[:8], payload, *fields[8:]])
    except (ValueError, TypeError, KeyError):
        return None
    return row if (row.user_id, row.id) == (user_id, row_id) else None
