"""What stands in the list of models when something is wrong, and what it answers in a chat.

Pure. Owns which trouble is which, and the words for administrators and for users; an administrator also reads there
what the API key may spend. It finds out nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal

from ..errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    ModelNotFound,
    NotOpenRouter,
    PipeError,
    RequestRejected,
)
from ..notices import notice
from ..ports import Output
from ..responses.effects import ItemFinished, ItemStarted, ResponseFinished, TextDelta
from ..responses.items import AssistantMessage
from .account import KeyFacts
from .errors import redact
from .last_good import FetchFailure
from .offer import ZDR, OfferSettings

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
