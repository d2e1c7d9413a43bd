"""One request to OpenRouter and its stream: calls fit for the host, markers after their artifacts, the `Answer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from ..errors import PipeError, StreamBroken
from ..history.markers import name_call
from ..ports import (
    Artifact,
    ArtifactStore,
    Downloads,
    Files,
    Fill,
    Notice,
    Output,
    RequestBody,
    Requests,
    Responses,
    RoundEnded,
    StoredMarkers,
)
from ..responses.effects import (
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
    Usage,
)
from ..responses.items import (
    Item,
    is_function_call,
    is_message,
    is_picture,
    is_reasoning,
    kind_of,
    picture_address,
    without_unusable,
)
from ..responses.reducer import Reducer
from ..responses.values import as_list, as_object, as_text
from ..words.lines import notice
from .channel import OutputChannel
from .memory import SeenOnce
from .own_tools import OwnCalls
from .recorder import PictureStorage, Recorder

STORE_UNAVAILABLE: Final = "store unavailable"
"""Under this name a user is informed once that items can be neither reloaded nor saved, until they can again."""

_INCOMPLETE_NOTICES: Final[Mapping[str | None, str]] = {
    "max_output_tokens": "answer_at_output_limit",
    "content_filter": "answer_filtered",
}


def search_lines(output: Output) -> Iterator[Notice]:
    """Yield the line about an output that begins or ends a search or the reading of a page.

    A model writes nothing meanwhile.
    """
    if not isinstance(output, ItemStarted | ItemFinished):
        return
    item = cast("Mapping[str, Any]", output.item)
    lines = kind_of(item["type"]).lines
    if lines and isinstance(output, ItemStarted):
        yield Notice(notice(lines[0]), done=False)
    elif lines:
        yield Notice(_result(item, lines[1]))


def _result(item: Mapping[str, Any], unknown: str) -> str:
    """What was searched for or read, or that it failed."""
    if item.get("error") or item.get("status") not in (None, "completed"):
        return notice("search_failed")
    action = as_object(item.get("action"))
    query, url = as_text(action.get("query")), as_text(action.get("url")) or as_text(item.get("url"))
    if query:
        return notice("searched_for", query=query)
    return notice("page_read", url=url) if url else notice(unknown)


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of one round; without `files`, pictures are stored nowhere but in the chat.

    `downloads` fetches those that a provider names by an address.
    """

    responses: Responses
    requests: Requests
    store: ArtifactStore
    new_id: Callable[[], str]
    files: Files | None = None
    fill: Fill | None = None
    """None where nothing but text is sent."""
    downloads: Downloads | None = None


@dataclass(slots=True, eq=False, repr=False)
class RoundCalls:
    """The calls of one round, by the index of their item.

    Some providers number their calls anew in each response. The host takes a repeated id for a call that it has
    already run, and pairs would mix on replay; so an id that is `taken` by the request's input is replaced before
    anyone sees it. Where `own_ids` is set, each function call gets an id that names its artifact, and the provider's
    is kept with that. `host_names` are renamed tools by their wire name.
    """

    taken: set[str]
    host_names: Mapping[str, str]
    new_id: Callable[[], str]
    own_ids: bool = False
    phase: str = ""
    """Of the round's text so far."""
    ulids: dict[int, str] = field(default_factory=dict)
    """The artifacts that the ids of calls name, by the index of the call."""
    _by_index: dict[int, str] = field(default_factory=dict)
    _replaced: dict[str, str] = field(default_factory=dict)

    def for_host(self, index: int, item: Item) -> Item:
        """Return the item with the id and name that the host needs; always the same for an index."""
        fields = cast("Mapping[str, Any]", item)
        changes: dict[str, Any] = {}
        if self.own_ids and item["type"] == "function_call":
            if index not in self.ulids:
                self.ulids[index] = self.new_id()
                self._by_index[index] = name_call(self.ulids[index], self.phase)
            changes["call_id"] = self._by_index[index]
        elif isinstance(call_id := fields.get("call_id"), str):
            changes["call_id"] = self._host_id(index, call_id, is_output=item["type"].endswith("_output"))
        if item["type"] == "function_call":
            name = as_text(fields.get("name"))
            changes["name"] = self.host_names.get(name, name)
        if all(fields.get(key) == value for key, value in changes.items()):
            return item
        return cast("Item", {**fields, **changes})

    def for_store(self, index: int, item: Item, given: Item) -> Item:
        """Return the host's form of an item as it is stored: a call with the id that the provider has `given` it."""
        call_id = cast("Mapping[str, Any]", given).get("call_id")
        return cast("Item", {**item, "call_id": call_id}) if index in self.ulids else item

    def _host_id(self, index: int, call_id: str, *, is_output: bool) -> str:
        if index not in self._by_index:
            if not is_output and call_id in self.taken:
                self._replaced[call_id] = f"call_{self.new_id()}"
            # a hosted tool's output keeps the id of its call, whatever that is now
            self._by_index[index] = self._replaced.get(call_id, call_id)
            if not is_output:
                self.taken.add(self._by_index[index])
        return self._by_index[index]


