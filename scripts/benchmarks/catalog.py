"""How long the first list of models takes after a restart while OpenRouter cannot be reached.

Each repeat is a new app, as after a restart, that finds the last good list of 700 models on disk. The administrator's
filters and variants are those of a busy server. The collector runs before: its pass over all that Open WebUI has
imported belongs to the start. Times are in milliseconds: of the wall, and of the processor, which a busy machine
lengthens less.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import statistics
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.settings import Settings, read_settings
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.valves import Valves
from open_webui_openrouter_pipe.worker import HostResources
from scripts.harness.page import SECRET_KEY, FakeRecords
from scripts.standin import catalogue

NAME = "catalog"
MODELS = 700
REPEATS = 20
DESCRIPTION = "It reads long documents, calls tools, and answers in many languages. " * 12
"""About as long as in the real list."""


def run() -> dict[str, float]:
    """Measure, and give the number of models and the times."""
    logging.disable(logging.WARNING)  # each repeat says that the network is down
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> dict[str, float]:
    up, down = httpx.MockTransport(_answer), httpx.MockTransport(_refuse)
    listed, *_ = await _restart(folder, up)
    times = [await _restart(folder, down) for _ in range(REPEATS)]
    assert {count for count, *_ in times} == {listed}
    first = [of_wall for _, of_wall, _ in times]
    return {
        "models": float(listed),
        "first_best_ms": round(min(first), 2),
        "first_median_ms": round(statistics.median(first), 2),
        "first_worst_ms": round(max(first), 2),
        "first_processor_median_ms": round(statistics.median(of_processor for *_, of_processor in times), 2),
    }


async def _restart(folder: Path, transport: httpx.AsyncBaseTransport) -> tuple[int, float, float]:
    """The number of entries in the first list of a new app, and its milliseconds of wall and processor."""
    database = Database.from_url(f"sqlite:///{folder / 'webui.db'}")
    resources = HostResources(database, FakeRecords(), SECRET_KEY, cache_folder=folder)
    settings = _settings()
    try:
        async with aclosing(App(resources, transport=transport)) as app:
            gc.collect()
            started, used = time.perf_counter(), time.process_time()
            entries = await app.models(settings)
            of_wall, of_processor = time.perf_counter() - started, time.process_time() - used
            await app.idle()
            return len(entries), of_wall * 1e3, of_processor * 1e3
    finally:
        await database.aclose()


def _settings() -> Settings:
    return read_settings(
        Valves(
            API_KEY="sk-or-benchmark",
            BASE_URL="https://openrouter.example/api/v1",
            MODELS="*, !nobody/*",
            MODEL_FILTERS="context>=1k",
            VARIANTS="author-1/*:nitro, @preset/team",
        )
    )


def _answer(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/key"):
        return httpx.Response(200, json={"data": {"limit": None, "usage": 1}})
    rows: list[dict[str, Any]] = []
    for number in range(MODELS):
        row = catalogue.MODELS[number % 20].wire()
        rows.append({**row, "id": f"author-{number % 60}/model-{number}", "description": DESCRIPTION})
    return httpx.Response(200, json={"data": rows})


def _refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")
