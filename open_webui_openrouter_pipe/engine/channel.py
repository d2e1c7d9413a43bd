"""The bounded channel between the engine's task and whoever drains it.

The task that fills it and the generator that drains it are different tasks, so that closing the generator in the
middle of a `yield` cannot break the engine. Neighbouring deltas of one place are joined while they wait: the first
goes out at once, later ones at most every `interval_seconds`, and anything that is not a delta takes them along
at once. A browser draws each event; gathering them is what keeps a fast answer smooth.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from ..ports import Output
from ..responses.effects import ArgumentsDelta, ReasoningDelta, RefusalDelta, TextDelta

_Delta = TextDelta | ReasoningDelta | ArgumentsDelta | RefusalDelta
_DELTAS = (TextDelta, ReasoningDelta, ArgumentsDelta, RefusalDelta)

INTERVAL_SECONDS = 0.04
_MAX_WAITING = 64
"""Values that may wait before the engine is held back; joined deltas count as one."""
_MAX_JOINED_CHARS = 16_384
"""Length at which a joined delta is closed and the next one begins."""


class OutputChannel:
    """A queue of outputs that joins deltas by time. One task puts, one drains."""

    def __init__(
        self, *, interval_seconds: float = INTERVAL_SECONDS, clock: Callable[[], float] | None = None
    ) -> None:
        """Start empty and open; `clock` gives monotonic seconds and defaults to the event loop's."""
        self._interval = interval_seconds
        self._clock = clock or asyncio.get_running_loop().time
        self._waiting: list[Output] = []
        self._chunks: list[str] = []
        self._joined_chars = 0
        self._place: _Delta | None = None
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    async def put(self, output: Output) -> None:
        """Hand one value on; waits while too many are undrained."""
        place = replace(output, delta="") if isinstance(output, _DELTAS) else None
        if place is not None and place == self._place and self._joined_chars < _MAX_JOINED_CHARS:
            self._join(output)
            return
        if len(self._waiting) >= _MAX_WAITING:
            self._urgent.set()
            self._room.clear()
            await self._room.wait()
        self._settle()
        self._waiting.append(output)
        self._place = place
        self._something.set()
        if place is None:
            self._urgent.set()

    def close(self) -> None:
        """Say that nothing follows; what waits is still drained."""
        self._closed = True
        self._something.set()
        self._urgent.set()

    async def drain(self) -> AsyncGenerator[Output]:
        """Give the outputs in order until the channel is closed and empty."""
        last = -self._interval
        while True:
            await self._something.wait()
            await self._gather(last)
            outputs = self._take()
            last = self._clock()
            for output in outputs:
                yield output
            if self._closed and not self._waiting:
                return

    async def _gather(self, last: float) -> None:
        """Let deltas gather until their interval is over, unless something urgent waits with them."""
        remaining = last + self._interval - self._clock()
        if self._urgent.is_set() or remaining <= 0:
            return
        try:
            await asyncio.wait_for(self._urgent.wait(), remaining)
        except TimeoutError:
            return

    def _join(self, delta: Output) -> None:
        """Keep the text of a delta that continues the last one waiting."""
        assert isinstance(delta, _DELTAS)
        self._chunks.append(delta.delta)
        self._joined_chars += len(delta.delta)

    def _settle(self) -> None:
        """Write the gathered chunks into the delta that they continue."""
        if self._chunks:
            last = self._waiting[-1]
            assert isinstance(last, _DELTAS)
            self._waiting[-1] = replace(last, delta=last.delta + "".join(self._chunks))
            self._chunks.clear()
        self._joined_chars = 0

    def _take(self) -> list[Output]:
        self._settle()
        outputs, self._waiting = self._waiting, []
        self._place = None
        self._room.set()
        if not self._closed:
            self._something.clear()
            self._urgent.clear()
        return outputs
