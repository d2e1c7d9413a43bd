"""Which models are offered, under which names, and in which order: see `tables.txt`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from open_webui_openrouter_pipe.openrouter.catalog import read_models
from open_webui_openrouter_pipe.openrouter.offer import (
    FILTER_WORDS,
    Filters,
    OfferSettings,
    Variant,
    family,
    is_offered,
    offered_models,
    read_filters,
    read_variants,
)
from open_webui_openrouter_pipe.ports import Model
from tests.openrouter.test_errors import TABLES
from tests.support.rows import rows

Row = dict[str, Any]
PAID = {"prompt": "0.000002", "completion": "0.00001"}
FREE = {"prompt": "0", "completion": "0"}


def row(model_id: str, **fields: Any) -> Row:
    """A row of the catalogue."""
    return {"id": model_id, "name": model_id.replace("/", ": "), **fields}


CATALOGUE = [
    row(case.values[0], **case.values[1])
    for case in rows(TABLES, "catalogue of the filters", {"PAID": PAID, "FREE": FREE})
]


def models(*rows: Row) -> tuple[Model, ...]:
    """The models of these rows."""
    return tuple((read_models({"data": list(rows)}) or {}).values())


def offer(patterns: str = "*", filters: str = "", variants: str = "") -> OfferSettings:
    """What an administrator has written into the valves."""
    words = [[word.strip() for word in text.split(",") if word] for text in (patterns, filters, variants)]
    read, unknown = read_variants(words[2])
    return OfferSettings(tuple(words[0]), read_filters(words[1]), read, unknown)


def ids(settings: OfferSettings, *rows: Row, zdr_ids: set[str] | None = None) -> list[str]:
    """The ids that are offered of these rows."""
    return [model.id for model in offered_models(models(*rows), settings, zdr_ids=zdr_ids)]


@pytest.mark.parametrize(("patterns", "offered"), rows(TABLES, "patterns"))
def test_the_last_pattern_that_matches_decides(patterns: str, offered: list[str]) -> None:
    """A pattern includes, one with an exclamation mark excludes; a list of exclusions alone starts from all."""
    settings, names = offer(patterns), ("a/m", "a/n", "b/m")
    assert ids(settings, *map(row, names)) == offered
    assert [name for name in names if is_offered(name, settings.patterns)] == offered


def test_models_that_neither_write_nor_draw_are_not_offered() -> None:
    """A video, a recording or a list of numbers is no answer; a model that does not say what it writes is offered."""
    outputs = [["text", "image"], ["image"], None, ["video"], ["audio"], ["embeddings"], ["text", "audio"]]
    rows = [row(str(at), architecture={"output_modalities": output}) for at, output in enumerate(outputs)]
    assert ids(offer(), *rows) == ["0", "1", "2", "6"]


@pytest.mark.parametrize(("filters", "offered"), rows(TABLES, "filters"))
def test_every_offered_model_fulfils_the_filters(filters: str, offered: list[str]) -> None:
    """What is not known of a model does not pass, and with a word that means nothing nothing does."""
    assert ids(offer(filters=filters), *CATALOGUE) == offered


def test_words_that_mean_nothing_are_named() -> None:
    """As they were written, but for case and blanks; the others are read, among them all that the valve names."""
    assert read_filters(["Zdr", "context >= 1.5m", "zrd", "0,5", "price<=two"]) == Filters(
        frozenset({"zdr"}), 1_500_000, None, ("zrd", "0,5", "price<=two")
    )
    assert read_filters(FILTER_WORDS) == Filters(frozenset(FILTER_WORDS))


@pytest.mark.parametrize("zdr_ids", [None, set[str](), {"b/other"}])
def test_nothing_is_offered_where_nothing_is_known_to_keep_no_data(zdr_ids: set[str] | None) -> None:
    """It fails closed."""
    assert ids(offer(filters="zdr"), row("a/m"), row(""), zdr_ids=zdr_ids) == []


def test_the_list_of_those_that_keep_no_data_names_ids_or_canonical_ids() -> None:
    """A free variant has providers of its own, also where it shares the canonical id; another variant has not."""
    rows = (
        row("a/by-id", canonical_slug="a/by-id-1"),
        row("a/canonical", canonical_slug="a/canonical-1"),
        row("a/canonical:free", canonical_slug="a/canonical-1"),
        row("a/unnamed"),
        row("a/unnamed:free", canonical_slug="a/unnamed-1"),
    )
    chosen = offer(filters="zdr", variants="a/*:nitro, a/*:free, a/*@preset/x, @preset/x")
    assert ids(chosen, *rows, zdr_ids={"a/by-id", "a/canonical-1", "a/unnamed:free"}) == [
        *("a/by-id", "a/by-id:nitro", "a/by-id@preset/x"),
        *("a/canonical", "a/canonical:nitro", "a/canonical@preset/x", "a/unnamed:free"),
    ]


@pytest.mark.parametrize(("of_one_family", "name"), rows(TABLES, "families"))
def test_releases_of_one_model_are_a_family(of_one_family: list[str], name: str) -> None:
    """Versions, dates and stages make no difference; sizes, kinds and free variants do."""
    assert {family(model_id) for model_id in of_one_family} == {name}


def test_the_newest_of_each_family_is_offered() -> None:
    """Of those that fulfil all else, and never two of one family; of the same second, the last by its id."""
    ages = {"a/m-3": 300, "a/m-2-mini": 50, "a/n-1": 100, "a/n-2": 100, "b/m-10": 200, "b/m-9": 100}
    able = [row(f"a/m-{at}", created=100 * at, supported_parameters=["tools"]) for at in (1, 2)]
    rows = (*able, *(row(name, created=age) for name, age in ages.items()))
    assert ids(offer(filters="newest"), *rows) == ["a/m-3", "a/n-2", "a/m-2-mini", "b/m-10"]
    assert ids(offer(filters="newest, tools"), *rows) == ["a/m-2"]
    assert ids(offer("!a/m-3", "newest"), *rows)[0] == "a/m-2"


@pytest.mark.parametrize(("variants", "offered"), rows(TABLES, "variants"))
def test_variants_and_presets_are_models_of_their_own(variants: str, offered: list[str]) -> None:
    """Of offered models, each once, and of those that only some models have the listed ones alone."""
    found = ids(offer("a/m, a/m-2", variants=variants), *map(row, ("a/m", "a/m-2", "a/m:free", "b/m")))
    assert [name for name in found if name not in {"a/m", "a/m-2"}] == offered
    assert {"a/m", "a/m-2"} <= set(found)


def test_a_variant_that_is_offered_anyway_is_not_doubled() -> None:
    """The catalogue lists some of them itself."""
    assert ids(offer(variants="*:free"), row("a/m"), row("a/m:free")) == ["a/m", "a/m:free"]


def test_a_variant_is_what_its_model_is() -> None:
    """Prices, window and abilities are those of its own row, or else of the model; its name says which it is."""
    rows = (
        row("a/m", name="A: M", pricing=PAID, context_length=9, expiration_date="2027-03-01"),
        row("a/m:free", name="A: M (free)", pricing=FREE, context_length=5),
    )
    chosen = offer(variants="a/m:nitro, a/m:nitro@preset/x, a/m:free@preset/x, @preset/x")
    found = offered_models(models(*rows), chosen, zdr_ids=None)
    assert [(model.name, model.price_input, model.context_tokens) for model in found] == [
        ("A: M (until 2027-03-01)", 0.000002, 9),
        ("A: M (free)", 0, 5),
        ("A: M (free) (preset x)", 0, 5),
        ("A: M (nitro) (until 2027-03-01)", 0.000002, 9),
        ("A: M (nitro) (preset x) (until 2027-03-01)", 0.000002, 9),
        ("Preset: x", None, None),
    ]


def test_a_variant_that_searches_is_not_free() -> None:
    """Each of its requests pays for a search, also where the model itself costs nothing."""
    rows = (row("a/m", pricing=FREE), row("a/n", pricing=PAID))
    assert ids(offer("*", "free", "*:online, *:nitro, a/m:online@preset/x"), *rows) == ["a/m", "a/m:nitro"]
    shown = offered_models(models(rows[0]), offer("*", "", "*:online"), zdr_ids=None)
    assert [(model.id, model.is_free) for model in shown] == [("a/m", True), ("a/m:online", False)]


@pytest.mark.parametrize(("filters", "offered"), rows(TABLES, "filtered variants"))
def test_variants_fulfil_the_filters_as_well(filters: str, offered: list[str]) -> None:
    """A free variant by its own row; of a preset alone nothing is known, so it does not pass."""
    rows = (row("a/m", pricing=PAID, context_length=9), row("a/m:free", pricing=FREE, context_length=5))
    assert ids(offer("*", filters, "a/m:nitro, a/m:free@preset/x, @preset/x"), *rows) == offered


@pytest.mark.parametrize(("entry", "parts"), rows(TABLES, "entries"))
def test_entries_that_are_no_variants_are_named(entry: str, parts: list[str] | None) -> None:
    """The others are read."""
    assert read_variants([entry]) == (((Variant(*parts),), ()) if parts else ((), (entry,)))


def test_the_order_is_by_provider_and_then_by_age_whatever_the_order_of_the_list() -> None:
    """The provider as its name is shown, or else as the id begins; variants follow their model."""
    rows = [
        row("z/one", name="alpha: One", created=100),
        row("z/two", name="Alpha: Two", created=300),
        row("z/two-b", name="Alpha: Two B", created=300),
        row("beta/x", name="X", created=50),
        row("beta/y", name="Beta: Y"),
        row("c/m", name="Gamma: M", created=900),
    ]
    expected = ["z/two", "z/two:nitro", "z/two-b", "z/one", "beta/x", "beta/y", "c/m"]
    for seed in range(10):
        random.Random(seed).shuffle(rows)
        assert ids(offer(variants="z/two:nitro"), *rows) == expected
