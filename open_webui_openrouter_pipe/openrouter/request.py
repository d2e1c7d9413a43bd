"""The host's parameters and our items become the body of POST /responses.

Pure, and stable to the byte: the same values give the same keys in the same order, and what stays the same
over a chat (model, instructions, tools) stands before the input. Only what the Responses schema knows, the
model supports and the value's type allows goes in; nothing is ever null. Owns no defaults but those that
reasoning needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ..ports import Model
from ..responses.items import Item, is_function_call
from ..responses.tool_names import wire_name
from ..responses.wire import as_number

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_ENCRYPTED_REASONING = "reasoning.encrypted_content"
_IDENTIFIER_CHARACTERS = 256
_FALLBACK_MODELS = 3
_STOP_SEQUENCES = 4
_METADATA_PAIRS = 16
_METADATA_KEY_CHARACTERS = 64
_METADATA_VALUE_CHARACTERS = 512

_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}

Host: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A body to send.

    `dropped` names the host's parameters that did not go in, `tool_names` gives the host's name for each
    function name that had to be changed.
    """

    body: dict[str, Any]
    dropped: tuple[str, ...] = ()
    tool_names: Mapping[str, str] = field(default_factory=dict)


def build_request(
    host: Host,
    *,
    model: Model | None,
    model_id: str,
    items: Sequence[Item],
    instructions: str = "",
    stream: bool = True,
) -> Built:
    """Build the body for one round.

    `host` is the body as Open WebUI gave it; its model, messages and stream are not read. `model` is the
    catalogue's entry, None when unknown: then nothing is held against its abilities. `model_id` is what is
    asked for, variant included.
    """
    offered = {key: value for key, value in host.items() if value is not None and key not in _NOT_PARAMETERS}
    tools = _tools(offered.get("tools"), model)
    parts: dict[str, Any] = {
        **{parameter.name: parameter.value(offered, model) for parameter in _PARAMETERS},
        "model": model_id,
        "instructions": instructions or None,
        "tools": tools or None,
        "tool_choice": _tool_choice(offered.get("tool_choice")) if tools else None,
        "input": [_with_wire_name(item) for item in items],
        "reasoning": _reasoning(offered, model),
        "text": _text(offered, model),
        "include": _include(offered.get("include"), model),
        "stream": stream,
    }
    body = {key: parts[key] for key in _ORDER if parts[key] is not None}
    dropped = tuple(sorted(key for key in offered if _TARGETS.get(key, key) not in body))
    return Built(body, dropped, _renamed(offered.get("tools")))


# --- plain parameters


@dataclass(frozen=True, slots=True)
class _Parameter:
    """One field of the body.

    `read` makes its value, `sources` are the host's keys for it (the first present one counts), `needs` is
    the parameter of the catalogue that a model must list for it.
    """

    name: str
    read: Callable[[Any], Any]
    sources: tuple[str, ...] = ()
    needs: str = ""

    def value(self, offered: Host, model: Model | None) -> Any:
        if self.needs and not _supports(model, self.needs):
            return None
        given = next((offered[key] for key in self.sources or (self.name,) if key in offered), None)
        if given is None:
            return None
        value = self.read(given)
        return _at_most(value, model.max_output_tokens) if model and self.name == _OUTPUT_LIMIT else value


_OUTPUT_LIMIT = "max_output_tokens"


def _supports(model: Model | None, *parameters: str) -> bool:
    """Whether the model takes one of the parameters; a model that lists none is not held to it."""
    return not model or not model.supported_parameters or bool(model.supported_parameters & set(parameters))


def _at_most(value: Any, limit: int | None) -> Any:
    return min(value, limit) if value is not None and limit else value


def _number(low: float, high: float) -> Callable[[Any], float | int | None]:
    """A number, clamped; whole ones stay whole so that the bytes do not change."""

    def read(value: Any) -> float | int | None:
        number = as_number(value)
        if number is None:
            return None
        clamped = float(min(max(number, low), high))
        return int(clamped) if clamped.is_integer() else clamped

    return read


def _count(low: int, high: int | None = None) -> Callable[[Any], int | None]:
    """A whole number of at least `low`: one below is dropped, one above `high` is clamped."""

    def read(value: Any) -> int | None:
        number = as_number(value)
        if number is None or number < low:
            return None
        return int(number) if high is None else min(int(number), high)

    return read


