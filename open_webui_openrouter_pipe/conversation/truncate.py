"""Truncation of long texts: head and tail stay, and a note between them says how much is missing."""

from __future__ import annotations

from collections.abc import Callable

SHRINK_MARGIN = 0.9
"""Each attempt keeps a little less than what should fit, because tokens are not spread evenly over a text."""
MAX_ATTEMPTS = 10


def truncate_middle(text: str, head_characters: int, tail_characters: int) -> str:
    """Return the head and the tail of a text; the text itself when nothing lies between them."""
    omitted = len(text) - head_characters - tail_characters
    if omitted <= 0:
        return text
    tail = text[len(text) - tail_characters :]
    return f"{text[:head_characters]}\n[... {omitted:,} characters omitted ...]\n{tail}"


def truncate_to_tokens(
    text: str, max_tokens: int, count: Callable[[str], int], *, head_share: float = 0.6
) -> str:
    """Return as much of the head and the tail as fits in `max_tokens`; empty when not even the note fits."""
    truncated, kept_characters = text, float(len(text))
    for _ in range(MAX_ATTEMPTS):
        tokens = count(truncated)
        if tokens <= max_tokens:
            return truncated
        kept_characters *= SHRINK_MARGIN * max(0, max_tokens) / max(1, tokens)
        head = int(kept_characters * head_share)
        truncated = truncate_middle(text, head, int(kept_characters) - head)
    return ""
