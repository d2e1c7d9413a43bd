"""Moves what names models of one function or connection to our function: chats, presets, grants, settings.

The answers of a chat still name the models that wrote them, unless those are ours: Open WebUI hands the reasoning
beside an answer back only to the model that it names, and what another pipe kept nobody else can read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .commands import SETTINGS, Renaming, change_function_valves, rename_choice, rename_ids, rename_setting
from .host_tables import HostRow, HostTables, each_value


async def move(tables: HostTables, renaming: Renaming) -> dict[str, int]:
    """Move everything, and return how much of each kind."""
    same_pipe, new_id = renaming.same_pipe, renaming.new_id
    marks = (f'"{renaming.source}.',) if renaming.source else ("/",)

    def with_own(valves: Mapping[str, Any]) -> Mapping[str, Any]:
        others = {name: each for name, each in valves.items() if name != renaming.source}
        return {renaming.target: valves[renaming.source], **others} if others != valves else valves

    def settings(value: Any) -> Any:
        renamed = rename_ids(value, new_id)
        return change_function_valves(renamed, with_own) if same_pipe else renamed

    async def setting(_: AsyncConnection, row: HostRow) -> HostRow | None:
        renamed = rename_setting(row["value"], new_id) if row["key"] in SETTINGS else row["value"]
        return None if renamed == row["value"] else {"value": renamed}

    async def rewrite(table: str, column: str, become: Callable[[Any], Any]) -> int:
        wanted = marks if column in {"chat", "data"} else ()
        return await tables.rewrite(table, [column], each_value(column, become), containing=wanted)

    chat = partial(rename_ids if same_pipe else rename_choice, new_id=new_id)
    data = partial(rename_ids, new_id=new_id)
    return {
        "chats": await rewrite("chat", "chat", chat),
        "shared copies of chats": await rewrite("shared_chat", "chat", chat),
        "answers": await _move_answers(tables, renaming) if same_pipe else 0,
        "folders": await rewrite("folder", "data", data),
        "automations": await rewrite("automation", "data", data),
        "users' own settings": await rewrite("user", "settings", settings),
        "settings of Open WebUI": await tables.rewrite("config", ["key", "value"], setting),
        "valves of the function": await _move_valves(tables, renaming) if same_pipe else 0,
        **await _move_models(tables, renaming),
        "presets": await rewrite("model", "base_model_id", lambda base: (base and new_id(base)) or base),
    }


async def _move_answers(tables: HostTables, renaming: Renaming) -> int:
    """The model that each answer names in the table of messages."""
    table = tables.table("chat_message", "model_id")
    if table is None:
        return 0
    column = table.c.model_id
    counted = sa.select(column, sa.func.count()).where(column.is_not(None)).group_by(column)
    moved = 0
    async with tables.engine.begin() as connection:
        for old, count in (await connection.execute(counted)).all():
            if new := renaming.new_id(old):
                moved += count
                await tables.execute(connection, sa.update(table).where(column == old).values(model_id=new))
    return moved


async def _move_models(tables: HostTables, renaming: Renaming) -> dict[str, int]:
    """The rows of models with their grants and history.

    A row takes the place of one that our function has made meanwhile: it has what an administrator set. A connection
    still offers its models, so it keeps its rows and grants, and ours get copies.
    """
    models = await tables.rows("model", "id", "base_model_id")
    own = [row["id"] for row in models if row["base_model_id"] is None]
    new_ids = {old: new for old in own if (new := renaming.new_id(old))}
    grants = 0
    async with tables.engine.begin() as connection:
        for (column, of_models), (old, new) in product(tables.naming_models(), new_ids.items()):
            table = column.table
            if renaming.of_connection and table.name == "model_history":
                continue
            named = sa.select(table).where(column == old, of_models)
            found = (await connection.execute(named)).mappings().all()
            grants += len(found) if table.name == "access_grant" else 0
            await tables.execute(connection, sa.delete(table).where(column == new, of_models))
            if renaming.of_connection:
                for row in found:
                    copy = {**row, "id": str(uuid4()), column.name: new}
                    await tables.execute(connection, sa.insert(table).values(copy))
            else:
                moved = sa.update(table).where(column == old, of_models).values({column: new})
                await tables.execute(connection, moved)
    return {"models with what was set for them": len(new_ids), "grants of models": grants}


async def _move_valves(tables: HostTables, renaming: Renaming) -> int:
    """The valves that an administrator has set, where our function has none yet."""
    rows = {row["id"]: row["valves"] for row in await tables.rows("function", "id", "valves")}
    valves = rows.get(renaming.source)
    if not valves or rows.get(renaming.target):
        return 0

    async def change(_: AsyncConnection, row: HostRow) -> HostRow | None:
        return {"valves": valves} if row["id"] == renaming.target else None

    return await tables.rewrite("function", ["id", "valves"], change)
