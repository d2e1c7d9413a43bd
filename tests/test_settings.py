"""Settings: what valves and user valves become for one request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.commands import Aim
from open_webui_openrouter_pipe.host.model_rows import ModelRowSettings
from open_webui_openrouter_pipe.openrouter.controls import ControlSettings
from open_webui_openrouter_pipe.openrouter.offer import Filters, OfferSettings, Variant
from open_webui_openrouter_pipe.openrouter.search import SearchSettings
from open_webui_openrouter_pipe.settings import read_settings, tokenizer_folder
from open_webui_openrouter_pipe.valves import (
    USER_CONTROLS,
    USER_LIMITS,
    UserValves,
    Valves,
    read_user_valves,
    user_valves_class,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from open_webui_openrouter_pipe.media.choice import Documents, PdfEngine


def test_the_defaults_of_the_context() -> None:
    """The defaults of the valves are those of the context; a user who may can switch summaries off."""
    assert read_settings(Valves()).context == ContextSettings(recall=True)
    bypassed = read_settings(Valves(ENABLE_USER_OVERRIDE=True), UserValves(SUMMARY_BYPASS=True))
    assert bypassed.context == ContextSettings(context_strategy="prune", recall=True)


@pytest.mark.parametrize(
    ("admin", "user", "aim"),
    [
        ("faithful", "inherit", "faithful"),
        ("thrifty", "inherit", "thrifty"),
        ("thrifty", "faithful", "faithful"),
        ("faithful", "thrifty", "thrifty"),
    ],
)
def test_users_may_choose_the_aim(
    admin: Aim, user: Literal["inherit", "faithful", "thrifty"], aim: Aim
) -> None:
    """Where they may set limits at all, their own choice goes before the administrator's."""
    valves = Valves(CONTEXT_AIM=admin, ENABLE_USER_OVERRIDE=True)
    settings = read_settings(valves, UserValves(CONTEXT_AIM=user))
    assert settings.context == ContextSettings(context_aim=aim, recall=True)


@pytest.mark.parametrize(
    ("admin", "user", "recalls"),
    [(True, "inherit", True), (False, "inherit", False), (True, "off", False), (False, "on", True)],
)
def test_users_may_choose_whether_their_questions_are_looked_up(
    admin: bool,  # noqa: FBT001
    user: Literal["inherit", "on", "off"],
    recalls: bool,  # noqa: FBT001
) -> None:
    """Where they may set limits at all."""
    valves = Valves(RECALL=admin, ENABLE_USER_OVERRIDE=True)
    assert read_settings(valves, UserValves(RECALL=user)).context == ContextSettings(recall=recalls)


def test_every_valve_of_the_context_is_read() -> None:
    """Each valve sets its own field; the user's limit and bypass are added to the administrator's."""
    valves = Valves(
        CONTEXT_STRATEGY="clip",
        CONTEXT_MAX_OUTPUT_TOKENS=1,
        PRUNE_TRIGGER_RATIO=0.5,
        SUMMARY_TRIGGER_RATIO=0.4,
        SUMMARY_AHEAD_RATIO=0.3,
        SUMMARY_TURN_TRIGGER=8,
        PROTECTED_RECENT_TURNS=2,
        TOOL_OUTPUT_RETENTION_TURNS=3,
        TOOL_OUTPUT_PRUNING="every_turn",
        CLIP_LAST_MESSAGES=6,
        CLIP_MIN_MESSAGES=7,
        RECALL=False,
        ENABLE_USER_OVERRIDE=True,
    )
    settings = read_settings(valves, UserValves(CLIP_LAST_MESSAGES=8, CLIP_BYPASS=True))
    assert settings.context == ContextSettings(
        tool_output_retention_turns=3,
        tool_output_pruning="every_turn",
        context_strategy="clip",
        context_max_output_tokens=1,
        prune_trigger_ratio=0.5,
        summary_trigger_ratio=0.4,
        summary_ahead_ratio=0.3,
        summary_turn_trigger=8,
        protected_recent_turns=2,
        clip_last_messages=6,
        clip_minimum_messages=7,
        clip_user_limit=8,
        clip_bypass=True,
    )


