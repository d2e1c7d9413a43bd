"""What a request costs in tokens, item by item, and long texts truncated to a number of them.

Counts are cached by content, so that a long chat is counted once.

Loads no tokenizer's vocabulary (that reads files): whoever has one passes its `encode`; otherwise the estimate counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..conversation import media
from ..responses.items import Item
from ..responses.values import once
from .conversation import ContentCache, DigestedItem, Tool, content_digest
from .estimate import estimate_tokens

MESSAGE_OVERHEAD_TOKENS = 4
CALL_OVERHEAD_TOKENS = 10
TOOL_OVERHEAD_TOKENS = 8
CHUNK_CHARACTERS = 32_768
"""Tokenizers take quadratic time on some long texts."""

SEALED_HEADER_BYTES = 650
SEALED_BYTES_PER_TOKEN = 4
HEAD_SHARE = 2 / 3
"""Of what is kept of a long text: where it begins says what it is, and where it ends what came of it."""
SHRINK_MARGIN = 0.9
"""Each attempt keeps a little less than what should fit, because tokens are not spread evenly over a text."""
MAX_ATTEMPTS = 10


class TokenCounts(NamedTuple):
    """Tokens by how they are counted.

    `text` is what a tokenizer reads, tool definitions included; `media` is images, documents, audio and video;
    `sealed` is encrypted reasoning.
    """

    text: int = 0
    media: int = 0
    sealed: int = 0

    @property
    def tokens(self) -> int:
        """All of them together."""
        return sum(self)

    def plus(self, other: TokenCounts) -> TokenCounts:
        """Return the sums kind by kind."""
        return TokenCounts(self.text + other.text, self.media + other.media, self.sealed + other.sealed)


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts items for one family of models.

    `encode` is a tokenizer's `encode_ordinary`, None when there is none. `counts` caches what was counted:
    counters of different families or tokenizers must not share it.
    """

    counts: ContentCache[TokenCounts]
    encode: Callable[[str], Sequence[int]] | None = None
    family: media.Family = "other"

    @property
    def method(self) -> bytes:
        """How it counts text; what is cut by counts follows from it."""
        return b"estimated" if self.encode is None else b"encoded"

    def text(self, text: str) -> int:
        """Count a text; where the tokenizer fails on it, estimate."""
        if self.encode is None:
            return estimate_tokens(text)
        tokens = 0
        for start in range(0, len(text), CHUNK_CHARACTERS):
            chunk = text[start : start + CHUNK_CHARACTERS]
            try:
                tokens += len(self.encode(chunk))
            except Exception:  # noqa: BLE001 - whatever an external tokenizer raises, there is a count
                tokens += estimate_tokens(chunk)
        return tokens

    def item(self, item: Item) -> TokenCounts:
        """Count an item anew."""
        fields: Mapping[str, Any] = item
        match item["type"]:
            case "message":
                return self._content(fields.get("content") or "", MESSAGE_OVERHEAD_TOKENS)
            case "function_call":
                text = f"{fields['name']} {fields['arguments']}"
                return TokenCounts(self.text(text) + CALL_OVERHEAD_TOKENS)
            case "function_call_output":
                return self._content(fields["output"], CALL_OVERHEAD_TOKENS)
            case "reasoning" if sealed := fields.get("encrypted_content"):
                return TokenCounts(sealed=_sealed_tokens(sealed))
            case "reasoning":
                content = fields.get("content") or fields.get("summary") or ""
                return self._content(content, MESSAGE_OVERHEAD_TOKENS)
        return self._other_item(fields)

    def entry(self, entry: DigestedItem) -> TokenCounts:
        """Count an item; cached by its content."""
        found = self.counts.get(entry.digest)
        return self.counts.put(entry.digest, self.item(entry.item)) if found is None else found

    def entries(self, entries: Iterable[DigestedItem]) -> TokenCounts:
        """Count several items, kind by kind; cached by their content."""
        return TokenCounts(*map(sum, zip(*map(self.entry, entries), strict=True)))

    def tools(self, tools: Sequence[Tool]) -> TokenCounts:
        """Count all tool definitions; cached by their content."""
        counts = self.counts.get_or_compute
        counted = (counts(once(content_digest, tool), partial(self._tool, tool)) for tool in tools)
        return TokenCounts(sum(each.text for each in counted))

    def _tool(self, tool: Tool) -> TokenCounts:
        return TokenCounts(self.text(json.dumps(tool, ensure_ascii=False)) + TOOL_OVERHEAD_TOKENS)

    def _content(self, content: Any, overhead_tokens: int) -> TokenCounts:
        """Count a text, or its parts: media by their rules, anything else by its text."""
        if isinstance(content, str):
            return TokenCounts(self.text(content) + overhead_tokens)
        text_tokens, media_tokens = overhead_tokens, 0
        for part in content:
            text, tokens = str(part.get("text") or part.get("refusal") or ""), None
            if (embedded := media.embedded_text(part)) is not None:
                tokens = self.text(embedded)
            elif count := media.PART_TOKENS.get(part.get("type", "")):
                tokens = count(part, self.family)
            if tokens is not None or media.NOTE.fullmatch(text):
                media_tokens += self.text(text) if tokens is None else tokens
            else:
                text_tokens += self.text(text)
        return TokenCounts(text_tokens, media_tokens)

    def _other_item(self, fields: Mapping[str, Any]) -> TokenCounts:
        """Count any other item: its fields as text, what is sealed by the ratio, and the image that it generated."""
        shown = {name: value for name, value in fields.items() if name not in {"encrypted_content", "result"}}
        image, sealed = fields.get("result"), fields.get("encrypted_content")
        tokens = self.text(json.dumps(shown, ensure_ascii=False))
        if isinstance(image, str):  # all of it is a medium, as is the note that may stand for it
            return TokenCounts(
                MESSAGE_OVERHEAD_TOKENS, tokens + media.image_tokens(image, "auto", self.family)
            )
        return TokenCounts(tokens + MESSAGE_OVERHEAD_TOKENS, sealed=_sealed_tokens(sealed) if sealed else 0)


