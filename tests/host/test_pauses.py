"""How long users pause in a chat, by the table of a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.lookups import chat_pauses
from tests.support.host_chats import write_chat
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live


def call(message_id: str, *, chat_id: str = "c1", task: str | None = None) -> Any:
    metadata = {"chat_id": chat_id, "message_id": "answer", "user_message_id": message_id}
    return read_call({"model": "a/b", "messages": []}, user={"id": "ada"}, metadata=metadata, task=task)


async def fill() -> None:
    """A chat of three questions, the last one's time in milliseconds as in old rows, and a branch after the first."""
    tree = [
        ("q1", None, "user", 1_600_000_000),
        ("a1", "q1", "assistant", 1_600_000_002),
        ("q2", "a1", "user", 1_609_999_000),
        ("a2", "q2", "assistant", 1_609_999_002),
        ("q3", "a2", "user", 1_610_000_000_000),
        ("q2b", "a1", "user", 1_600_004_000),
    ]
    await write_chat(
        {"id": f"c1-{name}", "parent_id": parent, "role": role, "created_at": at, "updated_at": at}
        for name, parent, role, at in tree
    )


def visit() -> list[Sequence[float]]:
    """The pauses of the two branches, of the first question, and of what is no saved chat."""

    async def look() -> list[Sequence[float]]:
        await fill()
        calls = [
            call("q3"),
            call("q2b"),
            call("q1"),
            call("q3", task="title_generation"),
            call("q3", chat_id="temporary:1"),
            call(""),
        ]
        return [await chat_pauses(each) for each in calls]

    return asyncio.run(look())


def test_the_pauses_of_a_branch(tmp_path: Path) -> None:
    """Between the user's messages, oldest first; other branches and unsaved chats have no part in it."""
    assert inside_open_webui(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}, visit) == [
        [9_999_000, 1_000],
        [4_000],
        [],
        (),
        (),
        (),
    ]