def _flag(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def _identifier(value: Any) -> str | None:
    return value[:_IDENTIFIER_CHARACTERS] or None if isinstance(value, str) else None


def _one_of(*words: str) -> Callable[[Any], str | None]:
    return lambda value: value if isinstance(value, str) and value in words else None


def _object(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) and value else None


def _objects(value: Any) -> list[dict[str, Any]] | None:
    return (
        [dict(member) for member in value if isinstance(member, Mapping)] or None if _is_list(value) else None
    )


def _texts(limit: int) -> Callable[[Any], list[str] | None]:
    def read(value: Any) -> list[str] | None:
        texts = [text for text in value if isinstance(text, str) and text] if _is_list(value) else []
        return texts[:limit] or None

    return read


def _stop(value: Any) -> str | list[str] | None:
    return value or None if isinstance(value, str) else _texts(_STOP_SEQUENCES)(value)


def _modalities(value: Any) -> list[str] | None:
    known = [word for word in value if word in ("text", "image")] if _is_list(value) else []
    return known or None


def _metadata(value: Any) -> dict[str, str] | None:
    pairs = list(value.items()) if isinstance(value, Mapping) else []
    valid = {
        key: text[:_METADATA_VALUE_CHARACTERS]
        for key, text in pairs
        if isinstance(key, str) and isinstance(text, str) and _is_metadata_key(key)
    }
    return dict(list(valid.items())[:_METADATA_PAIRS]) or None


def _is_metadata_key(key: str) -> bool:
    return 0 < len(key) <= _METADATA_KEY_CHARACTERS and not re.search(r"[\[\]{}()]", key)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


_PARAMETERS = (
    _Parameter("models", _texts(_FALLBACK_MODELS)),
    _Parameter(_OUTPUT_LIMIT, _count(1), (_OUTPUT_LIMIT, "max_completion_tokens", "max_tokens")),
    _Parameter("max_tool_calls", _count(1)),
    _Parameter("stop_server_tools_when", _objects),
    _Parameter("parallel_tool_calls", _flag),
    _Parameter("temperature", _number(0, 2), needs="temperature"),
    _Parameter("top_p", _number(0, 1), needs="top_p"),
    _Parameter("top_k", _count(0), needs="top_k"),
    _Parameter("top_logprobs", _count(0, 20), needs="top_logprobs"),
    _Parameter("presence_penalty", _number(-2, 2), needs="presence_penalty"),
    _Parameter("frequency_penalty", _number(-2, 2), needs="frequency_penalty"),
    _Parameter("stop", _stop, needs="stop"),
    _Parameter("modalities", _modalities),
    _Parameter("image_config", _object),
    _Parameter("provider", _object),
    _Parameter("plugins", _objects),
    _Parameter("service_tier", _one_of("auto", "default", "fast", "flex", "priority", "scale", "ultrafast")),
    _Parameter("truncation", _one_of("auto", "disabled")),
    _Parameter("prompt_cache_key", _identifier),
    _Parameter("prompt_cache_options", _object),
    _Parameter("cache_control", _object),
    _Parameter("session_id", _identifier),
    _Parameter("user", _identifier),
    _Parameter("safety_identifier", _identifier),
    _Parameter("metadata", _metadata),
    _Parameter("trace", _object),
)

_ORDER = (
    "model",
    "models",
    "instructions",
    "tools",
    "tool_choice",
    "input",
    "include",
    "reasoning",
    "text",
    *(parameter.name for parameter in _PARAMETERS if parameter.name != "models"),
    "stream",
)

_TARGETS = {
    "max_tokens": _OUTPUT_LIMIT,
    "max_completion_tokens": _OUTPUT_LIMIT,
    "reasoning_effort": "reasoning",
    "response_format": "text",
    "verbosity": "text",
}
"""Host keys that go into a field of another name."""

_NOT_PARAMETERS = frozenset({"model", "messages", "stream", "input", "instructions"})


# --- reasoning


def _reasoning(offered: Host, model: Model | None) -> dict[str, Any] | None:
    if model and not model.reasons:
        return None
    given = _object(offered.get("reasoning")) or {}
    effort = _effort(given.get("effort") or offered.get("reasoning_effort"), model)
    budget_tokens = _count(1)(given.get("max_tokens"))
    parts = {
        "effort": None if budget_tokens else effort,  # the two exclude each other
        "max_tokens": budget_tokens,
        "summary": _one_of("auto", "concise", "detailed")(given.get("summary", "auto" if model else None)),
        "enabled": _flag(given.get("enabled")),
        "context": _one_of("auto", "all_turns", "current_turn")(given.get("context")),
        "mode": _one_of("standard", "pro")(given.get("mode")),
    }
    return {key: value for key, value in parts.items() if value is not None} or None


def _effort(value: Any, model: Model | None) -> str | None:
    """The effort, or the nearest that the model supports (the smaller of two)."""
    if not isinstance(value, str) or value not in _EFFORTS:
        return None
    supported = [effort for effort in _EFFORTS if model and effort in (model.supported_efforts or ())]
    wanted = _EFFORTS.index(value)
    return min(supported, key=lambda effort: abs(_EFFORTS.index(effort) - wanted)) if supported else value


def _include(value: Any, model: Model | None) -> list[str] | None:
    """What to include; sealed reasoning only where the model reasons, others reject the wish."""
    wished = _texts(10)(value) or []
    if not model or not model.reasons:
        return [word for word in wished if word != _ENCRYPTED_REASONING or not model] or None
    return [_ENCRYPTED_REASONING, *(word for word in wished if word != _ENCRYPTED_REASONING)]


# --- text format


def _text(offered: Host, model: Model | None) -> dict[str, Any] | None:
    text = _object(offered.get("text")) or {}
    wished_format = text.get("format") or offered.get("response_format")
    wished_verbosity = text.get("verbosity") or offered.get("verbosity")
    parts = {
        "format": _format(wished_format)
        if _supports(model, "response_format", "structured_outputs")
        else None,
        "verbosity": (
            _one_of("low", "medium", "high", "xhigh", "max")(wished_verbosity)
            if _supports(model, "verbosity")
            else None
        ),
    }
    return {key: value for key, value in parts.items() if value is not None} or None


def _format(value: Any) -> dict[str, Any] | None:
    """The output format; a schema nested as in Chat Completions is flattened."""
    given = _object(value) or {}
    if given.get("type") in ("text", "json_object"):
        return {"type": given["type"]}
    nested = _object(given.get("json_schema")) or given
    schema = _object(nested.get("schema"))
    if given.get("type") != "json_schema" or schema is None:
        return None
    name = nested.get("name")
    parts = {
        "type": "json_schema",
        "name": wire_name(name if isinstance(name, str) and name else "answer"),
        "description": nested.get("description"),
        "schema": schema,
        "strict": _flag(nested.get("strict")),
    }
    return {key: value for key, value in parts.items() if value is not None}


# --- tools


def _tools(value: Any, model: Model | None) -> list[dict[str, Any]]:
    """The tools in their flat form, each name once; none for a model that takes no tools."""
    if not _is_list(value) or not _supports(model, "tools"):
        return []
    flat = [tool for tool in map(_tool, value) if tool]
    unique: dict[str, dict[str, Any]] = {}
    for number, tool in enumerate(flat):
        key = tool["name"] if tool["type"] == "function" else f"#{number}"
        unique.setdefault(key, tool)
    return list(unique.values())


def _tool(value: Any) -> dict[str, Any] | None:
    given = _object(value)
    if given is None or not isinstance(given.get("type"), str):
        return None
    if given["type"] != "function":
        return given
    function = _object(given.get("function")) or given
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return None
    parts = {
        "type": "function",
        "name": wire_name(name),
        "description": function.get("description"),
        "parameters": _object(function.get("parameters")) or dict(_NO_ARGUMENTS),
        "strict": _flag(function.get("strict")),
    }
    return {key: part for key, part in parts.items() if part is not None}


def _tool_choice(value: Any) -> str | dict[str, Any] | None:
    if isinstance(value, str):
        return value if value in ("auto", "none", "required") else None
    given = _object(value)
    if given is None or given.get("type") != "function":
        return given
    name = (_object(given.get("function")) or given).get("name")
    return {"type": "function", "name": wire_name(name)} if isinstance(name, str) and name else None


def _renamed(tools: Any) -> dict[str, str]:
    """The host's name for each name that was changed."""
    given = [_object(tool) or {} for tool in tools] if _is_list(tools) else []
    names = [(_object(tool.get("function")) or tool).get("name") for tool in given]
    return {
        wire_name(name): name for name in names if isinstance(name, str) and name and wire_name(name) != name
    }


def _with_wire_name(item: Item) -> Item:
    """A call in the history names its function as the tools do."""
    if is_function_call(item) and (name := wire_name(item["name"])) != item["name"]:
        return cast("Item", {**item, "name": name})
    return item
