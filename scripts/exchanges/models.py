"""Which model of a catalogue a case is for: the cheapest that can do what it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from open_webui_openrouter_pipe.ports import Model

OUTPUT_WEIGHT = 0.3
"""How many tokens are written for each that is read, where models are compared by their prices."""
MIN_WINDOW_TOKENS = 8_000


@dataclass(frozen=True, slots=True)
class Need:
    """What a model must have; None does not matter. `maker` is the first part of its id, `lacks` are kinds of input."""

    maker: str = ""
    reasons: bool | None = None
    tools: bool | None = None
    reads: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    caches: bool = False
    is_mandatory: bool | None = None
    most_window_tokens: int | None = None

    def fits(self, model: Model) -> bool:
        """Whether a model has all that, writes text alone, and has a price and no date on which it goes."""
        author, _, slug = model.id.partition("/")
        is_plain = (
            bool(slug) and ":" not in slug and author not in {"openrouter", "standin"} and "~" not in author
        )
        has_price = bool(model.prices.input) and model.prices.output is not None
        return (
            is_plain
            and has_price
            and not model.expires
            and model.output_modalities <= {"text"}
            and MIN_WINDOW_TOKENS <= (model.context_tokens or 0) <= (self.most_window_tokens or math.inf)
            and self.maker in {"", author}
            and self.reasons in {None, model.reasons}
            and self.tools in {None, "tools" in model.supported_parameters}
            and self.is_mandatory in {None, model.reasoning_is_mandatory}
            and model.input_modalities.issuperset(self.reads)
            and not model.input_modalities.intersection(self.lacks)
            and (model.prices.read is not None or not self.caches)
        )


def cheapest(models: Iterable[Model], need: Need, but: Collection[str] = ()) -> Model | None:
    """Return the cheapest model that fits and is none of these, None where there is none."""
    fitting = [model for model in models if need.fits(model) and model.id not in but]
    return min(fitting, key=lambda model: (_price(model), model.id), default=None)


def _price(model: Model) -> float:
    return (model.prices.input or 0.0) + OUTPUT_WEIGHT * (model.prices.output or 0.0)
