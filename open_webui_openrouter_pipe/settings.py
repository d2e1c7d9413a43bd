"""The frozen settings that a request takes from the admin's valves and the user's.

Open WebUI replaces the valves object on a shared instance at any time, so a request reads both once, at its start,
into one `Settings` of small slices, and each part receives only its slice. The environment is read here alone.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final, TypeVar, get_args
from urllib.request import getproxies
from zoneinfo import available_timezones

from .conversation.budget import ContextSettings
from .conversation.masking import NO_SECRET, Secret
from .errors import PipeError
from .host.model_rows import PRIVATE, PUBLIC, ModelRowSettings
from .host.platform import host_secret
from .host.switches import Switch
from .host.wording import StatusLines
from .media.choice import MediaSettings, PdfEngine
from .media.memory import FILE_SHARE, MEGABYTE, REQUEST_SHARE
from .money.limits import SpendingLimits, find_zone, read_limits
from .openrouter.client import DEFAULT_BASE_URL, ClientSettings
from .openrouter.controls import SERVER_TOOLS_WORD, ControlSettings, price_text
from .openrouter.fields import RESTRICTED
from .openrouter.offer import MOST_MEANT, OfferSettings, read_filters, read_variants
from .openrouter.problems import (
    MOST_PROBLEMS,
    NO_CHECKS,
    Checks,
    NamedModels,
    Problem,
    nearest,
    quoted,
    unknown_word,
)
from .openrouter.server_tools import ServerToolSettings
from .responses.tools import SEARCH, SERVER_TOOLS, read_allowed
from .store.sealing import MIN_PASSPHRASE_CHARACTERS, is_owned, open_text, seal_text
from .turn.admission import AdmissionSettings
from .turn.bill import SpendingSettings
from .turn.recorder import Persistence
from .valves import (
    ADMIN_PROTECTIONS,
    OWN_KEY_PURPOSE,
    PROTECTIONS,
    USER_PERMISSIONS,
    Advanced,
    AllValves,
    Quantization,
    ToolExecution,
    UserValves,
    Valves,
    combined,
    refused_user_valves,
    takes,
)
from .words.lines import notice

_IMAGE_CONFIG: Final = {"aspect_ratio": "IMAGE_ASPECT_RATIO", "image_size": "IMAGE_SIZE"}
"""The fields of `image_config`, and the user valves that set them."""
_CREATION: Final = ("VIDEO_", "IMAGE_", "SPEECH_", "TRANSCRIPT")
"""How the names of user valves begin about what is made by the piece."""
_KEY_BEGINNING: Final = "sk-or-"
_HOST: Final = re.compile(r"[\w.-]+|\[?[\da-fA-F:.]+\]?")
QUANTIZATIONS: Final = get_args(Quantization)
_KNOWN_WORDS: Final[Mapping[str, Collection[str]]] = {
    "USER_CONTROLS": (*(name for name, by in USER_PERMISSIONS.items() if by == "USER_CONTROLS"), "none"),
    "USER_PARAMETERS": (*sorted(RESTRICTED), SERVER_TOOLS_WORD),
    "QUANTIZATIONS": QUANTIZATIONS,
    "SERVER_TOOLS": (*(name for name in SERVER_TOOLS if name != SEARCH.name), "none"),
}
"""The words that these valves take."""

_Slice = TypeVar("_Slice")


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How artifacts are sealed and how long they are kept; without `passphrases` the host's key is used."""

    passphrases: tuple[Secret, ...]
    cleanup_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of one request: slices for the parts that read them, and single valves under their own names.

    `held_parameters` are paths that only administrators set. `notices` are lines for the user about settings
    that are not followed, `refusal` says why nothing may be sent, "" where something may. `checks` are of the
    administrator's valves, `own_problems` of the user's.
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
    checks: Checks = NO_CHECKS
    own_problems: tuple[Problem, ...] = ()
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
    tool_execution: ToolExecution
    tool_timeout_seconds: float
    creation: Mapping[str, Any] = field(default_factory=dict)
    """What the user has set about what is made by the piece, by the names of the valves in lower case."""

    def names_costs(self, *, in_arena: bool) -> bool:
        """Return whether costs may stand with an answer: not where its model is to be guessed."""
        return self.store_cost and not in_arena


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
    given_values = {name: value for name, value in given if value != UserValves.model_fields[name].default}
    wanted = {**given_values, **{each.valve: each.value for each in switched if each.valve}}
    own = UserValves.model_construct(**{name: value for name, value in wanted.items() if name not in refused})
    chosen, own_api_key = combined(valves, own), _own_key(own.API_KEY, user_id)
    own_problems = tuple(each for each in given.problems if each.valve not in hidden)
    refusal, notices = _lost(valves, own_problems)
    own_problems += tuple(_wrong_key(own_api_key, chosen.BASE_URL))
    tools, allowed = [each.name for each in switched if not each.valve], read_allowed(chosen.SERVER_TOOLS)
    hidden |= {name for name in tools if name not in allowed}
    off = [notice(f"switch_{each.name}") for each in switched if (each.valve or each.name) in hidden]
    if ignored := (*off, *(name for name in wanted if name in refused.keys() - hidden)):
        notices = (notice("parameters_omitted", names=ignored), *notices)
    if own.PERSIST_REASONING_TOKENS not in {"inherit", chosen.PERSIST_REASONING_TOKENS}:
        notices = (notice("reasoning_disabled"), *notices)
    return _by_name(
        Settings,
        chosen,
        client=ClientSettings(
            base_url=chosen.BASE_URL.rstrip("/"),
            api_key=Secret(chosen.API_KEY or os.environ.get("OPENROUTER_API_KEY", "").strip()),
            referer=chosen.HTTP_REFERER,
            title=chosen.APP_TITLE,
            timeout_seconds=chosen.REQUEST_TIMEOUT_SECONDS,
        ),
        store=StoreSettings(_passphrases(chosen), chosen.ARTIFACT_CLEANUP_DAYS),
        persistence=Persistence(chosen.PERSIST_REASONING_TOKENS, chosen.PERSIST_TOOL_RESULTS),
        model_rows=_model_rows(chosen),
        offer=_offer(chosen),
        context=_context(chosen, own),
        media=_media(chosen),
        admission=_by_name(AdmissionSettings, chosen),
        spending=_spending(chosen, has_own_key=bool(own.API_KEY)),
        controls=_controls(
            chosen,
            own,
            own_api_key,
            overrides_effort=own.REASONING_EFFORT in {each.value for each in switched},
            tools={name: allowed[name] for name in tools if name in allowed},
        ),
        user_parameters=frozenset(_words(chosen.USER_PARAMETERS.lower())),
        held_parameters=frozenset(
            f"image_config.{name}" for name, valve in _IMAGE_CONFIG.items() if valve in hidden
        ),
        download_hosts=tuple(_words(chosen.DOWNLOAD_HOSTS)),
        notices=notices,
        refusal=refusal,
        checks=_checks(valves, chosen),
        own_problems=own_problems,
        status_lines=own.STATUS_LINES,
        creation={
            name.lower(): value
            for name, value in own
            if name.startswith(_CREATION) and value != UserValves.model_fields[name].default
        },
    )