LIMITS = UserValves(
    CONTEXT_AIM="thrifty", RECALL="off", CLIP_LAST_MESSAGES=8, CLIP_BYPASS=True, SUMMARY_BYPASS=True
)


def test_limits_that_users_may_not_set_are_not_followed() -> None:
    """By default; one line names them all. Other valves of the user still hold."""
    user_valves = LIMITS.model_copy(update={"PERSIST_REASONING_TOKENS": "next_reply"})
    settings = read_settings(Valves(), user_valves)
    assert settings.context == ContextSettings(recall=True)
    assert settings.persistence.reasoning == "next_reply"
    (line,) = settings.notices
    assert line.endswith(": CONTEXT_AIM, RECALL, CLIP_LAST_MESSAGES, CLIP_BYPASS, SUMMARY_BYPASS.")


@pytest.mark.parametrize(("allowed", "limits"), [(True, LIMITS), (False, UserValves())])
def test_nothing_is_said_where_every_limit_is_followed(allowed: bool, limits: UserValves) -> None:  # noqa: FBT001
    """The user may set limits, or has set none."""
    settings = read_settings(Valves(ENABLE_USER_OVERRIDE=allowed), limits)
    assert settings.notices == ()
    assert (settings.context == ContextSettings(recall=True)) is not allowed


def texts_of(valves: Valves) -> dict[str, str]:
    """What Open WebUI shows beside each valve of the user."""
    schema = user_valves_class(valves).model_json_schema()
    assert schema["title"] == "UserValves"
    return {name: shown["description"] for name, shown in schema["properties"].items()}


def test_users_see_the_limits_that_are_followed() -> None:
    """Only those that they may set."""
    allowed, refused = texts_of(Valves(ENABLE_USER_OVERRIDE=True)), texts_of(Valves())
    assert set(allowed) - set(refused) == set(LIMITS.model_dump(exclude_unset=True))
    assert texts_of(Valves()) == refused


def test_every_limit_is_named_to_the_administrator() -> None:
    """By their group, in the text of the valve that lets users set them; no other valve of users is in it."""
    assert "the group Context" in (Valves.model_fields["ENABLE_USER_OVERRIDE"].description or "")
    named = {
        name for name, field in UserValves.model_fields.items() if (field.title or "").startswith("Context")
    }
    assert named == set(LIMITS.model_dump(exclude_unset=True))


@pytest.mark.parametrize(
    ("valve", "passphrases"),
    [
        ("", ()),
        (" , \n ", ()),
        ("correct horse battery staple", ("correct horse battery staple",)),
        ("the new one, the old one,", ("the new one", "the old one")),
        ("the new one\r\nthe old one\n", ("the new one", "the old one")),
    ],
)
def test_passphrases_are_read_in_their_order(valve: str, passphrases: tuple[str, ...]) -> None:
    """One a line or comma, spaces included; the first is the one that seals."""
    assert read_settings(Valves(ARTIFACT_ENCRYPTION_KEY=valve)).store.passphrases == passphrases


@pytest.mark.parametrize(
    "valves",
    [
        {"CLIP_LAST_MESSAGES": 0},
        {"CLIP_LAST_MESSAGES": 51},
        {"PRUNE_TRIGGER_RATIO": 0},
        {"SUMMARY_TRIGGER_RATIO": 1.1},
        {"SUMMARY_TIMEOUT_SECONDS": 0},
        {"CONTEXT_STRATEGY": "forget"},
    ],
)
def test_meaningless_values_are_refused(valves: dict[str, JsonValue]) -> None:
    """Open WebUI shows the administrator what is wrong."""
    with pytest.raises(ValueError, match=next(iter(valves))):
        Valves.model_validate(valves)


