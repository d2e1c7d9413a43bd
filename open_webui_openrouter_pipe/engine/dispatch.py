"""One request to OpenRouter and its stream: events reduced to effects, artifacts stored before their markers.

A marker stands where its artifact occurred: before the text that the artifact led to, or by itself at the end of
the round. Whatever the stream does, each item that was started is finished before an error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..context.plan import Marks
from ..errors import StreamBroken
from ..ports import ArtifactStore, Marked, Notice, Requests, Responses
from ..responses.effects import (
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
)
from ..responses.items import Item, is_function_call, is_message, is_reasoning
from ..responses.stream import Reducer
from .calls import Calls
from .outlet import Outlet
from .recorder import Keeping, Origin, Recorder

_UNSAVED = "Parts of this answer could not be stored; later turns go on without its reasoning."
_CUT_OFF = {
    "max_output_tokens": "The answer stopped at the output limit. Ask to continue, or raise max_tokens.",
    "content_filter": "The provider's content filter stopped the answer.",
}
_NO_ANSWER = "The model ended its turn without an answer. Ask again, or choose another model."
_CUT_OFF_OTHERWISE = "The answer was cut off by the provider."


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of one round."""

    responses: Responses
    requests: Requests
    store: ArtifactStore
    new_id: Callable[[], str]


class Round:
    """Sends one input and hands on what comes back. Use once."""

    def __init__(self, ports: Ports, outlet: Outlet, *, origin: Origin, keeping: Keeping) -> None:
        """Nothing happens before `run`."""
        self._ports = ports
        self._outlet = outlet
        self._recorder = Recorder(ports.store, origin=origin, keeping=keeping, new_id=ports.new_id)
        self._calls = self._new_calls(())
        self.shown = False
        self.ended_turn = False
        self.end: ResponseFinished | ResponseFailed | None = None

    async def run(
        self, items: Sequence[Item], *, marks: Marks | None = None, chat: Sequence[Item] | None = None
    ) -> None:
        """Dispatch the input; raises the error tree's errors after everything that arrived was handed on.

        `chat` is what the input was taken of: the host keeps the calls that are left out.
        """
        self._calls = self._new_calls(items if chat is None else chat)
        reducer = Reducer()
        try:
            body = self._ports.requests.build(items, marks)
            async with self._ports.responses.stream(body) as events:
                async for event in events:
                    for effect in reducer.feed(event):
                        await self._take(effect)
        except StreamBroken as error:
            await self._end(reducer, error)
        else:
            await self._end(reducer, None)

    def _new_calls(self, items: Iterable[Item]) -> Calls:
        names = self._ports.requests.host_tool_name
        return Calls(_call_ids(items), names=names, new_id=self._ports.new_id)

    async def _end(self, reducer: Reducer, error: StreamBroken | None) -> None:
        """Let the reducer finish what is open; a stream that broke raises its own error rather than a general one."""
        for effect in reducer.close():
            if error is not None and isinstance(effect, ResponseFailed):
                await self._outlet.put(effect)
                raise error
            await self._take(effect)

    async def _take(self, effect: Effect) -> None:
        if isinstance(effect, ResponseFinished | ResponseFailed):
            self.end = effect
        match effect:
            case ItemStarted():
                await self._start(effect)
            case ItemFinished():
                settled = replace(effect, item=self._calls.settle(effect.index, effect.item))
                self._recorder.keep(settled.index, settled.item)
                await self._outlet.put(settled)
            case ItemAmended():
                settled_amendment = replace(effect, item=self._calls.settle(effect.index, effect.item))
                self._recorder.amend(settled_amendment.index, settled_amendment.item)
                await self._outlet.put(settled_amendment)
            case ResponseFinished():
                await self._finish(effect)
            case ResponseFailed():  # what led to nothing is not kept: no provider would take it back
                await self._outlet.put(effect)
                raise self._ports.responses.explain(effect.failure)
            case _:
                await self._outlet.put(effect)

    async def _start(self, effect: ItemStarted) -> None:
        self.shown = True
        if is_message(effect.item):
            self._recorder.keep_phase(effect.index, effect.item)
            await self._mark(effect.index)
        await self._outlet.put(replace(effect, item=self._calls.settle(effect.index, effect.item)))

    async def _mark(self, before: int | None) -> None:
        """Store what was kept so far, then show its markers."""
        ids = await self._recorder.save()
        if ids:
            await self._outlet.put(Marked(ids, before=before))

    async def _finish(self, effect: ResponseFinished) -> None:
        await self._recorder.save_amendments()
        await self._mark(None)
        if self._recorder.lost:
            await self._outlet.put(Notice(_UNSAVED))
        if effect.status == "incomplete":
            await self._outlet.put(Notice(_CUT_OFF.get(effect.reason or "", _CUT_OFF_OTHERWISE)))
        elif all(map(is_reasoning, effect.items)):
            await self._outlet.put(Notice(_NO_ANSWER))
        items = tuple(self._calls.settle(index, item) for index, item in enumerate(effect.items))
        self.ended_turn = effect.status == "completed" and not any(map(is_function_call, items))
        await self._outlet.put(replace(effect, items=items))


def _call_ids(items: Iterable[Item]) -> Iterable[str]:
    return (cast("dict[str, Any]", item)["call_id"] for item in items if "call_id" in item)