def _sealed_tokens(sealed: str) -> int:
    """Return the tokens of encrypted reasoning, by a ratio of its bytes."""
    hidden_bytes = max(0, len(sealed) * 3 // 4 - SEALED_HEADER_BYTES)
    return hidden_bytes // SEALED_BYTES_PER_TOKEN + MESSAGE_OVERHEAD_TOKENS


def head_and_tail(
    text: str, max_tokens: int, count: Callable[[str, int, str], int], *, head_share: float = HEAD_SHARE
) -> tuple[str, int, str] | None:
    """Return the head, the number of characters after it, and the tail that take at most `max_tokens` by `count`.

    All of a text that fits is its head. None when not even the number fits.
    """
    head, tail, kept_characters = len(text), 0, float(len(text))
    for _ in range(MAX_ATTEMPTS):
        pieces = text[:head], len(text) - head - tail, text[len(text) - tail :]
        tokens = count(*pieces)
        if tokens <= max_tokens:
            return pieces
        kept_characters *= SHRINK_MARGIN * max(0, max_tokens) / max(1, tokens)
        head = int(kept_characters * head_share)
        tail = int(kept_characters) - head
    return None


def truncate_to_tokens(
    text: str,
    max_tokens: int,
    count: Callable[[str], int],
    *,
    head_share: float = HEAD_SHARE,
    reference: str = "",
) -> str:
    """Return as much of the head and the tail as fits in `max_tokens`; empty when not even the note fits.

    `reference` is the name of the whole, "" for none.
    """
    join = partial(join_ends, reference=reference)
    pieces = head_and_tail(text, max_tokens, lambda *pieces: count(join(*pieces)), head_share=head_share)
    return join(*pieces) if pieces else ""


def join_ends(head: str, omitted: int, tail: str, *, reference: str = "") -> str:
    """Return the head and the tail of a text, with the number of characters between them, if there are any."""
    name = f" {reference}" if reference else ""
    return f"{head}\n[... {omitted:,} characters omitted ...{name}]\n{tail}" if omitted else head + tail
