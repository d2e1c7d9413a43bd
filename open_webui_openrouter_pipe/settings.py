"""The frozen settings that a request takes from the admin's valves and the user's.

Open WebUI replaces the valves object on a shared instance at any time, so a request reads both once, at its start,
into one `Settings` of small slices, and each part receives only its slice. The environment is read here alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.request import getproxies

from .conversation.budget import ContextSettings
from .errors import PipeError
from .host.model_rows import PRIVATE, PUBLIC, ModelRowSettings
from .host.platform import host_secret
from .host.switches import Switch
from .host.wording import StatusLines
from .media.choice import MediaSettings, PdfEngine
from .money.limits import find_zone, read_limits
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
    AllValves,
    UserValves,
    Valves,
    combined,
    refused_user_valves,
)
from .words.lines import notice

_IMAGE_CONFIG: Final = {"aspect_ratio": "IMAGE_ASPECT_RATIO", "image_size": "IMAGE_SIZE"}
"""The fields of `image_config`, and the user valves that set them."""
_MEGABYTE: Final = 1024 * 1024

_Slice = TypeVar("_Slice")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How artifacts are sealed and how long they are kept; without `passphrases` the host's key is used."""

    passphrases: tuple[str, ...]
    cleanup_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one request: slices for the parts that read them, and single valves under their own names.

    `held_parameters` are paths that only administrators set. `notices` are lines for the user about settings
    that are not followed, `refusal` says why nothing may be sent, "" where something may.
    """

    client: ClientSettings
    store: StoreSettings
    persistence: Persistence
    model_rows: ModelRowSettings
    offer: OfferSettings
    context: ContextSettings
    media: MediaSettings
    admission: AdmissionSettings
    spending: SpendingSettings
    controls: ControlSettings
    user_parameters: frozenset[str]
    held_parameters: frozenset[str] = frozenset()
    download_hosts: tuple[str, ...]
    notices: tuple[str, ...] = ()
    refusal: str = ""
    status_lines: StatusLines = "important"
    store_cost: bool = True
    save_attachments: bool
    assumed_context_tokens: int
    summary_model: str
    """Empty: the chat's own."""
    summary_timeout_seconds: float
    pdf_engine: PdfEngine
    retry_seconds: float
    steady_system_prompt: bool
    recall_tool: bool


def read_settings(
    valves: Valves,
    user_valves: UserValves | None = None,
    *,
    user_id: str = "",
    switched: Sequence[Switch] = (),
) -> Settings:
    """Freeze the valves into the settings of one request; what its user has `switched` on replaces their valves."""
    given, refused = user_valves or UserValves(), refused_user_valves(valves)
    hidden = {name for name, by in refused.items() if by == "USER_CONTROLS"}
    wanted = {**given.model_dump(exclude_defaults=True), **{each.valve: each.value for each in switched}}
    own = UserValves.model_construct(**{name: value for name, value in wanted.items() if name not in refused})
    refusal, notices = _lost(valves, sorted(set(given.unreadable) - hidden))
    chosen = combined(valves, own)
    off = [notice(f"switch_{each.name}") for each in switched if each.valve in hidden]
    if ignored := (*off, *(name for name in wanted if name in refused.keys() - hidden)):
        notices = (notice("user_limits_not_followed", names=ignored), *notices)
    if own.PERSIST_REASONING_TOKENS not in {"inherit", chosen.PERSIST_REASONING_TOKENS}:
        notices = (notice("reasoning_disabled"), *notices)
    return _by_name(
        Settings,
        chosen,
        client=ClientSettings(
            base_url=chosen.BASE_URL.rstrip("/"),
            api_key=chosen.API_KEY or os.environ.get("OPENROUTER_API_KEY", "").strip(),
            referer=chosen.HTTP_REFERER,
            title=chosen.APP_TITLE,
            timeout_seconds=chosen.REQUEST_TIMEOUT_SECONDS,
        ),
        store=StoreSettings(
            tuple(_words(chosen.ARTIFACT_ENCRYPTION_KEY.replace("\n", ","))), chosen.ARTIFACT_CLEANUP_DAYS
        ),
        persistence=Persistence(chosen.PERSIST_REASONING_TOKENS, chosen.PERSIST_TOOL_RESULTS),
        model_rows=_model_rows(chosen),
        offer=_offer(chosen),
        context=_context(chosen, own),
        media=MediaSettings(
            documents=chosen.DOCUMENTS,
            parses_pdf="native" not in {chosen.DOCUMENTS, chosen.PDF_ENGINE},
            max_images=chosen.MAX_INPUT_IMAGES_PER_REQUEST,
            image_selection=chosen.IMAGE_INPUT_SELECTION,
            max_bytes=chosen.MAX_ATTACHMENT_MB * _MEGABYTE,
            max_total_bytes=chosen.MAX_REQUEST_ATTACHMENTS_MB * _MEGABYTE,
        ),
        admission=_by_name(AdmissionSettings, chosen),
        spending=_by_name(
            SpendingSettings,
            chosen,
            confirm_dollars=chosen.CONFIRM_ABOVE_DOLLARS,
            limits=replace(
                read_limits(chosen.SPENDING_LIMITS),
                counts=chosen.LIMITS_COUNT,
                zone=find_zone(chosen.TIME_ZONE) or UTC,
            ),
            own_key=bool(own.API_KEY),
        ),
        controls=_controls(
            chosen,
            own,
            _own_key(own.API_KEY, user_id),
            overrides_effort=own.REASONING_EFFORT in {each.value for each in switched},
        ),
        user_parameters=frozenset(_words(chosen.USER_PARAMETERS)),
        held_parameters=frozenset(
            f"image_config.{name}" for name, valve in _IMAGE_CONFIG.items() if valve in hidden
        ),
        download_hosts=tuple(_words(chosen.DOWNLOAD_HOSTS)),
        notices=notices,
        refusal=refusal,
        status_lines=own.STATUS_LINES,
    )


