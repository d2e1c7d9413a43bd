"""Which models are offered, under which names, and in which order."""

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

Row = dict[str, Any]


def row(model_id: str, **fields: Any) -> Row:
    """A row of the catalogue."""
    return {"id": model_id, "name": model_id.replace("/", ": "), **fields}


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


@pytest.mark.parametrize(
    ("patterns", "offered"),
    [
        ("*", ["a/m", "a/n", "b/m"]),
        ("a/*", ["a/m", "a/n"]),
        ("!a/*", ["b/m"]),
        ("*, !a/*, a/m", ["a/m", "b/m"]),
        ("c/*", []),
    ],
)
def test_the_last_pattern_that_matches_decides(patterns: str, offered: list[str]) -> None:
    """A pattern includes, one with an exclamation mark excludes; a list of exclusions alone starts from all."""
    settings = offer(patterns)
    assert ids(settings, row("a/m"), row("a/n"), row("b/m")) == offered
    assert [name for name in ("a/m", "a/n", "b/m") if is_offered(name, settings.patterns)] == offered


def test_models_that_neither_write_nor_draw_are_not_offered() -> None:
    """A video, a recording or a list of numbers is no answer; a model that does not say what it writes is offered."""
    outputs = [["text", "image"], ["image"], None, ["video"], ["audio"], ["embeddings"], ["text", "audio"]]
    rows = [
        row(str(number), architecture={"output_modalities": output}) for number, output in enumerate(outputs)
    ]
    assert ids(offer(), *rows) == ["0", "1", "2", "6"]


PAID = {"prompt": "0.000002", "completion": "0.00001"}
FREE = {"prompt": "0", "completion": "0"}
ROWS = (
    row("a/able", supported_parameters=["tools"], pricing=PAID, context_length=128_000),
    row("a/bare"),
    row("a/dear", pricing={"prompt": "0.0000021", "completion": "0"}, context_length=1_000_000),
    row("a/ends", expiration_date="2027-03-01", pricing=PAID, context_length=127_999),
    row("a/free", pricing=FREE, context_length=131_072),
    row("a/free-draws", pricing=FREE, architecture={"output_modalities": ["image", "text"]}),
    row("a/free-draws:free", pricing=FREE, architecture={"output_modalities": ["image", "text"]}),
    row("a/free-tokens", pricing={**FREE, "request": "0.01"}),
    row("a/half-free", pricing={"prompt": "0", "completion": "0.1"}),
    row("a/router", pricing={"prompt": "-1", "completion": "-1"}),
    row("a/sees", architecture={"input_modalities": ["text", "image"]}),
)
ALL = [each["id"] for each in ROWS]
PER_PICTURE = ("a/free-draws", "a/free-draws:free", "a/free-tokens")


@pytest.mark.parametrize(
    ("filters", "offered"),
    [
        ("", ALL),
        ("free", ["a/free", "a/free-draws:free"]),
        ("tools", ["a/able"]),
        ("vision", ["a/sees"]),
        ("no-expiring", [name for name in ALL if name != "a/ends"]),
        ("context>=128k", ["a/able", "a/dear", "a/free"]),
        ("context>=1m", ["a/dear"]),
        ("context>=128001", ["a/dear", "a/free"]),
        ("price<=2", ["a/able", "a/ends", "a/free", *PER_PICTURE, "a/half-free"]),
        ("price<=2.1", ["a/able", "a/dear", "a/ends", "a/free", *PER_PICTURE, "a/half-free"]),
        ("price<=0", ["a/free", *PER_PICTURE, "a/half-free"]),
        ("price<=2,context>=128k", ["a/able", "a/free"]),
        ("Tools , Context >= 128K", ["a/able"]),
        ("context>=1m, context>=128k, price<=1, price<=2", ["a/able", "a/free"]),
        ("tools, vision", []),
        ("tool", []),
        ("tools, cheap", []),
        ("context<=1m", []),
        ("price>=1", []),
        ("context>=", []),
    ],
)
def test_every_offered_model_fulfils_the_filters(filters: str, offered: list[str]) -> None:
    """What is not known of a model does not pass, and with a word that means nothing nothing does."""
    assert ids(offer(filters=filters), *ROWS) == offered


