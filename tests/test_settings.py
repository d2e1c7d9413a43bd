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
from tests.support.rows import rows

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

NAMES = {
    "FILTERS": Filters(frozenset({"free"}), 8_000, None, ("frree",)),
    "LIMITS": read_limits("all: 1/day"),
    "PARAMETERS": {"models", "plugins"},
    "VARIANT": Variant("a/*", ":nitro", ""),
}
"""Values of the table that JSON cannot say."""
CASES = Path(__file__).with_name("settings.txt")
ADMIN = rows(CASES, "a valve, its value => the setting, its value there", NAMES)
OWN = rows(CASES, "valves of the administrator, one of the user's, its value => the setting, its value there")
LIMITS = UserValves(
    CONTEXT_AIM="thrifty", RECALL="off", CLIP_LAST_MESSAGES=8, CLIP_BYPASS=True, SUMMARY_BYPASS=True
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)


def _listed(value: object) -> object:
    """A value as JSON would say it, which knows no tuples."""
    return list(value) if type(value) is tuple else value


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
    assert _listed(attrgetter(setting)(settings)) == expected
    assert not changed(settings, {setting.partition(".")[0], name.lower()})


@pytest.mark.parametrize(("admin", "name", "value", "setting", "expected"), OWN)
def test_a_users_choice_is_combined_with_the_administrators(
    admin: Mapping[str, object], name: str, value: object, setting: str, expected: object
) -> None:
    """By the rule of its valve, where users may set it."""
    valves = Valves.model_validate({**admin, "ENABLE_USER_OVERRIDE": True})
    settings = read_settings(valves, UserValves.model_validate({name: value}))
    assert _listed(attrgetter(setting)(settings)) == expected


def test_every_valve_is_read() -> None:
    """Each stands in a table above, but for those that say what others do, and users' own keys (`test_own_key`)."""
    known = Valves.model_fields.keys() | Advanced.model_fields.keys()
    assert {row.values[0] for row in ADMIN} == known - {"ADVANCED", "USER_CONTROLS", "ENABLE_USER_OVERRIDE"}
    assert {row.values[1] for row in OWN} == UserValves.model_fields.keys() - {"API_KEY"}


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
