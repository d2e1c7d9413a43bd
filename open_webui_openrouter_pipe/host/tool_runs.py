"""Runs tools of the host as it does in its own loop, by its own functions.

What they return becomes the same item of the output, with the same files, pages, sources and events of a terminal. Not
here: approvals, questions to the user, tools of the page, agents of the host, and arguments that it has to mend.
Source: `process_chat_response` and `resume_tool_calls` in `utils/middleware.py` of Open WebUI 0.12; arguments are
checked by the package that its client for MCP uses.

Of a tool that the host itself runs it is said when its user has stopped it: the page draws such a call like one that
was done, and the host calls no function of ours then. But it runs what stands among the tools of the request, by the
callable's own function where that names one: so a tool that is called is wrapped there. A tool that is no coroutine is
over before anybody can stop it; the page's own do not run here. Source: `execute_tool_call` in `utils/middleware.py`
and `get_updated_tool_function` in `utils/tools.py`, since 0.12.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from ..ports import ToolAnswered
from ..responses.items import FunctionCall
from ..responses.values import as_list, as_object, as_text, read_json

_HOST_ALONE: Final = frozenset({"ask_user", "delegate_task"})
"""A question, for which it stops; and agents, which it runs side by side and without a limit."""
_NEEDED: Final = """
UserModel CITATION_TOOL_NAMES _is_tool_result_error build_terminal_file_tool_result execute_tool_call
convert_url_images_to_base64 get_citation_source_from_tool_result process_tool_result store_tool_result_image
terminal_event_handler tool_result_content
"""
_MAX_COMPLAINT_CHARACTERS: Final = 1_000
"""It may quote the arguments."""
_WATCHED: Final = "__openrouter_watched__"

log = logging.getLogger(__name__)


def middleware() -> Any:
    """Return the host's module, None where it lacks anything that is needed: before Open WebUI 0.12.2."""
    from open_webui.utils import middleware as module

    return module if all(hasattr(module, name) for name in _NEEDED.split()) else None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HostToolRunner:
    """The tools of one call of the host; `host` is its module, the others are as it passes them to a pipe."""

    host: Any
    metadata: Mapping[str, Any]
    request: Any
    user: Mapping[str, Any]
    messages: Sequence[Mapping[str, Any]]
    emit: Callable[[dict[str, Any]], Awaitable[None]]

    @property
    def most_rounds(self) -> int | None:
        """How many responses of an answer may call tools, None for any number: a limit of its agents, or of all."""
        of_all = getattr(self.host, "CHAT_RESPONSE_MAX_TOOL_CALL_ITERATIONS", None)
        most: int | None = getattr(getattr(self.request, "state", None), "max_tool_call_iterations", of_all)
        return most

    def can_run(self, calls: Sequence[FunctionCall]) -> bool:
        """Return whether all of these can run here: none of them needs what the host alone can do."""
        asked = as_object(self.metadata.get("params")).get("tool_approval_mode", "full") != "full"
        return not asked and all(_may_run(self._tool(call), call) for call in calls)

    async def run(self, call: FunctionCall) -> ToolAnswered:
        """Run the tool of a call as the host would; a failure is an answer, too."""
        host, metadata, tool, name = self.host, self.metadata, self._tool(call), call["name"]
        if complaint := "; ".join(_complaints(tool, _arguments(call) or {})):
            text = f"Error: the arguments do not fit the tool, which was not called. {complaint}"
            return ToolAnswered(call, text[:_MAX_COMPLAINT_CHARACTERS], shown={"status": "failed"})
        asked = {"id": call["call_id"], "function": {"name": name, "arguments": call["arguments"]}}
        given, result, _, kind, direct = await host.execute_tool_call(
            {"messages": [*self.messages]}, metadata, None, asked
        )
        result = host.build_terminal_file_tool_result(name, given, result, tool, metadata) or result
        user = host.UserModel(**self.user)
        result, files, pages = await host.process_tool_result(
            self.request, name, result, kind, direct, metadata, user
        )
        try:
            await host.terminal_event_handler(name, given, result, self.emit)
            await self._cite(tool, name, given, result)
        except Exception:  # what the page misses is no reason to lose the result
            log.exception("what a tool has returned is not shown as the host shows it")
        text, shown = host.tool_result_content(result), list[Any]()
        parts = [{"type": "input_text", "text": text}]
        for file in files:
            url, is_picture = as_text(file.get("url")), file.get("type") == "image"
            if is_picture and url.startswith("data:"):
                url = await host.store_tool_result_image(self.request, url, metadata, user)
            else:
                shown.append(file)
            parts += [{"type": "input_image", "image_url": url}] if is_picture and url else []
        item = {
            "status": "failed" if host._is_tool_result_error(text) else "completed",  # noqa: SLF001
            "output": parts,
            **({"files": shown} if shown else {}),
            **({"embeds": pages} if pages else {}),
        }
        sent = await host.convert_url_images_to_base64({"messages": [{"content": parts}]}, user=user)
        return ToolAnswered(call, sent["messages"][0]["content"], item)

    def _tool(self, call: FunctionCall) -> Mapping[str, Any]:
        return as_object(as_object(self.metadata.get("tools")).get(call["name"]))

    async def _cite(self, tool: Mapping[str, Any], name: str, given: Any, result: Any) -> None:
        """Name the sources of a result, unless the model's administrator does not want any."""
        model: Any = self.metadata
        for key in ("model", "info", "meta", "capabilities"):
            model = as_object(model.get(key))
        if result and name in self.host.CITATION_TOOL_NAMES and model.get("citations", True):
            for source in self.host.get_citation_source_from_tool_result(
                tool_name=name, tool_params=given, tool_result=result, tool_id=as_text(tool.get("tool_id"))
            ):
                await self.emit({"type": "source", "data": source})


