"""How a database goes about statements: which of them read a table of ours from end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from scripts.paths import PACKAGE
from tests.support.profiling import calls_noted

if TYPE_CHECKING:
    from types import FrameType

    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

OURS = "openrouter_pipe_"
_FORCED = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
"""What PostgreSQL would rather do with tables of a few rows."""


class Issued(NamedTuple):
    """A statement that a database has received, with the values of one execution."""

    text: str
    values: Any


@contextmanager
def issued(engine: AsyncEngine) -> Iterator[dict[str, Issued]]:
    """Statements that read or change rows of our tables meanwhile, each text once."""
    found: dict[str, Issued] = {}

    def note(*details: Any) -> None:
        _, _, text, values, _, is_many = details
        if OURS in text and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", text):
            found.setdefault(text, Issued(text, values[0] if is_many else values))

    sa.event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(engine.sync_engine, "before_cursor_execute", note)


@contextmanager
def entered() -> Iterator[set[str]]:
    """The functions of the package that are entered meanwhile, as `module.function`."""
    names: set[str] = set()
    folder = f"{PACKAGE}/"

    def note(frame: FrameType) -> None:
        code = frame.f_code
        if code.co_filename.startswith(folder):
            names.add(f"{code.co_filename[len(folder) : -3]}.{code.co_name}")

    with calls_noted(note):
        yield names


async def whole_reads(connection: AsyncConnection, statement: Issued) -> list[str]:
    """The tables of ours that the statement reads without an index, or through one whose first column it does not name.

    PostgreSQL is asked what it could do at best, since it reads small tables whole whatever indexes they have. Whatever
    rows come first need no index.
    """
    if " LIMIT " in statement.text and " WHERE " not in statement.text.replace("\n", " "):
        return []
    if connection.dialect.name == "sqlite":
        explained = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.text}", statement.values)
        lines = [line for *_, line in explained if OURS in line]
        return [line for line in lines if line.startswith("SCAN") or "ANY(" in line or "AUTOMATIC" in line]
    for setting in _FORCED:
        await connection.exec_driver_sql(f"SET LOCAL {setting} = off")
    explained = await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement.text}", statement.values)
    firsts = await connection.run_sync(_first_columns)
    [plan] = explained.scalar_one()
    return [*_unindexed(plan["Plan"], firsts, "")]


def _first_columns(connection: sa.Connection) -> dict[str, str]:
    """By the name of an index of ours its first column."""
    query = (
        "SELECT i.relname, a.attname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
        " JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]"
        f" WHERE i.relname LIKE '%{OURS}%'"
    )
    return dict(map(tuple, connection.exec_driver_sql(query.replace("%", "%%"))))


def _unindexed(node: dict[str, Any], firsts: dict[str, str], table: str) -> Iterator[str]:
    table = node.get("Relation Name", table)
    kind = node["Node Type"]
    if kind == "Seq Scan" and table.startswith(OURS):
        yield f"{kind} {table}"
    if (index := node.get("Index Name")) in firsts and not re.search(
        rf"\b{firsts[index]}\b", node.get("Index Cond", "")
    ):
        yield f"{kind} {table} {index}"
    for child in node.get("Plans", ()):
        yield from _unindexed(child, firsts, table)
