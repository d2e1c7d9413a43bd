"""The calls of our own tools in one round: kept from the host until they are answered, and answered here.

The host runs the tools that it knows; those of ours it is handed together with their answers, as one pair. So a stream
that ends anywhere leaves no half of one, and a caller of the bare API sees neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..conversation.conversation import Conversation
from ..conversation.tokens import TokenCounter
from ..planning.plan import Plan
from ..ports import ToolAnswered
from ..recall.search import TextIndex
from ..recall.tool import RECALL_NAME, LookUp
from ..responses.effects import ItemStarted
from ..responses.items import FunctionCall, Item, is_function_call

MAX_OWN_ROUNDS: Final = 5
"""In one turn: rounds with calls of our tools that are answered; later calls are answered with a request to stop."""
LIMIT_REACHED: Final = (
    "No more look-ups in this turn. Answer with what you have, and say what you could not find."
)
FAILED: Final = "The look-up has failed. Answer without it, and say so."

log = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[FunctionCall], Awaitable[str]]
"""Answers a call of a tool of ours; never raises."""


@dataclass(slots=True, eq=False, repr=False)
class OwnCalls:
    """What one round calls of our tool; without `answer` it is not offered, and all calls are the host's."""

    answer: Answer | None = None
    may_call: bool = True
    """Whether the model may call any tool: not where it goes on calling after it was asked to stop."""
    answers: dict[str, str] = field(default_factory=dict)
    """By call id, as far as calls are answered."""
    held: dict[int, ItemStarted] = field(default_factory=dict)
    """How those began that are ours, or may be."""
    _calls: dict[int, FunctionCall] = field(default_factory=dict)

    def hold(self, started: ItemStarted) -> bool:
        """Take an item that begins if it is a call of ours, or may be: a few providers name a call at its end."""
        item = started.item
        if not (self.answer and is_function_call(item) and (item.get("name") or RECALL_NAME) == RECALL_NAME):
            return False
        self.held[started.index] = started
        return True

    def finish(self, index: int, item: Item) -> ItemStarted | None:
        """Take the whole form of an item that was taken; return how it began if it is the host's after all."""
        if is_function_call(item) and item["name"] == RECALL_NAME:
            self._calls[index] = item
            return None
        return self.held.pop(index)

    async def answered(self) -> list[ToolAnswered]:
        """Answer all calls that are whole, in their order."""
        pairs = []
        for _, call in sorted(self._calls.items()):
            if self.answer and call.get("status") == "completed":
                self.answers[call["call_id"]] = output = await self.answer(call)
                pairs.append(ToolAnswered(call, output))
        return pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecallTool:
    """Looks up what the requests of one call of the host lack, for the model that asks for it."""

    counter: Callable[[], Awaitable[TokenCounter]]
    index: TextIndex
    is_offered: bool = True

    def of_round(self, conversation: Conversation, sent: Plan) -> OwnCalls:
        """Return what takes and answers the calls of the round that sends this plan."""
        if not self.is_offered:
            return OwnCalls()
        called = [
            [entry.item["name"] for entry in part if is_function_call(entry.item)]
            for part in conversation.turns[-1].rounds
        ]
        rounds_so_far = len([names for names in called if RECALL_NAME in names])

        async def answer(call: FunctionCall) -> str:
            return (
                LIMIT_REACHED
                if rounds_so_far >= MAX_OWN_ROUNDS
                else await self._look_up(call, conversation, sent)
            )

        return OwnCalls(answer, may_call=rounds_so_far <= MAX_OWN_ROUNDS)

    async def _look_up(self, call: FunctionCall, conversation: Conversation, sent: Plan) -> str:
        counter = await self.counter()
        whole = frozenset(entry.digest for entry in sent.entries)
        look_up = LookUp(conversation, whole, counter.text, self.index)
        try:
            return await asyncio.to_thread(look_up.answer, call["arguments"])
        except Exception:  # the answer goes on without what was looked up
            log.exception("a look-up has failed")
            return FAILED
