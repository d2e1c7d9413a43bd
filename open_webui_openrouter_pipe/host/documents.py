"""The documents of a chat: to which message each is attached, and the messages with documents as parts.

Open WebUI keeps non-image files out of the messages and writes excerpts of them into the prompt instead: each time
around the latest user message or at the end of the system prompt, wherever the file was attached. Here a file returns
to the message to which its user attached it. Knowledge and retrieved pages stay the host's.
Source: `load_messages_from_db` in `utils/middleware.py` and `get_messages_map_by_chat_id` in `models/chat_messages.py`
of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from ..conversation.content_cache import ContentCache
from ..history.host_output import TOOL_IMAGES_TEXT
from ..responses.wire import as_list, as_object, as_text
from .call import AttachedFile, Call, file_ids, is_saved
from .excerpts import without_excerpts

_MOST_ADDED: Final = 4
"""How many messages in a row filters may have written in the user's name, for the user's own to be found before."""

_REMEMBERED_CHATS: Final = 1_000

_BLANKS: Final = " \t\n\r\f\v"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message as its user sent it, and what was attached to it."""

    text: str
    file_ids: Sequence[str]

    def is_in(self, text: str) -> bool:
        """Whether a text has its words; without words, whether it names one of its files, as the host does."""
        words = self.text.strip()
        return words in text if words else any(file_id in text for file_id in self.file_ids)


class UnsavedChats:
    """Which message of a chat that the host does not keep brought which document, as this worker has seen them arrive.

    The host names the documents of the latest message alone. The chats that were not used recently are forgotten.
    """

    def __init__(self) -> None:
        self._messages: ContentCache[dict[str, int]] = ContentCache(_REMEMBERED_CHATS)

    def update(self, call: Call, latest: int) -> Mapping[str, int]:
        """Return by document the number of its message, counted from 0, where the latest message has that number.

        They are in the order in which they came.
        """
        if not call.chat_id:
            return {}
        known = self._messages.get_or_compute(f"{call.user_id}\n{call.chat_id}".encode(), dict)
        for file_id in call.latest_document_ids:
            known.pop(file_id, None)
            known[file_id] = latest
        return known


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
            sent = await _sent_messages(call.chat_id, call.user_message_id)
        except SQLAlchemyError:
            _log.warning("the chat's documents stay with the host", exc_info=True)
            return {}
    return _by_message(_located(call, sent, unsaved or UnsavedChats()), call.documents)


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
    joined = [
        _with_parts(as_object(message) or {"role": "user"}, chosen[index]) if chosen.get(index) else message
        for index, message in enumerate(messages)
    ]
    return replace(call, messages=[message for message in joined if message is not None])


async def _sent_messages(chat_id: str, message_id: str) -> list[_Sent]:
    """The user messages of the branch that ends there, oldest first; the text of answers stays in the database."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.utils.misc import get_message_list

    of_user = ChatMessage.role == "user"
    statement = sa.select(
        ChatMessage.id,
        ChatMessage.parent_id,
        ChatMessage.role,
        sa.case((of_user, ChatMessage.content)).label("content"),
        sa.case((of_user, ChatMessage.files)).label("files"),
    ).where(ChatMessage.chat_id == chat_id)
    async with get_async_db_context() as session:
        rows = (await session.execute(statement)).mappings().all()
    messages = {row["id"].removeprefix(f"{chat_id}-"): {**row, "parentId": row["parent_id"]} for row in rows}
    return [
        _Sent(_text_of(message), file_ids(message["files"]))
        for message in get_message_list(messages, message_id)
        if message["role"] == "user"
    ]


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
    for message in reversed(sent or [_Sent(call.user_text, call.latest_document_ids)]):
        if not candidates:
            break
        latest = candidates[-1 : -_MOST_ADDED - 1 : -1]
        added = next((added for added, (_, text) in enumerate(latest) if message.is_in(text)), 0)
        matched.append((latest[added][0], message.file_ids))
        del candidates[len(candidates) - 1 - added :]
    matched.reverse()
    if sent or not matched:
        return matched
    known = unsaved.update(call, users.index(matched[0][0]))
    earlier = [file.id for file in call.documents if file.id not in call.latest_document_ids]
    earlier.sort(key=lambda file_id: [*known].index(file_id) if file_id in known else -1)
    last = len(users) - 1
    return [*((users[min(known.get(file_id, 0), last)], [file_id]) for file_id in earlier), *matched]


def _by_message(
    located: Iterable[tuple[int, Sequence[str]]], documents: Sequence[AttachedFile]
) -> Mapping[int, tuple[AttachedFile, ...]]:
    """The documents by their message, each at the first that has it."""
    left = {document.id: document for document in documents}
    found: dict[int, tuple[AttachedFile, ...]] = {}
    for index, ids in located:
        if files := tuple(left.pop(file_id) for file_id in dict.fromkeys(ids) if file_id in left):
            found[index] = (*found.get(index, ()), *files)
    return found


def _with_parts(message: Mapping[str, Any], files: Sequence[AttachedFile]) -> Mapping[str, Any]:
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
    added = [{"type": "file", "file": {"file_id": file.id, "filename": file.name}} for file in files]
    return {**message, "content": [*parts, *added]}


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (as_text(as_object(part).get("text")) for part in as_list(content))
    return "\n".join(filter(None, texts))
