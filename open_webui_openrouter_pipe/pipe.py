"""What Open WebUI loads: the manifold `Pipe` with its valves. Thin: it parses the call, and renders the answer.

Nothing is derived from the name under which it is loaded, and nothing happens at import.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final

from . import valves
from .app import App, build_app
from .conversation.conversation import ContentCache
from .errors import PipeError
from .host.call import Call, read_call
from .host.chunks import ChunkWriter, CompletionWriter, chunk_response, error_object, error_response
from .host.model_rows import function_id
from .host.native import ChannelWriter, HostEvent, NativeWriter, PageWriter, status_event
from .host.platform import stored_user_valves
from .host.tagged_code import TaggedCodeWriter
from .host.tool_stops import watch_tools
from .host.wording import EventCall, EventEmitter, page_question, user_language, worded
from .money.prices import dollars
from .ports import Failed
from .responses.values import as_object, as_text
from .settings import Settings, bound_key, read_settings
from .turn.recorder import generate_item_id
from .turn.runner import report_failure
from .valves import PROTECTIONS, StoredUserValves, UserValves, user_valves_class
from .words.lines import ENGLISH, Language, in_language, notice

MAX_REMEMBERED_SETTINGS: Final = 256

_log = logging.getLogger(__name__)


class Pipe:
    """Every OpenRouter model in Open WebUI, over the Responses API."""

    Valves = valves.HostValves

    def __init__(self, build: Callable[[], App] = build_app) -> None:
        """Called by the host, without arguments, once per worker and version; `build` creates the app on first use."""
        self.type = "manifold"
        self.name = ""
        self.valves: valves.Valves = self.Valves()
        self._reported: tuple[str, ...] = ()
        self._settings = ContentCache[Settings](MAX_REMEMBERED_SETTINGS)
        """By the values of all valves that they are read from, and their user."""
        self._build = build
        self._app: App | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def UserValves(self) -> type[UserValves]:  # noqa: N802 - the name that the host looks for
        """What the host shows each user: the texts follow what the administrator allows."""
        return user_valves_class(self.valves)

    async def pipes(self) -> list[dict[str, str]]:
        """List the models for Open WebUI: `id` and `name` of each. Answers from memory."""
        self._report_unreadable()
        return await self._running_app().models(read_settings(self.valves), function_id=function_id(self))

    async def pipe(  # noqa: PLR0913, PLR0917 - the host passes what has one of its names
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __metadata__: dict[str, Any] | None = None,
        __task__: str | None = None,
        __event_call__: EventCall | None = None,
        __event_emitter__: EventEmitter | None = None,
        __request__: Any = None,
    ) -> Any:
        """Answer one call of the host: a stream of events, or one completion when it does not stream.

        A bare caller's error is an HTTP response of its own when the call does not stream.
        """
        language = user_language(__metadata__, __request__)
        try:
            frozen = self._read_settings(__user__ or {}, as_text(body.get("model")).partition(".")[0])
            ask = page_question(__event_call__, language or ENGLISH)
            call = read_call(body, user=__user__, metadata=__metadata__, task=__task__, ask=ask)
        except PipeError as error:
            failed = _failed(error, language, is_admin=(__user__ or {}).get("role") == "admin")
            return error_object(failed) if body.get("stream") else error_response(failed)
        call = replace(call, language=language)
        if not call.stream:
            return await self._complete(call, frozen)
        events = self._stream(call, frozen, as_object(__metadata__).get("tools"), __event_emitter__)
        return events if call.in_chat else chunk_response(events)

    async def _stream(
        self, call: Call, frozen: Settings, tools: Any, emit: EventEmitter | None
    ) -> AsyncGenerator[HostEvent]:
        writer = _streamed(call, frozen)
        try:
            async with aclosing(self._running_app().answer(call, frozen)) as outputs:
                async for output in outputs:
                    for event in writer.render(output):
                        yield event
            if emit and isinstance(writer, PageWriter) and (calls := writer.open_calls):
                watch_tools(
                    tools, {each["name"] for each in calls}, partial(_tool_stopped, emit, call, frozen)
                )
        except asyncio.CancelledError:
            # the host reads on until this is raised, and shows what it is handed first
            for event in self._stopped(writer, call, frozen):
                yield event
            raise
        except Exception as error:  # noqa: BLE001 - the last one: raising would cost the partial answer
            for event in writer.render(_failed(error, call.language, is_admin=call.is_admin)):
                yield event

    async def _tool_stopped(emit: EventEmitter, call: Call, frozen: Settings, name: str) -> None:
    """Show that a tool of the host was stopped."""
    if frozen.status_lines != "none":
        line = in_language(notice("tool_stopped", name=name), call.language or ENGLISH)
        await emit(status_event(line)["event"])
