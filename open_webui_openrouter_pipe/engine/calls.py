"""Makes a round's calls fit for the host: ids that nothing else uses, names that the host gave its tools.

Some providers number their calls anew in each response. The host takes a repeated id for a call that it has
already run, and pairs would mix on replay; so an id that is taken is replaced before anyone sees it. Names that
had to be changed for the wire are changed back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from ..responses.items import Item


class Calls:
    """The calls of one round, by the index of their item."""

    def __init__(
        self, taken: Iterable[str], *, names: Callable[[str], str], new_id: Callable[[], str]
    ) -> None:
        """`taken` are the call ids of the request's input, `names` gives the host's name for the wire's."""
        self._taken = set(taken)
        self._names = names
        self._new_id = new_id
        self._by_index: dict[int, str] = {}
        self._replaced: dict[str, str] = {}

    def settle(self, index: int, item: Item) -> Item:
        """Give the item as it is, or with the id and name that the host needs; always the same for an index."""
        fields = cast("Mapping[str, Any]", item)
        changes: dict[str, Any] = {}
        if isinstance(call_id := fields.get("call_id"), str):
            changes["call_id"] = self._settled_id(index, call_id, is_output=item["type"].endswith("_output"))
        if item["type"] == "function_call":
            changes["name"] = self._names(fields.get("name") or "")
        if all(fields.get(key) == value for key, value in changes.items()):
            return item
        return cast("Item", {**fields, **changes})

    def _settled_id(self, index: int, call_id: str, *, is_output: bool) -> str:
        """An output that the provider made itself keeps the id of its call, whatever became of it."""
        if index not in self._by_index:
            self._by_index[index] = self._replaced.get(call_id, call_id) if is_output else self._new(call_id)
        return self._by_index[index]

    def _new(self, call_id: str) -> str:
        settled = call_id
        if call_id in self._taken:
            settled = self._replaced[call_id] = f"call_{self._new_id()}"
        self._taken.add(settled)
        return settled
