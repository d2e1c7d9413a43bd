"""What Open WebUI loads: the manifold `Pipe` with its valves. Thin: it parses the call, and renders the answer.

Nothing is derived from the name under which it is loaded, and nothing happens at import.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, Final

from . import valves
from .app import App, build_app
from .conversation.conversation import ContentCache
from .conversation.masking import Secret
from .errors import PipeError, StoreUnavailable
from .host.call import Call, read_call
from .host.chunks import ChunkWriter, CompletionWriter, chunk_response, error_object, error_response
from .host.model_rows import function_id
from .host.native import ChannelWriter, HostEvent, NativeWriter, PageWriter, status_event
from .host.platform import stored_user_valves
from .host.switches import CHOSEN, Switch, switched_on
from .host.tagged_code import TaggedCodeWriter
from .host.tool_runs import HostToolRunner, watch_tools
from .host.wording import EventCall, EventEmitter, in_theme, name_chat, page_question, user_language, worded
from .money.prices import dollars
from .ports import Embed, Failed
from .responses.values import as_object, as_text
from .settings import Settings, bound_key, read_settings
from .turn.recorder import generate_item_id
from .turn.runner import report_failure
from .valves import GUARDED, StoredUserValves, UserValves, changed_valves, user_valves_class
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

    async def changed_settings(self) -> tuple[dict[str, str], list[str]]:
        """Return the valves that are not at their defaults, and what is wrong: for the maintenance function."""
        return changed_valves(self.valves), await self._running_app().problems(read_settings(self.valves))

    async def pipe(  # noqa: PLR0913, PLR0917 - the host passes what a pipe names
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
        function_id = as_text(body.get("model")).partition(".")[0]
        try:
            if not (self.valves.model_fields_set or self.valves.problems):
                await self._read_again(function_id)
            switched = switched_on(body[CHOSEN]) if CHOSEN in body else ()
            frozen = self._read_settings(__user__ or {}, function_id, switched)
            ask = page_question(__event_call__, language or ENGLISH)
            call = read_call(body, user=__user__, metadata=__metadata__, task=__task__, ask=ask)
        except PipeError as error:
            failed = _failed(error, language, is_admin=(__user__ or {}).get("role") == "admin")
            return error_object(failed) if body.get("stream") else error_response(failed)
        named = None
        if __request__ and __event_emitter__:
            named = partial(name_chat, __request__, __metadata__ or {}, __user__ or {}, __event_emitter__)
        call = replace(call, language=language, name_chat=named)
        runs_tools = frozen.tool_execution == "pipe" and call.stream and call.in_chat
        if runs_tools and __event_emitter__ and (host := self._running_app().worker.host.middleware()):
            given = (__metadata__ or {}, __request__, __user__ or {}, call.messages, __event_emitter__)
            call = replace(call, tools=HostToolRunner(host, *given))
        if not call.stream:
            return await self._complete(call, frozen)
        tools = as_object(__metadata__).get("tools")
        events = self._stream(call, frozen, tools, __event_emitter__, __event_call__)
        return events if call.in_chat else chunk_response(events)

    async def _stream(
        self,
        call: Call,
        frozen: Settings,
        tools: Any,
        emit: EventEmitter | None,
        event_call: EventCall | None,
    ) -> AsyncGenerator[HostEvent]:
        writer = _streamed(call, frozen)
        try:
            async with aclosing(self._running_app().answer(call, frozen)) as outputs:
                async for output in outputs:
                    if event_call and isinstance(output, Embed):
                        output = await in_theme(output, event_call)  # noqa: PLW2901 - the same page
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

    def _stopped(
        self, writer: NativeWriter | TaggedCodeWriter | ChunkWriter, call: Call, frozen: Settings
    ) -> list[HostEvent]:
        """What a page is handed when its user has stopped the answer."""
        if isinstance(writer, ChunkWriter):
            return []
        language, cost = call.language or ENGLISH, self._running_app().cost_of(call)
        line = notice("answer_stopped") if frozen.status_lines != "none" else ""
        line = (cost and cost.if_stopped) or line
        names = [each["name"] for each in writer.running.values()] if line else []
        events = [status_event(in_language(notice("tool_stopped", name=name), language)) for name in names]
        events += writer.stop(in_language(line, language))
        if cost is None:
            return events
        is_named = frozen.spending.cost_line != "off" and frozen.names_costs(in_arena=call.in_arena)
        line = notice("cost_stopped", cost=dollars(cost.usage.cost, cost.usage.provider_cost))
        return [*events, *writer.stopped(cost, in_language(line, language) if is_named else "")]

    async def _complete(self, call: Call, frozen: Settings) -> Any:
        writer = CompletionWriter(_native(call, frozen, NativeWriter), _completion_head(call))
        try:
            async with aclosing(self._running_app().answer(call, frozen)) as outputs:
                async for output in outputs:
                    writer.take(output)
        except Exception as error:  # noqa: BLE001 - the last one: the host would show the bare exception
            writer.take(_failed(error, call.language, is_admin=call.is_admin))
        if writer.failed and not call.in_chat and call.task is None:
            return error_response(writer.failed)
        return writer.result(with_output=call.in_chat)

    async def _read_again(self, function_id: str) -> None:
        """Read the valves where the host has none: without their limits nothing is sent. Raises StoreUnavailable."""
        stored = await self._running_app().worker.host.stored_valves(function_id)
        if stored is None:
            raise StoreUnavailable(notice("limits_unavailable"))
        self.valves = self.Valves(**stored)

    def _read_settings(
        self, user: Mapping[str, Any], function_id: str, switched: Sequence[Switch]
    ) -> Settings:
        """The settings of a user's call; the user's valves by themselves where the host could not read them."""
        own, user_id = user.get("valves"), as_text(user.get("id"))
        if not isinstance(own, UserValves) or not (own.model_fields_set or own.problems):
            stored = stored_user_valves(user, function_id)
            # of what is lost, nothing that protects can be read
            own = StoredUserValves(**({name: [0] for name in GUARDED} if stored is None else stored))
        if bound := bound_key(own.API_KEY, user_id):
            self._running_app().replace_user_valve(function_id, user_id, "API_KEY", (own.API_KEY, bound))
        if own.problems:
            _log.warning("a user's valves cannot be read: %s", ", ".join(own.unreadable))
        self._report_unreadable()
        valves = self.valves
        values = dict(valves), dict(own)
        secret = Secret(
            "\0".join(each for given in values for each in given.values() if isinstance(each, Secret))
        )
        digest = sha256(secret.encode("utf-8", "surrogatepass")).digest()
        key = repr((values, digest, valves.problems, own.problems, user_id, switched)).encode()
        read = partial(read_settings, valves, own, user_id=user_id, switched=switched)
        return self._settings.get_or_compute(key, read)

    def _report_unreadable(self) -> None:
        """Log which of the administrator's valves cannot be read, once as long as they are the same."""
        valves = self.valves
        if (valves.problems or self._reported) and (names := valves.unreadable) != self._reported:
            self._reported = names
            _log.warning(
                "valves cannot be read, and have no effect: %.500s", ", ".join(names) or "none any more"
            )

    def _running_app(self) -> App:
        """Return the app of the running event loop; a worker has one loop for its whole life."""
        loop = asyncio.get_running_loop()
        if self._app is None or self._loop is not loop:
            self._app, self._loop = self._build(), loop
        return self._app


