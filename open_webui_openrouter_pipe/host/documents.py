"""The documents of a chat, as parts of the messages to which they are attached, without the host's excerpts of them.

Open WebUI keeps non-image files out of the messages and writes excerpts of them into the prompt instead: each time
around the latest user message or at the end of the system prompt, wherever the file was attached. Here a file returns
to the message to which its user attached it. Knowledge and retrieved pages stay the host's.
Source: `load_messages_from_db` in `utils/middleware.py` and `get_messages_map_by_chat_id` in `models/chat_messages.py`
of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from ..conversation.conversation import ContentCache, cache_key
from ..history.additions import SUMMARY_HEADING
from ..history.folded import TOOL_IMAGES_TEXT
from ..responses.values import as_list, as_object, as_text
from .call import AttachedFile, Call, file_ids, is_saved
from .lookups import branch_messages

_MOST_ADDED: Final = 4
"""How many messages in a row filters may have written in the user's name, for the user's own to be found before."""

REMEMBERED_CHATS: Final = 1_000
"""The unsaved chats that were not used recently are forgotten."""
_BLANKS: Final = " \t\n\r\f\v"
_LONGEST_HEAD_CHARS: Final = 4096
"""Of the tag that begins an element: names, and the details of the source that the administrator lets it show."""

_OPENING: Final = "<source id="
_CLOSING: Final = "</source>"
_OPENINGS: Final = re.compile(_OPENING)
_TAG_END: Final = re.compile(">")
_SUMMARY: Final = f"\n{SUMMARY_HEADING}\n"

_log = logging.getLogger(__name__)

_Message = Mapping[str, Any]


_Excerpt = tuple[str, bool]
"""The text of one element, and whether it is to be removed."""


def without_excerpts(call: Call, file_ids: Collection[str]) -> list[_Message | None]:
    """Return the call's messages without the excerpts of these files; None for one that was nothing else.

    Where they were all that was retrieved, the template goes too, and the message is what its user wrote. Elements that
    stay keep their numbers, so that citations still lead to their sources. Where the host's words are not found as it
    must have written them, the messages stay as they are.
    """
    query = call.base_user_prompt or ""
    # The host fills the template's query in where the text of a source has the same words, too.
    excerpts = [
        (text.replace("[query]", query).replace("{{QUERY}}", query), source.file_id in file_ids)
        for source in call.sources
        for text in source.excerpts
    ]
    messages: list[_Message | None] = list(call.messages)
    if not any(is_removed for _, is_removed in excerpts):
        return messages
    roles = [as_text(as_object(message).get("role")) for message in call.messages]
    # From the end to the message that has the user's latest words: behind a continued answer one has only sources.
    # A message without words gets none.
    users = [index for index, role in enumerate(roles) if role == "user"]
    own = [index for index in users if _first_text(call.messages[index]).endswith(query)]
    for index in users if query and own else ():
        if index >= own[-1]:
            messages[index] = _edit_user_message(call.messages[index], query, excerpts)
    if "system" in roles:
        index = roles.index("system")
        messages[index] = _edit_system_message(call.messages[index], call.base_system_prompt, excerpts)
    return messages


def _edit_user_message(message: _Message, query: str, excerpts: Sequence[_Excerpt]) -> _Message | None:
    """Edit what stands before the user's words, in each text part alike; a message that has none of them may go."""
    text, content = _first_text(message), message.get("content")
    before = text.removesuffix(query)
    edited = _edit(before, excerpts)
    if edited is None:
        return message
    if before == text and not edited:
        return None
    if isinstance(content, str):
        return {**message, "content": edited + text[len(before) :]}
    parts = list(content or ())
    for index, part in enumerate(parts):
        if as_text(as_object(part).get("text")).startswith(before):
            parts[index] = {**part, "text": edited + part["text"].removeprefix(before)}
    return {**message, "content": parts}


def _edit_system_message(
    message: _Message, base: str | None, excerpts: Sequence[_Excerpt]
) -> _Message | None:
    """Edit what stands behind the prompt as it was before, if the host says how it was."""
    text = as_text(message.get("content"))
    before, found, written = text.partition(base) if base else ("", base == "", text)
    own = f"{before}{base}" if base else ""
    if not found or (edited := _edit(written, excerpts)) is None:
        return message
    content = own + edited if own else edited.removeprefix("\n")
    return {**message, "content": content} if content else None


def _edit(written: str, excerpts: Sequence[_Excerpt]) -> str | None:
    """What the host would have written without the removed excerpts; None where its elements are not found.

    Its own summary of the chat, which may follow in a system prompt, stays.
    """
    spans = _find_elements(written, [text for text, _ in excerpts])
    if spans is None:
        return None
    start, end = spans[0][0], spans[-1][1]
    kept = [
        written[slice(*span)] for span, (_, is_removed) in zip(spans, excerpts, strict=True) if not is_removed
    ]
    if kept:
        return written[:start] + "\n".join(kept) + written[end:]
    if written.startswith(f"\n{_OPENING}", end):  # of tools, whose results stand elsewhere
        return written[:start] + written[end + 1 :]
    summary = written.find(_SUMMARY, end)
    return written[summary:] if summary >= 0 else ""


def _find_elements(written: str, texts: Sequence[str]) -> list[tuple[int, int]] | None:
    """Where the run of elements with these texts stands: start and end of each; None where it does not."""
    for opening in _OPENINGS.finditer(written):
        spans: list[tuple[int, int]] = []
        for text in texts:
            start = spans[-1][1] + 1 if spans else opening.start()
            end = _element_end(written, start, text)
            if end is None:
                break
            spans.append((start, end))
        else:
            return spans
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


