"""The refusal of a request that cannot be made to fit: what takes how many tokens, and the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..conversation.budget import Budget
from ..errors import ContextBudgetExceeded
from ..notices import notice

_ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "instructions": "overflow_instructions",
        "tools": "overflow_tools",
        "summaries": "overflow_summaries",
        "retrieved text": "overflow_retrieved_text",
        "rules": "overflow_rules",
        "latest message": "overflow_latest_message",
        "current tool calls": "overflow_current_tool_calls",
        "earlier turns": "overflow_earlier_turns",
    }
)
"""The notice that advises the user, by the name of the largest share."""


@dataclass(frozen=True, slots=True)
class ContextShare:
    """What one kind of content takes, and whether it may be dropped."""

    name: str
    tokens: int
    droppable: bool


class ContextOverflow(ContextBudgetExceeded):
    """What has to be sent is over the limit.

    `needed_tokens` is what remains when all that may be dropped is dropped, `limit_tokens` the most that the request
    may take, `shares` what takes how much, largest first. The advice is about the largest.
    """

    def __init__(self, budget: Budget, limit_tokens: int, shares: Sequence[ContextShare]) -> None:
        """Name the largest share in the line for the user, and all of them in the detail."""
        self.budget = budget
        self.limit_tokens = limit_tokens
        self.shares = tuple(sorted(shares, key=lambda share: -share.tokens))
        self.needed_tokens = sum(share.tokens for share in self.shares)
        largest = self.shares[0]
        listed = (
            f"{share.name} {share.tokens:,}{'' if share.droppable else ' (kept)'}" for share in self.shares
        )
        super().__init__(
            notice(
                "overflow",
                needed_tokens=self.needed_tokens,
                limit_tokens=limit_tokens,
                window_tokens=budget.window_tokens,
                largest=largest.name,
                largest_tokens=largest.tokens,
            ),
            advice=notice(_ADVICE[largest.name]),
            detail=", ".join(listed),
        )
