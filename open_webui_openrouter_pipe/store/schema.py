"""The store's tables, and their creation at first use.

Names are fixed: nothing about a table depends on how the function is called or which key is in use. A release only
adds tables, columns and indexes, so how many there are is its version.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, ProgrammingError

from ..money.audit import AUDIT_COLUMNS, ChatSpending

_PREFIX: Final = "openrouter_pipe_"
_NAMES: Final = {"ix": "ix_%(table_name)s_%(column_0_name)s"}
_KINDS: Final[Mapping[str, type[sa.types.TypeEngine[Any]]]] = {
    "int": sa.BigInteger,
    "float": sa.Double,
    "bool": sa.Boolean,
    "bytes": sa.LargeBinary,
    "dict": sa.JSON,
    "tuple[Step, ...]": sa.JSON,
}
"""The type of a column by that of its field; any other is text."""
_DEFAULTS: Final = {"int": "0", "float": "0", "bool": "0", "str": ""}
"""What a column that is added has in rows that were there before it, and in those that an earlier release writes."""
_USAGE_KEY: Final = {"account": "str", "quarter": "int", "model": "str", "failure": "str"}
_SMALL_NUMBERS: Final = {"packing", "version"}
_BEFORE_FIELD: Final = {"rejected": {"pruned": "bool"}}
"""The column of the audit that is no field of its rows, by the field that it stands before."""

# Any number will do, as long as every worker takes the same one: the first bytes of "openrouter_pipe".
_ADVISORY_LOCK: Final = int.from_bytes(b"openrout", "big")

_log = logging.getLogger(__name__)

Columns: TypeAlias = Mapping[str, str]
"""The types of columns by their names, in the table's order."""


class SealedRow(NamedTuple):
    """One stored artifact; as in all rows, the fields are in the order of the table's columns.

    `key_id` names the key of the seal, `packing` holds the flags of `sealing`, `created` and `last_used` are whole
    seconds since the epoch.
    """

    user_id: str
    id: str
    chat_id: str
    message_id: str
    kind: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int

    @property
    def bound_names(self) -> tuple[str, ...]:
        """What the seal is bound to; chat and message stay outside, since they may change."""
        return self.user_id, self.id, self.kind, self.model


class SummaryRow(NamedTuple):
    """One stored summary, found by its owner and the chain digests at the ends of its segment in hexadecimal."""

    user_id: str
    start_chain: str
    end_chain: str
    turns: int
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    source_tokens: int
    created: int
    last_used: int

    @property
    def bound_names(self) -> tuple[str, ...]:
        """What the seal is bound to; the first word distinguishes it from every artifact."""
        return "summary", *self[:3], str(self.turns), self.model


class PromptRow(NamedTuple):
    """One stored prompt; `model` is the id under which the host offers it."""

    user_id: str
    chat_id: str
    model: str
    key_id: str
    packing: int
    payload: bytes
    created: int
    last_used: int

    @property
    def bound_names(self) -> tuple[str, ...]:
        """What the seal is bound to."""
        return "prompt", *self[:3]


