"""The composition root: builds and owns what lives longer than a request, and joins the parts for each request.

The one place that chooses implementations; it decides nothing else. One App serves one event loop of one worker. Open
WebUI drops an old instance without a word: what the app owns is therefore closed when nobody holds the app any more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from sqlalchemy.exc import SQLAlchemyError

from .conversation.budget import UNKNOWN_WINDOW_TOKENS
from .engine.admission import Admission
from .engine.channel import OutputChannel
from .engine.failures import report_failure
from .engine.fit import PlannerServices, RequestFitter, RequestTerms
from .engine.recorder import Persistence, RequestOrigin, generate_item_id
from .engine.round import Ports
from .engine.search_status import search_lines
from .engine.spending import Payer, Spending, SpendingServices, TimedResponses
from .engine.summarizer import PromptCacheClock, Summarizer, SummarizerState
from .engine.summary_writer import SummaryModel, SummaryWriter
from .engine.turn import TurnMemory, TurnRequest, TurnRunner
from .errors import AttachmentNotFound, PipeError, SpendingLimitReached
from .host.call import AttachedFile, Call, is_saved
from .host.documents import UnsavedChats, attached_documents, files_without_text, with_documents
from .host.files import HostFiles
from .host.groups import groups_of
from .host.model_rows import admin_parameters
from .host.model_sync import ModelRows, write_model_rows
from .host.pauses import chat_pauses
from .host.platform import platform
from .host.records import Records
from .media.choice import plain_name
from .media.download import DownloadSettings, GuardedDownloads
from .media.library import EncodedFiles, MediaLibrary
from .notices import notice
from .openrouter import controls, policy
from .openrouter.breaker import AddressBreaker
from .openrouter.cache_lifetime import CacheLifetime, cheapest_lifetime
from .openrouter.catalog import ModelCatalog
from .openrouter.client import ClientSettings, OpenRouterClient
from .openrouter.composer import Composer
from .openrouter.connections import Connections
from .openrouter.identity import Caller, identity_parameters
from .openrouter.listing import ModelListing
from .openrouter.own_key import OwnKeyResponses, require_usable
from .openrouter.retries import RetryingResponses, Show
from .openrouter.search import with_search
from .openrouter.status import STATUS_ID, status_answer
from .planning.audit import AuditRow
from .planning.limits import Group
from .ports import ArtifactStore, Files, Model, Notice, Output, Responses, Summaries
from .responses.effects import ResponseFinished
from .settings import Settings, StoreSettings, has_proxy, tokenizer_folder
from .store.artifacts import SealedArtifacts
from .store.batches import AuditLog, StoredCalibrations
from .store.cache import GuardedRedis, build_rows
from .store.database import Database
from .store.ledger import SpendingLedger
from .store.rows import RowStore
from .store.sealing import Keyring, Sealing
from .store.summaries import MemorySummaries, SealedSummaries, SummaryRows
from .store.sweep import Host, Schedule, Sweep
from .store.tasks import Leases
from .store.tokenizer import LocalTokenizer

log = logging.getLogger(__name__)

_CATALOGUE_FOLDER: Final = "openrouter_pipe"
_MAX_LISTINGS: Final = 4
"""How many base URLs and keys are remembered; of more, those go that were first used longest ago."""
_NO_ANSWER: Final = ResponseFinished(
    status="completed", reason=None, response_id=None, model=None, items=(), usage=None
)
"""What a task gets from a model that only draws, at no cost: the host then does without, or takes the user's words."""
_NO_PERSISTENCE: Final = Persistence(reasoning="disabled", tools=False)
_SWEEP_LOOK_SECONDS: Final = 60 * 60.0
"""How often a worker that is in use asks the database whether a sweep is due."""


