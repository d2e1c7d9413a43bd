"""Which providers and models may answer: what the administrator has set, and what a request adds to that.

Pure. What decides who may serve a request, at what price and who sees the data, can only become stricter; what only
orders those that may is the request's own.
Source: `ProviderPreferences` of OpenRouter's Python SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from ..errors import ConfigurationError
from ..notices import notice
from ..ports import Model
from ..responses.wire import as_list, as_number, as_object, as_text

MOST_FALLBACKS: Final = 3
"""OpenRouter takes no more `models`."""


def strictest(held: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the provider preferences that allow what both allow, and nothing else.

    `held` are the administrator's, of known types; `given` may be anything. Where both order providers, `given` does.

    Raises:
        ConfigurationError: Nothing is left that both allow.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    joined = {
        name: join(held[name], wanted[name])
        for name, join in _JOINS.items()
        if name in held and name in wanted
    }
    if any(joined.get(name) == [] for name in ("only", "quantizations")):
        raise ConfigurationError(notice("no_provider_left"))
    return {**held, **wanted, **joined}


def keeps_nothing(provider: Mapping[str, Any]) -> bool:
    """Whether provider preferences ask for zero data retention."""
    return _either(held=False, given=provider.get("zdr"))


def price_text(dollars: float) -> str:
    """Return a price as OpenRouter takes it: decimal text."""
    return f"{Decimal(str(dollars)).normalize():f}"


def fallback_models(
    wanted: Sequence[str], offered: Mapping[str, Model], *, model_id: str, model: Model | None
) -> list[str]:
    """Return which models may answer in place of the one that is asked: offered ones, which draw if it draws."""
    draws = bool(model and model.draws)
    able = [name for name in wanted if name in offered and (offered[name].draws or not draws)]
    return [name for name in dict.fromkeys(able) if name != model_id][:MOST_FALLBACKS]


def _either(held: bool, given: Any) -> bool:  # noqa: FBT001 - values of the wire
    return held or given is True or as_text(given).strip().lower() == "true"


def _both(held: bool, given: Any) -> bool:  # noqa: FBT001 - values of the wire
    return held and given is not False and as_text(given).strip().lower() != "false"


def _deny(held: str, given: Any) -> str:
    return "deny" if "deny" in (held, given) else held


def _common_providers(held: list[str], given: Any) -> list[str]:
    """The narrower names of both: "deepinfra" names "deepinfra/fp4" too. A list that names nobody restricts nobody."""
    named = [name for name in as_list(given) if as_text(name)]
    if not named:
        return held
    narrow = [name for name in named if _is_among(held, name)]
    return narrow + [name for name in held if _is_among(named, name) and not _is_among(narrow, name)]


def _is_among(wide: Sequence[str], name: str) -> bool:
    """Whether one of the names is this one, or the whole of which it is a part."""
    return any(f"{name.casefold()}/".startswith(f"{one.casefold()}/") for one in wide)


def _all_providers(held: list[str], given: Any) -> list[str]:
    return [*dict.fromkeys([*held, *filter(as_text, as_list(given))])]


def _common(held: list[str], given: Any) -> list[str]:
    named = as_list(given)
    return [name for name in held if name in named] if named else held


def _lowest_prices(held: Mapping[str, str], given: Any) -> dict[str, Any]:
    prices = {**as_object(given)}
    for name, limit in held.items():
        own = as_number(prices.get(name))
        if own is None or own > float(limit):
            prices[name] = limit
    return prices


_JOINS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "only": _common_providers,
    "ignore": _all_providers,
    "quantizations": _common,
    "max_price": _lowest_prices,
    "data_collection": _deny,
    "zdr": _either,
    "require_parameters": _either,
    "enforce_distillable_text": _either,
    "allow_fallbacks": _both,
}
