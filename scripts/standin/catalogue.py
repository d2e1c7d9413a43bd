"""The models on offer, their prices and caching rules, and the catalogue's answers.

Reads ``catalogue.json`` and owns its wire form for /models, /model, /endpoints and the like. The slugs of real
families carry realistic numbers, not promises; ``standin/*`` models choose a behaviour by name. It must not know
requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from .billing import SEARCH_DOLLARS
from .cache import CachedModel, CacheRule, Prices

Family = Literal["openai", "anthropic", "google", "xai", "raw"]

CREATED = 1_780_000_000
DEFAULT_MODEL = "openai/gpt-5.2"
IMPLICIT_COMPRESSION_TOKENS = 8192
MILLION = Decimal(1_000_000)
SEARCHING_FAMILIES: frozenset[Family] = frozenset({"openai", "anthropic", "google", "xai"})
"""Whose providers search the web themselves."""
PRESETS = {"preset/team": DEFAULT_MODEL, "preset/thrifty": "openai/gpt-4.1-mini"}
"""The account's presets, as they stand after the `@` of an id, each with the model that it names."""
ROUTING_VARIANTS = frozenset({"nitro", "floor", "exacto", "online"})
"""Variants of any model; others, such as ":free", are models of the catalogue."""
EFFORTS = ("xhigh", "high", "medium", "low", "minimal")


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars per million tokens, as decimal text; an empty text leaves the field out."""

    prompt: str = "0"
    completion: str = "0"
    read: str = ""
    write: str = ""
    write_long: str = ""


@dataclass(frozen=True, slots=True)
class Thinking:
    """The reasoning information of a model."""

    mandatory: bool = False
    efforts: tuple[str, ...] | None = EFFORTS
    default_effort: str | None = "medium"
    budget: bool = False

    def wire(self) -> dict[str, Any]:
        """As the catalogue shows it."""
        shown: dict[str, Any] = {
            "mandatory": self.mandatory,
            "supported_efforts": None if self.efforts is None else list(self.efforts),
            "default_effort": self.default_effort,
            "default_enabled": True,
        }
        return {**shown, "supports_max_tokens": True} if self.budget else shown


@dataclass(frozen=True, slots=True)
class Model:
    """One model: what the catalogue says of it and how its provider behaves.

    ``wire_extra`` replaces fields of its entry in /models, and ``omitted`` names those that the entry lacks.
    """

    id: str
    name: str
    family: Family
    provider: str
    context_tokens: int
    max_output_tokens: int | None
    rates: Rates
    rule: CacheRule
    inputs: tuple[str, ...] = ("text",)
    outputs: tuple[str, ...] = ("text",)
    parameters: tuple[str, ...] = ()
    thinking: Thinking | None = None
    tokenizer: str = "Other"
    wire_extra: dict[str, Any] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()

    @property
    def cached(self) -> CachedModel:
        """The model as the prompt cache knows it."""
        rates = self.rates
        optional = {
            "cache_read": rates.read,
            "cache_write": rates.write,
            "cache_write_long": rates.write_long,
        }
        prices = Prices(
            Decimal(rates.prompt) / MILLION,
            Decimal(rates.completion) / MILLION,
            **{name: Decimal(rate) / MILLION for name, rate in optional.items() if rate},
        )
        return CachedModel(self.id, prices, self.rule)

    @property
    def compresses_unasked(self) -> bool:
        """Whether the context-compression plugin is on unless a request switches it off."""
        return self.context_tokens <= IMPLICIT_COMPRESSION_TOKENS

    def wire(self) -> dict[str, Any]:
        """The model as an entry of /models."""
        slug = self.id.partition(":")[0]
        shown: dict[str, Any] = {
            "id": self.id,
            "canonical_slug": f"{slug}-20260709",
            "hugging_face_id": None,
            "name": self.name,
            "created": CREATED,
            "description": f"{self.name}, as the stand-in plays it.",
            "context_length": self.context_tokens,
            "architecture": self._architecture(),
            "pricing": self._pricing(),
            "top_provider": {
                "context_length": self.context_tokens,
                "max_completion_tokens": self.max_output_tokens,
                "is_moderated": self.family == "openai",
            },
            "per_request_limits": None,
            "supported_parameters": list(self.parameters),
            "default_parameters": {"temperature": None, "top_p": None, "frequency_penalty": None},
            "supported_voices": None,
            "knowledge_cutoff": None,
            "expiration_date": None,
            "links": {"details": f"/api/v1/models/{self.id}/endpoints"},
        }
        if self.thinking:
            shown["reasoning"] = self.thinking.wire()
        return {key: value for key, value in {**shown, **self.wire_extra}.items() if key not in self.omitted}

    def endpoint(self) -> dict[str, Any]:
        """The model's one endpoint, as /models/{author}/{slug}/endpoints shows it."""
        return {
            "name": f"{self.provider} | {self.id}",
            "model_id": self.id,
            "model_name": self.name,
            "context_length": self.context_tokens,
            "pricing": {**self._pricing(), "discount": 0},
            "provider_name": self.provider,
            "tag": self.provider.lower().replace(" ", "-"),
            "quantization": "unknown",
            "max_completion_tokens": self.max_output_tokens,
            "max_prompt_tokens": None,
            "supported_parameters": list(self.parameters),
            "status": 0,
            "uptime_last_5m": 100,
            "uptime_last_30m": 99.9,
            "uptime_last_1d": 99.8,
            "supports_implicit_caching": self.rule.kind == "automatic",
            "latency_last_30m": None,
            "throughput_last_30m": None,
            "native_tools": {},
            "service_tier": None,
            "supports_diarization": False,
            "supports_tool_choice": dict.fromkeys(("auto", "none", "required", "function"), True),
        }

    def endpoints(self) -> dict[str, Any]:
        """The answer of /models/{author}/{slug}/endpoints."""
        details = {
            "id": self.id,
            "name": self.name,
            "created": CREATED,
            "description": f"{self.name}, as the stand-in plays it.",
            "architecture": {**self._architecture(), "instruct_type": None},
            "endpoints": [self.endpoint()],
        }
        return {"data": details}

    def _architecture(self) -> dict[str, Any]:
        modality = f"{'+'.join(self.inputs)}->{'+'.join(self.outputs)}"
        return {
            "modality": modality,
            "input_modalities": list(self.inputs),
            "output_modalities": list(self.outputs),
            "tokenizer": self.tokenizer,
            "instruct_type": None,
        }

    def _pricing(self) -> dict[str, str]:
        rates = self.rates
        shown = {
            "prompt": rates.prompt,
            "completion": rates.completion,
            "input_cache_read": rates.read,
            "input_cache_write": rates.write,
            "input_cache_write_1h": rates.write_long,
        }
        by_search = {"web_search": f"{SEARCH_DOLLARS}"} if self.family in SEARCHING_FAMILIES else {}
        return {key: per_token(rate) for key, rate in shown.items() if rate} | by_search


