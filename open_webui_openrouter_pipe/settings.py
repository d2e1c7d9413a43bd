"""The frozen settings that a request takes from the admin's valves and the user's.

Open WebUI replaces the valves object on a shared instance at any time, so a request reads both once, at its start,
into one `Settings` of small slices, and each part receives only its slice. The environment is read here alone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.request import getproxies

from .conversation.budget import ContextSettings
from .errors import PipeError
from .host.model_rows import PRIVATE, PUBLIC, ModelRowSettings
from .host.native import Carrier
from .host.platform import host_secret
from .host.wording import StatusLines
from .media.choice import MediaSettings, PdfEngine
from .money.limits import read_limits
from .notices import notice
from .openrouter.client import ClientSettings
from .openrouter.controls import ControlSettings, price_text
from .openrouter.offer import OfferSettings, read_filters, read_variants
from .openrouter.search import SearchSettings
from .store.sealing import is_owned, open_text, seal_text
from .turn.admission import AdmissionSettings
from .turn.bill import SpendingSettings
from .turn.recorder import Persistence, ReasoningRetention
from .valves import (
    ADMIN_PROTECTIONS,
    OWN_KEY_PURPOSE,
    PROTECTIONS,
    USER_LIMITS,
    UserValves,
    Valves,
    hidden_controls,
)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How artifacts are sealed and how long they are kept; without `passphrases` the host's key is used."""

    passphrases: tuple[str, ...]
    encrypt_all: bool
    accept_unsealed: bool
    cleanup_days: int


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """Who writes summaries (empty: the chat's own model), and how long one may take."""

    model: str
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class AttachmentSettings:
    """What is sent of attachments, what reads PDFs, and from where inside the network may be downloaded."""

    media: MediaSettings
    pdf_engine: PdfEngine
    download_hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResilienceSettings:
    """How many requests run at once, and how long what fails for the moment is tried again."""

    admission: AdmissionSettings
    retry_seconds: float


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one request. `notices` are lines for the user about settings that are not followed.

    `held_image_config` names what of pictures only administrators set. `refusal` says why nothing may be sent, ""
    where something may.
    """

    client: ClientSettings
    store: StoreSettings
    persistence: Persistence
    carrier: Carrier
    save_attachments: bool
    image_config: Mapping[str, str]
    model_rows: ModelRowSettings
    offer: OfferSettings
    user_parameters: frozenset[str]
    context: ContextSettings
    assumed_window_tokens: int
    summary: SummarySettings
    attachments: AttachmentSettings
    resilience: ResilienceSettings
    spending: SpendingSettings = field(default_factory=SpendingSettings)
    notices: tuple[str, ...] = ()
    controls: ControlSettings = field(default_factory=ControlSettings)
    steady_prompt: bool = True
    recall_tool: bool = True
    """Whether models that call tools may look up what was removed from their chat."""
    held_image_config: frozenset[str] = frozenset()
    refusal: str = ""
    status_lines: StatusLines = "all"


_IMAGE_CONFIG: Final = {"aspect_ratio": "IMAGE_ASPECT_RATIO", "image_size": "IMAGE_SIZE"}
"""The fields of `image_config`, and the user valves that set them."""


def read_settings(
    valves: Valves,
    user_valves: UserValves | None = None,
    *,
    user_id: str = "",
    unreadable: Collection[str] = (),
) -> Settings:
    """Freeze the valves into the settings of one request.

    `unreadable` are the names of the user's valves that cannot be read.
    """
    hidden = hidden_controls(valves)
    user_valves, limit_notices = _permitted(valves, _visible(hidden, user_valves or UserValves()))
    refusal, lost_notices = _lost(sorted(set(unreadable) - hidden))
    if lost := [name for name in ADMIN_PROTECTIONS if name in valves.unreadable]:
        refusal = notice("valves_lost", names=", ".join(lost))
    retention, notices = _reasoning_retention(valves, user_valves)
    wanted = {name: getattr(user_valves, valve) for name, valve in _IMAGE_CONFIG.items()}
    return Settings(
        client=ClientSettings(
            base_url=valves.BASE_URL.strip().rstrip("/"),
            api_key=valves.API_KEY.strip() or os.environ.get("OPENROUTER_API_KEY", "").strip(),
            referer=valves.advanced.HTTP_REFERER.strip(),
            title=valves.advanced.APP_TITLE.strip(),
            timeout_seconds=valves.advanced.REQUEST_TIMEOUT_SECONDS,
        ),
        store=StoreSettings(
            passphrases=tuple(
                passphrase
                for part in re.split(r"[,\n]", valves.ARTIFACT_ENCRYPTION_KEY)
                if (passphrase := part.strip())
            ),
            encrypt_all=valves.advanced.ENCRYPT_ALL,
            accept_unsealed=valves.advanced.ACCEPT_UNSEALED_ARTIFACTS,
            cleanup_days=valves.ARTIFACT_CLEANUP_DAYS,
        ),
        persistence=Persistence(
            reasoning=retention,
            tools=valves.advanced.PERSIST_TOOL_RESULTS,
            in_text=valves.advanced.MARKER_CARRIER == "text",
        ),
        carrier=valves.advanced.MARKER_CARRIER,
        save_attachments=valves.advanced.SAVE_ATTACHMENTS,
        image_config={name: value for name, value in wanted.items() if value != "auto"},
        model_rows=_model_rows(valves),
        offer=_offer(valves),
        user_parameters=frozenset(_words(valves.advanced.USER_PARAMETERS)),
        context=_context(valves, user_valves),
        assumed_window_tokens=valves.advanced.ASSUMED_CONTEXT_TOKENS,
        summary=SummarySettings(valves.SUMMARY_MODEL.strip(), valves.advanced.SUMMARY_TIMEOUT_SECONDS),
        attachments=AttachmentSettings(
            MediaSettings(
                documents=valves.DOCUMENTS,
                parses_pdf="native" not in {valves.DOCUMENTS, valves.PDF_ENGINE},
                max_images=valves.advanced.MAX_INPUT_IMAGES_PER_REQUEST,
                image_selection=valves.advanced.IMAGE_INPUT_SELECTION,
                max_bytes=valves.advanced.MAX_ATTACHMENT_MB * 1024 * 1024,
                max_total_bytes=valves.advanced.MAX_REQUEST_ATTACHMENTS_MB * 1024 * 1024,
            ),
            valves.PDF_ENGINE,
            tuple(_words(valves.advanced.DOWNLOAD_HOSTS)),
        ),
        resilience=ResilienceSettings(
            AdmissionSettings(valves.advanced.MAX_REQUESTS, valves.advanced.MAX_REQUESTS_PER_USER),
            valves.advanced.RETRY_SECONDS,
        ),
        spending=SpendingSettings(
            cost_line=valves.COST_LINE if user_valves.COST_LINE == "inherit" else user_valves.COST_LINE,
            confirm_dollars=valves.CONFIRM_ABOVE_DOLLARS,
            limits=read_limits(valves.SPENDING_LIMITS),
            near_limit=valves.advanced.NEAR_LIMIT,
            own_key=bool(user_valves.API_KEY),
        ),
        notices=(*notices, *limit_notices, *lost_notices),
        controls=_controls(valves, user_valves, user_id),
        steady_prompt=valves.advanced.STEADY_SYSTEM_PROMPT,
        recall_tool=valves.advanced.RECALL_TOOL,
        held_image_config=frozenset(name for name, valve in _IMAGE_CONFIG.items() if valve in hidden),
        refusal=refusal,
        status_lines=user_valves.STATUS_LINES,
    )


def _model_rows(valves: Valves) -> ModelRowSettings:
    """Names of groups are read as they are written; an empty valve opens nothing."""
    access = tuple(_words(valves.NEW_MODEL_ACCESS)) or (PRIVATE,)
    if len(access) == 1 and access[0].lower() in {PRIVATE, PUBLIC}:
        access = (access[0].lower(),)
    return ModelRowSettings(valves.advanced.SYNC_MODEL_INFO, access, valves.MODEL_ACCESS_APPLIES_TO)


def _words(valve: str) -> list[str]:
    return [word for part in valve.split(",") if (word := part.strip())]


def tokenizer_folder() -> Path | None:
    """Return the folder in which tiktoken caches its files; None when its variable is set to nothing."""
    default = Path(tempfile.gettempdir()) / "data-gym-cache"
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", str(default)))
    return Path(folder) if folder else None


def has_proxy() -> bool:
    """Return whether the environment names a proxy for requests, as httpx reads it."""
    return not getproxies().keys().isdisjoint({"http", "https", "all"})


def _permitted(valves: Valves, user_valves: UserValves) -> tuple[UserValves, tuple[str, ...]]:
    """The user's valves without limits that the administrator does not let users set, and a line that names these."""
    chosen = user_valves.model_dump(include=set(USER_LIMITS), exclude_defaults=True)
    if valves.ENABLE_USER_OVERRIDE or not chosen:
        return user_valves, ()
    permitted = UserValves(**user_valves.model_dump(exclude=set(USER_LIMITS)))
    return permitted, (notice("user_limits_not_followed", names=", ".join(chosen)),)