def _by_name(slice_class: type[_Slice], valves: AllValves, **others: Any) -> _Slice:
    """Fill a slice of settings: a field has the value of the valve of its name, unless it is among the others."""
    names = {each.name: each.name.upper() for each in fields(slice_class)}  # type: ignore[arg-type]  # a dataclass
    by_name = {name: getattr(valves, valve) for name, valve in names.items() if hasattr(valves, valve)}
    return slice_class(**{**by_name, **others})


def _model_rows(valves: AllValves) -> ModelRowSettings:
    """Names of groups are read as they are written; an empty valve opens nothing."""
    access = tuple(_words(valves.NEW_MODEL_ACCESS)) or (PRIVATE,)
    if len(access) == 1 and access[0].lower() in {PRIVATE, PUBLIC}:
        access = (access[0].lower(),)
    return ModelRowSettings(valves.SYNC_MODEL_INFO, access, valves.MODEL_ACCESS_APPLIES_TO)


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


def _controls(
    valves: AllValves, own: UserValves, own_api_key: str | None, *, overrides_effort: bool
) -> ControlSettings:
    effort, summary = valves.REASONING_EFFORT, valves.REASONING_SUMMARY
    pictures = {name: getattr(own, valve) for name, valve in _IMAGE_CONFIG.items()}
    return ControlSettings(
        reasoning={
            **({} if effort == "default" else {"effort": effort}),
            **({} if summary == "auto" else {"summary": None if summary == "off" else summary}),
        },
        search=SearchSettings(
            mode=valves.WEB_SEARCH,
            engine=valves.WEB_SEARCH_ENGINE,
            max_results=valves.WEB_SEARCH_MAX_RESULTS,
            max_searches=valves.WEB_SEARCH_MAX_SEARCHES,
            fetches=valves.WEB_FETCH,
            host_switch_by=valves.WEB_SEARCH_BY,
        ),
        provider=_provider(valves),
        fallback_models=tuple(_words(valves.FALLBACK_MODELS)),
        service_tier="" if valves.SERVICE_TIER == "default" else valves.SERVICE_TIER,
        cache_lifetime=valves.CACHE_TTL,
        image_config={name: value for name, value in pictures.items() if value != "auto"},
        overrides_effort=overrides_effort,
        interleaves_thinking=valves.INTERLEAVED_THINKING,
        identity=valves.SEND_IDENTITY,
        own_api_key=own_api_key,
    )


def _provider(valves: AllValves) -> dict[str, object]:
    """The provider preferences that are set, as on the wire."""
    prices = {"prompt": valves.MAX_PRICE_INPUT, "completion": valves.MAX_PRICE_OUTPUT}
    wanted: dict[str, object] = {
        "order": _words(valves.PROVIDER_ORDER),
        "only": _words(valves.PROVIDER_ONLY),
        "ignore": _words(valves.PROVIDER_IGNORE),
        "sort": "" if valves.PROVIDER_SORT == "default" else valves.PROVIDER_SORT,
        "quantizations": _words(valves.QUANTIZATIONS),
        "max_price": {name: price_text(limit) for name, limit in prices.items() if limit},
        "data_collection": "deny" if valves.DATA_COLLECTION == "deny" else "",
        "zdr": valves.ZDR,
        "require_parameters": valves.REQUIRE_PARAMETERS,
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


def _offer(valves: AllValves) -> OfferSettings:
    variants, unknown_variants = read_variants(_words(valves.VARIANTS))
    return OfferSettings(
        patterns=tuple(_words(valves.MODELS)) or ("*",),
        filters=read_filters(_words(valves.MODEL_FILTERS)),
        variants=variants,
        unknown_variants=unknown_variants,
        shows_status=valves.STATUS_ENTRY == "always",
    )


def _context(valves: AllValves, own: UserValves) -> ContextSettings:
    """The tool for looking things up is offered by what of it can be called, not here."""
    skips_summaries = valves.CONTEXT_STRATEGY == "summarize" and own.SUMMARY_BYPASS
    return _by_name(
        ContextSettings,
        valves,
        context_strategy="prune" if skips_summaries else valves.CONTEXT_STRATEGY,
        clip_minimum_messages=valves.CLIP_MIN_MESSAGES,
        clip_user_limit=own.CLIP_LAST_MESSAGES or None,
        clip_bypass=own.CLIP_BYPASS,
        recall_tool=False,
    )
