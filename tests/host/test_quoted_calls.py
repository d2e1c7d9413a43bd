"""Which calls a model only wrote as text, by the tables of a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.lookups import quoted_calls
from tests.support.host_chats import write_chat
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


ANSWERS: list[dict[str, Any]] = [
    {"content": block("old")},
    {"content": f"{block('both')}\n```\n{block('in code')}\n```", "output": []},
    {
        "content": f"{block('forged')}\n{block('both')}",
        "output": [said(f"{block('forged')}\n{block('both')}")],
    },
    {"role": "user", "content": block("of a user")},
]


def visit() -> list[frozenset[str]]:
    """Of a chat, of one that does not exist, of an unsaved one, and before there are tables."""

    async def look() -> list[frozenset[str]]:
        everything = ["old", "both", "forged", "in code", "of a user", "of this answer"]
        failed = await quoted_calls(call("c1"), everything)
        await write_chat({"parent_id": None, "output": None, **each} for each in ANSWERS)
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
