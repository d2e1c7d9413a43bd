"""The head of retrieved text that is too long to be sent whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ..conversation.conversation import DigestedItem, digest_item
from ..conversation.tokens import MESSAGE_OVERHEAD_TOKENS, TokenCounter, truncate_to_tokens
from ..responses.items import Item

_SOURCE, _SOURCE_END = "<source ", "</source>"
"""The tags that Open WebUI puts around each source, the most relevant first."""


def head_of_retrieved(
    entries: Sequence[DigestedItem], max_tokens: int, counter: TokenCounter
) -> tuple[DigestedItem, ...]:
    """Return the first of the messages, the last one cut, with at most `max_tokens` in all."""
    kept: list[DigestedItem] = []
    for entry in entries:
        tokens = counter.entry(entry).tokens
        if tokens > max_tokens:
            kept += _cut(entry, max_tokens, counter)
            break
        kept.append(entry)
        max_tokens -= tokens
    return tuple(kept)


def _cut(entry: DigestedItem, max_tokens: int, counter: TokenCounter) -> Iterator[DigestedItem]:
    """Yield the message with the head of its text; nothing where not even a note would fit.

    A source that is cut keeps its end tag, so that what the host wrote behind the sources is not read as one of them.
    """
    fields = cast("dict[str, Any]", entry.item)
    text = "\n".join(part.get("text", "") for part in fields["content"])
    room = max_tokens - MESSAGE_OVERHEAD_TOKENS - counter.text(_SOURCE_END)
    head = truncate_to_tokens(text, room, counter.text, head_share=1.0)
    if head:
        is_open = head.rfind(_SOURCE) > head.rfind(_SOURCE_END)
        content = [{"type": "input_text", "text": head + _SOURCE_END if is_open else head}]
        yield digest_item(cast("Item", {**fields, "content": content}))
