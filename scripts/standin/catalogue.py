"""The models on offer, their prices and caching rules, and the catalogue's answers.

Owns the data and its wire form for /models, /model, /endpoints and the like. The slugs of real families carry
realistic figures, not promises; ``standin/*`` models choose a behaviour by name. It must not know requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from .cache import CachedModel, CacheRule, Prices

Family = Literal["openai", "anthropic", "google", "xai", "raw"]

CREATED = 1_780_000_000
DEFAULT_MODEL = "openai/gpt-5.2"
IMPLICIT_COMPRESSION_TOKENS = 8192
MILLION = Decimal(1_000_000)

SAMPLING = ("max_tokens", "temperature", "top_p", "stop", "frequency_penalty", "presence_penalty", "seed")
TOOLS = ("tools", "tool_choice", "response_format", "structured_outputs")
REASONING = ("reasoning", "include_reasoning")
ALL = (*SAMPLING, *TOOLS, *REASONING)

EFFORTS = ("xhigh", "high", "medium", "low", "minimal")
OPENAI_RULE = CacheRule("automatic", minimum_tokens=1024, block_tokens=128)
OPENAI_56_RULE = CacheRule("automatic", minimum_tokens=1024, block_tokens=128, writes_billed=True)
CLAUDE_RULE = CacheRule("explicit", minimum_tokens=1024, writes_billed=True)
CLAUDE_LARGE_RULE = CacheRule("explicit", minimum_tokens=4096, writes_billed=True)
GEMINI_FLASH_RULE = CacheRule("automatic", minimum_tokens=1024, block_tokens=256)
GEMINI_PRO_RULE = CacheRule("automatic", minimum_tokens=4096, block_tokens=256)
DEEPSEEK_RULE = CacheRule("automatic", minimum_tokens=64, block_tokens=64)
NO_RULE = CacheRule("none")


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
    """One model: what the catalogue says of it and how its provider behaves."""

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
    parameters: tuple[str, ...] = ALL
    thinking: Thinking | None = None
    tokenizer: str = "Other"
    wire_extra: dict[str, Any] = field(default_factory=dict)

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
        merged = {**shown, **self.wire_extra}
        return {key: value for key, value in merged.items() if value is not OMITTED}

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
        return {key: per_token(rate) for key, rate in shown.items() if rate}


OMITTED = object()
"""Marks a field of ``wire_extra`` that this model's entry lacks altogether."""


def per_token(rate: str) -> str:
    """Dollars per million tokens as the catalogue's decimal text of dollars per token."""
    text = f"{Decimal(rate) / MILLION:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


VISION = ("text", "image", "file")
GPT = Rates("1.75", "14", "0.175")
SONNET = Rates("3", "15", "0.3", "3.75", "6")
OPUS = Rates("5", "25", "0.5", "6.25", "10")
GEMINI_PRO = Rates("1.25", "10", "0.31")
CLAUDE_THINKING = Thinking(efforts=None, default_effort=None, budget=True)


def _openai(slug: str, name: str, *, context: int, rule: CacheRule, rates: Rates = GPT) -> Model:
    return Model(
        f"openai/{slug}",
        f"OpenAI: {name}",
        "openai",
        "OpenAI",
        context,
        128_000,
        rates,
        rule,
        inputs=VISION,
        thinking=Thinking(),
        tokenizer="GPT",
    )


def _claude(slug: str, name: str, *, context: int, rule: CacheRule, rates: Rates) -> Model:
    return Model(
        f"anthropic/{slug}",
        f"Anthropic: {name}",
        "anthropic",
        "Anthropic",
        context,
        64_000,
        rates,
        rule,
        inputs=VISION,
        parameters=(*ALL, "verbosity"),
        thinking=CLAUDE_THINKING,
        tokenizer="Claude",
    )


