"""Content inline in a message or an item, base64 text or a base64 data URL: decoded here and nowhere else."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Final

_DATA_HEAD: Final = re.compile(r"data:[^,]{0,200},", re.IGNORECASE)


def base64_of(inline: str) -> str:
    """Return the base64 text itself, without the head of a data URL."""
    head = _DATA_HEAD.match(inline)
    return inline[head.end() :] if head else inline


def decode(inline: str, *, limit_characters: int | None = None) -> bytes:
    """Return the bytes of base64 of either alphabet, with or without blanks and padding; b"" when it is none.

    With a limit, those of the whole groups of four among the first so many characters.
    """
    plain = "".join(base64_of(inline[:limit_characters]).split()).replace("-", "+").replace("_", "/")
    if limit_characters is not None:
        plain = plain[: len(plain) // 4 * 4]
    try:
        return b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
