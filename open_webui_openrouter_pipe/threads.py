"""Work on large values runs in a thread: no other request is served while the event loop works itself.

Owns from what size on a value is large. A small request does not pay for a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

LARGE_CHARACTERS: Final = 200_000
"""From here on work on a value takes longer than the event loop may wait (about 10 ms)."""
MEMBER_CHARACTERS: Final = 150
"""What looking at a member of a list or an object takes, in characters of a text."""

_Result = TypeVar("_Result")


def is_large(value: object) -> bool:
    """Return whether work on a JSON value may take so long that others notice it; looks no further than it must."""
    members, characters = [value], 0
    for each in members:  # and what is added meanwhile
        if isinstance(each, str):
            characters += len(each)
        elif isinstance(each, dict):
            members += each.values()
        elif isinstance(each, list | tuple):
            members += each
        if characters + MEMBER_CHARACTERS * len(members) > LARGE_CHARACTERS:
            return True
    return False


async def apart(value: object, work: Callable[[], _Result]) -> _Result:
    """Do work on a JSON value: in a thread where the value is large, and otherwise at once."""
    return await asyncio.to_thread(work) if is_large(value) else work()
