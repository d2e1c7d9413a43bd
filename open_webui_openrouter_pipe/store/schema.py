"""The store's tables and the way to their newest version.

Names are fixed: nothing about a table depends on how the function is called or which key is in use. A change
of the tables is a new entry at the end of `MIGRATIONS`; entries that were released never change, because
databases exist that have run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

ARTIFACT_TABLE: Final = "openrouter_pipe_artifact"
LEASE_TABLE: Final = "openrouter_pipe_lease"
SCHEMA_TABLE: Final = "openrouter_pipe_schema"
AUDIT_TABLE: Final = "turn_context_audit"
CALIBRATION_TABLE: Final = "context_calibration"
SUMMARY_TABLE: Final = "session_summaries"

# Any number will do, as long as every worker takes the same one: the first bytes of "openrouter_pipe".
_ADVISORY_LOCK: Final = int.from_bytes(b"openrout", "big")


@dataclass(frozen=True, slots=True)
class Migration:
    """Statements that lead from one version to the next.

    `{bytes}` and the tables' names are filled in: `{artifact}`, `{lease}`, `{audit}`, `{calibration}` and
    `{summary}`.
    """

    everywhere: tuple[str, ...]
    on_postgresql: tuple[str, ...] = ()


_FIRST_ARTIFACT: Final = """
CREATE TABLE {artifact} (
    user_id TEXT NOT NULL,
    id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL,
    packing INTEGER NOT NULL,
    payload {bytes} NOT NULL,
    created BIGINT NOT NULL,
    last_used BIGINT NOT NULL,
    PRIMARY KEY (user_id, id)
)
"""

_FIRST_AUDIT: Final = """
CREATE TABLE {audit} (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    model TEXT NOT NULL,
    window_tokens BIGINT NOT NULL,
    budget_tokens BIGINT NOT NULL,
    limit_tokens BIGINT NOT NULL,
    tokens_before BIGINT NOT NULL,
    tokens_after_cap BIGINT NOT NULL,
    tokens_after_retention BIGINT NOT NULL,
    tokens_after_prune BIGINT NOT NULL,
    tokens_after_landing BIGINT NOT NULL,
    summary_wanted BOOLEAN NOT NULL,
    retention_triggered BOOLEAN NOT NULL,
    prune_triggered BOOLEAN NOT NULL,
    landing_triggered BOOLEAN NOT NULL,
    overflow_rejected BOOLEAN NOT NULL,
    billed_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    cost DOUBLE PRECISION NOT NULL,
    created BIGINT NOT NULL
)
"""

_FIRST_CALIBRATION: Final = """
CREATE TABLE {calibration} (model TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, updated BIGINT NOT NULL)
"""

_FIRST_SUMMARY: Final = """
CREATE TABLE {summary} (
    user_id TEXT NOT NULL,
    start_chain TEXT NOT NULL,
    end_chain TEXT NOT NULL,
    turns BIGINT NOT NULL,
    chat_id TEXT NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL,
    packing INTEGER NOT NULL,
    payload {bytes} NOT NULL,
    source_tokens BIGINT NOT NULL,
    created BIGINT NOT NULL,
    last_used BIGINT NOT NULL,
    PRIMARY KEY (user_id, start_chain, end_chain)
)
"""

MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(
        everywhere=(
            _FIRST_ARTIFACT,
            f"CREATE INDEX ix_{ARTIFACT_TABLE}_chat_id ON {{artifact}} (chat_id)",
            f"CREATE INDEX ix_{ARTIFACT_TABLE}_last_used ON {{artifact}} (last_used)",
            "CREATE TABLE {lease} (name TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, until BIGINT NOT NULL)",
        ),
        on_postgresql=(
            # Rows of a few kilobytes stay in one piece, which halves the reading; sealed bytes do not compress.
            "ALTER TABLE {artifact} SET (toast_tuple_target = 8160)",
            "ALTER TABLE {artifact} ALTER COLUMN payload SET STORAGE EXTERNAL",
        ),
    ),
    Migration(
        everywhere=(
            _FIRST_AUDIT,
            f"CREATE INDEX ix_{AUDIT_TABLE}_chat_id ON {{audit}} (chat_id)",
            f"CREATE INDEX ix_{AUDIT_TABLE}_created ON {{audit}} (created)",
            _FIRST_CALIBRATION,
        ),
    ),
    Migration(
        everywhere=(
            _FIRST_SUMMARY,
            f"CREATE INDEX ix_{SUMMARY_TABLE}_chat_id ON {{summary}} (chat_id)",
            f"CREATE INDEX ix_{SUMMARY_TABLE}_last_used ON {{summary}} (last_used)",
            "ALTER TABLE {audit} RENAME COLUMN summary_wanted TO summary_triggered",
            "ALTER TABLE {audit} ADD COLUMN tokens_after_summary BIGINT NOT NULL DEFAULT 0",
            "ALTER TABLE {audit} ADD COLUMN purpose TEXT NOT NULL DEFAULT 'answer'",
            "ALTER TABLE {audit} ADD COLUMN facts_lost BIGINT NOT NULL DEFAULT 0",
            "ALTER TABLE {audit} ADD COLUMN failure TEXT NOT NULL DEFAULT ''",
            # There were no summaries: the step before them is what a request came to.
            "UPDATE {audit} SET tokens_after_summary = tokens_after_retention",
        ),
        on_postgresql=("ALTER TABLE {summary} ALTER COLUMN payload SET STORAGE EXTERNAL",),
    ),
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The newest version's tables, as queries use them."""

    artifact: sa.Table
    lease: sa.Table
    version: sa.Table
    audit: sa.Table
    calibration: sa.Table
    summary: sa.Table


