"""The store's tables, and their creation at first use.

Names are fixed: nothing about a table depends on how the function is called or which key is in use. A release that
changes a table raises `VERSION` and brings the statements that lead to it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, ProgrammingError

VERSION: Final = 7
"""Versions 1 to 6 are other sets of tables, indexes and columns, of which those that are missing here are added."""

_PREFIX: Final = "openrouter_pipe_"
_NAMES: Final = {"ix": "ix_%(table_name)s_%(column_0_name)s"}

# Any number will do, as long as every worker takes the same one: the first bytes of "openrouter_pipe".
_ADVISORY_LOCK: Final = int.from_bytes(b"openrout", "big")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables, as queries use them."""

    artifact: sa.Table
    summary: sa.Table
    audit: sa.Table
    calibration: sa.Table
    lease: sa.Table
    version: sa.Table
    ledger: sa.Table
    spending: sa.Table
    hold: sa.Table
    prompt: sa.Table


def define_tables(schema: str | None) -> Tables:
    """Define the tables inside a database schema (None for the connection's own)."""
    metadata = sa.MetaData(schema=schema, naming_convention=_NAMES)

    def define(name: str, *columns: list[sa.Column[Any]]) -> sa.Table:
        return sa.Table(_PREFIX + name, metadata, *chain(*columns))

    artifact = define(
        "artifact",  # in the order of `rows.SealedRow`
        _columns(sa.Text, "user_id", "id", primary_key=True),
        _columns(sa.Text, "chat_id", index=True),
        _columns(sa.Text, "message_id", "kind", "model", "key_id"),
        _columns(sa.Integer, "packing"),
        _columns(sa.LargeBinary, "payload"),
        _columns(sa.BigInteger, "created"),
        _columns(sa.BigInteger, "last_used", index=True),
    )
    summary = define(
        "summary",  # in the order of `summaries.SummaryRow`
        _columns(sa.Text, "user_id", "start_chain", "end_chain", primary_key=True),
        _columns(sa.BigInteger, "turns"),
        _columns(sa.Text, "chat_id", index=True),
        _columns(sa.Text, "model", "key_id"),
        _columns(sa.Integer, "packing"),
        _columns(sa.LargeBinary, "payload"),
        _columns(sa.BigInteger, "source_tokens", "created"),
        _columns(sa.BigInteger, "last_used", index=True),
    )
    audit = define(
        "audit",  # the fields of `planning.audit.AuditRow` and `ports.Audited`, and `pruned` for the metrics
        _columns(sa.Text, "id", primary_key=True),
        _columns(sa.Text, "user_id", "chat_id", index=True),
        _columns(sa.Text, "message_id", "model", "purpose"),
        _columns(sa.BigInteger, "window_tokens", "budget_tokens", "limit_tokens"),
        _columns(sa.BigInteger, "tokens_before", "tokens_sent"),
        _columns(sa.JSON, "steps"),
        _columns(sa.Boolean, "pruned", "rejected"),
        _columns(sa.BigInteger, "billed_tokens", "cached_tokens"),
        _columns(sa.Double, "cost"),
        _columns(sa.BigInteger, "details_omitted"),
        _columns(sa.Text, "failure"),
        _columns(sa.BigInteger, "created", index=True),
        _columns(sa.Text, "break_position", "break_cause", added=""),
        _columns(sa.BigInteger, "lost_tokens", "expected_cached_tokens", added="0"),
        _columns(sa.Double, "lost_cost", added="0"),
    )
    calibration = define(
        "calibration",
        _columns(sa.Text, "model", primary_key=True),
        _columns(sa.JSON, "state"),
        _columns(sa.BigInteger, "updated"),
    )
    lease = define(
        "lease",
        _columns(sa.Text, "name", primary_key=True),
        _columns(sa.Text, "holder"),
        _columns(sa.BigInteger, "until"),
    )
    version = define("schema", _columns(sa.Integer, "version", primary_key=True))
    ledger = define(
        "ledger",  # the fields of `ports.Bill`, summed over a user's chat
        _columns(sa.Text, "user_id", "chat_id", primary_key=True),
        _columns(sa.BigInteger, "requests", "input_tokens", "cached_tokens", "output_tokens"),
        _columns(sa.Double, "cost", "input_cost", "read_cost", "expected_input_cost", "saved"),
        _columns(sa.BigInteger, "last_used", index=True),
    )
    _index(ledger, "chat_id")
    spending = define(
        "spending",  # dollars by account and by day (since 1970, UTC): what limits go by
        _columns(sa.Text, "account", primary_key=True),
        _columns(sa.BigInteger, "day", primary_key=True),
        _columns(sa.Double, "cost"),
    )
    hold = define(
        "hold",  # what running requests may cost at most, until they are billed
        _columns(sa.Text, "account", "id", primary_key=True),
        _columns(sa.Double, "amount"),
        _columns(sa.BigInteger, "until"),
    )
    prompt = define(
        "prompt",  # in the order of `prompts.PromptRow`
        _columns(sa.Text, "user_id", "chat_id", "model", primary_key=True),
        _columns(sa.Text, "key_id"),
        _columns(sa.Integer, "packing"),
        _columns(sa.LargeBinary, "payload"),
        _columns(sa.BigInteger, "created"),
        _columns(sa.BigInteger, "last_used", index=True),
    )
    _index(prompt, "chat_id")
    # Rows of a few kilobytes stay in one piece, which halves the reading; sealed bytes do not compress.
    _alter_on_postgresql(artifact, "SET (toast_tuple_target = 8160)")
    for table in (artifact, summary, prompt):
        _alter_on_postgresql(table, "ALTER COLUMN payload SET STORAGE EXTERNAL")
    return Tables(artifact, summary, audit, calibration, lease, version, ledger, spending, hold, prompt)