def test_tokenizer_files_are_looked_for_where_tiktoken_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiktoken's own variable comes first; an empty one says that nothing is cached."""
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", "/old")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert tokenizer_folder() == Path("/old")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/new")
    assert tokenizer_folder() == Path("/new")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert tokenizer_folder() is None


def test_the_shape_and_size_of_pictures_are_the_users() -> None:
    """What is left to the model is not sent."""
    assert dict(read_settings(Valves()).image_config) == {}
    wide = UserValves(IMAGE_ASPECT_RATIO="16:9", IMAGE_SIZE="auto")
    assert read_settings(Valves(), wide).image_config == {"aspect_ratio": "16:9"}
    both = UserValves(IMAGE_ASPECT_RATIO="auto", IMAGE_SIZE="4K")
    assert read_settings(Valves(), both).image_config == {"image_size": "4K"}


@pytest.mark.parametrize(
    ("valve", "access"),
    [
        ("", ("private",)),
        (" Public ", ("public",)),
        ("private", ("private",)),
        ("Staff, The  lab,", ("Staff", "The  lab")),
        ("public, Staff", ("public", "Staff")),
    ],
)
def test_who_may_use_new_models(valve: str, access: tuple[str, ...]) -> None:
    """One of two words stands alone; anything else names groups, as they are written."""
    assert read_settings(Valves()).model_rows == ModelRowSettings()
    valves = Valves(NEW_MODEL_ACCESS=valve, MODEL_ACCESS_APPLIES_TO="all", SYNC_MODEL_INFO=False)
    assert read_settings(valves).model_rows == ModelRowSettings(
        sync_info=False, access=access, access_for="all"
    )


@pytest.mark.parametrize("saves", [True, False])
def test_attachments_are_saved_unless_that_is_switched_off(saves: bool) -> None:  # noqa: FBT001 - the valve's value
    """The administrator decides."""
    assert Valves().advanced.SAVE_ATTACHMENTS
    assert read_settings(Valves(SAVE_ATTACHMENTS=saves)).save_attachments is saves


@pytest.mark.parametrize(
    ("documents", "engine", "parses_pdf"),
    [
        ("auto", "auto", True),
        ("host", "mistral-ocr", True),
        ("native", "auto", False),
        ("auto", "native", False),
    ],
)
def test_who_may_read_pdfs(documents: Documents, engine: PdfEngine, *, parses_pdf: bool) -> None:
    """Where the model itself must, one that reads no files is given none: its request would be refused."""
    media = read_settings(Valves(DOCUMENTS=documents, PDF_ENGINE=engine)).attachments.media
    assert media.parses_pdf is parses_pdf


@pytest.mark.parametrize(
    ("shown", "hidden"),
    [
        (None, set()),
        ("none", set(USER_CONTROLS)),
        (" web_search , ZDR", set(USER_CONTROLS) - {"WEB_SEARCH", "ZDR"}),
    ],
)
def test_users_see_the_controls_that_they_may_set(shown: str | None, hidden: set[str]) -> None:
    """What is hidden is not in their form at all; their other valves always are."""
    valves = Valves() if shown is None else Valves(USER_CONTROLS=shown)
    fields = set(user_valves_class(valves).model_json_schema()["properties"])
    assert set(UserValves.model_fields) - fields - set(USER_LIMITS) == hidden


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
    followed, ignored = read_settings(Valves(), own), read_settings(Valves(USER_CONTROLS="none"), own)
    assert followed.controls.reasoning == {"effort": "high", "summary": None}
    assert followed.controls.search.mode == "on"
    assert followed.controls.provider == {"sort": "latency", "zdr": True}
    assert followed.image_config == {"image_size": "4K"}
    assert (ignored.controls, dict(ignored.image_config)) == (ControlSettings(), {})
    assert not followed.held_image_config
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


