"""The tools that OpenRouter itself runs while a model answers: one row each, for whoever offers, shows or bills them.

Source: `*ServerTool*Config` and `Output*ServerToolItem` of OpenRouter's Python SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .values import as_list, as_number, as_object

PREFIX: Final = "openrouter:"
"""How the types of these tools and of their items begin."""
STOPS: Final = "stop_server_tools_when"
"""The field of a request that says when these tools are called no more."""
MAX_COST: Final = "max_cost_in_dollars"
ALLOWED: Final = "datetime"
"""Those that users may switch on by default: what costs nothing, and keeps nothing."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool; its title is the line `switch_{name}`.

    `parameters` are the settings that it takes, `replaces` the host's own tools for the same: they are never offered
    beside it. `private` are the parameters with which nobody keeps what it is given, None where somebody may. The
    `icon` is the inside of an SVG. With `asks_chat_model` it asks the chat's own model where no other is named.
    """

    name: str
    icon: str
    parameters: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    private: Mapping[str, Any] | None = None
    asks_chat_model: bool = False

    @property
    def type(self) -> str:
        """Its type in a request, and that of its items."""
        return f"{PREFIX}{self.name}"


SEARCH: Final = ServerTool(
    "web_search",
    "<circle cx='12' cy='12' r='9'/><path d='M3 12h18M12 3a14 14 0 0 1 0 18 14 14 0 0 1 0-18z'/>",
    ("engine", "max_results", "max_uses"),
    ("search_web", "fetch_url"),
    {"engine": "native"},
)
FETCH: Final = ServerTool(
    "web_fetch",
    "<path d='M6 3h8l4 4v14H6zM14 3v4h4M9 12h6M9 16h6'/>",
    ("max_uses",),
    ("fetch_url",),
    {"engine": "openrouter"},
)
_CLOCK: Final = "<circle cx='12' cy='12' r='9'/><path d='M12 7v5l3 2'/>"
_PICTURE: Final = "<path d='M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01'/>"
_SCREEN: Final = "<path d='M3 5h18v14H3zM7 10l3 2-3 2M12 15h4'/>"
_SPEECH: Final = "<path d='M4 5h16v11H9l-5 4zM9 9h6M9 12h4'/>"
_TREE: Final = "<path d='M12 3v6M6 15v-3h12v3M4 15h4v5H4zM16 15h4v5h-4z'/>"
_MERGE: Final = "<path d='M4 5c8 0 8 7 8 7s0 7-8 7M20 12h-8'/>"
_ROWS: Final = (
    SEARCH,
    FETCH,
    ServerTool("datetime", _CLOCK, ("timezone",), ("get_current_timestamp",), {}),
    ServerTool("image_generation", _PICTURE, ("model", "aspect_ratio"), ("generate_image", "edit_image")),
    ServerTool("shell", _SCREEN, (), ("execute_code",)),
    ServerTool("advisor", _SPEECH, ("model",), asks_chat_model=True),
    ServerTool("subagent", _TREE, ("model",), asks_chat_model=True),
    ServerTool("fusion", _MERGE, ("model",)),
)
SERVER_TOOLS: Final[Mapping[str, ServerTool]] = {each.name: each for each in _ROWS}
"""By their names."""


def most_tool_dollars(body: Mapping[str, Any]) -> float:
    """Return how many dollars the tools of a request may cost: 0 where nothing says that, or it may call none."""
    stops = [] if body.get("tool_choice") == "none" else map(as_object, as_list(body.get(STOPS)))
    return max((as_number(each.get(MAX_COST)) or 0.0 for each in stops), default=0.0)


def read_allowed(valve: str) -> dict[str, str]:
    """Read which tools users may switch on, as in `datetime, advisor=a/model`: their models by their names."""
    words = (word.partition("=") for word in valve.split(","))
    named = ((name.strip().lower(), model.strip()) for name, _, model in words)
    return {name: model for name, model in named if name in SERVER_TOOLS}
