"""An Open WebUI in a process of its own, in whose tables the tests of this folder look, and what they write there."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.host_source import is_older
from tests.support.inside import inside_open_webui

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

PEOPLE = {"ada": "user", "eve": "user", "root": "admin"}
VARIABLES = {
    "FROM_INIT_PY": "true",  # its page is where the package has it
    "AUDIO_STT_ENGINE": "openai",
    "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
    "HF_HUB_OFFLINE": "1",
    "RAG_EMBEDDING_ENGINE": "openai",
}


def seen_inside(folder: Path, *modules: str, **variables: str) -> dict[str, Any]:
    """What `look` of each module of this folder has found, by the module's name."""
    variables = {**VARIABLES, "STATIC_DIR": f"{folder}/static", **variables}
    return inside_open_webui(folder, variables, visit, *(f"tests.host.{name}" for name in modules))


def visit(*modules: str) -> dict[str, Any]:
    """The same, within the host: each module after the other, in one event loop."""
    import open_webui.config  # noqa: F401 - makes the tables

    async def look() -> dict[str, Any]:
        from open_webui.internal.db import async_engine
        from open_webui.models.users import Users

        for name, role in PEOPLE.items():
            await Users.insert_new_user(name, name, f"{name}@example.com", role=role)
        found = dict[str, Any]()
        for name in modules:
            with nothing_where_older():
                found[name] = await importlib.import_module(name).look()
        await async_engine.dispose()
        return found

    return asyncio.run(look())


@contextmanager
def nothing_where_older() -> Iterator[None]:
    """Where an older Open WebUI lacks what is looked at, nothing is seen of it."""
    try:
        yield
    except (AttributeError, ImportError):
        if not is_older():
            raise


async def insert(model: Any, *rows: Mapping[str, Any]) -> None:
    """Write rows past the host, which may be of chats and users that do not exist."""
    from open_webui.internal.db import async_engine
    from sqlalchemy import insert, text

    is_sqlite = async_engine.dialect.name == "sqlite"
    setting = "PRAGMA foreign_keys=OFF" if is_sqlite else "SET session_replication_role = replica"
    async with async_engine.connect() as connection:
        await connection.execute(text(setting))
        await connection.execute(insert(model.__table__), list(rows))
        await connection.commit()


async def write_chat(
    chat_id: str, messages: Iterable[Mapping[str, Any]], user_id: str | None = "ada", **fields: Any
) -> None:
    """Write a chat, or only its messages where it is nobody's; of each, what differs from an empty answer."""
    from open_webui.models.chat_messages import ChatMessage
    from open_webui.models.chats import Chat

    times = {"created_at": 1, "updated_at": 1}
    base = {"chat_id": chat_id, "user_id": user_id, "role": "assistant", "content": "", "output": None}
    rows = [
        {**base, **times, "id": f"{chat_id}-{number}", **message} for number, message in enumerate(messages)
    ]
    if user_id:
        await insert(Chat, {"id": chat_id, "user_id": user_id, "title": "", "chat": {}, **times, **fields})
    await insert(ChatMessage, *rows)