def _failed(error: Exception, language: Language | None, *, is_admin: bool) -> Failed:
    return worded(report_failure(error, for_admin=is_admin), language or ENGLISH)


def _native(call: Call, frozen: Settings, writer: type[NativeWriter]) -> NativeWriter:
    kind = ChannelWriter if call.in_channel else writer
    return kind(
        new_id=generate_item_id,
        clock=time.monotonic,
        continued_text=call.continued_text,
        usage_shown="tokens" if call.in_arena else "all" if frozen.store_cost else "no_cost",
    )


def _streamed(call: Call, frozen: Settings) -> NativeWriter | TaggedCodeWriter | ChunkWriter:
    """What renders a stream: native events for a page, chunks for anybody else."""
    if not call.in_chat:
        options = as_object(call.parameters.get("stream_options"))
        return ChunkWriter(_completion_head(call), include_usage=options.get("include_usage") is True)
    writer = _native(call, frozen, NativeWriter if call.is_internal else PageWriter)
    return TaggedCodeWriter(writer, new_id=generate_item_id) if call.runs_tagged_code else writer


def _completion_head(call: Call) -> dict[str, Any]:
    completion_id = f"chatcmpl-{generate_item_id()}"
    return {"id": completion_id, "object": "", "created": int(time.time()), "model": call.model_id}


async def _tool_stopped(emit: EventEmitter, call: Call, frozen: Settings, name: str) -> None:
    """Show that a tool of the host was stopped."""
    if frozen.status_lines != "none":
        line = in_language(notice("tool_stopped", name=name), call.language or ENGLISH)
        await emit(status_event(line)["event"])