def tables(schema: str | None) -> Tables:
    """Describe the tables inside a database schema (None for the connection's own)."""
    metadata = sa.MetaData(schema=schema)
    texts = ("chat_id", "message_id", "kind", "model", "key_id")
    artifact = sa.Table(
        ARTIFACT_TABLE,
        metadata,
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in texts),
        sa.Column("packing", sa.Integer, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("last_used", sa.BigInteger, nullable=False),
    )
    lease = sa.Table(
        LEASE_TABLE,
        metadata,
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    version = sa.Table(SCHEMA_TABLE, metadata, sa.Column("version", sa.Integer, primary_key=True))
    context = _audit_table(metadata), _calibration_table(metadata), _summary_table(metadata)
    return Tables(artifact, lease, version, *context)


def _audit_table(metadata: sa.MetaData) -> sa.Table:
    """The audit of contexts: a column for each figure of the audit's row, named alike."""
    before = ("window_tokens", "budget_tokens", "limit_tokens", "tokens_before")
    after = (f"tokens_after_{step}" for step in ("cap", "retention", "summary", "prune", "landing"))
    triggers = (f"{step}_triggered" for step in ("retention", "summary", "prune", "landing"))
    return sa.Table(
        AUDIT_TABLE,
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        *(_required(name, sa.Text) for name in ("user_id", "chat_id", "message_id", "model", "purpose")),
        *(_required(name, sa.BigInteger) for name in (*before, *after)),
        *(_required(name, sa.Boolean) for name in (*triggers, "overflow_rejected")),
        *(_required(name, sa.BigInteger) for name in ("billed_tokens", "cached_tokens", "facts_lost")),
        _required("cost", sa.Double),
        _required("failure", sa.Text),
        _required("created", sa.BigInteger),
    )


def _calibration_table(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        CALIBRATION_TABLE,
        metadata,
        sa.Column("model", sa.Text, primary_key=True),
        _required("state", sa.Text),
        _required("updated", sa.BigInteger),
    )


def _summary_table(metadata: sa.MetaData) -> sa.Table:
    """Summaries, in the order of `summary_rows.SummaryRow`."""
    return sa.Table(
        SUMMARY_TABLE,
        metadata,
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("user_id", "start_chain", "end_chain")),
        _required("turns", sa.BigInteger),
        *(_required(name, sa.Text) for name in ("chat_id", "model", "key_id")),
        _required("packing", sa.Integer),
        _required("payload", sa.LargeBinary),
        *(_required(name, sa.BigInteger) for name in ("source_tokens", "created", "last_used")),
    )


def _required(name: str, kind: type[sa.types.TypeEngine[Any]]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def migrate(
    connection: sa.Connection, schema: str | None, *, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring the tables to the newest version, inside the connection's transaction.

    Workers that start at once wait for each other; a database that is ahead of this code is left as it is.
    """
    _wait_for_turn(connection)
    names = tables(schema)
    names.version.create(connection, checkfirst=True)
    reached = connection.scalar(sa.select(sa.func.max(names.version.c.version))) or 0
    on_postgresql = connection.dialect.name == "postgresql"
    for number, migration in enumerate(migrations[reached:], start=reached + 1):
        for statement in migration.everywhere + (migration.on_postgresql if on_postgresql else ()):
            connection.exec_driver_sql(_fill_in(statement, connection, names))
        connection.execute(names.version.insert().values(version=number))


def _wait_for_turn(connection: sa.Connection) -> None:
    """Hold a lock until the transaction ends, so that one worker at a time changes tables."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _fill_in(statement: str, connection: sa.Connection, names: Tables) -> str:
    name_of = connection.dialect.identifier_preparer.format_table
    binary = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    return statement.format(
        artifact=name_of(names.artifact),
        lease=name_of(names.lease),
        audit=name_of(names.audit),
        calibration=name_of(names.calibration),
        summary=name_of(names.summary),
        bytes=binary,
    )