@dataclass(slots=True, eq=False, repr=False)
class Answer:
    """What one request has brought, filled as it arrives, so that a stream that is cancelled leaves what there was.

    `items` are those of the whole answer, as the host has them, `stored` the artifacts of them that are durable, by
    their index, `outputs` the answers to calls of our own tools, by call id. `end` is the terminal effect, `error` why
    the round failed, None when it did not. `shown`: something was handed on, so that the request must not be repeated.
    `goes_on`: it called our tools alone, and the next request follows at once. Times are seconds of the event loop's
    clock: when it was sent, and when it first brought something; so many `characters` of text came.
    """

    items: tuple[Item, ...] = ()
    stored: Mapping[int, Artifact] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    end: ResponseFinished | ResponseFailed | None = None
    error: PipeError | None = None
    shown: bool = False
    goes_on: bool = False
    began_seconds: float | None = None
    first_seconds: float | None = None
    characters: int = 0

    @property
    def usage(self) -> Usage | None:
        """What the provider has billed, as far as it has said so."""
        return self.end.usage if self.end else None

    @property
    def ended_turn(self) -> bool:
        """Whether the answer is complete, and no call awaits its result."""
        is_complete = isinstance(self.end, ResponseFinished) and self.end.status == "completed"
        return is_complete and self.error is None and not any(map(is_function_call, self.items))

    @property
    def was_read_once(self) -> bool:
        """Whether the bill is for this input alone: the provider's own tools read it again in each of their rounds."""
        return isinstance(self.end, ResponseFinished) and all(
            is_message(item) or is_reasoning(item) or is_function_call(item) for item in self.end.items
        )

    def note(self, effect: Effect, now_seconds: float) -> None:
        """Note when something came, and how much text."""
        if self.first_seconds is None and not isinstance(effect, ResponseFailed):
            self.first_seconds = now_seconds
        if isinstance(effect, TextDelta):
            self.characters += len(effect.delta)


