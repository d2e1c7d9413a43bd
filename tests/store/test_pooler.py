"""Workers behind pgbouncer in transaction mode, which may give each transaction another connection of few."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.table import SqlRows
from scripts.environment import find_program
from scripts.harness.database import open_database
from scripts.harness.servers import Pooler
from tests.store.contract import KEYRING, artifact
from tests.store.test_bills import BILL, UNDER, estimate, ledger_at, write
from tests.store.test_statements import renews_at_once, store_everything
from tests.store.workers import PATIENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from open_webui_openrouter_pipe.store.database import Database
    from scripts.harness.servers import PostgresServer

__all__ = ["renews_at_once"]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.servers,
    pytest.mark.skipif(find_program("pgbouncer") is None, reason="not installed: pgbouncer"),
]
WORKERS = 6


@pytest.fixture
def pooler(postgres_server: PostgresServer) -> Iterator[Pooler]:
    """Before the session's PostgreSQL."""
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as directory:  # pytest's own are closed to others
        found = Pooler(Path(directory), postgres_server)
        yield found
        found.stop()


def behind(pooler: Pooler, schema: str) -> Database:
    """A worker's database; an old pgbouncer cannot bear the statements that the driver prepares by itself."""
    arguments = {} if pooler.prepares else {"prepare_threshold": None}
    limits = {"timeout_seconds": PATIENT_SECONDS, "read_seconds": PATIENT_SECONDS}
    return open_database(pooler.url, schema=schema, connect_args=arguments, **limits)


async def test_everything_works_behind_a_pooler(pooler: Pooler, postgres_schema: str) -> None:
    """All that the store can do."""
    async with aclosing(behind(pooler, postgres_schema)) as database:
        await store_everything(database)


async def test_workers_behind_a_pooler_keep_limits_and_artifacts(
    pooler: Pooler, postgres_schema: str
) -> None:
    """They start at once, write and read side by side, and of what is held under a limit none goes beyond."""
    async with AsyncExitStack() as closing:
        databases = [
            await closing.enter_async_context(aclosing(behind(pooler, postgres_schema)))
            for _ in range(WORKERS)
        ]

        async def work(number: int, database: Database) -> bool:
            store = SealedArtifacts(SqlRows(database), KEYRING)
            kept = [artifact(number * 100 + at) for at in range(20)]
            for each in kept:
                await store.put([each])
                assert len(await store.load("ada", [each.id])) == 1
            return await ledgers[number].hold(estimate(f"{number}"), 1.5, UNDER)

        ledgers = [ledger_at(database) for database in databases]
        begun = await asyncio.gather(*(work(*each) for each in enumerate(databases)))
        assert sorted(begun) == [False] * (WORKERS - 2) + [True] * 2
        await asyncio.gather(*(write(ledger, BILL) for ledger in ledgers))
        for ledger in ledgers:
            await ledger.aclose()
        tables = databases[0].tables
        counted = [sa.select(sa.func.count()).select_from(each) for each in (tables.artifact, tables.audit)]
        rows = [(await databases[0].fetch(each))[0][0] for each in counted]
        assert rows == [WORKERS * 20, WORKERS]
        sums = await ledger_at(databases[0]).sums(["user:ada"])
        assert sums["user:ada"].day == BILL.cost * WORKERS
