"""The host's tables, as its database describes them: read and written in pages, each in a transaction of its own.

No class of the host is used, so that a table or a column that a release lacks is passed over. While a page is
written nobody else writes its rows. Source: `models/` of Open WebUI 0.12; JSON may stand in text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

HostRow: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[HostRow], Mapping[str, Any] | None]
"""What becomes of a row: its columns that change, None for none. Their JSON is read, and written again."""

Prepare: TypeAlias = Callable[[AsyncConnection, Sequence[HostRow]], Awaitable[Change]]

_USED: Final = (
    "access_grant", "automation", "chat", "chat_message", "config", "folder", "function", "model", "model_history",
    "shared_chat", "user",
)  # fmt: skip
_JSON_COLUMNS: Final = frozenset({"chat", "content", "data", "meta", "output", "settings", "valves", "value"})
_PAGE_ROWS: Final = 20
"""Chats may have megabytes each."""

# The host replaces SQLite's LIKE by a slow one of its own.
_POSITION: Final[Mapping[str, Callable[..., sa.ColumnElement[int]]]] = {
    "sqlite": sa.func.instr,
    "postgresql": sa.func.strpos,
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a table, and the texts of which a row must have one to be looked at; all rows where there are none."""

    table: str
    names: tuple[str, ...]
    containing: tuple[str, ...] = ()


class HostTables:
    """The tables of a running host; its engine stays open. `writes` is off for a report of what would be done."""

    def __init__(self, engine: AsyncEngine, schema: str | None, *, writes: bool) -> None:
        self.engine = engine
        self.schema = schema
        self.writes = writes
        self._metadata = sa.MetaData(schema=schema)

    async def open(self) -> None:
        """Read what tables and columns there are."""

        def reflect(connection: sa.Connection) -> None:
            self._metadata.reflect(connection, only=lambda name, _: name in _USED, resolve_fks=False)

        async with self.engine.connect() as connection:
            await connection.run_sync(reflect)

    def table(self, name: str, *columns: str) -> sa.Table | None:
        """The table, if it has these columns."""
        table = self._metadata.tables.get(f"{self.schema}.{name}" if self.schema else name)
        return table if table is not None and set(columns) <= set(table.columns.keys()) else None

    async def rows(self, name: str, *columns: str) -> list[HostRow]:
        """These columns of all rows, with their JSON read; none where there is no such table."""
        table = self.table(name, *columns)
        if table is None:
            return []
        async with self.engine.connect() as connection:
            found = await connection.execute(sa.select(*(table.c[column] for column in columns)))
        return [_read(table, row) for row in found.mappings()]

    async def rewrite(self, columns: Columns, prepare: Prepare) -> int:
        """Change the rows with these columns, page by page, and return how many would be changed or were."""
        table = self.table(columns.table, *columns.names)
        if table is None:
            return 0
        key = next(iter(table.primary_key.columns))
        query = self._query(table, key, columns)
        changed, last = 0, ""
        while True:
            async with self.engine.begin() as connection:
                if self.writes and self.engine.dialect.name == "sqlite":
                    await connection.exec_driver_sql("BEGIN IMMEDIATE")
                found = await connection.execute(query.where(key > last))
                rows = [_read(table, row) for row in found.mappings()]
                if not rows:
                    return changed
                change = await prepare(connection, rows)
                for row in rows:
                    if (values := change(row)) is not None:
                        changed += 1
                        written = {
                            name: json.dumps(value, ensure_ascii=False)
                            if _is_json_text(table.c[name])
                            else value
                            for name, value in values.items()
                        }
                        statement = sa.update(table).where(key == row[key.name]).values(**written)
                        await self.execute(connection, statement)
            last = rows[-1][key.name]

    async def execute(self, connection: AsyncConnection, statement: sa.Executable) -> None:
        """Carry out a statement, unless this is for a report."""
        if self.writes:
            await connection.execute(statement)

    def _query(self, table: sa.Table, key: sa.Column[Any], columns: Columns) -> sa.Select[Any]:
        position = _POSITION[self.engine.dialect.name]
        texts = [sa.func.coalesce(sa.cast(table.c[column], sa.Text), "") for column in columns.names]
        hits = [position(text, wanted) > 0 for text in texts for wanted in columns.containing]
        query = sa.select(key, *(table.c[column] for column in columns.names if column != key.name))
        query = query.where(sa.or_(*hits)) if hits else query
        query = query.order_by(key).limit(_PAGE_ROWS)
        return query.with_for_update() if self.writes else query


def each_row(change: Change) -> Prepare:
    """A change that needs nothing of the database."""

    async def prepare(_connection: AsyncConnection, _rows: Sequence[HostRow]) -> Change:
        return change

    return prepare


def each_value(column: str, become: Callable[[Any], Any]) -> Prepare:
    """A change of one column that follows from its value alone."""

    def change(row: HostRow) -> Mapping[str, Any] | None:
        changed = become(row[column])
        return None if changed == row[column] else {column: changed}

    return each_row(change)


def _read(table: sa.Table, row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        name: json.loads(value) if isinstance(value, str) and _is_json_text(table.c[name]) else value
        for name, value in row.items()
    }


def _is_json_text(column: sa.Column[Any]) -> bool:
    return column.name in _JSON_COLUMNS and not isinstance(column.type, sa.JSON)
