"""One frame's text becomes an event: a JSON object whose `type` is a string.

Owns the parsing and the naming of what comes without a type; what an event means is the reducer's business.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import StreamBroken


def parse_event(frame: str) -> dict[str, Any]:
    """Read a frame as an event.

    An object without a type is an "error" when it holds one, the end of a response when it is one, and
    otherwise of the empty type, which the reducer ignores.

    Raises:
        StreamBroken: the frame is not a JSON object.
    """
    try:
        event = json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise _unreadable(frame) from error
    if not isinstance(event, dict):
        raise _unreadable(frame)
    return event if isinstance(event.get("type"), str) else _named(event)


def terminal_event(response: dict[str, Any]) -> dict[str, Any]:
    """The event that a whole response object, or an error body, amounts to."""
    if response.get("object") == "response" or isinstance(response.get("output"), list):
        return {"type": "response.completed", "response": response}
    return {**response, "type": "error"}


def _named(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("error") or event.get("object") == "response":
        return terminal_event(event)
    return {**event, "type": ""}


def _unreadable(frame: str) -> StreamBroken:
    return StreamBroken(
        "OpenRouter sent something that is not a part of an answer. Please try again.",
        detail=f"unreadable event of {len(frame)} characters",
    )
