"""An output item of a response under construction.

A draft joins the texts of its item with the whole item that arrives later: what was not streamed yet becomes one more
delta, and a message says in the end exactly what its deltas said. Reasoning stays as the provider sent it, because its
signature covers it. Which item an event means is decided in `reducer`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from .effects import TEXT_KINDS, Effect, ItemAmended, ItemFinished, ItemStarted, TextDelta, TextName
from .items import PHASES, Item
from .values import (
    CITATION,
    REPLACEMENT,
    as_list,
    as_text,
    flat_annotation,
    mend,
    mend_text,
    read_json,
    split_pending,
)

WireObject: TypeAlias = dict[str, Any]
Ending = Literal["completed", "incomplete"]
Place: TypeAlias = tuple[TextName, int]
"""Where a text stands in its item: of which kind it is, and of which part."""

_CITATION_KEYS: Final = ("url", "start_index", "end_index")
"""What two mentions of one citation share; its excerpt may follow later."""
_FIELDS: Final[Mapping[str, Mapping[str, TextName | None]]] = {
    "message": {"content": None},
    "reasoning": {"summary": "summary_text", "content": "reasoning_text"},
}
"""The fields of parts with text by the type of their item; of which kind it is, unless a part's type says that."""
_NAMES: Final[Mapping[str, TextName]] = {
    "text": "output_text",
    "output_text": "output_text",
    "refusal": "refusal",
}
"""The kinds of text in a message by the types of its parts."""


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
    _texts: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """What was shown."""
    _halves: dict[Place, str] = field(default_factory=dict)
    """Of these texts the halves of characters that wait for their partners."""
    _annotations: dict[int, dict[Hashable, WireObject]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def lacks_arguments(self) -> bool:
        """Whether this is a function call whose arguments are not known yet, though its item is done."""
        return self.type == "function_call" and read_json(self._arguments(), ...) is ...

    def start(self) -> ItemStarted:
        """Return the effect that opens the item: its first form, whose texts follow as deltas."""
        first = {**self.item, "status": "in_progress"}
        match self.type:
            case "message":
                first["content"] = []
            case "reasoning":
                for key in ("content", "encrypted_content", "signature"):
                    first.pop(key, None)
                first["summary"] = []
            case "function_call":
                first["arguments"] = ""
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
            is_citation = annotation["type"] == CITATION
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
        for place, text in _texts_of(self.item):
            effects += self.complete_text(text, *place)
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
        if differ(self.item.get("call_id"), ref.item.get("call_id")):
            return False
        texts = _texts_of(ref.item)
        return all(text.startswith(self._shown(*place)) for place, text in texts if place in self._texts)

    def is_another_call(self, ref: ItemReference) -> bool:
        """Whether the provider gave a call the id of this one, which is whole: all else that is known differs."""
        has_its_place = self.output_index == ref.output_index or (ref.id and self.item.get("id") == ref.id)
        if not self._confirmed or has_its_place or self.type != "function_call" or self.lacks_arguments:
            return False
        theirs = as_text(ref.item.get("arguments"))
        return differ(self.item.get("name"), ref.item.get("name")) or (
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
                for key, kind in _FIELDS["reasoning"].items():
                    known = sorted(place for place in self._texts if place[0] == kind)
                    if known and not _parts(item.get(key)):
                        item[key] = [{"type": kind, "text": self._shown(*place)} for place in known]
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


def _said(item: WireObject) -> WireObject:
    """What a form of an item says: an empty value says nothing beside one that was known before."""
    return {key: value for key, value in item.items() if value not in (None, "", [])}


def _texts_of(item: WireObject) -> Iterator[tuple[Place, str]]:
    """Yield the texts within a whole item that are not empty."""
    for key, kind in _FIELDS.get(item["type"], {}).items():
        for number, part in enumerate(_parts(item.get(key))):
            name = kind or _NAMES.get(as_text(part.get("type")))
            if name and (text := as_text(part.get(TEXT_KINDS[name].text_key))):
                yield (name, number), text
    if item["type"] == "function_call" and (text := as_text(item.get("arguments"))):
        yield ("arguments", 0), text


def _parts(content: Any) -> list[WireObject]:
    """Return the parts of a message or of reasoning; a bare string counts as one part of text."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}] if content else []
    return [part for part in as_list(content) if isinstance(part, dict)]


def differ(one: Any, other: Any) -> bool:
    """Whether both are known, and not the same."""
    return bool(one) and bool(other) and one != other
