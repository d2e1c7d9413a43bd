"""The output items of one response under construction, and which of them an event means.

A draft joins the texts of its item with the whole item that arrives later: what was not streamed yet becomes one more
delta, and a message says in the end exactly what its deltas said. Reasoning stays as the provider sent it, because its
signature covers it. Providers number and name items in their own ways: an id may change between `added` and `done`, be
shared by several items, or be missing; `output_index` may have gaps or always be 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from .effects import TEXT_KINDS, Effect, ItemAmended, ItemFinished, ItemStarted, TextDelta, TextName
from .items import PHASES, Item, kind_of
from .values import (
    REPLACEMENT,
    as_count,
    as_list,
    as_text,
    is_web_address,
    mend,
    mend_text,
    read_json,
    split_pending,
)

WireObject: TypeAlias = dict[str, Any]
Ending = Literal["completed", "incomplete"]

_MESSAGE_TEXTS: Final[Mapping[str, TextName]] = {
    "output_text": "output_text",
    "text": "output_text",
    "refusal": "refusal",
}
"""The kinds of texts in a message, by what types their parts have."""
_REASONING_TEXTS: Final[Mapping[str, TextName]] = {"summary": "summary_text", "content": "reasoning_text"}
"""The kinds of texts in reasoning, by the field that holds their parts."""

_CITATION: Final = "url_citation"
_CITATION_KEYS: Final = ("url", "start_index", "end_index")
"""What two mentions of one citation share; its excerpt may follow later."""


class ItemReference(NamedTuple):
    """What an event says of its item: type, the provider's id and index, and its form, which an event of a text lacks.

    `opens` is true for an `added`.
    """

    type: str
    id: str | None
    output_index: int | None
    item: WireObject
    opens: bool = False

    @property
    def call_id(self) -> str | None:
        """The id of the call that it is, or answers."""
        return as_text(self.item.get("call_id")) or None


@dataclass(slots=True, eq=False, repr=False)
class ItemDraft:
    """An item between its first event and the end of the response.

    `index` is its position among our items, `output_index` the provider's, `item` the newest whole form that the
    provider sent, `finished` what was handed on as whole, `is_guess` true while only its texts were met.
    """

    index: int
    type: str
    output_index: int | None
    item: WireObject = field(default_factory=dict)
    finished: WireObject | None = None
    is_guess: bool = False
    _confirmed: bool = False
    _texts: dict[tuple[TextName, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    """By kind and part what was shown."""
    _halves: dict[tuple[TextName, int], str] = field(default_factory=dict)
    """Of these texts the halves of characters that wait for their partners."""
    _annotations: dict[int, dict[Hashable, WireObject]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def lacks_arguments(self) -> bool:
        """Whether this is a function call whose arguments are not known yet, though its item is done."""
        return self.type == "function_call" and read_json(self._arguments(), ...) is ...

    def start(self) -> ItemStarted:
        """Return the effect that opens the item: its first form, whose texts follow as deltas."""
        first = dict(self.item)
        match self.type:
            case "message":
                first["content"] = []
            case "reasoning":
                for key in ("content", "encrypted_content", "signature"):
                    first.pop(key, None)
                first["summary"] = []
            case "function_call":
                first["arguments"] = ""
        first["status"] = "in_progress"
        return ItemStarted(self.index, cast("Item", first))

    def add_text(self, delta: str, kind: TextName, part: int) -> list[Effect]:
        """Take more text of a part, and show it; the first half of a character waits for the other."""
        if self._halves or not delta.isascii():
            delta, half = split_pending(self._halves.pop((kind, part), "") + delta)
            if half:
                self._halves[kind, part] = half
        if not delta:
            return []
        self._texts[kind, part].append(delta)
        return [TextDelta(self.index, part, delta, kind)]

    def complete_text(self, whole: str, kind: TextName, part: int) -> list[Effect]:
        """Take the whole text of a part; if it continues what was shown, the rest of it becomes a delta."""
        whole, shown = mend_text(whole), self._shown(kind, part)
        if len(whole) <= len(shown) or not whole.startswith(shown):
            return []
        self._halves.pop((kind, part), None)
        return self.add_text(whole[len(shown) :], kind, part)

    def add_annotation(self, wire: Any, part: int) -> None:
        """Take an annotation of a part; one that is known may be more complete now."""
        if annotation := flat_annotation(mend(wire)):
            is_citation = annotation["type"] == _CITATION
            key = tuple(map(annotation.get, _CITATION_KEYS)) if is_citation else repr(annotation)
            self._annotations[part][key] = annotation

    def update(self, item: WireObject) -> None:
        """Take more of the item's form, in whose order it is from then on."""
        newer = mend(item)
        if self.type == "message" and newer.get("phase") not in (None, *PHASES):
            del newer["phase"]  # it could not be sent back
        self.item = {**newer, **_said(self.item), **_said(newer)}
        self.is_guess = False

    def complete(self, item: WireObject) -> list[Effect]:
        """Take the provider's whole item; the texts that were not streamed become deltas."""
        self.update(item)
        self._confirmed = True
        return self._rest()

    def _rest(self) -> list[Effect]:
        """The texts of the whole item that were not streamed; its annotations are noted."""
        effects: list[Effect] = []
        for kind, part, text in _texts_of(self.item):
            effects += self.complete_text(text, kind, part)
        if self.type == "message":
            for number, content in enumerate(_parts(self.item.get("content"))):
                for annotation in as_list(content.get("annotations")):
                    self.add_annotation(annotation, number)
        return effects

    def finish(self, ending: Ending) -> list[Effect]:
        """Close the item with what is known; `ending` is the status of what the provider did not close."""
        effects = self._rest()
        for kind, part in self._halves:
            self._texts[kind, part].append(REPLACEMENT)
            effects.append(TextDelta(self.index, part, REPLACEMENT, kind))
        if ending == "completed" and self.type == "function_call" and not self._arguments().strip():
            effects += self.add_text("{}", "arguments", 0)
        self.finished = self._build(ending)
        return [*effects, ItemFinished(self.index, cast("Item", self.finished))]

    def amend(self, item: WireObject) -> list[Effect]:
        """Take the terminal event's form of a finished item; it has an effect only if it says more."""
        self.complete(_said(item))
        whole = self._build("completed")
        if whole == self.finished:
            return []
        self.finished = whole
        return [ItemAmended(self.index, cast("Item", whole))]

    def is_compatible(self, ref: ItemReference) -> bool:
        """Whether the provider's item of the same type, under another id, can be this one: nothing contradicts."""
        if _differ(self.item.get("call_id"), ref.item.get("call_id")):
            return False
        whole = {(kind, part): text for kind, part, text in _texts_of(ref.item) if text}
        return all(whole[key].startswith(self._shown(*key)) for key in self._texts if key in whole)

    def is_another_call(self, ref: ItemReference) -> bool:
        """Whether the provider gave a call the id of this one, which is whole: all else that is known differs."""
        has_its_place = self.output_index == ref.output_index or (ref.id and self.item.get("id") == ref.id)
        if not self._confirmed or has_its_place or self.type != "function_call" or self.lacks_arguments:
            return False
        theirs = as_text(ref.item.get("arguments"))
        return _differ(self.item.get("name"), ref.item.get("name")) or (
            bool(theirs.strip()) and read_json(theirs, ...) != read_json(self._arguments())
        )

    def _shown(self, kind: TextName, part: int) -> str:
        chunks = self._texts.get((kind, part), [])
        if len(chunks) > 1:  # so that asking often does not join them often
            chunks[:] = ["".join(chunks)]
        return chunks[0] if chunks else ""

    def _arguments(self) -> str:
        whole = as_text(self.item.get("arguments"))
        return whole if whole.strip() else self._shown("arguments", 0)

    def _build(self, ending: Ending) -> WireObject:
        """The whole item; only one of an unknown type may have no status."""
        item = dict(self.item)
        match self.type:
            case "message":
                item |= {"role": "assistant", "content": self._content()}
            case "reasoning":
                item["summary"] = _parts(item.get("summary"))
                for key, kind in _REASONING_TEXTS.items():
                    numbers = sorted(part for name, part in self._texts if name == kind)
                    if numbers and not _parts(item.get(key)):
                        item[key] = [{"type": kind, "text": self._shown(kind, part)} for part in numbers]
            case "function_call":
                item |= {
                    "arguments": self._arguments(),
                    "call_id": item.get("call_id") or item.get("id") or "",
                }
                if not as_text(item.get("name")) or not as_text(item["call_id"]):
                    item["status"] = "incomplete"
            case _ if "status" not in item:
                return item
        is_cut = ending == "incomplete" and (not self._confirmed or self.lacks_arguments)
        if is_cut or as_text(item.get("status")) in {"", "in_progress"}:
            item["status"] = ending
        return item

    def _content(self) -> list[WireObject]:
        """The parts of a message, with the texts that were shown and the annotations that were met."""
        parts = [dict(part) for part in _parts(self.item.get("content"))]
        for kind, number in self._texts:
            while len(parts) <= number:
                parts.append({"type": "output_text", "text": "", "annotations": []})
            parts[number] |= {"type": kind, TEXT_KINDS[kind].text_key: self._shown(kind, number)}
        for number, part in enumerate(parts):
            known = self._annotations.get(number, {})
            if known or part.get("annotations"):
                part["annotations"] = list(known.values())
        return parts


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
            free: dict[Hashable, list[ItemDraft]] = defaultdict(list)
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
    if _differ(draft.item.get("call_id"), ref.call_id) or draft.finished:
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


