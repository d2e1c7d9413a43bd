"""The host's excerpts of files, removed from the messages that it wrote them into. Pure.

Open WebUI writes what it retrieved as one run of elements `<source id="N" name="...">TEXT</source>`, one to a line, in
a template of the administrator's: before the words of the latest user message, or behind the system prompt. It says
what each element holds, so they are found by their texts, whatever these contain; nothing else is touched.
Source: `get_source_context` and `apply_source_context_to_messages` in `utils/middleware.py`, `rag_template` in
`utils/task.py` and `update_message_content` in `utils/misc.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..history.additions import SUMMARY_HEADING
from ..responses.wire import as_object, as_text
from .call import Call

_LONGEST_HEAD_CHARS: Final = 4096
"""Of the tag that begins an element: names, and the details of the source that the administrator lets it show."""

_OPENING: Final = "<source id="
_CLOSING: Final = "</source>"
_TAG_END: Final = re.compile(">")
_SUMMARY: Final = f"\n{SUMMARY_HEADING}\n"

_Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """The text of one element, and whether it is to be removed."""

    text: str
    removed: bool


def without_excerpts(call: Call, file_ids: Collection[str]) -> list[_Message | None]:
    """Return the call's messages without the excerpts of these files; None for one that was nothing else.

    Where they were all that was retrieved, the template goes too, and the message is what its user wrote. Elements that
    stay keep their numbers, so that citations still lead to their sources. Where the host's words are not found as it
    must have written them, the messages stay as they are.
    """
    query = call.base_user_prompt or ""
    excerpts = [
        _Excerpt(_as_written(text, query), source.file_id in file_ids)
        for source in call.sources
        for text in source.excerpts
    ]
    messages: list[_Message | None] = list(call.messages)
    if not any(excerpt.removed for excerpt in excerpts):
        return messages
    latest = _latest_user_messages(call.messages, query)
    system = [index for index, message in enumerate(call.messages) if _role(message) == "system"]
    for index in latest:
        messages[index] = _edit_user_message(call.messages[index], query, excerpts)
    for index in system[:1]:
        messages[index] = _edit_system_message(call.messages[index], call.base_system_prompt, excerpts)
    return messages


def _latest_user_messages(messages: Sequence[_Message], query: str) -> list[int]:
    """The message that ends with the user's latest words, and those behind it: a continued answer has one for sources.

    A message without words gets no sources.
    """
    asked = [index for index, message in enumerate(messages) if _role(message) == "user"]
    own = [index for index in asked if _first_text(messages[index]).endswith(query)]
    return [index for index in asked if index >= own[-1]] if query and own else []


def _edit_user_message(message: _Message, query: str, excerpts: Sequence[_Excerpt]) -> _Message | None:
    """Edit what stands before the user's words, in each text part alike; a message that has none of them may go."""
    text = _first_text(message)
    before = text.removesuffix(query)
    edited = _edit(before, excerpts)
    if edited is None:
        return message
    if before == text and not edited:
        return None
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": edited + text[len(before) :]}
    parts = [
        {**part, "text": edited + part["text"].removeprefix(before)}
        if as_text(as_object(part).get("text")).startswith(before)
        else part
        for part in content or ()
    ]
    return {**message, "content": parts}


def _edit_system_message(
    message: _Message, base: str | None, excerpts: Sequence[_Excerpt]
) -> _Message | None:
    """Edit what stands behind the prompt as it was before, if the host says how it was."""
    text = as_text(message.get("content"))
    offset = -1 if base is None else text.find(base)
    if base is None or offset < 0:
        return message
    own = text[: offset + len(base)]
    edited = _edit(text[len(own) :], excerpts)
    if edited is None:
        return message
    content = own + edited if own else edited.removeprefix("\n")
    return {**message, "content": content} if content else None


def _edit(written: str, excerpts: Sequence[_Excerpt]) -> str | None:
    """What the host would have written without the removed excerpts; None where its elements are not found.

    Its own summary of the chat, which may follow in a system prompt, stays.
    """
    spans = _find_elements(written, [excerpt.text for excerpt in excerpts])
    if spans is None:
        return None
    start, end = spans[0][0], spans[-1][1]
    kept = [
        written[span[0] : span[1]]
        for span, excerpt in zip(spans, excerpts, strict=True)
        if not excerpt.removed
    ]
    if kept:
        return written[:start] + "\n".join(kept) + written[end:]
    if written.startswith(f"\n{_OPENING}", end):  # of tools, whose results stand elsewhere
        return written[:start] + written[end + 1 :]
    summary = written.find(_SUMMARY, end)
    return written[summary:] if summary >= 0 else ""


def _find_elements(written: str, texts: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where the run of elements with these texts stands: start and end of each; None where it does not."""
    start = written.find(_OPENING)
    while start >= 0:
        spans: list[tuple[int, int]] = []
        for text in texts:
            element_start = spans[-1][1] + 1 if spans else start
            end = _element_end(written, element_start, text)
            if end is None:
                break
            spans.append((element_start, end))
        else:
            return spans
        start = written.find(_OPENING, start + 1)
    return None


def _element_end(written: str, start: int, text: str) -> int | None:
    """Where the element that begins there ends, if it holds the text. A name in its tag may contain any character."""
    if not written.startswith(_OPENING, start):
        return None
    limit = start + _LONGEST_HEAD_CHARS
    following = written.find(_OPENING, start + 1, limit)  # a template may have an example of a tag
    for tag_end in _TAG_END.finditer(written, start, following if following >= 0 else limit):
        end = tag_end.end() + len(text)
        if written.startswith(text, tag_end.end()) and written.startswith(_CLOSING, end):
            return end + len(_CLOSING)
    return None


def _as_written(text: str, query: str) -> str:
    """The host fills the template's query in where the text of a source has the same words, too."""
    return text.replace("[query]", query).replace("{{QUERY}}", query)


def _first_text(message: _Message) -> str:
    """A message's text, or its first text part, which the host takes for it."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (as_object(part) for part in content)
        return next((as_text(part.get("text")) for part in texts if part.get("type") == "text"), "")
    return as_text(content)


def _role(message: Any) -> str:
    return as_text(as_object(message).get("role"))
