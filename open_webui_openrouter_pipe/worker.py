"""What one worker owns and all its calls share: clients, catalogues, stores, and what it remembers.

One Worker serves one event loop. Open WebUI drops an old instance without a word: what the worker owns is therefore
closed when nobody holds it any more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import weakref
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import httpx

from .conversation.conversation import KeptObjects
from .conversation.masking import NO_SECRET, Secret
from .host.call import AttachedFile, Call
from .host.model_rows import ModelRows, write_model_rows
from .media.memory import ByteBudget, EncodedFiles
from .money.limits import Group, Person
from .openrouter.client import ClientSettings, OpenRouterClient
from .openrouter.connections import Breaker, open_client
from .openrouter.listing import ModelListing
from .openrouter.problems import Checks, Problem
from .openrouter.recorder import ExchangeRecorder
from .openrouter.recordings import FOLDER, Recording, Recordings
from .ports import ArtifactStore, Files, Prompts, Summaries
from .recall.search import TERM_BYTES
from .settings import Settings, StoreSettings, has_proxy, unknown_groups
from .store.artifacts import RunningRows, SavedRows, SealedArtifacts, UnsavedRows
from .store.beside import Leases
from .store.cache import CachedRows, GuardedRedis
from .store.database import Database
from .store.kept import MemorySummaries, SealedPrompts, SealedSummaries
from .store.ledger import SpendingLedger
from .store.sealing import Keyring
from .store.sweep import HostRecords, Schedule, Sweep
from .store.table import RowStore, SqlRows
from .store.tokens import LocalTokenizer, StoredCalibrations
from .turn.admission import Admission
from .turn.bill import SpendingServices
from .turn.fit import PlannerServices
from .turn.late_bills import LateBills
from .turn.memory import Memory
from .turn.own_tools import MAX_WORKER_CALLS
from .turn.recorder import generate_item_id
from .turn.summaries import SummarizerState

log = logging.getLogger(__name__)

_CATALOGUE_FOLDER: Final = "openrouter_pipe"
_MAX_LISTINGS: Final = 4
"""How many base URLs and keys are remembered; of more, those go that were first used longest ago."""
_SWEEP_LOOK_SECONDS: Final = 60 * 60.0
"""How often a worker that is in use asks the database whether a sweep is due."""


def _answers(nothing: object) -> Callable[..., Coroutine[Any, Any, Any]]:
    """What a host answers that does not have this part."""

    async def answer(*_: object) -> object:
        return nothing

    return answer


_NOTHING: Final = _answers(None)
_NO_VALUES: Final = _answers(MappingProxyType({}))
_NO_ENTRIES: Final = _answers(())
_NO_IDS: Final = _answers(frozenset())
_NO_TEXT: Final = _answers("")
_YES: Final = _answers(nothing=True)


@dataclass(frozen=True, slots=True)
class Host:
    """What the app gets of the host: its database and Redis, its secret, and what it knows of users and chats.

    What a host does not have has a part that answers nothing. Without Redis the database is used alone; without a
    secret key nothing is kept but what a passphrase seals; without a cache folder nothing is cached on disk, without
    a tokenizer's folder tokens are estimated, and without `files` pictures stay in the chat.
    """

    database: Database
    records: HostRecords
    secret_key: Secret
    redis: GuardedRedis | None = None
    cache_folder: Path | None = None
    tokenizer_folder: Path | None = None
    files: Files | None = None
    model_parameters: Callable[[Call], Awaitable[Mapping[str, Any]]] = _NO_VALUES
    """Returns what administrators have set for the model of a call."""
    attached_documents: Callable[[Call], Awaitable[Mapping[int, tuple[AttachedFile, ...]]]] = _NO_VALUES
    """Returns the documents of a call's chat by the index of their message."""
    files_without_text: Callable[[Collection[str]], Awaitable[frozenset[str]]] = _NO_IDS
    """Returns those of the files of which the host itself has no text to send."""
    chat_pauses: Callable[[Call], Awaitable[Sequence[float]]] = _NO_ENTRIES
    """Returns the seconds between the user's messages of a call's chat."""
    groups: Callable[[str], Awaitable[Sequence[Group]]] = _NO_ENTRIES
    """Returns the groups of a user, or raises StoreError."""
    group_names: Callable[[], Awaitable[Collection[str] | None]] = _NOTHING
    """Returns the names of all groups, None where they cannot be read."""
    prompt_template: Callable[[Call], Awaitable[str]] = _NO_TEXT
    """Returns the digest of the texts that people wrote of a call's system prompt, "" where that is unknown."""
    folded_answers: Callable[[Call], Awaitable[Sequence[str]]] = _NO_ENTRIES
    """Returns the texts of the answers of a call's chat of which the host keeps no items."""
    replace_user_valve: Callable[[str, str, str, tuple[str, str]], Coroutine[Any, Any, None]] = _NOTHING
    """Stores another value of a user's valve."""
    stored_valves: Callable[[str], Awaitable[Mapping[str, Any] | None]] = _NO_VALUES
    """Returns what is stored of a function's valves, None where the database does not say."""
    default_locale: Callable[[], str] = str
    """Returns the language of who has chosen none."""
    may_continue: Callable[[Call], Awaitable[bool]] = _YES
    """Returns whether a page has the button that continues an answer."""
    voice_prompt: Callable[[], Awaitable[str]] = _NO_TEXT
    """Returns the instructions that the host writes into the system prompt of a call."""
    people: Callable[[], Awaitable[Mapping[str, Person]]] = _NO_VALUES
    """Returns all users by their ids, or raises StoreError."""
    middleware: Callable[[], Any] = lambda: None
    """Returns the host's own module that runs tools, None where it has not all of that."""


