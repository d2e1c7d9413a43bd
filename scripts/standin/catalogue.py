"""The models on offer, their prices and caching rules, and the catalogue's answers.

Reads ``catalogue.json`` and owns its wire form for /models and /endpoints/zdr, and whether a model's
one provider may serve a request with its preferences (sources: OpenRouter's documentation of provider routing and
of its errors, with their texts). The slugs of real families carry realistic numbers, not promises; ``standin/*``
models choose a behaviour by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from .cache import SEARCH_DOLLARS, CachedModel, CacheRule, Prices, PriceWindow
from .errors import RefusalError, router_error

Family = Literal["openai", "anthropic", "google", "xai", "raw"]

MAKERS = {"xai": "x-ai", "raw": "deepseek"}
"""Of the families that are not called like one."""
DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
DATE = "20260709"
DEFAULT_MODEL = "openai/gpt-5.2"
MILLION = Decimal(1_000_000)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEARCHING_FAMILIES: frozenset[Family] = frozenset({"openai", "anthropic", "google", "xai"})
"""Whose providers search the web themselves."""
PRESETS = {"preset/team": DEFAULT_MODEL, "preset/thrifty": "openai/gpt-4.1-mini"}
"""The account's presets, as they stand after the `@` of an id, each with the model that it names."""
ROUTERS = {"openrouter/auto": "anthropic/claude-sonnet-4.5"}
"""Ids behind which another model answers: that which its plugin allows first, or else this one."""
ROUTING_VARIANTS = frozenset({"nitro", "floor", "exacto", "online"})
"""Variants of any model; others, such as ":free", are models of the catalogue."""
ZDR_FAMILIES: frozenset[Family] = frozenset({"anthropic", "google"})
COLLECTING_PROVIDERS = frozenset({"deepseek"})
NO_PROVIDER = "No allowed providers are available for the selected model."
NO_POLICY = "No endpoints found matching your data policy. Configure: https://openrouter.ai/settings/privacy"
NO_ENDPOINT = "No endpoints found that meet the routing requirements"


