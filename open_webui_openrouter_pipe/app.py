"""The composition root: builds and owns what lives longer than a request, and joins the parts for each request.

The one place that chooses implementations. One App serves one event loop of one worker. Open WebUI drops an old
instance without a word: what the app owns is therefore closed when nobody holds the app any more.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from .conversation.budget import FALLBACK_WINDOW_TOKENS, smallest_window
from .engine.channel import OutputChannel
from .engine.fit import PlannerServices, RequestFitter, RequestTerms
from .engine.recorder import Persistence, RequestOrigin, generate_item_id
from .engine.round import Ports
from .engine.summarizer import PromptCacheClock, Summarizer, SummarizerState
from .engine.summary_writer import SummaryModel, SummaryWriter
from .engine.turn import SeenOnce, Turn, TurnRequest
from .errors import StoreError
from .history.markers import erase_markers
from .host.call import Call
from .host.platform import platform
from .host.records import Records
from .openrouter.catalog import ModelCatalog, account_digest
from .openrouter.client import ClientSettings, OpenRouterClient
from .openrouter.composer import Composer
from .planning.cache_marks import cache_key
from .planning.plan import ModelTerms
from .planning.simulate import CachePrices
from .ports import ArtifactStore, Model, Notice, Output, RequestBody, Summaries
from .settings import Settings, StoreSettings, vocabulary_folder
from .store.artifacts import epoch_seconds
from .store.audit import AuditLog
from .store.build import build_artifact_store, build_rows, build_summaries, build_summary_rows
from .store.cache import GuardedRedis
from .store.calibrations import StoredCalibrations
from .store.database import Database
from .store.memory import MemorySummaries
from .store.rows import RowStore
from .store.sealing import Keyring, Sealing
from .store.summaries import SummaryRows
from .store.sweep import DAY_SECONDS, Host, Schedule, Sweep
from .store.tokenizer import LocalTokenizer
from .summaries.prompt import SUMMARY_SCHEMA

log = logging.getLogger(__name__)

_CATALOGUE_FILE = "openrouter_pipe_models.json"
_MAX_CONNECTIONS = 200
_KEEPS_NOTHING = Persistence(reasoning="disabled", tools=False)
_TASK_PARAMETERS = frozenset(
    {"max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "provider"}
)
"""What a task takes over; the model's own tools, plugins and formats would only disturb it."""
_TASK_EFFORT = "low"
_SEARCHING = ":online"
"""The variant of a model that reads search results with each request."""
_SUMMARY_PARAMETERS = frozenset({"provider", "user", "safety_identifier"})
_DATA_POLICIES = frozenset({"data_collection", "zdr", "only", "ignore"})
_SUMMARY_FORM: Final[Mapping[str, Any]] = {
    "text": {"format": {"type": "json_schema", "name": "summary", "strict": True, "schema": SUMMARY_SCHEMA}}
}
_SWEEP_LOOK_SECONDS: Final = 60 * 60.0
"""How often a worker that is in use asks the database whether a sweep is due."""


@dataclass(frozen=True, slots=True)
class HostResources:
    """What the host lets the app stand on: its database and Redis, what it knows of users and chats, its secret.

    Without Redis the database stands alone; without a cache folder nothing is cached on disk, and without a folder
    of vocabularies tokens are estimated.
    """

    database: Database
    records: Host
    secret_key: str
    redis: GuardedRedis | None = None
    cache_folder: Path | None = None
    vocabulary_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class OwnedResources:
    """What an app opened and started. Knows nothing of the app, so that it can be closed when the app is gone."""

    http: httpx.AsyncClient
    rows: RowStore
    summary_rows: SummaryRows
    audit: AuditLog
    calibrations: StoredCalibrations
    catalogs: dict[str, ModelCatalog] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that is given up when the app is closed."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for catalog in self.catalogs.values():
            await catalog.aclose()
        await self.audit.aclose()
        await self.calibrations.aclose()
        await self.summary_rows.aclose()
        await self.rows.aclose()
        await self.http.aclose()


@dataclass(frozen=True, slots=True)
class _Stores:
    """What is kept under the same keys."""

    artifacts: ArtifactStore
    summaries: Summaries


