"""Where the provider caches, and the key that keeps a chat on one provider.

Only families that cache at explicit breakpoints (Anthropic, Alibaba) get any. They do not change what the model
reads: a breakpoint is a field beside a text.

Sources: OpenRouter's `prompt_cache_breakpoint` on `input_text` parts; Anthropic's limit of four breakpoints.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

from ..responses.items import Item, is_message
from .plan import CacheMarks

EXPLICIT_VENDORS = frozenset({"anthropic", "qwen", "alibaba"})
KEY_CHARACTERS = 48
"""OpenAI takes at most 64 characters as `prompt_cache_key`."""


def needs_breakpoints(model_id: str) -> bool:
    """Return whether the model's provider caches only up to explicit breakpoints."""
    return model_id.lstrip("~").partition("/")[0] in EXPLICIT_VENDORS


def with_breakpoints(items: Sequence[Item], marks: CacheMarks) -> tuple[Item, ...]:
    """Set at most three breakpoints: after the instructions, the frontier and the last completed turn.

    The fourth that a provider takes is left to it, for the end of the request. When the prefix changes, the first
    breakpoint moves to where the change begins: what was cached before it is read once more, and what comes after it
    is written anew.

    Only messages that the model did not write carry breakpoints. Where a block ends with something else, the next
    such message carries it, or else the one before. But nothing is found again behind what changes from request to
    request: with such text before the current turn, the last two messages before it carry breakpoints, the later one
    for what the next request will find, the earlier one for what the request before has left. A provider looks for
    that only some twenty blocks back.
    """
    carriers = [at for at, item in enumerate(items) if _last_text_part(item) is not None]
    first = marks.instructions if marks.unchanged == marks.frontier else marks.unchanged
    lasting = [at for at in carriers if at < marks.completed]
    if marks.has_volatile:
        chosen = {*lasting[-2:], *(_carrier_of(lasting, end) for end in [first] if end)}
    else:
        chosen = {_carrier_of(carriers, end) for end in (first, marks.frontier, marks.completed) if end}
    return tuple(_with_breakpoint(item) if at in chosen else item for at, item in enumerate(items))


def cache_key(secret: bytes, user_id: str, chat_id: str) -> str:
    """Return the `session_id` and `prompt_cache_key` of a chat: the same for all its branches."""
    name = b"%d:%b%b" % (len(user_id), user_id.encode(), chat_id.encode())
    return hmac.new(secret, name, sha256).hexdigest()[:KEY_CHARACTERS]


def _carrier_of(carriers: Sequence[int], end: int) -> int | None:
    """Return the index of the item that carries the breakpoint of the block before `end`."""
    if end - 1 in carriers:
        return end - 1
    later = next((at for at in carriers if at >= end), None)
    return later if later is not None else next((at for at in reversed(carriers) if at < end), None)


def _last_text_part(item: Item) -> int | None:
    """Return the index of a message's last text that is not empty; providers refuse a breakpoint on an empty text."""
    if not is_message(item) or item["role"] == "assistant":
        return None
    parts = cast("list[dict[str, Any]]", item["content"])
    texts = [at for at, part in enumerate(parts) if part["type"] == "input_text" and part["text"]]
    return texts[-1] if texts else None


def _with_breakpoint(item: Item) -> Item:
    index = _last_text_part(item)
    assert index is not None
    parts = list(cast("list[dict[str, Any]]", item.get("content")))
    parts[index] = {**parts[index], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return cast("Item", {**item, "content": parts})
