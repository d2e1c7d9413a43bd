"""The messages and tools that a worker has seen, kept by their content: a chat is sent again with each of its turns."""

from __future__ import annotations

import marshal
from hashlib import sha256
from typing import Any, Final

from ..responses.kept import Kept
from .conversation import ContentCache

KEPT_BYTES: Final = 64 * 1024 * 1024
MAX_BYTES: Final = 256 * 1024
"""What is larger is not kept: an inline image is worth less than the messages that it would displace."""
ENTRY_BYTES: Final = 3072
COPIES: Final = 3
"""What an object takes: so much, and so many times its content, as it is, in bytes, and in what is made of it."""
_FORM: Final = 2
"""Of `marshal`: the last one whose bytes follow from content alone."""


class KeptObjects(ContentCache[Kept]):
    """JSON objects within a number of bytes; those that were not used for long are forgotten."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        super().__init__(limit_bytes, lambda kept: kept.size_bytes)

    def of(self, value: Any) -> Any:
        """Return the kept object of the same content and order of keys; what cannot be kept is returned itself."""
        if type(value) is not dict:
            return value
        try:
            content = marshal.dumps(value, _FORM)
        except ValueError:  # no plain JSON
            return value
        if len(content) > MAX_BYTES:
            return value
        name = sha256(content).digest()
        return self.get(name) or self.put(name, Kept(value, ENTRY_BYTES + COPIES * len(content)))
