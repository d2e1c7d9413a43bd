"""What requests ask of OpenRouter beside the chat itself: for a chat, for one of the host's tasks, for a summary.

Pure. Owns which parameters users may set, which each kind of request takes over, what keeps a chat with the provider
that has it in its cache, who may see the data, and what a plan should know of the models that may answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..conversation.budget import smallest_known
from ..history.artifacts import ANTHROPIC, model_family
from ..planning.planner import ModelTerms
from ..planning.simulate import CachePrices
from ..ports import SEARCH_VARIANT, Model
from ..responses.wire import as_list, as_object
from ..summaries.prompt import SUMMARY_SCHEMA
from .cache_lifetime import CacheLifetime

SUMMARY_FORMAT: Final[Mapping[str, Any]] = {
    "text": {
        "format": {"type": "json_schema", "name": "summary", "strict": True, "schema": dict(SUMMARY_SCHEMA)}
    }
}
"""The parameters by which a model with a prompt of its own writes a summary in the form that is read."""

_FLEX_VENDORS: Final = frozenset({"openai", "google"})
"""Whose models OpenRouter offers in the tier `flex`."""

SERVER_TOOLS: Final = "server_tools"
"""The name by which the tools that OpenRouter or a provider runs are allowed; each call of them costs extra."""
RESTRICTED: Final = frozenset(
    {
        "models",
        "provider",
        "plugins",
        "service_tier",
        "cache_control",
        "prompt_cache_options",
        "stop_server_tools_when",
    }
)
"""Parameters that choose a price, another model, or who sees the data."""

_TASK_PARAMETERS: Final = frozenset(
    {"max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "provider"}
)
"""What a task takes over; the model's tools, plugins and formats would only disturb it."""
_SUMMARY_PARAMETERS: Final = frozenset({"user", "safety_identifier"})
_DATA_POLICIES: Final = frozenset({"data_collection", "zdr", "only", "ignore"})
_PRICE_POLICIES: Final = frozenset({"max_price", "quantizations"})
_EFFORT: Final = {"reasoning_effort": "low"}
_ANSWERING_TASKS: Final = frozenset({"moa_response_generation"})
"""Tasks that write what the user reads as an answer: the merge of several models' answers."""
_THINKING_PARAMETERS: Final = frozenset({"reasoning", "reasoning_effort", "verbosity"})