def per_token(rate: str) -> str:
    """Dollars per million tokens as the catalogue's decimal text of dollars per token."""
    text = f"{Decimal(rate) / MILLION:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read_models() -> Iterator[dict[str, Any]]:
    """The entries of the file, their rule and their groups of parameters written out."""
    data = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    groups: dict[str, list[str]] = data["parameter_groups"]
    for entry in data["models"]:
        parameters = [name for group in entry["parameters"] for name in groups.get(group, [group])]
        yield {**entry, "parameters": parameters, "rule": data["rules"][entry["rule"]]}


MODELS = TypeAdapter(tuple[Model, ...]).validate_python(tuple(_read_models()))
BY_ID = {model.id: model for model in MODELS}


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
    return BY_ID.get(base.removesuffix("-20260709")) if not variant else None


def listing(
    offset: int, limit: int, required: tuple[str, ...] = (), outputs: tuple[str, ...] = ("text",)
) -> dict[str, Any]:
    """The answer of /models: one page of the models that support all the required parameters, and one of the outputs.

    The output ``all`` is every one.
    """
    chosen = [
        model
        for model in MODELS
        if set(required) <= set(model.parameters) and ("all" in outputs or set(outputs) & set(model.outputs))
    ]
    end = offset + limit
    following = f"/api/v1/models?offset={end}&limit={limit}" if end < len(chosen) else None
    return {
        "data": [model.wire() for model in chosen[offset:end]],
        "total_count": len(chosen),
        "links": {"next": following},
    }