@dataclass(frozen=True, slots=True)
class Model:
    """One model: what the catalogue says of it and how its provider behaves.

    ``rates`` are dollars per million tokens, by their names in /models; ``wire_extra`` replaces fields of its entry
    there, ``omitted`` names those that the entry lacks, and ``others`` are further providers. ``windows`` are other
    rates at some sizes and hours. ``own_key_fee`` says that the account holds a key of the provider's: it is the share
    of the price that is OpenRouter's, and the provider bills the price itself.
    """

    id: str
    name: str
    family: Family
    provider: str
    context_tokens: int
    max_output_tokens: int | None
    rates: dict[str, Decimal]
    rule: CacheRule
    inputs: tuple[str, ...] = ("text",)
    outputs: tuple[str, ...] = ("text",)
    parameters: tuple[str, ...] = ()
    thinking: dict[str, Any] | None = None
    tokenizer: str = "Other"
    others: tuple[str, ...] = ()
    windows: tuple[PriceWindow, ...] = ()
    own_key_fee: Decimal | None = None
    wire_extra: dict[str, Any] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()

    @property
    def maker(self) -> str:
        """Whose rules hold: the author's; for the stand-in's own models that of their family.

        OpenAI's open models are served by others, as they like.
        """
        author = self.id.partition("/")[0]
        if author == "openai" and self.family == "raw":
            return self.slug
        return MAKERS.get(self.family, self.family) if author == "standin" else author

    @property
    def efforts(self) -> list[str] | None:
        """The efforts of thinking that it knows; None where it takes any, or does not think."""
        known: list[str] | None = self._thinking().get("supported_efforts")
        return known

    @property
    def cached(self) -> CachedModel:
        """The model as the prompt cache knows it."""
        prices = Prices(**_per_one(self.rates))
        windows = tuple(replace(window, rates=_per_one(window.rates)) for window in self.windows)
        return CachedModel(self.id, prices, self.rule, windows)

    @property
    def slug(self) -> str:
        """The provider's name in preferences."""
        return self.provider.lower().replace(" ", "-")

    def offers(self, preferences: dict[str, Any]) -> list[Model]:
        """The model as each of its providers serves it, in the order that the preferences name, or only the first."""
        offered = [replace(self, provider=name) for name in (self.provider, *self.others)]
        order = [name.lower().partition("/")[0] for name in preferences.get("order") or []]
        named = [one for name in order for one in offered if one.slug == name]
        return named[:1] or offered

    def refusal_by(self, preferences: dict[str, Any]) -> RefusalError | None:
        """Why the provider may not serve a request with these preferences; None when it may."""
        only, ignored = (
            {name.lower().partition("/")[0] for name in preferences.get(key) or []}
            for key in ("only", "ignore")
        )
        if (only and self.slug not in only) or self.slug in ignored:
            return router_error(404, self._unserved(only) if only else NO_PROVIDER)
        wants_none_kept = preferences.get("zdr") is True and self.family not in ZDR_FAMILIES
        collects = preferences.get("data_collection") == "deny" and self.slug in COLLECTING_PROVIDERS
        if wants_none_kept or collects:
            return router_error(404, NO_POLICY)
        precision, most = preferences.get("quantizations"), preferences.get("max_price") or {}
        too_dear = any(
            self.rates[name] > Decimal(str(most.get(name) or self.rates[name]))
            for name in ("prompt", "completion")
        )
        if too_dear or (precision and "unknown" not in precision):
            return router_error(404, NO_ENDPOINT)
        return None

    def _unserved(self, only: set[str]) -> str:
        served = ", ".join(name.lower().replace(" ", "-") for name in (self.provider, *self.others))
        wanted = ", ".join(sorted(only))
        return (
            f"{NO_PROVIDER} Providers serving {self.id}: {served}, "
            f"but your request's provider.only preference permits only: {wanted}."
        )

    def wire(self) -> dict[str, Any]:
        """The model as an entry of /models."""
        shown: dict[str, Any] = {
            **DATA["entry"],
            "id": self.id,
            "canonical_slug": f"{self.id.partition(':')[0]}-{DATE}",
            "name": self.name,
            "description": f"{self.name}, as the stand-in plays it.",
            "context_length": self.context_tokens,
            "architecture": {
                "modality": f"{'+'.join(self.inputs)}->{'+'.join(self.outputs)}",
                "input_modalities": list(self.inputs),
                "output_modalities": list(self.outputs),
                "tokenizer": self.tokenizer,
                "instruct_type": None,
            },
            "pricing": self._pricing(),
            "top_provider": {
                "context_length": self.context_tokens,
                "max_completion_tokens": self.max_output_tokens,
                "is_moderated": self.family == "openai",
            },
            "supported_parameters": list(self.parameters),
            "links": {"details": f"/api/v1/models/{self.id}/endpoints"},
        }
        if self.thinking is not None:
            shown["reasoning"] = self._thinking()
        return {key: value for key, value in {**shown, **self.wire_extra}.items() if key not in self.omitted}

    def endpoint(self) -> dict[str, Any]:
        """The model's one endpoint, as /models/{author}/{slug}/endpoints shows it."""
        return {
            **DATA["endpoint"],
            "name": f"{self.provider} | {self.id}",
            "model_id": self.id,
            "model_name": self.name,
            "context_length": self.context_tokens,
            "pricing": {**self._pricing(), "discount": 0},
            "provider_name": self.provider,
            "tag": self.slug,
            "max_completion_tokens": self.max_output_tokens,
            "supported_parameters": list(self.parameters),
            "supports_implicit_caching": self.rule.kind == "automatic",
        }

    def _thinking(self) -> dict[str, Any]:
        return {} if self.thinking is None else {**DATA["thinking"], **self.thinking}

    def _pricing(self) -> dict[str, Any]:
        by_search = {"web_search": f"{SEARCH_DOLLARS}"} if self.family in SEARCHING_FAMILIES else {}
        shown: dict[str, Any] = {name: _per_token(rate) for name, rate in self.rates.items()} | by_search
        return {**shown, "overrides": [*map(_override, self.windows)]} if self.windows else shown


