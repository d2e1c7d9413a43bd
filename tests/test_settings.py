"""Settings: what valves and user valves become for one request."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.host.model_rows import ModelRowSettings
from open_webui_openrouter_pipe.media.choice import MediaSettings
from open_webui_openrouter_pipe.money.limits import read_limits
from open_webui_openrouter_pipe.openrouter.client import DEFAULT_BASE_URL, ClientSettings
from open_webui_openrouter_pipe.openrouter.controls import ControlSettings
from open_webui_openrouter_pipe.openrouter.offer import Filters, OfferSettings, Variant
from open_webui_openrouter_pipe.settings import (
    Settings,
    StoreSettings,
    read_settings,
    tokenizer_folder,
)
from open_webui_openrouter_pipe.turn.admission import AdmissionSettings
from open_webui_openrouter_pipe.turn.bill import SpendingSettings
from open_webui_openrouter_pipe.turn.recorder import Persistence
from open_webui_openrouter_pipe.valves import (
    USER_PERMISSIONS,
    Advanced,
    UserValves,
    Valves,
    read_user_valves,
    user_valves_class,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULTS = Settings(
    client=ClientSettings(DEFAULT_BASE_URL, "", title="Open WebUI", timeout_seconds=300.0),
    store=StoreSettings((), cleanup_days=90),
    persistence=Persistence("conversation", tools=True),
    save_attachments=True,
    image_config={},
    model_rows=ModelRowSettings(),
    offer=OfferSettings(),
    user_parameters=frozenset(),
    context=ContextSettings(recall=True),
    media=MediaSettings(max_images=20, max_bytes=20 * 2**20, max_total_bytes=50 * 2**20),
    admission=AdmissionSettings(500, 0),
    controls=ControlSettings(),
    download_hosts=(),
    assumed_context_tokens=0,
    summary_model="",
    summary_timeout_seconds=60.0,
    pdf_engine="auto",
    retry_seconds=30.0,
    steady_system_prompt=True,
    recall_tool=True,
    spending=SpendingSettings(cost_line="forecast"),
)

Case = tuple[str, Any, str, Any]
ADMIN: list[Case] = [
    ("API_KEY", " sk-or-1 ", "client.api_key", "sk-or-1"),
    ("BASE_URL", " https://a.example/v1/ ", "client.base_url", "https://a.example/v1"),
    ("HTTP_REFERER", " https://b.example ", "client.referer", "https://b.example"),
    ("APP_TITLE", " Chat ", "client.title", "Chat"),
    ("REQUEST_TIMEOUT_SECONDS", 5, "client.timeout_seconds", 5),
    ("ARTIFACT_ENCRYPTION_KEY", " , \n ", "store.passphrases", ()),
    ("ARTIFACT_ENCRYPTION_KEY", "correct horse battery", "store.passphrases", ("correct horse battery",)),
    ("ARTIFACT_ENCRYPTION_KEY", "the new one, the old,", "store.passphrases", ("the new one", "the old")),
    ("ARTIFACT_ENCRYPTION_KEY", "the new one\r\nthe old\n", "store.passphrases", ("the new one", "the old")),
    ("ARTIFACT_CLEANUP_DAYS", 7, "store.cleanup_days", 7),
    ("PERSIST_REASONING_TOKENS", "next_reply", "persistence.reasoning", "next_reply"),
    ("PERSIST_TOOL_RESULTS", False, "persistence.tools", False),
    ("SAVE_ATTACHMENTS", False, "save_attachments", False),
    ("NEW_MODEL_ACCESS", "", "model_rows.access", ("private",)),
    ("NEW_MODEL_ACCESS", " Public ", "model_rows.access", ("public",)),
    ("NEW_MODEL_ACCESS", "Staff, The  lab,", "model_rows.access", ("Staff", "The  lab")),
    ("NEW_MODEL_ACCESS", "public, Staff", "model_rows.access", ("public", "Staff")),
    ("MODEL_ACCESS_APPLIES_TO", "all", "model_rows.access_for", "all"),
    ("SYNC_MODEL_INFO", False, "model_rows.sync_info", False),
    ("MODELS", " a/* ,!b/m,", "offer.patterns", ("a/*", "!b/m")),
    ("MODELS", " , ", "offer.patterns", ("*",)),
    (
        "MODEL_FILTERS",
        "free, context >= 8k, frree",
        "offer.filters",
        Filters(frozenset({"free"}), 8_000, None, ("frree",)),
    ),
    ("VARIANTS", "a/*:nitro, a/m", "offer.variants", (Variant("a/*", ":nitro", ""),)),
    ("VARIANTS", "a/*:nitro, a/m", "offer.unknown_variants", ("a/m",)),
    ("STATUS_ENTRY", "always", "offer.shows_status", True),
    ("USER_PARAMETERS", "models, plugins", "user_parameters", {"models", "plugins"}),
    ("CONTEXT_STRATEGY", "clip", "context.context_strategy", "clip"),
    ("CONTEXT_AIM", "thrifty", "context.context_aim", "thrifty"),
    ("RECALL", False, "context.recall", False),
    ("CONTEXT_MAX_OUTPUT_TOKENS", 1, "context.context_max_output_tokens", 1),
    ("PRUNE_TRIGGER_RATIO", 0.5, "context.prune_trigger_ratio", 0.5),
    ("SUMMARY_TRIGGER_RATIO", 0.4, "context.summary_trigger_ratio", 0.4),
    ("SUMMARY_AHEAD_RATIO", 0.3, "context.summary_ahead_ratio", 0.3),
    ("SUMMARY_TURN_TRIGGER", 8, "context.summary_turn_trigger", 8),
    ("PROTECTED_RECENT_TURNS", 2, "context.protected_recent_turns", 2),
    ("TOOL_OUTPUT_RETENTION_TURNS", 3, "context.tool_output_retention_turns", 3),
    ("TOOL_OUTPUT_PRUNING", "every_turn", "context.tool_output_pruning", "every_turn"),
    ("CLIP_LAST_MESSAGES", 6, "context.clip_last_messages", 6),
    ("CLIP_MIN_MESSAGES", 7, "context.clip_minimum_messages", 7),
    ("ASSUMED_CONTEXT_TOKENS", 8_000, "assumed_context_tokens", 8_000),
    ("SUMMARY_MODEL", " a/b ", "summary_model", "a/b"),
    ("SUMMARY_TIMEOUT_SECONDS", 5, "summary_timeout_seconds", 5),
    ("DOCUMENTS", "host", "media.documents", "host"),
    # Where the model itself must read them, one that reads no files is given none: its request would be refused.
    ("DOCUMENTS", "native", "media.parses_pdf", False),
    ("PDF_ENGINE", "native", "media.parses_pdf", False),
    ("PDF_ENGINE", "mistral-ocr", "pdf_engine", "mistral-ocr"),
    ("MAX_INPUT_IMAGES_PER_REQUEST", 3, "media.max_images", 3),
    ("IMAGE_INPUT_SELECTION", "user_turn_only", "media.image_selection", "user_turn_only"),
    ("MAX_ATTACHMENT_MB", 2, "media.max_bytes", 2 * 2**20),
    ("MAX_REQUEST_ATTACHMENTS_MB", 3, "media.max_total_bytes", 3 * 2**20),
    ("DOWNLOAD_HOSTS", "a.local, b.local", "download_hosts", ("a.local", "b.local")),
    ("MAX_REQUESTS", 7, "admission.max_requests", 7),
    ("MAX_REQUESTS_PER_USER", 2, "admission.max_requests_per_user", 2),
    ("RETRY_SECONDS", 0, "retry_seconds", 0),
    ("COST_LINE", "cost", "spending.cost_line", "cost"),
    ("CONFIRM_ABOVE_DOLLARS", 2, "spending.confirm_dollars", 2),
    ("SPENDING_LIMITS", "all: 1/day", "spending.limits", read_limits("all: 1/day")),
    ("NEAR_LIMIT", "floor", "spending.near_limit", "floor"),
    ("REASONING_EFFORT", "low", "controls.reasoning", {"effort": "low"}),
    ("REASONING_SUMMARY", "concise", "controls.reasoning", {"summary": "concise"}),
    ("REASONING_SUMMARY", "off", "controls.reasoning", {"summary": None}),
    ("WEB_SEARCH", "auto", "controls.search.mode", "auto"),
    ("WEB_SEARCH_BY", "openrouter", "controls.search.host_switch_by", "openrouter"),
    ("WEB_SEARCH_ENGINE", "exa", "controls.search.engine", "exa"),
    ("WEB_SEARCH_MAX_RESULTS", 3, "controls.search.max_results", 3),
    ("WEB_SEARCH_MAX_SEARCHES", 2, "controls.search.max_searches", 2),
    ("WEB_FETCH", False, "controls.search.fetches", False),
    ("PROVIDER_ORDER", "a, b", "controls.provider", {"order": ["a", "b"]}),
    ("PROVIDER_ONLY", "a,b,c", "controls.provider", {"only": ["a", "b", "c"]}),
    ("PROVIDER_IGNORE", "d", "controls.provider", {"ignore": ["d"]}),
    ("PROVIDER_SORT", "price", "controls.provider", {"sort": "price"}),
    ("QUANTIZATIONS", "fp8, bf16", "controls.provider", {"quantizations": ["fp8", "bf16"]}),
    ("MAX_PRICE_INPUT", 2.5, "controls.provider", {"max_price": {"prompt": "2.5"}}),
    ("MAX_PRICE_OUTPUT", 10, "controls.provider", {"max_price": {"completion": "10"}}),
    ("DATA_COLLECTION", "deny", "controls.provider", {"data_collection": "deny"}),
    ("REQUIRE_PARAMETERS", True, "controls.provider", {"require_parameters": True}),
    ("ZDR", True, "controls.provider", {"zdr": True}),
    ("FALLBACK_MODELS", "a/b, c/d", "controls.fallback_models", ("a/b", "c/d")),
    ("SERVICE_TIER", "flex", "controls.service_tier", "flex"),
    ("CACHE_TTL", "1h", "controls.cache_lifetime", "1h"),
    ("INTERLEAVED_THINKING", False, "controls.interleaves_thinking", False),
    ("SEND_IDENTITY", "user", "controls.identity", "user"),
    ("STEADY_SYSTEM_PROMPT", False, "steady_system_prompt", False),
    ("RECALL_TOOL", False, "recall_tool", False),
]
"""A valve with a value, the setting that it sets, and its value there."""
OWN: list[tuple[Mapping[str, Any], str, Any, str, Any]] = [
    ({}, "REASONING_EFFORT", "high", "controls.reasoning", {"effort": "high"}),
    ({"REASONING_EFFORT": "low"}, "REASONING_EFFORT", "inherit", "controls.reasoning", {"effort": "low"}),
    ({"REASONING_EFFORT": "low"}, "REASONING_EFFORT", "max", "controls.reasoning", {"effort": "max"}),
    ({}, "REASONING_SUMMARY", "off", "controls.reasoning", {"summary": None}),
    ({"REASONING_SUMMARY": "off"}, "REASONING_SUMMARY", "auto", "controls.reasoning", {}),
    ({"WEB_SEARCH": "on"}, "WEB_SEARCH", "off", "controls.search.mode", "off"),
    ({"WEB_SEARCH": "on"}, "WEB_SEARCH", "inherit", "controls.search.mode", "on"),
    ({"COST_LINE": "cost"}, "COST_LINE", "off", "spending.cost_line", "off"),
    ({"COST_LINE": "cost"}, "COST_LINE", "inherit", "spending.cost_line", "cost"),
    ({}, "STATUS_LINES", "important", "status_lines", "important"),
    ({}, "IMAGE_ASPECT_RATIO", "16:9", "image_config", {"aspect_ratio": "16:9"}),
    ({}, "IMAGE_SIZE", "4K", "image_config", {"image_size": "4K"}),
    ({}, "CONTEXT_AIM", "thrifty", "context.context_aim", "thrifty"),
    ({"CONTEXT_AIM": "thrifty"}, "CONTEXT_AIM", "faithful", "context.context_aim", "faithful"),
    ({"CONTEXT_AIM": "thrifty"}, "CONTEXT_AIM", "inherit", "context.context_aim", "thrifty"),
    ({}, "RECALL", "off", "context.recall", False),
    ({"RECALL": False}, "RECALL", "on", "context.recall", True),
    ({"RECALL": False}, "RECALL", "inherit", "context.recall", False),
    ({}, "CLIP_LAST_MESSAGES", 8, "context.clip_user_limit", 8),
    ({"CLIP_LAST_MESSAGES": 6}, "CLIP_LAST_MESSAGES", 8, "context.clip_last_messages", 6),
    ({}, "CLIP_BYPASS", True, "context.clip_bypass", True),
    ({}, "SUMMARY_BYPASS", True, "context.context_strategy", "prune"),
    ({"CONTEXT_STRATEGY": "clip"}, "SUMMARY_BYPASS", True, "context.context_strategy", "clip"),
    ({}, "ZDR", True, "controls.provider", {"zdr": True}),
    ({"ZDR": True}, "ZDR", False, "controls.provider", {"zdr": True}),
    ({}, "PROVIDER_SORT", "latency", "controls.provider", {"sort": "latency"}),
    ({"PROVIDER_SORT": "price"}, "PROVIDER_SORT", "default", "controls.provider", {}),
    ({}, "PERSIST_REASONING_TOKENS", "next_reply", "persistence.reasoning", "next_reply"),
    (
        {"PERSIST_REASONING_TOKENS": "disabled"},
        *("PERSIST_REASONING_TOKENS", "conversation", "persistence.reasoning", "disabled"),
    ),
]
"""Valves of the administrator beside one of the user's, the setting that both set, and its value there."""
LIMITS = UserValves(
    CONTEXT_AIM="thrifty", RECALL="off", CLIP_LAST_MESSAGES=8, CLIP_BYPASS=True, SUMMARY_BYPASS=True
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)


