"""Which models are offered, under which names, and in which order: see `tables.txt`."""

from __future__ import annotations

import random
from typing import Any

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.offer import (
    FILTER_WORDS,
    Filters,
    OfferSettings,
    gone_models,
    offered_models,
    read_filters,
    read_variants,
)
from open_webui_openrouter_pipe.ports import Model

Row = dict[str, Any]
PAID = {"prompt": "0.000002", "completion": "0.00001"}
FREE = {"prompt": "0", "completion": "0"}


def row(model_id: str, **fields: Any) -> Row:
    """A row of the catalogue."""
    return {"id": model_id, "name": model_id.replace("/", ": "), **fields}


def models(*listed: Row) -> tuple[Model, ...]:
    """The models of these rows."""
    return tuple((read_models({"data": list(listed)}) or {}).values())


def offer(patterns: str = "*", filters: str = "", variants: str = "") -> OfferSettings:
    """What an administrator has written into the valves."""
    words = [[word.strip() for word in text.split(",") if word] for text in (patterns, filters, variants)]
    return OfferSettings(tuple(words[0]), read_filters(words[1]), read_variants(words[2])[0])


def ids(settings: OfferSettings, *listed: Row, zdr_ids: set[str] | None = None) -> list[str]:
    """The ids that are offered of these rows."""
    return [model.id for model in offered_models(models(*listed), settings, zdr_ids=zdr_ids)]


def test_words_that_mean_nothing_are_named() -> None:
    """As they were written, but for case and blanks, with what counts for them: what they are close to.

    A price that cannot be read lets only free models pass. The others are read, among them all that the valve names.
    """
    assert read_filters(["Tools", "context >= 1.5m", "zrd", "0,5", "Price < 2"]) == Filters(
        frozenset({"tools", "zdr"}), 1_500_000, 2, (("zrd", "zdr"), ("0,5", ""), ("price<2", "price<=2"))
    )
    assert read_filters(["price<=two", "context:128k"]) == Filters(
        frozenset({"free"}), 128_000, None, (("price<=two", "free"), ("context:128k", "context>=128k"))
    )
    assert read_filters(FILTER_WORDS) == Filters(frozenset(FILTER_WORDS))


def test_the_newest_of_each_family_is_offered() -> None:
    """Of those that fulfil all else, and never two of one family; of the same second, the last by its id."""
    ages = {"a/m-3": 300, "a/m-2-mini": 50, "a/n-1": 100, "a/n-2": 100, "b/m-10": 200, "b/m-9": 100}
    able = [row(f"a/m-{at}", created=100 * at, supported_parameters=["tools"]) for at in (1, 2)]
    listed = (*able, *(row(name, created=age) for name, age in ages.items()))
    assert ids(offer(filters="newest"), *listed) == ["a/m-3", "a/n-2", "a/m-2-mini", "b/m-10"]
    assert ids(offer(filters="newest, tools"), *listed) == ["a/m-2"]
    assert ids(offer("!a/m-3", "newest"), *listed)[0] == "a/m-2"


def test_what_left_the_list_is_what_would_be_offered() -> None:
    """By the patterns, the filters but those that need lists of today, and with its variants; named as withdrawn."""
    old = {"gone_since": "2026-11-01", "pricing": PAID, "supported_parameters": ["tools"], "created": 5}
    wire = {"data": [row("a/m-2", created=9)], "gone": [row("a/m-1", **old), row("b/n", **old)]}
    listed = (read_models(wire) or {}).values()

    def found(*valves: str) -> list[tuple[str, str]]:
        return [(model.id, model.name) for model in gone_models(listed, offer(*valves))]

    gone = [("a/m-1", "a: m-1 (withdrawn)"), ("a/m-1:nitro", "a: m-1 (nitro) (withdrawn)")]
    assert found("*", "newest, zdr, tools, price<=2", "a/*:nitro") == [*gone, ("b/n", "b: n (withdrawn)")]
    assert found("!b/*", "", "a/*:nitro, @preset/x") == gone
    assert (found("*", "price<=1"), found("*", "free")) == ([], [])


def test_a_variant_is_what_its_model_is() -> None:
    """Prices, window and abilities are those of its own row, or else of the model; its name says which it is."""
    listed = (
        row("a/m", name="A: M", pricing=PAID, context_length=9, expiration_date="2027-03-01"),
        row("a/m:free", name="A: M (free)", pricing=FREE, context_length=5),
    )
    chosen = offer(variants="a/m:nitro, a/m:nitro@preset/x, a/m:free@preset/x, @preset/x")
    found = offered_models(models(*listed), chosen, zdr_ids=None)
    assert [(model.name, model.prices.input, model.context_tokens) for model in found] == [
        ("A: M (until 2027-03-01)", 0.000002, 9),
        ("A: M (free)", 0, 5),
        ("A: M (free) (preset x)", 0, 5),
        ("A: M (nitro) (until 2027-03-01)", 0.000002, 9),
        ("A: M (nitro) (preset x) (until 2027-03-01)", 0.000002, 9),
        ("Preset: x", None, None),
    ]


def test_a_variant_that_searches_is_not_free() -> None:
    """Each of its requests pays for a search, also where the model itself costs nothing."""
    listed = (row("a/m", pricing=FREE), row("a/n", pricing=PAID))
    assert ids(offer("*", "free", "*:online, *:nitro, a/m:online@preset/x"), *listed) == ["a/m", "a/m:nitro"]
    shown = offered_models(models(listed[0]), offer("*", "", "*:online"), zdr_ids=None)
    assert [(model.id, model.is_free) for model in shown] == [("a/m", True), ("a/m:online", False)]


def test_the_order_is_by_provider_and_then_by_age_whatever_the_order_of_the_list() -> None:
    """The provider as its name is shown, or else as the id begins; variants follow their model."""
    listed = [
        row("z/one", name="alpha: One", created=100),
        row("z/two", name="Alpha: Two", created=300),
        row("z/two-b", name="Alpha: Two B", created=300),
        row("beta/x", name="X", created=50),
        row("beta/y", name="Beta: Y"),
        row("c/m", name="Gamma: M", created=900),
    ]
    expected = ["z/two", "z/two:nitro", "z/two-b", "z/one", "beta/x", "beta/y", "c/m"]
    for seed in range(10):
        random.Random(seed).shuffle(listed)
        assert ids(offer(variants="z/two:nitro"), *listed) == expected
