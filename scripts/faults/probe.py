"""How one worker fares, seen from inside: how late its event loop is, and how many tasks it has.

The run puts this file beside the release as `sitecustomize.py`, so that it is read by every Python process of the host.
It must import nothing of this repository.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn
import uvicorn.supervisors.multiprocess as supervisor

FOLDER = "FAULTS_PROBES"
"""The variable that names the folder where each worker writes a file of its own."""
STEP_SECONDS = 0.1
REPORT_SECONDS = 5.0
HEALTH_SECONDS = 120
"""Uvicorn kills a worker that says nothing for five seconds, as all do beside other work on a small machine."""
MOST_KINDS = 6


def install() -> None:
    """Have each server of this process watched once it has started."""
    startup, watching = uvicorn.Server.startup, set[asyncio.Task[None]]()

    async def watched(self: uvicorn.Server, *arguments: Any, **options: Any) -> None:
        await startup(self, *arguments, **options)
        watching.add(asyncio.create_task(watch(Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl")))

    uvicorn.Server.startup = watched  # type: ignore[method-assign]
    (uvicorn.run.__kwdefaults__ or {})["timeout_worker_healthcheck"] = HEALTH_SECONDS
    # one that starts while the database is away ends all others: where servers matter, something starts them again
    vars(supervisor)["STARTUP_FAILURE"] = None


async def watch(path: Path, *, step: float = STEP_SECONDS, period: float = REPORT_SECONDS) -> None:
    """Write a line in each period (all in seconds), until cancelled.

    `lag_ms` is the longest time by which the loop was late, and `kinds` are the coroutines that most tasks run.
    """
    while True:
        late, until = 0.0, time.monotonic() + period
        while (began := time.monotonic()) < until:
            await asyncio.sleep(step)
            late = max(late, time.monotonic() - began - step)
        tasks = asyncio.all_tasks()
        kinds = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in tasks)
        line = {"at": time.time(), "lag_ms": late * 1000, "tasks": len(tasks)}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "kinds": dict(kinds.most_common(MOST_KINDS))}) + "\n")