def _arguments(call: FunctionCall) -> Any:
    """The arguments of a call, None where they are no JSON."""
    return read_json(call["arguments"].strip() or "{}")


def _may_run(tool: Mapping[str, Any], call: FunctionCall) -> bool:
    """Whether the call needs nothing of the host but its functions; to a tool that asks, the way to is bound."""
    function = tool.get("callable")
    asks = "__event_call__" in as_object(getattr(function, "__extra_params__", None))
    is_here = callable(function) and not tool.get("direct") and not asks
    return is_here and call["name"] not in _HOST_ALONE and isinstance(_arguments(call), dict)


def _complaints(tool: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of the arguments does not fit the tool's schema.

    The host omits what is not in it and reads numbers from texts and back, but for MCP; models write null for what
    they leave out.
    """
    from jsonschema import Draft202012Validator
    from referencing import Registry

    schema, is_mcp = as_object(as_object(tool.get("spec")).get("parameters")), tool.get("type") == "mcp"
    known, required = as_object(schema.get("properties")), as_list(schema.get("required"))
    read = {
        name: value
        for name, value in given.items()
        if (is_mcp or name in known) and (value is not None or name in required)
    }
    try:
        errors = [*Draft202012Validator(schema, registry=Registry()).iter_errors(read)]
    except Exception:  # noqa: BLE001 - of a schema that is none, or refers to others; the tool says what is wrong
        return
    for error in errors:
        is_scalar = isinstance(error.instance, str | int | float) and not isinstance(error.instance, bool)
        if error.validator not in {"type", "anyOf"} or not is_scalar or is_mcp:
            yield f"{error.json_path}: {error.message}"


def watch_tools(tools: Any, names: Iterable[str], say: Callable[[str], Awaitable[None]]) -> None:
    """Have `say` called with the name of each of these tools that is stopped; once, however often it is called."""
    for name in names:
        tool = as_object(as_object(tools).get(name))
        call = tool.get("callable")
        if iscoroutinefunction(call) and not hasattr(call, _WATCHED):
            tool["callable"] = watched = _telling(call, name, say)
            setattr(watched, _WATCHED, True)
            if iscoroutinefunction(function := getattr(call, "__function__", None)):
                setattr(watched, "__function__", _telling(function, name, say))  # noqa: B010 - the host's own


def _telling(
    function: Callable[..., Awaitable[Any]], name: str, say: Callable[[str], Awaitable[None]]
) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def telling(*given: Any, **named: Any) -> Any:
        try:
            return await function(*given, **named)
        except asyncio.CancelledError:
            await asyncio.shield(say(name))
            raise

    return telling
