"""Moves what names models of one function or connection to our function: chats, presets, grants, settings.

The answers of a chat still name the models that wrote them, unless those are ours: Open WebUI hands the reasoning
beside an answer back only to the model that it names, and what another pipe kept nobody else can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .commands import SETTINGS, Renaming, change_function_valves, rename_choice, rename_ids, rename_setting
from .host_tables import Columns, HostRow, HostTables, each_row


async def move(tables: HostTables, renaming: Renaming) -> dict[str, int]:
    """Move everything, and return how much of each kind."""
    same_pipe = renaming.same_pipe
    marks = (f'"{renaming.source}.',) if renaming.source else ("/",)

    def chat(row: HostRow) -> Mapping[str, Any] | None:
        renamed = (rename_ids if same_pipe else rename_choice)(row["chat"], renaming.new_id)
        return {"chat": renamed} if renamed != row["chat"] else None

    def in_column(column: str) -> Any:
        def change(row: HostRow) -> Mapping[str, Any] | None:
            renamed = rename_ids(row[column], renaming.new_id)
            return {column: renamed} if renamed != row[column] else None

        return change

    def with_own(valves: Mapping[str, Any]) -> Mapping[str, Any]:
        others = {name: each for name, each in valves.items() if name != renaming.source}
        return {renaming.target: valves[renaming.source], **others} if others != valves else valves

    def settings(row: HostRow) -> Mapping[str, Any] | None:
        renamed = rename_ids(row["settings"], renaming.new_id)
        renamed = change_function_valves(renamed, with_own) or renamed if same_pipe else renamed
        return {"settings": renamed} if renamed != row["settings"] else None

    def setting(row: HostRow) -> Mapping[str, Any] | None:
        if row["key"] not in SETTINGS:
            return None
        renamed = rename_setting(row["value"], renaming.new_id)
        return {"value": renamed} if renamed != row["value"] else None

    moved = {
        "chats": await tables.rewrite(Columns("chat", ("chat",), marks), each_row(chat)),
        "shared copies of chats": await tables.rewrite(
            Columns("shared_chat", ("chat",), marks), each_row(chat)
        ),
        "answers": await _move_answers(tables, renaming) if same_pipe else 0,
        "folders": await tables.rewrite(Columns("folder", ("data",), marks), each_row(in_column("data"))),
        "automations": await tables.rewrite(
            Columns("automation", ("data",), marks), each_row(in_column("data"))
        ),
        "users' own settings": await tables.rewrite(Columns("user", ("settings",)), each_row(settings)),
        "settings of Open WebUI": await tables.rewrite(
            Columns("config", ("key", "value")), each_row(setting)
        ),
        "valves of the function": await _move_valves(tables, renaming) if same_pipe else 0,
    }
    return moved | await _move_models(tables, renaming)


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
    rows = await tables.rows("model", "id", "base_model_id")
    new_ids = {
        row["id"]: new
        for row in rows
        if row["base_model_id"] is None and (new := renaming.new_id(row["id"])) is not None
    }
    bases = {
        row["id"]: new
        for row in rows
        if row["base_model_id"] and (new := renaming.new_id(row["base_model_id"])) is not None
    }
    model, grant = tables.table("model", "id"), tables.table("access_grant", "id", "resource_id")
    history = tables.table("model_history", "model_id")
    replace = _copy if renaming.of_connection else _rename
    grants = 0
    if model is not None:
        async with tables.engine.begin() as connection:
            for old, new in new_ids.items():
                await replace(tables, connection, model.c.id, (old, new))
                if history is not None and not renaming.of_connection:
                    await _rename(tables, connection, history.c.model_id, (old, new))
                if grant is not None:
                    of_models = grant.c.resource_type == "model"
                    counted = sa.select(sa.func.count()).where(of_models, grant.c.resource_id == old)
                    grants += await connection.scalar(counted) or 0
                    await replace(tables, connection, grant.c.resource_id, (old, new), of_models)
            for preset, base in bases.items():
                await tables.execute(
                    connection, sa.update(model).where(model.c.id == preset).values(base_model_id=base)
                )
    return {
        "models with what was set for them": len(new_ids),
        "grants of models": grants,
        "presets": len(bases),
    }


async def _rename(
    tables: HostTables,
    connection: AsyncConnection,
    column: sa.Column[Any],
    names: tuple[str, str],
    *conditions: sa.ColumnElement[bool],
) -> None:
    """Let the rows of the old name have the new one, in place of those that have it."""
    old, new = names
    await tables.execute(connection, sa.delete(column.table).where(column == new, *conditions))
    renamed = sa.update(column.table).where(column == old, *conditions).values({column: new})
    await tables.execute(connection, renamed)


async def _copy(
    tables: HostTables,
    connection: AsyncConnection,
    column: sa.Column[Any],
    names: tuple[str, str],
    *conditions: sa.ColumnElement[bool],
) -> None:
    """Give the new name copies of the rows of the old one, in place of those that it has."""
    old, new = names
    found = await connection.execute(sa.select(column.table).where(column == old, *conditions))
    rows = [{**row, "id": str(uuid4()), column.name: new} for row in found.mappings()]
    await tables.execute(connection, sa.delete(column.table).where(column == new, *conditions))
    for row in rows:
        await tables.execute(connection, sa.insert(column.table).values(row))


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
