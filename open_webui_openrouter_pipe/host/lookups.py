"""What the host's own tables say of users, groups, chats and prompts. Reads, and never writes.

Source: `models/users.py`, `models/chats.py`, `models/chat_messages.py`, `main.py: chat_completion` (a model's prompt
goes before that of all models) and `functions.py` of Open WebUI 0.12. Archived chats are chats. A clone, a fork and an
imported chat keep the text, the items and the times of the messages that they copy.
"""

from __future__ import annotations

import json
import logging
import os.path
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from ..errors import StoreUnavailable
from ..money.limits import Group, Person
from ..responses.values import as_object, as_text
from .call import Call, is_saved

_DAY_SECONDS: Final = 24 * 60 * 60
_LONGEST_MESSAGE_SECONDS: Final = 30 * _DAY_SECONDS
"""How long before its artifacts a message may have been written last, by what the host says: far more than it takes."""

_LARGEST_SECONDS: Final = 10_000_000_000
"""A larger time is in milliseconds, as in old rows."""

_BATCH_MESSAGES: Final = 50
_TIME_CHARS: Final = 16
_NANOSECONDS: Final = 10**9
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TO_PYTHONS_BASE_32: Final = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")

_log = logging.getLogger(__name__)


class Records:
    """The host's users and chats; its engine stays open."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # The position of one text in another: the host replaces SQLite's LIKE by a slow one of its own.
        self._position = sa.func.instr if engine.dialect.name == "sqlite" else sa.func.strpos

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the users who exist. Raises SQLAlchemy's errors, as the other methods do."""
        from open_webui.models.users import User

        return await self._existing(User.id, user_ids)

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Return those of the chats that exist."""
        from open_webui.models.chats import Chat

        return await self._existing(Chat.id, chat_ids)

    async def _existing(self, column: Any, ids: Sequence[str]) -> AbstractSet[str]:
        async with self._engine.connect() as connection:
            return set(await connection.scalars(sa.select(column).where(column.in_(ids))))

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
            created = int(first[:_TIME_CHARS].translate(_TO_PYTHONS_BASE_32), 32) // _NANOSECONDS
            statement = self._messages_with(prefix, user_id, created - _LONGEST_MESSAGE_SECONDS)
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


def _text_of(column: Any) -> sa.ColumnElement[str]:
    """A JSON column as the text that it is stored as."""
    return sa.func.coalesce(sa.cast(column, sa.Text), "")


async def branch_messages(chat_id: str, message_id: str, *columns: str) -> Sequence[Mapping[str, Any]]:
    """Return these columns of the user's messages in the branch that ends there, oldest first.

    The text of answers stays in the database. Raises SQLAlchemy's errors.
    """
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.utils.misc import get_message_list

    of_user = ChatMessage.role == "user"
    selected = [sa.case((of_user, getattr(ChatMessage, name))).label(name) for name in columns]
    statement = sa.select(ChatMessage.id, ChatMessage.parent_id, ChatMessage.role, *selected)
    async with get_async_db_context() as session:
        rows = (await session.execute(statement.where(ChatMessage.chat_id == chat_id))).mappings().all()
    messages = {row["id"].removeprefix(f"{chat_id}-"): {**row, "parentId": row["parent_id"]} for row in rows}
    return [message for message in get_message_list(messages, message_id) if message["role"] == "user"]


async def folded_answers(call: Call) -> Sequence[str]:
    """Return the texts of the answers of which the host has no items; none of a chat that it does not keep."""
    from open_webui.models.chats import Chats

    if not is_saved(call.chat_id):
        return ()
    try:
        messages = await Chats.get_messages_map_by_chat_id(call.chat_id)
    except Exception as error:  # noqa: BLE001 - the host may raise anything, and what they hold is then text
        _log.warning("the answers without items of a chat are not known: %s", type(error).__name__)
        return ()
    kept = map(as_object, (messages or {}).values())
    answers = (each for each in kept if each.get("role") == "assistant" and not each.get("output"))
    return [as_text(answer.get("content")) for answer in answers]


async def chat_pauses(call: Call) -> Sequence[float]:
    """Return the seconds between the user's messages of this branch, oldest first; none where they are not known.

    An answer falls into the pause before the next message, so a long run of tools makes it look longer than it was.
    """
    if call.task or not is_saved(call.chat_id) or not call.user_message_id:
        return ()
    try:
        messages = await branch_messages(call.chat_id, call.user_message_id, "created_at")
    except SQLAlchemyError:
        _log.warning("the pauses of a chat are not known", exc_info=True)
        return ()
    times = [message["created_at"] or 0 for message in messages]
    seconds = [time / 1000 if time > _LARGEST_SECONDS else time for time in times]
    return [max(0.0, later - earlier) for earlier, later in pairwise(seconds)]


async def people() -> Mapping[str, Person]:
    """Return all users by their ids, with their groups. Raises StoreUnavailable."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.groups import Group as HostGroup
    from open_webui.models.groups import GroupMember
    from open_webui.models.users import User

    members = sa.select(GroupMember.user_id, HostGroup.id, HostGroup.name)
    try:
        async with get_async_db_context() as session:
            users = (await session.execute(sa.select(User.id, User.name, User.role))).all()
            found = (
                await session.execute(members.join(HostGroup, HostGroup.id == GroupMember.group_id))
            ).all()
    except SQLAlchemyError as error:
        raise StoreUnavailable("The users cannot be read.", detail=type(error).__name__) from None
    groups: dict[str, tuple[Group, ...]] = {}
    for user_id, *group in found:
        groups[user_id] = (*groups.get(user_id, ()), Group(*group))
    return {
        user_id: Person(name or user_id, is_admin=role == "admin", groups=groups.get(user_id, ()))
        for user_id, name, role in users
    }


async def group_names() -> list[str] | None:
    """Return the names of all groups, None where the host does not say them."""
    from open_webui.models.groups import Groups

    try:
        return [group.name for group in await Groups.get_all_groups()]
    except Exception as error:  # noqa: BLE001 - whatever the host raises: they are looked up for a hint alone
        _log.warning("the groups cannot be read: %s", type(error).__name__)
        return None


async def groups_of(user_id: str) -> list[Group]:
    """Return a user's groups. Raises StoreUnavailable."""
    from open_webui.models.groups import Groups

    try:
        return [Group(group.id, group.name) for group in await Groups.get_groups_by_member_id(user_id)]
    except Exception as error:  # noqa: BLE001 - whatever the host raises
        raise StoreUnavailable("The groups of a user cannot be read.", detail=repr(error)) from None


async def template_digest(call: Call) -> str:
    """Return a digest of the system prompts of the call's model, of all models and of its chat, "" where unknown."""
    from open_webui.models.config import Config
    from open_webui.models.models import Models

    try:
        row = await Models.get_model_by_id(call.model_row_id)
        params = as_object(row.params.model_dump()) if row and row.params else {}
        defaults = as_object(await Config.get("models.default_params", {}))
    except Exception as error:  # noqa: BLE001 - the host's database may raise anything, and this is no reason to fail
        _log.warning("the template of a system prompt is not known: %s", type(error).__name__)
        return ""
    texts = [as_text(params.get("system")), as_text(defaults.get("system")), *call.written_prompts]
    return sha256(json.dumps(texts).encode()).hexdigest()