def permitted_parameters(
    given: Mapping[str, Any], admin: Mapping[str, Any], *, allowed: Collection[str], offered: Collection[str]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the parameters of a user's call that may be sent, and the names of what was omitted.

    Open WebUI puts an administrator's parameters of a model into the same body as the user's own, where a null hides
    them: `admin` has them, so that what equals one of them may pass, and one that a user replaced is put back.
    `allowed` are the names of what users may add; the fallback `models` that they choose are among the ids `offered`.
    """
    kept, omitted = dict(given), list[str]()
    for name in sorted(RESTRICTED):
        wanted, held = given.get(name), admin.get(name)
        value = _permitted(name, wanted, offered) if name in allowed else None
        if held is not None:
            value = {**value, **held} if isinstance(value, dict) and isinstance(held, dict) else held
        if value is None:  # a null would hide our own default
            kept.pop(name, None)
        else:
            kept[name] = value
        completed = isinstance(wanted, dict) and wanted.items() <= as_object(value).items()
        if wanted is not None and value != wanted and not completed:
            omitted.append(name)
    if SERVER_TOOLS not in allowed and isinstance(tools := given.get("tools"), list):
        approved = as_list(admin.get("tools"))
        kept["tools"] = [tool for tool in tools if not _is_server_tool(tool) or tool in approved]
        if kept["tools"] != tools:
            omitted.append(SERVER_TOOLS)
            if _is_server_tool(given.get("tool_choice")):
                kept["tool_choice"] = None
    return kept, tuple(omitted)


def permitted_image_config(
    given: Mapping[str, Any], admin: Mapping[str, Any], *, held: Collection[str]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the parameters of a user's call with the pictures' `held` fields as in `admin`, and what was omitted."""
    wanted = as_object(given.get("image_config"))
    config = {name: value for name, value in wanted.items() if name not in held}
    config |= {name: value for name, value in as_object(admin.get("image_config")).items() if name in held}
    replaced = (name for name in wanted if name in held and wanted[name] != config.get(name))
    omitted = tuple(f"image_config.{name}" for name in replaced)
    return ({**given, "image_config": config or None} if config != wanted else given), omitted


def _permitted(name: str, wanted: Any, offered: Collection[str]) -> Any:
    """Return what of a parameter that users may set is sent; a variant of an offered model is another model."""
    if name != "models" or wanted is None:
        return wanted
    return [model for model in as_list(wanted) if isinstance(model, str) and model in offered] or None


def _is_server_tool(tool: Any) -> bool:
    kind = as_object(tool).get("type")
    return isinstance(kind, str) and kind != "function"


def has_cache_lifetimes(model_id: str) -> bool:
    """Whether the model's provider lets a request choose how long it is cached; `~anthropic/...` names it too."""
    return model_family(model_id) == ANTHROPIC


def chat_parameters(
    parameters: Mapping[str, Any],
    *,
    model_id: str,
    identity: Mapping[str, Any],
    lifetime: CacheLifetime = "5m",
) -> Mapping[str, Any]:
    """Add what names the chat and its user, and has it cached; nobody can speak in another user's name."""
    added = {**identity}
    if has_cache_lifetimes(model_id):
        added["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if lifetime == "1h" else {})}
    fixed = {"user": identity["user"]} if "user" in identity else {}
    return {**added, **parameters, **fixed}


def drawing_parameters(
    parameters: Mapping[str, Any], *, model: Model | None, image_config: Mapping[str, str]
) -> Mapping[str, Any]:
    """Ask a model that draws for pictures, of the shape and size that the user has set; the parameters count more.

    Without `modalities` such a model writes text alone, and one that only draws is refused.
    """
    if model is None or not model.draws:
        return parameters
    modalities = ["image", "text"] if model.writes else ["image"]
    config = {**image_config, **as_object(parameters.get("image_config"))}
    return {"modalities": modalities, **parameters, **({"image_config": config} if config else {})}


def cheaper_parameters(parameters: Mapping[str, Any], *, model_id: str, near_limit: str) -> Mapping[str, Any]:
    """Ask for the cheaper tier, or the cheapest provider, where the parameters do not choose one themselves."""
    if near_limit == "flex" and model_id.lstrip("~").partition("/")[0] in _FLEX_VENDORS:
        return {"service_tier": "flex", **parameters}
    if near_limit == "floor":
        return {**parameters, "provider": {"sort": "price", **as_object(parameters.get("provider"))}}
    return parameters


def task_parameters(parameters: Mapping[str, Any], task: str = "") -> Mapping[str, Any]:
    """Return the parameters of one of the host's tasks, such as a title; of an answer among them, as of an answer."""
    if task in _ANSWERING_TASKS:
        kept = _TASK_PARAMETERS | _THINKING_PARAMETERS
        return {key: value for key, value in parameters.items() if key in kept}
    return {key: value for key, value in parameters.items() if key in _TASK_PARAMETERS} | _EFFORT


def summary_parameters(
    parameters: Mapping[str, Any], *, model_id: str, writer_id: str, held: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the parameters of a summary with a prompt of its own: who asks, and who may see the data.

    The providers chosen for the chat's model say nothing about another `writer_id`. Its price and precision are bound
    by what is `held` for all models: the administrator's preferences.
    """
    kept = {key: value for key, value in parameters.items() if key in _SUMMARY_PARAMETERS}
    provider = as_object(parameters.get("provider"))
    if writer_id != model_id.removesuffix(SEARCH_VARIANT):
        provider = {key: value for key, value in provider.items() if key in _DATA_POLICIES}
        provider |= {key: value for key, value in held.items() if key in _PRICE_POLICIES}
    return {**kept, "provider": provider or None, **_EFFORT}


def pdf_engine(setting: str, model: Model | None) -> str | None:
    """Return what reads the PDFs of a request, None to leave it to OpenRouter.

    Left to OpenRouter, a model that reads no files has its PDFs read by an engine that costs extra.
    """
    if setting != "auto":
        return setting
    return None if model is None or model.reads("file") else "cloudflare-ai"


def summary_model_id(setting: str, chat_model_id: str) -> str:
    """Return which model writes summaries with a prompt of its own; it has nothing to search for."""
    return setting or chat_model_id.removesuffix(SEARCH_VARIANT)


def shares_cache(setting: str, terms: ModelTerms) -> bool:
    """Whether a summary is best asked for at the end of the chat's own request, which the provider has cached."""
    return not setting and terms.prices.shares_cache and not terms.id.endswith(SEARCH_VARIANT)


def model_terms(model_id: str, models: Sequence[Model | None], *, output_tokens: int | None) -> ModelTerms:
    """Return the terms of the model that is asked, the first one, with the smallest sizes of all that may answer."""
    asked = models[0]
    prices = (asked.price_input, asked.price_cache_read, asked.price_cache_write) if asked else (None,) * 3
    window_tokens = smallest_known(model.context_tokens if model else None for model in models)
    max_output_tokens = smallest_known(model.max_output_tokens if model else None for model in models)
    return ModelTerms(
        model_id,
        window_tokens,
        output_tokens,
        CachePrices.of(*prices),
        max_output_tokens=max_output_tokens,
    )
