"""What administrators and users have switched, in the parameters of a call.

Pure. Owns which of it a chat gets and which a task; `routing` joins preferences, `search` offers the tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..history.artifacts import ANTHROPIC, model_family
from ..ports import Model
from ..responses.wire import as_object
from .cache_lifetime import CacheLifetime
from .identity import IdentityLevel
from .routing import fallback_models, strictest
from .search import SearchSettings

INTERLEAVED_THINKING: Final = "interleaved-thinking-2025-05-14"
"""Anthropic's name for thinking between two calls of tools."""
_WITHOUT_INTERLEAVING: Final = "claude-3"
"""The last models that do not know it, Claude 3.7 among them."""
_EFFORT_GIVEN: Final = frozenset({"effort", "max_tokens", "enabled"})


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """What is switched for one request.

    `reasoning` and `provider` are as on the wire, and hold only what was set; a `summary` of None asks for none.
    `own_api_key` is None without one, and empty for one that can no longer be read.
    """

    reasoning: Mapping[str, Any] = field(default_factory=dict)
    search: SearchSettings = field(default_factory=SearchSettings)
    provider: Mapping[str, Any] = field(default_factory=dict)
    fallback_models: tuple[str, ...] = ()
    service_tier: str = ""
    cache_lifetime: Literal["auto"] | CacheLifetime = "auto"
    interleaves_thinking: bool = True
    identity: IdentityLevel = "session"
    own_api_key: str | None = field(default=None, repr=False)


def routed(parameters: Mapping[str, Any], controls: ControlSettings) -> Mapping[str, Any]:
    """Return the parameters of any call with the provider preferences. Raises ConfigurationError."""
    if not controls.provider:
        return parameters
    return {
        **parameters,
        "provider": strictest(controls.provider, as_object(parameters.get("provider"))),
    }


def controlled(
    parameters: Mapping[str, Any],
    controls: ControlSettings,
    *,
    offered: Iterable[Model],
    model: Model | None,
    model_id: str,
) -> Mapping[str, Any]:
    """Return the parameters of a chat with what is switched; what the call itself has set counts more."""
    given = as_object(parameters.get("reasoning"))
    chosen = dict(controls.reasoning)
    if parameters.get("reasoning_effort") or any(given.get(name) is not None for name in _EFFORT_GIVEN):
        chosen.pop("effort", None)
    fallbacks = fallback_models(
        controls.fallback_models, {one.id: one for one in offered}, model_id=model_id, model=model
    )
    defaults: dict[str, Any] = {
        **({"models": fallbacks} if fallbacks else {}),
        **({"service_tier": controls.service_tier} if controls.service_tier else {}),
    }
    set_by_call = {name: value for name, value in parameters.items() if value is not None}
    reasoning = {"reasoning": {**chosen, **given}} if chosen else {}
    return {**parameters, **defaults, **set_by_call, **reasoning}


def beta_features(controls: ControlSettings, model: Model | None, *, has_tools: bool) -> tuple[str, ...]:
    """Return what of Anthropic's betas helps a request: thinking between the calls of its tools."""
    if not (controls.interleaves_thinking and has_tools and model and model.reasons):
        return ()
    is_able = model_family(model.id) == ANTHROPIC and _WITHOUT_INTERLEAVING not in model.id
    return (INTERLEAVED_THINKING,) if is_able else ()
