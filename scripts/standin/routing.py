"""Whether a model's provider may serve a request, by the preferences that the request has.

Each model of the stand-in has one provider. Sources: OpenRouter's documentation of provider routing and of its
errors; the texts are the documented ones.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from .errors import Refusal, router_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .catalogue import Model

ZDR_FAMILIES = frozenset({"anthropic", "google"})
COLLECTING_PROVIDERS = frozenset({"deepseek"})
NO_PROVIDER = "No allowed providers are available for the selected model."
NO_POLICY = "No endpoints found matching your data policy. Configure: https://openrouter.ai/settings/privacy"
NO_ENDPOINT = "No endpoints found that meet the routing requirements"
MILLION = Decimal(1_000_000)


def slug_of(model: Model) -> str:
    """The provider's name in preferences."""
    return model.provider.lower().replace(" ", "-")


def chosen(models: Sequence[Model], preferences: dict[str, Any]) -> Model | Refusal:
    """The first of the models whose provider may serve the request, or why the first may not."""
    refusals = [refusal_of(model, preferences) for model in models]
    allowed = (model for model, refusal in zip(models, refusals, strict=True) if refusal is None)
    first = next(allowed, None)
    if first is not None:
        return first
    assert refusals[0] is not None
    return refusals[0]


def refusal_of(model: Model, preferences: dict[str, Any]) -> Refusal | None:
    """Why the model's provider may not serve the request; None when it may."""
    slug, only = slug_of(model), preferences.get("only")
    if (only and not _names(only, slug)) or _names(preferences.get("ignore") or [], slug):
        return router_error(404, NO_PROVIDER)
    wants_none_kept = preferences.get("zdr") is True and model.family not in ZDR_FAMILIES
    collects = preferences.get("data_collection") == "deny" and slug in COLLECTING_PROVIDERS
    if wants_none_kept or collects:
        return router_error(404, NO_POLICY)
    precision = preferences.get("quantizations")
    if (precision and "unknown" not in precision) or _too_dear(model, preferences.get("max_price") or {}):
        return router_error(404, NO_ENDPOINT)
    return None


def _names(providers: Sequence[str], slug: str) -> bool:
    return any(name.lower().partition("/")[0] == slug for name in providers)


def _too_dear(model: Model, limits: dict[str, str]) -> bool:
    prices = model.cached.prices
    return any(
        name in limits and price * MILLION > Decimal(str(limits[name]))
        for name, price in (("prompt", prices.prompt), ("completion", prices.completion))
    )
