"""A bounded cache of what follows from an item's content, kept by whoever serves many requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ContentCache(Generic[Value]):
    """Values by key, in two generations: when the young one is full, the old one is dropped.

    Several threads may use it at once; at worst a value is computed twice.
    """

    def __init__(self, limit: int = 32_768, size_of: Callable[[Value], int] | None = None) -> None:
        """Hold values of at most `limit` in all: so many of them, or of such a size by `size_of`."""
        self._half = max(1, limit // 2)
        self._size_of = size_of
        self._young_size = 0
        self._young: dict[bytes, Value] = {}
        self._old: dict[bytes, Value] = {}

    def __len__(self) -> int:
        return len(self._young) + sum(key not in self._young for key in self._old)

    def get(self, key: bytes) -> Value | None:
        """Return the value of a key, None when it is not cached."""
        young, old = self._young, self._old
        if (found := young.get(key)) is not None:
            return found
        return None if (found := old.get(key)) is None else self.put(key, found)

    def put(self, key: bytes, value: Value) -> Value:
        """Cache a value and return it."""
        size = 1 if self._size_of is None else self._size_of(value)
        if self._young_size + size > self._half:
            self._young, self._old, self._young_size = {}, self._young, 0
        self._young_size += size
        self._young[key] = value
        return value

    def get_or_compute(self, key: bytes, compute: Callable[[], Value]) -> Value:
        """Return the cached value of a key, computing and caching it if needed."""
        found = self.get(key)
        return self.put(key, compute()) if found is None else found


def cache_key(*parts: str) -> bytes:
    """Return a key of names that have no line breaks, such as ids; any text is taken."""
    return "\n".join(parts).encode("utf-8", "surrogatepass")
