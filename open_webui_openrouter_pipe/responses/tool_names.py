"""Names of functions, as providers accept them.

The host allows any text (MCP servers use dots and slashes), providers only `^[a-zA-Z0-9_-]{1,64}$`.
"""

from __future__ import annotations

import hashlib
import re

UNNAMED_TOOL = "unnamed_tool"
_ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KEPT_CHARACTERS = 55


def wire_name(name: str) -> str:
    """Return the name to send; a changed one ends in a digest, so that two names never become the same."""
    if _ACCEPTED.fullmatch(name):
        return name
    if not name:
        return UNNAMED_TOOL
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:_KEPT_CHARACTERS]}_{digest}"
