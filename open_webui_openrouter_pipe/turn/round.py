"""One request and its stream: items for the host, markers after their artifacts, the `Answer`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from ..errors import PipeError, StreamBroken
from ..ports import (
    WAITED,
    AnswerCost,
    Artifact,
    ArtifactStore,
    Downloads,
    Files,
    Fill,
    FindModel,
    Notice,
    Output,
    RequestBody,
    Requests,
    Responses,
    RoundEnded,
    StoredMarkers,
    ToolAnswered,
    ToolsBegan,
    name_of,
    other_model,
)
from ..responses.effects import (
    TEXT_KINDS,
    UNKNOWN,
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
    Served,
    TextDelta,
    Usage,
)
from ..responses.items import (
    FunctionCall,
    Item,
    is_function_call,
    is_message,
    is_picture,
    is_reasoning,
    kind_of,
    picture_address,
    without_unusable,
)
from ..responses.reducer import Reducer, reduce_response
from ..responses.values import as_generation_id, as_list, as_object, as_text
from ..words.lines import notice
from .channel import OutputChannel
from .memory import SeenOnce
from .own_tools import OwnCalls, ToolRuns
from .recorder import PictureStorage, Recorder

STORE_UNAVAILABLE: Final = "store unavailable"
"""Under this name a user is informed once that items cannot be saved, or reloaded, until they can be saved again."""

_End = TypeVar("_End", ResponseFinished, ResponseFailed)

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


def waiting_line(latest: Output | None, seconds: float) -> Notice:
    """Return the line about a silence of so many seconds, by the output before it: what is known of the reason."""
    match latest:
        case ToolsBegan() | ToolAnswered():
            return Notice(notice("waiting_tools", seconds=seconds), done=False)
        case Notice(text, done=False):
            reason = text
        case ItemStarted(item=item) if lines := kind_of(item["type"]).lines:
            reason = notice(lines[0])
        case ItemStarted(item=item) if is_reasoning(item):
            reason = notice("waiting_thinking")
        case TextDelta(kind=kind) if TEXT_KINDS[kind].item_type == "reasoning":
            reason = notice("waiting_thinking")
        case _:
            reason = notice("waiting_model")
    return Notice(notice("waiting", line=reason, seconds=seconds), done=False)


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
    find: FindModel = lambda _: None


@dataclass(slots=True, eq=False, repr=False)
class Answer:
    """What one request has brought, filled as it arrives, so that a stream that is cancelled leaves what there was.

    `items` are those of the whole answer, as the host has them, `stored` the artifacts of them that are durable, by
    their index, `outputs` the answers to calls that were given here, `to_run` calls of the host's tools that are to be
    run here. `end` is the terminal effect, `error` why the round failed, None when it did not. `is_as_planned`: the
    whole plan was sent. `shown`: something was handed on, so that the request must not be repeated. `goes_on`: all
    calls are answered here, and the next request follows at once. `was_stopped`: its reader left while it was being
    answered, as far as is known. Times are the event loop's seconds.
    """

    items: tuple[Item, ...] = ()
    stored: Mapping[int, Artifact] = field(default_factory=dict)
    outputs: Mapping[str, ToolAnswered] = field(default_factory=dict)
    to_run: Sequence[FunctionCall] = ()
    end: ResponseFinished | ResponseFailed | None = field(default=None, repr=False)
    error: PipeError | None = None
    shown: bool = False
    goes_on: bool = False
    was_stopped: bool = False
    began_seconds: float | None = None
    first_seconds: float | None = None
    characters: int = 0
    is_as_planned: bool = True

    @property
    def usage(self) -> Usage | None:
        """What the provider has billed, as far as it has said so."""
        return self.end.usage if self.end else None

    @property
    def served(self) -> Served:
        """Who answered, as far as that is known."""
        return self.end.served if self.end else UNKNOWN

    @property
    def has_calls(self) -> bool:
        """Whether the response has ended with calls, so that another request follows."""
        return isinstance(self.end, ResponseFinished) and any(map(is_function_call, self.end.items))

    @property
    def ended_turn(self) -> bool:
        """Whether the answer is complete, and no call awaits its result."""
        is_complete = isinstance(self.end, ResponseFinished) and self.end.status == "completed"
        return is_complete and self.error is None and not any(map(is_function_call, self.items))

    @property
    def was_read_once(self) -> bool:
        """Whether the bill is for this input alone: the provider's own tools read it again in each of their rounds."""
        if not (self.is_as_planned and isinstance(self.end, ResponseFinished)):
            return False
        items = self.end.items
        return all(is_message(item) or is_reasoning(item) or is_function_call(item) for item in items)

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
    recorder: Recorder
    pictures: PictureStorage
    reported: SeenOnce
    find: FindModel = lambda _: None
    own: OwnCalls = field(default_factory=OwnCalls)
    tools: ToolRuns | None = None
    """What runs those of the host, where that may be here."""
    cost: Callable[[Answer, Usage | None], AnswerCost] | None = None
    """Returns what the whole answer has cost, with the request that ends."""
    report: Callable[[], Awaitable[None]] | None = None
    """Says what the request lacks, once there is an answer that lacks it."""
    answer: Answer = field(default_factory=Answer)
    _open: dict[int, Item] = field(default_factory=dict)
    """The items that were started at the host and are not finished there."""

    async def run(self, body: RequestBody) -> None:
        """Send the request and hand on what comes back; whatever raises, what was started is finished before it.

        An error of the error tree is kept, any other is raised.
        """
        reducer, answer, clock = Reducer(), self.answer, asyncio.get_running_loop().time
        answer.began_seconds = clock()
        self.channel.ask()
        answer.stored, answer.outputs = self.recorder.saved, self.own.answers
        try:
            async with self.responses.stream(body) as events:
                async for event in events:
                    for effect in reducer.feed(event):
                        answer.note(effect, clock())
                        await self._handle(effect)
            for effect in reducer.close():
                await self._handle(effect)
        except asyncio.CancelledError as stopped:
            answer.was_stopped = WAITED not in stopped.args
            raise
        except Exception as error:
            if isinstance(error, StreamBroken) and isinstance(answer.end, ResponseFinished):
                return  # the answer was complete before
            await self._finish_open(reducer.close())
            if not isinstance(error, PipeError):
                raise
            answer.error = error

    async def take(self, response: Mapping[str, Any]) -> None:
        """Hand on a response that is there already, and whole."""
        for effect in reduce_response({**response}):
            await self._handle(effect)

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
        item = self.recorder.for_host(index, item)
        return without_unusable(item) if is_picture(item) else item

    async def _handle(self, effect: Effect) -> None:
        match effect:
            case ItemStarted():
                if not self.own.hold(effect):
                    await self._start(effect)
            case TextDelta(index) if index in self.own.held:
                pass
            case ItemFinished() | ItemAmended():
                await self._finish_item(effect)
            case ResponseFinished():
                self.answer.end = effect = self._named(effect)
                self.recorder.note_writer(effect.served.other_model, effect.served.provider)
                await self._finish(effect)
            case ResponseFailed():  # what led to nothing is not kept: no provider would take it back
                self.answer.end = effect = self._named(effect)
                await self._tell_cost()
                await self.channel.put(effect)
                error = self.responses.explain(effect.failure)
                error.generation_id = as_generation_id(effect.response_id)
                raise error
            case _:
                await self.channel.put(effect)

    def _named(self, end: _End) -> _End:
        """The end of the response with the model that answered in place of the one that was asked for."""
        other = other_model(self.recorder.origin.model, end.served.model, self.find)
        return replace(end, served=replace(end.served, other_model=other)) if other else end

    async def _tell_cost(self) -> None:
        """Before the end of a response: with that, the host takes its usage."""
        if self.cost:
            await self.channel.put(self.cost(self.answer, self.answer.usage))

    async def _start(self, effect: ItemStarted) -> None:
        if self.report and not self.answer.shown:
            await self.report()
        self.answer.shown = True
        if is_message(effect.item):
            self.recorder.phase = as_text(effect.item.get("phase"))
            await self._save_and_mark(before=effect.index)
        self._open[effect.index] = item = self._unfinished(effect.index, effect.item)
        await self.channel.put(ItemStarted(effect.index, item))

    async def _finish_item(self, effect: ItemFinished | ItemAmended) -> None:
        """Keep an item and hand it on, its picture stored before; a call of ours awaits its answer.

        A call that was taken for ours, and proves to be the host's, begins only now.
        """
        index, given = effect.index, effect.item
        item = self.recorder.for_host(index, given)
        if index in self.own.held and (started := self.own.finish(index, item)):
            await self._start(started)
        is_ours = index in self.own.held
        if not is_ours:
            item, line = await self.pictures.keep(item)
            if line:
                await self.channel.put(Notice(line))
        self.recorder.keep(index, item, given)
        if not is_ours:
            await self.channel.put(replace(effect, item=item))
            self._open.pop(index, None)

    async def _save_and_mark(self, before: int | None) -> None:
        """Store what was kept so far, then show its markers."""
        if ids := await self.recorder.save():
            self.reported.forget(self.recorder.origin.user_id, STORE_UNAVAILABLE)
            calls = frozenset(self.recorder.ulids.values())
            await self.channel.put(StoredMarkers(ids, before=before, of_calls=calls))

    async def _finish(self, effect: ResponseFinished) -> None:
        await self._save_and_mark(before=None)
        for index in sorted(self.recorder.ulids.keys() - self.recorder.saved.keys() - self.own.held.keys()):
            if is_function_call(call := effect.items[index]):
                await self.channel.put(ItemAmended(index, self.recorder.without_name(index, call)))
        answer, user_id, lost = self.answer, self.recorder.origin.user_id, self.recorder.lost
        if lost and (not self.recorder.unavailable or self.reported.add(user_id, [STORE_UNAVAILABLE])):
            await self.channel.put(Notice(notice("answer_not_saved")))
        if effect.status == "incomplete":
            name = _INCOMPLETE_NOTICES.get(effect.reason, "answer_cut_off")
            await self.channel.put(Notice(notice(name)))
        elif not any(map(_is_answer, effect.items)):
            await self.channel.put(Notice(notice("answer_empty")))
        items = tuple(self.recorder.for_host(index, item) for index, item in enumerate(effect.items))
        calls = [item for item in items if is_function_call(item)]
        if effect.status == "completed":
            for answered in await self.own.answered() if self.own.held else ():
                answer.shown = True
                await self.channel.put(answered)
            if calls and self.tools and self.tools.tools.can_run(calls):
                answer.to_run = calls
            has_answers = answer.to_run or all(call["call_id"] in self.own.answers for call in calls)
            answer.goes_on = bool(calls and has_answers)
        answer.items = items
        origin = self.recorder.origin
        other = unexpected_model(origin.model, effect.served.other_model)
        if other and self.reported.add(user_id, [f"{origin.chat_id}\nanswered by {other}"]):
            line = notice("answered_by_other", model=name_of(other, self.find))
            await self.channel.put(Notice(line))
        await self._tell_cost()
        await self.channel.put(RoundEnded(effect.usage) if answer.goes_on else replace(effect, items=items))


def unexpected_model(asked: str, other: str) -> str:
    """Return the model that has answered in place of one that was asked for by its name; "" behind routers and presets.

    A variant is its model.
    """
    name = asked.partition(":")[0]
    is_router = name.startswith(("openrouter/", "~", "@")) or "@preset/" in name
    return "" if is_router or other.partition(":")[0] == name else other


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
