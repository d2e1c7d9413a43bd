"""What Open WebUI lists: the offered models, or why there are none, from one base URL and one key.

Joins the catalogue, the test of the key and the administrator's choice. Never waits but for the very first list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from ..errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    ModelNotFound,
    NotOpenRouter,
    PipeError,
    RequestRejected,
)
from ..ports import Model, Output
from ..responses.effects import ItemFinished, ItemStarted, ResponseFinished, TextDelta
from ..responses.items import AssistantMessage
from ..words.lines import notice
from .catalog import KEY_PATH, Fetch, FetchFailure, KeyFacts, LastGood, ModelCatalog, Start, read_key
from .errors import redact
from .offer import ZDR, OfferSettings, is_offered, offered_models

STATUS_ID: Final = "status"
"""The id of the entry; OpenRouter's own ids have a slash."""

Kind = Literal[
    "address",
    "no_key",
    "key_unusable",
    "key_refused",
    "key_used_up",
    "not_openrouter",
    "unreachable",
    "failing",
    "loading",
    "unknown_filter",
    "zdr_unknown",
    "unmatched",
    "filtered",
    "unknown_variant",
    "ready",
]

_LINES: Final[Mapping[Kind, tuple[str, str, str]]] = MappingProxyType(
    {
        "address": ("status_address", "status_address_advice", "status_for_users_ask"),
        "no_key": ("status_no_key", "status_no_key_advice", "status_for_users_ask"),
        "key_unusable": ("status_key_unusable", "status_key_unusable_advice", "status_for_users_ask"),
        "key_refused": ("status_key_refused", "status_key_refused_advice", "status_for_users_ask"),
        "key_used_up": ("status_key_used_up", "status_key_used_up_advice", "status_for_users_ask"),
        "not_openrouter": ("status_not_openrouter", "status_not_openrouter_advice", "status_for_users_ask"),
        "unreachable": ("status_unreachable", "status_unreachable_advice", "status_for_users_wait"),
        "failing": ("status_failing", "status_failing_advice", "status_for_users_wait"),
        "loading": ("status_loading", "status_loading_advice", "status_for_users_wait"),
        "unknown_filter": ("status_unknown_filter", "status_unknown_filter_advice", "status_for_users_ask"),
        "zdr_unknown": ("status_zdr_unknown", "status_zdr_unknown_advice", "status_for_users_wait"),
        "unmatched": ("status_unmatched", "status_unmatched_advice", "status_for_users_ask"),
        "filtered": ("status_filtered", "status_filtered_advice", "status_for_users_ask"),
        "unknown_variant": (
            "status_unknown_variant",
            "status_unknown_variant_advice",
            "status_for_users_ready",
        ),
        "ready": ("status_ready", "status_ready_advice", "status_for_users_ready"),
    }
)
"""What is wrong, as the entry's name says it; what an administrator can do; and what a user can."""
_WITH_MODELS: Final[frozenset[Kind]] = frozenset({"ready", "unknown_variant"})
"""When the offered models can be used, so that it helps to know how many they are."""
_LIST_FAILURES: Final[tuple[tuple[type[PipeError], Kind], ...]] = (
    (ConfigurationError, "address"),
    (AuthenticationFailed, "key_refused"),
    (ConnectionFailed, "unreachable"),
    (NotOpenRouter, "not_openrouter"),
    (ModelNotFound, "not_openrouter"),
    (RequestRejected, "not_openrouter"),
    (PipeError, "failing"),
)
_MAX_WORD_CHARACTERS = 30


