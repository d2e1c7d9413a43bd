"""The frozen settings that a request takes from the admin's valves and the user's.

Open WebUI replaces the valves object on a shared instance at any time, so a request reads both once, at its start,
into one `Settings` of small slices, and each part receives only its slice. The environment is read here alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.request import getproxies

from .conversation.budget import ContextSettings
from .errors import PipeError
from .host.model_rows import PRIVATE, PUBLIC, ModelRowSettings
from .host.native import Carrier
from .host.platform import host_secret
from .host.wording import StatusLines
from .media.choice import MediaSettings, PdfEngine
from .money.limits import read_limits
from .openrouter.client import ClientSettings
from .openrouter.controls import ControlSettings, price_text
from .openrouter.offer import OfferSettings, read_filters, read_variants
from .openrouter.search import SearchSettings
from .store.sealing import is_owned, open_text, seal_text
from .turn.admission import AdmissionSettings
from .turn.bill import SpendingSettings
from .turn.recorder import Persistence
from .valves import (
    ADMIN_PROTECTIONS,
    OWN_KEY_PURPOSE,
    PROTECTIONS,
    RULES,
    Advanced,
    Rule,
    UserValves,
    Valves,
    refused_user_valves,
)
from .words.lines import notice


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How artifacts are sealed and how long they are kept; without `passphrases` the host's key is used."""

    passphrases: tuple[str, ...]
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
    carrier: Carrier = "auto"


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
    refused = refused_user_valves(valves)
    hidden = {name for name, by in refused.items() if by == "USER_CONTROLS"}
    wanted = (user_valves or UserValves()).model_dump(exclude_defaults=True)
    own = UserValves.model_construct(**{name: value for name, value in wanted.items() if name not in refused})
    refusal, lost = _lost(valves, sorted(set(unreadable) - hidden))
    ignored = [name for name in wanted if name in refused.keys() - hidden]
    valves, advanced = _combined(valves, own)
    reasoning = advanced.PERSIST_REASONING_TOKENS
    notices = (
        *(
            [notice("reasoning_disabled")]
            if own.PERSIST_REASONING_TOKENS not in {"inherit", reasoning}
            else ()
        ),
        *([notice("user_limits_not_followed", names=", ".join(ignored))] if ignored else ()),
        *lost,
    )
    pictures = {name: getattr(own, valve) for name, valve in _IMAGE_CONFIG.items()}
    return Settings(
        client=ClientSettings(
            base_url=valves.BASE_URL.strip().rstrip("/"),
            api_key=valves.API_KEY.strip() or os.environ.get("OPENROUTER_API_KEY", "").strip(),
            referer=advanced.HTTP_REFERER.strip(),
            title=advanced.APP_TITLE.strip(),
            timeout_seconds=advanced.REQUEST_TIMEOUT_SECONDS,
        ),
        store=StoreSettings(
            passphrases=tuple(_words(valves.ARTIFACT_ENCRYPTION_KEY.replace("\n", ","))),
            cleanup_days=valves.ARTIFACT_CLEANUP_DAYS,
        ),
        persistence=Persistence(reasoning, tools=advanced.PERSIST_TOOL_RESULTS),
        save_attachments=advanced.SAVE_ATTACHMENTS,
        image_config={name: value for name, value in pictures.items() if value != "auto"},
        model_rows=_model_rows(valves, advanced),
        offer=_offer(valves, advanced),
        user_parameters=frozenset(_words(advanced.USER_PARAMETERS)),
        context=_context(valves, advanced, own),
        assumed_window_tokens=advanced.ASSUMED_CONTEXT_TOKENS,
        summary=SummarySettings(valves.SUMMARY_MODEL.strip(), advanced.SUMMARY_TIMEOUT_SECONDS),
        attachments=AttachmentSettings(
            MediaSettings(
                documents=valves.DOCUMENTS,
                parses_pdf="native" not in {valves.DOCUMENTS, valves.PDF_ENGINE},
                max_images=advanced.MAX_INPUT_IMAGES_PER_REQUEST,
                image_selection=advanced.IMAGE_INPUT_SELECTION,
                max_bytes=advanced.MAX_ATTACHMENT_MB * 1024 * 1024,
                max_total_bytes=advanced.MAX_REQUEST_ATTACHMENTS_MB * 1024 * 1024,
            ),
            valves.PDF_ENGINE,
            tuple(_words(advanced.DOWNLOAD_HOSTS)),
        ),
        resilience=ResilienceSettings(
            AdmissionSettings(advanced.MAX_REQUESTS, advanced.MAX_REQUESTS_PER_USER), advanced.RETRY_SECONDS
        ),
        spending=SpendingSettings(
            cost_line=valves.COST_LINE,
            confirm_dollars=valves.CONFIRM_ABOVE_DOLLARS,
            limits=read_limits(valves.SPENDING_LIMITS),
            near_limit=advanced.NEAR_LIMIT,
            own_key=bool(own.API_KEY),
        ),
        notices=notices,
        controls=_controls(valves, advanced, _own_key(own.API_KEY, user_id)),
        steady_prompt=advanced.STEADY_SYSTEM_PROMPT,
        recall_tool=advanced.RECALL_TOOL,
        held_image_config=frozenset(name for name, valve in _IMAGE_CONFIG.items() if valve in hidden),
        refusal=refusal,
        status_lines=own.STATUS_LINES,
    )