@dataclass(frozen=True, slots=True)
class HostResources:
    """What the host shares with the app: its database and Redis, what it knows of users and chats, its secret.

    Without Redis the database is used alone; without a secret key nothing is kept but what a passphrase seals; without
    a cache folder nothing is cached on disk, without a tokenizer's folder tokens are estimated, and without `files`
    pictures stay in the chat. `model_parameters` returns what administrators have set for the model of a call,
    `attached_documents` the documents of its chat by the index of their message, and `files_without_text` those of the
    files of which the host itself has no text to send. `chat_pauses` returns the seconds between the user's messages
    of its chat, `groups` the groups of a user.
    """

    database: Database
    records: Host
    secret_key: str
    redis: GuardedRedis | None = None
    cache_folder: Path | None = None
    tokenizer_folder: Path | None = None
    model_parameters: Callable[[Call], Awaitable[Mapping[str, Any]]] | None = None
    files: Files | None = None
    attached_documents: Callable[[Call], Awaitable[Mapping[int, tuple[AttachedFile, ...]]]] | None = None
    files_without_text: Callable[[Collection[str]], Awaitable[frozenset[str]]] | None = None
    chat_pauses: Callable[[Call], Awaitable[Sequence[float]]] | None = None
    groups: Callable[[str], Awaitable[Sequence[Group]]] | None = None