@dataclass(frozen=True, slots=True)
class Status:
    """How things stand: "ready", or what is wrong, since when, and the words of a valve that mean nothing."""

    kind: Kind = "ready"
    since: datetime | None = None
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the entry, of which the page shows about 28 characters: what is wrong, then what to do."""
        return notice("status_entry", status=self._line(_LINES[self.kind][0]))

    def answer(self, key: KeyFacts | None, *, model_count: int, is_admin: bool) -> str:
        """Return what the entry answers: to users only whether to wait or whom to ask."""
        _, for_admins, for_users = _LINES[self.kind]
        if not is_admin:
            return notice(for_users)
        offers = [notice("status_models", count=model_count)] if self.kind in _WITH_MODELS else []
        facts = [*offers, *(key.lines() if key else ())]
        items = [notice("list_item", line=fact) for fact in facts]
        listed = notice("joined", lines=items, separator="\n")
        paragraphs = [each for each in (self._line(for_admins), listed) if each]
        return notice("joined", lines=paragraphs, separator="\n\n")

    def _line(self, name: str) -> str:
        since = f"{self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        words = ", ".join(redact(word)[:_MAX_WORD_CHARACTERS] for word in self.words)
        return notice(name, since=since, words=words)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a base URL and a key: of what is None or False nothing is known.

    `matched` says whether any model matches the patterns, `offered` how many are offered.
    """

    has_key: bool
    key: KeyFacts | None
    key_failure: FetchFailure | None
    is_listed: bool
    list_failure: FetchFailure | None
    has_zdr_ids: bool
    zdr_failure: FetchFailure | None
    matched: bool
    offered: int


def find_status(known: Known, offer: OfferSettings) -> Status:
    """Return how things stand; of several troubles the one that an administrator has to solve first."""
    return next(_troubles(known, offer), Status())


def _troubles(known: Known, offer: OfferSettings) -> Iterator[Status]:
    of_list = _list_trouble(known)
    if of_list and of_list.kind == "address":
        yield of_list
    if of_key := _key_trouble(known):
        yield of_key
    if of_list:
        yield of_list
    if offer.filters.unknown:
        yield Status("unknown_filter", words=offer.filters.unknown)
    if ZDR in offer.filters.words and not known.has_zdr_ids:
        yield Status("zdr_unknown", known.zdr_failure.since if known.zdr_failure else None)
    if not known.offered:
        yield Status("filtered" if known.matched else "unmatched")
    if known.key and known.key.is_used_up:
        yield Status("key_used_up")
    if offer.unknown_variants:
        yield Status("unknown_variant", words=offer.unknown_variants)


def _list_trouble(known: Known) -> Status | None:
    """Why there is no list of models; None when there is one, however old."""
    if known.is_listed:
        return None
    if known.list_failure is None:
        return Status("loading")
    error = known.list_failure.error
    kind = next(kind for kinds, kind in _LIST_FAILURES if isinstance(error, kinds))
    return Status(kind, known.list_failure.since)


def _key_trouble(known: Known) -> Status | None:
    """Why the key cannot be used; None also while that is not known."""
    refusal = known.key_failure.error if known.key_failure else None
    if not known.has_key:
        return Status("no_key")
    if isinstance(refusal, AuthenticationFailed):
        return Status("key_refused")
    return Status("key_unusable") if isinstance(refusal, ConfigurationError) else None


