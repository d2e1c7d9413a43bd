"""Work on large values runs in a thread: no other request is served while the event loop works itself.

Owns from what size on a value is large. A small request does not pay for a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .responses.values import Kept

LARGE_CHARACTERS: Final = 200_000
"""From here on work on a value takes longer than the event loop may wait (about 10 ms)."""
MEMBER_CHARACTERS: Final = 150
"""What looking at a member of a list or an object takes, in characters of a text."""
READING_CHARACTERS: Final = 4 * LARGE_CHARACTERS
"""The same for reading messages, which takes a quarter of what naming, counting or writing them takes."""

_Result = TypeVar("_Result")


def is_large(
    value: object, found: Callable[[Any], object] | None = None, limit_characters: int = LARGE_CHARACTERS
) -> bool:
    """Return whether work on a JSON value may take so long that others notice it; looks no further than it must.

    What is to be `found` of objects, and was found of a kept one already, takes no work.
    """
    members, characters = [value], 0
    for each in members:  # and what is added meanwhile
        if isinstance(each, str):
            characters += len(each)
        elif isinstance(each, dict):
            if type(each) is not Kept or found not in each.found:
                members += each.values()
        elif isinstance(each, list | tuple):
            members += each
        if characters + MEMBER_CHARACTERS * len(members) > limit_characters:
            return True
    return False


async def apart(
    value: object,
    work: Callable[[], _Result],
    *,
    found: Callable[[Any], object] | None = None,
    limit_characters: int = LARGE_CHARACTERS,
) -> _Result:
    """Do work on a JSON value: in a thread where that is large, as `is_large` says, and otherwise at once."""
    return await asyncio.to_thread(work) if is_large(value, found, limit_characters) else work()
