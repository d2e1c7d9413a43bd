"""Makes a round's calls fit for the host: ids that nothing else uses, names that the host gave its tools.

Some providers number their calls anew in each response. The host takes a repeated id for a call that it has
already run, and pairs would mix on replay; so an id that is taken is replaced before anyone sees it. Names that
had to be changed for the wire are changed back.

Brings back the artifacts that a history's markers name, in one load, and words what could not be had.

One request to OpenRouter and its stream: events reduced to effects, artifacts stored before their markers.

A marker stands where its artifact occurred: before the text that the artifact led to, or by itself at the end of
the round. Whatever the stream does, each item that was started is finished before an error is raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..errors import StreamBroken
from ..history.artifacts import MissingReason
from ..planning.plan import CacheMarks
from ..ports import ArtifactStore, Notice, Requests, Responses, StoredMarkers
from ..responses.effects import (
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
)
from ..responses.items import Item, is_function_call, is_message, is_reasoning
from ..responses.reducer import Reducer
from .channel import OutputChannel
from .recorder import Persistence, Recorder, RequestOrigin


class RoundCalls:
    """The calls of one round, by the index of their item."""

    def __init__(
        self, taken: Iterable[str], *, names: Callable[[str], str], new_id: Callable[[], str]
    ) -> None:
        """`taken` are the call ids of the request's input, `names` gives the host's name for the wire's."""
        self._taken = set(taken)
        self._names = names
        self._new_id = new_id
        self._by_index: dict[int, str] = {}
        self._replaced: dict[str, str] = {}

    def settle(self, index: int, item: Item) -> Item:
        """Give the item as it is, or with the id and name that the host needs; always the same for an index."""
        fields = cast("Mapping[str, Any]", item)
        changes: dict[str, Any] = {}
        if isinstance(call_id := fields.get("call_id"), str):
            changes["call_id"] = self._settled_id(index, call_id, is_output=item["type"].endswith("_output"))
        if item["type"] == "function_call":
            changes["name"] = self._names(fields.get("name") or "")
        if all(fields.get(key) == value for key, value in changes.items()):
            return item
        return cast("Item", {**fields, **changes})

    def _settled_id(self, index: int, call_id: str, *, is_output: bool) -> str:
        """An output that the provider made itself keeps the id of its call, whatever became of it."""
        if index not in self._by_index:
            self._by_index[index] = self._replaced.get(call_id, call_id) if is_output else self._new(call_id)
        return self._by_index[index]

    def _new(self, call_id: str) -> str:
        settled = call_id
        if call_id in self._taken:
            settled = self._replaced[call_id] = f"call_{self._new_id()}"
        self._taken.add(settled)
        return settled


_REASONS: Mapping[MissingReason, str] = {
    "missing": "no longer stored",
    "unreadable": "sealed with another key, or damaged",
    "too_large": "over the size limit",
    "unavailable": "the store is away",
}


def describe_missing(reasons: Sequence[MissingReason]) -> str:
    """One status line for the user about stored items that could not be reloaded."""
    counted = Counter(reasons).most_common()
    details = ", ".join(f"{count} {_REASONS[reason]}" for reason, count in counted)
    total = len(reasons)
    return f"{total} stored item{'s' if total > 1 else ''} could not be reloaded ({details})."


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

    def __init__(
        self, ports: Ports, outlet: OutputChannel, *, origin: RequestOrigin, keeping: Persistence
    ) -> None:
        """Nothing happens before `run`."""
        self._ports = ports
        self._outlet = outlet
        self._recorder = Recorder(ports.store, origin=origin, keeping=keeping, new_id=ports.new_id)
        self._calls = self._new_calls((), {})
        self.shown = False
        self.ended_turn = False
        self.end: ResponseFinished | ResponseFailed | None = None

    async def run(
        self, items: Sequence[Item], *, marks: CacheMarks | None = None, chat: Sequence[Item] | None = None
    ) -> None:
        """Dispatch the input; raises the error tree's errors after everything that arrived was handed on.

        `chat` is what the input was taken of: the host keeps the calls that are left out.
        """
        reducer = Reducer()
        try:
            built = self._ports.requests.build(items, marks)
            self._calls = self._new_calls(items if chat is None else chat, built.host_tool_names)
            async with self._ports.responses.stream(built.body) as events:
                async for event in events:
                    for effect in reducer.feed(event):
                        await self._take(effect)
        except StreamBroken as error:
            await self._end(reducer, error)
        else:
            await self._end(reducer, None)

    def _new_calls(self, items: Iterable[Item], host_tool_names: Mapping[str, str]) -> RoundCalls:
        def name(wire: str) -> str:
            return host_tool_names.get(wire, wire)

        return RoundCalls(_call_ids(items), names=name, new_id=self._ports.new_id)

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
            await self._outlet.put(StoredMarkers(ids, before=before))

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