class App:
    """Clients, catalogue and store of one worker. Make it inside the event loop that it serves."""

    def __init__(self, ground: HostResources, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` replaces the network."""
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS)
        self._ground = ground
        self._own = OwnedResources(
            http=httpx.AsyncClient(transport=transport, limits=limits),
            rows=build_rows(ground.database, redis=ground.redis),
            summary_rows=build_summary_rows(ground.database),
            audit=AuditLog(ground.database),
            calibrations=StoredCalibrations(ground.database),
        )
        vocabulary = LocalTokenizer(ground.vocabulary_folder)
        self._loop = asyncio.get_running_loop()
        warmth = PromptCacheClock(self._loop.time)
        self._means = PlannerServices(
            self._own.audit, self._own.calibrations, vocabulary, generate_item_id, warmth
        )
        self._desk = SummarizerState(start=self._own.start, clock=self._loop.time)
        self._passing_summaries = MemorySummaries()
        self._look_at_seconds = self._loop.time()
        self._stores: dict[StoreSettings, _Stores] = {}
        self._reported = SeenOnce()
        weakref.finalize(self, _close_soon, self._loop, self._own.aclose).atexit = False

    async def models(self, settings: Settings) -> list[dict[str, str]]:
        """List the offered models as Open WebUI wants them: `id` and `name` of each."""
        models = await self._catalog(settings.client).list()
        return [
            {"id": model.id, "name": model.name}
            for model in models
            if "text" in (model.output_modalities or {"text"})
            and _is_offered(model.id, settings.model_patterns)
        ]

    async def answer(self, call: Call, settings: Settings) -> AsyncGenerator[Output]:
        """Answer a call; close the generator to stop the answer. Ends with a Failed after trouble, never raises."""
        self._have_it_swept(settings.store)
        # A worker that was never asked for its models knows none, and would not ask for sealed reasoning.
        await self._catalog(settings.client).list()
        outlet = OutputChannel()
        ports = self._ports(call, settings)
        fitting = await self._fitting(call, settings, ports)
        turn = Turn(_question(call, settings), ports, outlet, reported=self._reported, fitting=fitting)
        task = self._own.start(turn.run())
        try:
            if call.in_chat and self._reported.fresh(
                [f"{call.user_id} {notice}" for notice in settings.notices]
            ):
                for notice in settings.notices:
                    yield Notice(notice)
            async with aclosing(outlet.drain()) as outputs:
                async for output in outputs:
                    yield output
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def idle(self) -> None:
        """Wait until no answer, sweep or summary is in progress."""
        while self._own.tasks:
            await asyncio.wait(self._own.tasks)

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        await self._own.aclose()

    def _have_it_swept(self, settings: StoreSettings) -> None:
        """Look beside the answer whether a sweep is due: at the first one, and then once in a while."""
        if self._loop.time() < self._look_at_seconds:
            return
        self._look_at_seconds = self._loop.time() + _SWEEP_LOOK_SECONDS
        schedule = Schedule(keep_days=settings.cleanup_days)
        self._own.start(_sweep(Sweep(self._ground.database, self._ground.records, schedule)))
        self._own.start(_forget_audit(self._own.audit, settings.cleanup_days))

    def _ports(self, call: Call, settings: Settings) -> Ports:
        model = self._catalog(settings.client).find(call.model_id)
        parameters = _task_parameters(call) if call.task else self._chat_parameters(call)
        return Ports(
            responses=OpenRouterClient(self._own.http, settings.client),
            requests=Composer(parameters, model=model, model_id=call.model_id),
            store=self._store(settings.store),
            new_id=generate_item_id,
        )

    def _chat_parameters(self, call: Call) -> Mapping[str, Any]:
        """The host's parameters, with what keeps a conversation with the provider that has it cached."""
        parameters = dict(call.parameters)
        if call.chat_id:
            key = cache_key(self._ground.secret_key.encode(), call.user_id, call.chat_id)
            parameters = {"session_id": key, "prompt_cache_key": key, **parameters}
        if call.model_id.startswith("anthropic/"):
            parameters = {"cache_control": {"type": "ephemeral"}, **parameters}
        return parameters

    async def _fitting(self, call: Call, settings: Settings, ports: Ports) -> RequestFitter:
        """What fits the call's requests. A task is never shortened; what is not kept is recorded without a place."""
        body = ports.requests.build(())
        models = [
            self._catalog(settings.client).find(name) for name in (call.model_id, *body.get("models", ()))
        ]
        context = replace(settings.context, context_strategy="off") if call.task else settings.context
        place = (call.chat_id, call.message_id) if call.keeps else ("", "")
        terms = RequestTerms(
            context,
            _model_terms(call.model_id, models, body),
            tuple(body.get("tools", ())),
            recorded=not call.task,
            teaches=not body.get("plugins") and not call.model_id.endswith(_SEARCHING),
        )
        origin = RequestOrigin(call.user_id, *place, call.model_id)
        summarizes = context.context_strategy == "summarize"
        summarizer = await self._summarizer(call, settings, ports, terms, origin) if summarizes else None
        return RequestFitter(self._means, terms, origin, summarizer=summarizer)

    async def _summarizer(
        self, call: Call, settings: Settings, ports: Ports, terms: RequestTerms, origin: RequestOrigin
    ) -> Summarizer:
        """What makes the call's summaries: the chat's own model with all that it has cached, or one of its own."""
        wished, model = settings.summary, terms.model
        own_id = wished.model or model.id.removesuffix(_SEARCHING)
        own = self._catalog(settings.client).find(own_id)
        chats = self._catalog(settings.client).find(model.id)
        window_tokens = model.window_tokens or FALLBACK_WINDOW_TOKENS
        rides = not wished.model and model.prices.rides and not model.id.endswith(_SEARCHING)
        scribe = SummaryWriter(
            ports.responses,
            live=SummaryModel(model.id, ports.requests, window_tokens, bool(chats and chats.reasons))
            if rides
            else None,
            own=SummaryModel(
                own_id,
                Composer(_summary_parameters(call, own_id), model=own, model_id=own_id, aside=_SUMMARY_FORM),
                (own.context_tokens if own else None) or FALLBACK_WINDOW_TOKENS,
                bool(own and own.reasons),
            ),
            count=(await self._means.counter(own_id)).text,
            time_limit_seconds=wished.timeout_seconds,
        )
        return Summarizer(
            self._summaries(settings.store) if call.keeps else self._passing_summaries,
            scribe,
            self._desk,
            origin=origin,
            time_limit_seconds=wished.timeout_seconds,
            record=partial(self._means.record, origin),
        )

    def _catalog(self, settings: ClientSettings) -> ModelCatalog:
        """The catalogue of the account; one that is no longer asked for fetches nothing more."""
        account = account_digest(settings.base_url, settings.api_key)
        catalogs = self._own.catalogs
        if account not in catalogs:
            client = OpenRouterClient(self._own.http, settings)
            folder = self._ground.cache_folder
            path = folder / _CATALOGUE_FILE if folder else None
            catalogs[account] = ModelCatalog(lambda: client.get("/models"), account=account, path=path)
        return catalogs[account]

    def _store(self, settings: StoreSettings) -> ArtifactStore:
        return self._kept(settings).artifacts

    def _summaries(self, settings: StoreSettings) -> Summaries:
        return self._kept(settings).summaries

    def _kept(self, settings: StoreSettings) -> _Stores:
        """The stores with the keys of these settings, derived once."""
        if settings not in self._stores:
            keyring = Keyring((*settings.passphrases, self._ground.secret_key))
            sealing = Sealing(keyring, encrypt_all=settings.encrypt_all)
            artifacts = build_artifact_store(self._own.rows, sealing)
            self._stores = {settings: _Stores(artifacts, build_summaries(self._own.summary_rows, sealing))}
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
            vocabulary_folder=vocabulary_folder(),
        )
    )


def _close_soon(loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Close in the loop, from whichever thread drops the app; a loop that has stopped took everything with it."""
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop)


async def _sweep(sweep: Sweep) -> None:
    try:
        swept = await sweep.run()
    except Exception:  # the host may raise anything, and the next sweep may succeed
        log.warning("the sweep of stored items ended early", exc_info=True)
    else:
        log.debug("swept: %s", swept or "not due")


async def _forget_audit(audit: AuditLog, keep_days: int) -> None:
    """Delete records that are as old as items must be to be deleted; 0 days keep them for ever."""
    if not keep_days:
        return
    try:
        await audit.forget(epoch_seconds() - keep_days * DAY_SECONDS)
    except StoreError as error:
        log.warning("old records of the audit stay for now: %s", error)


def _model_terms(model_id: str, models: Sequence[Model | None], body: RequestBody) -> ModelTerms:
    """The terms of the model that is asked, with the smallest window of all that may answer in its place."""
    asked = models[0]
    windows = [model.context_tokens if model else None for model in models]
    prices = (asked.price_input, asked.price_cache_read, asked.price_cache_write) if asked else (None,) * 3
    return ModelTerms(
        model_id, smallest_window(windows), body.get("max_output_tokens"), CachePrices.of(*prices)
    )


def _question(call: Call, settings: Settings) -> TurnRequest:
    messages = [_without_markers(message) for message in call.messages] if call.task else call.messages
    return TurnRequest(
        messages=messages,
        origin=RequestOrigin(call.user_id, call.chat_id, call.message_id, call.model_id),
        keeping=settings.keeping if call.keeps else _KEEPS_NOTHING,
        base_system_prompt=call.base_system_prompt,
        base_user_prompt=call.base_user_prompt,
    )


def _without_markers(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task's prompt quotes the chat as text; the model should not see what the user does not."""
    content = message.get("content")
    return {**message, "content": erase_markers(content)} if isinstance(content, str) else message


def _task_parameters(call: Call) -> Mapping[str, Any]:
    kept = {key: value for key, value in call.parameters.items() if key in _TASK_PARAMETERS}
    return {**kept, "reasoning_effort": _TASK_EFFORT}


def _summary_parameters(call: Call, writer_id: str) -> Mapping[str, Any]:
    """What a request with a prompt of its own takes over from the chat: who asks, and who may see the data."""
    kept = {key: value for key, value in call.parameters.items() if key in _SUMMARY_PARAMETERS}
    routing = kept.pop("provider", None)
    if isinstance(routing, Mapping) and writer_id != call.model_id:
        routing = {key: value for key, value in routing.items() if key in _DATA_POLICIES}
    return {**kept, "provider": routing, "reasoning_effort": _TASK_EFFORT}


def _is_offered(model_id: str, patterns: tuple[str, ...]) -> bool:
    """Whether the last pattern that fits takes the model in; a list of exclusions alone starts from everything."""
    offered = all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        if fnmatch.fnmatchcase(model_id, pattern.removeprefix("!")):
            offered = not pattern.startswith("!")
    return offered