class Stores(NamedTuple):
    """The stores with the keys of some settings: artifacts that are durable, of saved chats, and of unsaved ones.

    `running` holds reasoning that is kept for its turn alone; `of_one_call` makes a store in memory.
    """

    durable: ArtifactStore
    saved: ArtifactStore
    unsaved: ArtifactStore
    running: ArtifactStore
    of_one_call: Callable[[], ArtifactStore]
    summaries: Summaries
    prompts: Prompts | None


class OwnedResources:
    """What an app opens and starts; it can be closed after the app was dropped."""

    def __init__(
        self, host: Host, transport: httpx.AsyncBaseTransport | None, clock: Callable[[], float]
    ) -> None:
        """`transport` replaces the network, and `clock` the time in epoch seconds."""
        self.database = database = host.database
        self.http = open_client(transport, has_proxy=has_proxy())
        self.calibrations = StoredCalibrations(database)
        self.ledger = SpendingLedger(database, clock=lambda: int(clock()))
        self.late_bills = LateBills(self.start)
        self.tasks: set[asyncio.Task[None]] = set()
        cache = host.cache_folder
        self.recordings = Recordings(cache / _CATALOGUE_FOLDER / FOLDER if cache else None)
        self.recorder = ExchangeRecorder(self.http, self.recordings, self.start, clock=clock)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work in the background; it is cancelled when the app is closed."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def aclose(self) -> None:
        """Stop what runs and close what is open."""
        self.late_bills.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for resource in (self.recorder, self.ledger, self.calibrations, self.database, self.http):
            await resource.aclose()


