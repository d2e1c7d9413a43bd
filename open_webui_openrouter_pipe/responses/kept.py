"""JSON objects that nobody changes, with what was found of each.

What follows from the content of an object that comes back with each request, such as its name or its bytes, is found
once as long as the object is kept. Of any other object it is found anew each time, and is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

Value = TypeVar("Value")


class Kept(dict[str, Any]):
    """A JSON object that is never changed, with what was found of it, by what has found it.

    `size_bytes` is what it takes, about, with all that may be found of it.
    """

    __slots__ = ("found", "size_bytes")

    def __init__(self, value: Mapping[str, object], size_bytes: int = 0) -> None:
        super().__init__(value)
        self.found: dict[Callable[[Any], Any], Any] = {}
        self.size_bytes = size_bytes


def once(find: Callable[[Any], Value], value: Any) -> Value:
    """Return what a function finds of a JSON value: of a kept one it is found once."""
    if type(value) is not Kept:
        return find(value)
    if find not in value.found:
        value.found[find] = find(value)
    return cast("Value", value.found[find])
