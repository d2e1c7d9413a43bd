"""What the host's tables say about users, chats, and the artifacts that chats name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.history.markers import REFERENCE_TYPE, item_id, leading_markers
from open_webui_openrouter_pipe.host.lookups import Records
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer

pytestmark = pytest.mark.live

NOW = 1_760_000_000
DAY = 24 * 60 * 60
IDS = [item_id((NOW + number) * 10**9, number) for number in range(11)]
(
    IN_TEXT,
    IN_ITEMS,
    ARCHIVED,
    OF_ANOTHER,
    OF_NO_CHAT,
    NOWHERE,
    CONTINUED,
    MILLISECONDS,
    IMPORTED,
    SHARED,
    TIMELESS,
) = IDS
CHATS = [
    *(
        (name, "ada")
        for name in ("clone", "fork", "archived", "long", "milliseconds", "import", "shared", "timeless")
    ),
    ("copy", "eve"),
]


def hidden(ulid: str) -> list[dict[str, Any]]:
    """An output whose reasoning refers to the artifact."""
    return [{"type": "reasoning", "reasoning_details": [{"type": REFERENCE_TYPE, "id": ulid}], "summary": []}]


def messages() -> list[dict[str, Any]]:
    """Messages of these chats, and one that its chat left behind."""
    return [
        {"chat_id": "clone", "content": f"{leading_markers([IN_TEXT])}Ä text", "output": None},
        {"chat_id": "clone", "content": "nothing to see", "output": [{"type": "message"}]},
        {"chat_id": "fork", "content": "", "output": hidden(IN_ITEMS)},
        {"chat_id": "archived", "content": leading_markers([ARCHIVED]), "output": None},
        {"chat_id": "copy", "content": leading_markers([OF_ANOTHER]), "output": None, "user_id": "eve"},
        {"chat_id": "deleted", "content": leading_markers([OF_NO_CHAT]), "output": None},
        {"chat_id": "copy", "content": leading_markers([OF_ANOTHER]), "output": None},
        {"chat_id": "long", "content": leading_markers([CONTINUED]), "created_at": NOW - 400 * DAY},
        {"chat_id": "milliseconds", "content": leading_markers([MILLISECONDS]), "created_at": NOW * 1000},
        {"chat_id": "import", "content": leading_markers([IMPORTED]), "created_at": NOW + 400 * DAY},
        {"chat_id": "shared", "content": leading_markers([SHARED]), "user_id": "eve"},
        {"chat_id": "timeless", "content": leading_markers([TIMELESS]), "created_at": 0, "updated_at": None},
        {
            "chat_id": "fork",
            "content": leading_markers([NOWHERE]),
            "created_at": 0,
            "updated_at": NOW - 31 * DAY,
        },
    ]


async def fill(connection: Any) -> None:
    """Write users, chats and messages into empty tables of the host's own making."""
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.models.chats import Chat
    from open_webui.models.users import User

    def table(model: Any) -> sa.Table:
        return model.__table__  # type: ignore[no-any-return]

    for model in (User, Chat, ChatMessage):
        await connection.run_sync(table(model).create)
    if connection.dialect.name == "sqlite":
        await connection.execute(sa.text("PRAGMA foreign_keys=OFF"))
    else:
        await connection.execute(sa.text("SET session_replication_role = replica"))
    people = [{"id": name, "name": name, "email": name} for name in ("ada", "eve")]
    await connection.execute(sa.insert(table(User)), people)
    chats = [{"id": chat, "user_id": user, "archived": chat == "archived"} for chat, user in CHATS]
    await connection.execute(sa.insert(table(Chat)), chats)
    base: dict[str, Any] = {"user_id": "ada", "role": "assistant", "content": "", "output": None}
    base |= {"created_at": NOW - 60, "updated_at": NOW}
    rows = [{**base, "id": str(number), **each} for number, each in enumerate(messages())]
    await connection.execute(sa.insert(table(ChatMessage)), rows)


async def look() -> tuple[dict[str, Any], list[str]]:
    """Ask everything of a host with such tables; also, how the database finds the messages."""
    from open_webui.internal.db import async_engine

    async with async_engine.begin() as connection:
        await fill(connection)
    records = Records(async_engine)
    answers = {
        "users": sorted(await records.existing_users(["eve", "ada", "bob"])),
        "chats": sorted(await records.existing_chats(["clone", "archived", "deleted"])),
        "named": dict(await records.naming_chats("ada", IDS)),
        "one": dict(await records.naming_chats("ada", [ARCHIVED])),
        "other": dict(await records.naming_chats("eve", IDS)),
        "nothing": dict(await records.naming_chats("ada", [])),
    }
    statement = records._messages_with("0001", "ada", NOW)
    words = statement.compile(async_engine.sync_engine, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN QUERY PLAN" if async_engine.dialect.name == "sqlite" else "EXPLAIN"
    async with async_engine.connect() as connection:
        plan = [str(line[-1]) for line in await connection.execute(sa.text(f"{explain} {words}"))]
    await async_engine.dispose()
    return answers, plan


def visit() -> tuple[dict[str, Any], list[str]]:
    """The same, for a process without an event loop."""
    return asyncio.run(look())


KNOWN = {
    "users": ["ada", "eve"],
    "chats": ["archived", "clone"],
    "named": {
        IN_TEXT: "clone",
        IN_ITEMS: "fork",
        ARCHIVED: "archived",
        CONTINUED: "long",
        MILLISECONDS: "milliseconds",
        IMPORTED: "import",
        SHARED: "shared",
        TIMELESS: "timeless",
    },
    "one": {ARCHIVED: "archived"},
    "other": {OF_ANOTHER: "copy"},
    "nothing": {},
}


def test_the_tables_are_read_in_sqlite(tmp_path: Path) -> None:
    """Markers in text and references in items count, in the user's own chats alone, whoever wrote them and whenever.

    Nothing is read from end to end, and of the user's messages only those since the artifacts were made.
    """
    answers, plan = inside_open_webui(tmp_path, {"DATABASE_URL": f"sqlite:///{tmp_path}/webui.db"}, visit)
    assert answers == KNOWN
    assert [line for line in plan if line.startswith("SCAN")] == []
    assert any("chat_message_chat" in line for line in plan)


@pytest.mark.servers
def test_the_tables_are_read_in_a_schema_of_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, postgres_schema: str
) -> None:
    """The same answers where the host keeps its tables in a schema of their own."""
    url = postgres_server.url.replace("postgresql:", "postgresql+psycopg:")
    variables = {"DATABASE_URL": url, "DATABASE_SCHEMA": postgres_schema}
    answers, _ = inside_open_webui(tmp_path, variables, visit)
    assert answers == KNOWN
