"""The composition root: what Open WebUI's calls reach, and the parts of the running host.

It lists the models and answers calls; what is shared stands in `worker`, what one call needs in `permission`
and `assembly`. It decides nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

import httpx

from .assembly import assemble
from .errors import ModelNotFound, PipeError
from .history.markers import ANSWER_MARK
from .host.call import Call
from .host.documents import REMEMBERED_CHATS, UnsavedChats, attached_documents, files_without_text
from .host.files import HostFiles
from .host.lookups import (
    Records,
    chat_pauses,
    folded_answers,
    group_names,
    groups_of,
    people,
    template_digest,
)
from .host.model_rows import admin_parameters
from .host.platform import platform, replace_user_valve, stored_valves
from .host.tool_runs import middleware
from .host.wording import Wording, default_locale, may_continue, voice_prompt
from .money.limits import accounts_of
from .openrouter.listing import STATUS_ID
from .permission import permit, permit_command, sends_nothing
from .ports import AnswerCost, Model, Notice, Output
from .responses.effects import ResponseFinished, answer_of
from .settings import Settings, tokenizer_folder
from .store.cache import GuardedRedis
from .store.database import Database
from .turn.bill import answer_key
from .turn.channel import OutputChannel
from .turn.recorder import generate_item_id
from .turn.round import search_lines, waiting_line
from .turn.runner import report_failure
from .words.lines import ENGLISH, find_language, in_language, notice
from .worker import Host, Worker

_NO_ANSWER: Final = ResponseFinished()
"""What a task gets about a command, and from a model that only draws or no model at all, at no cost: the host then
does without, or takes the user's words."""


