r"""Halves of UTF-16 surrogate pairs, as JSON escapes such as "\ud83d" bring them.

A provider that cuts its text between UTF-16 units sends the halves of one character in two deltas; a lone
half cannot be encoded as UTF-8 and would break whoever writes it. Owns the joining and the replacement of
halves.
"""

from __future__ import annotations

import re
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