def _first_text(message: _Message) -> str:
    """A message's text, or its first text part, which the host takes for it."""
    content = message.get("content")
    if isinstance(content, list):
        texts = (as_object(part) for part in content)
        return next((as_text(part.get("text")) for part in texts if part.get("type") == "text"), "")
    return as_text(content)


_Sent = tuple[str, Sequence[str]]
"""The words of a message as its user sent it, and the ids of what was attached to it."""


UnsavedChats: TypeAlias = ContentCache[dict[str, int]]
"""Of the chats that the host does not keep the number of the message that brought each document, by user and chat.

As this worker has seen them arrive, in that order: the host names the documents of the latest message alone.
"""


async def attached_documents(
    call: Call, *, unsaved: UnsavedChats | None = None
) -> Mapping[int, tuple[AttachedFile, ...]]:
    """Return the documents attached to messages of the call, by the index of the message, each once.

    A document that the user has removed from the chat since, or whose message the call does not hold, is not among
    them. Reads the database once, or not at all where no document is attached; without it there are none. Of a chat
    that is not saved, `unsaved` remembers what came with which message.
    """
    if call.task or not call.documents:
        return {}
    sent: Sequence[_Sent] = ()
    if is_saved(call.chat_id) and call.user_message_id:
        try:
            messages = await branch_messages(call.chat_id, call.user_message_id, "content", "files")
            sent = [(_text_of(message).strip(), file_ids(message["files"])) for message in messages]
        except SQLAlchemyError:
            _log.warning("the chat's documents stay with the host", exc_info=True)
            return {}
    left = {document.id: document for document in call.documents}
    found: dict[int, tuple[AttachedFile, ...]] = {}
    for index, ids in _located(call, sent, UnsavedChats(1) if unsaved is None else unsaved):
        if files := tuple(left.pop(file_id) for file_id in dict.fromkeys(ids) if file_id in left):
            found[index] = (*found.get(index, ()), *files)
    return found


async def files_without_text(ids: Collection[str]) -> frozenset[str]:
    """Return those of the existing files in which the host has found no text: it answers without them.

    Raises SQLAlchemy's errors.
    """
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.files import File

    text = sa.func.ltrim(File.data["content"].as_string(), _BLANKS)
    statement = sa.select(File.id).where(File.id.in_(ids), sa.func.coalesce(text, "") == "")
    async with get_async_db_context() as session:
        return frozenset((await session.execute(statement)).scalars())


def with_documents(call: Call, chosen: Mapping[int, Sequence[AttachedFile]]) -> Call:
    """Return the call with these files as parts of their messages, and without the host's excerpts of them.

    `chosen` is by the index of the message. Excerpts of all else stay, under their numbers. Where the host's words
    cannot be recognized they stay as they are.
    """
    chosen_ids = {file.id for files in chosen.values() for file in files}
    messages = without_excerpts(call, chosen_ids)
    for index, files in chosen.items():
        if files:
            message = as_object(messages[index]) or {"role": "user"}
            content = message.get("content")
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
            parts = [
                *parts,
                *({"type": "file", "file": {"file_id": file.id, "filename": file.name}} for file in files),
            ]
            messages[index] = {**message, "content": parts}
    return replace(call, messages=[message for message in messages if message is not None])


def _located(call: Call, sent: Sequence[_Sent], unsaved: UnsavedChats) -> list[tuple[int, Sequence[str]]]:
    """The index of the message of each that was sent, oldest first, with its files; they are matched from the end.

    The host or a filter may have omitted the oldest, changed the text, and added messages in the user's name. A chat
    that is not saved says only what was attached to the latest message; what is not remembered goes to the first one.
    """
    candidates = [
        (index, text)
        for index, message in enumerate(call.messages)
        if as_object(message).get("role") == "user" and (text := _text_of(message)) != TOOL_IMAGES_TEXT
    ]
    users = [index for index, _ in candidates]
    matched: list[tuple[int, Sequence[str]]] = []
    for words, ids in reversed(sent or [(call.user_text.strip(), call.latest_document_ids)]):
        if not candidates:
            break
        latest = candidates[-1 : -_MOST_ADDED - 1 : -1]
        # A message without words is that which names one of its files, as the host does.
        found = (
            added
            for added, (_, text) in enumerate(latest)
            if (words in text if words else any(file_id in text for file_id in ids))
        )
        added = next(found, 0)
        matched.append((latest[added][0], ids))
        del candidates[len(candidates) - 1 - added :]
    if sent or not matched:
        return matched[::-1]
    known: dict[str, int] = {}
    if call.chat_id:
        known = unsaved.get_or_compute(cache_key(call.user_id, call.chat_id), dict)
    for file_id in call.latest_document_ids:
        known.pop(file_id, None)
        known[file_id] = users.index(matched[0][0])
    earlier = [file.id for file in call.documents if file.id not in call.latest_document_ids]
    earlier.sort(key=lambda file_id: [*known].index(file_id) if file_id in known else -1)
    last = len(users) - 1
    return [*((users[min(known.get(file_id, 0), last)], [file_id]) for file_id in earlier), *matched]


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (as_text(as_object(part).get("text")) for part in as_list(content))
    return "\n".join(filter(None, texts))
