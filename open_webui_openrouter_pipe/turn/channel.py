"""The bounded channel between the turn's task and whoever drains it.

The task that fills it and the generator that drains it are different tasks, so that closing the generator in the
middle of a `yield` cannot break the turn. Neighbouring deltas of one text are joined while they are queued: the
first goes out at once, later ones at most every `interval_seconds`, and anything that is not a delta takes them
along at once. The beginning of a message, of which nothing is seen, goes with what follows it. A browser draws each
event; gathering them is what keeps a fast answer smooth. Where nothing goes out for long, a line says what is waited
for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from ..ports import Notice, Output
from ..responses.effects import ItemStarted, TextDelta
from ..responses.items import is_message

INTERVAL_SECONDS: Final = 0.025
_MAX_QUEUED: Final = 64
"""Values that may be queued before the turn is held back; joined deltas count as one."""
_MAX_JOINED_CHARACTERS: Final = 16_384
"""Length at which a joined delta is closed and the next one begins."""

SILENT_SECONDS: Final = (8.0, 20.0, 60.0)
"""After so long without anything there is a line each. The host stores every line, so they are few."""

WaitingLine: TypeAlias = Callable[[Output | None, float], Notice]
"""Returns the line about a silence, from what went out last, None for nothing yet, and the seconds that it lasts."""


class OutputChannel:
    """A queue of outputs that joins deltas by time. One task puts, one drains."""

    def __init__(
        self, *, interval_seconds: float = INTERVAL_SECONDS, waiting_line: WaitingLine | None = None
    ) -> None:
        """Start empty and open; without `waiting_line` nothing is said of a silence."""
        self._interval = interval_seconds
        self._clock = asyncio.get_running_loop().time
        self._queue: list[Output] = []
        self._not_empty = asyncio.Event()
        self._urgent = asyncio.Event()
        self._not_full = asyncio.Event()
        self._not_full.set()
        self._closed = False
        self.waiting_line = waiting_line
        """Set to None, nothing is said of silences from there on."""
        self._latest: Output | None = None
        self._latest_seconds = self._clock()
        self._is_asking = False
        self._lines = 0
        """How many there were about this silence, and the last of them."""
        self._line: Notice | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def put(self, output: Output) -> None:
        """Hand one value on; waits while too many are undrained."""
        last = self._queue[-1] if self._queue else None
        if isinstance(output, TextDelta) and isinstance(last, TextDelta):
            is_same_text = (output.kind, output.index, output.part) == (last.kind, last.index, last.part)
            if is_same_text and len(last.delta) < _MAX_JOINED_CHARACTERS:
                self._queue[-1] = replace(last, delta=last.delta + output.delta)
                return
        if len(self._queue) >= _MAX_QUEUED:
            self._urgent.set()
            self._not_full.clear()
            await self._not_full.wait()
        self._queue.append(output)
        if last is None and isinstance(output, ItemStarted) and is_message(output.item):
            return
        self._not_empty.set()
        if not isinstance(output, TextDelta):
            self._urgent.set()

    def ask(self) -> None:
        """A request is sent: from here on its provider is silent, too, and not only who has announced a wait."""
        self._is_asking, self._latest_seconds, self._lines = True, self._clock(), 0

    def close(self) -> None:
        """Say that nothing follows; what is queued is still drained."""
        self._closed = True
        self._not_empty.set()
        self._urgent.set()

    async def drain(self) -> AsyncGenerator[Output]:
        """Yield the outputs in order until the channel is closed and empty, and lines about silences."""
        last_delta = -self._interval
        try:
            self._watch()
            while True:
                await self._not_empty.wait()
                remaining = last_delta + self._interval - self._clock()
                if remaining > 0 and not self._urgent.is_set():  # deltas gather until their interval is over
                    # not `wait_for`: that of Python 3.11 swallows a cancellation that comes as the event is set
                    with suppress(TimeoutError):
                        async with asyncio.timeout(remaining):
                            await self._urgent.wait()
                outputs, self._queue = self._queue, []
                self._not_full.set()
                if not self._closed:
                    self._not_empty.clear()
                    self._urgent.clear()
                now = self._clock()
                if TextDelta in map(type, outputs):
                    last_delta = now
                if outputs and outputs[-1] is not self._line:
                    self._latest, self._latest_seconds, self._lines = outputs[-1], now, 0
                for output in outputs:
                    yield output
                if self._closed and not self._queue:
                    return
        finally:
            if self._timer:
                self._timer.cancel()

    def _watch(self) -> None:
        """Queue a line where one is due, and look again when the next one may be: no delta sets a timer."""
        if self.waiting_line is None or self._closed:
            return
        if not self._is_asking and (not isinstance(self._latest, Notice) or self._latest.done):
            self._latest_seconds = self._clock()
        silent_seconds = self._clock() - self._latest_seconds
        due = SILENT_SECONDS[self._lines :]
        if due and silent_seconds >= due[0]:
            self._line = self.waiting_line(self._latest, due[0])
            self._queue.append(self._line)
            self._not_empty.set()
            self._urgent.set()
            self._lines, due = self._lines + 1, due[1:]
        next_seconds = due[0] - silent_seconds if due else SILENT_SECONDS[0]
        self._timer = asyncio.get_running_loop().call_later(next_seconds, self._watch)
