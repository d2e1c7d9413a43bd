"""Summaries that others made of a chat before it reaches the pipe: Open WebUI's compaction, and filters.

Owns the table of their forms and taking them out, word for word and without their marks, so that they are neither
instructions nor turns. It is strict, since anyone may quote such a mark: in system text a block begins and ends with a
line; any other message must be nothing but the block and stand before the user's first. Sources: Open WebUI 0.12,
`utils/context_compaction.py` and `utils/middleware.py`; the filters' published forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .markers import erase_markers
from .parts import flatten, read_content

SUMMARY_HEADING = "[CONVERSATION SUMMARY]"
"""The line with which the host begins its own summary of earlier messages. It has no end of its own."""

_CLOSINGS: Mapping[str, str] = {
    "<openwebui_context_summary>": "</openwebui_context_summary>",
    "[Previous conversation summary]\n": "[End of summary - recent messages follow]",
}
"""Blocks of system text that say where they end: of newer hosts, and of a summarising filter."""

_TAGS: Mapping[str, str] = {"user": "auto_compaction_context", "assistant": "working_memory"}
"""The tags around whole messages, by role: of the pipe Auto Compact, and of the filter Async Context Compression."""

_COVERED = "covered_until"
"""The count in the `metadata` of a message with which Async Context Compression says that it is a summary."""

_APPENDED = (
    "<memory_context>\n",
    "##### Pyodide Environment\n",
    '<skill (?:id|name)="',
    "<available_skills>\n",
    r'MCP server "[^"\n]*" instructions:\n',
    "<attached_knowledge>\n",
    "<available_tools>\n",
)
"""How the lines begin, as patterns, that the host writes behind its summary, and that are instructions."""

_OPENINGS = "|".join(map(re.escape, (f"{SUMMARY_HEADING}\n", *_CLOSINGS)))
_OPENING = re.compile(rf"^(?:{_OPENINGS})", re.MULTILINE)
_BEHIND_SUMMARY = re.compile(rf"\n(?=(?:{_OPENINGS}|{'|'.join(_APPENDED)}))")
_WHOLE = {
    role: re.compile(rf"\s*<{tag}(?:\s[^<>]*)?>((?:(?!</{tag}>).)*)</{tag}>\s*", re.DOTALL)
    for role, tag in _TAGS.items()
}


def split_summaries(text: str) -> tuple[str, tuple[str, ...]]:
    """Take the summaries out of system text; what stays is the text as it would be without them."""
    kept: list[str] = []
    summaries: list[str] = []
    done = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < done or not (ends := _ends(text, opening)):
            continue
        kept.append(text[done : opening.start()])
        summaries.append(text[opening.end() : ends[0]])
        done = ends[1] + text.startswith("\n", ends[1])
    if not summaries:
        return text, ()
    rest = text[done:]
    stable = "".join([*kept, rest])
    return stable if rest else stable.removesuffix("\n"), tuple(summaries)


def summary_messages(messages: Sequence[Any]) -> Mapping[int, str]:
    """Find the messages that are summaries as a whole; gives the text of each by its index."""
    return {**_leading(messages), **_declared(messages)}


def unique_summaries(summaries: Iterable[str]) -> tuple[str, ...]:
    """Give the summaries' plain texts in their order, without blank ones and those that another one holds."""
    texts = [text for text in dict.fromkeys(erase_markers(told).strip() for told in summaries) if text]
    return tuple(text for text in texts if not any(text != other and text in other for other in texts))


def _ends(text: str, opening: re.Match[str]) -> tuple[int, int] | None:
    """Where the summary and where its block ends; None when it is no block."""
    closing = _CLOSINGS.get(opening[0])
    if closing is None:
        behind = _BEHIND_SUMMARY.search(text, opening.end() - 1)
        summary = text[opening.end() : behind.start() if behind else len(text)].rstrip("\n")
        return (end := opening.end() + len(summary)), end
    place = text.find(closing, opening.end())
    end = place + len(closing)
    ends_line = end == len(text) or text.startswith("\n", end)
    return (place, end) if place >= 0 and ends_line else None


def _leading(messages: Sequence[Any]) -> dict[int, str]:
    """Summaries before the first message of the chat, which must be the user's."""
    found: dict[int, str] = {}
    for index, message in enumerate(messages):
        role = _role(message)
        if role in {"system", "developer"}:
            continue
        block = _block(message) if role in _WHOLE else None
        if block is None:
            return found if role == "user" else {}
        found[index] = block
    return {}


def _declared(messages: Sequence[Any]) -> dict[int, str]:
    """Summaries that say so in a field that no user can write."""
    found = ((index, message) for index, message in enumerate(messages) if _is_declared(message))
    return {index: _block(message) or _text(message) for index, message in found}


def _is_declared(message: Any) -> bool:
    metadata = message.get("metadata") if _role(message) == "assistant" else None
    return isinstance(metadata, dict) and type(metadata.get(_COVERED)) is int and bool(_text(message))


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""


def _block(message: Mapping[str, Any]) -> str | None:
    """The text of a message that is nothing but a summary's block."""
    found = _WHOLE[message["role"]].fullmatch(_text(message))
    return found[1] if found else None


def _text(message: Mapping[str, Any]) -> str:
    """The text of a message that has nothing else."""
    content = flatten(read_content(message.get("content")))
    return content if isinstance(content, str) and not message.get("tool_calls") else ""
