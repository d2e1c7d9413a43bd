"""What administrators and users have switched, in the parameters of a call.

Pure. Owns which of it a chat and a summary get, what users may set themselves, which providers may answer, and
for how long they keep a chat. What each parameter is says the table in `fields`; `server_tools` offers OpenRouter's
tools.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from ..conversation.budget import smallest_known
from ..conversation.masking import Secret
from ..errors import ConfigurationError
from ..history.artifacts import ANTHROPIC, model_family
from ..money.prices import KEPT_LONG_SECONDS, KEPT_SECONDS, NO_PRICES, cache_prices
from ..planning.planner import ModelTerms
from ..ports import SEARCH_VARIANT, Model
from ..responses.values import as_list, as_number, as_object, as_text
from ..summaries.prompt import SUMMARY_SCHEMA
from ..words.lines import notice
from .fields import PARAMETERS, RESTRICTED, value_at, with_value
from .request import IdentityLevel
from .server_tools import ServerToolSettings

CacheLifetime = Literal["5m", "1h"]

_SECONDS: Final[dict[CacheLifetime, float]] = {"5m": KEPT_SECONDS, "1h": KEPT_LONG_SECONDS}
_READ, _WRITE, _WRITE_1H = 0.1, 1.25, 2.0
"""What Anthropic charges for a token read from the cache and written to it, of what plain input costs."""
MOST_FALLBACKS: Final = 3
"""OpenRouter takes no more `models`."""
AUTO_ROUTER: Final = "openrouter/auto"
_ROUTING: Final = "auto-router"
"""The plugin that has its settings; another router ignores them."""
INTERLEAVED_THINKING: Final = "interleaved-thinking-2025-05-14"
"""Anthropic's name for thinking between two calls of tools."""
_WITHOUT_INTERLEAVING: Final = "claude-3"
"""The last models that do not know it, Claude 3.7 among them."""
SUMMARY_FORMAT: Final[Mapping[str, Any]] = {
    "text": {"format": {"type": "json_schema", "name": "summary", "strict": True, "schema": SUMMARY_SCHEMA}}
}
"""The parameters by which a model with a prompt of its own writes a summary in the form that is read."""
SERVER_TOOLS_WORD: Final = "server_tools"
"""The name by which the tools that OpenRouter or a provider runs are allowed; each call of them costs extra."""
_FLEX_VENDORS: Final = frozenset({"openai", "google"})
"""Whose models OpenRouter offers in the tier `flex`."""
_OF_SUMMARIES: Final = frozenset(each.name for each in PARAMETERS if each.summaries == "all")
_DATA_POLICIES: Final = frozenset({"data_collection", "zdr", "only", "ignore"})
_PRICE_POLICIES: Final = frozenset({"max_price", "quantizations"})
_EFFORT: Final = {"reasoning_effort": "low"}
_AMOUNTS: Final = frozenset({"effort", "max_tokens", "enabled"})
"""The fields of `reasoning` that say how much."""


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """What is switched for one request.

    `reasoning` and `provider` are as on the wire, and hold only what was set; a `summary` of None asks for none.
    `own_api_key` is None without one, and empty for one that can no longer be read.
    """

    reasoning: Mapping[str, Any] = field(default_factory=dict)
    server_tools: ServerToolSettings = field(default_factory=ServerToolSettings)
    provider: Mapping[str, Any] = field(default_factory=dict)
    fallback_models: tuple[str, ...] = ()
    service_tier: str = ""
    cache_lifetime: Literal["auto"] | CacheLifetime = "auto"
    image_config: Mapping[str, str] = field(default_factory=dict)
    overrides_effort: bool = False
    """Whether the effort counts more than what the call itself has set."""
    interleaves_thinking: bool = True
    identity: IdentityLevel = "session"
    own_api_key: Secret | None = None
    router_tier: str = ""
    """How dear the models may be among which OpenRouter's own router chooses; "" for any."""


# --- who may answer


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
    return _means(provider.get("zdr"), "true")


def price_text(dollars: float) -> str:
    """Return a price as OpenRouter takes it: decimal text."""
    return f"{Decimal(str(dollars)).normalize():f}"


def _means(given: Any, word: str) -> bool:
    """Whether a value off the wire is this truth value, as such or as a text."""
    return isinstance(given, bool | str) and str(given).strip().lower() == word


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


def _lowest_prices(held: Mapping[str, str], given: Any) -> dict[str, Any]:
    prices = {**as_object(given)}
    for name, limit in held.items():
        own = as_number(prices.get(name))
        if own is None or own > float(limit):
            prices[name] = limit
    return prices