Row = TypeVar("Row", bound=SealedRow | SummaryRow | PromptRow)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables, as queries use them; `ledger` is by user and chat, `version` holds what versions there have been.

    `usage` is by account, quarter of an hour since 1970, model and kind of failure ("" for none): what limits and
    `/spending` go by. `spending` are dollars by account and by day since 1970 in UTC, as releases without `usage` count
    them. `hold` is what running requests may cost at most, until they are billed.
    """

    artifact: sa.Table
    summary: sa.Table
    audit: sa.Table
    calibration: sa.Table
    lease: sa.Table
    version: sa.Table
    ledger: sa.Table
    spending: sa.Table
    usage: sa.Table
    hold: sa.Table
    prompt: sa.Table

    def of_rows(self, row: type) -> sa.Table:
        """Return the table of these rows."""
        return {SealedRow: self.artifact, SummaryRow: self.summary, PromptRow: self.prompt}[row]

    def count(self) -> int:
        """Return the version: how many columns and indexes this release knows."""
        return sum(len(each.columns) + len(each.indexes) for each in self.version.metadata.tables.values())


def define_tables(schema: str | None) -> Tables:
    """Define the tables inside a database schema (None for the connection's own)."""
    metadata = sa.MetaData(schema=schema, naming_convention=_NAMES)

    def define(name: str, columns: Columns, *, key: int = 1, index: Sequence[str] = ()) -> sa.Table:
        """Define a table whose first columns are its primary key; numbers and texts may be added to it later."""
        return sa.Table(
            _PREFIX + name,
            metadata,
            *(
                sa.Column(
                    column,
                    sa.Integer if column in _SMALL_NUMBERS else _KINDS.get(kind, sa.Text),
                    primary_key=at < key,
                    nullable=False,
                    index=column in index,
                    server_default=None if at < key else _DEFAULTS.get(kind),
                )
                for at, (column, kind) in enumerate(columns.items())
            ),
        )

    audit: dict[str, str] = {}
    for column in AUDIT_COLUMNS:
        audit |= {**_BEFORE_FIELD.get(column.name, {}), column.name: str(column.type)}
    used = ("chat_id", "last_used")
    tables = Tables(
        artifact=define("artifact", _types(SealedRow), key=2, index=used),
        summary=define("summary", _types(SummaryRow), key=3, index=used),
        audit=define("audit", audit, index=("user_id", "chat_id", "created")),
        calibration=define("calibration", {"model": "str", "state": "dict", "updated": "int"}),
        lease=define("lease", {"name": "str", "holder": "str", "until": "int"}),
        version=define("schema", {"version": "int"}),
        ledger=define(
            "ledger",
            {"user_id": "str", "chat_id": "str", **_types(ChatSpending), "last_used": "int"},
            key=2,
            index=used,
        ),
        spending=define(
            "spending", {"account": "str", "day": "int", "cost": "float", "provider_cost": "float"}, key=2
        ),
        usage=define("usage", {**_USAGE_KEY, **_types(ChatSpending)}, key=4, index=("quarter",)),
        hold=define(
            "hold",
            {"account": "str", "id": "str", "amount": "float", "until": "int", "estimate": "str"},
            key=2,
            index=("id", "until"),
        ),
        prompt=define("prompt", _types(PromptRow), key=3, index=used),
    )
    # Rows of a few kilobytes stay in one piece, which halves the reading; sealed bytes do not compress.
    _alter_on_postgresql(tables.artifact, "SET (toast_tuple_target = 8160)")
    for table in (tables.artifact, tables.summary, tables.prompt):
        _alter_on_postgresql(table, "ALTER COLUMN payload SET STORAGE EXTERNAL")
    return tables


def _types(row: type) -> Columns:
    """Return the types of a row's fields as they are written; those of a NamedTuple are references to them."""
    return {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in row.__annotations__.items()}


def create_tables(connection: sa.Connection, tables: Tables) -> frozenset[str]:
    """Create the tables and indexes that do not exist, inside the connection's transaction.

    Workers that start at once wait for each other. A database that has this version or a later one is left as it
    is, and no lock is taken for it. A table that the database refuses is logged and omitted: what is kept in the
    others does not depend on it, and the next start tries again.

    Returns which columns the audit lacks: its rows are written without them.
    """
    found, version = _version(connection, tables), tables.count()
    if found > version:
        _log.warning(
            "The pipe's tables are those of a later release (version %d, and this one knows %d). They stay as they "
            "are; what this release knows is read and written, and nothing is lost when the later one is back.",
            found,
            version,
        )
    if found >= version:
        return frozenset()
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    refused = [table for table in tables.version.metadata.sorted_tables if not _create(connection, table)]
    if not refused and _version(connection, tables) < version:
        connection.execute(tables.version.insert().values(version=version))
    return frozenset(_lacking(connection, tables.audit)) if tables.audit in refused else frozenset()


def _create(connection: sa.Connection, table: sa.Table) -> bool:
    """Create a table and its indexes where they do not exist; return whether the database has them now."""
    try:
        with connection.begin_nested():
            table.create(connection, checkfirst=True)
            name = connection.dialect.identifier_preparer.format_table(table)
            for column in _lacking(connection, table):  # of an earlier version: behind the others
                definition = sa.schema.CreateColumn(table.c[column]).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {definition}")
            for index in table.indexes:
                index.create(connection, checkfirst=True)
    except (ProgrammingError, OperationalError) as error:
        if error.connection_invalidated or connection.invalidated:
            raise
        _log.error(
            "The table %s cannot be created or changed, and what belongs there is not kept: %s. Let Open WebUI's "
            "database user create and alter tables and indexes, and restart Open WebUI.",
            table.fullname,
            str(error.orig).partition("\n")[0],
        )
        return False
    return True


def _lacking(connection: sa.Connection, table: sa.Table) -> list[str]:
    """Return which of its columns a table does not have; none where there is no such table."""
    inspector = sa.inspect(connection)
    if not inspector.has_table(table.name, table.schema):
        return []
    found = {column["name"] for column in inspector.get_columns(table.name, table.schema)}
    return [column.name for column in table.columns if column.name not in found]


def _version(connection: sa.Connection, tables: Tables) -> int:
    """Return the version of the database's tables, 0 when there are none."""
    if not sa.inspect(connection).has_table(tables.version.name, tables.version.schema):
        return 0
    return connection.scalar(sa.select(sa.func.max(tables.version.c.version))) or 0


def _alter_on_postgresql(table: sa.Table, change: str) -> None:
    statement = sa.DDL(f"ALTER TABLE %(fullname)s {change}")  # type: ignore[no-untyped-call]
    sa.event.listen(table, "after_create", statement.execute_if(dialect="postgresql"))