@dataclass(frozen=True, slots=True)
class OwnedResources:
    """What an app opened and started; it can be closed after the app was dropped."""

    http: httpx.AsyncClient
    rows: RowStore
    summary_rows: SummaryRows
    audit: AuditLog
    calibrations: StoredCalibrations
    ledger: SpendingLedger
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work in the background; it is cancelled when the app is closed."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for resource in (
            self.ledger,
            self.audit,
            self.calibrations,
            self.summary_rows,
            self.rows,
            self.http,
        ):
            await resource.aclose()


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A call as it may be sent, with its settings, its model (None where unknown), and who pays for it."""

    call: Call
    settings: Settings
    model: Model | None
    payer: Payer


class App:
    """Clients, catalogues and stores of one worker. Create it inside the event loop that it serves."""

    def __init__(
        self,
        host: HostResources,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`transport` replaces the network, `clock` the time in epoch seconds by which days and prices go.

        Behind a proxy, httpx's own pool is used, which finds its way there.
        """
        self._host = host
        self._own = OwnedResources(
            http=httpx.AsyncClient(transport=transport or (None if has_proxy() else Connections())),
            rows=build_rows(host.database, redis=host.redis),
            summary_rows=SummaryRows(host.database),
            audit=AuditLog(host.database),
            calibrations=StoredCalibrations(host.database),
            ledger=SpendingLedger(host.database, clock=lambda: int(clock())),
        )
        self._loop = asyncio.get_running_loop()
        self._planner = PlannerServices(
            self._own.audit,
            self._own.calibrations,
            LocalTokenizer(host.tokenizer_folder),
            generate_item_id,
            PromptCacheClock(self._loop.time),
        )
        self._spending = SpendingServices(
            self._own.ledger, self._planner, host.groups, generate_item_id, clock, self._loop.time
        )
        self._summarizer_state = SummarizerState(start=self._own.start, clock=self._loop.time)
        self._unsaved_summaries = MemorySummaries()
        self._next_sweep_look_seconds = self._loop.time()
        self._listings: dict[ClientSettings, ModelListing] = {}
        self._stores: dict[StoreSettings, tuple[ArtifactStore, Summaries]] = {}
        self._model_rows = ModelRows(
            Leases(host.database), self._own.start, self._loop.time, write_model_rows
        )
        self._deriving = asyncio.Lock()
        self._memory = TurnMemory()
        self._encoded_files = EncodedFiles()
        self._admission = Admission()
        self._breaker = AddressBreaker(clock=self._loop.time)
        weakref.finalize(self, _close_soon, self._loop, self._own.aclose).atexit = False

    async def models(self, settings: Settings, *, function_id: str | None = None) -> list[dict[str, str]]:
        """List what Open WebUI shows: `id` and `name` of each offered model, first what is wrong if anything is.

        With the id of the function that offers them, the host's rows of the models are kept up to date beside it.
        """
        listing = self._listing(settings.client)
        entries = await listing.entries(settings.offer)
        if function_id and (fetches := listing.catalog.fetches):
            offered = await listing.offered(settings.offer)
            self._model_rows.offer(function_id, offered, settings.model_rows, listing=fetches)
        return entries

    async def answer(self, call: Call, settings: Settings) -> AsyncGenerator[Output]:
        """Answer a call; close the generator to stop the answer. Ends with a Failed after an error, never raises."""
        if call.model_id == STATUS_ID:
            for output in await self._status_answer(call, settings):
                yield output
            return
        self._sweep_when_due(settings)
        try:
            admitted = await self._admitted(call, settings)
        except PipeError as error:
            yield _NO_ANSWER if call.task else report_failure(error, for_admin=call.is_admin)
            return
        if admitted is None:
            yield _NO_ANSWER
            return
        call, settings, model = admitted.call, admitted.settings, admitted.model
        library = self._library(call, settings, model)
        call, hosted = await self._with_documents(call, settings, library)
        channel = OutputChannel()
        turn = await self._turn(call, settings, library, channel, admitted.payer)
        task = self._own.start(turn.run())
        try:
            if call.in_chat:
                lines = self._memory.reported.add(call.user_id, settings.notices)
                lines += self._memory.new_lines(call.user_id, call.chat_id, hosted)
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

    async def idle(self) -> None:
        """Wait until nothing runs in the background."""
        while self._own.tasks:
            await asyncio.wait(self._own.tasks)

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        await self._own.aclose()

    async def _status_answer(self, call: Call, settings: Settings) -> Sequence[Output]:
        """What the entry answers that says why there are no models; a task of the host gets nothing from it."""
        if call.task:
            return [_NO_ANSWER]
        listing = self._listing(settings.client)
        report = await listing.report(settings.offer, is_admin=call.is_admin)
        return status_answer(report, f"msg_{generate_item_id()}")

    def _sweep_when_due(self, settings: Settings) -> None:
        """Look whether a sweep is due with the first answer, and then once in a while."""
        now = self._loop.time()
        if now >= self._next_sweep_look_seconds:
            self._next_sweep_look_seconds = now + _SWEEP_LOOK_SECONDS
            self._own.start(_clean_up(self._host, settings.store.cleanup_days))

    async def _admitted(self, call: Call, settings: Settings) -> _Admitted | None:
        """The call as it may be sent; None for a task that its model cannot do. Raises what it is refused with."""
        listing = self._listing(settings.client)
        # A worker that was never asked for its models knows none, and would not ask for sealed reasoning.
        await listing.catalog.list()
        call, omitted = await self._permitted(call, settings)
        model = listing.catalog.find(call.model_id)
        call = self._controlled(call, settings, await listing.offered(settings.offer), model)
        if call.task and model and not model.writes:
            return None
        call, settings, payer = await self._affordable(call, settings)
        lines = (*settings.notices, *omitted)
        if not (settings.store.passphrases or self._host.secret_key):
            settings = replace(settings, persistence=_NO_PERSISTENCE)
            lines = (*lines, notice("no_encryption_key"))
        return _Admitted(call, replace(settings, notices=lines), model, payer)

    async def _permitted(self, call: Call, settings: Settings) -> tuple[Call, tuple[str, ...]]:
        """The call with what this user may set alone, and a line about the rest; a task is written by the host."""
        if call.task or call.is_admin:
            return call, ()
        read = self._host.model_parameters
        permitted, omitted = policy.permitted_parameters(
            call.parameters,
            await read(call) if read else {},
            allowed=settings.user_parameters,
            offered={model.id for model in await self._listing(settings.client).offered(settings.offer)},
        )
        call, names = replace(call, parameters=permitted), ", ".join(omitted)
        if not omitted:
            return call, ()
        log.info("parameters that users may not set were omitted: %s", names)
        return call, (notice("parameters_omitted", names=names),)

    async def _affordable(self, call: Call, settings: Settings) -> tuple[Call, Settings, Payer]:
        """The call as it may be sent at its price, and who pays; near a limit it goes the cheaper way.

        Raises SpendingLimitReached, also for the tasks of a message that the user has declined.
        """
        services, spending, lines = self._spending, settings.spending, settings.notices
        if call.task and services.was_declined(call.user_id, call.chat_id):
            raise SpendingLimitReached(notice("task_of_declined"))
        payer = await services.admit(call.user_id, spending, is_admin=call.is_admin, zone=call.time_zone)
        if spending.limits.unreadable:
            lines = (*lines, notice("limits_unreadable_admin", part=spending.limits.unreadable))
        if payer.state and payer.state.is_near:
            lines = (*lines, services.limit_line("limit_near", payer.state, call.time_zone))
            settings = replace(settings, context=replace(settings.context, context_aim="thrifty"))
            near = spending.near_limit
            cheaper = policy.cheaper_parameters(call.parameters, model_id=call.model_id, near_limit=near)
            call = replace(call, parameters=cheaper)
        return call, replace(settings, notices=lines), payer

    async def _turn(
        self,
        call: Call,
        settings: Settings,
        library: MediaLibrary,
        channel: OutputChannel,
        payer: Payer,
    ) -> TurnRunner:
        """What answers the call into the channel."""
        composer = await self._composer(call, settings, library.model)
        responses = self._responses(
            call,
            settings,
            library.model,
            composer.tools,
            retry_seconds=settings.resilience.retry_seconds,
            show=channel.put,
        )
        # Only on a page is there anyone to ask, and a task is not the chat's own request.
        chat = ("", "") if call.task else (call.chat_id, call.message_id)
        spending = Spending(
            self._spending,
            settings.spending,
            payer,
            RequestOrigin(call.user_id, *chat, call.model_id),
            call.chat_id if is_saved(call.chat_id) else "",
            library.model,
            TimedResponses(responses, self._loop.time),
            call.ask if call.in_chat else None,
            call.time_zone,
        )
        ports = Ports(
            responses=spending.responses,
            requests=composer,
            store=(await self._stores_of(settings.store))[0],
            new_id=generate_item_id,
            files=self._host.files if library.saved_for else None,
            attachments=library,
            downloads=library.downloads,
        )
        request = TurnRequest(
            messages=call.messages,
            origin=RequestOrigin(call.user_id, call.chat_id, call.message_id, call.model_id),
            persistence=settings.persistence if call.keeps else _NO_PERSISTENCE,
            base_system_prompt=call.base_system_prompt,
            base_user_prompt=call.base_user_prompt,
            for_admin=call.is_admin,
        )
        fitter = await self._fitter(call, settings, ports, composer, spending)
        self._admission.settings = settings.resilience.admission
        slot = self._admission.slot(call.user_id, is_task=call.task is not None, show=channel.put)
        return TurnRunner(
            request, ports, channel, memory=self._memory, fitter=fitter, slot=slot, spending=spending
        )

    async def _with_documents(
        self, call: Call, settings: Settings, library: MediaLibrary
    ) -> tuple[Call, Mapping[str, str]]:
        """The call with its documents in their messages, and a line about each that the host gives in excerpts.

        What neither the model reads nor the host is put into its message all the same, where a note stands for it. So
        is what the user may not read, unless the host gives it to everybody all the same.
        """
        find, lacks_text = self._host.attached_documents, self._host.files_without_text
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

    def _library(self, call: Call, settings: Settings, model: Model | None) -> MediaLibrary:
        """What reads the call's attachments for its model."""
        media = settings.attachments.media
        downloads = GuardedDownloads(
            DownloadSettings(allowed_hosts=settings.attachments.download_hosts, max_bytes=media.max_bytes)
        )
        saved_for = (call.chat_id, call.message_id) if call.keeps and settings.save_attachments else None
        return MediaLibrary(
            self._host.files, downloads, self._encoded_files, media, model, call.user_id, saved_for
        )

    def _controlled(
        self, call: Call, settings: Settings, offered: Sequence[Model], model: Model | None
    ) -> Call:
        """The call with what is switched for it; a task only with the preferences of providers.

        Raises ConfigurationError where they exclude each other, or the user's own key cannot be used.
        """
        switched = settings.controls
        require_usable(switched.own_api_key)
        parameters = controls.routed(call.parameters, switched)
        if call.task is None:
            parameters = controls.controlled(
                parameters,
                switched,
                offered=offered,
                model=model,
                model_id=call.model_id,
            )
        if call.in_chat:
            parameters = with_search(
                parameters, switched.search, call.host_search, model=model, model_id=call.model_id
            )
        return replace(call, parameters=parameters)

    def _responses(
        self,
        call: Call,
        settings: Settings,
        model: Model | None,
        tools: Sequence[Any],
        *,
        retry_seconds: float,
        show: Show | None = None,
    ) -> Responses:
        """What answers the requests of the call: with the user's own key, if there is one.

        It asks again where that helps; `show` gets the lines about it.
        """
        has_tools, own_key = bool(tools) and call.task is None, settings.controls.own_api_key
        betas = controls.beta_features(settings.controls, model, has_tools=has_tools)
        client = replace(
            settings.client, betas=betas, api_key=settings.client.api_key if own_key is None else own_key
        )
        asking = RetryingResponses(
            OpenRouterClient(self._own.http, client, breaker=self._breaker),
            limit_seconds=retry_seconds,
            show=show,
        )
        return asking if own_key is None else OwnKeyResponses(asking)

    async def _composer(self, call: Call, settings: Settings, model: Model | None) -> Composer:
        identity = self._identity(call, settings)
        if call.task:
            parameters: Mapping[str, Any] = {**policy.task_parameters(call.parameters), **identity}
        else:
            lifetime = await self._cache_lifetime(call, settings, model)
            parameters = policy.chat_parameters(
                call.parameters, model_id=call.model_id, identity=identity, lifetime=lifetime
            )
            parameters = policy.drawing_parameters(
                parameters, model=model, image_config=settings.image_config
            )
        engine = policy.pdf_engine(settings.attachments.pdf_engine, model)
        return Composer(parameters, model=model, model_id=call.model_id, pdf_engine=engine)

    def _identity(self, call: Call, settings: Settings) -> Mapping[str, Any]:
        """What names the chat and its user."""
        secret = self._host.secret_key.encode("utf-8", "surrogatepass")
        caller = Caller(call.user_id, call.chat_id, call.message_id, call.task)
        return identity_parameters(settings.controls.identity, caller, secret)

    async def _cache_lifetime(self, call: Call, settings: Settings, model: Model | None) -> CacheLifetime:
        """How long the provider should keep the chat; the pauses are read only where that can be chosen."""
        setting, find = settings.controls.cache_lifetime, self._host.chat_pauses
        if setting != "auto":
            return setting
        if find is None or not policy.has_cache_lifetimes(call.model_id):
            return "5m"
        return cheapest_lifetime(await find(call), model)

    async def _fitter(
        self, call: Call, settings: Settings, ports: Ports, composer: Composer, spending: Spending
    ) -> RequestFitter:
        """What fits the call's requests. A task is never shortened; an unsaved chat is recorded without its ids."""
        find = self._catalog(settings.client).find
        models = [find(model_id) for model_id in composer.model_ids]
        context = settings.context
        writer = find(policy.summary_model_id(settings.summary.model, call.model_id))
        if call.task:
            context = replace(context, context_strategy="off")
        elif context.context_strategy == "summarize" and writer and not writer.writes:
            context = replace(context, context_strategy="prune")  # a picture is not a summary
        chat = (call.chat_id, call.message_id) if call.keeps else ("", "")
        model = policy.model_terms(call.model_id, models, output_tokens=composer.max_output_tokens)
        if model.window_tokens is None:
            model = replace(model, window_tokens=self._unlisted_window(call, call.model_id, settings))
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
        summarizer = (
            await self._summarizer(call, settings, ports, terms, origin, spending) if summarizes else None
        )
        return RequestFitter(self._planner, terms, origin, summarizer=summarizer)

    async def _summarizer(
        self,
        call: Call,
        settings: Settings,
        ports: Ports,
        terms: RequestTerms,
        origin: RequestOrigin,
        spending: Spending,
    ) -> Summarizer:
        """What writes the call's summaries: the chat's own model, which has it cached, or one with its own prompt."""

        def record(row: AuditRow) -> None:
            self._planner.record(origin, row)
            spending.note_summary(row)

        catalog = self._catalog(settings.client)
        writer_id = policy.summary_model_id(settings.summary.model, call.model_id)
        chat_model, own_model = catalog.find(call.model_id), catalog.find(writer_id)
        named = {**call.parameters, **self._identity(call, settings)}
        parameters = policy.summary_parameters(named, model_id=call.model_id, writer_id=writer_id)
        live = SummaryModel(
            call.model_id,
            ports.requests,
            terms.model.window_tokens or UNKNOWN_WINDOW_TOKENS,
            bool(chat_model and chat_model.reasons),
        )
        composer = Composer(
            parameters, model=own_model, model_id=writer_id, summary_parameters=policy.SUMMARY_FORMAT
        )
        own = SummaryModel(
            writer_id,
            composer,
            (own_model.context_tokens if own_model else None)
            or self._unlisted_window(call, writer_id, settings)
            or UNKNOWN_WINDOW_TOKENS,
            bool(own_model and own_model.reasons),
        )
        writer = SummaryWriter(
            # It has attempts of its own.
            self._responses(call, settings, chat_model, terms.tools, retry_seconds=0.0),
            suffix_model=live if policy.shares_cache(settings.summary.model, terms.model) else None,
            standalone_model=own,
            count=(await self._planner.counter(writer_id)).text,
        )
        return Summarizer(
            (await self._stores_of(settings.store))[1] if call.keeps else self._unsaved_summaries,
            writer,
            self._summarizer_state,
            origin=origin,
            time_limit_seconds=settings.summary.timeout_seconds,
            record=record,
        )

    def _unlisted_window(self, call: Call, model_id: str, settings: Settings) -> int | None:
        """The window of a model of which the catalogue names none: as a provider has named it, or as assumed."""
        return (
            self._planner.named_windows.get((call.user_id, model_id))
            or settings.assumed_window_tokens
            or None
        )

    def _catalog(self, settings: ClientSettings) -> ModelCatalog:
        """The catalogue of the base URL."""
        return self._listing(settings).catalog

    def _listing(self, settings: ClientSettings) -> ModelListing:
        """The models of the base URL and the key."""
        if settings not in self._listings:
            without_key = replace(settings, api_key="")
            folder = self._host.cache_folder
            while len(self._listings) >= _MAX_LISTINGS:
                del self._listings[next(iter(self._listings))]
            self._listings[settings] = ModelListing(
                OpenRouterClient(self._own.http, settings, breaker=self._breaker).get,
                OpenRouterClient(self._own.http, without_key, breaker=self._breaker).get,
                start=self._own.start,
                base_url=settings.base_url,
                has_key=bool(settings.api_key),
                folder=folder / _CATALOGUE_FOLDER if folder else None,
            )
        return self._listings[settings]

    async def _stores_of(self, settings: StoreSettings) -> tuple[ArtifactStore, Summaries]:
        """The stores with the keys of these settings, derived once; without any key, what was stored stays closed."""
        async with self._deriving:
            if settings not in self._stores:
                secret, passphrases = self._host.secret_key, settings.passphrases
                has_key = bool(passphrases or secret)
                found = (secret if has_key else secrets.token_hex(),)
                keyring = await asyncio.to_thread(Keyring, found, passphrases=passphrases)
                # A key for this worker alone must replace nothing that is stored.
                sealing = Sealing(keyring, settings.encrypt_all, settings.accept_unsealed and has_key)
                artifacts = SealedArtifacts(self._own.rows, sealing)
                summaries = SealedSummaries(self._own.summary_rows, keyring)
                self._stores = {settings: (artifacts, summaries if has_key else self._unsaved_summaries)}
            return self._stores[settings]


