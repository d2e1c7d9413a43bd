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


async def _answer_nothing(call: FunctionCall) -> str:
    raise AssertionError(call["name"])


@dataclass(slots=True, eq=False, repr=False)
class OwnCalls:
    """What one round calls of our tools, which have these names."""

    names: frozenset[str] = frozenset()
    answer: Answer = _answer_nothing
    answers: dict[str, str] = field(default_factory=dict)
    """By call id, as far as calls are answered."""
    _held: dict[int, ItemStarted] = field(default_factory=dict)
    _calls: dict[int, FunctionCall] = field(default_factory=dict)

    def hold(self, started: ItemStarted) -> bool:
        """Take an item that begins if it is a call of ours, or may be: a few providers name a call at its end."""
        item = started.item
        if not self.names or not is_function_call(item):
            return False
        if (item.get("name") or "") not in {*self.names, ""}:
            return False
        self._held[started.index] = started
        return True

    def is_held(self, index: int) -> bool:
        """Whether the item was taken."""
        return index in self._held

    def finish(self, index: int, item: Item) -> ItemStarted | None:
        """Take the whole form of an item that was taken; return how it began if it is the host's after all."""
        if is_function_call(item) and item["name"] in self.names:
            self._calls[index] = item
            return None
        return self._held.pop(index)

    async def answered(self) -> list[ToolAnswered]:
        """Answer all calls that are whole, in their order."""
        pairs = []
        for _, call in sorted(self._calls.items()):
            if call.get("status") == "completed":
                self.answers[call["call_id"]] = output = await self.answer(call)
                pairs.append(ToolAnswered(call, output))
        return pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RecallTool:
    """Looks up what the requests of one call of the host lack, for the model that asks for it."""

    counter: Callable[[], Awaitable[TokenCounter]]
    index: TextIndex
    is_offered: bool = True

    def of_round(self, conversation: Conversation, sent: Plan) -> tuple[OwnCalls, bool]:
        """Return what takes and answers the calls of the round that sends this plan, and whether it may call at all.

        All calls are forbidden where the model goes on calling after it was asked to stop.
        """
        if not self.is_offered:
            return OwnCalls(), True
        rounds_so_far = sum(
            any(is_function_call(entry.item) and entry.item["name"] == RECALL_NAME for entry in part)
            for part in conversation.turns[-1].rounds
        )

        async def answer(call: FunctionCall) -> str:
            return (
                LIMIT_REACHED
                if rounds_so_far >= MAX_OWN_ROUNDS
                else await self._look_up(call, conversation, sent)
            )

        return OwnCalls(frozenset({RECALL_NAME}), answer), rounds_so_far <= MAX_OWN_ROUNDS

    async def _look_up(self, call: FunctionCall, conversation: Conversation, sent: Plan) -> str:
        counter = await self.counter()
        whole = frozenset(entry.digest for entry in sent.entries)
        look_up = LookUp(conversation, whole, counter.text, self.index)
        try:
            return await asyncio.to_thread(look_up.answer, call["arguments"])
        except Exception:  # the answer goes on without what was looked up
            log.exception("a look-up has failed")
            return FAILED
