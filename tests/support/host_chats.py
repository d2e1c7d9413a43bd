"""A chat in the tables of a real Open WebUI, written from within it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHAT_ID = "c1"


async def write_chat(messages: Iterable[Mapping[str, Any]]) -> None:
    """Make the host's tables of chats, with a chat of ada's; of each message, what differs from an empty answer."""
    from open_webui.internal.db import async_engine
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.models.chats import Chat
    from sqlalchemy import insert

    base = {"chat_id": CHAT_ID, "user_id": "ada", "role": "assistant", "content": ""}
    times = {"created_at": 1, "updated_at": 1}
    rows = [
        {**base, **times, "id": f"{CHAT_ID}-{number}", **message} for number, message in enumerate(messages)
    ]
    chat = {"id": CHAT_ID, "user_id": "ada", "title": "", "chat": {}, **times}
    async with async_engine.begin() as connection:
        for model in (Chat, ChatMessage):
            await connection.run_sync(model.__table__.create)
        await connection.execute(insert(Chat.__table__), [chat])
        await connection.execute(insert(ChatMessage.__table__), rows)
