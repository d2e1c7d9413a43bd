"""What answers one call, built from what its worker shares: its requests, its fitter, its summarizer, its bill."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from .context.page import context_page
from .context.report import MAX_BREAKS, ChatRecord
from .conversation.budget import UNKNOWN_WINDOW_TOKENS
from .conversation.conversation import Tool
from .errors import AttachmentNotFound, StoreError
from .host.call import Call, is_saved
from .host.documents import with_documents
from .media.choice import plain_name
from .media.download import DownloadSettings, GuardedDownloads
from .media.library import MediaLibrary
from .money.audit import AuditRow
from .openrouter import controls
from .openrouter.controls import CacheLifetime, cheapest_lifetime
from .openrouter.request import Caller, Composer, identity_parameters
from .openrouter.retries import RetryingResponses
from .permission import NO_PERSISTENCE, PermittedCall
from .planning.plan import Plan
from .planning.recall import without_recall
from .ports import Model, PromptOwner, Responses, Show
from .recall.tool import RECALL_TOOL
from .settings import Settings
from .turn.bill import CostCeiling, Spending, TimedResponses
from .turn.channel import OutputChannel
from .turn.commands import CommandRunner
from .turn.fit import RequestFitter, RequestTerms
from .turn.own_tools import RecallTool
from .turn.recorder import Persistence, RequestOrigin, generate_item_id
from .turn.round import Ports
from .turn.runner import PromptKeeper, TurnRequest, TurnRunner
from .turn.summaries import Summarizer, SummaryModel, SummaryWriter
from .words.lines import ENGLISH, notice
from .worker import Worker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assembly:
    """Builds the parts that answer one call into a channel."""

    worker: Worker
    permitted: PermittedCall
    call: Call
    library: MediaLibrary
    channel: OutputChannel

    @property
    def _settings(self) -> Settings:
        return self.permitted.settings

    async def turn(self) -> TurnRunner:
        """Return what answers the call."""
        worker, call, settings = self.worker, self.call, self._settings
        composer = await self._composer()
        spending = self._spending(composer)
        ports = Ports(
            responses=spending.responses,
            requests=composer,
            store=await worker.artifacts(settings.store, call),
            new_id=generate_item_id,
            files=worker.host.files if self.library.saved_for else None,
            attachments=self.library,
            downloads=self.library.downloads,
        )
        request = TurnRequest(
            messages=call.messages,
            origin=RequestOrigin(call.user_id, call.chat_id, call.message_id, call.model_id),
            persistence=self._persistence(),
            base_system_prompt=call.base_system_prompt,
            base_user_prompt=call.base_user_prompt,
            for_admin=call.is_admin,
            has_attachments=call.has_attachments,
        )
        fitter = await self._fitter(composer, spending)
        worker.admission.settings = settings.resilience.admission
        slot = worker.admission.slot(call.user_id, is_task=call.task is not None, show=self.channel.put)
        return TurnRunner(
            request,
            ports,
            self.channel,
            memory=worker.memory,
            fitter=fitter,
            slot=slot,
            spending=spending,
            prompt=await self._prompt_keeper(),
            recall=self._recall_tool(composer),
            quoted_calls=partial(worker.host.quoted_calls, call) if worker.host.quoted_calls else None,
            commands=self._commands(composer, fitter, spending),
        )

    def _persistence(self) -> Persistence:
        """What is kept of the answer: nothing of a task and of a caller without a page."""
        kept = self._settings.persistence
        if self.call.is_unsaved:
            return kept.of_unsaved
        return kept if self.call.keeps else NO_PERSISTENCE

    def _commands(self, composer: Composer, fitter: RequestFitter, spending: Spending) -> CommandRunner:
        """What answers the user's commands."""
        model = self.permitted.model
        return CommandRunner(
            fitter,
            self.channel,
            generate_item_id,
            partial(self._chat_record, composer, spending),
            model.name if model else self.call.model_id,
            wait_seconds=self._settings.summary.timeout_seconds,
            only_draws=bool(model and not model.writes),
            page=context_page if self.call.in_chat else None,
            language=self.call.language or ENGLISH,
        )

    async def _chat_record(self, composer: Composer, spending: Spending, plan: Plan) -> ChatRecord:
        """What the worker and the database know of the chat's requests; without the latter, what the worker does."""
        request = composer.build(plan.items, plan.marks, omitted_tools=plan.absent_tools)
        cached, owner = await spending.cached_entries(plan, request), (self.call.user_id, spending.chat_id)
        try:
            cost = await self.worker.own.ledger.of_chat(*owner)
            return ChatRecord(cached, await self.worker.own.audit.breaks(*owner, limit=MAX_BREAKS), cost)
        except StoreError as error:
            log.warning("the cost of a chat could not be read: %s", error)
            return ChatRecord(cached)

    async def _prompt_keeper(self) -> PromptKeeper | None:
        """What keeps the system prompt of a saved chat, and takes the host's memories out of that of any chat."""
        worker, call, settings = self.worker, self.call, self._settings
        if not settings.steady_prompt or not call.in_chat:
            return None
        prompts = await worker.prompts(settings.store) if call.keeps else None
        owner = PromptOwner(call.user_id, call.chat_id, call.model_row_id)
        return PromptKeeper(prompts, owner, partial(worker.host.prompt_template, call))

    def _recall_tool(self, composer: Composer) -> RecallTool | None:
        """What answers the model's look-ups; None where it cannot call for any."""
        planner = self.worker.planner
        counter = partial(planner.counter, self.call.model_id)
        return RecallTool(counter, planner.caches.passages) if composer.offers_own_tools else None

    def _spending(self, composer: Composer) -> Spending:
        """What the call spends; only on a page is there anyone to ask, and a task is not the chat's own request."""
        call, settings = self.call, self._settings
        responses = self._responses(
            composer, retry_seconds=settings.resilience.retry_seconds, show=self.channel.put
        )
        chat = ("", "") if call.task else (call.chat_id, call.message_id)
        return Spending(
            self.worker.spending,
            settings.spending,
            self.permitted.payer,
            RequestOrigin(call.user_id, *chat, call.model_id),
            call.chat_id if is_saved(call.chat_id) else "",
            self.permitted.model,
            TimedResponses(responses, self.worker.loop.time),
            call.ask if call.in_chat else None,
            call.time_zone,
            CostCeiling(self._models(composer), self.permitted.offered, composer.most_searches),
            preset=call.model_row_id,
        )

    def _responses(self, composer: Composer, *, retry_seconds: float, show: Show | None = None) -> Responses:
        """What answers the requests of the call: with the user's own key, if there is one.

        It asks again where that helps; `show` gets the lines about it.
        """
        settings, switched = self._settings.client, self._settings.controls
        has_tools = bool(without_recall(composer.tools)) and self.call.task is None
        own_key = switched.own_api_key
        betas = controls.beta_features(switched, self.permitted.model, has_tools=has_tools)
        key = settings.api_key if own_key is None else own_key
        client = self.worker.client(
            replace(settings, betas=betas, api_key=key, is_own_key=own_key is not None)
        )
        return RetryingResponses(client, limit_seconds=retry_seconds, show=show)

    async def _composer(self) -> Composer:
        call, settings, model = self.call, self._settings, self.permitted.model
        if call.task:
            parameters: Mapping[str, Any] = {
                **controls.task_parameters(call.parameters, call.task),
                **self._identity(),
            }
        else:
            parameters = controls.chat_parameters(
                call.parameters,
                model_id=call.model_id,
                identity=self._identity(),
                lifetime=await self._cache_lifetime(),
            )
            parameters = controls.drawing_parameters(
                parameters, model=model, image_config=settings.image_config
            )
        engine = controls.pdf_engine(settings.attachments.pdf_engine, model)
        return Composer(
            parameters,
            model=model,
            model_id=call.model_id,
            pdf_engine=engine,
            own_tools=self._own_tools(),
        )

    def _own_tools(self) -> tuple[Tool, ...]:
        """The tool that looks up what was removed, unless nothing is."""
        settings = self._settings
        is_offered = settings.recall_tool and settings.context.may_recall and self.call.task is None
        return (RECALL_TOOL,) if is_offered else ()

    def _identity(self) -> Mapping[str, Any]:
        """What names the chat and its user."""
        call, secret = self.call, self.worker.host.secret_key.encode("utf-8", "surrogatepass")
        caller = Caller(call.user_id, call.chat_id, call.message_id, call.task)
        return identity_parameters(self._settings.controls.identity, caller, secret)

    async def _cache_lifetime(self) -> CacheLifetime:
        """How long the provider should keep the chat; the pauses are read only where that can be chosen."""
        setting, find = self._settings.controls.cache_lifetime, self.worker.host.chat_pauses
        if setting != "auto":
            return setting
        if find is None or not controls.has_cache_lifetimes(self.call.model_id):
            return "5m"
        return cheapest_lifetime(await find(self.call), self.permitted.model)

    def _models(self, composer: Composer) -> list[Model | None]:
        """The catalogue's entries of the models that may answer."""
        find = self.worker.listing(self._settings.client).catalog.find
        return [find(model_id) for model_id in composer.model_ids]

    async def _fitter(self, composer: Composer, spending: Spending) -> RequestFitter:
        """What fits the call's requests. A task is never shortened; an unsaved chat is recorded without its ids."""
        call, settings = self.call, self._settings
        find = self.worker.listing(settings.client).catalog.find
        models = self._models(composer)
        context = settings.context
        writer = find(controls.summary_model_id(settings.summary.model, call.model_id))
        if call.task:
            context = replace(context, context_strategy="off")
        elif context.context_strategy == "summarize" and writer and not writer.writes:
            context = replace(context, context_strategy="prune")  # a picture is not a summary
        context = replace(context, recall_tool=composer.offers_own_tools)
        chat = (call.chat_id, call.message_id) if call.keeps else ("", "")
        model = controls.model_terms(call.model_id, models, output_tokens=composer.max_output_tokens)
        if model.window_tokens is None:
            model = replace(model, window_tokens=self._unlisted_window(call.model_id))
        terms = RequestTerms(
            context,
            model,
            composer.tools,
            call.optional_tools,
            recorded=not call.task,
            calibrates=not (composer.has_added_input or call.task),
        )
        origin = RequestOrigin(call.user_id, *chat, call.model_id)
        summarizes = context.context_strategy == "summarize"
        summarizer = await self._summarizer(composer, terms, origin, spending) if summarizes else None
        return RequestFitter(self.worker.planner, terms, origin, summarizer=summarizer)

    async def _summarizer(
        self, composer: Composer, terms: RequestTerms, origin: RequestOrigin, spending: Spending
    ) -> Summarizer:
        """What writes the call's summaries."""
        worker, settings = self.worker, self._settings

        def record(row: AuditRow) -> None:
            worker.planner.record(origin, row)
            spending.note_summary(row)

        return Summarizer(
            (await worker.stores(settings.store)).summaries if self.call.keeps else worker.unsaved_summaries,
            await self._summary_writer(composer, terms),
            worker.summarizer_state,
            origin=origin,
            time_limit_seconds=settings.summary.timeout_seconds,
            record=record,
        )

    async def _summary_writer(self, composer: Composer, terms: RequestTerms) -> SummaryWriter:
        """What asks for summaries: the chat's own model, which has it cached, or one with its own prompt."""
        call, summary, model = self.call, self._settings.summary, self.permitted.model
        writer_id = controls.summary_model_id(summary.model, call.model_id)
        own_model = self.worker.listing(self._settings.client).catalog.find(writer_id)
        named = {**call.parameters, **self._identity()}
        parameters = controls.summary_parameters(
            named,
            model_id=call.model_id,
            writer_id=writer_id,
            held=self._settings.controls.provider,
        )
        live = SummaryModel(
            call.model_id,
            composer,
            terms.model.window_tokens or UNKNOWN_WINDOW_TOKENS,
            bool(model and model.reasons),
        )
        own = SummaryModel(
            writer_id,
            Composer(
                parameters, model=own_model, model_id=writer_id, summary_parameters=controls.SUMMARY_FORMAT
            ),
            (own_model.context_tokens if own_model else None)
            or self._unlisted_window(writer_id)
            or UNKNOWN_WINDOW_TOKENS,
            bool(own_model and own_model.reasons),
        )
        return SummaryWriter(
            self._responses(composer, retry_seconds=0.0),  # it has attempts of its own
            suffix_model=live if controls.shares_cache(summary.model, terms.model) else None,
            standalone_model=own,
            count=(await self.worker.planner.counter(writer_id)).text,
        )

    def _unlisted_window(self, model_id: str) -> int | None:
        """The window of a model of which the catalogue names none: as a provider has named it, or as assumed."""
        return (
            self.worker.planner.named_windows.get((self.call.user_id, model_id))
            or self._settings.assumed_window_tokens
            or None
        )


