"""What the host's own tables say: who exists, and which chats name an artifact. Reads, and never writes.

Source: `models/users.py`, `models/chats.py` and `models/chat_messages.py` of Open WebUI 0.12. Archived chats are
chats. A clone, a fork and an imported chat keep the text, the items and the times of the messages that they copy.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

_DAY_SECONDS: Final = 24 * 60 * 60
_LONGEST_MESSAGE_SECONDS: Final = 30 * _DAY_SECONDS
"""How long before its artifacts a message may have been written last, by what the host says: far more than it takes."""

_BATCH_MESSAGES: Final = 50
_TIME_CHARS: Final = 16
_NANOSECONDS: Final = 10**9
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TO_PYTHONS_BASE_32: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")

# The position of one text in another. The host replaces SQLite's LIKE by a slow one of its own.
_POSITION: Final[Mapping[str, Callable[..., sa.ColumnElement[int]]]] = {
    "sqlite": sa.func.instr,
    "postgresql": sa.func.strpos,
}


class Records:
    """The host's users and chats; its engine stays open."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._position = _POSITION[engine.dialect.name]

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the users who exist. Raises SQLAlchemy's errors, as the other methods do."""
        from open_webui.models.users import User

        found = await self._fetch(sa.select(User.id).where(User.id.in_(user_ids)))
        return {row[0] for row in found}

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the chats that exist."""
        from open_webui.models.chats import Chat

        found = await self._fetch(sa.select(Chat.id).where(Chat.id.in_(chat_ids)))
        return {row[0] for row in found}

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Return a chat for each artifact id that an existing chat of the user names.

        Reads the messages of the user's chats, whoever wrote them, that were begun or changed since about the time when
        the artifacts were created; a copy or an import may be of any later time. Their text leaves the database only
        where it contains the common prefix of the ids.
        """
        if not ids:
            return {}
        first, last = min(ids), max(ids)  # ids sort by time
        prefix = os.path.commonprefix([first, last])  # noqa: RUF071 - of texts, indeed by characters
        similar_id = re.compile(rf"{prefix}[{_ALPHABET}]{{{len(first) - len(prefix)}}}")
        chats: dict[str, str] = {}
        async with self._engine.connect() as connection:
            since = _created_seconds(first) - _LONGEST_MESSAGE_SECONDS
            statement = self._messages_with(prefix, user_id, since)
            async for chat_id, text in await connection.stream(statement):
                chats.update(dict.fromkeys(set(ids).intersection(similar_id.findall(text)), chat_id))
        return chats

    def _messages_with(self, prefix: str, user_id: str, since: int) -> sa.Select[Any]:
        """Select chat and text of the messages in the user's chats since an epoch second that contain the prefix."""
        from open_webui.models.chat_messages import ChatMessage
        from open_webui.models.chats import Chat

        text = _text_of(ChatMessage.content) + _text_of(ChatMessage.output)
        times = ChatMessage.created_at, ChatMessage.updated_at
        return (
            sa.select(ChatMessage.chat_id, text)
            .join(Chat, Chat.id == ChatMessage.chat_id)
            .where(Chat.user_id == user_id)
            .where(sa.or_(*(sa.func.coalesce(time, since) >= since for time in times)))
            .where(self._position(text, prefix) > 0)
            .execution_options(yield_per=_BATCH_MESSAGES)
        )

    async def _fetch(self, statement: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        async with self._engine.connect() as connection:
            return (await connection.execute(statement)).all()


def _text_of(column: Any) -> sa.ColumnElement[str]:
    """A JSON column as the text that it is stored as."""
    return sa.func.coalesce(sa.cast(column, sa.Text), "")


def _created_seconds(ulid: str) -> int:
    """When the artifact with this id was created, in epoch seconds."""
    return int(ulid[:_TIME_CHARS].translate(_TO_PYTHONS_BASE_32), 32) // _NANOSECONDS
