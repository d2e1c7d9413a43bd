"""The tools that OpenRouter runs, in a request; and who searches for a message, it or Open WebUI.

Pure. Source: `WebSearchServerToolConfig`, `ToolChoiceAllowed`, `StopServerToolsWhen` of OpenRouter's Python SDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..history.artifacts import ANTHROPIC, model_family
from ..ports import SEARCH_VARIANT, Model
from ..responses.items import Item
from ..responses.tools import FETCH, MAX_COST, PREFIX, SEARCH, SERVER_TOOLS, STOPS, ServerTool
from ..responses.values import as_count, as_list, as_number, as_object, as_text

SearchMode = Literal["off", "auto", "on"]
SearchEngine = Literal["auto", "native", "exa", "parallel", "firecrawl", "perplexity"]
HostSearch = Literal["", "offered", "done"]
"""What Open WebUI's own switch did: nothing, gave the model its search tools, or searched before it called the pipe."""

_PLUGIN: Final = "web"
_MUST_SEARCH: Final[Mapping[str, Any]] = {
    "type": "allowed_tools",
    "mode": "required",
    "tools": [{"type": SEARCH.type}],
}


@dataclass(frozen=True, slots=True)
class ServerToolSettings:
    """Whether a chat searches, and how: `max_results` of each search, `max_searches` and pages of one request.

    `host_switch_by` says who searches where the user has pressed Open WebUI's own switch. `tools` are those that are
    switched on besides, each with the model that it asks, "" for none in particular; they stop after so many steps of a
    request, or dollars of an answer. With `keeps_nothing` nothing is offered that may keep data: nobody searches but
    the provider itself, which is bound by what it may keep; a page is read by OpenRouter alone.
    """

    mode: SearchMode = "off"
    engine: SearchEngine = "auto"
    max_results: int = 5
    max_searches: int = 5
    fetches: bool = True
    host_switch_by: Literal["host", "openrouter"] = "host"
    keeps_nothing: bool = False
    tools: Mapping[str, str] = field(default_factory=dict)
    max_steps: int = 10
    max_dollars: float = 0.5
    aspect_ratio: str = ""
    time_zone: str = ""

    @property
    def forbidden(self) -> list[str]:
        """The names of the tools that are switched on and may keep data."""
        return [name for name in self.tools if SERVER_TOOLS[name].private is None]


def search_mode(settings: ServerToolSettings, host_search: HostSearch) -> SearchMode:
    """Return how a message is searched for by OpenRouter: not at all where Open WebUI does, or has done, it itself."""
    if host_search == "done" or (host_search == "offered" and settings.host_switch_by == "host"):
        return "off"
    return "auto" if host_search == "offered" and settings.mode == "off" else settings.mode


def with_server_tools(
    parameters: Mapping[str, Any],
    settings: ServerToolSettings,
    host_search: HostSearch,
    *,
    model: Model | None,
    model_id: str,
) -> Mapping[str, Any]:
    """Return the parameters of a chat with the tools that OpenRouter runs, in the place of the host's for the same.

    They let the model search, or make it; never twice. A model that takes no tools can only be made to search, by the
    older plugin. Anthropic's models refuse a forced choice of a tool while they think, so that these are offered the
    search alone.
    """
    mode = search_mode(settings, host_search)
    if mode == "off" and not settings.tools:
        return parameters
    searches = mode != "off" and not most_searches(parameters, model_id) and may_search(settings, model)
    if model and model.supported_parameters and "tools" not in model.supported_parameters:
        search = _parameters(SEARCH, settings, model_id)
        plugin = {"id": _PLUGIN, **{name: search[name] for name in search if name != "max_uses"}}
        is_made_to = searches and mode == "on"
        plugins = {"plugins": [*as_list(parameters.get("plugins")), plugin]} if is_made_to else {}
        return {**parameters, **plugins}
    given = [as_object(tool) for tool in as_list(parameters.get("tools"))]
    wanted = {*settings.tools, *([SEARCH.name] if searches else [])}
    wanted |= {FETCH.name} if searches and settings.fetches else set()
    if settings.keeps_nothing:
        wanted -= {*settings.forbidden}
    present = {as_text(tool.get("type")) for tool in given}
    added = [each for each in SERVER_TOOLS.values() if each.name in wanted and each.type not in present]
    if not added:
        return parameters
    replaced = {name for each in added for name in each.replaces}
    named = ((tool, (as_object(tool.get("function")) or tool).get("name")) for tool in given)
    tools = [tool for tool, name in named if as_text(name) not in replaced]
    for each in added:
        own = _parameters(each, settings, model_id)
        tools.append({"type": each.type, **({"parameters": own} if own else {})})
    changed: dict[str, Any] = {"tools": tools}
    if (
        mode == "on"
        and searches
        and not parameters.get("tool_choice")
        and model_family(model_id) != ANTHROPIC
    ):
        changed["tool_choice"] = dict(_MUST_SEARCH)
    if any(each.name in settings.tools for each in added) and not parameters.get(STOPS):
        changed[STOPS] = [
            {"type": "max_cost", MAX_COST: settings.max_dollars},
            {"type": "step_count_is", "step_count": settings.max_steps},
        ]
    return {**parameters, **changed}


def _parameters(tool: ServerTool, settings: ServerToolSettings, model_id: str) -> dict[str, Any]:
    """What a tool is given of the settings, as far as that is set."""
    own_model = model_id if tool.asks_chat_model else ""
    known = {
        "engine": "" if settings.engine == "auto" else settings.engine,
        "max_results": settings.max_results,
        "max_uses": settings.max_searches,
        "timezone": settings.time_zone,
        "aspect_ratio": settings.aspect_ratio,
        "model": settings.tools.get(tool.name) or own_model,
    }
    private = tool.private if settings.keeps_nothing else None
    return {**{name: known[name] for name in tool.parameters if known[name]}, **(private or {})}


def with_dollars_left(body: dict[str, Any], spent_dollars: float) -> dict[str, Any]:
    """Return a body whose stops count what its answer has cost; without OpenRouter's tools where nothing is left."""
    stops = [
        {**stop, MAX_COST: round(most - spent_dollars, 6)}
        if (most := as_number(stop.get(MAX_COST))) is not None
        else stop
        for stop in map(as_object, as_list(body[STOPS]))
    ]
    if all(stop.get(MAX_COST, 1) > 0 for stop in stops):
        return {**body, STOPS: stops}
    dropped = {STOPS, "tools", *(["tool_choice"] if body.get("tool_choice") == _MUST_SEARCH else [])}
    tools = [each for each in body.get("tools", ()) if not as_text(each.get("type")).startswith(PREFIX)]
    left = {name: value for name, value in body.items() if name not in dropped}
    return {**left, **({"tools": tools} if tools else {})}


def may_search(settings: ServerToolSettings, model: Model | None) -> bool:
    """Whether a model may search: where nothing may be kept, only one whose provider has a search with a price."""
    return not settings.keeps_nothing or bool(model and model.prices.search)


def most_searches(parameters: Mapping[str, Any], model_id: str) -> int:
    """Return how often a request may search the web, by its tools, its plugins, and its model's variant.

    Each searches as often as it says, and once where it sets no limit; so 0 says that nothing searches.
    """
    found = [{}] if model_id.endswith(SEARCH_VARIANT) else list[dict[str, Any]]()
    for tool in map(as_object, as_list(parameters.get("tools"))):
        if as_text(tool.get("type")).removeprefix(PREFIX).startswith("web_search"):
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
