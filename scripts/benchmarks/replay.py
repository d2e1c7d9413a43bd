"""How long the chat of the `history` benchmark takes with its artifacts in a real, sealed store on SQLite.

Everything a request does before it is dispatched: read the messages, load and open the artifacts, build the input.
Times are the best and the median of several repeats in milliseconds.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.ports import Artifact
from open_webui_openrouter_pipe.store.artifacts import SealedArtifacts
from open_webui_openrouter_pipe.store.cache import build_rows
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.store.sealing import Keyring, Sealing
from scripts.benchmarks.history import MESSAGES, MODEL, chat

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.ports import ArtifactStore

NAME = "replay"
REPEATS = 30
USER = "user"


def run() -> dict[str, float]:
    """Measure, and give milliseconds and the number of artifacts that were replayed."""
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_measure(Path(directory) / "webui.db"))


async def _measure(path: Path) -> dict[str, float]:
    messages, loaded = chat(MESSAGES)
    rows = build_rows(Database.from_url(f"sqlite:///{path}"))
    try:
        store = SealedArtifacts(rows, Sealing(Keyring(["benchmark"])))
        await store.put(
            [
                Artifact(ulid, USER, "chat", "message", held.item["type"], MODEL, held.item)
                for ulid, held in loaded.items()
            ]
        )
        times = [await _once(store, messages) for _ in range(REPEATS)]
    finally:
        await rows.aclose()
    return {
        "artifacts": float(len(loaded)),
        "best_ms": round(min(times), 3),
        "median_ms": round(statistics.median(times), 3),
    }


async def _once(store: ArtifactStore, messages: list[dict[str, object]]) -> float:
    started = time.perf_counter()
    history = read_history(messages)
    loaded = await store.load(USER, history.wanted)
    build_input(history, loaded.artifacts, Options(model_id=MODEL))
    return (time.perf_counter() - started) * 1e3
