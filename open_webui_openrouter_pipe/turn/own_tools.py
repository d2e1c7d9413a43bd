"""The calls of one round that are answered here.

Those of our own tools are kept from the host until they are answered, and handed to it as one pair. So a stream that
ends anywhere leaves no half of one, and a caller of the bare API sees neither. The tools of the host run here where
the administrator wants that, side by side, and only if it can be for all calls of a round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..conversation.conversation import Conversation
from ..conversation.tokens import TokenCounter
from ..planning.plan import Plan
from ..ports import HostTools, Output, ToolAnswered, ToolsBegan
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

    def after(self, rounds: int) -> ToolRuns | None:
        """Return what runs those of one more response, after so many rounds of the turn; None where the host does."""
        most = self.tools.most_rounds
        return self if rounds <= min(MAX_TOOL_ROUNDS, MAX_TOOL_ROUNDS if most is None else most) else None

    async def run(
        self, calls: Sequence[FunctionCall], put: Callable[[Output], Awaitable[None]]
    ) -> Mapping[str, ToolAnswered]:
        """Run the calls, once each; hand on their answers as they end, and return them by call id in that order."""
        own_places, outputs = asyncio.Semaphore(MAX_CALLS), dict[str, ToolAnswered]()

        async def run(call: FunctionCall) -> ToolAnswered:
            async with own_places, self.places:
                return await self._run(call)

        await put(ToolsBegan(tuple(calls)))
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(call)) for call in calls]
            for ended in asyncio.as_completed(running):
                answered = await ended
                outputs[answered.call["call_id"]] = answered
                await put(answered)
        return outputs

    async def _run(self, call: FunctionCall) -> ToolAnswered:
        try:
            async with asyncio.timeout(self.limit_seconds):
                return await self.tools.run(call)
        except asyncio.CancelledError:  # that of a tool's own connection stops no answer
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            text = TOOL_FAILED
        except TimeoutError:
            text = TIMED_OUT.format(self.limit_seconds)
        except Exception:  # the answer goes on without
            log.exception("a tool could not be run")
            text = TOOL_FAILED
        return ToolAnswered(call, text, shown={"status": "failed"})


@dataclass(slots=True, eq=False, repr=False)
class OwnCalls:
    """What one round calls of our tool; without `answer` it is not offered, and all calls are the host's."""

    answer: Answer | None = None
    may_call: bool = True
    """Whether the model may call any tool: not where it goes on calling after it was asked to stop."""
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

    async def answered(self) -> list[ToolAnswered]:
        """Answer all calls that are whole, in their order."""
        pairs = []
        for _, call in sorted(self._calls.items()):
            if self.answer and call.get("status") == "completed":
                self.answers[call["call_id"]] = pair = ToolAnswered(call, await self.answer(call))
                pairs.append(pair)
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
