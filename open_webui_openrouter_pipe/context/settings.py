"""The frozen slice of settings that this folder reads.

Owns names, defaults and the meaning of a per-user limit. It must not read valves or the environment: whoever
builds the slice has merged and checked them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["summarize", "prune", "clip", "refuse", "off"]
"""What happens when a chat outgrows its window.

`prune` is `summarize` without asking for summaries; `off` sends everything and lets the provider decide.
"""

Pruning = Literal["batched", "every_turn", "off"]
"""When old tool outputs become facts: when it pays, at once, or never."""

CLIP_RANGE_MESSAGES = (1, 50)


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How a conversation is fitted to its window. Ratios are shares of the input budget.

    From `summary_ahead_ratio` on the next summary is worth making ahead of time; at `summary_trigger_ratio` it is due.
    """

    tool_output_retention_turns: int = 10
    tool_output_pruning: Pruning = "batched"
    context_strategy: Strategy = "summarize"
    context_max_output_tokens: int = 2048
    summary_trigger_ratio: float = 0.70
    summary_ahead_ratio: float = 0.60
    summary_turn_trigger: int = 0
    prune_trigger_ratio: float = 0.90
    protected_recent_turns: int = 4
    clip_last_messages: int = 4
    clip_minimum_messages: int = 5
    clip_user_limit: int | None = None
    clip_bypass: bool = False

    @property
    def clip_limit(self) -> int | None:
        """Messages to keep, the user's own limit first; None when clipping does not apply."""
        if self.context_strategy != "clip" or self.clip_bypass:
            return None
        low, high = CLIP_RANGE_MESSAGES
        wanted = self.clip_last_messages if self.clip_user_limit is None else self.clip_user_limit
        return min(max(wanted, low), high)

    @property
    def protected_turns(self) -> int:
        """Newest turns that are left alone; the current one is always among them."""
        return max(1, self.protected_recent_turns)

    @property
    def retention_turns(self) -> int:
        """Newest turns whose outputs stay verbatim; the current one is always among them."""
        return max(1, self.tool_output_retention_turns)