def create_tables(connection: sa.Connection, tables: Tables) -> None:
    """Create the tables and indexes that do not exist, inside the connection's transaction.

    Workers that start at once wait for each other. A database that has this version or a later one is left as it
    is, and no lock is taken for it. A table that the database refuses is logged and omitted: what is kept in the
    others does not depend on it, and the next start tries again.
    """
    found = _version(connection, tables)
    if found > VERSION:
        _log.warning(
            "The pipe's tables are those of a later release (version %d, and this one knows %d). They stay as they "
            "are; what this release knows is read and written, and nothing is lost when the later one is back.",
            found,
            VERSION,
        )
    if found >= VERSION:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    refused = [table for table in tables.version.metadata.sorted_tables if not _create(connection, table)]
    if not refused and _version(connection, tables) < VERSION:
        connection.execute(tables.version.insert().values(version=VERSION))


def _create(connection: sa.Connection, table: sa.Table) -> bool:
    """Create a table and its indexes where they do not exist; return whether the database has them now."""
    try:
        with connection.begin_nested():
            table.create(connection, checkfirst=True)
            _add_columns(connection, table)
            for index in table.indexes:
                index.create(connection, checkfirst=True)
    except (ProgrammingError, OperationalError) as error:
        if error.connection_invalidated or connection.invalidated:
            raise
        _log.error(
            "The table %s cannot be created, and what belongs there is not kept: %s. Let Open WebUI's database user "
            "create tables and indexes, and restart Open WebUI.",
            table.fullname,
            str(error.orig).partition("\n")[0],
        )
        return False
    return True


def _add_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Add the columns that a table of an earlier version lacks; they are behind the others."""
    found = {column["name"] for column in sa.inspect(connection).get_columns(table.name, table.schema)}
    name = connection.dialect.identifier_preparer.format_table(table)
    for column in table.columns:
        if column.name not in found:
            definition = sa.schema.CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {definition}")


def _version(connection: sa.Connection, tables: Tables) -> int:
    """Return the version of the database's tables, 0 when there are none."""
    if not sa.inspect(connection).has_table(tables.version.name, tables.version.schema):
        return 0
    return connection.scalar(sa.select(sa.func.max(tables.version.c.version))) or 0


def _columns(
    kind: type[sa.types.TypeEngine[Any]],
    *names: str,
    primary_key: bool = False,
    index: bool = False,
    added: str | None = None,
) -> list[sa.Column[Any]]:
    """Define columns; `added` is what rows have in them that were there before, or that an earlier release writes."""
    return [
        sa.Column(name, kind, primary_key=primary_key, nullable=False, index=index, server_default=added)
        for name in names
    ]


def _index(table: sa.Table, column: str) -> None:
    """Give a column of the primary key an index of its own."""
    sa.Index(f"ix_{table.name}_{column}", table.c[column])


def _alter_on_postgresql(table: sa.Table, change: str) -> None:
    statement = sa.DDL(f"ALTER TABLE %(fullname)s {change}")  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", statement.execute_if(dialect="postgresql"))
