"""The refusal of a request that cannot be made to fit, with the reasons.

Owns the breakdown of what takes how many tokens, and the advice that follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..conversation.budget import Budget
from ..errors import ContextBudgetExceeded

ShareName = Literal[
    "instructions",
    "tools",
    "summaries",
    "retrieved text",
    "pinned rules",
    "latest message",
    "current tool calls",
    "earlier turns",
]

_ADVICE: Mapping[ShareName, str] = {
    "instructions": "Shorten the system prompt.",
    "tools": "Switch off tools that this chat does not need.",
    "summaries": "Start a new chat.",
    "retrieved text": "Attach fewer documents, or ask for fewer sources.",
    "pinned rules": "Start a new chat.",
    "latest message": "Shorten your message or its attachments, or send them in parts.",
    "current tool calls": "Ask for less in one go, so that fewer tools are called.",
    "earlier turns": "Start a new chat, or let the pipe shorten old turns.",
}


@dataclass(frozen=True, slots=True)
class ContextShare:
    """What one kind of content takes, and whether it may be dropped."""

    name: ShareName
    tokens: int
    droppable: bool


class ContextOverflow(ContextBudgetExceeded):
    """What has to be sent is over the limit.

    `needed_tokens` is what remains when all that may go is gone, `limit_tokens` what the request may come to,
    `shares` says what takes how much, largest first; the advice is about the largest.
    """

    def __init__(self, budget: Budget, limit_tokens: int, shares: Sequence[ContextShare]) -> None:
        """Name the largest share in the line for the user, and all of them in the detail."""
        self.budget = budget
        self.limit_tokens = limit_tokens
        self.shares = tuple(sorted(shares, key=lambda share: -share.tokens))
        self.needed_tokens = sum(share.tokens for share in self.shares)
        largest = self.shares[0]
        listed = ", ".join(
            f"{share.name} {share.tokens:,}{'' if share.droppable else ' (kept)'}" for share in self.shares
        )
        super().__init__(
            f"This request needs about {self.needed_tokens:,} tokens, but only {limit_tokens:,} fit into the "
            f"model's window of {budget.window_tokens:,}. "
            f"The largest part is: {largest.name}, {largest.tokens:,} tokens.",
            advice=_ADVICE[largest.name],
            detail=listed,
        )
