"""Which item an event speaks of.

Providers number and name their items in their own ways: an id may change between `added` and `done`, be
shared by several items, or be missing; `output_index` may have gaps or always be 0. Owns the drafts of one
response and the rules that find the right one; what happens to it is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .assembly import Draft, Wire


@dataclass(frozen=True, slots=True)
class Reference:
    """What an event says of its item: type, provider's id and place, call id; `opens` for an `added`."""

    kind: str
    id: str | None
    place: int | None
    call_id: str | None = None
    opens: bool = False


def word(value: Any) -> str | None:
    """A text that can name something."""
    return value if isinstance(value, str) and value else None


def number(value: Any) -> int | None:
    """A count from 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class Drafts:
    """All items of one response, in the order in which they first appeared."""

    __slots__ = ("_by_call", "_by_id", "_by_pair", "_by_place", "all")

    def __init__(self) -> None:
        """Begin without items."""
        self.all: list[Draft] = []
        self._by_pair: dict[tuple[str, str | None, int | None], Draft] = {}
        self._by_id: dict[tuple[str, str], Draft] = {}
        self._by_place: dict[tuple[str, int], Draft] = {}
        self._by_call: dict[tuple[str, str], Draft] = {}

    def exact(self, kind: str, item_id: str | None, place: int | None) -> Draft | None:
        """The item that carries this id at this place: the quick way, right for all but odd streams."""
        return self._by_pair.get((kind, item_id, place))

    def find(self, reference: Reference) -> Draft | None:
        """The item that the event speaks of, None when it is a new one."""
        draft = self._found(reference)
        if draft is not None:
            self._remember(draft, reference)
        return draft

    def open(self, reference: Reference, item: Wire) -> Draft:
        """Begin a new item."""
        draft = Draft(len(self.all), item, place=reference.place)
        self.all.append(draft)
        self._remember(draft, reference)
        return draft

    def match(self, output: Sequence[Wire]) -> dict[int, Draft]:
        """Give each item of the whole output its draft, the surest likeness first; new items are left out."""
        matched: dict[int, Draft] = {}
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

    def _found(self, ref: Reference) -> Draft | None:
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

    def _remember(self, draft: Draft, ref: Reference) -> None:
        if draft.place is None:
            draft.place = ref.place
        self._by_pair[ref.kind, ref.id, ref.place] = draft
        if ref.id:
            self._by_id[ref.kind, ref.id] = draft
        if ref.place is not None:
            self._by_place[ref.kind, ref.place] = draft
        if ref.call_id:
            self._by_call[ref.kind, ref.call_id] = draft


def _is_same_id(draft: Draft, ref: Reference) -> bool:
    """An id met again at another place: the place moved if the item is open, otherwise the id is shared."""
    if draft.place is None or ref.place is None or draft.place == ref.place:
        return True
    return not draft.finished and not ref.opens


def _is_same_place(draft: Draft, ref: Reference) -> bool:
    """A place met again under another id: the id changed if the item is still open."""
    if ref.id is None:
        return not (draft.finished and ref.opens)
    if _differ(draft.item.get("call_id"), ref.call_id) or draft.finished:
        return False
    return draft.is_guess or not ref.opens


def _differ(ours: Any, theirs: Any) -> bool:
    return bool(ours) and bool(theirs) and ours != theirs


Likeness: TypeAlias = Callable[[Draft, Wire, int], bool]


def _same_call(draft: Draft, item: Wire, _position: int) -> bool:
    call_id = item.get("call_id")
    return bool(call_id) and draft.kind == item["type"] and draft.item.get("call_id") == call_id


def _same_id_and_place(draft: Draft, item: Wire, position: int) -> bool:
    return draft.place == position and _same_id(draft, item, position)


def _same_id(draft: Draft, item: Wire, _position: int) -> bool:
    item_id = item.get("id")
    return bool(item_id) and draft.kind == item["type"] and draft.item.get("id") == item_id


def _same_place(draft: Draft, item: Wire, position: int) -> bool:
    return draft.place == position and draft.may_be(item)


def _same_content(draft: Draft, item: Wire, _position: int) -> bool:
    return draft.may_be(item)


_LIKENESS: tuple[Likeness, ...] = (_same_call, _same_id_and_place, _same_id, _same_place, _same_content)
