"""The backup that docs/operations.md describes: what the pipe keeps is back, and opens with its key alone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.history.artifacts import MissingArtifact
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.sealing import Keyring
from scripts.harness.database import open_database
from tests.store.contract import KEYRING, artifact, sql_rows
from tests.support.pages import blocks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

STORED = [artifact(number) for number in range(5)]


@asynccontextmanager
async def opened(url: str, keyring: Keyring = KEYRING) -> AsyncIterator[SealedArtifacts]:
    """The engine's store on a database."""
    database = open_database(url)
    yield SealedArtifacts(sql_rows(database), keyring)
    await database.aclose()


async def readable(url: str) -> list[Artifact]:
    """The artifacts that are in a database, and open; with another key none does."""
    ids = [each.id for each in STORED]
    async with opened(url) as store, opened(url, Keyring(["another secret"])) as other:
        assert {type(each) for each in (await other.load("ada", ids)).values()} == {MissingArtifact}
        return [each for each in (await store.load("ada", ids)).values() if isinstance(each, Artifact)]


def run(beginning: str, folder: Path, **variables: str) -> None:
    """Run the page's block that begins so, as a shell does; `python` is the one of the tests."""
    (text,) = [each.text for each in blocks() if each.language == "sh" and each.text.startswith(beginning)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    subprocess.run(["sh", "-ec", text], cwd=folder, env=environment, check=True)


def restore(folder: Path) -> None:
    """Put SQLite's copy in the place of the file, as the page says."""
    for rest in folder.glob("webui.db-*"):
        rest.unlink()
    (folder / "backup.db").replace(folder / "webui.db")


@pytest.mark.servers
async def test_a_backup_of_postgresql_is_restored(postgres_url: str, tmp_path: Path) -> None:
    """Over what has been written since."""
    async with opened(postgres_url) as store:
        await store.put(STORED[:3])
        run("pg_dump", tmp_path, DATABASE_URL=postgres_url)
        await store.put(STORED)
    assert await readable(postgres_url) == STORED
    run("pg_restore", tmp_path, DATABASE_URL=postgres_url)
    assert await readable(postgres_url) == STORED[:3]


async def test_a_backup_of_sqlite_is_restored(tmp_path: Path) -> None:
    """Made while the server has the file open, and what it wrote is not yet in the file alone."""
    url = f"sqlite:///{tmp_path}/webui.db"
    async with opened(url) as store:
        await store.put(STORED[:3])
        run("python -c", tmp_path)
        await store.put(STORED)
    restore(tmp_path)
    assert await readable(url) == STORED[:3]
