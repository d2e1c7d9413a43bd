"""Short names of items, by which a model asks for the whole of what was shortened.

A name follows from the item's content, so that it stays the same while the chat goes on, and whoever wants the item
finds it by walking the conversation: what is not in the conversation has no name there.
"""

from __future__ import annotations

from typing import Final

REFERENCE_DIGITS: Final = 6
"""Tokenizers read three digits as one token; two of a chat's items rarely share a name, which then means both."""


def reference_of(digest: bytes) -> str:
    """Return the name of the item with this digest, such as "#482913"."""
    return f"#{int.from_bytes(digest) % 10**REFERENCE_DIGITS:0{REFERENCE_DIGITS}}"
