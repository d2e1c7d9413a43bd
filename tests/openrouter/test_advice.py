"""Which model is proposed: in the place of one that is gone, and as a default."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.openrouter.offer import default_model, nearest_model
from open_webui_openrouter_pipe.ports import Model

GONE = Model(
    "openai/gpt-4o",
    "GPT-4o",
    context_tokens=128_000,
    input_modalities=frozenset({"text", "image"}),
    output_modalities=frozenset({"text"}),
    supported_parameters=frozenset({"tools"}),
    prices=Prices(2e-6, 8e-6),
    created=100,
    gone_since="2026-11-01",
)


def like(model_id: str, *, dollars: float = 2.0, **changes: object) -> Model:
    """A listed model that is like the one that is gone but for this; the price is for a million tokens."""
    fields = {"id": model_id, "name": model_id, "prices": Prices(dollars / 1e6, 4 * dollars / 1e6)}
    return replace(GONE, gone_since="", **{**fields, **changes})  # type: ignore[arg-type]


TEXT, DRAWN = frozenset({"text"}), frozenset({"image"})


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        (like("x/other"), like("openai/gpt-5", input_modalities=TEXT)),
        (like("x/other"), like("openai/gpt-5", supported_parameters=frozenset({"seed"}))),
        (like("x/other", dollars=30), like("x/none", dollars=0)),
        (like("openai/gpt-5o", dollars=30), like("openai/sol")),
        (like("openai/sol", dollars=30), like("x/other")),
        (like("x/other", dollars=2.5), like("x/another", dollars=9, created=200)),
        (like("x/another", dollars=2.5, created=200), like("x/other")),
        (like("x/a"), like("x/b")),
    ],
    ids=["reads images", "calls tools", "not free", "family", "author", "price", "newer", "id"],
)
def test_the_nearest_model_is_proposed(nearer: Model, farther: Model) -> None:
    """By what it can do, then family, author, price, and age; the order of the list does not matter."""
    assert nearest_model(GONE, [nearer, farther]) == nearest_model(GONE, [farther, nearer]) == nearer


def test_what_was_free_is_not_replaced_by_what_costs() -> None:
    """Not even by itself, as long as anything else like it is free."""
    gone, free = (
        replace(like(name, dollars=0), gone_since=day) for name, day in (("x/m:free", "1"), ("y/n:free", ""))
    )
    assert nearest_model(gone, [like("x/m"), blind := replace(free, input_modalities=TEXT)]) == blind
    assert nearest_model(gone, [like("x/m"), like("y/n")]) == like("x/m")
    assert nearest_model(GONE, [free]) is None


@pytest.mark.parametrize(
    "other",
    [
        like("openai/gpt-4o:nitro"),
        like("openai/gpt-4o@preset/x"),
        like("openrouter/auto"),
        like("~openai/gpt-latest", alias_of="openai/gpt-5"),
        like("openai/gpt-image", output_modalities=DRAWN),
    ],
)
def test_what_is_no_model_of_its_own_or_answers_otherwise_is_no_replacement(other: Model) -> None:
    """For what has drawn, only what draws is."""
    assert nearest_model(GONE, [other]) is None
    drawing = replace(GONE, output_modalities=DRAWN)
    assert nearest_model(drawing, [like("x/writes"), like("x/draws", output_modalities=DRAWN)]) == like(
        "x/draws", output_modalities=DRAWN
    )


DEAR = [like(f"x/dear-{number}", dollars=20) for number in range(5)]
GOOD = like("openai/mini", dollars=0.25, created=300)


@pytest.mark.parametrize(
    "other",
    [
        like("openai/nano", dollars=0.25, created=200),
        like("x/newer", dollars=0.25, created=400),
        like("qwen/blind", dollars=0.25, created=400, input_modalities=TEXT),
        like("openai/small", dollars=0.25, created=400, context_tokens=99_999),
        like("openai/toolless", dollars=0.25, created=400, supported_parameters=frozenset()),
        like("openai/draws", dollars=0.25, created=400, output_modalities=DRAWN),
        like("openai/leaves", dollars=0.25, created=400, expires="2027-01-01"),
        like("openai/free", dollars=0, created=400),
        like("openai/dear", dollars=20, created=400),
        like("openai/new:free", dollars=0.25, created=400),
        like("~openai/latest", dollars=0.25, created=400),
    ],
    ids=lambda model: model.id,
)
def test_a_good_default_costs_little(other: Model) -> None:
    """Of the largest authors, reading images, the newest; with tools and a large window, and to stay."""
    listed = [*DEAR, GOOD, other]
    random.Random(1).shuffle(listed)
    assert default_model(listed) == GOOD


def test_where_nothing_fits_nothing_is_proposed() -> None:
    """Neither of an empty list, nor of one without prices, nor where all cost the same."""
    without_prices = [like("x/m", prices=Prices())]
    assert [default_model(listed) for listed in ([], without_prices, DEAR)] == [None] * 3