_JOINS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "only": _common_providers,
    "ignore": lambda held, given: [*dict.fromkeys([*held, *filter(as_text, as_list(given))])],
    "quantizations": lambda held, given: [one for one in held if one in (as_list(given) or held)],
    "max_price": _lowest_prices,
    "data_collection": lambda held, given: "deny" if "deny" in (held, given) else held,
    **dict.fromkeys(
        ("zdr", "require_parameters", "enforce_distillable_text"),
        lambda held, given: held or _means(given, "true"),
    ),
    "allow_fallbacks": lambda held, given: held and not _means(given, "false"),
}


def routed(parameters: Mapping[str, Any], controls: ControlSettings) -> Mapping[str, Any]:
    """Return the parameters of any call with the provider preferences. Raises ConfigurationError."""
    if not controls.provider:
        return parameters
    return {**parameters, "provider": strictest(controls.provider, as_object(parameters.get("provider")))}


# --- what a chat, a user and a summary get


def chat_parameters(
    parameters: Mapping[str, Any],
    controls: ControlSettings,
    *,
    identity: Mapping[str, Any],
    offered: Iterable[Model],
    model: Model | None,
    model_id: str,
) -> Mapping[str, Any]:
    """Return the parameters of a chat with what is switched, and with the names of chat and user.

    What the call itself has set counts more, but nobody can speak in another user's name. In the place of the model
    others may answer that are offered, and draw if it draws. One that draws is asked for pictures: without `modalities`
    it writes text alone, and one that only draws is refused.
    """
    added, switched = {**identity}, dict[str, Any]()
    given = {name: value for name, value in parameters.items() if value is not None}
    if model_family(model_id) == ANTHROPIC:
        lasting = {"ttl": "1h"} if controls.cache_lifetime == "1h" else {}
        added["cache_control"] = {"type": "ephemeral", **lasting}
    if draws := bool(model and model.draws):
        added["modalities"] = ["image", "text"] if model and model.writes else ["image"]
        if config := {**controls.image_config, **as_object(given.get("image_config"))}:
            given["image_config"] = config
    able = {one.id for one in offered if one.draws or not draws} - {model_id}
    if fallbacks := [name for name in dict.fromkeys(controls.fallback_models) if name in able]:
        switched["models"] = fallbacks[:MOST_FALLBACKS]
    if controls.router_tier and model_id.partition(":")[0] == AUTO_ROUTER:
        given["plugins"] = _with_tier(as_list(given.get("plugins")), controls.router_tier)
    if controls.service_tier:
        switched["service_tier"] = controls.service_tier
    reasoning, chosen = as_object(given.get("reasoning")), dict(controls.reasoning)
    if controls.overrides_effort:
        given.pop("reasoning_effort", None)
        reasoning = {name: value for name, value in reasoning.items() if name not in _AMOUNTS}
    set_by_call = {name for name, value in reasoning.items() if value is not None}
    if given.get("reasoning_effort") or set_by_call & _AMOUNTS:
        chosen.pop("effort", None)
    if chosen:
        given["reasoning"] = {**chosen, **reasoning}
    fixed = {"user": identity["user"]} if "user" in identity else {}
    return {**added, **parameters, **switched, **given, **fixed}


def _with_tier(plugins: Sequence[Any], tier: str) -> list[Any]:
    """The plugins with how dear the models may be among which the router chooses, unless that is said."""
    is_said = any(as_object(plugin).get("id") == _ROUTING for plugin in plugins)
    return [*plugins, *([] if is_said else [{"id": _ROUTING, "cost_tier": tier}])]


def beta_features(controls: ControlSettings, model: Model | None, *, has_tools: bool) -> tuple[str, ...]:
    """Return what of Anthropic's betas helps a request: thinking between the calls of its tools."""
    if not (controls.interleaves_thinking and has_tools and model and model.reasons):
        return ()
    is_able = model_family(model.id) == ANTHROPIC and _WITHOUT_INTERLEAVING not in model.real_id
    return (INTERLEAVED_THINKING,) if is_able else ()


