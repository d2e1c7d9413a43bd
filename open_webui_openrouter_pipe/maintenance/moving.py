"""Moves what names models of one function or connection to our function: chats, presets, grants, settings.

The answers of a chat still name the models that wrote them, unless those are ours: Open WebUI hands the reasoning
beside an answer back only to the model that it names, and what another pipe kept nobody else can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from .host_tables import Columns, HostRow, HostTables, each_row
from .ids import SETTINGS, Renaming, rename_choice, rename_ids, rename_setting


async def move(tables: HostTables, renaming: Renaming, *, same_pipe: bool) -> dict[str, int]:
    """Move everything, and return how much of each kind; a `same_pipe` is ours under another id."""
    marks = (f'"{renaming.source}.',) if renaming.source else ("/",)

    def chat(row: HostRow) -> Mapping[str, Any] | None:
        renamed = (rename_ids if same_pipe else rename_choice)(row["chat"], renaming.new_id)
        return {"chat": renamed} if renamed != row["chat"] else None

    def in_column(column: str) -> Any:
        def change(row: HostRow) -> Mapping[str, Any] | None:
            renamed = rename_ids(row[column], renaming.new_id)
            return {column: renamed} if renamed != row[column] else None

        return change

    def settings(row: HostRow) -> Mapping[str, Any] | None:
        renamed = rename_ids(row["settings"], renaming.new_id)
        renamed = _with_own_valves(renamed, renaming) if same_pipe else renamed
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

    A moved row takes the place of one that our function has made meanwhile: it has what an administrator set.
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
    model, grant = tables.table("model", "id"), tables.table("access_grant", "resource_id")
    history = tables.table("model_history", "model_id")
    grants = 0
    if model is not None:
        async with tables.engine.begin() as connection:
            for old, new in new_ids.items():
                await tables.execute(connection, sa.delete(model).where(model.c.id == new))
                await tables.execute(connection, sa.update(model).where(model.c.id == old).values(id=new))
                if history is not None:
                    which = history.c.model_id
                    await tables.execute(connection, sa.delete(history).where(which == new))
                    await tables.execute(
                        connection, sa.update(history).where(which == old).values(model_id=new)
                    )
                if grant is not None:
                    of_old, of_new = (
                        sa.and_(grant.c.resource_type == "model", grant.c.resource_id == each)
                        for each in (old, new)
                    )
                    counted = sa.select(sa.func.count()).select_from(grant).where(of_old)
                    grants += await connection.scalar(counted) or 0
                    await tables.execute(connection, sa.delete(grant).where(of_new))
                    await tables.execute(connection, sa.update(grant).where(of_old).values(resource_id=new))
            for preset, base in bases.items():
                await tables.execute(
                    connection, sa.update(model).where(model.c.id == preset).values(base_model_id=base)
                )
    return {
        "models with what was set for them": len(new_ids),
        "grants of models": grants,
        "presets": len(bases),
    }


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


def _with_own_valves(settings: Any, renaming: Renaming) -> Any:
    """A user's settings in which the valves of the function are ours, unless ours are set already."""
    functions = settings.get("functions") if isinstance(settings, dict) else None
    valves = functions.get("valves") if isinstance(functions, dict) else None
    if not isinstance(functions, dict) or not isinstance(valves, dict) or renaming.source not in valves:
        return settings
    others = {name: each for name, each in valves.items() if name != renaming.source}
    moved = {renaming.target: valves[renaming.source], **others}
    return {**settings, "functions": {**functions, "valves": moved}}
