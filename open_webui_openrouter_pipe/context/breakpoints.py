"""Where the provider is told to cache, and the key that keeps a chat on one provider.

Owns the choice of at most four breakpoints at the ends of stable blocks, and the derivation of the chat's
cache key. Only families that cache at explicit breakpoints (Anthropic, Alibaba) get any. It must not change
what the model reads: a breakpoint is a field beside a text.

Sources: OpenRouter's `prompt_cache_breakpoint` on `input_text` parts; Anthropic's limit of four breakpoints.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

from ..responses.items import Item, is_function_call_output, is_message
from .plan import Marks

MOST_BREAKPOINTS = 4
EXPLICIT_VENDORS = frozenset({"anthropic", "qwen", "alibaba"})
KEY_CHARACTERS = 48
"""OpenAI takes at most 64 characters as `prompt_cache_key`."""


def needs_breakpoints(model_id: str) -> bool:
    """Tell whether the model's provider caches only up to explicit breakpoints."""
    return model_id.lstrip("~").partition("/")[0] in EXPLICIT_VENDORS


def with_breakpoints(items: Sequence[Item], marks: Marks) -> tuple[Item, ...]:
    """Set breakpoints after the instructions, the frontier, the last completed turn and the last item.

    When the prefix changes, the first of them moves to the place of the change: what was cached before it is
    read once more, and what comes after it is written anew.

    Outputs of tools become lists of one text, all of them alike, so that a breakpoint can end any of them
    and moving it changes nothing else. Where a block ends with something that cannot carry a breakpoint,
    the next item of the request that can carries it, or else the one before.
    """
    listed = [_listed(item) for item in items]
    carriers = [at for at, item in enumerate(listed) if _last_text(item) is not None]
    first = marks.instructions if marks.unchanged == marks.frontier else marks.unchanged
    wanted = (first, marks.frontier, marks.completed, len(listed))
    chosen = {at for end in wanted if end and (at := _carrier(carriers, end)) is not None}
    for at in sorted(chosen)[-MOST_BREAKPOINTS:]:
        listed[at] = _marked(listed[at])
    return tuple(listed)


def cache_key(secret: bytes, user_id: str, chat_id: str) -> str:
    """Give the `session_id` and `prompt_cache_key` of a chat: the same for all its branches."""
    name = b"%d:%b%b" % (len(user_id), user_id.encode(), chat_id.encode())
    return hmac.new(secret, name, sha256).hexdigest()[:KEY_CHARACTERS]


def _carrier(carriers: Sequence[int], end: int) -> int | None:
    """The item that carries the breakpoint of the block before `end`."""
    if end - 1 in carriers:
        return end - 1
    later = next((at for at in carriers if at >= end), None)
    return later if later is not None else next((at for at in reversed(carriers) if at < end), None)


def _listed(item: Item) -> Item:
    if is_function_call_output(item) and isinstance(item["output"], str):
        return {**item, "output": [{"type": "input_text", "text": item["output"]}]}
    return item


def _parts_name(item: Item) -> str | None:
    if is_function_call_output(item):
        return "output"
    return "content" if is_message(item) and item["role"] != "assistant" else None


def _last_text(item: Item) -> int | None:
    """The place of the last text part that is not empty; providers refuse a breakpoint on an empty text."""
    name = _parts_name(item)
    parts = cast("list[dict[str, Any]]", item.get(name, [])) if name else []
    places = (
        at for at in reversed(range(len(parts))) if parts[at]["type"] == "input_text" and parts[at]["text"]
    )
    return next(places, None)


def _marked(item: Item) -> Item:
    name, place = _parts_name(item), _last_text(item)
    assert name is not None
    parts: list[Any] = list(cast("list[Any]", item.get(name)))
    assert place is not None
    parts[place] = {**parts[place], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return cast("Item", {**item, name: parts})
