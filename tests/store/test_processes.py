"""Real processes: killed at any moment, and several at once on one database."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from scripts.harness.database import open_database
from tests.store.contract import KEYRING, sql_rows
from tests.store.workers import (
    ARTIFACTS_OF_A_TURN,
    Servers,
    live_through_outages,
    run_workers,
    write_until_killed,
)

if TYPE_CHECKING:
    from scripts.harness.servers import RedisServer

pytestmark = pytest.mark.anyio

LONGEST_LIFE_SECONDS = 0.15


async def test_no_marker_without_its_artifact(
    processes: ForkServerContext, tmp_path: Path, servers: Servers
) -> None:
    """A process that is killed at any of fifty points leaves no marker whose artifact is not in the database."""
    chance, markers = random.Random(50), tmp_path / "markers"
    database = open_database(servers.database_url, schema=servers.schema)
    store = SealedArtifacts(sql_rows(database), KEYRING)
    await store.load("ada", ["any"])
    for point in range(50):
        first, seen_bytes = point * 1_000_000, _size(markers)
        writer = processes.Process(target=write_until_killed, args=(servers, markers, first))
        writer.start()
        _wait_for_lines(markers, seen_bytes, writer)
        await asyncio.sleep(chance.random() * LONGEST_LIFE_SECONDS)
        writer.kill()
        writer.join()
        written = _lines(markers, seen_bytes)
        loaded = await store.load("ada", written)
        assert {type(each) for each in loaded.values()} == {Artifact}
        assert len(loaded) == len(written) >= ARTIFACTS_OF_A_TURN
    loaded = await store.load("ada", _lines(markers))
    assert {type(each) for each in loaded.values()} == {Artifact}
    await database.aclose()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _lines(path: Path, start_bytes: int = 0) -> list[str]:
    """The lines that were written whole, behind so many bytes."""
    return path.read_bytes()[start_bytes:].decode().split("\n")[:-1] if path.exists() else []


def _wait_for_lines(path: Path, seen_bytes: int, writer: ForkServerProcess) -> None:
    while _size(path) <= seen_bytes:
        assert writer.is_alive(), "the writer does not write"
        time.sleep(0.002)


@pytest.mark.servers
async def test_workers_write_delete_and_sweep_at_once(
    processes: ForkServerContext,
    tmp_path: Path,
    servers: Servers,
    redis_server: RedisServer,
    redis_prefix: str,
) -> None:
    """Four workers through outages: in the end the database holds exactly what was put and not deleted."""
    servers = replace(servers, redis_url=redis_server.url, redis_prefix=redis_prefix)
    journals = [tmp_path / f"journal-{number}" for number in range(4)]
    work = [(servers, journal, number, 40) for number, journal in enumerate(journals)]
    await run_workers(processes, live_through_outages, work)
    lines = [line for journal in journals for line in _lines(journal)]
    expected = {line[1:] for line in lines if line[0] == "+"} - {line[1:] for line in lines if line[0] == "-"}
    database = open_database(servers.database_url, schema=servers.schema)
    ids = [row_id for (row_id,) in await database.fetch(sa.select(database.tables.artifact.c.id))]
    assert (len(ids), set(ids)) == (len(expected), expected)
    store = SealedArtifacts(sql_rows(database), KEYRING)
    loaded = await store.load("ada", sorted(expected))
    assert {type(each) for each in loaded.values()} == {Artifact}
    await database.aclose()
