"""Moves what names models of one function or connection to our function: chats, presets, grants, settings.

The answers of a chat still name the models that wrote them, unless those are ours: Open WebUI hands the reasoning
beside an answer back only to the model that it names, and what another pipe kept nobody else can read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .commands import SETTINGS, Renaming, change_function_valves, rename_choice, rename_ids, rename_setting
from .host_tables import Columns, HostRow, HostTables, each_row, each_value


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

    def setting(row: HostRow) -> Mapping[str, Any] | None:
        renamed = rename_setting(row["value"], new_id) if row["key"] in SETTINGS else row["value"]
        return None if renamed == row["value"] else {"value": renamed}

    async def rewrite(table: str, column: str, become: Callable[[Any], Any]) -> int:
        wanted = marks if column in {"chat", "data"} else ()
        return await tables.rewrite(Columns(table, (column,), wanted), each_value(column, become))

    chat = partial(rename_ids if same_pipe else rename_choice, new_id=new_id)
    data = partial(rename_ids, new_id=new_id)
    of_config = Columns("config", ("key", "value"))
    return {
        "chats": await rewrite("chat", "chat", chat),
        "shared copies of chats": await rewrite("shared_chat", "chat", chat),
        "answers": await _move_answers(tables, renaming) if same_pipe else 0,
        "folders": await rewrite("folder", "data", data),
        "automations": await rewrite("automation", "data", data),
        "users' own settings": await rewrite("user", "settings", settings),
        "settings of Open WebUI": await tables.rewrite(of_config, each_row(setting)),
        "valves of the function": await _move_valves(tables, renaming) if same_pipe else 0,
        **await _move_models(tables, renaming),
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
    """The rows of models with their grants and history, and what presets are based on.

    A row takes the place of one that our function has made meanwhile: it has what an administrator set. A connection
    still offers its models, so it keeps its rows and grants, and ours get copies.
    """
    new_ids, bases = dict[str, str](), dict[str, str]()
    for row in await tables.rows("model", "id", "base_model_id"):
        base = row["base_model_id"]
        if (new := renaming.new_id(row["id"] if base is None else base)) is not None:
            (new_ids if base is None else bases)[row["id"]] = new
    model, grant = tables.table("model", "id"), tables.table("access_grant", "id", "resource_id")
    history = tables.table("model_history", "model_id")
    grants, copies = 0, renaming.of_connection
    if model is not None:
        async with tables.engine.begin() as connection:
            for names in new_ids.items():
                await _replace(tables, connection, model.c.id, names, copies=copies)
                if history is not None and not copies:
                    await _replace(tables, connection, history.c.model_id, names, copies=False)
                if grant is not None:
                    of_models = grant.c.resource_type == "model"
                    counted = sa.select(sa.func.count()).where(of_models, grant.c.resource_id == names[0])
                    grants += await connection.scalar(counted) or 0
                    await _replace(tables, connection, grant.c.resource_id, names, of_models, copies=copies)
            for preset, base in bases.items():
                await tables.execute(
                    connection, sa.update(model).where(model.c.id == preset).values(base_model_id=base)
                )
    return {
        "models with what was set for them": len(new_ids),
        "grants of models": grants,
        "presets": len(bases),
    }


async def _replace(
    tables: HostTables,
    connection: AsyncConnection,
    column: sa.Column[Any],
    names: tuple[str, str],
    *conditions: sa.ColumnElement[bool],
    copies: bool,
) -> None:
    """Let the rows of the old name, or copies of them, have the new one, in place of those that have it."""
    old, new = names
    table = column.table
    changes: list[sa.Executable] = [sa.update(table).where(column == old, *conditions).values({column: new})]
    if copies:
        found = await connection.execute(sa.select(table).where(column == old, *conditions))
        rows = ({**row, "id": str(uuid4()), column.name: new} for row in found.mappings())
        changes = [sa.insert(table).values(row) for row in rows]
    for change in (sa.delete(table).where(column == new, *conditions), *changes):
        await tables.execute(connection, change)


async def _move_valves(tables: HostTables, renaming: Renaming) -> int:
    """The valves that an administrator has set, where our function has none yet."""
    rows = {row["id"]: row["valves"] for row in await tables.rows("function", "id", "valves")}
    valves = rows.get(renaming.source)
    function = tables.table("function", "valves")
    if function is None or not valves or rows.get(renaming.target):
        return 0

    def change(row: HostRow) -> Mapping[str, Any] | None:
        return {"valves": valves} if row["id"] == renaming.target else None

    return await tables.rewrite(Columns("function", ("id", "valves")), each_row(change))