def test_words_that_mean_nothing_are_named() -> None:
    """As they were written, but for case and blanks; the others are read."""
    assert read_filters(["Zdr", "context >= 1.5m", "zrd", "0,5", "price<=two"]) == Filters(
        frozenset({"zdr"}), 1_500_000, None, ("zrd", "0,5", "price<=two")
    )


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
    zdr_ids = {"a/by-id", "a/canonical-1", "a/unnamed:free"}
    assert ids(chosen, *rows, zdr_ids=zdr_ids) == [
        *("a/by-id", "a/by-id:nitro", "a/by-id@preset/x"),
        *("a/canonical", "a/canonical:nitro", "a/canonical@preset/x", "a/unnamed:free"),
    ]


@pytest.mark.parametrize(
    ("of_one_family", "name"),
    [
        (("openai/gpt-5.2", "openai/gpt-4", "openai/gpt-4.1"), "openai/gpt"),
        (("openai/gpt-5-mini", "openai/gpt-4.1-mini"), "openai/gpt-mini"),
        (("openai/o3", "openai/o1-preview"), "openai/o"),
        (("openai/o4-mini", "openai/o3-mini"), "openai/o-mini"),
        (("anthropic/claude-sonnet-4.5", "anthropic/claude-3.7-sonnet"), "anthropic/claude-sonnet"),
        (("google/gemini-3-pro-preview", "google/gemini-2.5-pro"), "google/gemini-pro"),
        (("google/gemini-2.0-flash-001", "google/gemini-3-flash"), "google/gemini-flash"),
        (("meta-llama/llama-3.3-70b-instruct", "meta-llama/llama-3-70b-instruct"),
         "meta-llama/llama-70b-instruct"),
        (("meta-llama/llama-3-8b-instruct",), "meta-llama/llama-8b-instruct"),
        (("qwen/qwen3-235b-a22b-2507", "qwen/qwen3-235b-a22b"), "qwen/qwen-235b-a22b"),
        (("mistralai/mixtral-8x7b",), "mistralai/mixtral-8x7b"),
        (("deepseek/deepseek-r1-0528", "deepseek/deepseek-r1"), "deepseek/deepseek-r"),
        (("deepseek/deepseek-v3.2-exp", "deepseek/deepseek-v3"), "deepseek/deepseek-v"),
        (("a/m-1:free", "a/m-2:free"), "a/m:free"),
        (("~a/m-latest",), "~a/m"),
        (("plain",), "/plain"),
    ],
)  # fmt: skip
def test_releases_of_one_model_are_a_family(of_one_family: tuple[str, ...], name: str) -> None:
    """Versions, dates and stages make no difference; sizes, kinds and free variants do."""
    assert {family(model_id) for model_id in of_one_family} == {name}


def test_the_newest_of_each_family_is_offered() -> None:
    """Of those that fulfil all else, and never two of one family; of the same second, the last by its id."""
    rows = (
        row("a/m-1", created=100, supported_parameters=["tools"]),
        row("a/m-2", created=200, supported_parameters=["tools"]),
        row("a/m-3", created=300),
        row("a/m-2-mini", created=50),
        row("a/n-1", created=100),
        row("a/n-2", created=100),
        row("b/m-10", created=200),
        row("b/m-9", created=100),
    )
    assert ids(offer(filters="newest"), *rows) == ["a/m-3", "a/n-2", "a/m-2-mini", "b/m-10"]
    assert ids(offer(filters="newest, tools"), *rows) == ["a/m-2"]
    assert ids(offer("!a/m-3", "newest"), *rows)[0] == "a/m-2"


@pytest.mark.parametrize(
    ("variants", "offered"),
    [
        ("a/m:nitro", ["a/m", "a/m:nitro"]),
        ("a/m*:nitro", ["a/m", "a/m:nitro", "a/m-2", "a/m-2:nitro"]),
        ("a/m:floor, a/m:exacto, a/m:online", ["a/m", "a/m:exacto", "a/m:floor", "a/m:online"]),
        ("a/m:free", ["a/m", "a/m:free"]),
        ("*:free", ["a/m", "a/m:free"]),
        ("*:extended, *:thinking", ["a/m"]),
        ("a/m@preset/x", ["a/m", "a/m@preset/x"]),
        ("a/m:nitro@preset/x", ["a/m", "a/m:nitro@preset/x"]),
        ("a/m:free@preset/x", ["a/m", "a/m:free@preset/x"]),
        ("a/m-2:free@preset/x", ["a/m"]),
        ("a/m:nitro, a/*:nitro", ["a/m", "a/m:nitro", "a/m-2", "a/m-2:nitro"]),
        ("@preset/x", ["a/m", "@preset/x"]),
        ("b/*:nitro", ["a/m"]),
        ("a/m", ["a/m"]),
    ],
)
def test_variants_and_presets_are_models_of_their_own(variants: str, offered: list[str]) -> None:
    """Of offered models, each once, and of those that only some models have the listed ones alone."""
    rows = (row("a/m"), row("a/m-2"), row("a/m:free"), row("b/m"))
    found = ids(offer("a/m, a/m-2", variants=variants), *rows)
    assert [name for name in found if name != "a/m-2" or "a/m-2" in offered] == offered


