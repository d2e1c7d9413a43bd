"""Halves of UTF-16 surrogate pairs, as JSON escapes such as "\ud83d" bring them.

A provider that cuts its text between UTF-16 units sends the halves of one character in two deltas; a lone
half cannot be encoded as UTF-8 and would break whoever writes it. Owns the joining and the replacement of
halves.

Text that UTF-8 JSON and databases can hold: no half surrogates, no NUL.

Owns the check and the copy; a value that is clean already is given back as it is, since a history is mostly
clean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

REPLACEMENT = "\ufffd"
_HALF = re.compile("[\ud800-\udfff]")


def mend_text(text: str) -> str:
    """Join the pairs and replace each lone half with U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend(value: Any) -> Any:
    """Mend all text within a JSON value; the value is copied, never changed."""
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, dict):
        return {mend_text(key): mend(member) for key, member in value.items()}
    if isinstance(value, list):
        return [mend(member) for member in value]
    return value


def split_pending(text: str) -> tuple[str, str]:
    """Divide the text into what can be shown now, mended, and a first half at its end."""
    if "\ud800" <= text[-1:] <= "\udbff":
        return mend_text(text[:-1]), text[-1]
    return mend_text(text), ""


TOO_DEEP = "[nested too deeply]"
"""What stands for a value that cannot be walked."""


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
