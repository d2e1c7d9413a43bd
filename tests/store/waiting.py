"""Waiting for a database's driver to end."""

from __future__ import annotations

import asyncio
import threading


async def driver_threads() -> None:
    """Wait for aiosqlite's threads: one that could not open its file still reports to the event loop."""
    while any("_connection_worker_thread" in thread.name for thread in threading.enumerate()):  # noqa: ASYNC110 - threads set no event
        await asyncio.sleep(0.01)
