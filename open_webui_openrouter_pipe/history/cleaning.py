"""Text that UTF-8 JSON and databases can hold: no half surrogates, no NUL.

Owns the check and the copy; a value that is clean already is given back as it is, since a history is mostly
clean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ..responses.surrogates import mend_text

TOO_DEEP = "[nested too deeply]"
"""What stands for a value that cannot be walked."""

_HALF = re.compile("[\ud800-\udfff]")
_CONTAINERS = (dict, list)


def clean_text(text: str) -> str:
    """Join surrogate pairs, replace lone halves with U+FFFD and drop NUL."""
    return mend_text(text.replace("\0", "")) if _is_dirty_text(text) else text


def clean(value: Any) -> Any:
    """Clean all text within a JSON value; copies only what has to change somewhere."""
    return _cleaned(value) if _is_dirty(value) else value


def json_text(value: Any) -> str:
    """Write a value as compact JSON, cleaned; what JSON has no form for is written as text."""
    try:
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        return TOO_DEEP


def _is_dirty_text(text: str) -> bool:
    return "\0" in text or (not text.isascii() and _HALF.search(text) is not None)


def _is_dirty(value: Any) -> bool:
    if isinstance(value, str):
        return _is_dirty_text(value)
    if isinstance(value, dict):
        return _has_dirty(value) or _has_dirty(value.values())
    return isinstance(value, list) and _has_dirty(value)


def _has_dirty(members: Iterable[Any]) -> bool:
    """A plain loop: every artifact is walked on its way back, and generators would cost most of the time."""
    for member in members:
        if isinstance(member, str):
            if "\0" in member or not (member.isascii() or _HALF.search(member) is None):
                return True
        elif isinstance(member, _CONTAINERS) and member and _is_dirty(member):
            return True
    return False


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {
            clean_text(key) if isinstance(key, str) else key: _cleaned(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(member) for member in value]
    return value
