"""Which of the offered models to take: in the place of one that is gone, and as a default for new users.

Pure. It goes by what the catalogue says of models, and by the authors in their ids.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from ..ports import Model
from .offer import family

LEAST_CONTEXT_TOKENS: Final = 100_000
"""The window of a model that is proposed as a default."""
LARGEST_AUTHORS: Final = frozenset(
    {
        *("amazon", "anthropic", "deepseek", "google", "meta-llama", "microsoft"),
        *("mistralai", "moonshotai", "openai", "qwen", "x-ai", "z-ai"),
    }
)
"""Whose models are proposed first: people know them."""
_NO_PRICE: Final = 1e-9
"""Dollars a token: what a price is compared as that is zero, or unknown."""


def nearest_model(gone: Model, offered: Sequence[Model]) -> Model | None:
    """Return the offered model that is nearest to one: of those that answer in the same form.

    What was free stays so; then by what it can do, family, author, and price, and of two that are as near the newer.
    """
    price = gone.prices.input or _NO_PRICE

    def distance(model: Model) -> tuple[object, ...]:
        lacking = sum(
            (
                gone.reads("image") and not model.reads("image"),
                gone.calls_tools and not model.calls_tools,
                model.is_free and not gone.is_free,
            )
        )
        octaves = abs(math.log2(max(model.prices.input or 0.0, _NO_PRICE) / max(price, _NO_PRICE)))
        return (
            gone.is_free and not model.is_free,
            lacking,
            family(model.id) != family(gone.id),
            _author(model) != _author(gone),
            round(octaves),
            -model.created,
            model.id,
        )

    same_form = [
        model
        for model in offered
        if (model.writes, model.draws) == (gone.writes, gone.draws)
        and (_is_plain(model) or (gone.is_free and model.id.endswith(":free")))
    ]
    return min(same_form, key=distance, default=None)


def default_model(offered: Sequence[Model]) -> Model | None:
    """Return a good model that costs little: the newest that writes, calls tools, and has a large window.

    Its input costs less than that of half the offered models, and something; those of the largest authors that read
    images come first. None that will be withdrawn, and no variant, router or moving name.
    """
    priced = [model for model in offered if model.writes and model.prices.input]
    if not priced:
        return None
    median = statistics.median(model.prices.input or 0.0 for model in priced)
    fitting = [
        model
        for model in priced
        if "tools" in model.supported_parameters
        and (model.context_tokens or 0) >= LEAST_CONTEXT_TOKENS
        and (model.prices.input or 0.0) < median
        and not model.expires
        and _is_plain(model)
    ]

    def rank(model: Model) -> tuple[bool, bool, int, str]:
        return _author(model) in LARGEST_AUTHORS, "image" in model.input_modalities, model.created, model.id

    return max(fitting, key=rank, default=None)


def _author(model: Model) -> str:
    return model.id.partition("/")[0].removeprefix("~")


def _is_plain(model: Model) -> bool:
    """Whether it is a model of its own."""
    return not (
        model.alias_of or model.id.startswith(("~", "openrouter/")) or ":" in model.id or "@" in model.id
    )
