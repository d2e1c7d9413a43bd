"""Which item an event speaks of.

Providers number and name their items in their own ways: an id may change between `added` and `done`, be
shared by several items, or be missing; `output_index` may have gaps or always be 0. Owns the drafts of one
response and the rules that find the right one; what happens to it is decided elsewhere.

One output item under construction: what was streamed, what the provider says it is, what it becomes.

Owns the texts of an item and how they meet the whole item that arrives later: what was not streamed yet is
given as one more delta, and a message says in the end exactly what its deltas said. Reasoning stays as the
provider sent it, because its signature covers it. Which item an event belongs to is not decided here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, cast

from .effects import (
    ArgumentsDelta,
    CitationAdded,
    Effect,
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from .items import Item
from .text import REPLACEMENT, mend, mend_text, split_pending


@dataclass(frozen=True, slots=True)
class ItemReference:
    """What an event says of its item: type, provider's id and place, call id; `opens` for an `added`."""

    kind: str
    id: str | None
    place: int | None
    call_id: str | None = None
    opens: bool = False


def as_text(value: Any) -> str | None:
    """A text that can name something."""
    return value if isinstance(value, str) and value else None


def as_index(value: Any) -> int | None:
    """A count from 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class ItemDrafts:
    """All items of one response, in the order in which they first appeared."""

    __slots__ = ("_by_call", "_by_id", "_by_pair", "_by_place", "all")

    def __init__(self) -> None:
        """Begin without items."""
        self.all: list[ItemDraft] = []
        self._by_pair: dict[tuple[str, str | None, int | None], ItemDraft] = {}
        self._by_id: dict[tuple[str, str], ItemDraft] = {}
        self._by_place: dict[tuple[str, int], ItemDraft] = {}
        self._by_call: dict[tuple[str, str], ItemDraft] = {}

    def exact(self, kind: str, item_id: str | None, place: int | None) -> ItemDraft | None:
        """The item that carries this id at this place: the quick way, right for all but odd streams."""
        return self._by_pair.get((kind, item_id, place))

    def find(self, reference: ItemReference) -> ItemDraft | None:
        """The item that the event speaks of, None when it is a new one."""
        draft = self._found(reference)
        if draft is not None:
            self._remember(draft, reference)
        return draft

    def open(self, reference: ItemReference, item: WireObject) -> ItemDraft:
        """Begin a new item."""
        draft = ItemDraft(len(self.all), item, place=reference.place)
        self.all.append(draft)
        self._remember(draft, reference)
        return draft

    def match(self, output: Sequence[WireObject]) -> dict[int, ItemDraft]:
        """Give each item of the whole output its draft, the surest likeness first; new items are left out."""
        matched: dict[int, ItemDraft] = {}
        free = list(self.all)
        for alike in _LIKENESS:
            for position, item in enumerate(output):
                if position in matched:
                    continue
                draft = next((draft for draft in free if alike(draft, item, position)), None)
                if draft is not None:
                    matched[position] = draft
                    free.remove(draft)
        return matched

    def _found(self, ref: ItemReference) -> ItemDraft | None:
        draft = self.exact(ref.kind, ref.id, ref.place)
        if draft and (ref.id is not None or not draft.finished or not ref.opens):
            return draft
        if ref.call_id and (draft := self._by_call.get((ref.kind, ref.call_id))):
            return draft
        if ref.id and (draft := self._by_id.get((ref.kind, ref.id))) and _is_same_id(draft, ref):
            return draft
        if ref.place is not None and (draft := self._by_place.get((ref.kind, ref.place))):
            return draft if _is_same_place(draft, ref) else None
        return None

    def _remember(self, draft: ItemDraft, ref: ItemReference) -> None:
        if draft.place is None:
            draft.place = ref.place
        self._by_pair[ref.kind, ref.id, ref.place] = draft
        if ref.id:
            self._by_id[ref.kind, ref.id] = draft
        if ref.place is not None:
            self._by_place[ref.kind, ref.place] = draft
        if ref.call_id:
            self._by_call[ref.kind, ref.call_id] = draft


def _is_same_id(draft: ItemDraft, ref: ItemReference) -> bool:
    """An id met again at another place: the place moved if the item is open, otherwise the id is shared."""
    if draft.place is None or ref.place is None or draft.place == ref.place:
        return True
    return not draft.finished and not ref.opens


def _is_same_place(draft: ItemDraft, ref: ItemReference) -> bool:
    """A place met again under another id: the id changed if the item is still open."""
    if ref.id is None:
        return not (draft.finished and ref.opens)
    if _differ(draft.item.get("call_id"), ref.call_id) or draft.finished:
        return False
    return draft.is_guess or not ref.opens


def _differ(ours: Any, theirs: Any) -> bool:
    return bool(ours) and bool(theirs) and ours != theirs


Likeness: TypeAlias = "Callable[[ItemDraft, WireObject, int], bool]"


def _same_call(draft: ItemDraft, item: WireObject, _position: int) -> bool:
    call_id = item.get("call_id")
    return bool(call_id) and draft.kind == item["type"] and draft.item.get("call_id") == call_id


def _same_id_and_place(draft: ItemDraft, item: WireObject, position: int) -> bool:
    return draft.place == position and _same_id(draft, item, position)


def _same_id(draft: ItemDraft, item: WireObject, _position: int) -> bool:
    item_id = item.get("id")
    return bool(item_id) and draft.kind == item["type"] and draft.item.get("id") == item_id


def _same_place(draft: ItemDraft, item: WireObject, position: int) -> bool:
    return draft.place == position and draft.may_be(item)


def _same_content(draft: ItemDraft, item: WireObject, _position: int) -> bool:
    return draft.may_be(item)


_LIKENESS: tuple[Likeness, ...] = (_same_call, _same_id_and_place, _same_id, _same_place, _same_content)


Channel = Literal["text", "refusal", "summary", "reasoning", "arguments"]
WireObject: TypeAlias = dict[str, Any]
Ending = Literal["completed", "incomplete"]

_DELTA: dict[Channel, Callable[[int, int, str], Effect]] = {
    "text": TextDelta,
    "refusal": RefusalDelta,
    "summary": lambda index, part, delta: ReasoningDelta(index, part, "summary", delta),
    "reasoning": lambda index, part, delta: ReasoningDelta(index, part, "text", delta),
    "arguments": lambda index, _part, delta: ArgumentsDelta(index, delta),
}

_PART_KEY: dict[Channel, tuple[str, str]] = {
    "text": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
    "summary": ("summary_text", "text"),
    "reasoning": ("reasoning_text", "text"),
}
"""The type of a part, and the key of the text within it."""

_CHANNEL_OF_PART: dict[str, Channel] = {"output_text": "text", "text": "text", "refusal": "refusal"}

_NOTHING: tuple[Any, ...] = (None, "", [])
"""Values that say nothing beside a value known before."""

_EMPTY: dict[str, Callable[[WireObject], WireObject]] = {
    "message": lambda item: {**item, "content": []},
    "reasoning": lambda item: {**_without(item, "content", "encrypted_content", "signature"), "summary": []},
    "function_call": lambda item: {**item, "arguments": ""},
}
"""An item's first form: its texts follow as deltas."""


