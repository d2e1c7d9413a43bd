"""The switches beside the message field that an administrator may have installed: toggle filters of Open WebUI.

One that is on stands for a valve of the user's, or for a tool of OpenRouter's, for the messages that are sent
meanwhile: it can do what the administrator lets users set, and nothing else. Owns what they are, and which models have
them. Source: `utils/filter.py` and `utils/models.py` of Open WebUI 0.12.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..responses.tools import SEARCH, SERVER_TOOLS
from ..responses.values import as_list, as_object

AUTHOR: Final = "the open-webui-openrouter-pipe authors"
"""By this, in its frontmatter, a function is known for one of ours."""
CHOSEN: Final = "openrouter_pipe"
"""The key of a call's body under which the filters note what is on, as `{valve or tool: value}`."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch; its title is the line `switch_{name}`, its icon is the inside of an SVG.

    Without a `valve` it is for the tool of its name.
    """

    name: str
    valve: str
    value: str
    icon: str
    needs: str = ""
    """Which tag of a model it does something for, such as "tools"; "" for all."""

    @property
    def help(self) -> str:
        """The name of the line that says what it does."""
        return f"switch_{self.name}_help" if self.valve else "switch_tool_help"

    @property
    def key(self) -> str:
        """Under which its filter notes that it is on."""
        return self.valve or self.name

    @property
    def id(self) -> str:
        """The id of its filter."""
        return f"openrouter_{self.name}"


SWITCHES: Final = (
    Switch(
        "answer_fast",
        "REASONING_EFFORT",
        "none",
        "<path d='M13 2 4 14h7l-1 8 9-12h-7z'/>",
        "reasoning",
    ),
    Switch(
        "think_harder",
        "REASONING_EFFORT",
        "high",
        "<path d='M9 18h6M10 21h4M8 14a6 6 0 1 1 8 0c-1 1-1 2-1 4H9c0-2 0-3-1-4z'/>",
        "reasoning",
    ),
    Switch(SEARCH.name, "WEB_SEARCH", "on", SEARCH.icon),
    *(
        Switch(each.name, "", "on", each.icon, "tools")
        for each in SERVER_TOOLS.values()
        if each is not SEARCH
    ),
)
"""In the order in which the host runs them, so that of two for one valve the latter counts: that of their ids."""


def switched_on(given: Any) -> tuple[Switch, ...]:
    """Return what is on, by what stands under `CHOSEN` in a body; a caller may have written anything there."""
    held = as_object(given)
    return tuple(each for each in SWITCHES if held.get(each.key) == each.value)


def with_switches(meta: Mapping[str, Any], installed: Container[str], tags: Container[str]) -> dict[str, Any]:
    """Return the `meta` of a model's row with those of the installed filters that change something for its `tags`."""
    ids = [each.id for each in SWITCHES if each.id in installed and (not each.needs or each.needs in tags)]
    held = as_list(meta.get("filterIds"))
    missing = [name for name in ids if name not in held]
    return {**meta, "filterIds": [*held, *missing]} if missing else {**meta}