def build_library(worker: Worker, call: Call, settings: Settings, model: Model | None) -> MediaLibrary:
    """What reads the call's attachments for its model."""
    media = settings.attachments.media
    downloads = GuardedDownloads(
        DownloadSettings(allowed_hosts=settings.attachments.download_hosts, max_bytes=media.max_bytes)
    )
    saved_for = (call.chat_id, call.message_id) if call.keeps and settings.save_attachments else None
    return MediaLibrary(
        worker.host.files, downloads, worker.encoded_files, media, model, call.user_id, saved_for
    )


async def attach_documents(
    worker: Worker, call: Call, settings: Settings, library: MediaLibrary
) -> tuple[Call, Mapping[str, str]]:
    """The call with its documents in their messages, and a line about each that the host gives in excerpts.

    What neither the model reads nor the host is put into its message all the same, where a note stands for it. So
    is what the user may not read, unless the host gives it to everybody all the same.
    """
    find, lacks_text = worker.host.attached_documents, worker.host.files_without_text
    if find is None or lacks_text is None or settings.attachments.media.documents == "host":
        return call, {}
    attached, given = await find(call), {source.file_id for source in call.sources}
    files = [file for of_message in attached.values() for file in of_message]
    errors = await asyncio.gather(*(library.refusal(file.id) for file in files))
    refused = {
        file: error
        for file, error in zip(files, errors, strict=True)
        if error and (not isinstance(error, AttachmentNotFound) or file.id in given)
    }
    try:
        silent = await lacks_text([file.id for file in refused]) if refused else frozenset()
    except SQLAlchemyError:
        log.warning("whether the host has their text is not known", exc_info=True)
        silent = frozenset()
    as_excerpts = {file: error for file, error in refused.items() if file.id not in silent}
    lines = {
        file.id: notice(
            "document_as_excerpts", name=plain_name(file.name) or file.id, reason=error.user_message
        )
        for file, error in as_excerpts.items()
    }
    chosen = {
        index: [file for file in of_message if file not in as_excerpts]
        for index, of_message in attached.items()
    }
    return (with_documents(call, chosen) if any(chosen.values()) else call), lines