class Streamed:
    """A text as far as it was shown, and the half character that waits for its partner."""

    __slots__ = ("_chunks", "_pending")

    def __init__(self) -> None:
        """Begin empty."""
        self._chunks: list[str] = []
        self._pending = ""

    @property
    def shown(self) -> str:
        """All that was shown."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def add(self, delta: str) -> str:
        """Take a delta and give what can be shown of it."""
        if self._pending or not delta.isascii():
            delta, self._pending = split_pending(self._pending + delta)
        if delta:
            self._chunks.append(delta)
        return delta

    def complete(self, whole: str) -> str:
        """The provider says what the whole text is: give what is missing, if it continues what was shown."""
        shown = self.shown
        if len(whole) <= len(shown) or not whole.startswith(shown):
            return ""
        self._pending = ""
        missing = mend_text(whole[len(shown) :])
        self._chunks.append(missing)
        return missing

    def end(self) -> str:
        """Nothing follows: a half character that found no partner is shown as its replacement."""
        if not self._pending:
            return ""
        self._pending = ""
        self._chunks.append(REPLACEMENT)
        return REPLACEMENT


class ItemDraft:
    """An item between its first event and the end of the response.

    `index` is its place among our items, `place` the provider's `output_index`, `item` the newest whole form
    the provider gave, `finished` what was handed on as whole, `is_guess` true while only its texts were met.
    """

    __slots__ = ("_annotations", "_confirmed", "_streamed", "finished", "index", "is_guess", "item", "place")

    def __init__(self, index: int, item: WireObject, *, place: int | None) -> None:
        """Begin with the item's first form."""
        self.index = index
        self.place = place
        self.item = mend(item)
        self.finished: WireObject | None = None
        self.is_guess = False
        self._confirmed = False
        self._streamed: dict[tuple[Channel, int], Streamed] = {}
        self._annotations: dict[int, dict[Any, WireObject]] = {}

    @property
    def kind(self) -> str:
        """The item's type."""
        return cast("str", self.item["type"])

    @property
    def awaits_arguments(self) -> bool:
        """Whether this is a function call whose arguments are not known yet, though its item is done."""
        return self.kind == "function_call" and not _is_json(self._arguments(self.item))

    def started(self) -> ItemStarted:
        """The effect that opens the item."""
        empty = _EMPTY.get(self.kind, dict)(self.item)
        return ItemStarted(self.index, cast("Item", {**empty, "status": "in_progress"}))

    def add(self, delta: str, *, channel: Channel, part: int) -> list[Effect]:
        """More text of a part."""
        shown = self._text(channel, part).add(delta)
        return [_DELTA[channel](self.index, part, shown)] if shown else []

    def complete(self, whole: str, *, channel: Channel, part: int) -> list[Effect]:
        """The whole text of a part: what is missing is given as a delta."""
        missing = self._text(channel, part).complete(mend_text(whole))
        return [_DELTA[channel](self.index, part, missing)] if missing else []

    def cite(self, wire: Any, *, part: int) -> list[Effect]:
        """An annotation of a part, unless it is known."""
        annotation = flat_annotation(mend(wire))
        if annotation is None:
            return []
        known = self._annotations.setdefault(part, {})
        key = annotation_identity(annotation)
        is_new = key not in known
        known[key] = annotation
        return [CitationAdded(self.index, part, annotation)] if is_new else []

    def learn(self, item: WireObject) -> None:
        """Take more of the item's form (a late or repeated announcement), unless it is finished."""
        if not self.finished:
            self.item = _merged(self.item, mend(item))
            self.is_guess = False

    def absorb(self, item: WireObject) -> list[Effect]:
        """Take the provider's whole item: give the texts and citations that were not streamed."""
        self.item = _merged(self.item, mend(item))
        self._confirmed = True
        return self._give()

    def finish(self, ending: Ending) -> list[Effect]:
        """Close the item with what is known; `ending` is the status of what the provider did not close."""
        effects = self._give()
        for (channel, part), text in self._streamed.items():
            if rest := text.end():
                effects.append(_DELTA[channel](self.index, part, rest))
        if ending == "completed" and self.kind == "function_call" and not self._arguments(self.item).strip():
            effects += self.add("{}", channel="arguments", part=0)
        self.finished = self._whole(ending)
        return [*effects, ItemFinished(self.index, cast("Item", self.finished))]

    def amend(self, item: WireObject) -> list[Effect]:
        """The terminal event's form of a finished item: an effect only if it says more."""
        self.absorb({key: value for key, value in item.items() if value not in _NOTHING})
        whole = self._whole("completed")
        if whole == self.finished:
            return []
        self.finished = whole
        return [ItemAmended(self.index, cast("Item", whole))]

    def may_be(self, item: WireObject) -> bool:
        """Whether the provider's item, under another id, can be this one: it says nothing else."""
        if item["type"] != self.kind or _differ(self.item.get("call_id"), item.get("call_id")):
            return False
        theirs = {(channel, part): text for channel, part, text in _texts(item)}
        return all(
            (theirs.get(key) or text.shown).startswith(text.shown) for key, text in self._streamed.items()
        )

    def _give(self) -> list[Effect]:
        """What the item holds and was not streamed."""
        effects: list[Effect] = []
        for channel, part, text in _texts(self.item):
            effects += self.complete(text, channel=channel, part=part)
        for part, cited in _annotations(self.item):
            for annotation in cited:
                effects += self.cite(annotation, part=part)
        return effects

    def _text(self, channel: Channel, part: int) -> Streamed:
        key = (channel, part)
        text = self._streamed.get(key)
        if text is None:
            text = self._streamed[key] = Streamed()
        return text

    def _shown(self, *channels: Channel) -> Iterator[tuple[Channel, int, str]]:
        for (channel, part), text in sorted(self._streamed.items(), key=lambda entry: entry[0][1]):
            if channel in channels and text.shown:
                yield channel, part, text.shown

    def _arguments(self, item: WireObject) -> str:
        own = item.get("arguments")
        shown = self._streamed.get(("arguments", 0))
        return own if isinstance(own, str) and own.strip() else shown.shown if shown else ""

    def _whole(self, ending: Ending) -> WireObject:
        build = self._builders.get(self.kind)
        item = build(self) if build else dict(self.item)
        if build or "status" in item:
            is_cut = ending == "incomplete" and (not self._confirmed or self.awaits_arguments)
            item["status"] = ending if is_cut else _status(item.get("status"), ending)
        return item

    def _build_message(self) -> WireObject:
        parts = [dict(part) for part in _parts(self.item.get("content"))]
        for channel, part, text in self._shown("text", "refusal"):
            kind, key = _PART_KEY[channel]
            while len(parts) <= part:
                parts.append({"type": "output_text", "text": "", "annotations": []})
            parts[part] = {**parts[part], "type": kind, key: text}
        for part, known in self._annotations.items():
            if part < len(parts):
                parts[part]["annotations"] = list(known.values())
        return {**self.item, "role": "assistant", "content": parts}

    def _build_reasoning(self) -> WireObject:
        item = {**self.item, "summary": _parts(self.item.get("summary"))}
        for channel, key in (("summary", "summary"), ("reasoning", "content")):
            shown = list(self._shown(cast("Channel", channel)))
            if shown and not _parts(item.get(key)):
                item[key] = [{"type": _PART_KEY[name][0], "text": text} for name, _, text in shown]
        return item

    def _build_call(self) -> WireObject:
        item = {**self.item, "arguments": self._arguments(self.item)}
        if not item.get("call_id"):
            item["call_id"] = item.get("id") or ""
        if not item.get("name") or not item["call_id"]:
            item["status"] = "incomplete"
        return item

    _builders: ClassVar[dict[str, Callable[[ItemDraft], WireObject]]] = {
        "message": _build_message,
        "reasoning": _build_reasoning,
        "function_call": _build_call,
    }


