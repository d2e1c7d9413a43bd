"""Model ids under another function: what an id becomes, and where in the host's JSON ids stand. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

NewId: TypeAlias = Callable[[str], str | None]
"""What a model id becomes; None for one that stays."""

_ID_KEYS: Final = frozenset({
    "base_model_id", "model", "model_id", "model_ids", "models", "pinnedModels", "selectedModelId",
    "selected_model_id",
})  # fmt: skip
"""The names under which Open WebUI 0.12 keeps model ids, alone or in lists."""

SETTINGS: Final = (
    "ui.default_models", "ui.default_pinned_models", "ui.model_order_list", "task.model.default",
    "task.model.external", "evaluation.arena.models", "chat.context_compaction.model",
)  # fmt: skip
"""The administrator's settings that name models, by their keys in the table `config`."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """From one function or connection to our function, by its id.

    `source` is a function's id, or the prefix of a connection's models, empty where it has none. `offered` are the ids
    of our function's models: nothing else moves, unless the source is the same pipe, which offers what we will.
    """

    source: str
    target: str
    offered: frozenset[str]
    of_connection: bool = False
    same_pipe: bool = False

    def new_id(self, model_id: str) -> str | None:
        """What a model is called under our function; None for one of somebody else, or that we cannot name.

        Another pipe writes `author.model` for OpenRouter's `author/model`.
        """
        prefix = f"{self.source}." if self.source else ""
        if not model_id.startswith(prefix):
            return None
        name = model_id.removeprefix(prefix)
        same, dotted = f"{self.target}.{name}", f"{self.target}.{name.replace('.', '/', 1)}"
        if same in self.offered:
            return same
        if prefix and "/" not in name and dotted in self.offered:
            return dotted
        return same if self.same_pipe and "/" in name else None


def rename_ids(value: Any, new_id: NewId, *, key: str = "") -> Any:
    """The JSON value with other model ids, wherever they stand under a name for ids; `key` is the value's own name."""
    match value:
        case dict():
            return {name: rename_ids(each, new_id, key=name) for name, each in value.items()}
        case list():
            return [rename_ids(each, new_id, key=key) for each in value]
        case str() if key in _ID_KEYS:
            return new_id(value) or value
        case _:
            return value


def rename_choice(chat: Mapping[str, Any], new_id: NewId) -> dict[str, Any]:
    """A chat that goes on with other models; its messages still name those that wrote them."""
    if "models" not in chat:
        return dict(chat)
    return {**chat, "models": rename_ids(chat["models"], new_id, key="models")}


def change_function_valves(
    settings: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """A user's settings with other valves of functions, by the functions' ids; None where nothing changes."""
    functions = settings.get("functions") if isinstance(settings, dict) else None
    valves = functions.get("valves") if isinstance(functions, dict) else None
    if (
        not isinstance(functions, dict)
        or not isinstance(valves, dict)
        or (changed := change(valves)) == valves
    ):
        return None
    return {**settings, "functions": {**functions, "valves": changed}}


def rename_setting(value: Any, new_id: NewId) -> Any:
    """An administrator's setting with other ids: one id, several with commas between them, or a list."""
    if isinstance(value, str):
        return ",".join(new_id(part) or part for part in value.split(","))
    return rename_ids(value, new_id, key="models")
