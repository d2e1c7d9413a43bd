"""The reducer: events of one response in, effects out.

Pure and total: any sequence of events, whole or cut off, results in items that are each started and finished once, and
exactly one terminal effect. Two tables list what each event type means; others are ignored. Which item an event means
is decided here, what an item becomes in `drafts`. Providers number and name items in their own ways: an id may change
between `added` and `done`, be shared by several items, or be missing; `output_index` may have gaps or always be 0.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Final, TypeAlias, TypeGuard, cast

from .drafts import Ending, ItemDraft, ItemReference, WireObject, differ
from .effects import (
    TEXT_KINDS,
    Effect,
    ResponseFailed,
    ResponseFinished,
    TextName,
    Usage,
    read_served,
    read_usage,
    terminal_event,
)
from .failure import Failure, is_failure, read_event_failure, unwritten_reason
from .items import Item, is_picture, kind_of
from .values import as_count, as_list, as_object, as_text, mend_text

Event: TypeAlias = Mapping[str, Any]

_TEXT_EVENTS: Final[Mapping[Any, tuple[TextName, str]]] = {
    f"response.{kind.event}.{end}": (name, key)
    for name, kind in TEXT_KINDS.items()
    for end, key in (("delta", "delta"), ("done", kind.text_key))
}
"""The events that bring more of a text, or the whole of it: of which kind, and under which key."""

_PARTS_LIMIT: Final = 1000
"""A part index beyond this is nonsense; it would make us pad the message up to it."""


@dataclass(slots=True, eq=False, repr=False)
class ItemDrafts:
    """All items of one response, in the order in which they first appeared."""

    all: list[ItemDraft] = field(default_factory=list)
    by_place: dict[tuple[str, str | None, int | None], ItemDraft] = field(default_factory=dict)
    _by_name: dict[tuple[str, str, Any], ItemDraft] = field(default_factory=dict)

    def find_or_open(self, ref: ItemReference) -> tuple[ItemDraft, list[Effect]]:
        """Return the item that an event means; one that is new is opened, which is the effect."""
        draft = self.by_place.get((ref.type, ref.id, ref.output_index))
        if draft is None or (ref.opens and ref.id is None and draft.finished):
            draft = self._find_elsewhere(ref)
        if draft is None or draft.is_another_call(ref):
            return self.open(ref)
        self._remember(draft, ref)
        return draft, []

    def open(self, ref: ItemReference) -> tuple[ItemDraft, list[Effect]]:
        """Begin a new item."""
        draft = ItemDraft(len(self.all), ref.type, ref.output_index)
        temporary_id = f"{kind_of(ref.type).id_prefix}_tmp_{draft.index}"
        draft.update(ref.item or {"type": ref.type, "id": ref.id or temporary_id})
        draft.is_guess = not ref.item
        self.all.append(draft)
        self._remember(draft, ref)
        return draft, [draft.start()]

    def is_repeated_call(self, ref: ItemReference) -> bool:
        """Whether the call is one of those that are known, under another id."""
        draft = self._by_name.get((ref.type, "call_id", ref.call_id))
        return draft is not None and not draft.is_another_call(ref)

    def match(self, output: Sequence[ItemReference]) -> dict[int, ItemDraft]:
        """Return the draft of each item of the whole output, the surest match first; new items have none."""
        matched: dict[int, ItemDraft] = {}
        for shared, fits in _MATCHES:
            free: dict[Hashable, deque[ItemDraft]] = defaultdict(deque)
            taken = set(map(id, matched.values()))
            for known in self.all:
                if id(known) not in taken and (key := _key(known, shared)):
                    free[key].append(known)
            for number, ref in enumerate(output):
                if number in matched or not (key := _key(ref, shared)):
                    continue
                candidates = islice(free[key], _MAX_CANDIDATES)
                if draft := next((draft for draft in candidates if fits(draft, ref)), None):
                    matched[number] = draft
                    free[key].remove(draft)
        return matched

    def _find_elsewhere(self, ref: ItemReference) -> ItemDraft | None:
        """The item that has another id or index than the event says."""
        if same_call := self._by_name.get((ref.type, "call_id", ref.call_id)):
            return same_call
        same_id = self._by_name.get((ref.type, "id", ref.id))
        if same_id is not None and _has_moved(same_id, ref):
            return same_id
        same_index = self._by_name.get((ref.type, "index", ref.output_index))
        return same_index if same_index is not None and _is_renamed(same_index, ref) else None

    def _remember(self, draft: ItemDraft, ref: ItemReference) -> None:
        if draft.output_index is None:
            draft.output_index = ref.output_index
        self.by_place[ref.type, ref.id, ref.output_index] = draft
        for name, value in (("call_id", ref.call_id), ("id", ref.id), ("index", ref.output_index)):
            if value is not None:
                self._by_name[ref.type, name, value] = draft


def _has_moved(draft: ItemDraft, ref: ItemReference) -> bool:
    """Whether an id met again at another index is the same item, which moved; otherwise two items share the id."""
    if draft.output_index is None or ref.output_index is None or draft.output_index == ref.output_index:
        return True
    return not draft.finished and not ref.opens


def _is_renamed(draft: ItemDraft, ref: ItemReference) -> bool:
    """Whether an index met again under another id is the same item, whose id changed: only while it is open."""
    if ref.id is None:
        return not (draft.finished and ref.opens)
    if differ(draft.item.get("call_id"), ref.call_id) or draft.finished:
        return False
    return draft.is_guess or not ref.opens


_MAX_CANDIDATES: Final = 20
"""How many drafts are looked at for one item: with thousands that all contradict each other, each is a new one."""


def _key(known: ItemDraft | ItemReference, shared: str) -> tuple[str, Hashable] | None:
    if shared in {"type", "index"}:
        return known.type, known.output_index if shared == "index" else None
    name = as_text(known.item.get(shared))
    return (known.type, name) if name else None


_MATCHES: Final[Sequence[tuple[str, Callable[[ItemDraft, ItemReference], bool]]]] = (
    ("call_id", ItemDraft.is_compatible),
    ("call_id", lambda draft, ref: not draft.is_another_call(ref)),
    ("id", lambda draft, ref: draft.output_index == ref.output_index),
    ("id", lambda _draft, _ref: True),
    ("index", ItemDraft.is_compatible),
    ("type", ItemDraft.is_compatible),
)
"""What a draft and an item share beside their type, and what must hold besides; the surest first."""


@dataclass(slots=True, eq=False, repr=False)
class Reducer:
    """Reduces the events of one response: `feed` each event, then `close` once when the stream has ended.

    `finished` becomes true with the terminal effect; events after it are ignored.
    """

    finished: bool = False
    _drafts: ItemDrafts = field(default_factory=ItemDrafts)
    _response_id: str | None = None
    _usage: Usage | None = None
    """The best so far: some providers fill the last one with zeros."""

    def feed(self, event: Event) -> list[Effect]:
        """Take the next event and return what it means, in order."""
        event_type = event.get("type")
        if self.finished:
            return []
        if text := _TEXT_EVENTS.get(event_type):
            return self._text(event, event, *text)
        handle = self._handlers.get(event_type)
        return handle(self, event) if handle else []

    def close(self, reason: str = "") -> list[Effect]:
        """End the stream: without a terminal event it is a failure, of which `reason` may say more."""
        if self.finished:
            return []
        message = reason or "the stream ended before the answer was complete"
        return self._fail(Failure(message, origin="stream"), {})

    def _begin(self, event: Event) -> list[Effect]:
        response = as_object(event.get("response"))
        self._response_id = mend_text(as_text(response.get("id"))) or self._response_id
        usage = read_usage(response.get("usage"), is_byok=read_served(event).is_byok)
        if usage and (usage.total_tokens or usage.cost or self._usage is None):
            self._usage = usage
        return []

    def _end(self, event: Event) -> list[Effect]:
        """The end as the response tells it, whatever the event is called."""
        response = as_object(event.get("response"))
        is_unwritten = not self._drafts.all and unwritten_reason(response)
        if is_failure(event) or is_unwritten or response.get("status") == "cancelled":
            return self._fail(read_event_failure(event), event)
        is_cut = "incomplete" in (response.get("status"), event["type"].removeprefix("response."))
        ending: Ending = "incomplete" if is_cut else "completed"
        effects = self._finish(event, ending)
        details = as_object(response.get("incomplete_details")) if is_cut else {}
        items = tuple(cast("Item", draft.finished) for draft in self._drafts.all)
        pictures = sum(map(is_picture, items))
        terminal = ResponseFinished(
            status=ending,
            reason=as_text(details.get("reason")) or None,
            response_id=self._response_id,
            items=items,
            usage=replace(self._usage, pictures=pictures) if self._usage and pictures else self._usage,
            served=read_served(event),
        )
        return [*effects, terminal]

    def _fail(self, failure: Failure, event: Event) -> list[Effect]:
        effects = self._finish(event, "incomplete")
        return [*effects, ResponseFailed(failure, self._response_id, self._usage, read_served(event))]

    def _finish(self, event: Event, ending: Ending) -> list[Effect]:
        """Complete the items by the terminal event's output, the authority over what was streamed; finish all."""
        self.finished = True
        self._begin(event)
        items = filter(_is_item, as_list(as_object(event.get("response")).get("output")))
        output = [_reference({"output_index": index}, item) for index, item in enumerate(items)]
        matched = self._drafts.match(output)
        effects: list[Effect] = []
        for index, ref in enumerate(output):
            draft = matched.get(index)
            if draft is None and self._drafts.is_repeated_call(ref):
                continue
            if draft is None:
                draft, started = self._drafts.open(ref)
                effects += started
            effects += draft.amend(ref.item) if draft.finished else draft.complete(ref.item)
        for draft in self._drafts.all:
            effects += [] if draft.finished else draft.finish(ending)
        return effects

    def _item_added(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        draft, effects = self._drafts.find_or_open(_reference(event, item, opens=True))
        if not (effects or draft.finished):
            draft.update(item)
        return effects

    def _item_done(self, event: Event) -> list[Effect]:
        item = event.get("item")
        if not _is_item(item):
            return []
        draft, effects = self._drafts.find_or_open(_reference(event, item))
        if not draft.finished:
            effects += draft.complete(item)
            if not draft.lacks_arguments:
                effects += draft.finish("completed")
        return effects

    def _text(self, event: Event, holder: Event, name: TextName, key: str) -> list[Effect]:
        """More of a text, or all of it, which its holder has under the key: the event, or a part."""
        text, kind = as_text(holder.get(key)), TEXT_KINDS[name]
        if not text:
            return []
        draft, effects = self._draft_of(event, kind.item_type)
        if draft.finished:
            return effects
        part = _part(event, kind.part_key)
        if key == "delta":
            return effects + draft.add_text(text, name, part)
        if call_name := as_text(event.get("name")):
            draft.update({"name": call_name})
        return effects + draft.complete_text(text, name, part)

    def _part_done(self, event: Event) -> list[Effect]:
        part = as_object(event.get("part"))
        name = cast("TextName", as_text(part.get("type")))
        kind = TEXT_KINDS.get(name)
        return self._text(event, part, name, kind.text_key) if kind and kind.part_key else []

    def _annotation_added(self, event: Event) -> list[Effect]:
        draft, effects = self._draft_of(event, "message")
        if not draft.finished:
            draft.add_annotation(event.get("annotation"), _part(event, "content_index"))
        return effects

    def _draft_of(self, event: Event, item_type: str) -> tuple[ItemDraft, list[Effect]]:
        """Return the item whose text the event is about; one that was not announced is opened."""
        place = item_type, as_text(event.get("item_id")) or None, as_count(event.get("output_index"))
        if draft := self._drafts.by_place.get(place):  # quick, and right for all but odd streams
            return draft, []
        return self._drafts.find_or_open(ItemReference(*place, {}))

    _handlers: ClassVar[dict[Any, Callable[[Reducer, Event], list[Effect]]]] = {
        "response.created": _begin,
        "response.in_progress": _begin,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.done": _part_done,
        "response.reasoning_summary_part.done": _part_done,
        "response.output_text.annotation.added": _annotation_added,
        **dict.fromkeys(("response.completed", "response.done", "response.incomplete"), _end),
        **dict.fromkeys(("response.failed", "response.error", "error"), _end),
    }


def reduce_response(response: WireObject) -> list[Effect]:
    """Reduce a response that was not streamed, or an error body; the last effect is the terminal one."""
    reducer = Reducer()
    return [*reducer.feed(terminal_event(response)), *reducer.close()]


def _reference(event: Event, item: WireObject, *, opens: bool = False) -> ItemReference:
    item_id = as_text(item.get("id") or event.get("item_id")) or None
    return ItemReference(item["type"], item_id, as_count(event.get("output_index")), item, opens)


def _part(event: Event, key: str) -> int:
    part = as_count(event.get(key))
    return part if part is not None and part < _PARTS_LIMIT else 0


def _is_item(value: Any) -> TypeGuard[WireObject]:
    return isinstance(value, dict) and bool(as_text(value.get("type")))