def status_answer(text: str, item_id: str) -> list[Output]:
    """Return a whole answer of this text, as the engine would send it."""
    item: AssistantMessage = {
        "type": "message",
        "id": item_id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    begun: AssistantMessage = {**item, "status": "in_progress", "content": []}
    finished = ResponseFinished(
        status="completed", reason=None, response_id=None, model=None, items=(item,), usage=None
    )
    return [ItemStarted(0, begun), TextDelta(0, 0, text), ItemFinished(0, item), finished]


_KEY_FRESH_SECONDS: Final = 300.0
_KEY_WAIT_SECONDS: Final = 1.0
"""How long the very first list waits for the test of the key; it is the slower one only by accident."""
_REPORT_AGE_SECONDS: Final = 10.0
_REPORT_WAIT_SECONDS: Final = 5.0
"""How old what an administrator reads in a chat may be, and how long its answer waits for something newer."""

_log = logging.getLogger(__name__)


class ModelListing:
    """The models of one base URL and one key, as the administrator offers them."""

    def __init__(
        self,
        fetch: Fetch,
        fetch_without_key: Fetch,
        *,
        start: Start,
        base_url: str,
        has_key: bool,
        folder: Path | None = None,
    ) -> None:
        """`fetch` uses the key, `fetch_without_key` does not; `start` owns tasks, `folder` keeps the last lists."""

        async def fetch_list(path: str) -> Any:
            try:
                return await fetch(path)
            except (AuthenticationFailed, ConfigurationError):  # OpenRouter's own lists need no key
                return await fetch_without_key(path)

        self.catalog = ModelCatalog(fetch_list, start=start, base_url=base_url, folder=folder)
        self._has_key = has_key
        self._key = LastGood(
            lambda: fetch(KEY_PATH), self._read_key, start=start, fresh_seconds=_KEY_FRESH_SECONDS
        )
        self._chosen: tuple[object, object, OfferSettings, tuple[Model, ...]] | None = None

    async def offered(self, offer: OfferSettings) -> tuple[Model, ...]:
        """Return the offered models, in the order and with the names that are shown."""
        await self.catalog.list()
        zdr_ids = await self.catalog.zdr_ids() if ZDR in offer.filters.words else None
        models = self.catalog.models
        last = self._chosen
        if last is None or last[0] is not models or last[1] is not zdr_ids or last[2] != offer:
            chosen = offered_models(models.values(), offer, zdr_ids=zdr_ids)
            self._chosen = last = (models, zdr_ids, offer, chosen)
        return last[3]

    async def entries(self, offer: OfferSettings) -> list[dict[str, str]]:
        """Return what Open WebUI lists: `id` and `name` of each; first what is wrong, if anything is."""
        test = self._test_key()
        await self.catalog.load()
        is_first = not self.catalog.models
        offered = await self.offered(offer)
        if test and is_first:
            await asyncio.wait({test}, timeout=_KEY_WAIT_SECONDS)
        entries = [{"id": model.id, "name": model.name} for model in offered]
        status = self._status(offer, offered)
        if status.kind == "ready" and not offer.shows_status:
            return entries
        return [{"id": STATUS_ID, "name": status.name}, *entries]

    async def report(self, offer: OfferSettings, *, is_admin: bool) -> str:
        """Return the answer of the entry in a chat, from what is known now."""
        await self.catalog.load()
        tasks = (
            self.catalog.refresh(max_age_seconds=_REPORT_AGE_SECONDS),
            self._test_key(_REPORT_AGE_SECONDS),
        )
        if running := {task for task in tasks if task}:
            await asyncio.wait(running, timeout=_REPORT_WAIT_SECONDS)
        offered = await self.offered(offer)
        status = self._status(offer, offered)
        return status.answer(self._key.value, model_count=len(offered), is_admin=is_admin)

    def _status(self, offer: OfferSettings, offered: Collection[Model]) -> Status:
        models = self.catalog.models
        known = Known(
            has_key=self._has_key,
            key=self._key.value,
            key_failure=self._key.failure,
            is_listed=bool(models),
            list_failure=self.catalog.failure,
            has_zdr_ids=self.catalog.has_zdr_ids,
            zdr_failure=self.catalog.zdr_failure,
            matched=bool(offered) or any(is_offered(name, offer.patterns) for name in models),
            offered=len(offered),
        )
        return find_status(known, offer)

    def _test_key(self, max_age_seconds: float | None = None) -> asyncio.Task[None] | None:
        return self._key.refresh(max_age_seconds=max_age_seconds) if self._has_key else None

    def _read_key(self, wire: Any) -> KeyFacts | None:
        """Read the key's facts, and log them when the key is first accepted, or again after it was refused."""
        key = read_key(wire)
        if key and (self._key.value is None or self._key.failure):
            _log.info("the API key is accepted. %s", " ".join(key.lines()))
        return key
