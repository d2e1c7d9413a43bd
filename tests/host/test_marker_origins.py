"""Whose markers a chat has, by the tables of a real Open WebUI on SQLite."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.lookups import markers_of_others
from tests.support.host_chats import write_chat
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

OURS, PRESETS, THEIRS, NOWHERE = (f"01{letter}AAAAAAA0123456789" for letter in "ABCD")


def call(chat_id: str, model: str = "openrouter.a/b") -> Any:
    return read_call(
        {"model": model, "messages": []}, user={"id": "ada"}, metadata={"chat_id": chat_id}, task=None
    )


async def fill() -> None:
    """A chat of three answers: by a model of ours, by a preset on top of one, and by another function's model."""
    from open_webui.internal.db import async_engine
    from open_webui.models.access_grants import AccessGrant
    from open_webui.models.models import Model
    from sqlalchemy import insert

    written = [("openrouter.a/b", OURS), ("mine", PRESETS), ("other.a.b", THEIRS)]
    await write_chat(
        {
            "id": f"c1-a{number}",
            "parent_id": f"a{number - 1}" if number else None,
            "content": f"[{ulid}]: #\n\nHello",
            "model_id": model,
        }
        for number, (model, ulid) in enumerate(written)
    )
    preset = {
        "id": "mine",
        "base_model_id": "openrouter.a/b",
        "user_id": "ada",
        "name": "",
        "params": {},
        "meta": {},
    }
    async with async_engine.begin() as connection:
        for model in (Model, AccessGrant):
            await connection.run_sync(model.__table__.create)
        await connection.execute(insert(Model.__table__), [{**preset, "updated_at": 1, "created_at": 1}])


def visit() -> list[frozenset[str]]:
    """Of a chat, of one that does not exist, of an unsaved one, and before there are tables."""

    async def look() -> list[frozenset[str]]:
        everything = [OURS, PRESETS, THEIRS, NOWHERE]
        failed = await markers_of_others(call("c1"), everything)
        await fill()
        calls = [call("c1"), call("c2"), call("temporary:1"), call("c1", "a/b")]
        return [failed, *[await markers_of_others(each, everything) for each in calls]]

    return asyncio.run(look())


def test_whose_markers_a_chat_has(tmp_path: Path) -> None:
    """Those of another function's model are of others; where it is not known, none are."""
    variables = {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}
    nothing: frozenset[str] = frozenset()
    assert inside_open_webui(tmp_path, variables, visit) == [
        nothing,
        frozenset({THEIRS}),
        nothing,
        nothing,
        nothing,
    ]
