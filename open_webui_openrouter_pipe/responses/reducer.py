"""Annotations of output text, brought into the flat form that the Responses schema documents.

Some providers nest the citation under its own type name and omit the title; on replay the schema requires
title and both indexes. Owns the form of one annotation and what makes two of them the same.

The reducer: events of one response in, effects out.

Pure and total: any sequence of events, whole or cut off, gives items that are each started and finished once,
and exactly one terminal effect. Owns what each event type means (the table at the end); which item an event
speaks of is `identity`, what an item becomes is `assembly`. Unknown event types mean nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias, TypeGuard, cast

from .drafts import (
    Channel,
    Ending,
    ItemDraft,
    ItemDrafts,
    ItemReference,
    WireObject,
    as_index,
    as_text,
)
from .effects import Effect, ResponseFailed, ResponseFinished, terminal_event
from .failure import Failure, read_failure
from .items import Item
from .usage import read_usage

Event: TypeAlias = Mapping[str, Any]

_PARTS_LIMIT = 1000
"""A part index beyond this is nonsense; it would make us pad the message up to it."""

_ID_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc"}


@dataclass(frozen=True, slots=True)
class _Text:
    """Where a text lives: its item's type, its channel, and the events' keys of its index and whole form."""

    kind: str
    channel: Channel
    key: str
    whole: str


_OUTPUT_TEXT = _Text("message", "text", "content_index", "text")
_REFUSAL = _Text("message", "refusal", "content_index", "refusal")
_SUMMARY = _Text("reasoning", "summary", "summary_index", "text")
_REASONING = _Text("reasoning", "reasoning", "content_index", "text")
_ARGUMENTS = _Text("function_call", "arguments", "", "arguments")

_PARTS = {
    "output_text": _OUTPUT_TEXT,
    "refusal": _REFUSAL,
    "summary_text": _SUMMARY,
    "reasoning_text": _REASONING,
}


class Reducer:
    """Reduces the events of one response: `feed` each event, then `close` once when the stream has ended.

    `finished` becomes true with the terminal effect; events after it are ignored.
    """

    __slots__ = ("_drafts", "_model", "_response_id", "finished")

    def __init__(self) -> None:
        """Begin before the first event."""
        self.finished = False
        self._drafts = ItemDrafts()
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, event: Event) -> list[Effect]:
        """Take the next event and give what it means, in order."""
        handle = self._handlers.get(event.get("type"))
        return [] if handle is None or self.finished else handle(self, event)

    def close(self, reason: str = "") -> list[Effect]:
        """The stream has ended: without a terminal event a failure, of which `reason` may say more."""
        if self.finished:
            return []
        return self._fail(
            Failure(reason or "the stream ended before the answer was complete", origin="stream"), {}
        )

    # --- the response as a whole

    def _begin(self, event: Event) -> list[Effect]:
        self._identify(_object(event.get("response")))
        return []

    def _identify(self, response: WireObject) -> None:
        self._response_id = as_text(response.get("id")) or self._response_id
        self._model = as_text(response.get("model")) or self._model

    def _end(self, event: Event, *, ending: Ending) -> list[Effect]:
        response = _object(event.get("response"))
        status = as_text(response.get("status"))
        if response.get("error") or status in {"failed", "cancelled"}:
            return self._end_failed(event)
        if status == "incomplete":
            ending = "incomplete"
        self._identify(response)
        effects = [*self._settle(response), *self._finish_open(ending)]
        details = _object(response.get("incomplete_details"))
        self.finished = True
        terminal = ResponseFinished(
            status=ending,
            reason=as_text(details.get("reason")) if ending == "incomplete" else None,
            response_id=self._response_id,
            model=self._model,
            items=self._items(),
            usage=read_usage(response.get("usage")),
        )
        return [*effects, terminal]

    def _end_failed(self, event: Event) -> list[Effect]:
        response = _object(event.get("response"))
        return self._fail(read_failure(None, response or event), response)

    def _fail(self, failure: Failure, response: WireObject) -> list[Effect]:
        self._identify(response)
        effects = [*self._settle(response), *self._finish_open("incomplete")]
        self.finished = True
        usage = read_usage(response.get("usage"))
        return [*effects, ResponseFailed(failure, self._response_id, self._items(), usage)]

    def _settle(self, response: WireObject) -> list[Effect]:
        """The terminal event's output is the authority over what was streamed."""
        output = [item for item in _list(response.get("output")) if _is_item(item)]
        matched = self._drafts.match(output)
        effects: list[Effect] = []
        for position, item in enumerate(output):
            draft = matched.get(position)
            if draft is None:
                draft = self._drafts.open(_reference(item, item.get("id"), position), item)
                effects.append(draft.started())
            effects += draft.amend(item) if draft.finished else draft.absorb(item)
        return effects

    def _finish_open(self, ending: Ending) -> list[Effect]:
        return [effect for draft in self._drafts.all if not draft.finished for effect in draft.finish(ending)]

    def _items(self) -> tuple[Item, ...]:
        return tuple(cast("Item", draft.finished) for draft in self._drafts.all if draft.finished)

    # --- one item

    def _item_added(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        reference = _reference(item, item.get("id"), event.get("output_index"), opens=True)
        draft = self._drafts.find(reference)
        if draft is None:
            return [self._drafts.open(reference, item).started()]
        draft.learn(item)
        return []

    def _item_done(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        reference = _reference(item, item.get("id") or event.get("item_id"), event.get("output_index"))
        draft = self._drafts.find(reference)
        effects: list[Effect] = []
        if draft is None:
            draft = self._drafts.open(reference, item)
            effects.append(draft.started())
        if not draft.finished:
            effects += draft.absorb(item)
            effects += [] if draft.awaits_arguments else draft.finish("completed")
        return effects

    # --- the texts of an item

    def _text_delta(self, event: Event, place: _Text) -> list[Effect]:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return []
        draft, opened = self._draft_of(event, place.kind)
        return (
            opened
            if draft.finished
            else [*opened, *draft.add(delta, channel=place.channel, part=_part(event, place.key))]
        )

    def _text_done(self, event: Event, place: _Text) -> list[Effect]:
        text = event.get(place.whole)
        return self._complete(event, text, place)

    def _part_done(self, event: Event) -> list[Effect]:
        part = _object(event.get("part"))
        place = _PARTS.get(as_text(part.get("type")) or "")
        return self._complete(event, part.get(place.whole), place) if place else []

    def _complete(self, event: Event, text: Any, place: _Text) -> list[Effect]:
        if not isinstance(text, str) or not text:
            return []
        draft, opened = self._draft_of(event, place.kind)
        if draft.finished:
            return opened
        if name := as_text(event.get("name")):
            draft.learn({"name": name})
        return [*opened, *draft.complete(text, channel=place.channel, part=_part(event, place.key))]

    def _annotation_added(self, event: Event) -> list[Effect]:
        draft, opened = self._draft_of(event, "message")
        if draft.finished:
            return opened
        return [*opened, *draft.cite(event.get("annotation"), part=_part(event, "content_index"))]

    def _draft_of(self, event: Event, kind: str) -> tuple[ItemDraft, list[Effect]]:
        """The item that the event adds to; one that was not announced is opened."""
        item_id, place = as_text(event.get("item_id")), as_index(event.get("output_index"))
        draft = self._drafts.exact(kind, item_id, place)
        if draft is not None:
            return draft, []
        reference = ItemReference(kind, item_id, place)
        draft = self._drafts.find(reference)
        if draft is not None:
            return draft, []
        made_up_id = f"{_ID_PREFIX[kind]}_tmp_{len(self._drafts.all)}"
        draft = self._drafts.open(reference, {"type": kind, "id": item_id or made_up_id})
        draft.is_guess = True
        return draft, [draft.started()]

    _handlers: ClassVar[dict[Any, Callable[[Reducer, Event], list[Effect]]]] = {
        "response.created": _begin,
        "response.in_progress": _begin,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.done": _part_done,
        "response.reasoning_summary_part.done": _part_done,
        "response.output_text.annotation.added": _annotation_added,
        "response.completed": partial(_end, ending="completed"),
        "response.done": partial(_end, ending="completed"),
        "response.incomplete": partial(_end, ending="incomplete"),
        "response.failed": _end_failed,
        "response.error": _end_failed,
        "error": _end_failed,
        "response.output_text.delta": partial(_text_delta, place=_OUTPUT_TEXT),
        "response.output_text.done": partial(_text_done, place=_OUTPUT_TEXT),
        "response.refusal.delta": partial(_text_delta, place=_REFUSAL),
        "response.refusal.done": partial(_text_done, place=_REFUSAL),
        "response.reasoning_summary_text.delta": partial(_text_delta, place=_SUMMARY),
        "response.reasoning_summary_text.done": partial(_text_done, place=_SUMMARY),
        "response.reasoning_text.delta": partial(_text_delta, place=_REASONING),
        "response.reasoning_text.done": partial(_text_done, place=_REASONING),
        "response.function_call_arguments.delta": partial(_text_delta, place=_ARGUMENTS),
        "response.function_call_arguments.done": partial(_text_done, place=_ARGUMENTS),
    }


def reduce_response(response: WireObject) -> list[Effect]:
    """Reduce a response that was not streamed, or an error body; the last effect is the terminal one."""
    reducer = Reducer()
    effects = reducer.feed(terminal_event(response))
    return [*effects, *reducer.close()]


def _reference(item: WireObject, item_id: Any, place: Any, *, opens: bool = False) -> ItemReference:
    return ItemReference(item["type"], as_text(item_id), as_index(place), as_text(item.get("call_id")), opens)


def _part(event: Event, key: str) -> int:
    part = as_index(event.get(key))
    return part if part is not None and part < _PARTS_LIMIT else 0


def _is_item(value: Any) -> TypeGuard[WireObject]:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and bool(value["type"])


def _object(value: Any) -> WireObject:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
