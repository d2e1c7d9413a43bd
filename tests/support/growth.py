"""How processor time grows with the length of a text: a ratio between sizes, which a busy machine does not change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.errors import PipeError

if TYPE_CHECKING:
    from collections.abc import Callable

SMALLEST = 512
LARGEST = 128 * 1024
TOLERATED_SECONDS = 0.5
"""Of processor time for the largest text: what would stay below it even if it grew by the square is not looked at."""
STEP = 4
"""By what the larger of two texts is longer: time grows by 4 when linear and by 16 when quadratic, so that what a busy
machine adds to one of two measurements does not decide."""
MAX_GROWTH = 8.0
SUSPICIOUS_GROWTH = 6.0
"""From here on it is measured again, and with larger texts."""
DECIDING_SIZE, DECIDING_SECONDS, LONG_SECONDS = 4096, 0.002, 0.1
"""From where on a ratio of two measurements says something, and from where on it needs no larger text."""
ATTEMPTS = 5
CONFIRMATIONS = 3


def seconds(read: Callable[[str], object], text: str, attempts: int = 1) -> float:
    """Processor time of reading the text, the least of the attempts."""
    least = float("inf")
    for _ in range(attempts):
        begin = time.thread_time()
        with suppress(ValueError, PipeError):
            result = read(text)
            if isinstance(result, Iterator):
                for _ in result:
                    pass
        least = min(least, time.thread_time() - begin)
    return least


def growth(read: Callable[[str], object], text: Callable[[int], str]) -> float:
    """By what the time grows when a text is `STEP` times as long; 0 where even the square would not matter."""
    size = SMALLEST
    while (now := seconds(read, text(size))) * (LARGEST / size) ** 2 > TOLERATED_SECONDS:
        if size >= DECIDING_SIZE and now > DECIDING_SECONDS:
            if now < SUSPICIOUS_GROWTH * seconds(read, text(size // STEP), 2):
                return 0
            ratio = _ratio(read, text, size)
            if ratio > MAX_GROWTH:  # caches and memory that others use up look like growth, but not each time
                ratio = min(ratio, *(_ratio(read, text, size) for _ in range(CONFIRMATIONS)))
            if ratio < SUSPICIOUS_GROWTH or size == LARGEST or now > LONG_SECONDS:
                return ratio
        size *= 2
    return 0


def _ratio(read: Callable[[str], object], text: Callable[[int], str], size: int) -> float:
    return seconds(read, text(size), ATTEMPTS) / seconds(read, text(size // STEP), ATTEMPTS)
