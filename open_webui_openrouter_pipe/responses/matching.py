"""Which of a response's items an event means.

Providers number and name items in their own ways: an id may change between `added` and `done`, be shared by several
items, or be missing; `output_index` may have gaps or always be 0. What an item becomes is decided in `drafts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from .drafts import ItemDraft, ItemReference, differ
from .effects import Effect
from .items import kind_of
from .values import as_text


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
