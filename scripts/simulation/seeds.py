"""A seed's world, run in a process of its own, and the short story of one that fails."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.harness.servers import PostgresServer, RedisServer

from . import story as stories
from .world import Ran, run

if TYPE_CHECKING:
    from collections.abc import Iterator

SHRINKING_SECONDS = 600.0


@contextmanager
def running_servers() -> Iterator[tuple[str, str]]:
    """A PostgreSQL and a Redis of their own, by their URLs."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as data, tempfile.TemporaryDirectory() as rest:
        postgres, redis = PostgresServer(Path(data)), RedisServer(Path(rest))
        try:
            yield postgres.url, redis.url
        finally:
            postgres.stop()
            redis.stop()


def run_seed(seed: int, years: float) -> Ran:
    """Run the story of a seed."""
    logging.disable(logging.CRITICAL)
    return run(stories.draw(seed, years))


def write_short(folder: Path, seed: int, told: dict[str, Any], ran: Ran) -> Path:
    """Write a story that breaks the same law, as short as it gets in some minutes, and return its path."""
    end = time.monotonic() + SHRINKING_SECONDS
    assert ran.broken

    def fails(each: dict[str, Any]) -> bool:
        if time.monotonic() > end or not each["moments"]:
            return False
        try:
            again = run(each)
        except Exception:  # noqa: BLE001 - another failure than the one that is looked for
            return False
        return again.broken is not None and again.broken.law == ran.broken.law  # type: ignore[union-attr]

    short = stories.shrunk({**told, "moments": told["moments"][: ran.broken.at + 1]}, fails)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{ran.broken.law.replace(' ', '_')}-{seed}.json"
    path.write_text(json.dumps(short, indent=1) + "\n", "utf-8")
    return path