class App:
    """All that Open WebUI asks of the pipe, in one worker. Create it inside the event loop that it serves."""

    def __init__(
        self,
        host: Host,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`transport` replaces the network, `clock` the time in epoch seconds by which days and prices go."""
        self.worker = Worker(host, transport=transport, clock=clock)

    async def models(self, settings: Settings, *, function_id: str | None = None) -> list[dict[str, str]]:
        """List what Open WebUI shows: `id` and `name` of each offered model, first what is wrong if anything is.

        With the id of the function that offers them, the host's rows of the models are kept up to date beside it.
        """
        listing = self.worker.listing(settings.client)
        entries = await listing.entries(settings.offer, await self.worker.checks(settings))
        # without rows they could not be hidden
        gone = await listing.gone(settings.offer) if settings.model_rows.sync_info else ()
        if function_id and (fetches := listing.rows.fetches):
            offered = (*await listing.offered(settings.offer), *gone)
            self.worker.model_rows.offer(function_id, offered, settings.model_rows, listing=fetches)
        return [*entries, *({"id": model.id, "name": model.name} for model in gone)]

    async def problems(self, settings: Settings) -> list[str]:
        """Return what is wrong with the administrator's settings, with what the list of models says of it."""
        await self.worker.listing(settings.client).rows.current()
        return [each.line for each in await self.worker.problems(settings)]

    async def answer(self, call: Call, settings: Settings) -> AsyncGenerator[Output]:
        """Answer a call in its user's language; close the generator to stop the answer.

        Ends with a Failed after an error, never raises.
        """
        host = self.worker.host
        language = call.language or find_language([host.default_locale()])
        call = replace(call, language=language)
        wording = Wording(language, settings.status_lines, partial(host.may_continue, call), call.in_arena)
        listing = self.worker.listing(settings.client)
        await listing.rows.load()
        model = listing.find(call.model_id)
        gone = model if model and model.gone_since and not sends_nothing(call) else None
        is_entry = gone or call.model_id == STATUS_ID
        answer = self._entry(call, settings, gone) if is_entry else self._answer(call, settings)
        async with aclosing(answer) as outputs:
            async for output in outputs:
                if said := await wording.say(output):
                    yield said

    async def _answer(self, call: Call, settings: Settings) -> AsyncGenerator[Output]:
        worker = self.worker
        worker.sweep_when_due(settings)
        try:
            permitted = await permit(worker, call, settings)
        except PipeError as error:
            permitted = await permit_command(worker, call, settings)
            if permitted is None:
                limits, own_key = settings.spending.limits, settings.spending.own_key
                accounts = () if own_key else accounts_of(call.user_id, (), limits)
                worker.spending.note_failure(error, call.model_id, accounts)
                yield _NO_ANSWER if call.task else report_failure(error, for_admin=call.is_admin)
                return
        if permitted is None:
            yield _NO_ANSWER
            return
        channel = OutputChannel(waiting_line=waiting_line if call.in_chat and not call.in_channel else None)
        # where nobody would read that it is, nothing is recorded: no page, or a channel, which shows no lines
        shown = call.task or (call.in_chat and not call.in_channel)
        recording = worker.recording() if shown else None
        turn, hosted = await assemble(worker, permitted, channel, recording)
        said = {"recorded": notice("recorded")} if recording else {}
        task = worker.own.start(turn.run())
        try:
            if call.in_chat:
                lines = worker.memory.new_lines(call.user_id, "", permitted.lines)
                lines += worker.memory.new_lines(call.user_id, call.chat_id, hosted)
                lines += worker.memory.new_lines(call.user_id, call.message_id, said)
                for line in lines:
                    yield Notice(line)
            async with aclosing(channel.drain()) as outputs:
                async for output in outputs:
                    yield output
                    for status in search_lines(output):
                        yield status
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _entry(self, call: Call, settings: Settings, gone: Model | None) -> AsyncGenerator[Output]:
        """Say how things stand, or which model to take in the place of one that is gone; a task gets nothing.

        No model reads it: it is marked as the answers to commands are.
        """
        if call.task:
            yield _NO_ANSWER
            return
        listing = self.worker.listing(settings.client)
        if gone is None:
            checks = await self.worker.checks(settings)
            report = await listing.report(settings.offer, checks, is_admin=call.is_admin)
        else:
            report = await listing.replacement(gone, settings.offer)
            if not call.in_chat:
                yield report_failure(ModelNotFound(report), for_admin=call.is_admin)
                return
        text = in_language(report, call.language or ENGLISH)
        for output in answer_of(f"{ANSWER_MARK}{text}", f"msg_{generate_item_id()}"):
            yield output

    def cost_of(self, call: Call) -> AnswerCost | None:
        """Return what the answer to a call has cost so far, as this worker knows it."""
        return self.worker.spending.turns.get(answer_key(call.origin))

    def replace_user_valve(self, function_id: str, user_id: str, name: str, values: tuple[str, str]) -> None:
        """Have a user's valve stored with the second of the values, in the background."""
        self.worker.own.start(self.worker.host.replace_user_valve(function_id, user_id, name, values))

    async def idle(self) -> None:
        """Wait until nothing runs in the background."""
        while self.worker.own.tasks:
            await asyncio.wait(self.worker.own.tasks)

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        await self.worker.own.aclose()


def build_app() -> App:
    """Build the app on the Open WebUI that it runs in."""
    host = platform()
    redis = host.redis
    return App(
        Host(
            database=Database(host.engine, schema=host.schema),
            records=Records(host.engine),
            secret_key=host.secret_key,
            redis=GuardedRedis(redis.client, prefix=redis.prefix) if redis else None,
            cache_folder=host.cache_folder,
            tokenizer_folder=tokenizer_folder(),
            model_parameters=admin_parameters,
            files=HostFiles(),
            attached_documents=partial(attached_documents, unsaved=UnsavedChats(REMEMBERED_CHATS)),
            files_without_text=files_without_text,
            chat_pauses=chat_pauses,
            groups=groups_of,
            group_names=group_names,
            prompt_template=template_digest,
            folded_answers=folded_answers,
            replace_user_valve=replace_user_valve,
            stored_valves=stored_valves,
            default_locale=default_locale,
            may_continue=may_continue,
            voice_prompt=voice_prompt,
            people=people,
            middleware=middleware,
        )
    )
