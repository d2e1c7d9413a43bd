"""Notes: lines of ours at the end of an answer's text, which the reader sees there and no model does.

A note is a quotation in Markdown, an item of its own for the host, between marks of characters that have no width, no
sound and no meaning. The line break with which the host joins it to a text goes with it, and so does the blank line
with which an answer goes on behind it: the text without notes is what the model wrote, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..responses.values import as_list, as_object, as_text

NOTE_BEGIN: Final = "\u2063\u2063\u2060"
_FAILURE: Final = "\u2060"
"""Stands behind the beginning of a note that says why a turn failed."""
_END: Final = "\u2063\u2060\u2060\u2063"
NOTE_GAP: Final = "\n\n"
"""What an answer that goes on behind a note begins with, since the host may make one text of both."""
_NOTE: Final = re.compile(rf"\n?> {NOTE_BEGIN}[^\n\u2063]*+{_END}(?:{NOTE_GAP})?")
_LITERAL: Final = re.compile(r"(`[^`]+`|https?://[\w./%?&=#~-]*[A-Za-z0-9/])", re.ASCII)
"""Code and addresses, which Markdown shows otherwise than other text."""
_SPECIAL: Final = re.compile(r"[*<~]")


def write_note(line: str, *, failed: bool = False) -> str:
    """Return a line as a note; `failed` where it says why there is no whole answer. Addresses become links."""
    mark = _FAILURE if failed else ""
    return f"> {NOTE_BEGIN}{mark}{as_markdown(line)}{_END}"


def as_markdown(line: str) -> str:
    """Return a line of plain text in Markdown, without line breaks: addresses are links, code stays code."""
    plain = " ".join(line.replace("\u2063", "").split())
    return "".join(
        _written(piece, is_literal=bool(index % 2)) for index, piece in enumerate(_LITERAL.split(plain))
    )


def _written(piece: str, *, is_literal: bool) -> str:
    if not is_literal:
        return _SPECIAL.sub(r"\\\g<0>", piece)
    return piece if piece.startswith("`") else f"[{piece.partition('://')[2]}]({piece})"


def erase_notes(text: str) -> str:
    """Return a text without its notes."""
    return _NOTE.sub("", text) if NOTE_BEGIN in text else text


def ends_with_note(text: str) -> bool:
    """Whether a note is the last of a text."""
    return text.rstrip().endswith(_END)


def without_notes(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of the host without notes, in its text and in the items that it keeps."""
    content, output = message.get("content"), as_list(message.get("output"))
    if isinstance(content, str) and NOTE_BEGIN in content:
        message = {**message, "content": erase_notes(content)}
    if any(NOTE_BEGIN in _text_of(item) for item in output):
        message = {**message, "output": _erased(output)}
    return message


def tells_failure(message: Mapping[str, Any]) -> bool:
    """Whether a message of the host ends with the note of why its turn failed."""
    content = message.get("content")
    return isinstance(content, str) and NOTE_BEGIN + _FAILURE in content and ends_with_note(content)


def _text_of(item: Any) -> str:
    return "".join(as_text(as_object(part).get("text")) for part in as_list(as_object(item).get("content")))


def _erased(output: Iterable[Any]) -> list[Any]:
    """The items without notes; a text that the host has joined to the note before it goes to the text before that."""
    kept: list[Any] = []
    for item in output:
        text = _text_of(item)
        if NOTE_BEGIN not in text:
            kept.append(item)
        elif rest := erase_notes(text):
            part = {**as_object(as_list(item["content"])[0]), "text": rest}
            if kept and as_object(kept[-1]).get("type") == "message":
                kept[-1] = {**kept[-1], "content": [*as_list(kept[-1].get("content")), part]}
            else:
                kept.append({**item, "content": [part]})
    return kept
