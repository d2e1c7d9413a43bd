"""What a request fitter needs, in memory: audit, calibrations, a tokenizer without a vocabulary, a user's page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from open_webui_openrouter_pipe.turn.fit import PlannerServices
from open_webui_openrouter_pipe.turn.summaries import PromptCacheClock

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.conversation.budget import Calibration
    from open_webui_openrouter_pipe.conversation.tokens import TokenCounts
    from open_webui_openrouter_pipe.ports import Audited, Encode, Notice


class FakeServices:
    """Keeps what is recorded and learned; `known` is the calibration of every model."""

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

    def learn(self, model_id: str, _counts: TokenCounts, billed_tokens: int) -> None:
        """Keep the bill."""
        self.learned.append((model_id, billed_tokens))

    async def encode(self) -> Encode | None:
        """None: tokens are estimated."""
        return None

    def planner(self, clock: Callable[[], float] = time.monotonic) -> PlannerServices:
        """These as a fitter takes them; `clock` returns monotonic seconds."""
        return PlannerServices(self, self, self, lambda: f"id{len(self.written)}", PromptCacheClock(clock))


class ShownNotices:
    """Collects the status lines that a user would see."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, notice: Notice) -> None:
        """Show a line."""
        self.lines.append(notice.text)
