"""Which providers and models may answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.controls import fallback_models, price_text, strictest


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ({}, {"sort": "price"}, {"sort": "price"}),
        ({"sort": "price"}, {}, {"sort": "price"}),
        ({"sort": "price"}, {"sort": "latency"}, {"sort": "latency"}),
        ({"order": ["a"]}, {"order": ["b"]}, {"order": ["b"]}),
        ({"zdr": True}, {"zdr": False}, {"zdr": True}),
        ({"zdr": True}, {"zdr": None}, {"zdr": True}),
        ({"only": ["a", "b"]}, {"only": ["B", "c"]}, {"only": ["B"]}),
        ({"only": ["a"]}, {"only": ["a/fp8"]}, {"only": ["a/fp8"]}),
        ({"only": ["a/fp8", "b"]}, {"only": ["a"]}, {"only": ["a/fp8"]}),
        ({"only": ["ab"]}, {"only": []}, {"only": ["ab"]}),
        ({"only": ["a"]}, {"only": "b"}, {"only": ["a"]}),
        ({"ignore": ["a"]}, {"ignore": ["b", "a"]}, {"ignore": ["a", "b"]}),
        ({"ignore": ["a"]}, {"ignore": None}, {"ignore": ["a"]}),
        ({"quantizations": ["fp8", "bf16"]}, {"quantizations": ["bf16"]}, {"quantizations": ["bf16"]}),
        ({"data_collection": "deny"}, {"data_collection": "allow"}, {"data_collection": "deny"}),
        ({"max_price": {"prompt": "2"}}, {"max_price": {"prompt": "3", "image": "1"}},
         {"max_price": {"prompt": "2", "image": "1"}}),
        ({"max_price": {"prompt": "2"}}, {"max_price": {"prompt": 1}}, {"max_price": {"prompt": 1}}),
        ({"max_price": {"prompt": "2"}}, {"max_price": {"prompt": "free"}}, {"max_price": {"prompt": "2"}}),
        ({"require_parameters": True}, {"require_parameters": False}, {"require_parameters": True}),
        ({"allow_fallbacks": True}, {"allow_fallbacks": False}, {"allow_fallbacks": False}),
    ],
)  # fmt: skip
def test_preferences_are_joined(
    held: dict[str, Any], wanted: dict[str, Any], expected: dict[str, Any]
) -> None:
    """What only orders is the request's own; all else becomes stricter, and what cannot be read changes nothing."""
    assert strictest(held, wanted) == expected


@pytest.mark.parametrize(
    ("held", "wanted"),
    [({"only": ["ab"]}, {"only": ["a"]}), ({"quantizations": ["fp8"]}, {"quantizations": ["int4"]})],
)
def test_nothing_left_is_an_error(held: dict[str, Any], wanted: dict[str, Any]) -> None:
    """An empty list would restrict nothing: the request is not sent."""
    with pytest.raises(ConfigurationError, match="no provider is left"):
        strictest(held, wanted)


@dataclass(frozen=True)
class Endpoint:
    """A provider's offer of a model, and what preferences say about it."""

    provider: str
    precision: str
    price: float
    keeps_nothing: bool
    collects: bool

    def is_allowed_by(self, preferences: dict[str, Any]) -> bool:
        """By the documentation of each preference alone."""
        only, precisions = preferences.get("only"), preferences.get("quantizations")
        limit = (preferences.get("max_price") or {}).get("prompt")
        return (
            (not only or self.provider in only)
            and self.provider not in (preferences.get("ignore") or [])
            and (not precisions or self.precision in precisions)
            and (limit is None or self.price <= float(limit))
            and (not preferences.get("zdr") or self.keeps_nothing)
            and not (preferences.get("data_collection") == "deny" and self.collects)
        )


ENDPOINTS = [
    Endpoint(provider, precision, price, keeps_nothing, collects)
    for provider in "abc"
    for precision in ("fp8", "bf16")
    for price in (1.0, 3.0)
    for keeps_nothing in (True, False)
    for collects in (True, False)
]
NAMES = st.lists(st.sampled_from("abc"), min_size=1, unique=True)
PREFERENCES = st.fixed_dictionaries(
    {},
    optional={
        "only": NAMES,
        "ignore": NAMES,
        "quantizations": st.lists(st.sampled_from(["fp8", "bf16"]), min_size=1, unique=True),
        "max_price": st.sampled_from([{"prompt": "0.5"}, {"prompt": "2"}, {"prompt": "4"}]),
        "zdr": st.booleans(),
        "data_collection": st.sampled_from(["allow", "deny"]),
    },
)


@given(PREFERENCES, PREFERENCES)
def test_exactly_what_both_allow_is_allowed(held: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Neither an administrator's nor a user's restriction is ever loosened, and nothing else is forbidden."""
    both = {e for e in ENDPOINTS if e.is_allowed_by(held) and e.is_allowed_by(wanted)}
    try:
        joined = strictest(held, wanted)
    except ConfigurationError:
        assert not both
    else:
        assert {e for e in ENDPOINTS if e.is_allowed_by(joined)} == both


MODELS = {
    model.id: model
    for model in read_models(
        {
            "data": [
                *({"id": name} for name in ("a/1", "a/2", "a/3", "a/4", "a/5")),
                {"id": "a/draws", "architecture": {"output_modalities": ["image", "text"]}},
            ]
        }
    )
}


@pytest.mark.parametrize(
    ("wanted", "asked", "expected"),
    [
        (["a/2", "b/unknown", "a/2", "a/1"], "a/1", ["a/2"]),
        (["a/1", "a/2", "a/3", "a/4"], "a/5", ["a/1", "a/2", "a/3"]),
        (["a/1"], "a/draws", []),
        (["a/draws"], "a/1", ["a/draws"]),
    ],
)
def test_fallbacks_are_offered_models(wanted: list[str], asked: str, expected: list[str]) -> None:
    """Each once, three at most, not the one that is asked, and one that draws where a picture is wanted."""
    assert fallback_models(wanted, MODELS, model_id=asked, model=MODELS[asked]) == expected


@pytest.mark.parametrize(
    ("dollars", "text"), [(3.0, "3"), (0.00005, "0.00005"), (12.5, "12.5"), (100.0, "100")]
)
def test_prices_are_decimal_text(dollars: float, text: str) -> None:
    """Without an exponent."""
    assert price_text(dollars) == text
