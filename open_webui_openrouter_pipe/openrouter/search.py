"""Web search by OpenRouter: its server tools in a request, and who searches for a message, it or Open WebUI.

Pure. Source: `WebSearchServerToolConfig`, `WebFetchServerToolConfig`, `ToolChoiceAllowed` of OpenRouter's Python SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..history.artifacts import ANTHROPIC, model_family
from ..ports import SEARCH_VARIANT, Model
from ..responses.items import Item
from ..responses.values import as_count, as_list, as_object, as_text

SearchMode = Literal["off", "auto", "on"]
SearchEngine = Literal["auto", "native", "exa", "parallel", "firecrawl", "perplexity"]
HostSearch = Literal["", "offered", "done"]
"""What Open WebUI's own switch did: nothing, gave the model its search tools, or searched before it called the pipe."""

HOST_TOOLS: Final = frozenset({"search_web", "fetch_url"})
"""The tools by which a model searches through Open WebUI."""

_SEARCH: Final = "openrouter:web_search"
_FETCH: Final = "openrouter:web_fetch"
_PLUGIN: Final = "web"
_MUST_SEARCH: Final[Mapping[str, Any]] = {
    "type": "allowed_tools",
    "mode": "required",
    "tools": [{"type": _SEARCH}],
}


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Whether a chat searches, and how: `max_results` of each search, `max_searches` and pages of one request.

    `host_switch_by` says who searches where the user has pressed Open WebUI's own switch. With `keeps_nothing` nobody
    searches but the provider itself, which is bound by what it may keep; a page is read by OpenRouter alone.
    """

    mode: SearchMode = "off"
    engine: SearchEngine = "auto"
    max_results: int = 5
    max_searches: int = 5
    fetches: bool = True
    host_switch_by: Literal["host", "openrouter"] = "host"
    keeps_nothing: bool = False


def search_mode(settings: SearchSettings, host_search: HostSearch) -> SearchMode:
    """Return how a message is searched for by OpenRouter: not at all where Open WebUI does, or has done, it itself."""
    if host_search == "done" or (host_search == "offered" and settings.host_switch_by == "host"):
        return "off"
    return "auto" if host_search == "offered" and settings.mode == "off" else settings.mode


def with_search(
    parameters: Mapping[str, Any],
    settings: SearchSettings,
    host_search: HostSearch,
    *,
    model: Model | None,
    model_id: str,
) -> Mapping[str, Any]:
    """Return the parameters of a chat with what lets the model search, or makes it; never twice.

    A model that takes no tools can only be made to, by the older plugin. Anthropic's models refuse a forced choice
    of a tool while they think, so that these are offered the search alone.
    """
    mode = search_mode(settings, host_search)
    if mode == "off" or most_searches(parameters, model_id) or not may_search(settings, model):
        return parameters
    given = [as_object(tool) for tool in as_list(parameters.get("tools"))]
    names = (as_text((as_object(tool.get("function")) or tool).get("name")) for tool in given)
    tools = [tool for tool, name in zip(given, names, strict=True) if name not in HOST_TOOLS]
    if model and model.supported_parameters and "tools" not in model.supported_parameters:
        plugin = {"id": _PLUGIN, **_engine(settings), "max_results": settings.max_results}
        added = {} if mode == "auto" else {"plugins": [*as_list(parameters.get("plugins")), plugin]}
        return {**parameters, **added}
    limit = {"max_uses": settings.max_searches}
    search = {**_engine(settings), "max_results": settings.max_results, **limit}
    tools.append({"type": _SEARCH, "parameters": search})
    if settings.fetches:
        directly = {"engine": "openrouter"} if settings.keeps_nothing else {}
        tools.append({"type": _FETCH, "parameters": {**directly, **limit}})
    must = mode == "on" and not parameters.get("tool_choice") and model_family(model_id) != ANTHROPIC
    return {**parameters, "tools": tools, **({"tool_choice": dict(_MUST_SEARCH)} if must else {})}


def may_search(settings: SearchSettings, model: Model | None) -> bool:
    """Whether a model may search: where nothing may be kept, only one whose provider has a search with a price."""
    return not settings.keeps_nothing or bool(model and model.prices.search)


def most_searches(parameters: Mapping[str, Any], model_id: str) -> int:
    """Return how often a request may search the web, by its tools, its plugins, and its model's variant.

    Each searches as often as it says, and once where it sets no limit; so 0 says that nothing searches.
    """
    found = [{}] if model_id.endswith(SEARCH_VARIANT) else list[dict[str, Any]]()
    for tool in map(as_object, as_list(parameters.get("tools"))):
        if as_text(tool.get("type")).removeprefix("openrouter:").startswith("web_search"):
            found.append(as_object(tool.get("parameters")))
    plugins = map(as_object, as_list(parameters.get("plugins")))
    found += [plugin for plugin in plugins if plugin.get("id") == _PLUGIN]
    limits = [as_count(each.get("max_uses")) or 1 for each in found]
    return sum(limits)


def has_to_search(choice: Any, items: Sequence[Item]) -> bool:
    """Whether a choice of tools still holds: to search is required once a turn, before anything else was done.

    The pictures of a tool's result stand behind it as a user's message.
    """
    if choice != _MUST_SEARCH:
        return True
    before = next((item for item in reversed(items) if not _is_users(item)), None)
    follows_result = before is not None and before["type"] == "function_call_output"
    return bool(items) and _is_users(items[-1]) and not follows_result


def _is_users(item: Item) -> bool:
    return item.get("role") in ("user", "system", "developer")


def _engine(settings: SearchSettings) -> dict[str, Any]:
    if settings.keeps_nothing:
        return {"engine": "native"}
    return {} if settings.engine == "auto" else {"engine": settings.engine}