def _visible(hidden: Collection[str], user_valves: UserValves) -> UserValves:
    """The user's valves without those that the administrator hides."""
    defaults = {name: UserValves.model_fields[name].default for name in hidden}
    return user_valves.model_copy(update=defaults)


def _controls(valves: Valves, user_valves: UserValves, user_id: str) -> ControlSettings:
    """The user's choices go before the administrator's defaults."""
    effort = _chosen(user_valves.REASONING_EFFORT, valves.REASONING_EFFORT)
    summary = _chosen(user_valves.REASONING_SUMMARY, valves.advanced.REASONING_SUMMARY)
    return ControlSettings(
        reasoning={
            **({} if effort == "default" else {"effort": effort}),
            **({} if summary == "auto" else {"summary": None if summary == "off" else summary}),
        },
        search=SearchSettings(
            mode=valves.WEB_SEARCH if user_valves.WEB_SEARCH == "inherit" else user_valves.WEB_SEARCH,
            engine=valves.advanced.WEB_SEARCH_ENGINE,
            max_results=valves.advanced.WEB_SEARCH_MAX_RESULTS,
            max_searches=valves.advanced.WEB_SEARCH_MAX_SEARCHES,
            fetches=valves.advanced.WEB_FETCH,
            host_switch_by=valves.WEB_SEARCH_BY,
        ),
        provider=_provider(valves, user_valves),
        fallback_models=tuple(_words(valves.advanced.FALLBACK_MODELS)),
        service_tier="" if valves.advanced.SERVICE_TIER == "default" else valves.advanced.SERVICE_TIER,
        cache_lifetime=valves.advanced.CACHE_TTL,
        interleaves_thinking=valves.advanced.INTERLEAVED_THINKING,
        identity=valves.SEND_IDENTITY,
        own_api_key=_own_key(user_valves.API_KEY, user_id),
    )


