"""Content inline in a message or an item, base64 text or a base64 data URL: decoded here and nowhere else."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from hashlib import sha256
from typing import Final

_REFERENCE_CHARACTERS: Final = 8
_WINDOW_CHARACTERS: Final = 256 * 1024
"""As much is decoded at a time: the interpreter is held meanwhile."""
_DATA_HEAD: Final = re.compile(r"data:[^,]{0,200},", re.IGNORECASE)


def reference_of(inline: str) -> str:
    """Return a short name of content, by which texts that stand in its place refer to it."""
    return sha256(inline.encode("utf-8", "replace")).hexdigest()[:_REFERENCE_CHARACTERS]


def base64_of(inline: str) -> str:
    """Return the base64 text itself, without the head of a data URL."""
    head = _DATA_HEAD.match(inline)
    return inline[head.end() :] if head else inline


def decode(inline: str, *, limit_characters: int | None = None) -> bytes:
    """Return the bytes of base64 of either alphabet, with or without blanks and padding; b"" when it is none.

    With a limit, those of the whole groups of four among the first so many characters.
    """
    text = base64_of(inline[:limit_characters])
    content, rest = bytearray(), ""
    try:
        for start in range(0, len(text), _WINDOW_CHARACTERS):
            window = "".join(text[start : start + _WINDOW_CHARACTERS].split())
            if rest.endswith("=") and window:
                return b""  # it would go on behind its end
            rest += window.replace("-", "+").replace("_", "/")
            whole = (len(rest) - 1) // 4 * 4  # the last group may be the end
            content += b64decode(rest[:whole], validate=True)
            rest = rest[whole:]
        if limit_characters is not None:
            rest = rest[: len(rest) // 4 * 4]
        return bytes(content + b64decode(rest + "=" * (-len(rest) % 4), validate=True))
    except (binascii.Error, ValueError):
        return b""