def _merged(old: WireObject, new: WireObject) -> WireObject:
    """The newer form in its own order, with what only the older one knew; an empty value says nothing."""
    known = {key: value for key, value in old.items() if value not in _NOTHING}
    newer = {key: known.get(key, value) if value in _NOTHING else value for key, value in new.items()}
    return {**newer, **{key: value for key, value in known.items() if key not in new}}


def _without(item: WireObject, *keys: str) -> WireObject:
    return {key: value for key, value in item.items() if key not in keys}


def _texts(item: WireObject) -> Iterator[tuple[Channel, int, str]]:
    """The texts within a whole item, by channel and part."""
    match item["type"]:
        case "message":
            for number, part in enumerate(_parts(item.get("content"))):
                channel = _CHANNEL_OF_PART.get(str(part.get("type")))
                if channel and isinstance(text := part.get(_PART_KEY[channel][1]), str):
                    yield channel, number, text
        case "reasoning":
            for key, channel in _REASONING_CHANNELS.items():
                for number, part in enumerate(_parts(item.get(key))):
                    if isinstance(text := part.get("text"), str):
                        yield channel, number, text
        case "function_call":
            if isinstance(text := item.get("arguments"), str):
                yield "arguments", 0, text


_REASONING_CHANNELS: dict[str, Channel] = {"summary": "summary", "content": "reasoning"}


