"""Removes what our function leaves behind: marks in chats, rows of models, users' valves, Redis keys, files, tables.

The tables go last, since they tell which markers are ours: a removal that was cut short can be done again. What is kept
of one user or one chat can be removed alone.

Marks are markers in text, in items and beside reasoning, and how our answers begin. The ids of calls stay: they pair
calls with their results, whoever has given them. So do the lines about an answer, of which people have read the text:
they are items of a type without our name, which Open WebUI draws just the same.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from ..history.markers import (
    ANSWER_MARK,
    PHASE_TYPE,
    REFERENCE_TYPE,
    code_ulids,
    marker_ulids,
    split_text_by_markers,
)
from ..host.platform import SharedRedis
from ..responses.values import as_list, as_object, as_text
from .commands import change_function_valves
from .host_tables import ARTIFACTS, HostRow, HostTables, each_value

_PREFIX: Final = "openrouter_pipe_"
_MARKS: Final = ("]: #", '"openrouter_pipe.', ANSWER_MARK, json.dumps(ANSWER_MARK)[1:-1])
_OUR_TYPES: Final = "openrouter_pipe."
"""How the types of our own items begin."""
_IN_CLAUSE_IDS: Final = 500

Message: TypeAlias = Mapping[str, Any]

_Clearing: TypeAlias = tuple[sa.ColumnElement[bool], sa.Executable]
"""Which rows of a table go, and the statement that removes them."""


async def remove(
    tables: HostTables, function_ids: Collection[str], *, redis: SharedRedis | None, files: Sequence[Path]
) -> dict[str, int]:
    """Remove everything of these functions with Redis keys and files, and return how much of each kind."""
    models = await tables.rows("model", "id", "base_model_id")
    change = _Cleaner(tables, function_ids, models).change
    marked = {
        "chats with our marks in them": ("chat", ["chat"]),
        "shared copies of chats with our marks in them": ("shared_chat", ["chat"]),
        "answers with our marks in them": ("chat_message", ["content", "output", "model_id", "role"]),
    }
    await _index_artifacts(tables, sa.Index.create)
    try:
        removed = {
            name: await tables.rewrite(*columns, change, containing=_MARKS)
            for name, columns in marked.items()
        }
    finally:
        await _index_artifacts(tables, sa.Index.drop)
    ids = [
        row["id"] for row in models if row["base_model_id"] is None and _function(row["id"]) in function_ids
    ]
    async with tables.engine.begin() as connection:
        for (column, of_models), row_id in product(tables.naming_models(), ids):
            await tables.execute(connection, sa.delete(column.table).where(column == row_id, of_models))
    removed |= {
        "rows of models": len(ids),
        "users' own valves": await _remove_valves(tables, function_ids),
        "keys in Redis": await _remove_keys(redis, writes=tables.writes),
        "files": await asyncio.to_thread(_remove_files, files, writes=tables.writes),
    }
    return removed | await _clear(tables, lambda table: (sa.true(), sa.schema.DropTable(table)))


async def forget(tables: HostTables, kind: str, name: str) -> dict[str, int]:
    """Remove the rows of a user or a chat (`kind`) with this id from all our tables; return how many of each."""

    def deletion(table: sa.Table) -> _Clearing | None:
        if (column := f"{kind}_id") in table.c:
            which = table.c[column] == name
        elif kind == "user" and "account" in table.c:
            which = table.c.account == f"user:{name}"
        else:
            return None
        return which, sa.delete(table).where(which)

    return await _clear(tables, deletion)


async def _clear(tables: HostTables, clearing: Callable[[sa.Table], _Clearing | None]) -> dict[str, int]:
    """Clear each of our tables, and return how many rows that concerns."""

    def clear(connection: sa.Connection) -> dict[str, int]:
        counts: dict[str, int] = {}
        for table in _our_tables(connection, tables.schema):
            if (found := clearing(table)) is not None:
                which, statement = found
                counted = sa.select(sa.func.count()).select_from(table).where(which)
                counts[f"rows of the table {table.name}"] = connection.scalar(counted) or 0
                if tables.writes:
                    connection.execute(statement)
        return counts

    async with tables.engine.begin() as connection:
        return await connection.run_sync(clear)


def _our_tables(connection: sa.Connection, schema: str | None) -> list[sa.Table]:
    """Every table with our prefix, those of a later release too, with its columns."""
    names = sorted(
        name for name in sa.inspect(connection).get_table_names(schema) if name.startswith(_PREFIX)
    )
    metadata = sa.MetaData(schema=schema)
    return [sa.Table(name, metadata, autoload_with=connection, resolve_fks=False) for name in names]


class _Cleaner:
    """Takes our markers out of messages: those of answers that our models wrote, and those whose artifact we hold."""

    def __init__(self, tables: HostTables, function_ids: Collection[str], models: Sequence[HostRow]) -> None:
        self._artifact = tables.table(ARTIFACTS, "id")
        self._functions = function_ids
        self._presets = {row["id"] for row in models if _function(row["base_model_id"]) in function_ids}

    async def change(self, connection: AsyncConnection, row: HostRow) -> HostRow | None:
        named: set[str] = set()
        _change_messages(row, lambda message: named.update(marker_ids(message)))
        held = await self._held(connection, sorted(named))

        def clean(message: Mapping[str, Any]) -> dict[str, Any] | None:
            if message.get("role") != "assistant":  # what a user has quoted is the user's
                return None
            model = str(message.get("model") or message.get("model_id"))
            is_ours = _function(model) in self._functions or model in self._presets
            return without_markers(message, held, is_our_answer=is_ours)

        cleaned = _change_messages(row, clean)
        names = {"chat", "content", "output"} & cleaned.keys()
        return {name: cleaned[name] for name in names} if cleaned != row else None

    async def _held(self, connection: AsyncConnection, ulids: Sequence[str]) -> set[str]:
        """Those of the ULIDs that name an artifact of ours."""
        held: set[str] = set()
        if self._artifact is not None:
            column = self._artifact.c.id
            for start in range(0, len(ulids), _IN_CLAUSE_IDS):
                some = column.in_(ulids[start : start + _IN_CLAUSE_IDS])
                held |= set((await connection.execute(sa.select(column).where(some))).scalars())
        return held


async def _index_artifacts(tables: HostTables, change: Callable[..., None]) -> None:
    """Index them by id, which requests do without, or end that; each chat would read them all otherwise."""
    if (artifact := tables.table(ARTIFACTS, "id")) is not None:
        index = sa.Index(f"{_PREFIX}removal", artifact.c.id)
        async with tables.engine.begin() as connection:
            await connection.run_sync(partial(change, index), checkfirst=True)


def _function(model_id: str | None) -> str:
    """The id of the function whose model this is."""
    return (model_id or "").partition(".")[0]


def _change_messages(row: HostRow, change: Callable[[Mapping[str, Any]], Any]) -> HostRow:
    """The row with other messages, whether it is one or holds a chat; None for a message leaves it as it is."""
    if "chat" not in row:
        return change(row) or row
    if not isinstance(chat := row["chat"], dict):
        return row

    def changed(message: Any) -> Any:
        return (change(message) or message) if isinstance(message, dict) else message

    history = as_object(chat.get("history"))
    if isinstance(by_id := history.get("messages"), dict):
        by_id = {name: changed(each) for name, each in by_id.items()}
        chat = {**chat, "history": {**history, "messages": by_id}}
    if isinstance(listed := chat.get("messages"), list):
        chat = {**chat, "messages": [*map(changed, listed)]}
    return {**row, "chat": chat}


async def _remove_valves(tables: HostTables, function_ids: Collection[str]) -> int:
    """Users' valves, among them their own API keys; Open WebUI leaves them when a function is deleted."""

    def others(valves: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: each for name, each in valves.items() if name not in function_ids}

    change = each_value("settings", partial(change_function_valves, change=others))
    return await tables.rewrite("user", ["settings"], change)


