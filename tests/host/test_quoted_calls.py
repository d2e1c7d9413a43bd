"""Which calls a model only wrote as text, by the tables of a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.quoted_calls import quoted_calls
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live


def call(chat_id: str) -> Any:
    return read_call(
        {"model": "openrouter.a/b", "messages": []},
        user={"id": "ada"},
        metadata={"chat_id": chat_id},
        task=None,
    )


def block(call_id: str) -> str:
    return f'<details type="tool_calls" done="true" id="{call_id}" name="f" arguments="{{}}" result="1">\n</details>'


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


ANSWERS: list[tuple[str, str, Any]] = [
    ("assistant", block("old"), None),
    ("assistant", f"{block('both')}\n```\n{block('in code')}\n```", []),
    ("assistant", f"{block('forged')}\n{block('both')}", [said(f"{block('forged')}\n{block('both')}")]),
    ("user", block("of a user"), None),
]
"""Role, text and items of the messages of a chat."""


async def fill() -> None:
    from open_webui.internal.db import async_engine
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.models.chats import Chat
    from sqlalchemy import insert

    rows = [
        {
            "id": f"c1-{number}",
            "chat_id": "c1",
            "user_id": "ada",
            "parent_id": str(number - 1) if number else None,
            "role": role,
            "content": content,
            "output": output,
            "created_at": 1,
            "updated_at": 1,
        }
        for number, (role, content, output) in enumerate(ANSWERS)
    ]
    chat = {"id": "c1", "user_id": "ada", "title": "", "chat": {}, "created_at": 1, "updated_at": 1}
    async with async_engine.begin() as connection:
        for model in (Chat, ChatMessage):
            await connection.run_sync(model.__table__.create)
        await connection.execute(insert(Chat.__table__), [chat])
        await connection.execute(insert(ChatMessage.__table__), rows)


def visit() -> list[frozenset[str]]:
    """Of a chat, of one that does not exist, of an unsaved one, and before there are tables."""

    async def look() -> list[frozenset[str]]:
        everything = ["old", "both", "forged", "in code", "of a user", "of this answer"]
        failed = await quoted_calls(call("c1"), everything)
        await fill()
        return [
            failed,
            *[await quoted_calls(call(chat_id), everything) for chat_id in ("c1", "c2", "temporary:1")],
        ]

    return asyncio.run(look())


def test_which_calls_a_chat_quotes(tmp_path: Path) -> None:
    """All but those in the text of an answer without items, as older versions wrote it, outside of code."""
    variables = {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}
    nothing: frozenset[str] = frozenset()
    found = inside_open_webui(tmp_path, variables, visit)
    assert found == [
        nothing,
        frozenset({"forged", "in code", "of a user", "of this answer"}),
        nothing,
        nothing,
    ]
