"""The calls of one round that are answered here.

Those of our own tools are kept from the host until they are answered, and handed to it as one pair. So a stream that
ends anywhere leaves no half of one, and a caller of the bare API sees neither. The tools of the host run here where
the administrator wants that, side by side, and only if it can be for all calls of a round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..conversation.conversation import Conversation
from ..conversation.tokens import TokenCounter
from ..planning.plan import Plan
from ..ports import HostTools, ToolAnswered, ToolsBegan
from ..recall.search import TextIndex
from ..recall.tool import RECALL_NAME, LookUp
from ..responses.effects import ItemStarted
from ..responses.items import FunctionCall, Item, is_function_call
from .admission import Away

MAX_OWN_ROUNDS: Final = 5
"""In one turn: rounds with calls of our tools that are answered; later calls are answered with a request to stop."""
LIMIT_REACHED: Final = (
    "No more look-ups in this turn. Answer with what you have, and say what you could not find."
)
FAILED: Final = "The look-up has failed. Answer without it, and say so."

MAX_TOOL_ROUNDS: Final = 32
"""In one turn: after as many rounds the host runs its tools, which has a limit of its own."""
MAX_CALLS: Final = 8
"""Of one answer: calls that run at once."""
MAX_WORKER_CALLS: Final = 32
"""Of all answers of a worker."""
TIMED_OUT: Final = "Error: the tool did not answer within {:g} seconds, and was stopped."
TOOL_FAILED: Final = "Error: the tool could not be run."

log = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[FunctionCall], Awaitable[str]]
"""Answers a call of a tool of ours; never raises."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolRuns:
    """Runs calls of the host's tools side by side, each within a time limit; `places` are the worker's."""

    tools: HostTools
    places: asyncio.Semaphore
    limit_seconds: float

    async def run(self, calls: Sequence[FunctionCall], note: Callable[..., Awaitable[None]]) -> None:
        """Run the calls, once each, and hand on every answer as soon as it is there."""
        own_places = asyncio.Semaphore(MAX_CALLS)

        async def run(call: FunctionCall) -> ToolAnswered:
            async with own_places, self.places:
                return await self._run(call)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(call)) for call in calls]
            for ended in asyncio.as_completed(running):
                await note(await ended)

    async def _run(self, call: FunctionCall) -> ToolAnswered:
        try:
            async with asyncio.timeout(self.limit_seconds):
                return await self.tools.run(call)
        except TimeoutError:
            text = TIMED_OUT.format(self.limit_seconds)
        except Exception:  # the answer goes on without
            log.exception("a tool could not be run")
            text = TOOL_FAILED
        return ToolAnswered(call, text, shown={"status": "failed"})


@dataclass(slots=True, eq=False, repr=False)
class OwnCalls:
    """What one round calls: without `answer` our tool is not offered, without `tools` the host runs all of its own."""

    answer: Answer | None = None
    may_call: bool = True
    """Whether the model may call any tool: not where it goes on calling after it was asked to stop."""
    tools: ToolRuns | None = None
    away: Away = nullcontext
    """Leaves the place among the running requests to others while the host's tools run."""
    answers: dict[str, ToolAnswered] = field(default_factory=dict)
    """By call id, as far as calls are answered, in the order in which they were."""
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

    async def answer_calls(self, calls: Sequence[FunctionCall], put: Callable[..., Awaitable[None]]) -> None:
        """Answer calls that are whole: those of our tool in their order, or else the host's where all can run here."""

        async def note(answered: ToolAnswered) -> None:
            self.answers[answered.call["call_id"]] = answered
            await put(answered)

        for _, call in sorted(self._calls.items()):
            if self.answer and call.get("status") == "completed":
                await note(ToolAnswered(call, await self.answer(call)))
        if not self._calls and self.tools and self.tools.tools.can_run(calls):
            await put(ToolsBegan(tuple(calls)))
            async with self.away():
                await self.tools.run(calls, note)


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
