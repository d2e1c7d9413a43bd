"""What answers one call, built from what its worker shares: its requests, its fitter, its summarizer, its bill."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from operator import is_
from typing import Any, cast

from sqlalchemy.exc import SQLAlchemyError

from .context.page import context_page
from .context.report import MAX_BREAKS, ChatCost, ChatRecord
from .conversation.budget import UNKNOWN_WINDOW_TOKENS
from .conversation.conversation import Tool
from .errors import AttachmentNotFound, StoreError
from .history.artifacts import ANTHROPIC, model_family
from .host.call import Call, is_saved
from .host.documents import with_documents
from .host.wording import with_voice_prompt_last
from .media.choice import plain_name
from .media.download import DownloadSettings, GuardedDownloads
from .media.library import MediaLibrary
from .money.limits import find_zone
from .money.prices import NO_PRICES
from .openrouter import controls
from .openrouter.client import OpenRouterClient
from .openrouter.controls import cheapest_lifetime
from .openrouter.recordings import Recording
from .openrouter.request import Composer, identity_parameters, own_plugins
from .openrouter.retries import RetryingResponses
from .openrouter.server_tools import with_server_tools
from .openrouter.tasks import TaskResponses, is_answer, task_parameters
from .permission import NO_PERSISTENCE, Permitted
from .planning.plan import Plan
from .planning.recall import without_tools
from .ports import Generations, Model, Notice, Responses, Show, name_of
from .recall.tool import RECALL_TOOL
from .responses.values import Kept, as_object
from .store.artifacts import RunningReasoning
from .threads import apart
from .turn.admission import Away
from .turn.bill import CostCeiling, Spending
from .turn.channel import OutputChannel
from .turn.commands import CommandRunner, SpendingReader
from .turn.fit import Fitter, FitTerms
from .turn.own_tools import RecallTool, ToolRuns
from .turn.recorder import generate_item_id
from .turn.round import Ports
from .turn.runner import PromptKeeper, TurnRunner
from .turn.summaries import Hold, Summarizer, SummaryModel, SummaryWriter
from .words.lines import ENGLISH, is_line, listed, notice
from .worker import Stores, Worker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assembly:
    """Builds the parts that answer one call into a channel."""

    worker: Worker
    permitted: Permitted
    library: MediaLibrary
    channel: OutputChannel
    recording: Recording | None

    async def turn(self) -> TurnRunner:
        """Return what answers the call."""
        worker, call, settings = self.worker, self.permitted.call, self.permitted.settings
        stores = await worker.stores(settings.store)
        composer = await self._composer()
        models = [self.permitted.find(model_id) for model_id in composer.model_ids]
        client = self._client(composer)
        spending = self._spending(composer, models, client)
        fitter = self._fitter(composer, models, spending, stores)
        # Of a task, and of a caller without a page, nothing is kept, and they find what is durable.
        store, persistence = stores.durable, replace(NO_PERSISTENCE, within_turn=call.task is None)
        if call.keeps:
            store, persistence = stores.saved, settings.persistence
        elif call.is_unsaved:
            # reasoning alone, which no line in the chat's text refers to
            store, persistence = stores.unsaved, replace(settings.persistence, tools=False, in_memory=True)
        if persistence.reasoning == "disabled":
            # Nobody comes back for that of a call without a page: it goes with the call.
            running = stores.running if call.in_chat else stores.of_one_call()
            store = RunningReasoning(store, running, call.user_message_id or call.message_id)
        ports = Ports(
            responses=self._responses(client, retry_seconds=settings.retry_seconds, show=self._show_once),
            requests=composer,
            store=store,
            new_id=generate_item_id,
            files=worker.host.files if self.library.saved_for else None,
            fill=self.library.fill,
            downloads=self.library,
            find=self.permitted.find,
        )
        runner = TurnRunner(
            call.messages,
            call.origin,
            persistence,
            ports,
            self.channel,
            base_system_prompt=call.base_system_prompt,
            base_user_prompt=call.base_user_prompt,
            fallbacks=composer.model_ids[1:],
            never_reasons=bool(models[0] and models[0].never_reasons),
            has_attachments=call.has_attachments,
            builtin_tools=call.builtin_tools,
            memory=worker.memory,
            fitter=fitter,
            kept=worker.kept,
            slot=self._slot(),
            spending=spending,
            prompt=PromptKeeper(
                stores.prompts if call.keeps else None,
                call.origin if settings.steady_system_prompt and call.in_chat else None,
                partial(worker.host.prompt_template, call),
            ),
            recall=RecallTool(
                partial(worker.planner.counter, call.model_id),
                worker.planner.caches.passages,
                composer.offers_own_tools,
            ),
            tools=ToolRuns(call.tools, worker.places, settings.tool_timeout_seconds) if call.tools else None,
            folded_answers=partial(worker.host.folded_answers, call),
            commands=self._commands(composer, fitter, spending),
            name_chat=(lambda: worker.own.start(named())) if (named := call.name_chat) else None,
        )
        model = self.permitted.model
        is_made = model and model.endpoint not in {"responses", ""}
        return self._creation(runner, model, client) if model and is_made else runner

    def _creation(self, runner: TurnRunner, model: Model, client: OpenRouterClient) -> TurnRunner:
        """What answers in the place of a runner by a model that another endpoint serves.

        These endpoints take few preferences of providers: where another one protects, nothing is sent.
        """
        from .openrouter.creation import PREFERENCES, Creations
        from .turn.creation import CreationParts, ImageRunner, SpeechRunner, TranscriptRunner
        from .turn.video import VideoRunner

        worker, call, settings = self.worker, self.permitted.call, self.permitted.settings
        provider = as_object(call.parameters.get("provider"))
        taken = PREFERENCES.get(model.endpoint, ())
        names = {"data_collection", "ignore", "only", "zdr"}.difference(taken)
        kept = [name for name in sorted(names) if provider.get(name) not in (None, False, [], "allow")]
        preferences = {name: provider[name] for name in taken if name in provider}
        attempt = partial(worker.breaker.attempt, settings.client.base_url, user_id=call.user_id)
        parts = CreationParts(
            model,
            call.user_message_id or call.message_id,
            Creations(client, attempt, settings.retry_seconds, self._show_once, preferences),
            settings.creation,
            worker.own.start,
            self.library.room_for_made,
            worker.host.files,
            notice("creation_restricted", name=", ".join(kept)) if kept else "",
        )
        runners = {
            "speech": SpeechRunner,
            "transcriptions": TranscriptRunner,
            "images": ImageRunner,
            "videos": VideoRunner,
        }
        return runners[model.endpoint].of(runner, parts)

    @asynccontextmanager
    async def _slot(self) -> AsyncGenerator[Away]:
        """A place among the requests that may run; the files that the call holds go with it."""
        user_id, is_task = self.permitted.call.user_id, self.permitted.call.task is not None
        self.worker.admission.settings = self.permitted.settings.admission
        async with self.worker.admission.slot(user_id, is_task=is_task, show=self.channel.put) as away:
            try:
                yield away
            finally:
                self.library.held.release()

    async def _show_once(self, line: Notice) -> None:
        """Show a line about asking again; what a request was changed in is told once in a chat."""
        call, lines = self.permitted.call, {line.text: line.text}
        may_be_known = line.done and call.in_chat
        if not may_be_known or self.worker.memory.new_lines(call.user_id, call.chat_id, lines):
            await self.channel.put(line)

    def _commands(self, composer: Composer, fitter: Fitter, spending: Spending) -> CommandRunner:
        """What answers the user's commands."""
        call, model = self.permitted.call, self.permitted.model
        return CommandRunner(
            fitter,
            self.channel,
            generate_item_id,
            partial(self._chat_record, composer, spending),
            partial(self._chat_cost, spending),
            model.name if model else call.model_id,
            read_spending=SpendingReader(
                self.worker.spending,
                self.permitted.settings.spending.limits,
                self.worker.host.people,
                call.user_id,
                call.is_admin,
            ).read,
            wait_seconds=self.permitted.settings.summary_timeout_seconds,
            only_draws=bool(model and not model.writes),
            page=context_page if call.in_chat else None,
            language=call.language or ENGLISH,
            problems=self._problems,
        )

    async def _problems(self) -> str:
        """What is wrong with settings, as paragraphs: with the user's own, and to administrators with theirs."""
        settings = self.permitted.settings
        own, wrong = listed(each.line for each in settings.own_problems), ""
        if self.permitted.call.is_admin:
            wrong = listed(each.line for each in await self.worker.problems(settings))
        paragraphs = [("own_problems", own), ("problems", wrong)]
        lines = [line for heading, text in paragraphs if text for line in (notice(heading), text)]
        return notice("joined", lines=lines, separator="\n\n") if lines else ""

    async def _chat_record(self, composer: Composer, spending: Spending, plan: Plan) -> ChatRecord:
        """What the worker and the database know of the chat's requests; without the latter, what the worker does."""
        build = partial(composer.build, plan.items, plan.marks, omitted_tools=plan.absent_tools)
        request = await apart(plan.items, build)
        cached = await spending.cached_entries(plan, request)
        own, owner = self.worker.own, (self.permitted.call.user_id, spending.chat_id)
        try:
            cost = await own.ledger.of_chat(*owner)
            return ChatRecord(cached, await own.ledger.breaks(*owner, limit=MAX_BREAKS), cost)
        except StoreError as error:
            log.warning("the cost of a chat could not be read: %s", error)
            return ChatRecord(cached)

    async def _chat_cost(self, spending: Spending) -> ChatCost:
        """What the chat has cost. Raises StoreError."""
        own, owner = self.worker.own, (self.permitted.call.user_id, spending.chat_id)
        if not spending.chat_id:
            return ChatCost(None)
        days = await own.ledger.costs(*owner, find_zone(spending.zone) or UTC)
        named = [(day, name_of(model, self.permitted.find), cost) for day, model, cost in days]
        return ChatCost(await own.ledger.of_chat(*owner), named, *spending.next_cost())

    def _spending(
        self, composer: Composer, models: Sequence[Model | None], generations: Generations
    ) -> Spending:
        """What the call spends; only on a page is there anyone to ask, and a task is not the chat's own request."""
        call, settings = self.permitted.call, self.permitted.settings
        names_costs = settings.names_costs(in_arena=call.in_arena)
        return Spending(
            self.worker.spending,
            settings.spending if names_costs else replace(settings.spending, cost_line="off"),
            self.permitted.payer,
            replace(call.origin, chat_id="", message_id="") if call.task else call.origin,
            call.chat_id if is_saved(call.chat_id) else "",
            self.permitted.model,
            call.ask if call.in_chat else None,
            call.time_zone,
            CostCeiling(models, self.permitted.offered, composer.most_searches),
            find=self.permitted.find,
            generations=generations,
            purpose="task" if call.task else "answer",
        )

    def _client(self, composer: Composer) -> OpenRouterClient:
        """What sends requests of the call, with the user's own key if there is one."""
        settings, switched = self.permitted.settings.client, self.permitted.settings.controls
        has_tools = bool(without_tools(composer.tools)) and self.permitted.call.task is None
        own_key = switched.own_api_key
        betas = controls.beta_features(switched, self.permitted.model, has_tools=has_tools)
        key = settings.api_key if own_key is None else own_key
        own = replace(settings, betas=betas, api_key=key, is_own_key=own_key is not None)
        return self.worker.client(own, self.recording)

    def _responses(
        self, client: OpenRouterClient, *, retry_seconds: float, show: Show | None = None
    ) -> Responses:
        """What answers the requests of the call: it asks again where that helps; `show` gets the lines about it."""
        call, address = self.permitted.call, self.permitted.settings.client.base_url
        attempt = partial(self.worker.breaker.attempt, address, user_id=call.user_id)
        responses = RetryingResponses(client, limit_seconds=retry_seconds, show=show, attempt=attempt)
        return responses if call.task is None or is_answer(call.task) else TaskResponses(responses)

    async def _composer(self) -> Composer:
        """What writes the call's requests: what wrote those of the chat's last call, where nothing is different."""
        permitted, keep = self.permitted, self.worker.kept.of
        call, switched, model = permitted.call, permitted.settings.controls, permitted.model
        if switched.cache_lifetime == "auto" and not call.task and model_family(call.model_id) == ANTHROPIC:
            pauses = await self.worker.host.chat_pauses(call)
            switched = replace(switched, cache_lifetime=cheapest_lifetime(pauses, model))
        named = call.user_id, call.chat_id, call.message_id if switched.identity == "trace" else ""
        limit = permitted.payer.limit_dollars, bool(permitted.payer.under)
        asked = call.model_id, call.task, call.in_chat, call.host_search, switched.cache_lifetime
        of = [*named, *limit, *asked, switched.server_tools.tools and call.time_zone]
        # its tools are those of other chats, too
        kept = keep({"parameters": {**call.parameters, "tools": None}, "of": of})
        alike = keep({"tools": call.parameters.get("tools")}), permitted.settings, model, permitted.offered
        found = kept.found if type(kept) is Kept else {}
        last, composer = found.get(Composer, ((None,) * len(alike), None))
        if composer is None or not all(map(is_, last, alike)):
            composer = self._new_composer(switched)
            found[Composer] = alike, composer
        return cast("Composer", composer)

    def _new_composer(self, switched: controls.ControlSettings) -> Composer:
        """What writes the call's requests; a tool of ours looks up what was removed, unless nothing is."""
        call, settings, model = self.permitted.call, self.permitted.settings, self.permitted.model
        own_tools: tuple[Tool, ...] = ()
        parameters: Mapping[str, Any]
        if call.task:
            parameters = {**task_parameters(call.parameters, call.task, model=model), **self._identity()}
        else:
            parameters = controls.chat_parameters(
                call.parameters,
                switched,
                identity=self._identity(),
                offered=self.permitted.offered,
                model=model,
                model_id=call.model_id,
            )
            if call.in_chat:
                tools = replace(switched.server_tools, time_zone=call.time_zone)
                parameters = with_server_tools(
                    parameters, tools, call.host_search, model=model, model_id=call.model_id
                )
            if settings.recall_tool and settings.context.may_recall:
                own_tools = (RECALL_TOOL,)
        compose = partial(
            Composer,
            model=model,
            model_id=call.model_id,
            plugins=own_plugins(
                controls.pdf_engine(settings.pdf_engine, model),
                model.context_tokens if model else None,
                is_fitted=call.task is None and settings.context.context_strategy != "off",
            ),
        )
        if given := parameters.get("tools"):
            parameters = {**parameters, "tools": self.worker.kept.of({"tools": given})}
        if self.permitted.payer.under:  # tools say nothing of it, and take long to read
            parameters = {**parameters, **self._output_limit(compose({**parameters, "tools": None}))}
        return compose(parameters, own_tools=own_tools)

    def _output_limit(self, composer: Composer) -> Mapping[str, Any]:
        """Return how long answers may be under a limit, so that the most that is held is true; none where it is set."""
        if composer.max_output_tokens:
            return {}
        permitted = self.permitted
        models = [*map(permitted.find, composer.model_ids)]
        ceiling = CostCeiling(models, permitted.offered)
        length = ceiling.output_tokens(composer.reasoning, permitted.payer.limit_dollars)
        return {"max_output_tokens": length} if length else {}

    def _identity(self) -> Mapping[str, Any]:
        """What names the chat and its user."""
        call, level = self.permitted.call, self.permitted.settings.controls.identity
        return identity_parameters(level, call.origin, self.worker.host.secret_key, task=call.task)

    def _fitter(
        self, composer: Composer, models: Sequence[Model | None], spending: Spending, stores: Stores
    ) -> Fitter:
        """What fits the call's requests. A task is never shortened; an unsaved chat is recorded without its ids."""
        call, settings = self.permitted.call, self.permitted.settings
        writer = self.permitted.find(controls.summary_model_id(settings.summary_model, call.model_id))
        context = replace(settings.context, recall_tool=composer.offers_own_tools)
        if call.task:
            context = replace(context, context_strategy="off")
        elif context.context_strategy == "summarize" and writer and not writer.writes:
            context = replace(context, context_strategy="prune")  # a picture is not a summary
        model = controls.model_terms(call.model_id, models, output_tokens=composer.max_output_tokens)
        terms = FitTerms(
            context,
            model if model.window_tokens else replace(model, window_tokens=self._window(call.model_id)),
            composer.tools,
            call.optional_tools,
            is_task=call.task is not None,
            calibrates=not (composer.has_added_input or call.task),
            names_costs=settings.names_costs(in_arena=call.in_arena),
        )
        origin = call.origin if call.keeps else replace(call.origin, chat_id="", message_id="")
        planner, summarizer = self.worker.planner, None

        if context.context_strategy == "summarize":
            summarizer = Summarizer(
                stores.summaries if call.keeps else self.worker.unsaved_summaries,
                partial(self._summary_writer, composer, terms, spending.hold_summary),
                self.worker.summarizer_state,
                origin=origin,
                time_limit_seconds=settings.summary_timeout_seconds,
                record=spending.note_summary,
            )
        return Fitter(planner, terms, origin, summarizer=summarizer)

    async def _summary_writer(self, composer: Composer, terms: FitTerms, hold: Hold) -> SummaryWriter:
        """What asks for summaries: the chat's own model, which has it cached, or one with its own prompt."""
        call, settings, model = self.permitted.call, self.permitted.settings, self.permitted.model
        writer_id = controls.summary_model_id(settings.summary_model, call.model_id)
        own_model = self.permitted.find(writer_id)
        parameters = controls.summary_parameters(
            {**call.parameters, **self._identity()},
            model_id=call.model_id,
            writer_id=writer_id,
            held=settings.controls.provider,
        )
        live = SummaryModel(
            call.model_id,
            composer,
            terms.model.window_tokens or UNKNOWN_WINDOW_TOKENS,
            bool(model and model.reasons),
            model.prices if model else NO_PRICES,
            await self._ratio(call.model_id),
        )
        own = SummaryModel(
            writer_id,
            Composer(
                parameters, model=own_model, model_id=writer_id, summary_parameters=controls.SUMMARY_FORMAT
            ),
            self._window(writer_id) or UNKNOWN_WINDOW_TOKENS,
            bool(own_model and own_model.reasons),
            own_model.prices if own_model else NO_PRICES,
            await self._ratio(writer_id),
        )
        client = self._client(composer)
        return SummaryWriter(
            self._responses(client, retry_seconds=0.0),  # it has attempts of its own
            client.named,
            suffix_model=live if controls.shares_cache(settings.summary_model, terms.model) else None,
            standalone_model=own,
            count=(await self.worker.planner.counter(writer_id)).text,
            clock=self.worker.memory.clock,
            hold=hold,
        )

    async def _ratio(self, model_id: str) -> float:
        return (await self.worker.planner.calibrations.find(model_id)).upper_ratio

    def _window(self, model_id: str) -> int | None:
        """The window of a model: of the catalogue, as a provider has named it, or as it is assumed."""
        model = self.permitted.find(model_id)
        return (
            (model and model.context_tokens)
            or self.worker.planner.named_windows.get((self.permitted.call.user_id, model_id))
            or self.permitted.settings.assumed_context_tokens
            or None
        )


