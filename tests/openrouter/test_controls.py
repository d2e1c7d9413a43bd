"""What administrators and users have switched, in the parameters of chats, tasks and summaries: see `bodies.txt`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.openrouter import controls
from open_webui_openrouter_pipe.openrouter.controls import CacheLifetime, ControlSettings, strictest
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Model
from open_webui_openrouter_pipe.summaries.prompt import SUMMARY_SCHEMA
from tests.openrouter.test_fields import BODIES, NAMES
from tests.support.rows import rows

Parameters = dict[str, Any]
MODEL, OTHER = Model("a/m", "M"), Model("a/n", "N")
ADMIN = {"provider": {"zdr": True}, "plugins": [{"id": "web"}], "tools": [NAMES["SERVER"]]}


@pytest.mark.parametrize(("given", "model_id", "identity", "lifetime", "expected"), rows(BODIES, "chat"))
def test_a_chat_stays_with_the_provider_that_has_it_cached(
    given: Parameters, model_id: str, identity: Parameters, lifetime: CacheLifetime, expected: Parameters
) -> None:
    """Anthropic is asked to cache, by an alias too, and the host's own parameters win, but for the user's name."""
    sent = controls.chat_parameters(given, model_id=model_id, identity=identity, lifetime=lifetime)
    assert sent == expected


@pytest.mark.parametrize(("given", "outputs", "desired", "expected"), rows(BODIES, "drawing"))
def test_a_model_that_draws_is_asked_to(
    given: Parameters, outputs: list[str] | None, desired: dict[str, str], expected: Parameters
) -> None:
    """For pictures alone where it does not write; what was given for the model counts more, key by key."""
    model = None if outputs is None else replace(MODEL, output_modalities=frozenset(outputs))
    assert controls.drawing_parameters(given, model=model, image_config=desired) == expected


@pytest.mark.parametrize(("given", "allowed", "expected", "omitted"), rows(BODIES, "users", NAMES))
def test_what_users_may_set(
    given: Parameters, allowed: list[str], expected: Parameters, omitted: list[str]
) -> None:
    """What the administrator set passes and is put back, also over a null; fallbacks are models that are offered."""
    held = {name: ADMIN[name] for name in ("provider", "plugins")}
    permitted = controls.permitted_parameters(given, ADMIN, allowed=allowed, offered={"a/x"})
    assert permitted == (held | expected, tuple(omitted))


@pytest.mark.parametrize(("given", "admin", "sent", "omitted"), rows(BODIES, "pictures"))
def test_a_size_that_only_administrators_set(
    given: Any, admin: Parameters, sent: Any, omitted: list[str]
) -> None:
    """Is theirs, or none, also where a user has replaced it; the rest is the user's."""
    parameters = {"image_config": given}
    kept, names = controls.permitted_image_config(parameters, {"image_config": admin}, held={"image_size"})
    assert (kept["image_config"], names) == (sent, tuple(omitted))
    assert controls.permitted_image_config(parameters, {}, held=())[0] == parameters


def test_no_name_that_a_user_wrote_is_repeated() -> None:
    """NaN, which differs from itself, is no replaced value; and where nothing is given, nothing is added."""
    permitted = controls.permitted_image_config
    parameters = {"image_config": {"a\x1b[2J\nb": float("nan"), "image_size": "4K"}}
    assert permitted(parameters, {}, held={"image_size"})[1] == ("image_config.image_size",)
    assert permitted(parameters, {}, held=()) == (parameters, ())
    assert permitted({}, {"image_config": {}}, held={"image_size"}) == ({}, ())


@pytest.mark.parametrize(("given", "task", "expected"), rows(BODIES, "tasks"))
def test_a_task_takes_over_little(given: Parameters, task: str, expected: Parameters) -> None:
    """Limits, sampling and routing, but no tools and no formats; it thinks little, unless a user reads its answer."""
    assert controls.task_parameters(given, task) == expected


@pytest.mark.parametrize(("provider", "model_id", "writer_id", "held", "kept"), rows(BODIES, "summaries"))
def test_a_summary_keeps_the_data_policy_of_its_chat(
    provider: Parameters, model_id: str, writer_id: str, held: Parameters, kept: Parameters
) -> None:
    """Who may see the data holds for every model, the order of providers for the chat's own, limits as held."""
    given = {"provider": provider, "user": "u", "safety_identifier": "s", "temperature": 1, "session_id": "k"}
    sent = controls.summary_parameters(given, model_id=model_id, writer_id=writer_id, held=held)
    assert sent == {"provider": kept, "user": "u", "safety_identifier": "s", "reasoning_effort": "low"}


