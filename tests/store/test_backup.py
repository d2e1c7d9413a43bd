"""The backup that docs/operations.md describes: what the pipe keeps is back, and opens with its key alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.store.artifacts import ArtifactLimits, SealedArtifacts
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.sealing import Keyring
from scripts.harness.database import open_database
from tests.store.contract import KEYRING, NOW, artifact, sql_rows
from tests.support.pages import blocks

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.ports import Artifact

pytestmark = pytest.mark.anyio

STORED = [artifact(number) for number in range(5)]


def store(database: Database, keyring: Keyring = KEYRING) -> SealedArtifacts:
    """The engine's store on a database."""
    return SealedArtifacts(
        sql_rows(database), keyring, ArtifactLimits(item_bytes=1_000_000), clock=lambda: NOW
    )


async def write(url: str, number: int) -> None:
    """Store so many artifacts."""
    database = open_database(url)
    await store(database).put(STORED[:number])
    await database.aclose()


async def readable(url: str, keyring: Keyring = KEYRING) -> list[Artifact]:
    """The artifacts that are in a database, and open."""
    database = open_database(url)
    loaded = await store(database, keyring).load("ada", [each.id for each in STORED])
    await database.aclose()
    return list(loaded.artifacts.values())


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
    await write(postgres_url, 3)
    run("pg_dump", tmp_path, DATABASE_URL=postgres_url)
    await write(postgres_url, 5)
    assert await readable(postgres_url) == STORED
    run("pg_restore", tmp_path, DATABASE_URL=postgres_url)
    assert await readable(postgres_url) == STORED[:3]
    assert await readable(postgres_url, Keyring(["another secret"])) == []


async def test_a_backup_of_sqlite_is_restored(tmp_path: Path) -> None:
    """Made while the server has the file open, and what it wrote is not yet in the file alone."""
    url = f"sqlite:///{tmp_path}/webui.db"
    database = open_database(url)
    await store(database).put(STORED[:3])
    run("python -c", tmp_path)
    await database.aclose()
    await write(url, 5)
    restore(tmp_path)
    assert await readable(url) == STORED[:3]
    assert await readable(url, Keyring(["another secret"])) == []
