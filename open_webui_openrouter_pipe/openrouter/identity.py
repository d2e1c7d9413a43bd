"""Who a request says that it is from: names that are always the same, and that only this server can make.

Pure. A name is a keyed digest, so that OpenRouter can tell apart users and chats and learns nothing else of them.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from ..planning.cache_marks import cache_key

IdentityLevel = Literal["none", "session", "user", "trace"]
"""How much is sent; each level includes those before it."""

_LEVELS: Final[tuple[IdentityLevel, ...]] = ("none", "session", "user", "trace")
_CHARACTERS: Final = 48


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is, by the host's ids, "" where there is none; `task` is None for a chat."""

    user_id: str
    chat_id: str
    message_id: str
    task: str | None


def identity_parameters(level: IdentityLevel, caller: Caller, secret: bytes) -> dict[str, Any]:
    """Return the parameters that name the chat (`session_id`, `prompt_cache_key`), the user and the message."""
    included = _LEVELS[: _LEVELS.index(level) + 1]
    named: dict[str, Any] = {}
    if "session" in included and caller.chat_id and caller.task is None:
        key = cache_key(secret, caller.user_id, caller.chat_id)
        named |= {"session_id": key, "prompt_cache_key": key}
    if "user" in included and caller.user_id:
        named["user"] = _pseudonym(secret, "user", caller.user_id)
    if "trace" in included:
        parts = (caller.user_id, caller.chat_id, caller.message_id)
        traced = {"trace_id": _pseudonym(secret, "message", *parts)} if caller.message_id else {}
        named["trace"] = {**traced, "trace_name": caller.task or "chat"}
    return named


def _pseudonym(secret: bytes, kind: str, *ids: str) -> str:
    name = "".join(f"{len(part)}:{part}" for part in (kind, *ids)).encode("utf-8", "surrogatepass")
    return hmac.new(secret, name, sha256).hexdigest()[:_CHARACTERS]