def _said(item: WireObject) -> WireObject:
    """What a form of an item says: an empty value says nothing beside one that was known before."""
    return {key: value for key, value in item.items() if value not in (None, "", [])}


def _texts_of(item: WireObject) -> Iterator[tuple[TextName, int, str]]:
    """Yield the texts within a whole item, by kind and part."""
    match item["type"]:
        case "message":
            for number, part in enumerate(_parts(item.get("content"))):
                kind = _MESSAGE_TEXTS.get(str(part.get("type")))
                if kind and isinstance(text := part.get(TEXT_KINDS[kind].text_key), str):
                    yield kind, number, text
        case "reasoning":
            for key, kind in _REASONING_TEXTS.items():
                for number, part in enumerate(_parts(item.get(key))):
                    if isinstance(text := part.get("text"), str):
                        yield kind, number, text
        case "function_call":
            if isinstance(text := item.get("arguments"), str):
                yield "arguments", 0, text


def _parts(content: Any) -> list[WireObject]:
    """Return the parts of a message or of reasoning; a bare string counts as one part of text."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}] if content else []
    return [part for part in as_list(content) if isinstance(part, dict)]


def _differ(one: Any, other: Any) -> bool:
    """Whether both are known, and not the same."""
    return bool(one) and bool(other) and one != other