@pytest.mark.parametrize(("given", "model_id", "near_limit", "sent"), rows(BODIES, "near a limit"))
def test_near_a_limit_the_cheaper_way_is_asked_for(
    given: Parameters, model_id: str, near_limit: str, sent: Parameters
) -> None:
    """Only what the parameters do not choose themselves, and only where there is such a tier."""
    assert controls.cheaper_parameters(given, model_id=model_id, near_limit=near_limit) == sent


@pytest.mark.parametrize(("given", "switched", "expected"), rows(BODIES, "switched"))
def test_what_a_chat_gets(given: Parameters, switched: Parameters, expected: Parameters) -> None:
    """What the call itself has set counts more, key by key."""
    settings = ControlSettings(**switched)
    sent = controls.controlled(given, settings, offered=[MODEL, OTHER], model=MODEL, model_id="a/m")
    assert sent == expected


def test_every_call_is_routed() -> None:
    """A task too; without preferences nothing is added. Wherever the settings are printed, they show no key."""
    zdr, given = ControlSettings(provider={"zdr": True}), {"provider": {"zdr": False, "sort": "price"}}
    assert controls.routed({}, zdr) == {"provider": {"zdr": True}}
    assert controls.routed(given, zdr) == {"provider": {"zdr": True, "sort": "price"}}
    assert controls.routed(given, ControlSettings()) == given
    assert "sk-or" not in repr(ControlSettings(own_api_key="sk-or-v1-secret"))


@pytest.mark.parametrize(
    ("model_id", "reasons", "has_tools", "thinks"), rows(BODIES, "thinking between calls")
)
def test_who_thinks_between_calls(model_id: str, *, reasons: bool, has_tools: bool, thinks: bool) -> None:
    """Models of Anthropic that think, from version 4 on, where there are tools and the valve allows it."""
    model = replace(MODEL, id=model_id, reasons=reasons)
    expected = (controls.INTERLEAVED_THINKING,) if thinks else ()
    off = ControlSettings(interleaves_thinking=False)
    assert controls.beta_features(ControlSettings(), model, has_tools=has_tools) == expected
    assert controls.beta_features(off, model, has_tools=has_tools) == ()
    assert controls.beta_features(ControlSettings(), None, has_tools=has_tools) == ()


# --- summaries and sizes

CHEAP_READS = CachePrices(read=0.1, write=1.25)


@pytest.mark.parametrize(
    ("setting", "model_id", "reads_cheaply", "writer_id", "shares"), rows(BODIES, "who writes summaries")
)
def test_who_writes_summaries(
    setting: str, model_id: str, writer_id: str, *, reads_cheaply: bool, shares: bool
) -> None:
    """The chat's own model, without its search, unless the administrator names another.

    It is asked in the chat's own request where it reads its cache cheaply, and nothing is searched for.
    """
    prices = CHEAP_READS if reads_cheaply else CachePrices()
    assert controls.summary_model_id(setting, model_id) == writer_id
    assert controls.shares_cache(setting, ModelTerms(model_id, prices=prices)) is shares


def test_summaries_are_asked_for_in_a_strict_form() -> None:
    """A provider that knows forms holds the model to this one."""
    form = controls.SUMMARY_FORMAT["text"]["format"]
    assert (form["type"], form["strict"], form["schema"]) == ("json_schema", True, SUMMARY_SCHEMA)


def test_the_terms_of_a_model() -> None:
    """The prices are those of the model that is asked, window and output the smallest of all that may answer."""
    terms_of = controls.model_terms
    dollars: Parameters = {"price_input": 2e-6, "price_cache_read": 2e-7}
    asked = replace(MODEL, context_tokens=900_000, price_cache_write=2.5e-6, **dollars)
    other = replace(OTHER, context_tokens=8_000, max_output_tokens=4_000)
    terms = ModelTerms("a/m", 8_000, 50, CHEAP_READS, max_output_tokens=4_000)
    assert terms_of("a/m", [asked, other], output_tokens=50) == terms
    larger = replace(other, max_output_tokens=64_000)
    assert terms_of("a/m", [larger, other, None], output_tokens=None).max_output_tokens == 4_000
    assert terms_of("a/m", [asked, None], output_tokens=50).window_tokens == 900_000
    assert terms_of("x", [None], output_tokens=None) == ModelTerms("x")


# --- who may answer


@pytest.mark.parametrize(("held", "wanted", "expected"), rows(BODIES, "providers"))
def test_preferences_are_joined(held: Parameters, wanted: Parameters, expected: Any) -> None:
    """What only orders is the request's own; all else becomes stricter, and what cannot be read changes nothing.

    An empty list would restrict nothing: where nothing is left the request is not sent.
    """
    if expected == "nothing":
        with pytest.raises(ConfigurationError, match="no provider is left"):
            strictest(held, wanted)
    else:
        assert strictest(held, wanted) == expected


