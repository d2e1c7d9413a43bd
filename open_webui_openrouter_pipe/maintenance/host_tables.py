"""The host's tables, as its database describes them: read and written in pages, each in a transaction of its own.

No class of the host is used, so that a table or a column that a release lacks is passed over. While a page is
written nobody else writes its rows. Source: `models/` of Open WebUI 0.12; JSON may stand in text.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from ..responses.values import as_object

HostRow: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[AsyncConnection, HostRow], Awaitable[HostRow | None]]
"""What becomes of a row: its columns that change, None for none."""

ARTIFACTS: Final = "openrouter_pipe_artifact"
"""The only table of ours that is read like the host's."""

_USED: Final = (
    "access_grant", "automation", "chat", "chat_message", "config", "folder", "function", "function_history", "model",
    "model_history", "prompt", "prompt_history", "shared_chat", "user", ARTIFACTS,
)  # fmt: skip
_JSON_COLUMNS: Final = frozenset({"chat", "content", "data", "meta", "output", "settings", "valves", "value"})
_PAGE_ROWS: Final = 20
"""Chats may have megabytes each."""


class _NoJson(str):
    """A text where JSON was expected, which is carried over as it is."""

    __slots__ = ()


class _JsonText(sa.TypeDecorator[Any]):
    """JSON in a column of texts."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: sa.Dialect) -> str | None:
        if value is None or isinstance(value, _NoJson):
            return value and str(value)
        return json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: str | None, _: sa.Dialect) -> Any:
        try:
            return None if value is None else json.loads(value)
        except ValueError:
            return _NoJson(value)


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
            for column in (column for table in self._metadata.tables.values() for column in table.c):
                if column.name in _JSON_COLUMNS and not isinstance(column.type, sa.JSON):
                    column.type = _JsonText()

        async with self.engine.connect() as connection:
            await connection.run_sync(reflect)

    def table(self, name: str, *columns: str) -> sa.Table | None:
        """The table, if it has these columns."""
        table = self._metadata.tables.get(f"{self.schema}.{name}" if self.schema else name)
        return table if table is not None and set(columns) <= set(table.columns.keys()) else None

    def naming_models(self) -> Iterator[tuple[sa.Column[str], sa.ColumnElement[bool]]]:
        """The columns in which models, their history and their grants name a model, and of which rows."""
        for name, column in (("model", "id"), ("model_history", "model_id"), ("access_grant", "resource_id")):
            if (table := self.table(name, column)) is not None:
                is_grant = name == "access_grant"
                yield table.c[column], table.c.resource_type == "model" if is_grant else sa.true()

    async def rows(self, name: str, *columns: str) -> list[HostRow]:
        """These columns of all rows; none where there is no such table."""
        table = self.table(name, *columns)
        if table is None:
            return []
        async with self.engine.connect() as connection:
            found = await connection.execute(sa.select(*(table.c[column] for column in columns)))
        return [dict(row) for row in found.mappings()]

    async def rewrite(
        self, name: str, columns: Sequence[str], change: Change, *, containing: Sequence[str] = ()
    ) -> int:
        """Change rows page by page, and return how many would be changed or were.

        Only rows are looked at that have one of the texts in a column; all where there are none.
        """
        table = self.table(name, *columns)
        if table is None:
            return 0
        key = next(iter(table.primary_key.columns))
        is_sqlite = self.engine.dialect.name == "sqlite"  # whose LIKE the host replaces by a slow one
        position = sa.func.instr if is_sqlite else sa.func.strpos
        texts = [sa.func.coalesce(sa.cast(table.c[column], sa.Text), "") for column in columns]
        hits = [position(text, wanted) > 0 for text in texts for wanted in containing]
        query = sa.select(key, *(table.c[column] for column in columns if column != key.name))
        query = query.where(sa.or_(*hits)) if hits else query
        query = query.order_by(key).limit(_PAGE_ROWS)
        query = query.with_for_update() if self.writes else query
        changed, last = 0, ""
        while True:
            async with self.engine.begin() as connection:
                if self.writes and is_sqlite:
                    await connection.exec_driver_sql("BEGIN IMMEDIATE")
                rows = (await connection.execute(query.where(key > last))).mappings().all()
                for row in rows:
                    if (values := await change(connection, dict(row))) is not None:
                        changed += 1
                        of_row = sa.update(table).where(key == row[key.name])
                        await self.execute(connection, of_row.values(**values))
            if not rows:
                return changed
            last = rows[-1][key.name]

    async def insert(self, connection: AsyncConnection, name: str, values: Mapping[str, Any]) -> None:
        """Add a row, with those of the values for which the table has columns; a text is one, and no JSON."""
        if (table := self.table(name)) is not None:
            known = {
                column: _NoJson(value) if isinstance(value, str) and column in _JSON_COLUMNS else value
                for column, value in values.items()
                if column in table.c
            }
            await self.execute(connection, sa.insert(table).values(known))

    async def execute(self, connection: AsyncConnection, statement: sa.Executable) -> None:
        """Carry out a statement, unless this is for a report."""
        if self.writes:
            await connection.execute(statement)


def manifest_of(function: HostRow) -> Mapping[str, Any]:
    """Return a function's frontmatter."""
    return as_object(as_object(function["meta"]).get("manifest"))


def each_value(column: str, become: Callable[[Any], Any]) -> Change:
    """A change of one column that follows from its value alone."""

    async def change(_: AsyncConnection, row: HostRow) -> HostRow | None:
        changed = become(row[column])
        return None if changed == row[column] else {column: changed}

    return change
