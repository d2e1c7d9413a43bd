"""Waiting for what another thread, task or process does. The limit only turns a hang into a failure."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_SECONDS = 900.0
POLL_SECONDS = 0.01

T = TypeVar("T")


def wait_until(condition: Callable[[], T | Literal[False] | None]) -> T:
    """Call the function until its result is true, and return that."""
    end = time.monotonic() + LIMIT_SECONDS
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"it did not happen within {LIMIT_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    return found


async def eventually(condition: Callable[[], object]) -> None:
    """Let other tasks run until the function's result is true."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is awaited knows no event
            await asyncio.sleep(POLL_SECONDS)