def _per_one(rates: dict[str, Decimal]) -> dict[str, Decimal]:
    return {name: rate / MILLION for name, rate in rates.items()}


def _override(window: PriceWindow) -> dict[str, Any]:
    """A window as the catalogue writes it."""
    clocks = {"utc_start": window.opens, "utc_end": window.closes}
    conditions = {
        "min_prompt_tokens": window.above_tokens,
        **{name: at if at is None else at // 60 * 100 + at % 60 for name, at in clocks.items()},
        "utc_days": [WEEKDAYS[at] for at in sorted(window.weekdays)] or None,
    }
    prices = {name: _per_token(rate) for name, rate in window.rates.items()}
    return {name: value for name, value in conditions.items() if value is not None} | prices


def _per_token(rate: Decimal) -> str:
    """Dollars per million tokens as the catalogue's decimal text of dollars per token."""
    text = f"{rate / MILLION:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read_models() -> Iterator[dict[str, Any]]:
    """The entries of the file, their rule and their groups of parameters written out."""
    for entry in DATA["models"]:
        groups = [DATA["parameter_groups"].get(group, [group]) for group in entry["parameters"]]
        parameters = [name for group in groups for name in group]
        yield {**entry, "parameters": parameters, "rule": DATA["rules"][entry["rule"]]}


MODELS = TypeAdapter(tuple[Model, ...]).validate_python(tuple(_read_models()))
BY_ID = {model.id: model for model in MODELS}


def _router(router_id: str) -> dict[str, Any]:
    """A router as an entry of /models: its price varies, which -1 stands for, and nothing is known of who serves."""
    served: dict[str, Any] = BY_ID[ROUTERS[router_id]].wire()
    shown = {name: value for name, value in served.items() if name != "reasoning"}
    return {
        **shown,
        "id": router_id,
        "canonical_slug": router_id,
        "name": "Auto Router",
        "pricing": {"prompt": "-1", "completion": "-1"},
        "top_provider": {"context_length": None, "max_completion_tokens": None, "is_moderated": False},
        "architecture": {**served["architecture"], "tokenizer": "Router"},
    }


def routed(model_id: str, allowed: list[str]) -> Model | None:
    """The model that answers for an id: behind a router the first that is allowed, or its usual one."""
    if model_id in ROUTERS:
        return find((allowed or [ROUTERS[model_id]])[0])
    return find(model_id)


def find(model_id: str) -> Model | None:
    """The model with this id; canonical slugs, routing variants such as ``:nitro`` and presets name it too."""
    plain, at, preset = model_id.partition("@")
    if at and preset not in PRESETS:
        return None
    if at and not plain:
        return BY_ID[PRESETS[preset]]
    if plain in BY_ID:
        return BY_ID[plain]
    base, _, variant = plain.partition(":")
    if variant in ROUTING_VARIANTS:
        return BY_ID.get(base)
    return BY_ID.get(base.removesuffix(f"-{DATE}")) if not variant else None


def listing(
    offset: int,
    limit: int,
    required: tuple[str, ...] = (),
    outputs: tuple[str, ...] = ("text",),
    others: Iterable[dict[str, Any]] = (),
) -> dict[str, Any]:
    """The answer of /models: one page of the models that support all the required parameters, and one of the outputs.

    The output ``all`` is every one. ``others`` are rows of models that /responses does not serve.
    """
    chosen = [
        model
        for model in MODELS
        if set(required) <= set(model.parameters) and ("all" in outputs or set(outputs) & set(model.outputs))
    ]
    routers = [_router(name) for name in ROUTERS if "text" in outputs or "all" in outputs]
    rows = [*(model.wire() for model in chosen), *routers, *others]
    end = offset + limit
    following = f"/api/v1/models?offset={end}&limit={limit}" if end < len(rows) else None
    return {
        "data": rows[offset:end],
        "total_count": len(rows),
        "links": {"next": following},
    }