async def _remove_keys(redis: SharedRedis | None, *, writes: bool) -> int:
    if redis is None:
        return 0
    literal = redis.prefix.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?").replace("[", "\\[")
    count = 0
    async for key in redis.client.scan_iter(match=f"{literal}:*", count=1000):
        count += 1
        if writes:
            await redis.client.delete(key)
    return count


def _remove_files(files: Sequence[Path], *, writes: bool) -> int:
    found = [path for path in files if path.exists()]
    for path in found if writes else ():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(found)


def marker_ids(message: Message) -> Iterator[str]:
    """Every ULID that the message's texts and items name."""
    for text in _texts(message):
        yield from marker_ulids(text)
        yield from code_ulids(text)
    for detail in _details(message):
        if detail.get("type") == REFERENCE_TYPE:
            yield str(detail.get("id"))


def without_markers(message: Message, held: Collection[str], *, is_our_answer: bool) -> dict[str, Any] | None:
    """The message without our marks; of markers those whose artifact is held, and in answers of our models all others.

    What stands in code is an example where its artifact is not held. None where the message has none of ours.
    """
    quoted = {ulid for text in _texts(message) for ulid in code_ulids(text)}
    ours = {ulid for ulid in marker_ids(message) if ulid in held or (is_our_answer and ulid not in quoted)}
    is_marked = any(ANSWER_MARK in text for text in _texts(message))
    has_lines = any(_has_our_type(item) for item in _objects(message.get("output")))
    if not (ours or is_marked or has_lines or any(_is_ours(detail, ours) for detail in _details(message))):
        return None
    cleaned = dict(message)
    if isinstance(content := message.get("content"), str):
        cleaned["content"] = cleaned_text(content, ours)
    if isinstance(output := message.get("output"), list):
        items = [_clean_item(item, ours) if isinstance(item, dict) else item for item in output]
        cleaned["output"] = [item for item in items if item is not None]
    return cleaned


def cleaned_text(text: str, ulids: set[str]) -> str:
    """The text without these markers and our mark; what stood on two sides of a marker keeps the larger of two gaps."""
    kept: list[str] = []
    gap = 0
    for segment in split_text_by_markers(text, ulids):
        if segment.ulids:
            raw = segment.raw
            gap = len(raw) - min(len(raw.lstrip("\n")), len(raw.rstrip("\n")))
        else:
            kept += ["\n" * gap if kept else "", segment.raw]
            gap = 0
    return "".join(kept).replace(ANSWER_MARK, "")


def _clean_item(item: dict[str, Any], ulids: set[str]) -> dict[str, Any] | None:
    """The item without the markers; None for one that held nothing else."""
    if _has_our_type(item):
        return {**item, "type": as_text(item["type"]).removeprefix(_OUR_TYPES)}
    if "reasoning_details" in item:
        kept = [each for each in _objects(item["reasoning_details"]) if not _is_ours(each, ulids)]
        others = {key: value for key, value in item.items() if key != "reasoning_details"}
        return others | ({"reasoning_details": kept} if kept else {})
    parts, changed = [], False
    for part in _parts(item):
        text = as_text(part.get("text"))
        cleaned = cleaned_text(text, ulids)
        parts.append({**part, "text": cleaned} if cleaned != text else part)
        changed = changed or cleaned != text
    if not changed:
        return item
    return {**item, "content": parts} if any(part.get("text") for part in parts) else None


def _texts(message: Message) -> Iterator[str]:
    yield as_text(message.get("content"))
    for item in _objects(message.get("output")):
        yield from (as_text(part.get("text")) for part in _parts(item))


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _objects(item.get("content")) if item.get("type") == "message" else []


def _details(message: Message) -> Iterator[dict[str, Any]]:
    """Every detail of the message's reasoning."""
    for item in _objects(message.get("output")):
        yield from _objects(item.get("reasoning_details"))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in as_list(value) if isinstance(each, dict)]


def _has_our_type(item: Mapping[str, Any]) -> bool:
    return as_text(item.get("type")).startswith(_OUR_TYPES)


def _is_ours(detail: Mapping[str, Any], ulids: set[str]) -> bool:
    """Whether it names one of our artifacts, or the phase of a text, which only we note."""
    if detail.get("type") == REFERENCE_TYPE:
        return str(detail.get("id")) in ulids
    return detail.get("type") == PHASE_TYPE
