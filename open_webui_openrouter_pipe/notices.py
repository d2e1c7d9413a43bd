"""The words that users see: status lines and error lines, by name. Ready for translation, and kept nowhere else.

Owns the texts and their plural forms. It must not decide when a line is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        # --- fitting a chat into the window ---
        "window_too_small": "The model's window of {window_tokens:,} tokens leaves no room for any input.",
        "window_too_small.advice": "Choose a model with a larger window.",
        "overflow": (
            "This request needs about {needed_tokens:,} tokens, but only {limit_tokens:,} fit into the model's "
            "window of {window_tokens:,}. The largest part is: {largest}, {largest_tokens:,} tokens."
        ),
        "overflow.instructions": "Shorten the system prompt.",
        "overflow.tools": "Switch off tools that this chat does not need.",
        "overflow.summaries": "Start a new chat.",
        "overflow.retrieved text": "Attach fewer documents, or ask for fewer sources.",
        "overflow.rules": "Start a new chat.",
        "overflow.latest message": "Shorten your message or its attachments, or send them in parts.",
        "overflow.current tool calls": "Ask for less in one go, so that fewer tools are called.",
        "overflow.earlier turns": "Start a new chat, or let the pipe shorten old turns.",
        "fitted.retention": "Older tool results were shortened to their key facts.",
        "fitted.clip": "Only the last messages of this chat were sent to the model.",
        "fitted.prune": "Older parts of this chat were shortened to fit the model's window.",
        "fitted.evict": "The oldest parts of this chat were omitted to fit the model's window.",
        "summarizing": "Summarizing conversation ({tokens:,} tokens)...",
        "summarized": "Summarized: {before_tokens:,} → {after_tokens:,} tokens",
        "summarized.cost": " (${cost:.4f})",
        "summarized.partly": "; one part could not be summarized: {reason}",
        "not_summarized": "The conversation could not be summarized: {reason}.",
    }
)
"""Templates of `str.format` by name. With a `count`, `NAME.one` is preferred to `NAME` when the count is 1."""


def notice(name: str, /, **values: object) -> str:
    """Return the line of this name with its values filled in.

    Raises:
        KeyError: There is no such line, or it needs a value that is missing.
    """
    singular = f"{name}.one"
    template = _ENGLISH[singular if values.get("count") == 1 and singular in _ENGLISH else name]
    return template.format(**values)
