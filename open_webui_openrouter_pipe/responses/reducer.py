"""The reducer: events of one response in, effects out.

Pure and total: any sequence of events, whole or cut off, results in items that are each started and finished once, and
exactly one terminal effect. The table at the end lists what each event type means; others are ignored. Which item an
event means, and what an item becomes, is decided in `drafts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard, cast

from .drafts import Ending, ItemDraft, ItemDrafts, ItemReference, TextKind, WireObject
from .effects import Effect, ResponseFailed, ResponseFinished, terminal_event
from .failure import Failure, read_failure
from .items import Item
from .usage import read_usage
from .wire import as_count, as_list, as_object, as_text

Event: TypeAlias = Mapping[str, Any]

_PARTS_LIMIT: Final = 1000
"""A part index beyond this is nonsense; it would make us pad the message up to it."""

_ID_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc"}


@dataclass(frozen=True, slots=True)
class _TextEvents:
    """The events of a kind of text: their item's type, and their keys of the part's index and of the whole text."""

    item_type: str
    kind: TextKind
    part_key: str
    whole_key: str


_OUTPUT_TEXT: Final = _TextEvents("message", "text", "content_index", "text")
_REFUSAL: Final = _TextEvents("message", "refusal", "content_index", "refusal")
_SUMMARY: Final = _TextEvents("reasoning", "summary", "summary_index", "text")
_REASONING: Final = _TextEvents("reasoning", "reasoning", "content_index", "text")
_ARGUMENTS: Final = _TextEvents("function_call", "arguments", "", "arguments")

_PARTS: Final = {
    "output_text": _OUTPUT_TEXT,
    "refusal": _REFUSAL,
    "summary_text": _SUMMARY,
    "reasoning_text": _REASONING,
}


@dataclass(slots=True, eq=False, repr=False)
class Reducer:
    """Reduces the events of one response: `feed` each event, then `close` once when the stream has ended.

    `finished` becomes true with the terminal effect; events after it are ignored.
    """

    finished: bool = False
    _drafts: ItemDrafts = field(default_factory=ItemDrafts)
    _response_id: str | None = None
    _model: str | None = None

    def feed(self, event: Event) -> list[Effect]:
        """Take the next event and return what it means, in order."""
        handle = self._handlers.get(event.get("type"))
        return [] if handle is None or self.finished else handle(self, event)

    def close(self, reason: str = "") -> list[Effect]:
        """End the stream: without a terminal event it is a failure, of which `reason` may say more."""
        if self.finished:
            return []
        message = reason or "the stream ended before the answer was complete"
        return self._fail(Failure(message, origin="stream"), {})

    def _begin(self, event: Event) -> list[Effect]:
        self._identify(as_object(event.get("response")))
        return []

    def _identify(self, response: WireObject) -> None:
        self._response_id = as_text(response.get("id")) or self._response_id
        self._model = as_text(response.get("model")) or self._model

    def _end(self, event: Event, *, ending: Ending) -> list[Effect]:
        response = as_object(event.get("response"))
        status = response.get("status")
        if response.get("error") or status in ("failed", "cancelled"):
            return self._end_failed(event)
        if status == "incomplete":
            ending = "incomplete"
        effects = self._finish(response, ending)
        details = as_object(response.get("incomplete_details")) if ending == "incomplete" else {}
        terminal = ResponseFinished(
            status=ending,
            reason=as_text(details.get("reason")) or None,
            response_id=self._response_id,
            model=self._model,
            items=self._items(),
            usage=read_usage(response.get("usage")),
        )
        return [*effects, terminal]

    def _end_failed(self, event: Event) -> list[Effect]:
        response = as_object(event.get("response"))
        return self._fail(read_failure(None, response or event), response)

    def _fail(self, failure: Failure, response: WireObject) -> list[Effect]:
        effects = self._finish(response, "incomplete")
        usage = read_usage(response.get("usage"))
        return [*effects, ResponseFailed(failure, self._response_id, self._items(), usage)]

    def _finish(self, response: WireObject, ending: Ending) -> list[Effect]:
        """Complete the items by the terminal event's output, the authority over what was streamed; finish all."""
        self.finished = True
        self._identify(response)
        output = [item for item in as_list(response.get("output")) if _is_item(item)]
        matched = self._drafts.match(output)
        effects: list[Effect] = []
        for index, item in enumerate(output):
            draft = matched.get(index)
            if draft is None:
                draft = self._drafts.open(_reference(item, item.get("id"), index), item)
                effects.append(draft.start())
            effects += draft.amend(item) if draft.finished else draft.complete(item)
        for draft in self._drafts.all:
            effects += [] if draft.finished else draft.finish(ending)
        return effects

    def _items(self) -> tuple[Item, ...]:
        return tuple(cast("Item", draft.finished) for draft in self._drafts.all if draft.finished)

    def _item_added(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        reference = _reference(item, item.get("id"), event.get("output_index"), opens=True)
        draft = self._drafts.find(reference)
        if draft is None:
            return [self._drafts.open(reference, item).start()]
        draft.update(item)
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
            effects.append(draft.start())
        if not draft.finished:
            effects += draft.complete(item)
            if not draft.lacks_arguments:
                effects += draft.finish("completed")
        return effects

    def _text_delta(self, event: Event, source: _TextEvents) -> list[Effect]:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return []
        draft, opened = self._draft_of(event, source.item_type)
        if draft.finished:
            return opened
        return [*opened, *draft.add_text(delta, kind=source.kind, part=_part(event, source.part_key))]

    def _text_done(self, event: Event, source: _TextEvents) -> list[Effect]:
        return self._complete_text(event, event.get(source.whole_key), source)

    def _part_done(self, event: Event) -> list[Effect]:
        part = as_object(event.get("part"))
        source = _PARTS.get(as_text(part.get("type")))
        return self._complete_text(event, part.get(source.whole_key), source) if source else []

    def _complete_text(self, event: Event, text: Any, source: _TextEvents) -> list[Effect]:
        if not isinstance(text, str) or not text:
            return []
        draft, opened = self._draft_of(event, source.item_type)
        if draft.finished:
            return opened
        if name := as_text(event.get("name")):
            draft.update({"name": name})
        part = _part(event, source.part_key)
        return [*opened, *draft.complete_text(text, kind=source.kind, part=part)]

    def _annotation_added(self, event: Event) -> list[Effect]:
        draft, opened = self._draft_of(event, "message")
        if draft.finished:
            return opened
        part = _part(event, "content_index")
        return [*opened, *draft.add_annotation(event.get("annotation"), part=part)]

    def _draft_of(self, event: Event, item_type: str) -> tuple[ItemDraft, list[Effect]]:
        """Return the item that the event adds to; one that was not announced is opened."""
        item_id, output_index = as_text(event.get("item_id")) or None, as_count(event.get("output_index"))
        draft = self._drafts.find_exact(item_type, item_id, output_index)
        if draft is None:
            reference = ItemReference(item_type, item_id, output_index)
            draft = self._drafts.find(reference)
            if draft is None:
                temporary_id = f"{_ID_PREFIXES[item_type]}_tmp_{len(self._drafts.all)}"
                draft = self._drafts.open(reference, {"type": item_type, "id": item_id or temporary_id})
                draft.is_guess = True
                return draft, [draft.start()]
        return draft, []

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
        "response.output_text.delta": partial(_text_delta, source=_OUTPUT_TEXT),
        "response.output_text.done": partial(_text_done, source=_OUTPUT_TEXT),
        "response.refusal.delta": partial(_text_delta, source=_REFUSAL),
        "response.refusal.done": partial(_text_done, source=_REFUSAL),
        "response.reasoning_summary_text.delta": partial(_text_delta, source=_SUMMARY),
        "response.reasoning_summary_text.done": partial(_text_done, source=_SUMMARY),
        "response.reasoning_text.delta": partial(_text_delta, source=_REASONING),
        "response.reasoning_text.done": partial(_text_done, source=_REASONING),
        "response.function_call_arguments.delta": partial(_text_delta, source=_ARGUMENTS),
        "response.function_call_arguments.done": partial(_text_done, source=_ARGUMENTS),
    }


def reduce_response(response: WireObject) -> list[Effect]:
    """Reduce a response that was not streamed, or an error body; the last effect is the terminal one."""
    reducer = Reducer()
    return [*reducer.feed(terminal_event(response)), *reducer.close()]


def _reference(item: WireObject, item_id: Any, output_index: Any, *, opens: bool = False) -> ItemReference:
    call_id = as_text(item.get("call_id")) or None
    return ItemReference(item["type"], as_text(item_id) or None, as_count(output_index), call_id, opens)


def _part(event: Event, key: str) -> int:
    part = as_count(event.get(key))
    return part if part is not None and part < _PARTS_LIMIT else 0


def _is_item(value: Any) -> TypeGuard[WireObject]:
    return isinstance(value, dict) and bool(as_text(value.get("type")))