def test_the_administrator_s_controls_are_read() -> None:
    """Each as it goes on the wire; what is not set is not sent."""
    valves = Valves(
        REASONING_EFFORT="low",
        WEB_SEARCH="auto",
        WEB_SEARCH_BY="openrouter",
        WEB_SEARCH_ENGINE="exa",
        WEB_SEARCH_MAX_RESULTS=3,
        WEB_SEARCH_MAX_SEARCHES=2,
        WEB_FETCH=False,
        PROVIDER_ORDER="a, b",
        PROVIDER_ONLY="a,b,c",
        PROVIDER_IGNORE="d",
        PROVIDER_SORT="price",
        QUANTIZATIONS="fp8, bf16",
        MAX_PRICE_INPUT=2.5,
        MAX_PRICE_OUTPUT=10,
        DATA_COLLECTION="deny",
        REQUIRE_PARAMETERS=True,
        FALLBACK_MODELS="a/b, c/d",
        SERVICE_TIER="flex",
        CACHE_TTL="1h",
        INTERLEAVED_THINKING=False,
        SEND_IDENTITY="user",
    )
    assert read_settings(valves).controls == ControlSettings(
        reasoning={"effort": "low"},
        search=SearchSettings("auto", "exa", 3, 2, fetches=False, host_switch_by="openrouter"),
        provider={
            "order": ["a", "b"],
            "only": ["a", "b", "c"],
            "ignore": ["d"],
            "sort": "price",
            "quantizations": ["fp8", "bf16"],
            "max_price": {"prompt": "2.5", "completion": "10"},
            "data_collection": "deny",
            "require_parameters": True,
        },
        fallback_models=("a/b", "c/d"),
        service_tier="flex",
        cache_lifetime="1h",
        interleaves_thinking=False,
        identity="user",
    )


def test_unknown_precisions_are_refused() -> None:
    """OpenRouter would refuse every request over them."""
    with pytest.raises(ValueError, match="unknown quantizations: fp9"):
        Valves(QUANTIZATIONS="fp8, fp9")


def test_the_choice_of_models_is_read() -> None:
    """Each valve from its own words; without any pattern every model is offered."""
    valves = Valves(
        MODELS=" a/* ,!b/m,",
        MODEL_FILTERS="free, context >= 8k, frree",
        VARIANTS="a/*:nitro, a/m",
        STATUS_ENTRY="always",
    )
    assert read_settings(valves).offer == OfferSettings(
        ("a/*", "!b/m"),
        Filters(frozenset({"free"}), 8_000, None, ("frree",)),
        (Variant("a/*", ":nitro", ""),),
        ("a/m",),
        shows_status=True,
    )
    assert read_settings(Valves(MODELS=" , ")).offer == OfferSettings()


def test_the_line_about_costs_is_each_users_own() -> None:
    """A user's choice wins; `inherit` is the administrator's."""
    assert read_settings(Valves()).spending.cost_line == "forecast"
    assert read_settings(Valves(COST_LINE="cost")).spending.cost_line == "cost"
    assert read_settings(Valves(COST_LINE="cost"), UserValves(COST_LINE="off")).spending.cost_line == "off"
    limited = read_settings(Valves(SPENDING_LIMITS="all: 1/day", CONFIRM_ABOVE_DOLLARS=2)).spending
    assert ([each.dollars for each in limited.limits.limits], limited.confirm_dollars) == ([1.0], 2.0)


@pytest.mark.parametrize("valves", [Valves, UserValves])
def test_the_titles_of_valves_look_alike(valves: type[Valves | UserValves]) -> None:
    """Each word begins with a capital, as in the titles that the host makes of the names."""
    titles = [field["title"] for field in valves.model_json_schema()["properties"].values()]
    words = [word for title in titles for part in title.split(" · ") for word in part.split()]
    assert [word for word in words if not word[0].isupper()] == []


@pytest.mark.parametrize(("stored", "carrier"), [("hidden", "auto"), ("auto", "auto"), ("text", "text")])
def test_the_former_name_of_a_carrier_is_read(stored: str, carrier: str) -> None:
    """The host refuses a new release whose valves do not take what is stored."""
    settings = read_settings(Valves.model_validate({"MARKER_CARRIER": stored}))
    assert (settings.carrier, settings.persistence.in_text) == (carrier, carrier == "text")
