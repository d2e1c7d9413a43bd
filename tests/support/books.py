"""A fitting's books in memory: audit, calibrations, a vocabulary that is not there, and what the user is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.engine.fit import PlannerServices
from open_webui_openrouter_pipe.engine.summarizer import PromptCacheClock

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.conversation.calibration import Calibration
    from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
    from open_webui_openrouter_pipe.ports import Audited, Encode, Notice


class Books:
    """Writes down what is recorded and learned; `known` is what every model's bills have taught."""

    def __init__(self) -> None:
        self.written: list[Audited] = []
        self.learned: list[tuple[str, int]] = []
        self.known: Calibration | None = None

    def write(self, record: Audited) -> None:
        """Keep the record."""
        self.written.append(record)

    async def find(self, _model_id: str) -> Calibration | None:
        """The same for every model."""
        return self.known

    def learn(self, model_id: str, _tally: TokenCounts, billed_tokens: int) -> None:
        """Keep the bill."""
        self.learned.append((model_id, billed_tokens))

    async def encode(self) -> Encode | None:
        """Tokens are estimated."""
        return None

    def means(self, clock: Callable[[], float] = time.monotonic) -> PlannerServices:
        """What a worker has of these; `clock` gives monotonic seconds."""
        return PlannerServices(self, self, self, lambda: f"id{len(self.written)}", PromptCacheClock(clock))


class Screen:
    """Takes the lines that a user would see."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, notice: Notice) -> None:
        """Show a line."""
        self.lines.append(notice.text)
