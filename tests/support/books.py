"""A fitting's books in memory: the audit, the calibrations and a vocabulary that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.context.calibration import Calibration
    from open_webui_openrouter_pipe.context.tokens import Tally
    from open_webui_openrouter_pipe.ports import Audited, Encode


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

    def learn(self, model_id: str, _tally: Tally, billed_tokens: int) -> None:
        """Keep the bill."""
        self.learned.append((model_id, billed_tokens))

    async def encode(self) -> Encode | None:
        """Tokens are estimated."""
        return None