def changed(settings: Settings, names: set[str]) -> bool:
    """Whether any but these parts of the settings is not as by default."""
    others = [each.name for each in fields(Settings) if each.name not in names]
    return any(getattr(settings, name) != getattr(DEFAULTS, name) for name in others)


def test_the_defaults() -> None:
    """Of all settings, with nothing set; the key may also be the environment's."""
    assert read_settings(Valves()) == DEFAULTS


def test_the_key_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The valve goes before it."""
    monkeypatch.setenv("OPENROUTER_API_KEY", " sk-or-env ")
    keys = [read_settings(Valves(API_KEY=key)).client.api_key for key in (" ", "sk-or-1")]
    assert keys == ["sk-or-env", "sk-or-1"]


@pytest.mark.parametrize(("name", "value", "setting", "expected"), ADMIN)
def test_a_valve_sets_its_own_setting(name: str, value: object, setting: str, expected: object) -> None:
    """And no other part of the settings, but perhaps the one of its own name."""
    settings = read_settings(Valves.model_validate({name: value}))
    assert attrgetter(setting)(settings) == expected
    assert not changed(settings, {setting.partition(".")[0], name.lower()})


@pytest.mark.parametrize(("admin", "name", "value", "setting", "expected"), OWN)
def test_a_users_choice_is_combined_with_the_administrators(
    admin: Mapping[str, object], name: str, value: object, setting: str, expected: object
) -> None:
    """By the rule of its valve, where users may set it."""
    valves = Valves.model_validate({**admin, "ENABLE_USER_OVERRIDE": True})
    settings = read_settings(valves, UserValves.model_validate({name: value}))
    assert attrgetter(setting)(settings) == expected


def test_every_valve_is_read() -> None:
    """Each stands in a table above, but for those that say what others do, and users' own keys (`test_own_key`)."""
    known = Valves.model_fields.keys() | Advanced.model_fields.keys()
    assert {name for name, *_ in ADMIN} == known - {"ADVANCED", "USER_CONTROLS", "ENABLE_USER_OVERRIDE"}
    assert {name for _, name, *_ in OWN} == UserValves.model_fields.keys() - {"API_KEY"}