def permitted_parameters(
    given: Mapping[str, Any],
    admin: Mapping[str, Any],
    *,
    allowed: Collection[str],
    held: Collection[str] = (),
    offered: Collection[str],
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the parameters of a user's call that may be sent, and the names of what was omitted.

    Open WebUI puts an administrator's parameters of a model into the same body as the user's own, where a null hides
    them: `admin` has them, so that what equals one of them may pass, and one that a user replaced is put back.
    `allowed` are the names of what users may add, `held` paths that are restricted as well; the fallback `models` that
    they choose are among the ids `offered`.
    """
    kept, omitted = dict(given), list[str]()
    for path in (*sorted(RESTRICTED), *sorted(held)):
        wanted, of_admin = value_at(given, path), value_at(admin, path)
        value = wanted if path in allowed else None
        if path == "models" and value is not None:  # a variant of an offered model is another model
            value = [model for model in as_list(value) if isinstance(model, str) and model in offered] or None
        if of_admin is not None:
            are_objects = isinstance(value, dict) and isinstance(of_admin, dict)
            value = as_object(value) | of_admin if are_objects else of_admin
        kept = with_value(kept, path, value)  # a null would hide our own default
        completed = isinstance(wanted, dict) and wanted.items() <= as_object(value).items()
        if wanted is not None and value != wanted and not completed:
            omitted.append(path)
    if SERVER_TOOLS_WORD not in allowed and isinstance(tools := given.get("tools"), list):
        approved = as_list(admin.get("tools"))
        kept["tools"] = [tool for tool in tools if not _is_server_tool(tool) or tool in approved]
        if kept["tools"] != tools:
            omitted.append(SERVER_TOOLS_WORD)
            if _is_server_tool(given.get("tool_choice")):
                kept["tool_choice"] = None
    return kept, tuple(omitted)


def _is_server_tool(tool: Any) -> bool:
    kind = as_object(tool).get("type")
    return isinstance(kind, str) and kind != "function"


def cheaper_parameters(
    parameters: Mapping[str, Any], controls: ControlSettings, *, model_id: str, near_limit: str
) -> Mapping[str, Any]:
    """Ask for the cheaper tier, or the cheapest provider, where none is chosen."""
    has_flex = model_id.lstrip("~").partition("/")[0] in _FLEX_VENDORS and not controls.service_tier
    if near_limit == "flex" and has_flex:
        return {"service_tier": "flex", **parameters}
    if near_limit == "floor":
        return {**parameters, "provider": {"sort": "price", **as_object(parameters.get("provider"))}}
    return parameters


def summary_parameters(
    parameters: Mapping[str, Any], *, model_id: str, writer_id: str, held: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the parameters of a summary with a prompt of its own: who asks, and who may see the data.

    The providers chosen for the chat's model say nothing about another `writer_id`. Its price and precision are bound
    by what is `held` for all models: the administrator's preferences.
    """
    kept = {name: value for name, value in parameters.items() if name in _OF_SUMMARIES}
    provider = as_object(parameters.get("provider"))
    if writer_id != model_id.removesuffix(SEARCH_VARIANT):
        provider = {name: value for name, value in provider.items() if name in _DATA_POLICIES}
        provider |= {name: value for name, value in held.items() if name in _PRICE_POLICIES}
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
    known = [model for model in models if model]
    return ModelTerms(
        model_id,
        smallest_known([model.context_tokens for model in known]),
        output_tokens,
        cache_prices(asked.prices if asked else NO_PRICES),
        max_output_tokens=smallest_known([model.max_output_tokens for model in known]),
    )


# --- how long a provider keeps a chat


def cheapest_lifetime(pauses_seconds: Sequence[float], model: Model | None) -> CacheLifetime:
    """Return the lifetime with which the chat so far would have cost least.

    Its turns are taken to be of one size. After a pause within the lifetime, all turns before it are read and the new
    one is written; after a longer one all are written anew. With no pause beyond five minutes, an hour only costs
    more; with each beyond an hour too. The order matters little, the number of turns that a pause loses much.
    """
    asked = model.prices if model else NO_PRICES
    plain = asked.input or 1.0
    usual = {"read": _READ, "5m": _WRITE, "1h": _WRITE_1H}
    known = (asked.read, asked.write, asked.write_long)
    prices = {
        name: share * plain if price is None else price
        for (name, share), price in zip(usual.items(), known, strict=True)
    }

    def cost(lifetime: CacheLifetime) -> float:
        """What the turns cost, the size of one turn times its prices; the first is written in any case."""
        total = written = prices[lifetime]
        for turns_before, pause_seconds in enumerate(pauses_seconds, 1):
            kept = pause_seconds < _SECONDS[lifetime]
            total += turns_before * (prices["read"] if kept else written) + written
        return total

    return "1h" if cost("1h") < cost("5m") else "5m"
