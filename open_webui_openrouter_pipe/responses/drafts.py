"""The output items of one response under construction, and which of them an event means.

A draft joins the texts of its item with the whole item that arrives later: what was not streamed yet becomes one more
delta, and a message says in the end exactly what its deltas said. Reasoning stays as the provider sent it, because its
signature covers it. Providers number and name items in their own ways: an id may change between `added` and `done`, be
shared by several items, or be missing; `output_index` may have gaps or always be 0.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

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
from .items import PHASES, Item
from .values import REPLACEMENT, as_count, as_list, as_text, is_web_address, mend, mend_text, split_pending

WireObject: TypeAlias = dict[str, Any]
Ending = Literal["completed", "incomplete"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextKind:
    """A kind of text: the type of its item and of its part, the key of the text, and its delta.

    `text_key` is the key of the whole text in its part and its events, `part_key` that of the part's index in events.
    """

    item_type: str
    part_type: str
    text_key: str
    part_key: str
    delta: Callable[[int, int, str], Effect]


def _reasoning_delta(source: Literal["summary", "text"]) -> Callable[[int, int, str], Effect]:
    return lambda index, part, delta: ReasoningDelta(index, part, source, delta)


OUTPUT_TEXT: Final = TextKind("message", "output_text", "text", "content_index", TextDelta)
REFUSAL: Final = TextKind("message", "refusal", "refusal", "content_index", RefusalDelta)
SUMMARY: Final = TextKind("reasoning", "summary_text", "text", "summary_index", _reasoning_delta("summary"))
REASONING: Final = TextKind("reasoning", "reasoning_text", "text", "content_index", _reasoning_delta("text"))
ARGUMENTS: Final = TextKind(
    "function_call", "", "arguments", "", lambda index, _part, delta: ArgumentsDelta(index, delta)
)

TEXT_KINDS: Final = {kind.part_type: kind for kind in (OUTPUT_TEXT, REFUSAL, SUMMARY, REASONING)}
_MESSAGE_PARTS: Final = {"output_text": OUTPUT_TEXT, "text": OUTPUT_TEXT, "refusal": REFUSAL}
_REASONING_PARTS: Final = {"summary": SUMMARY, "content": REASONING}

_EMPTY_VALUES: Final[tuple[Any, ...]] = (None, "", [])
"""Values that say nothing beside a value known before."""

_CITATION: Final = "url_citation"
_CITATION_KEYS: Final = ("url", "start_index", "end_index")
"""What two mentions of one citation share; its excerpt may follow later."""


@dataclass(slots=True, eq=False, repr=False)
class StreamedText:
    """A text as far as it was shown, and the half character that waits for its partner."""

    _chunks: list[str] = field(default_factory=list)
    _pending: str = ""

    @property
    def shown(self) -> str:
        """All that was shown."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def add(self, delta: str) -> str:
        """Take a delta and return what can be shown of it."""
        if self._pending or not delta.isascii():
            delta, self._pending = split_pending(self._pending + delta)
        if delta:
            self._chunks.append(delta)
        return delta

    def complete(self, whole: str) -> str:
        """Take the whole text and return what was not shown of it, if it continues what was shown."""
        shown = self.shown
        if len(whole) <= len(shown) or not whole.startswith(shown):
            return ""
        self._pending = ""
        missing = mend_text(whole[len(shown) :])
        self._chunks.append(missing)
        return missing

    def end(self) -> str:
        """Show a half character that found no partner as its replacement; nothing follows."""
        if not self._pending:
            return ""
        self._pending = ""
        self._chunks.append(REPLACEMENT)
        return REPLACEMENT


_Texts: TypeAlias = dict[tuple[TextKind, int], StreamedText]