def _by_name(slice_class: type[_Slice], valves: AllValves, **others: Any) -> _Slice:
    """Fill a slice of settings: a field has the value of the valve of its name, unless it is among the others."""
    names = {each.name: each.name.upper() for each in fields(slice_class)}  # type: ignore[arg-type]  # a dataclass
    by_name = {name: getattr(valves, valve) for name, valve in names.items() if hasattr(valves, valve)}
    return slice_class(**{**by_name, **others})


def _media(valves: AllValves) -> MediaSettings:
    memory_bytes = valves.MAX_MEMORY_MB * MEGABYTE
    most_bytes = memory_bytes // REQUEST_SHARE
    return MediaSettings(
        documents=valves.DOCUMENTS,
        parses_pdf="native" not in {valves.DOCUMENTS, valves.PDF_ENGINE},
        max_images=valves.MAX_INPUT_IMAGES_PER_REQUEST,
        image_selection=valves.IMAGE_INPUT_SELECTION,
        max_bytes=min(valves.MAX_ATTACHMENT_MB * MEGABYTE, memory_bytes // FILE_SHARE),
        max_total_bytes=min(valves.MAX_REQUEST_ATTACHMENTS_MB * MEGABYTE or most_bytes, most_bytes),
        memory_bytes=memory_bytes,
    )


def _spending(valves: AllValves, *, has_own_key: bool) -> SpendingSettings:
    limits = read_limits(valves.SPENDING_LIMITS)
    zone = find_zone(valves.TIME_ZONE) or UTC
    return _by_name(
        SpendingSettings,
        valves,
        confirm_dollars=valves.CONFIRM_ABOVE_DOLLARS,
        limits=replace(limits, counts=valves.LIMITS_COUNT, zone=zone),
        own_key=has_own_key,
    )


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
    valves: AllValves,
    own: UserValves,
    own_api_key: Secret | None,
    *,
    overrides_effort: bool,
    tools: Mapping[str, str],
) -> ControlSettings:
    effort, summary = valves.REASONING_EFFORT, valves.REASONING_SUMMARY
    pictures = {name: getattr(own, valve) for name, valve in _IMAGE_CONFIG.items()}
    return ControlSettings(
        reasoning={
            **({} if effort == "default" else {"effort": effort}),
            **({} if summary == "auto" else {"summary": None if summary == "off" else summary}),
        },
        server_tools=ServerToolSettings(
            mode=valves.WEB_SEARCH,
            engine=valves.WEB_SEARCH_ENGINE,
            max_results=valves.WEB_SEARCH_MAX_RESULTS,
            max_searches=valves.WEB_SEARCH_MAX_SEARCHES,
            fetches=valves.WEB_FETCH,
            host_switch_by=valves.WEB_SEARCH_BY,
            tools=tools,
            max_steps=valves.SERVER_TOOL_STEPS,
            max_dollars=valves.SERVER_TOOL_DOLLARS,
            aspect_ratio="" if own.IMAGE_ASPECT_RATIO == "auto" else own.IMAGE_ASPECT_RATIO,
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
        router_tier="" if own.ROUTER_TIER == "default" else own.ROUTER_TIER,
    )


def _provider(valves: AllValves) -> dict[str, object]:
    """The provider preferences that are set, as on the wire."""
    prices = {"prompt": valves.MAX_PRICE_INPUT, "completion": valves.MAX_PRICE_OUTPUT}
    wanted: dict[str, object] = {
        "order": _words(valves.PROVIDER_ORDER),
        "only": _words(valves.PROVIDER_ONLY),
        "ignore": _words(valves.PROVIDER_IGNORE),
        "sort": "" if valves.PROVIDER_SORT == "default" else valves.PROVIDER_SORT,
        "quantizations": [*_quantizations(_words(valves.QUANTIZATIONS))],
        "max_price": {name: price_text(limit) for name, limit in prices.items() if limit},
        "data_collection": "deny" if valves.DATA_COLLECTION == "deny" else "",
        "zdr": valves.ZDR,
        "require_parameters": valves.REQUIRE_PARAMETERS,
    }
    return {name: value for name, value in wanted.items() if value}


def _lost(valves: Valves, own: Sequence[Problem]) -> tuple[str, tuple[str, ...]]:
    """Why nothing may be sent while valves cannot be read, or else a line about the user's own."""
    if lost := [name for name in ADMIN_PROTECTIONS if name in valves.unreadable]:
        return notice("valves_lost", names=", ".join(lost)), ()
    if lost := [each.valve for each in own if each.valve in PROTECTIONS]:
        return notice("user_valves_lost", names=", ".join(lost)), ()
    lines = (notice("own_problems"), *(each.line for each in own))
    return "", (notice("joined", lines=lines, separator=" "),) if own else ()


def _checks(valves: Valves, chosen: AllValves) -> Checks:
    """What is wrong, first what keeps people from chatting, and what is to be looked up."""
    limits = read_limits(chosen.SPENDING_LIMITS)
    problems = [*valves.problems, *_wrong_texts(chosen, limits)]
    return Checks(
        problems=tuple(sorted(problems, key=lambda each: each.valve not in ADMIN_PROTECTIONS)),
        models=_named(chosen),
        groups={
            "SPENDING_LIMITS": limits.groups,
            "NEW_MODEL_ACCESS": _model_rows(chosen).groups,
        },
    )


def _wrong_texts(valves: AllValves, limits: SpendingLimits) -> Iterator[Problem]:
    """What is wrong with texts, as far as that shows without OpenRouter's list and the host's."""
    yield from _wrong_key(valves.API_KEY, valves.BASE_URL)
    for word, meant in read_filters(_words(valves.MODEL_FILTERS)).unknown[:MOST_PROBLEMS]:
        yield unknown_word("MODEL_FILTERS", word, near=meant, takes=_takes("MODEL_FILTERS"))
    for part in limits.unreadable[:MOST_PROBLEMS]:
        what = notice("problem_limit", part=quoted(part.text))
        yield Problem("SPENDING_LIMITS", what, _takes("SPENDING_LIMITS"))
    if any(len(each) < MIN_PASSPHRASE_CHARACTERS for each in _passphrases(valves)):
        yield Problem(
            "ARTIFACT_ENCRYPTION_KEY", notice("problem_passphrase", count=MIN_PASSPHRASE_CHARACTERS)
        )
    for word in read_variants(_words(valves.VARIANTS))[1][:MOST_PROBLEMS]:
        yield unknown_word("VARIANTS", word, takes=_takes("VARIANTS"))
    hosts = [word for word in _words(valves.DOWNLOAD_HOSTS) if not _HOST.fullmatch(word)]
    for word in hosts[:MOST_PROBLEMS]:
        near = "".join(_HOST.findall(word.partition("//")[2] or word)[:1])
        yield unknown_word("DOWNLOAD_HOSTS", word, near=near, takes=_takes("DOWNLOAD_HOSTS"))
    if (zone := valves.TIME_ZONE) and find_zone(zone) is None:
        near = nearest(zone, available_timezones())
        yield unknown_word("TIME_ZONE", zone, near=near, takes=_takes("TIME_ZONE"))
    for name, known in _KNOWN_WORDS.items():
        lower = {*map(str.lower, known)}
        words = [part.partition("=")[0].strip() for part in _words(getattr(valves, name))]
        words = [word for word in words if word.lower() not in lower]
        for word in words[:MOST_PROBLEMS]:
            yield unknown_word(name, word, near=nearest(word, known), takes=_takes(name))


def _takes(name: str) -> str:
    """The line about what a valve of the administrator's takes."""
    return takes(Advanced if name in Advanced.model_fields else Valves, name)


def unknown_groups(groups: Mapping[str, Sequence[str]], known: Collection[str]) -> Iterator[Problem]:
    """Yield which of the groups in valves are not among the known ones."""
    for valve, names in groups.items():
        words = [*known, *((PRIVATE, PUBLIC) if valve == "NEW_MODEL_ACCESS" else ())]
        for name in [name for name in names if name not in known][:MOST_PROBLEMS]:
            near = "" if name in words else nearest(name, words)
            yield unknown_word(valve, name, near=near, takes=_takes(valve))


def _wrong_key(key: str | None, base_url: str) -> Iterator[Problem]:
    """At another address there may be other keys."""
    if key and base_url.startswith(DEFAULT_BASE_URL) and not key.startswith(_KEY_BEGINNING):
        yield Problem("API_KEY", notice("problem_key", beginning=_KEY_BEGINNING))


def _quantizations(words: Sequence[str]) -> Iterator[str]:
    """Yield the names that count: in the place of a word that is not known the one that it is close to."""
    for word in words[:MOST_MEANT]:
        if name := word.lower() if word.lower() in QUANTIZATIONS else nearest(word, QUANTIZATIONS):
            yield name


def _passphrases(valves: AllValves) -> tuple[Secret, ...]:
    return tuple(map(Secret, _words(valves.ARTIFACT_ENCRYPTION_KEY.replace("\n", ","))))


def bound_key(sealed: str, user_id: str) -> str:
    """Return a user's own key sealed for that user alone; "" where it is so already, or cannot be.

    The host does not say whose form it has filled in, so that a key is bound with its first request.
    """
    key = "" if is_owned(sealed) or not user_id else _own_key(sealed, user_id)
    return seal_text(key, host_secret(), purpose=OWN_KEY_PURPOSE, owner=user_id) if key else ""


def _own_key(sealed: str, user_id: str) -> Secret | None:
    """The user's own key, None without one; empty for one that was sealed with another secret, or for another user."""
    if not sealed:
        return None
    try:
        return open_text(sealed, host_secret(), purpose=OWN_KEY_PURPOSE, owner=user_id)
    except PipeError:
        return NO_SECRET


def _offer(valves: AllValves) -> OfferSettings:
    return OfferSettings(
        patterns=tuple(_words(valves.MODELS)) or ("*",),
        filters=read_filters(_words(valves.MODEL_FILTERS)),
        variants=read_variants(_words(valves.VARIANTS))[0],
        shows_status=valves.STATUS_ENTRY == "always",
    )


def _named(valves: AllValves) -> tuple[NamedModels, ...]:
    """The models in valves: patterns, and ids."""
    variants = read_variants(_words(valves.VARIANTS))[0]
    patterns = {
        "MODELS": _words(valves.MODELS),
        "VARIANTS": [each.pattern for each in variants if each.pattern],
    }
    ids = {name: _words(getattr(valves, name)) for name in ("FALLBACK_MODELS", "SUMMARY_MODEL")}
    ids["SERVER_TOOLS"] = [*filter(None, read_allowed(valves.SERVER_TOOLS).values())]
    return tuple(
        NamedModels(valve, tuple(names), _takes(valve), valve in patterns)
        for valve, names in {**patterns, **ids}.items()
        if names
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