def _annotations(item: WireObject) -> Iterator[tuple[int, list[Any]]]:
    if item["type"] == "message":
        for number, part in enumerate(_parts(item.get("content"))):
            if isinstance(annotations := part.get("annotations"), list):
                yield number, annotations


def _parts(content: Any) -> list[WireObject]:
    """The parts of a message or of reasoning; a bare string counts as one part of text."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}] if content else []
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _status(status: Any, ending: Ending) -> str:
    return status if isinstance(status, str) and status not in {"", "in_progress"} else ending


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_KIND = "url_citation"


def flat_annotation(wire: Any) -> dict[str, Any] | None:
    """Give the annotation flat and with a title, or None when it is no annotation at all."""
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        return None
    if wire["type"] != _KIND:
        return wire
    nested = wire.get(_KIND)
    flat = {"type": _KIND, **nested} if isinstance(nested, dict) else wire
    url = flat.get("url")
    if not isinstance(url, str) or not url:
        return None
    title = flat.get("title")
    return {
        **flat,
        "type": _KIND,
        "title": title if isinstance(title, str) and title else url,
        "start_index": _position(flat.get("start_index")),
        "end_index": _position(flat.get("end_index")),
    }


def annotation_identity(annotation: dict[str, Any]) -> Hashable:
    """What two mentions of one annotation share; a citation may gain its excerpt later."""
    if annotation["type"] == _KIND:
        return annotation["url"], annotation["start_index"], annotation["end_index"]
    return repr(annotation)


def _position(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
