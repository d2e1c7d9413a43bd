"""What administrators and users have switched, in the parameters of a call; the steps are in `test_tables`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from hypothesis import given as generated
from hypothesis import strategies as st

from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.openrouter import controls
from open_webui_openrouter_pipe.openrouter.controls import ControlSettings, strictest
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Model

MODEL = Model("a/m", "M")
SIZE = "image_config.image_size"
permitted = partial(controls.permitted_parameters, allowed=(), offered=())
CHEAP_READS = CachePrices(read=0.1, write=1.25)
PRICES = Prices(3e-6, read=3e-7, write=3.75e-6, write_long=6e-6)
PRICED = replace(MODEL, id="anthropic/claude-sonnet-4.5", prices=PRICES)


def test_no_name_that_a_user_wrote_is_repeated() -> None:
    """NaN, which differs from itself, is no replaced value; and where nothing is given, nothing is added."""
    parameters = {"image_config": {"a\x1b[2J\nb": float("nan"), "image_size": "4K"}}
    assert permitted(parameters, {}, held={SIZE})[1] == (SIZE,)
    assert permitted(parameters, {}) == (parameters, ())
    assert permitted({}, {"image_config": {}}, held={SIZE}) == ({}, ())


def test_every_call_is_routed() -> None:
    """A task too; without preferences nothing is added. Wherever the settings are printed, they show no key."""
    zdr, given = ControlSettings(provider={"zdr": True}), {"provider": {"zdr": False, "sort": "price"}}
    assert controls.routed({}, zdr) == {"provider": {"zdr": True}}
    assert controls.routed(given, zdr) == {"provider": {"zdr": True, "sort": "price"}}
    assert controls.routed(given, ControlSettings()) == given
    assert "sk-or" not in repr(ControlSettings(own_api_key=Secret("sk-or-v1-secret")))


def test_the_terms_of_a_model() -> None:
    """The prices are those of the model that is asked, window and output the smallest of all that may answer."""
    terms_of = controls.model_terms
    asked = replace(PRICED, id="a/m", context_tokens=900_000)
    other = Model("a/n", "N", context_tokens=8_000, max_output_tokens=4_000)
    terms = ModelTerms("a/m", 8_000, 50, CHEAP_READS, max_output_tokens=4_000)
    assert terms_of("a/m", [asked, other], output_tokens=50) == terms
    larger = replace(other, max_output_tokens=64_000)
    assert terms_of("a/m", [larger, other, None], output_tokens=None).max_output_tokens == 4_000
    assert terms_of("a/m", [asked, None], output_tokens=50).window_tokens == 900_000
    assert terms_of("x", [None], output_tokens=None) == ModelTerms("x")


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


def allowed_by(preferences: dict[str, Any]) -> set[Any]:
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
def test_exactly_what_both_allow_is_allowed(held: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Neither an administrator's nor a user's restriction is ever loosened, and nothing else is forbidden."""
    both = allowed_by(held) & allowed_by(wanted)
    try:
        joined = strictest(held, wanted)
    except ConfigurationError:
        assert not both
    else:
        assert allowed_by(joined) == both


def test_the_price_table_decides() -> None:
    """Where an hour costs ten times as much to write, no such pause pays for it."""
    dear = replace(PRICED, prices=replace(PRICES, write_long=3.75e-5))
    assert controls.cheapest_lifetime([600.0] * 5, dear) == "5m"