def test_what_the_administrator_switched_off_is_said() -> None:
    """A user who wants reasoning kept reads why it is not; one who wants that too reads nothing."""
    valves = Valves.model_validate({"PERSIST_REASONING_TOKENS": "disabled"})
    wanted: list[Any] = ["conversation", "disabled", "inherit"]
    lines = [read_settings(valves, UserValves(PERSIST_REASONING_TOKENS=each)).notices for each in wanted]
    assert [len(each) for each in lines] == [1, 0, 0]


def test_limits_that_users_may_not_set_are_not_followed() -> None:
    """By default; one line names them all. Other valves of the user still hold."""
    user_valves = LIMITS.model_copy(update={"PERSIST_REASONING_TOKENS": "next_reply"})
    settings = read_settings(Valves(), user_valves)
    assert settings.context == DEFAULTS.context
    assert settings.persistence.reasoning == "next_reply"
    (line,) = settings.notices
    assert line.endswith(": CONTEXT_AIM, RECALL, CLIP_LAST_MESSAGES, CLIP_BYPASS, SUMMARY_BYPASS.")
    assert read_settings(Valves(ENABLE_USER_OVERRIDE=True), LIMITS).notices == ()


@pytest.mark.parametrize(
    ("shown", "hidden"),
    [
        ({}, set()),
        ({"USER_CONTROLS": "none"}, set(Valves().USER_CONTROLS.split(", "))),
        (
            {"USER_CONTROLS": " web_search , ZDR"},
            set(Valves().USER_CONTROLS.split(", ")) - {"WEB_SEARCH", "ZDR"},
        ),
    ],
)
def test_users_see_what_they_may_set(shown: dict[str, str], hidden: set[str]) -> None:
    """What is hidden is not in their form at all; their other valves always are."""
    limits = {name for name, by in USER_PERMISSIONS.items() if by == "ENABLE_USER_OVERRIDE"}
    for allowed in (True, False):
        valves = Valves.model_validate({**shown, "ENABLE_USER_OVERRIDE": allowed})
        schema = user_valves_class(valves).model_json_schema()
        assert schema["title"] == "UserValves"
        missing = UserValves.model_fields.keys() - schema["properties"].keys()
        assert missing == hidden | (set() if allowed else limits)