@dataclass(slots=True, eq=False, repr=False)
class ItemDraft:
    """An item between its first event and the end of the response.

    `index` is its position among our items, `output_index` the provider's, `item` the newest whole form that the
    provider sent, `finished` what was handed on as whole, `is_guess` true while only its texts were met.
    """

    index: int
    item: WireObject
    output_index: int | None
    finished: WireObject | None = None
    is_guess: bool = False
    _confirmed: bool = False
    _texts: _Texts = field(default_factory=lambda: defaultdict(StreamedText))
    _annotations: dict[int, dict[Hashable, WireObject]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def type(self) -> str:
        """The item's type."""
        return cast("str", self.item["type"])

    @property
    def lacks_arguments(self) -> bool:
        """Whether this is a function call whose arguments are not known yet, though its item is done."""
        if self.type != "function_call":
            return False
        try:
            json.loads(self._arguments())
        except (ValueError, RecursionError):
            return True
        return False

    def start(self) -> ItemStarted:
        """Return the effect that opens the item: its first form, whose texts follow as deltas."""
        first = dict(self.item)
        match self.type:
            case "message":
                first = {**_without_unknown_phase(first), "content": []}
            case "reasoning":
                for key in ("content", "encrypted_content", "signature"):
                    first.pop(key, None)
                first["summary"] = []
            case "function_call":
                first["arguments"] = ""
        first["status"] = "in_progress"
        return ItemStarted(self.index, cast("Item", first))

    def add_text(self, delta: str, *, kind: TextKind, part: int) -> list[Effect]:
        """Take more text of a part."""
        shown = self._texts[kind, part].add(delta)
        return [kind.delta(self.index, part, shown)] if shown else []

    def complete_text(self, whole: str, *, kind: TextKind, part: int) -> list[Effect]:
        """Take the whole text of a part; what was not streamed of it becomes a delta."""
        missing = self._texts[kind, part].complete(mend_text(whole))
        return [kind.delta(self.index, part, missing)] if missing else []

    def add_annotation(self, wire: Any, *, part: int) -> list[Effect]:
        """Take an annotation of a part; one that is known may be more complete now, and has no effect."""
        annotation = flat_annotation(mend(wire))
        if annotation is None:
            return []
        is_citation = annotation["type"] == _CITATION
        key = tuple(map(annotation.get, _CITATION_KEYS)) if is_citation else repr(annotation)
        is_known = key in self._annotations[part]
        self._annotations[part][key] = annotation
        return [] if is_known else [CitationAdded(self.index, part, annotation)]

    def update(self, item: WireObject) -> None:
        """Take more of the item's form (a late or repeated announcement), unless it is finished."""
        if not self.finished:
            self.item = _merge(self.item, mend(item))
            self.is_guess = False

    def complete(self, item: WireObject) -> list[Effect]:
        """Take the provider's whole item; the texts and annotations that were not streamed have their effects."""
        self.item = _merge(self.item, mend(item))
        self._confirmed = True
        return self._stream_rest()

    def finish(self, ending: Ending) -> list[Effect]:
        """Close the item with what is known; `ending` is the status of what the provider did not close."""
        effects = self._stream_rest()
        for (kind, part), text in self._texts.items():
            if rest := text.end():
                effects.append(kind.delta(self.index, part, rest))
        if ending == "completed" and self.type == "function_call" and not self._arguments().strip():
            effects += self.add_text("{}", kind=ARGUMENTS, part=0)
        self.finished = self._build(ending)
        return [*effects, ItemFinished(self.index, cast("Item", self.finished))]

    def amend(self, item: WireObject) -> list[Effect]:
        """Take the terminal event's form of a finished item; it has an effect only if it says more."""
        self.complete({key: value for key, value in item.items() if value not in _EMPTY_VALUES})
        whole = self._build("completed")
        if whole == self.finished:
            return []
        self.finished = whole
        return [ItemAmended(self.index, cast("Item", whole))]

    def is_compatible(self, item: WireObject) -> bool:
        """Whether the provider's item of the same type, under another id, can be this one: nothing contradicts."""
        if _differ(self.item.get("call_id"), item.get("call_id")):
            return False
        theirs = {(kind, part): whole for kind, part, whole in _texts_of(item) if whole}
        return all(theirs.get(key, text.shown).startswith(text.shown) for key, text in self._texts.items())

    def is_another_call(self, item: WireObject, item_id: str | None, output_index: int | None) -> bool:
        """Whether the provider gave a call the id of this one, which is whole: all else that is known differs."""
        if (
            not self._confirmed
            or self.output_index == output_index
            or (item_id and self.item.get("id") == item_id)
        ):
            return False
        if self.type != "function_call" or self.lacks_arguments:
            return False
        arguments = as_text(item.get("arguments"))
        return _differ(self.item.get("name"), item.get("name")) or (
            bool(arguments.strip()) and not _is_same_json(arguments, self._arguments())
        )

    def _stream_rest(self) -> list[Effect]:
        effects: list[Effect] = []
        for kind, index, text in _texts_of(self.item):
            effects += self.complete_text(text, kind=kind, part=index)
        if self.type == "message":
            for number, part in enumerate(_parts(self.item.get("content"))):
                for annotation in as_list(part.get("annotations")):
                    effects += self.add_annotation(annotation, part=number)
        return effects

    def _shown_texts(self, *kinds: TextKind) -> list[tuple[TextKind, int, str]]:
        shown = [(kind, part, text.shown) for (kind, part), text in self._texts.items() if kind in kinds]
        return sorted((entry for entry in shown if entry[2]), key=lambda entry: entry[1])

    def _arguments(self) -> str:
        whole = as_text(self.item.get("arguments"))
        streamed = self._texts.get((ARGUMENTS, 0))
        return whole if whole.strip() else streamed.shown if streamed else ""

    def _build(self, ending: Ending) -> WireObject:
        build = self._builders.get(self.type)
        item = build(self) if build else dict(self.item)
        if build or "status" in item:
            is_cut = ending == "incomplete" and (not self._confirmed or self.lacks_arguments)
            if is_cut or as_text(item.get("status")) in {"", "in_progress"}:
                item["status"] = ending
        return item

    def _build_message(self) -> WireObject:
        parts = [dict(part) for part in _parts(self.item.get("content"))]
        for kind, index, text in self._shown_texts(OUTPUT_TEXT, REFUSAL):
            while len(parts) <= index:
                parts.append({"type": "output_text", "text": "", "annotations": []})
            parts[index] = {**parts[index], "type": kind.part_type, kind.text_key: text}
        for number, part in enumerate(parts):
            known = self._annotations.get(number, {})
            if known or part.get("annotations"):
                part["annotations"] = list(known.values())
        return {**_without_unknown_phase(self.item), "role": "assistant", "content": parts}

    def _build_reasoning(self) -> WireObject:
        item = {**self.item, "summary": _parts(self.item.get("summary"))}
        for key, kind in _REASONING_PARTS.items():
            shown = self._shown_texts(kind)
            if shown and not _parts(item.get(key)):
                item[key] = [{"type": kind.part_type, "text": text} for _, _, text in shown]
        return item

    def _build_call(self) -> WireObject:
        item = {**self.item, "arguments": self._arguments()}
        if not item.get("call_id"):
            item["call_id"] = item.get("id") or ""
        if not as_text(item.get("name")) or not as_text(item["call_id"]):
            item["status"] = "incomplete"
        return item

    _builders: ClassVar[dict[str, Callable[[ItemDraft], WireObject]]] = {
        "message": _build_message,
        "reasoning": _build_reasoning,
        "function_call": _build_call,
    }


@dataclass(frozen=True, slots=True)
class ItemReference:
    """What an event says of its item: type, the provider's id and index, call id; `opens` for an `added`."""

    type: str
    id: str | None
    output_index: int | None
    call_id: str | None = None
    opens: bool = False


_REFERENCE_FIELDS: Final = ("call_id", "id", "output_index")


@dataclass(slots=True, eq=False, repr=False)
class ItemDrafts:
    """All items of one response, in the order in which they first appeared."""

    all: list[ItemDraft] = field(default_factory=list)
    _by_pair: dict[tuple[str, str | None, int | None], ItemDraft] = field(default_factory=dict)
    _by_field: dict[tuple[str, str, Any], ItemDraft] = field(default_factory=dict)

    def find_exact(self, ref: ItemReference) -> ItemDraft | None:
        """Return the item with this id at this index: the quick way, right for all but odd streams."""
        return self._by_pair.get((ref.type, ref.id, ref.output_index))

    def find(self, reference: ItemReference, item: WireObject) -> ItemDraft | None:
        """Return the item that the event means, None when it is a new one."""
        draft = self._find_similar(reference)
        if draft is None or draft.is_another_call(item, reference.id, reference.output_index):
            return None
        self._remember(draft, reference)
        return draft

    def is_repeated_call(self, item: WireObject, output_index: int) -> bool:
        """Whether the call is one of those that are known, under another id."""
        draft = self._by_field.get((item["type"], "call_id", as_text(item.get("call_id"))))
        return draft is not None and not draft.is_another_call(item, item.get("id"), output_index)

    def open(self, reference: ItemReference, item: WireObject) -> ItemDraft:
        """Begin a new item."""
        draft = ItemDraft(len(self.all), mend(item), reference.output_index)
        self.all.append(draft)
        self._remember(draft, reference)
        return draft

    def match(self, output: Sequence[WireObject]) -> dict[int, ItemDraft]:
        """Return the draft of each item of the whole output, the surest match first; new items have none."""
        matched: dict[int, ItemDraft] = {}
        for shared, fits in _MATCHES:
            free: dict[Hashable, list[ItemDraft]] = defaultdict(list)
            taken = set(map(id, matched.values()))
            for known in self.all:
                if id(known) not in taken and (key := _key(known.item, known.output_index, shared)):
                    free[key].append(known)
            for index, item in enumerate(output):
                if index in matched or not (key := _key(item, index, shared)):
                    continue
                candidates = islice(free[key], _MAX_CANDIDATES)
                draft = next((draft for draft in candidates if fits(draft, item, index)), None)
                if draft is not None:
                    matched[index] = draft
                    free[key].remove(draft)
        return matched

    def _find_similar(self, ref: ItemReference) -> ItemDraft | None:
        draft = self.find_exact(ref)
        if draft and (ref.id is not None or not draft.finished or not ref.opens):
            return draft
        same_call, same_id, same_index = (
            self._by_field.get((ref.type, name, getattr(ref, name))) for name in _REFERENCE_FIELDS
        )
        if same_call is not None:
            return same_call
        if same_id is not None and _has_moved(same_id, ref):
            return same_id
        return same_index if same_index is not None and _is_renamed(same_index, ref) else None

    def _remember(self, draft: ItemDraft, ref: ItemReference) -> None:
        if draft.output_index is None:
            draft.output_index = ref.output_index
        self._by_pair[ref.type, ref.id, ref.output_index] = draft
        for name in _REFERENCE_FIELDS:
            if (value := getattr(ref, name)) is not None:
                self._by_field[ref.type, name, value] = draft


def _has_moved(draft: ItemDraft, ref: ItemReference) -> bool:
    """Whether an id met again at another index is the same item, which moved; otherwise two items share the id."""
    if draft.output_index is None or ref.output_index is None or draft.output_index == ref.output_index:
        return True
    return not draft.finished and not ref.opens


def _is_renamed(draft: ItemDraft, ref: ItemReference) -> bool:
    """Whether an index met again under another id is the same item, whose id changed: only while it is open."""
    if ref.id is None:
        return not (draft.finished and ref.opens)
    if _differ(draft.item.get("call_id"), ref.call_id) or draft.finished:
        return False
    return draft.is_guess or not ref.opens


_MAX_CANDIDATES: Final = 20
"""How many drafts are looked at for one item: with thousands that all contradict each other, each is a new one."""


def _key(item: WireObject, output_index: int | None, shared: str) -> tuple[str, Hashable] | None:
    if shared in {"type", "index"}:
        return item["type"], output_index if shared == "index" else None
    name = as_text(item.get(shared))
    return (item["type"], name) if name else None


_Fits: TypeAlias = Callable[[ItemDraft, WireObject, int], bool]


def _fits(draft: ItemDraft, item: WireObject, _index: int) -> bool:
    return draft.is_compatible(item)


_MATCHES: Final[tuple[tuple[str, _Fits], ...]] = (
    ("call_id", _fits),
    ("call_id", lambda draft, item, index: not draft.is_another_call(item, item.get("id"), index)),
    ("id", lambda draft, _item, index: draft.output_index == index),
    ("id", lambda _draft, _item, _index: True),
    ("index", _fits),
    ("type", _fits),
)
"""What a draft and an item share beside their type, and what must hold besides; the surest first."""


def flat_annotation(wire: Any) -> WireObject | None:
    """Return a citation flat (some providers nest it) and as replay requires it.

    None if it is not an annotation, or leads elsewhere than into the web: a page makes a link of its address.
    """
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        return None
    is_citation = wire["type"] == _CITATION
    nested = wire.get(_CITATION)
    flat = {"type": _CITATION, **nested} if is_citation and isinstance(nested, dict) else wire
    url = as_text(flat.get("url"))
    if (is_citation or flat.get("url")) and not is_web_address(url):
        return None
    if not is_citation:
        return flat
    return {
        **flat,
        "type": _CITATION,
        "title": as_text(flat.get("title")) or url,
        "start_index": as_count(flat.get("start_index")) or 0,
        "end_index": as_count(flat.get("end_index")) or 0,
    }


def _merge(old: WireObject, new: WireObject) -> WireObject:
    """Return the newer form in its own order, with what only the older one knew; an empty value says nothing."""
    known = {key: value for key, value in old.items() if value not in _EMPTY_VALUES}
    newer = {key: known.get(key, value) if value in _EMPTY_VALUES else value for key, value in new.items()}
    return {**newer, **{key: value for key, value in known.items() if key not in newer}}


def _texts_of(item: WireObject) -> Iterator[tuple[TextKind, int, str]]:
    """Yield the texts within a whole item, by kind and part."""
    match item["type"]:
        case "message":
            for number, part in enumerate(_parts(item.get("content"))):
                kind = _MESSAGE_PARTS.get(str(part.get("type")))
                if kind and isinstance(text := part.get(kind.text_key), str):
                    yield kind, number, text
        case "reasoning":
            for key, kind in _REASONING_PARTS.items():
                for number, part in enumerate(_parts(item.get(key))):
                    if isinstance(text := part.get("text"), str):
                        yield kind, number, text
        case "function_call":
            if isinstance(text := item.get("arguments"), str):
                yield ARGUMENTS, 0, text


def _parts(content: Any) -> list[WireObject]:
    """Return the parts of a message or of reasoning; a bare string counts as one part of text."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}] if content else []
    return [part for part in as_list(content) if isinstance(part, dict)]


def _without_unknown_phase(message: WireObject) -> WireObject:
    """Return the message with its phase only if it is one that may be sent back."""
    if message.get("phase") is None or message["phase"] in PHASES:
        return message
    return {key: value for key, value in message.items() if key != "phase"}


def _is_same_json(one: str, other: str) -> bool:
    try:
        return bool(one == other or json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def _differ(one: Any, other: Any) -> bool:
    """Whether both are known, and not the same."""
    return bool(one) and bool(other) and one != other