def _combined(valves: Valves, own: UserValves) -> tuple[Valves, Advanced]:
    """The administrator's valves with the user's choices put in place, each by the rule of its valve."""
    set_by_admin = {**dict(valves), **dict(valves.advanced)}
    chosen = {name: _by_rule(rule, set_by_admin[name], getattr(own, name)) for name, rule in RULES.items()}
    of_advanced = {name: value for name, value in chosen.items() if name in Advanced.model_fields}
    of_valves = {name: value for name, value in chosen.items() if name in Valves.model_fields}
    return valves.model_copy(update=of_valves), valves.advanced.model_copy(update=of_advanced)


def _by_rule(rule: Rule, admin: Any, own: Any) -> Any:
    match rule:
        case "either":
            return admin or own
        case "off_wins" if admin == "disabled":
            return admin
        case _ if own == "inherit":
            return admin
        case _:
            return own == "on" if isinstance(admin, bool) else own


def _model_rows(valves: Valves, advanced: Advanced) -> ModelRowSettings:
    """Names of groups are read as they are written; an empty valve opens nothing."""
    access = tuple(_words(valves.NEW_MODEL_ACCESS)) or (PRIVATE,)
    if len(access) == 1 and access[0].lower() in {PRIVATE, PUBLIC}:
        access = (access[0].lower(),)
    return ModelRowSettings(advanced.SYNC_MODEL_INFO, access, valves.MODEL_ACCESS_APPLIES_TO)


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


def _controls(valves: Valves, advanced: Advanced, own_api_key: str | None) -> ControlSettings:
    effort, summary = valves.REASONING_EFFORT, advanced.REASONING_SUMMARY
    return ControlSettings(
        reasoning={
            **({} if effort == "default" else {"effort": effort}),
            **({} if summary == "auto" else {"summary": None if summary == "off" else summary}),
        },
        search=SearchSettings(
            mode=valves.WEB_SEARCH,
            engine=advanced.WEB_SEARCH_ENGINE,
            max_results=advanced.WEB_SEARCH_MAX_RESULTS,
            max_searches=advanced.WEB_SEARCH_MAX_SEARCHES,
            fetches=advanced.WEB_FETCH,
            host_switch_by=valves.WEB_SEARCH_BY,
        ),
        provider=_provider(valves, advanced),
        fallback_models=tuple(_words(advanced.FALLBACK_MODELS)),
        service_tier="" if advanced.SERVICE_TIER == "default" else advanced.SERVICE_TIER,
        cache_lifetime=advanced.CACHE_TTL,
        interleaves_thinking=advanced.INTERLEAVED_THINKING,
        identity=valves.SEND_IDENTITY,
        own_api_key=own_api_key,
    )


def _provider(valves: Valves, advanced: Advanced) -> dict[str, object]:
    """The provider preferences that are set, as on the wire."""
    prices = {"prompt": advanced.MAX_PRICE_INPUT, "completion": advanced.MAX_PRICE_OUTPUT}
    wanted: dict[str, object] = {
        "order": _words(advanced.PROVIDER_ORDER),
        "only": _words(advanced.PROVIDER_ONLY),
        "ignore": _words(advanced.PROVIDER_IGNORE),
        "sort": "" if advanced.PROVIDER_SORT == "default" else advanced.PROVIDER_SORT,
        "quantizations": _words(advanced.QUANTIZATIONS),
        "max_price": {name: price_text(limit) for name, limit in prices.items() if limit},
        "data_collection": "deny" if advanced.DATA_COLLECTION == "deny" else "",
        "zdr": valves.ZDR,
        "require_parameters": advanced.REQUIRE_PARAMETERS,
    }
    return {name: value for name, value in wanted.items() if value}


def _lost(valves: Valves, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Why nothing may be sent while valves cannot be read, or else a line about the user's; `names` are these."""
    if lost := [name for name in ADMIN_PROTECTIONS if name in valves.unreadable]:
        return notice("valves_lost", names=", ".join(lost)), ()
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


def _offer(valves: Valves, advanced: Advanced) -> OfferSettings:
    variants, unknown_variants = read_variants(_words(advanced.VARIANTS))
    return OfferSettings(
        patterns=tuple(_words(valves.MODELS)) or ("*",),
        filters=read_filters(_words(valves.MODEL_FILTERS)),
        variants=variants,
        unknown_variants=unknown_variants,
        shows_status=advanced.STATUS_ENTRY == "always",
    )


def _context(valves: Valves, advanced: Advanced, own: UserValves) -> ContextSettings:
    skips_summaries = valves.CONTEXT_STRATEGY == "summarize" and own.SUMMARY_BYPASS
    return ContextSettings(
        tool_output_retention_turns=advanced.TOOL_OUTPUT_RETENTION_TURNS,
        tool_output_pruning=advanced.TOOL_OUTPUT_PRUNING,
        context_strategy="prune" if skips_summaries else valves.CONTEXT_STRATEGY,
        context_aim=valves.CONTEXT_AIM,
        context_max_output_tokens=advanced.CONTEXT_MAX_OUTPUT_TOKENS,
        summary_trigger_ratio=advanced.SUMMARY_TRIGGER_RATIO,
        summary_ahead_ratio=advanced.SUMMARY_AHEAD_RATIO,
        summary_turn_trigger=advanced.SUMMARY_TURN_TRIGGER,
        protected_recent_turns=advanced.PROTECTED_RECENT_TURNS,
        prune_trigger_ratio=advanced.PRUNE_TRIGGER_RATIO,
        clip_last_messages=advanced.CLIP_LAST_MESSAGES,
        clip_minimum_messages=advanced.CLIP_MIN_MESSAGES,
        clip_user_limit=own.CLIP_LAST_MESSAGES or None,
        clip_bypass=own.CLIP_BYPASS,
        recall=valves.RECALL,
    )