def test_hidden_controls_are_not_followed() -> None:
    """Whatever a user had set before; those that are shown go before the administrator's."""
    own = UserValves(
        REASONING_EFFORT="high",
        REASONING_SUMMARY="off",
        WEB_SEARCH="on",
        PROVIDER_SORT="latency",
        ZDR=True,
        IMAGE_SIZE="4K",
    )
    ignored = read_settings(Valves(USER_CONTROLS="none"), own)
    assert (ignored.controls, dict(ignored.image_config)) == (ControlSettings(), {})
    assert ignored.notices == ()
    assert not read_settings(Valves(), own).held_image_config
    assert ignored.held_image_config == {"aspect_ratio", "image_size"}
    assert read_settings(Valves(USER_CONTROLS="IMAGE_ASPECT_RATIO")).held_image_config == {"image_size"}


def test_valves_that_cannot_be_read_are_said() -> None:
    """The others stay; nothing is sent without those that say who keeps a chat, and who pays for it."""
    own, unreadable = read_user_valves({"REASONING_EFFORT": "huge", "CLIP_LAST_MESSAGES": 3, "ZDR": True})
    assert (own, unreadable) == (UserValves(CLIP_LAST_MESSAGES=3, ZDR=True), ("REASONING_EFFORT",))
    partly = read_settings(Valves(), own, unreadable=unreadable)
    assert partly.controls.provider == {"zdr": True}
    assert (partly.refusal, "REASONING_EFFORT" in partly.notices[-1]) == ("", True)
    own, unreadable = read_user_valves({"ZDR": "perhaps", "API_KEY": ["sk-or-1"], "WEB_SEARCH": "on"})
    assert (own.WEB_SEARCH, unreadable) == ("on", ("ZDR", "API_KEY"))
    assert "API_KEY, ZDR" in read_settings(Valves(), own, unreadable=unreadable).refusal
    hiding = read_settings(Valves(USER_CONTROLS="WEB_SEARCH"), own, unreadable=unreadable)
    assert (hiding.refusal, hiding.notices) == ("", ())


def test_tokenizer_files_are_looked_for_where_tiktoken_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken's own variable comes first; an empty one says that nothing is cached."""
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "/old")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert tokenizer_folder() == Path("/old")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/new")
    assert tokenizer_folder() == Path("/new")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert tokenizer_folder() is None
