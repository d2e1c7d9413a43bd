"""Bills that did not come with their answers: OpenRouter tells them later, by the id of the generation.

It is asked beside everything else, a few times; whoever stops the worker does not wait for it, and the estimate stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from ..errors import PipeError
from ..ports import Generations
from ..responses.effects import Usage

WAITS_SECONDS: Final = (10.0, 50.0, 240.0)
"""Before each question: 10 seconds, a minute and five minutes after the answer has ended."""
MAX_WAITING: Final = 300
_PREFIX: Final = "gen-"
"""How OpenRouter's ids begin; what else answers in its place has no bills to ask for."""

log = logging.getLogger(__name__)


class LateBills:
    """Those of one worker, whose owner closes them; `start` begins a task that somebody owns."""

    def __init__(
        self,
        start: Callable[[Coroutine[Any, Any, None]], object],
        waits_seconds: Sequence[float] = WAITS_SECONDS,
    ) -> None:
        self.waits_seconds = waits_seconds
        self._start = start
        self._timers = dict[str, asyncio.TimerHandle]()

    def ask(
        self, generations: Generations, generation: str, found: Callable[[Usage], None], *, asked: int = 0
    ) -> None:
        """Have a generation's bill asked for, and handed on; of too many, or `asked` for often enough, none."""
        is_known = generation.startswith(_PREFIX) and generation not in self._timers
        if not is_known or asked >= len(self.waits_seconds) or len(self._timers) >= MAX_WAITING:
            return

        async def look() -> None:
            usage = None
            try:
                usage = await generations.usage_of(generation)
            except PipeError as error:  # it is not found until it was recorded
                log.debug("the bill of %s is not known: %s", generation, error)
            if usage is None:
                self.ask(generations, generation, found, asked=asked + 1)
            else:
                found(usage)

        def begin() -> None:
            del self._timers[generation]
            self._start(look())

        loop = asyncio.get_running_loop()
        self._timers[generation] = loop.call_later(self.waits_seconds[asked], begin)

    def close(self) -> None:
        """Ask no more."""
        self.waits_seconds = ()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