def build_app() -> App:
    """Build the app on the Open WebUI that it runs in."""
    host = platform()
    redis = host.redis
    return App(
        HostResources(
            database=Database(host.engine, schema=host.schema),
            records=Records(host.engine),
            secret_key=host.secret_key,
            redis=GuardedRedis(redis.client, prefix=redis.prefix) if redis else None,
            cache_folder=host.cache_folder,
            tokenizer_folder=tokenizer_folder(),
            model_parameters=admin_parameters,
            files=HostFiles(),
            attached_documents=partial(attached_documents, unsaved=UnsavedChats()),
            files_without_text=files_without_text,
            chat_pauses=chat_pauses,
            groups=groups_of,
        )
    )


def _close_soon(loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Close in the loop, from whichever thread drops the app; a loop that has stopped took everything with it."""
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop)


async def _clean_up(host: HostResources, keep_days: int) -> None:
    """Delete what is due of all that is stored; 0 days keep all for ever that is not of deleted users and chats."""
    try:
        swept = await Sweep(host.database, host.records, Schedule(keep_days=keep_days)).run()
    except Exception:  # the host may raise anything, and the next sweep may succeed
        log.warning("the sweep of stored items ended early", exc_info=True)
    else:
        log.debug("swept: %s", swept or "not due")
