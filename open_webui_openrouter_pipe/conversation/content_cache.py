"""A bounded memory for things that follow from an item's content.

Owns forgetting: it holds at most `limit` values and lets go of those not asked for recently. It knows
nothing of what it holds; it is made and kept by whoever plans many requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ContentCache(Generic[Value]):
    """Values by content digest, in two generations: when the young one is full, the old one is forgotten.

    Several threads may use it at once; the worst that happens is that a value is made again.
    """

    def __init__(self, limit: int = 32_768) -> None:
        """Hold at most `limit` values."""
        self._half = max(1, limit // 2)
        self._young: dict[bytes, Value] = {}
        self._old: dict[bytes, Value] = {}

    def __len__(self) -> int:
        return len(self._young) + sum(key not in self._young for key in self._old)

    def get(self, key: bytes) -> Value | None:
        """The remembered value, None when there is none."""
        young, old = self._young, self._old
        if (found := young.get(key)) is not None:
            return found
        return None if (found := old.get(key)) is None else self.put(key, found)

    def put(self, key: bytes, value: Value) -> Value:
        """Remember a value and give it back."""
        if len(self._young) >= self._half:
            self._young, self._old = {}, self._young
        self._young[key] = value
        return value

    def get_or_compute(self, key: bytes, make: Callable[[], Value]) -> Value:
        """The remembered value, or the one that `make` gives."""
        found = self.get(key)
        return self.put(key, make()) if found is None else found