def test_a_variant_that_is_offered_anyway_is_not_doubled() -> None:
    """The catalogue lists some of them itself."""
    assert ids(offer(variants="*:free"), row("a/m"), row("a/m:free")) == ["a/m", "a/m:free"]


def test_a_variant_is_what_its_model_is() -> None:
    """Prices, window and abilities are those of its own row, or else of the model; its name says which it is."""
    rows = (
        row("a/m", name="A: M", pricing=PAID, context_length=9, supported_parameters=["tools"]),
        row("a/m:free", name="A: M (free)", pricing=FREE, context_length=5),
    )
    chosen = offer(variants="a/m:nitro, a/m:nitro@preset/x, a/m:free@preset/x, @preset/x")
    found = offered_models(models(*rows), chosen, zdr_ids=None)
    assert [(model.name, model.price_input, model.context_tokens) for model in found] == [
        ("A: M", 0.000002, 9),
        ("A: M (free)", 0, 5),
        ("A: M (free) (preset x)", 0, 5),
        ("A: M (nitro)", 0.000002, 9),
        ("A: M (nitro) (preset x)", 0.000002, 9),
        ("Preset: x", None, None),
    ]


def test_a_variant_that_searches_is_not_free() -> None:
    """Each of its requests pays for a search, also where the model itself costs nothing."""
    rows = (row("a/m", pricing=FREE), row("a/n", pricing=PAID))
    assert ids(offer("*", "free", "*:online, *:nitro, a/m:online@preset/x"), *rows) == ["a/m", "a/m:nitro"]
    shown = offered_models(models(rows[0]), offer("*", "", "*:online"), zdr_ids=None)
    assert [(model.id, model.is_free) for model in shown] == [("a/m", True), ("a/m:online", False)]


@pytest.mark.parametrize(
    ("filters", "offered"),
    [
        ("free", ["a/m:free", "a/m:free@preset/x"]),
        ("price<=2", ["a/m", "a/m:free", "a/m:free@preset/x", "a/m:nitro"]),
        ("context>=6", ["a/m", "a/m:nitro"]),
        ("context>=10", []),
    ],
)
def test_variants_fulfil_the_filters_as_well(filters: str, offered: list[str]) -> None:
    """A free variant by its own row; of a preset alone nothing is known, so it does not pass."""
    rows = (row("a/m", pricing=PAID, context_length=9), row("a/m:free", pricing=FREE, context_length=5))
    variants = "a/m:nitro, a/m:free@preset/x, @preset/x"
    assert ids(offer("*", filters, variants), *rows) == offered


@pytest.mark.parametrize(
    ("entry", "variant"),
    [
        ("a/m:nitro", Variant("a/m", ":nitro", "")),
        ("a/*@preset/my-team.2", Variant("a/*", "", "@preset/my-team.2")),
        ("*:free@preset/x", Variant("*", ":free", "@preset/x")),
        ("@preset/x", Variant("", "", "@preset/x")),
        ("a/m", None),
        (":nitro", None),
        ("a/m@x", None),
        ("a/m@preset/", None),
        ("a/m:nitro:free", None),
        ("a/m:Nitro x", None),
    ],
)
def test_entries_that_are_no_variants_are_named(entry: str, variant: Variant | None) -> None:
    """The others are read."""
    assert read_variants([entry]) == ((variant,), ()) if variant else ((), (entry,))


def test_a_model_that_will_be_withdrawn_says_when() -> None:
    """In its name, and its variants do as well."""
    rows = (row("a/m", name="A: M", expiration_date="2027-03-01"),)
    found = offered_models(models(*rows), offer(variants="a/m:nitro"), zdr_ids=None)
    assert [model.name for model in found] == ["A: M (until 2027-03-01)", "A: M (nitro) (until 2027-03-01)"]


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


def test_the_valve_names_every_filter() -> None:
    """And each of the words is read as itself."""
    assert read_filters(FILTER_WORDS) == Filters(frozenset(FILTER_WORDS))