@dataclass(slots=True, eq=False, repr=False)
class Round:
    """Sends one request and hands on what comes back. Use once."""

    responses: Responses
    channel: OutputChannel
    calls: RoundCalls
    recorder: Recorder
    pictures: PictureStorage
    reported: SeenOnce
    own: OwnCalls = field(default_factory=OwnCalls)
    answer: Answer = field(default_factory=Answer)
    _open: dict[int, Item] = field(default_factory=dict)
    """The items that were started at the host and are not finished there."""

    async def run(self, body: RequestBody) -> None:
        """Send the request and hand on what comes back; whatever raises, what was started is finished before it.

        An error of the error tree is kept, any other is raised.
        """
        reducer, answer, clock = Reducer(), self.answer, asyncio.get_running_loop().time
        answer.began_seconds = clock()
        answer.stored, answer.outputs = self.recorder.saved, self.own.answers
        try:
            async with self.responses.stream(body) as events:
                async for event in events:
                    for effect in reducer.feed(event):
                        answer.note(effect, clock())
                        await self._handle(effect)
            for effect in reducer.close():
                await self._handle(effect)
        except Exception as error:
            if isinstance(error, StreamBroken) and isinstance(answer.end, ResponseFinished):
                return  # the answer was complete before
            await self._finish_open(reducer.close())
            if not isinstance(error, PipeError):
                raise
            answer.error = error

    async def _finish_open(self, last: Sequence[Effect]) -> None:
        """Hand on the last effects of a round that failed, and finish what even they leave open."""
        if not self.answer.shown:
            return
        for effect in last[:-1]:
            if not isinstance(effect, ItemFinished):
                await self.channel.put(effect)
            elif effect.index in self._open:
                del self._open[effect.index]
                await self.channel.put(replace(effect, item=self._unfinished(effect.index, effect.item)))
        for index, item in self._open.items():
            await self.channel.put(ItemFinished(index, cast("Item", {**item, "status": "incomplete"})))
        for terminal in last[-1:]:
            await self.channel.put(terminal)

    def _unfinished(self, index: int, item: Item) -> Item:
        """Return an item for the host that is not whole: what there is of a picture is shown, and not stored."""
        item = self.calls.for_host(index, item)
        return without_unusable(item) if is_picture(item) else item

    async def _handle(self, effect: Effect) -> None:
        match effect:
            case ItemStarted() if self.own.hold(effect):
                pass
            case TextDelta(index) if self.own.is_held(index):
                pass
            case ItemFinished(index) | ItemAmended(index) if self.own.is_held(index):
                await self._finish_held(effect)
            case ItemStarted():
                await self._start(effect)
            case ItemFinished(index, given):
                item = await self._stored(self.calls.for_host(index, given))
                self._keep(index, item, given)
                await self.channel.put(ItemFinished(index, item))
                del self._open[index]
            case ItemAmended(index, given):
                item = await self._stored(self.calls.for_host(index, given))
                self.recorder.amend(index, self.calls.for_store(index, item, given))
                await self.channel.put(ItemAmended(index, item))
            case ResponseFinished():
                self.answer.end = effect
                await self._finish(effect)
            case ResponseFailed():  # what led to nothing is not kept: no provider would take it back
                self.answer.end = effect
                await self.channel.put(effect)
                error = self.responses.explain(effect.failure)
                error.generation_id = effect.response_id or ""
                raise error
            case _:
                await self.channel.put(effect)

    async def _start(self, effect: ItemStarted) -> None:
        self.answer.shown = True
        if is_message(effect.item):
            self.calls.phase = as_text(effect.item.get("phase"))
            await self._save_and_mark(before=effect.index)
        self._open[effect.index] = item = self._unfinished(effect.index, effect.item)
        await self.channel.put(ItemStarted(effect.index, item))

    async def _finish_held(self, effect: ItemFinished | ItemAmended) -> None:
        """Keep a call of ours for its answer; one that proves to be the host's begins only now."""
        call = self.calls.for_host(effect.index, effect.item)
        started = self.own.finish(effect.index, call)
        if started is not None:
            await self._start(started)
            await self._handle(effect)
        elif isinstance(effect, ItemFinished):
            self._keep(effect.index, call, effect.item)
        else:
            self.recorder.amend(effect.index, self.calls.for_store(effect.index, call, effect.item))

    def _keep(self, index: int, item: Item, given: Item) -> None:
        self.recorder.keep(index, self.calls.for_store(index, item, given), self.calls.ulids.get(index))

    async def _stored(self, item: Item) -> Item:
        """Store the picture that the item may be, before it is shown; say if that fails."""
        item, line = await self.pictures.keep(item)
        if line:
            await self.channel.put(Notice(line))
        return item

    async def _save_and_mark(self, before: int | None) -> None:
        """Store what was kept so far, then show its markers."""
        if ids := await self.recorder.save():
            self.reported.forget(self.recorder.origin.user_id, STORE_UNAVAILABLE)
            calls = frozenset(self.calls.ulids.values())
            await self.channel.put(StoredMarkers(ids, before=before, of_calls=calls))

    async def _finish(self, effect: ResponseFinished) -> None:
        await self.recorder.save_amendments()
        await self._save_and_mark(before=None)
        answer, user_id, lost = self.answer, self.recorder.origin.user_id, self.recorder.lost
        if lost and (not self.recorder.unavailable or self.reported.add(user_id, [STORE_UNAVAILABLE])):
            await self.channel.put(Notice(notice("answer_not_saved")))
        if effect.status == "incomplete":
            name = _INCOMPLETE_NOTICES.get(effect.reason, "answer_cut_off")
            await self.channel.put(Notice(notice(name)))
        elif not any(map(_is_answer, effect.items)):
            await self.channel.put(Notice(notice("answer_empty")))
        items = tuple(self.calls.for_host(index, item) for index, item in enumerate(effect.items))
        calls = [item for item in items if is_function_call(item)]
        if effect.status == "completed":
            for answered in await self.own.answered():
                answer.shown = True
                await self.channel.put(answered)
            answer.goes_on = bool(calls) and all(call["call_id"] in self.own.answers for call in calls)
        answer.items = items
        await self.channel.put(RoundEnded(effect.usage) if answer.goes_on else replace(effect, items=items))


def _is_answer(item: Item) -> bool:
    """Whether the user gets something of the item: text, a refusal, a picture, or a call that the host can run."""
    fields = cast("Mapping[str, Any]", item)
    match item["type"]:
        case "message":
            parts = map(as_object, as_list(fields.get("content")))
            return any((as_text(part.get("text")) or as_text(part.get("refusal"))).strip() for part in parts)
        case "function_call":
            return fields.get("status") != "incomplete"
        case _:
            return fields.get("status") != "failed" and bool(picture_address(item))
