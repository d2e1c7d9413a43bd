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

from .drafts import (
    ARGUMENTS,
    OUTPUT_TEXT,
    REASONING,
    REFUSAL,
    SUMMARY,
    TEXT_KINDS,
    Ending,
    ItemDraft,
    ItemDrafts,
    ItemReference,
    TextKind,
    WireObject,
)
from .effects import Effect, ResponseFailed, ResponseFinished, read_usage, terminal_event
from .failure import Failure, read_failure
from .items import Item, kind_of
from .values import as_count, as_list, as_object, as_text, mend_text

Event: TypeAlias = Mapping[str, Any]

_PARTS_LIMIT: Final = 1000
"""A part index beyond this is nonsense; it would make us pad the message up to it."""


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
        response = as_object(event.get("response"))
        self._response_id = mend_text(as_text(response.get("id"))) or self._response_id
        self._model = mend_text(as_text(response.get("model"))) or self._model
        return []

    def _end(self, event: Event, *, ending: Ending) -> list[Effect]:
        response = as_object(event.get("response"))
        status = response.get("status")
        if response.get("error") or status in ("failed", "cancelled"):
            return self._end_failed(event)
        if status == "incomplete":
            ending = "incomplete"
        effects = self._finish(event, ending)
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
        return self._fail(read_failure(None, response or event), event)

    def _fail(self, failure: Failure, event: Event) -> list[Effect]:
        effects = self._finish(event, "incomplete")
        usage = read_usage(as_object(event.get("response")).get("usage"))
        return [*effects, ResponseFailed(failure, self._response_id, self._items(), usage)]

    def _finish(self, event: Event, ending: Ending) -> list[Effect]:
        """Complete the items by the terminal event's output, the authority over what was streamed; finish all."""
        self.finished = True
        self._begin(event)
        output = [item for item in as_list(as_object(event.get("response")).get("output")) if _is_item(item)]
        matched = self._drafts.match(output)
        effects: list[Effect] = []
        for index, item in enumerate(output):
            draft = matched.get(index)
            if draft is None and self._drafts.is_repeated_call(item, index):
                continue
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
        draft = self._drafts.find(reference, item)
        if draft is None:
            return [self._drafts.open(reference, item).start()]
        draft.update(item)
        return []

    def _item_done(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        reference = _reference(item, item.get("id") or event.get("item_id"), event.get("output_index"))
        draft = self._drafts.find(reference, item)
        effects: list[Effect] = []
        if draft is None:
            draft = self._drafts.open(reference, item)
            effects.append(draft.start())
        if not draft.finished:
            effects += draft.complete(item)
            if not draft.lacks_arguments:
                effects += draft.finish("completed")
        return effects

    def _text_delta(self, event: Event, kind: TextKind) -> list[Effect]:
        delta = as_text(event.get("delta"))
        if not delta:
            return []
        draft, effects = self._draft_of(event, kind.item_type)
        if not draft.finished:
            effects += draft.add_text(delta, kind=kind, part=_part(event, kind.part_key))
        return effects

    def _text_done(self, event: Event, kind: TextKind, holder: Event | None = None) -> list[Effect]:
        text = as_text((holder or event).get(kind.text_key))
        if not text:
            return []
        draft, effects = self._draft_of(event, kind.item_type)
        if not draft.finished:
            if name := as_text(event.get("name")):
                draft.update({"name": name})
            effects += draft.complete_text(text, kind=kind, part=_part(event, kind.part_key))
        return effects

    def _part_done(self, event: Event) -> list[Effect]:
        part = as_object(event.get("part"))
        kind = TEXT_KINDS.get(as_text(part.get("type")))
        return self._text_done(event, kind, part) if kind else []

    def _annotation_added(self, event: Event) -> list[Effect]:
        draft, effects = self._draft_of(event, "message")
        if not draft.finished:
            effects += draft.add_annotation(event.get("annotation"), part=_part(event, "content_index"))
        return effects

    def _draft_of(self, event: Event, item_type: str) -> tuple[ItemDraft, list[Effect]]:
        """Return the item that the event adds to; one that was not announced is opened."""
        item_id = as_text(event.get("item_id")) or None
        reference = ItemReference(item_type, item_id, as_count(event.get("output_index")))
        draft = self._drafts.find_exact(reference) or self._drafts.find(reference, {})
        if draft is not None:
            return draft, []
        temporary_id = f"{kind_of(item_type).id_prefix}_tmp_{len(self._drafts.all)}"
        draft = self._drafts.open(reference, {"type": item_type, "id": item_id or temporary_id})
        draft.is_guess = True
        return draft, [draft.start()]

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
        "response.output_text.delta": partial(_text_delta, kind=OUTPUT_TEXT),
        "response.output_text.done": partial(_text_done, kind=OUTPUT_TEXT),
        "response.refusal.delta": partial(_text_delta, kind=REFUSAL),
        "response.refusal.done": partial(_text_done, kind=REFUSAL),
        "response.reasoning_summary_text.delta": partial(_text_delta, kind=SUMMARY),
        "response.reasoning_summary_text.done": partial(_text_done, kind=SUMMARY),
        "response.reasoning_text.delta": partial(_text_delta, kind=REASONING),
        "response.reasoning_text.done": partial(_text_done, kind=REASONING),
        "response.function_call_arguments.delta": partial(_text_delta, kind=ARGUMENTS),
        "response.function_call_arguments.done": partial(_text_done, kind=ARGUMENTS),
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
