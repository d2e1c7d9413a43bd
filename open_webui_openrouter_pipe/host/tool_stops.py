"""Says of a tool of the host that its user has stopped it.

The page draws a call that was stopped like one that was done, and the host calls no function of ours then. But it
runs what stands among the tools of the request, by the callable's own function where that names one: so a tool that is
called is wrapped there. A tool that is no coroutine is over before anybody can stop it; the page's own do not run here.
Source: `execute_tool_call` in `utils/middleware.py` and `get_updated_tool_function` in `utils/tools.py`, since 0.12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from ..responses.values import as_object

Say: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows the user that the tool of a name was stopped."""

_WATCHED = "__openrouter_watched__"


def watch_tools(tools: Any, names: Iterable[str], say: Say) -> None:
    """Have the user told when one of these tools is stopped; once for each, however often it is called."""
    for name in names:
        tool = as_object(as_object(tools).get(name))
        call = tool.get("callable")
        if iscoroutinefunction(call) and not hasattr(call, _WATCHED):
            tool["callable"] = watched = _telling(call, name, say)
            setattr(watched, _WATCHED, True)
            if iscoroutinefunction(function := getattr(call, "__function__", None)):
                setattr(watched, "__function__", _telling(function, name, say))  # noqa: B010 - the host's own


def _telling(function: Callable[..., Awaitable[Any]], name: str, say: Say) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def telling(*given: Any, **named: Any) -> Any:
        try:
            return await function(*given, **named)
        except asyncio.CancelledError:
            await asyncio.shield(say(name))
            raise

    return telling