def _chosen(own: str, default: str) -> str:
    return default if own == "inherit" else own


def _provider(valves: Valves, user_valves: UserValves) -> dict[str, object]:
    """The provider preferences that are set, as on the wire."""
    prices = {"prompt": valves.advanced.MAX_PRICE_INPUT, "completion": valves.advanced.MAX_PRICE_OUTPUT}
    sort = _chosen(user_valves.PROVIDER_SORT, valves.advanced.PROVIDER_SORT)
    wanted: dict[str, object] = {
        "order": _words(valves.advanced.PROVIDER_ORDER),
        "only": _words(valves.advanced.PROVIDER_ONLY),
        "ignore": _words(valves.advanced.PROVIDER_IGNORE),
        "sort": "" if sort == "default" else sort,
        "quantizations": _words(valves.advanced.QUANTIZATIONS),
        "max_price": {name: price_text(limit) for name, limit in prices.items() if limit},
        "data_collection": "deny" if valves.advanced.DATA_COLLECTION == "deny" else "",
        "zdr": valves.ZDR or user_valves.ZDR,
        "require_parameters": valves.advanced.REQUIRE_PARAMETERS,
    }
    return {name: value for name, value in wanted.items() if value}


def _lost(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Why nothing may be sent while valves of these names cannot be read, or else a line about them."""
    if not set(names).isdisjoint(PROTECTIONS):
        return notice("user_valves_lost", names=", ".join(names)), ()
    return "", (notice("user_valves_unreadable", names=", ".join(names)),) if names else ()


def bound_key(sealed: str, user_id: str) -> str:
    """Return a user's own key sealed for that user alone; "" where it is so already, or cannot be.

    The host does not say whose form it has filled in, so that a key is bound with its first request.
    """
    key = "" if is_owned(sealed) or not user_id else _own_key(sealed, user_id)
    return seal_text(key, host_secret(), purpose=OWN_KEY_PURPOSE, owner=user_id) if key else ""


def _own_key(sealed: str, user_id: str) -> str | None:
    """The user's own key, None without one; empty for one that was sealed with another secret, or for another user."""
    if not sealed:
        return None
    try:
        return open_text(sealed, host_secret(), purpose=OWN_KEY_PURPOSE, owner=user_id)
    except PipeError:
        return ""


def _offer(valves: Valves) -> OfferSettings:
    variants, unknown_variants = read_variants(_words(valves.advanced.VARIANTS))
    return OfferSettings(
        patterns=tuple(_words(valves.MODELS)) or ("*",),
        filters=read_filters(_words(valves.MODEL_FILTERS)),
        variants=variants,
        unknown_variants=unknown_variants,
        shows_status=valves.advanced.STATUS_ENTRY == "always",
    )


def _context(valves: Valves, user_valves: UserValves) -> ContextSettings:
    strategy = valves.CONTEXT_STRATEGY
    if strategy == "summarize" and user_valves.SUMMARY_BYPASS:
        strategy = "prune"
    return ContextSettings(
        tool_output_retention_turns=valves.advanced.TOOL_OUTPUT_RETENTION_TURNS,
        tool_output_pruning=valves.advanced.TOOL_OUTPUT_PRUNING,
        context_strategy=strategy,
        context_aim=valves.CONTEXT_AIM if user_valves.CONTEXT_AIM == "inherit" else user_valves.CONTEXT_AIM,
        context_max_output_tokens=valves.advanced.CONTEXT_MAX_OUTPUT_TOKENS,
        summary_trigger_ratio=valves.advanced.SUMMARY_TRIGGER_RATIO,
        summary_ahead_ratio=valves.advanced.SUMMARY_AHEAD_RATIO,
        summary_turn_trigger=valves.advanced.SUMMARY_TURN_TRIGGER,
        protected_recent_turns=valves.advanced.PROTECTED_RECENT_TURNS,
        prune_trigger_ratio=valves.advanced.PRUNE_TRIGGER_RATIO,
        clip_last_messages=valves.advanced.CLIP_LAST_MESSAGES,
        clip_minimum_messages=valves.advanced.CLIP_MIN_MESSAGES,
        clip_user_limit=user_valves.CLIP_LAST_MESSAGES or None,
        clip_bypass=user_valves.CLIP_BYPASS,
        recall=valves.RECALL if user_valves.RECALL == "inherit" else user_valves.RECALL == "on",
    )


def _reasoning_retention(
    valves: Valves, user_valves: UserValves
) -> tuple[ReasoningRetention, tuple[str, ...]]:
    """The administrator's `disabled` wins; otherwise the user's own choice does."""
    choice = user_valves.PERSIST_REASONING_TOKENS
    if choice == "inherit":
        return valves.advanced.PERSIST_REASONING_TOKENS, ()
    if valves.advanced.PERSIST_REASONING_TOKENS == "disabled" != choice:
        return "disabled", (notice("reasoning_disabled"),)
    return choice, ()
