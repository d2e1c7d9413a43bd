r"""Values that UTF-8, JSON and databases can hold: no half surrogates, no NaN, and in what comes from the host no NUL.

A provider that cuts its text between UTF-16 units sends the halves of one character, JSON escapes such as
"\ud83d", in two deltas; a lone half cannot be encoded and would break whoever writes it. Text of a stream is mended
once where it arrives (`drafts`), text of the host where its messages are read (`history`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

REPLACEMENT: Final = "\ufffd"
TOO_DEEP: Final = "[nested too deeply]"
"""What stands for a value that is nested too deeply to be written."""

_WALKED: Final = (dict, list, str, float)
_MAX_LEVELS: Final = 100
"""Levels of a provider's value: no real one nests so deeply, and Python's recursion ends at some hundreds."""

_HALF: Final = re.compile("[\ud800-\udfff]")


def mend_text(text: str) -> str:
    """Join the pairs and replace each lone half with U+FFFD."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def mend(value: Any) -> Any:
    """Mend a JSON value throughout, in a copy; NaN and infinities become null, what nests too deeply a note."""
    return _map_values(value, mend_text, levels=_MAX_LEVELS)


def split_pending(text: str) -> tuple[str, str]:
    """Split the text into what can be shown now, mended, and a first half at its end."""
    if "\ud800" <= text[-1:] <= "\udbff":
        return mend_text(text[:-1]), text[-1]
    return mend_text(text), ""


def clean_text(text: str) -> str:
    """Mend the text and drop NUL."""
    return text if _is_clean(text) else mend_text(text.replace("\0", ""))


def clean(value: Any) -> Any:
    """Clean all text within a JSON value; NaN and infinities become null.

    A value that is clean, as most are, is returned as the same object. Raises RecursionError.
    """
    return value if _is_clean(value) else _map_values(value, clean_text)


def json_text(value: Any) -> str:
    """Write a value as compact JSON, cleaned; what JSON has no form for is written as text."""
    try:
        return json.dumps(clean(value), ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        return TOO_DEEP


def _is_clean(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or _HALF.search(value) is None)
    if isinstance(value, dict):
        return _are_clean(value) and _are_clean(value.values())
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, list) or _are_clean(value)


def _are_clean(members: Iterable[Any]) -> bool:
    """A plain loop: every artifact is walked when it is loaded, and calls for each text would cost most of the time."""
    for member in members:
        if type(member) is str:
            if "\0" in member or not (member.isascii() or _HALF.search(member) is None):
                return False
        elif isinstance(member, _WALKED) and not _is_clean(member):
            return False
    return True


def _map_values(value: Any, change: Callable[[str], str], *, levels: int = -1) -> Any:
    """Change all text within a value of so many levels; -1 is any number."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return TOO_DEEP
    if isinstance(value, list):
        return [_map_values(member, change, levels=levels - 1) for member in value]
    return {
        _map_values(key, change): _map_values(member, change, levels=levels - 1)
        for key, member in value.items()
    }