@pytest.mark.parametrize(("zdr", "expected"), rows(BODIES, "zero data retention"))
def test_who_keeps_nothing(zdr: Any, *, expected: bool) -> None:
    """As a truth value, or as the text that a page makes of it."""
    assert controls.keeps_nothing({"zdr": zdr}) is expected


PRECISIONS = ("fp8", "bf16")
ENDPOINTS = [*product("abc", PRECISIONS, (1.0, 3.0), (True, False), (True, False))]
"""Offers of a model: by whom, how precise, for how much, whether nothing is kept, and whether data is collected."""
PROVIDERS = st.lists(st.sampled_from("abc"), min_size=1, unique=True)
PREFERENCES = st.fixed_dictionaries(
    {},
    optional={
        "only": PROVIDERS,
        "ignore": PROVIDERS,
        "quantizations": st.lists(st.sampled_from(PRECISIONS), min_size=1, unique=True),
        "max_price": st.sampled_from([{"prompt": "0.5"}, {"prompt": "2"}, {"prompt": "4"}]),
        "zdr": st.booleans(),
        "data_collection": st.sampled_from(["allow", "deny"]),
    },
)


def allowed_by(preferences: Parameters) -> set[Any]:
    """The endpoints, by the documentation of each preference alone."""
    limit = float((preferences.get("max_price") or {}).get("prompt", "inf"))
    only, precisions = preferences.get("only", "abc"), preferences.get("quantizations", PRECISIONS)
    return {
        (provider, precision, price, keeps_nothing, collects)
        for provider, precision, price, keeps_nothing, collects in ENDPOINTS
        if provider in only
        and provider not in preferences.get("ignore", [])
        and precision in precisions
        and price <= limit
        and (not preferences.get("zdr") or keeps_nothing)
        and not (preferences.get("data_collection") == "deny" and collects)
    }


@generated(PREFERENCES, PREFERENCES)
def test_exactly_what_both_allow_is_allowed(held: Parameters, wanted: Parameters) -> None:
    """Neither an administrator's nor a user's restriction is ever loosened, and nothing else is forbidden."""
    both = allowed_by(held) & allowed_by(wanted)
    try:
        joined = strictest(held, wanted)
    except ConfigurationError:
        assert not both
    else:
        assert allowed_by(joined) == both


@pytest.mark.parametrize(("wanted", "asked", "expected"), rows(BODIES, "fallbacks"))
def test_fallbacks_are_offered_models(wanted: list[str], asked: str, expected: list[str]) -> None:
    """Each once, three at most, not the one that is asked, and one that draws where a picture is wanted."""
    offered = {f"a/{number}": Model(f"a/{number}", "M") for number in range(1, 6)}
    offered["a/draws"] = Model("a/draws", "D", output_modalities=frozenset({"image", "text"}))
    assert controls.fallback_models(wanted, offered, model_id=asked, model=offered[asked]) == expected


@pytest.mark.parametrize(("dollars", "text"), rows(BODIES, "prices"))
def test_prices_are_decimal_text(dollars: float, text: str) -> None:
    """Without an exponent."""
    assert controls.price_text(dollars) == text


# --- how long a provider keeps a chat

DOLLARS: Parameters = {"price_input": 3e-6, "price_cache_read": 3e-7, "price_cache_write": 3.75e-6}
PRICED = replace(MODEL, id="anthropic/claude-sonnet-4.5", price_cache_write_1h=6e-6, **DOLLARS)


@pytest.mark.parametrize(("minutes", "expected"), rows(BODIES, "lifetimes"))
def test_the_cheaper_lifetime(minutes: list[float], expected: CacheLifetime) -> None:
    """An hour costs more to write, and saves writing all anew after pauses between five minutes and an hour."""
    pauses = [60.0 * each for each in minutes]
    assert [controls.cheapest_lifetime(pauses, model) for model in (PRICED, None)] == [expected] * 2


def test_the_price_table_decides() -> None:
    """Where an hour costs ten times as much to write, no such pause pays for it."""
    dear = replace(PRICED, price_cache_write_1h=3.75e-5)
    assert controls.cheapest_lifetime([600.0] * 5, dear) == "5m"


@generated(st.lists(st.floats(0, 299) | st.floats(3600, 1e7), max_size=30))
def test_an_hour_never_pays_where_no_pause_needs_it(pauses: list[float]) -> None:
    """Shorter than five minutes, or longer than an hour."""
    assert controls.cheapest_lifetime(pauses, PRICED) == "5m"
