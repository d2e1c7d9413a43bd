"""From which request on a chat is offered the tool that finds what was removed from it.

That is the first request that lacks anything, since its prefix usually changes anyway; from then on the tool stays, at
its place behind all others. Its size is reserved from the first request on, so that its coming moves no cutoff.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..conversation.conversation import Tool
from ..recall.tool import RECALL_NAME
from .detail import DetailLevel, PartsByDetail
from .recalled import parts_removed
from .simulate import Cutoffs, PrefixBreak

UNOFFERED = frozenset({RECALL_NAME})


def lacks_something(parts: PartsByDetail, cutoffs: Cutoffs, end: int) -> bool:
    """Return whether anything of the parts before `end` is not sent as it is."""
    return next(parts_removed(parts, cutoffs, end), None) is not None


def without_recall(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the other tools."""
    return tuple(tool for tool in tools if tool.get("name") != RECALL_NAME)


def with_arrival(breaks: Sequence[PrefixBreak], parts: PartsByDetail) -> tuple[PrefixBreak, ...]:
    """Return the changes of a chat that is offered the tool, with its arrival.

    It needs none of its own where it came with another change, as it does unless the first thing that a request
    lacked was the middle of a long output on its arrival.
    """
    capped = (parts.entries(DetailLevel.FULL, at) != part.entries for at, part in enumerate(parts.parts))
    first = next((at for at, is_capped in enumerate(capped) if is_capped), None)
    if first is None:
        return tuple(breaks)
    ends = range(first + 1, len(parts.parts) + 1)
    request = next((end for end in ends if parts.parts[end - 1].awaits_answer), len(parts.parts))
    if any(each.request <= request for each in breaks):
        return tuple(breaks)
    return PrefixBreak(request, parts.parts[request - 1].turn, "recall", 0), *breaks
