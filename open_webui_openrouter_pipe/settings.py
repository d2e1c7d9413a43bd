"""The frozen settings that a request takes from the admin's valves and the user's.

Open WebUI replaces the valves object on a shared instance at any time, so a request reads both once, at its start,
into one `Settings` of small slices, and each part receives only its slice. The environment is read here alone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .conversation.budget import ContextSettings
from .engine.recorder import Persistence, ReasoningRetention
from .host.model_sync import PRIVATE, PUBLIC, ModelRowSettings
from .host.native import Carrier
from .media.choice import MediaSettings, PdfEngine
from .notices import notice
from .openrouter.client import ClientSettings
from .valves import USER_LIMITS, UserValves, Valves


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
class Settings:
    """All settings of one request. `notices` are lines for the user about settings that are not followed."""

    client: ClientSettings
    store: StoreSettings
    persistence: Persistence
    carrier: Carrier
    save_attachments: bool
    image_config: Mapping[str, str]
    model_patterns: tuple[str, ...]
    model_rows: ModelRowSettings
    user_parameters: frozenset[str]
    context: ContextSettings
    assumed_window_tokens: int
    summary: SummarySettings
    attachments: AttachmentSettings
    notices: tuple[str, ...] = ()


def read_settings(valves: Valves, user_valves: UserValves | None = None) -> Settings:
    """Freeze the valves into the settings of one request."""
    user_valves, limit_notices = _permitted(valves, user_valves or UserValves())
    retention, notices = _reasoning_retention(valves, user_valves)
    wanted = {"aspect_ratio": user_valves.IMAGE_ASPECT_RATIO, "image_size": user_valves.IMAGE_SIZE}
    return Settings(
        client=ClientSettings(
            base_url=valves.BASE_URL.strip().rstrip("/"),
            api_key=valves.API_KEY.strip() or os.environ.get("OPENROUTER_API_KEY", "").strip(),
            referer=valves.HTTP_REFERER.strip(),
            title=valves.APP_TITLE.strip(),
            timeout_seconds=valves.REQUEST_TIMEOUT_SECONDS,
        ),
        store=StoreSettings(
            passphrases=tuple(
                passphrase
                for part in re.split(r"[,\n]", valves.ARTIFACT_ENCRYPTION_KEY)
                if (passphrase := part.strip())
            ),
            encrypt_all=valves.ENCRYPT_ALL,
            accept_unsealed=valves.ACCEPT_UNSEALED_ARTIFACTS,
            cleanup_days=valves.ARTIFACT_CLEANUP_DAYS,
        ),
        persistence=Persistence(reasoning=retention, tools=valves.PERSIST_TOOL_RESULTS),
        carrier=valves.MARKER_CARRIER,
        save_attachments=valves.SAVE_ATTACHMENTS,
        image_config={name: value for name, value in wanted.items() if value != "auto"},
        model_patterns=tuple(_words(valves.MODELS)) or ("*",),
        model_rows=_model_rows(valves),
        user_parameters=frozenset(_words(valves.USER_PARAMETERS)),
        context=_context(valves, user_valves),
        assumed_window_tokens=valves.ASSUMED_CONTEXT_TOKENS,
        summary=SummarySettings(valves.SUMMARY_MODEL.strip(), valves.SUMMARY_TIMEOUT_SECONDS),
        attachments=AttachmentSettings(
            MediaSettings(
                documents=valves.DOCUMENTS,
                parses_pdf="native" not in {valves.DOCUMENTS, valves.PDF_ENGINE},
                max_images=valves.MAX_INPUT_IMAGES_PER_REQUEST,
                image_selection=valves.IMAGE_INPUT_SELECTION,
                max_bytes=valves.MAX_ATTACHMENT_MB * 1024 * 1024,
                max_total_bytes=valves.MAX_REQUEST_ATTACHMENTS_MB * 1024 * 1024,
            ),
            valves.PDF_ENGINE,
            tuple(_words(valves.DOWNLOAD_HOSTS)),
        ),
        notices=(*notices, *limit_notices),
    )


def _model_rows(valves: Valves) -> ModelRowSettings:
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


def _permitted(valves: Valves, user_valves: UserValves) -> tuple[UserValves, tuple[str, ...]]:
    """The user's valves without limits that the administrator does not let users set, and a line that names these."""
    chosen = user_valves.model_dump(include=set(USER_LIMITS), exclude_defaults=True)
    if valves.ENABLE_USER_OVERRIDE or not chosen:
        return user_valves, ()
    permitted = UserValves(**user_valves.model_dump(exclude=set(USER_LIMITS)))
    return permitted, (notice("user_limits_not_followed", names=", ".join(chosen)),)


def _context(valves: Valves, user_valves: UserValves) -> ContextSettings:
    strategy = valves.CONTEXT_STRATEGY
    if strategy == "summarize" and user_valves.SUMMARY_BYPASS:
        strategy = "prune"
    return ContextSettings(
        tool_output_retention_turns=valves.TOOL_OUTPUT_RETENTION_TURNS,
        tool_output_pruning=valves.TOOL_OUTPUT_PRUNING,
        context_strategy=strategy,
        context_aim=valves.CONTEXT_AIM if user_valves.CONTEXT_AIM == "inherit" else user_valves.CONTEXT_AIM,
        context_max_output_tokens=valves.CONTEXT_MAX_OUTPUT_TOKENS,
        summary_trigger_ratio=valves.SUMMARY_TRIGGER_RATIO,
        summary_ahead_ratio=valves.SUMMARY_AHEAD_RATIO,
        summary_turn_trigger=valves.SUMMARY_TURN_TRIGGER,
        protected_recent_turns=valves.PROTECTED_RECENT_TURNS,
        prune_trigger_ratio=valves.PRUNE_TRIGGER_RATIO,
        clip_last_messages=valves.CLIP_LAST_MESSAGES,
        clip_minimum_messages=valves.CLIP_MIN_MESSAGES,
        clip_user_limit=user_valves.CLIP_LAST_MESSAGES or None,
        clip_bypass=user_valves.CLIP_BYPASS,
    )


def _reasoning_retention(
    valves: Valves, user_valves: UserValves
) -> tuple[ReasoningRetention, tuple[str, ...]]:
    """The administrator's `disabled` wins; otherwise the user's own choice does."""
    choice = user_valves.PERSIST_REASONING_TOKENS
    if choice == "inherit":
        return valves.PERSIST_REASONING_TOKENS, ()
    if valves.PERSIST_REASONING_TOKENS == "disabled" != choice:
        return "disabled", (notice("reasoning_disabled"),)
    return choice, ()
