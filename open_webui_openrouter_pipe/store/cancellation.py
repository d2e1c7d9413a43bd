"""Keeps cancellations from getting lost inside drivers.

Some turn a cancellation into an error of their own, or give back the answer that arrived with it. Whoever waits
for the cancelled task would then wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def passing_cancellation() -> Iterator[None]:
    """End with CancelledError if the current task was cancelled inside, whatever else happened there."""
    before = _cancellations()
    try:
        yield
    finally:
        if _cancellations() > before:
            raise asyncio.CancelledError


def _cancellations() -> int:
    """How often the current task was asked to end and has not said that it will go on."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0