def _standin(slug: str, family: Family = "openai", *, context: int = 128_000, **changes: Any) -> Model:
    rules: dict[Family, CacheRule] = {"anthropic": CLAUDE_RULE, "raw": DEEPSEEK_RULE}
    return Model(
        f"standin/{slug}",
        f"Stand-in: {slug}",
        family,
        "OpenAI",
        context,
        32_000,
        changes.pop("rates", Rates("1", "4", "0.1", "1.25")),
        rules.get(family, OPENAI_RULE),
        inputs=("text", "image", "file", "audio", "video"),
        **changes,
    )


MODELS: tuple[Model, ...] = (
    _openai("gpt-5.2", "GPT-5.2", context=400_000, rule=OPENAI_RULE),
    _openai(
        "gpt-5.6-sol",
        "GPT-5.6 Sol",
        context=1_050_000,
        rule=OPENAI_56_RULE,
        rates=Rates("2.5", "20", "0.25", "3.125"),
    ),
    Model(
        "openai/gpt-4o",
        "OpenAI: GPT-4o",
        "openai",
        "OpenAI",
        128_000,
        16_384,
        Rates("2.5", "10", "1.25"),
        OPENAI_RULE,
        inputs=VISION,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="GPT",
    ),
    Model(
        "openai/gpt-4.1-mini",
        "OpenAI: GPT-4.1 Mini",
        "openai",
        "OpenAI",
        1_047_576,
        32_768,
        Rates("0.4", "1.6", "0.1"),
        OPENAI_RULE,
        inputs=VISION,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="GPT",
    ),
    _claude("claude-sonnet-4.5", "Claude Sonnet 4.5", context=1_000_000, rule=CLAUDE_RULE, rates=SONNET),
    _claude("claude-opus-4.5", "Claude Opus 4.5", context=200_000, rule=CLAUDE_LARGE_RULE, rates=OPUS),
    Model(
        "anthropic/claude-sonnet-128k",
        "Anthropic: Claude Sonnet, 128k",
        "anthropic",
        "Anthropic",
        128_000,
        64_000,
        SONNET,
        CLAUDE_RULE,
        inputs=VISION,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Claude",
    ),
    Model(
        "google/gemini-3-pro",
        "Google: Gemini 3 Pro",
        "google",
        "Google",
        1_048_576,
        65_536,
        GEMINI_PRO,
        GEMINI_PRO_RULE,
        inputs=(*VISION, "audio", "video"),
        thinking=Thinking(mandatory=True, budget=True),
        tokenizer="Gemini",
    ),
    Model(
        "google/gemini-3-flash",
        "Google: Gemini 3 Flash",
        "google",
        "Google",
        1_048_576,
        65_536,
        Rates("0.3", "2.5", "0.075"),
        GEMINI_FLASH_RULE,
        inputs=(*VISION, "audio"),
        thinking=Thinking(budget=True),
        tokenizer="Gemini",
    ),
    Model(
        "google/gemini-3-flash-image",
        "Google: Gemini 3 Flash Image",
        "google",
        "Google",
        32_768,
        32_768,
        Rates("0.3", "2.5"),
        NO_RULE,
        inputs=("text", "image"),
        outputs=("text", "image"),
        parameters=SAMPLING,
        tokenizer="Gemini",
    ),
    Model(
        "deepseek/deepseek-v3.2",
        "DeepSeek: V3.2",
        "raw",
        "DeepSeek",
        163_840,
        65_536,
        Rates("0.28", "0.42", "0.028"),
        DEEPSEEK_RULE,
        thinking=Thinking(efforts=None),
        tokenizer="DeepSeek",
    ),
    Model(
        "deepseek/deepseek-chat-v3.1",
        "DeepSeek: Chat V3.1",
        "raw",
        "DeepSeek",
        128_000,
        32_768,
        Rates("0.28", "0.42", "0.028"),
        DEEPSEEK_RULE,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="DeepSeek",
    ),
    Model(
        "x-ai/grok-4.1-fast",
        "xAI: Grok 4.1 Fast",
        "xai",
        "xAI",
        2_000_000,
        30_000,
        Rates("0.2", "0.5", "0.05"),
        OPENAI_RULE,
        inputs=("text", "image"),
        thinking=Thinking(efforts=("high", "low")),
        tokenizer="Grok",
    ),
    Model(
        "mistralai/mistral-large-2512",
        "Mistral: Large 3",
        "raw",
        "Mistral",
        262_144,
        None,
        Rates("0.5", "1.5"),
        NO_RULE,
        inputs=("text", "image"),
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Mistral",
        wire_extra={"knowledge_cutoff": "2025-06-30", "description": OMITTED},
    ),
    Model(
        "mistralai/mistral-large-2411",
        "Mistral: Large 2411",
        "raw",
        "Mistral",
        128_000,
        None,
        Rates("2", "6"),
        NO_RULE,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Mistral",
    ),
    Model(
        "meta-llama/llama-3.3-70b-instruct",
        "Meta: Llama 3.3 70B",
        "raw",
        "Together",
        131_072,
        16_384,
        Rates("0.1", "0.32"),
        NO_RULE,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Llama3",
        wire_extra={"hugging_face_id": "meta-llama/Llama-3.3-70B-Instruct", "default_parameters": None},
    ),
    Model(
        "meta-llama/llama-3.3-70b-instruct:free",
        "Meta: Llama 3.3 70B (free)",
        "raw",
        "Together",
        65_536,
        None,
        Rates(),
        NO_RULE,
        parameters=SAMPLING,
        tokenizer="Llama3",
    ),
    Model(
        "qwen/qwen3-coder",
        "Qwen: Qwen3 Coder",
        "raw",
        "Alibaba",
        262_144,
        65_536,
        Rates("0.22", "0.95", "0.022", "0.275"),
        CacheRule("explicit", writes_billed=True),
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Qwen3",
        wire_extra={"expiration_date": "2027-03-31"},
    ),
    Model(
        "gryphe/mythomax-l2-13b",
        "MythoMax 13B",
        "raw",
        "DeepInfra",
        8_192,
        2_048,
        Rates("0.06", "0.06"),
        NO_RULE,
        parameters=SAMPLING,
        tokenizer="Llama2",
        wire_extra={"hugging_face_id": OMITTED, "knowledge_cutoff": OMITTED, "expiration_date": OMITTED},
    ),
    Model(
        "mistralai/mistral-small-8k",
        "Mistral: Small 8k",
        "raw",
        "Mistral",
        8_000,
        2_000,
        Rates("0.1", "0.3"),
        NO_RULE,
        parameters=(*SAMPLING, *TOOLS),
        tokenizer="Mistral",
    ),
    _standin("plain"),
    _standin("script", thinking=Thinking()),
    _standin("reasoning", thinking=Thinking()),
    _standin("anthropic", "anthropic", thinking=CLAUDE_THINKING),
    _standin("gemini", "google", thinking=Thinking(budget=True)),
    _standin("raw", "raw", thinking=Thinking(efforts=None)),
    _standin("tools"),
    _standin("small", context=16_384),
    _standin("slow"),
    _standin("failing"),
)

BY_ID: dict[str, Model] = {model.id: model for model in MODELS}


def find(model_id: str) -> Model | None:
    """The model with this id; canonical slugs and routing variants such as ``:nitro`` name it too."""
    if model_id in BY_ID:
        return BY_ID[model_id]
    base, _, variant = model_id.partition(":")
    if variant in {"nitro", "floor", "exacto", "online"}:
        return BY_ID.get(base)
    return BY_ID.get(base.removesuffix("-20260709")) if not variant else None


def listing(offset: int, limit: int, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """The answer of /models: one page of the models that support all the required parameters."""
    chosen = [model for model in MODELS if set(required) <= set(model.parameters)]
    end = offset + limit
    following = f"/api/v1/models?offset={end}&limit={limit}" if end < len(chosen) else None
    return {
        "data": [model.wire() for model in chosen[offset:end]],
        "total_count": len(chosen),
        "links": {"next": following},
    }
