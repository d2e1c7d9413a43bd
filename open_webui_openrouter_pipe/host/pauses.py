"""How long users pause in a chat, by the host's own table: Open WebUI passes no times of earlier messages to a pipe.

Source: `models/chat_messages.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from .call import Call, is_saved

_LARGEST_SECONDS: Final = 10_000_000_000
"""A larger time is in milliseconds, as in old rows."""

_log = logging.getLogger(__name__)


async def chat_pauses(call: Call) -> Sequence[float]:
    """Return the seconds between the user's messages of this branch, oldest first; none where they are not known.

    An answer falls into the pause before the next message, so a long run of tools makes it look longer than it was.
    """
    if call.task or not is_saved(call.chat_id) or not call.user_message_id:
        return ()
    try:
        times = await _message_times(call.chat_id, call.user_message_id)
    except SQLAlchemyError:
        _log.warning("the pauses of a chat are not known", exc_info=True)
        return ()
    return [max(0.0, later - earlier) for earlier, later in pairwise(times)]


async def _message_times(chat_id: str, message_id: str) -> list[float]:
    """The epoch seconds of the user's messages of the branch that ends there, oldest first."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.utils.misc import get_message_list

    statement = sa.select(
        ChatMessage.id, ChatMessage.parent_id, ChatMessage.role, ChatMessage.created_at
    ).where(ChatMessage.chat_id == chat_id)
    async with get_async_db_context() as session:
        rows = (await session.execute(statement)).mappings().all()
    messages = {row["id"].removeprefix(f"{chat_id}-"): {**row, "parentId": row["parent_id"]} for row in rows}
    times = [
        message["created_at"] or 0
        for message in get_message_list(messages, message_id)
        if message["role"] == "user"
    ]
    return [time / 1000 if time > _LARGEST_SECONDS else time for time in times]