async def assemble(
    worker: Worker, permitted: Permitted, channel: OutputChannel, recording: Recording | None = None
) -> tuple[TurnRunner, Mapping[str, str]]:
    """What answers a call that has its documents in it, and lines about these, each under a name."""
    call, settings = permitted.call, permitted.settings
    if call.is_spoken and settings.steady_system_prompt:
        # so that the instructions for a spoken answer leave the chat's prefix as it is
        call = with_voice_prompt_last(call, await worker.host.voice_prompt())
    budget = worker.encoded_files.budget
    budget.limit_bytes = settings.media.memory_bytes
    if worker.encoded_files.size + worker.kept.size > budget.limit_bytes // 2:
        budget.settle()  # chats that have no files fill caches, too
    library = MediaLibrary(
        worker.host.files,
        GuardedDownloads(DownloadSettings(allowed_hosts=settings.download_hosts)).fetch,
        worker.encoded_files,
        settings.media,
        permitted.model,
        call.user_id,
        f"{call.chat_id}\n{call.message_id or generate_item_id()}",
        (call.chat_id, call.message_id) if call.keeps and settings.save_attachments else None,
    )
    lines: Mapping[str, str] = {}
    if settings.media.documents != "host":
        call, lines = await _attach_documents(worker, call, library)
    assembly = Assembly(worker, replace(permitted, call=call), library, channel, recording)
    return await assembly.turn(), lines


async def _attach_documents(
    worker: Worker, call: Call, library: MediaLibrary
) -> tuple[Call, Mapping[str, str]]:
    """The call with its documents in their messages, and a line about each that the host gives in excerpts.

    What neither the model reads nor the host is put into its message all the same, where a note stands for it. So
    is what the user may not read, unless the host gives it to everybody all the same.
    """
    attached = await worker.host.attached_documents(call)
    files = [file for of_message in attached.values() for file in of_message]
    if not files:
        return call, {}
    given = {source.file_id for source in call.sources}
    errors = await asyncio.gather(*(library.refusal(file.id) for file in files))
    refused = {
        file: error
        for file, error in zip(files, errors, strict=True)
        if error and (not isinstance(error, AttachmentNotFound) or file.id in given)
    }
    try:
        silent = await worker.host.files_without_text([file.id for file in refused]) if refused else ()
    except SQLAlchemyError:
        log.warning("whether the host has their text is not known", exc_info=True)
        silent = ()
    as_excerpts = {
        file: error
        for file, error in refused.items()
        if file.id not in silent and not is_line(error.user_message, "attachment_binary")
    }
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