class Worker:
    """Clients, catalogues and stores of one worker. Create it inside the event loop that it serves."""

    def __init__(
        self, host: Host, *, transport: httpx.AsyncBaseTransport | None, clock: Callable[[], float]
    ) -> None:
        """`transport` replaces the network, `clock` gives the epoch seconds by which days and prices go."""
        self.host = host
        self.own = OwnedResources(host, transport, clock)
        self.loop = asyncio.get_running_loop()
        self.memory = Memory(clock)
        self.planner = PlannerServices(
            self.own.ledger.write,
            self.own.calibrations,
            LocalTokenizer(host.tokenizer_folder).encode,
            generate_item_id,
            self.memory,
        )
        self.spending = SpendingServices(self.own.ledger, self.planner, host.groups, self.own.late_bills)
        self.summarizer_state = SummarizerState(start=self.own.start, clock=self.loop.time)
        self.unsaved_summaries = MemorySummaries()
        self._rows: RowStore = SqlRows(host.database)
        if host.redis:
            self._rows = CachedRows(self._rows, host.redis, self.own.start)
        self._unsaved_rows, self._running_rows = UnsavedRows(), RunningRows()
        self._next_sweep_look_seconds = self.loop.time()
        self.listings: dict[ClientSettings, ModelListing] = {}
        self._keyed_stores: dict[StoreSettings, Stores] = {}
        self.model_rows = ModelRows(Leases(host.database), self.own.start, self.loop.time, write_model_rows)
        self._deriving = asyncio.Lock()
        self.encoded_files = EncodedFiles(ByteBudget())
        self.kept = KeptObjects()
        self.encoded_files.budget.watch(self.kept)
        self.encoded_files.budget.watch(self.planner.caches.facts, unit_bytes=2)
        self.encoded_files.budget.watch(self.planner.caches.passages, TERM_BYTES)
        self.admission = Admission()
        self.places = asyncio.Semaphore(MAX_WORKER_CALLS)
        """Of calls of the host's tools that run here."""
        self.breaker = Breaker(clock=self.loop.time)
        weakref.finalize(self, _close_soon, self.loop, self.own.aclose).atexit = False

    def sweep_when_due(self, settings: Settings) -> None:
        """Look whether a sweep is due with the first answer, and then once in a while."""
        now = self.loop.time()
        if now >= self._next_sweep_look_seconds:
            self._next_sweep_look_seconds = now + _SWEEP_LOOK_SECONDS
            self.own.start(_clean_up(self.host, settings.store.cleanup_days))

    def recording(self) -> Recording | None:
        """Return what is being recorded now."""
        recordings = self.own.recordings
        switch = recordings.switch
        return recordings.running(self.memory.clock()) if switch and switch.exists() else None

    def client(self, settings: ClientSettings, recording: Recording | None = None) -> OpenRouterClient:
        """Return what speaks HTTP with OpenRouter under these settings, and is recorded where there is a recording."""
        http = self.own.recorder.client(recording) if recording else self.own.http
        return OpenRouterClient(http, settings)

    def listing(self, settings: ClientSettings) -> ModelListing:
        """The models of the base URL and the key."""
        if settings not in self.listings:
            without_key = replace(settings, api_key=NO_SECRET)
            folder = self.host.cache_folder
            while len(self.listings) >= _MAX_LISTINGS:
                del self.listings[next(iter(self.listings))]
            self.listings[settings] = ModelListing(
                self.client(settings).get,
                self.client(without_key).get,
                start=self.own.start,
                base_url=settings.base_url,
                api_key=settings.api_key,
                folder=folder / _CATALOGUE_FOLDER if folder else None,
            )
        return self.listings[settings]

    async def checks(self, settings: Settings) -> Checks:
        """What is wrong with the administrator's settings, with the groups that the host does not have."""
        checks = settings.checks
        known = await self.host.group_names() if any(checks.groups.values()) else None
        if known is None:
            return checks
        return replace(checks, problems=(*checks.problems, *unknown_groups(checks.groups, known)))

    async def problems(self, settings: Settings) -> tuple[Problem, ...]:
        """What is wrong with the administrator's settings, as far as it is known."""
        checks = await self.checks(settings)
        return (*checks.problems, *self.listing(settings.client).unmatched(checks.models))

    async def stores(self, settings: StoreSettings) -> Stores:
        """The stores with the keys of these settings, derived once; without any key, what was stored stays closed."""
        async with self._deriving:
            if settings not in self._keyed_stores:
                secret, passphrases = self.host.secret_key, settings.passphrases
                has_key = bool(passphrases or secret)
                found = (secret if has_key else secrets.token_hex(),)
                keyring = await asyncio.to_thread(Keyring, found, passphrases=passphrases)
                database = self.host.database
                stores = Stores(
                    durable=SealedArtifacts(self._rows, keyring),
                    saved=SealedArtifacts(SavedRows(self._rows, self._unsaved_rows), keyring),
                    unsaved=SealedArtifacts(self._unsaved_rows, keyring),
                    running=SealedArtifacts(self._running_rows, keyring),
                    of_one_call=lambda: SealedArtifacts(UnsavedRows(), keyring),
                    summaries=SealedSummaries(database, keyring) if has_key else self.unsaved_summaries,
                    prompts=SealedPrompts(database, keyring) if has_key else None,
                )
                self._keyed_stores = {settings: stores}
            return self._keyed_stores[settings]


def _close_soon(loop: asyncio.AbstractEventLoop, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Close in the loop, from whichever thread drops the app; a loop that has stopped took everything with it."""
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(close(), loop)


async def _clean_up(host: Host, keep_days: int) -> None:
    """Delete what is due of all that is stored; 0 days keep all for ever that is not of deleted users and chats."""
    try:
        swept = await Sweep(host.database, host.records, Schedule(keep_days=keep_days)).run()
    except Exception:  # the host may raise anything, and the next sweep may succeed
        log.warning("the sweep of stored items ended early", exc_info=True)
    else:
        log.debug("stored items were swept" if swept else "no sweep is due")
