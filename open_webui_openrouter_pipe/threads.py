"""Work on large values runs in a thread: no other request is served while the event loop works itself.

Owns from what size on a value is large. A small request does not pay for a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

LARGE_CHARACTERS: Final = 200_000
"""From here on work on a value takes longer than the event loop may wait (about 10 ms)."""
MEMBER_CHARACTERS: Final = 150
"""What looking at a member of a list or an object takes, in characters of a text."""

_Result = TypeVar("_Result")


def is_large(value: object) -> bool:
    """Return whether work on a JSON value may take so long that others notice it; looks no further than it must."""
    waiting, characters = [value], 0
    while waiting:
        each = waiting.pop()
        inner: Iterable[object] = each if isinstance(each, list | tuple) else ()
        waiting += each.values() if isinstance(each, Mapping) else inner
        characters += MEMBER_CHARACTERS + (len(each) if isinstance(each, str) else 0)
        if characters + MEMBER_CHARACTERS * len(waiting) > LARGE_CHARACTERS:
            return True
    return False


async def apart(value: object, work: Callable[[], _Result]) -> _Result:
    """Do work on a JSON value: in a thread where the value is large, and otherwise at once."""
    return await asyncio.to_thread(work) if is_large(value) else work()
