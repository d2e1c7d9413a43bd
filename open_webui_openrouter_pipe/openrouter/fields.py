"""The host's parameters, and the fields of POST /responses that they become.

Owns the one table of them: in which place of the body each stands, how it is read, who may set it, and which requests
carry it. Knows the model's catalogue row, and nothing of what administrators and users have switched.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args

from ..history.artifacts import OPENAI, model_family
from ..ports import Model, Request
from ..responses.values import Kept, as_list, as_number, as_object, as_text, once, wire_name

_ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
_NOT_PARAMETERS: Final = frozenset({"model", "messages", "stream", "input", "instructions"})

_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose object has names of the author's own as keys, each with a schema."""
_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords whose value is no schema, whatever it looks like."""

_Reader = Callable[[Any], Any]
"""Returns what is sent for a value of the host's, None for one that cannot be read."""

_log = logging.getLogger(__name__)


# --- how values are read


def _texts(value: Any, *, limit: int | None = None, known: Sequence[str] = ()) -> list[str] | None:
    texts = [text for text in as_list(value) if as_text(text) and (not known or text in known)]
    return texts[:limit] or None


def _number(value: Any, *, low: float, high: float) -> float | int | None:
    """A number, clamped; whole ones become integers, so that 1.0 and 1 make the same bytes."""
    number = as_number(value)
    if number is None:
        return None
    clamped = float(min(max(number, low), high))
    return int(clamped) if clamped.is_integer() else clamped


def _count(value: Any, *, low: int = 1, high: int | None = None) -> int | None:
    """A whole number: one below the range is not accepted, one above it is lowered."""
    number = as_number(value)
    if number is None or number < low:
        return None
    return int(number) if high is None else min(int(number), high)


def _flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _one_of(*known: str) -> _Reader:
    return lambda value: value if isinstance(value, str) and value in known else None


def _object(value: Any) -> dict[str, Any] | None:
    return as_object(value) or None


def _objects(value: Any) -> list[dict[str, Any]] | None:
    return [each for each in as_list(value) if isinstance(each, dict)] or None


def _identifier(value: Any) -> str | None:
    return as_text(value)[:256] or None


def _stop(value: Any) -> str | list[str] | None:
    return as_text(value) or _texts(value, limit=4)


def _metadata(value: Any) -> dict[str, str] | None:
    """At most 16 pairs, keys of at most 64 characters without brackets, values of at most 512."""
    valid = [
        (key, text[:512])
        for key, text in as_object(value).items()
        if isinstance(text, str) and re.fullmatch(r"[^\[\]{}()]{1,64}", key)
    ]
    return dict(valid[:16]) or None


# --- the table


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the host's, and the field of the body that it goes into, by default one of the same name.

    Without `read` the field is made of several parameters, or needs the model. Of several parameters that are one
    field, the first that is present counts. `if_listed`: it is sent only to a model whose catalogue row lists it.
    `restricted`: it chooses a price, another model, or who sees the data. `tasks` says whether all tasks take it over,
    or those alone whose answer a user reads. Summaries that share the chat's cache keep all but what would force a
    call, search, or ask for another form or length; others keep who asks. `omissible` are the paths in the body without
    which an answer is no dearer, no less private, and of no other form.
    """

    name: str
    read: _Reader | None = None
    goes_into: str = ""
    if_listed: bool = False
    restricted: bool = False
    tasks: Literal["none", "answers", "all"] = "none"
    summaries: Literal["none", "cached", "all"] = "cached"
    omissible: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """The name of the field of the body."""
        return self.goes_into or self.name


def _sampling(name: str, read: _Reader, tasks: Literal["none", "all"] = "none") -> Parameter:
    return Parameter(name, read, if_listed=True, tasks=tasks, omissible=(name,))


def _naming(name: str, read: _Reader, summaries: Literal["cached", "all"] = "cached") -> Parameter:
    return Parameter(name, read, summaries=summaries, omissible=(name,))


_THINKING_PATHS: Final = ("reasoning.summary", "reasoning.context", "reasoning.mode")
_TIERS: Final = ("auto", "default", "fast", "flex", "priority", "scale", "ultrafast")

PARAMETERS: Final = (
    Parameter("model"),
    Parameter("models", partial(_texts, limit=3), restricted=True),
    Parameter("tools", if_listed=True),
    Parameter("tool_choice", summaries="none"),
    Parameter("input"),
    Parameter("include"),
    Parameter("reasoning", tasks="answers", omissible=_THINKING_PATHS),
    Parameter("reasoning_effort", goes_into="reasoning", tasks="answers"),
    Parameter("text", summaries="none"),
    Parameter("response_format", goes_into="text", summaries="none"),
    Parameter("verbosity", goes_into="text", tasks="answers", omissible=("text.verbosity",)),
    Parameter("max_output_tokens", _count),
    Parameter("max_completion_tokens", _count, "max_output_tokens", tasks="all"),
    Parameter("max_tokens", _count, "max_output_tokens", tasks="all"),
    Parameter("max_tool_calls", _count),
    Parameter("stop_server_tools_when", _objects, restricted=True),
    Parameter("parallel_tool_calls", _flag, omissible=("parallel_tool_calls",)),
    _sampling("temperature", partial(_number, low=0, high=2), tasks="all"),
    _sampling("top_p", partial(_number, low=0, high=1), tasks="all"),
    _sampling("top_k", partial(_count, low=0)),
    _sampling("top_logprobs", partial(_count, low=0, high=20)),
    _sampling("presence_penalty", partial(_number, low=-2, high=2)),
    _sampling("frequency_penalty", partial(_number, low=-2, high=2)),
    Parameter("stop", _stop, if_listed=True, tasks="all", summaries="none", omissible=("stop",)),
    Parameter("modalities", partial(_texts, known=("text", "image")), summaries="none"),
    Parameter("image_config", _object, summaries="none"),
    Parameter("provider", _object, restricted=True, tasks="all"),
    Parameter("plugins", _objects, restricted=True, summaries="none"),
    Parameter("service_tier", _one_of(*_TIERS), restricted=True),
    Parameter("truncation", _one_of("auto", "disabled"), omissible=("truncation",)),
    _naming("prompt_cache_key", _identifier),
    Parameter("prompt_cache_options", _object, restricted=True, omissible=("prompt_cache_options",)),
    Parameter("cache_control", _object, restricted=True),
    _naming("session_id", _identifier, summaries="all"),
    _naming("user", _identifier, summaries="all"),
    _naming("safety_identifier", _identifier, summaries="all"),
    _naming("metadata", _metadata),
    _naming("trace", _object),
)
"""In the order of the body, so that what lasts stands before what changes."""

BEFORE_TOOLS: Final = frozenset({"model", "models"})
"""The fields of a body that stand before its tools."""
RESTRICTED: Final = frozenset(each.name for each in PARAMETERS if each.restricted)
OMISSIBLE: Final = frozenset(path for each in PARAMETERS for path in each.omissible)
_FIELD_OF: Final[Mapping[str, str]] = {each.name: each.field for each in PARAMETERS}


def value_at(body: Mapping[str, Any], path: str) -> Any:
    """Return what a body holds at a path of one or two names; None where there is nothing."""
    name, _, inner = path.partition(".")
    return as_object(body.get(name)).get(inner) if inner else body.get(name)


def with_value(body: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the body with another value at a path; None omits it, and what it leaves empty."""
    name, _, inner = path.partition(".")
    if inner:
        value = with_value(as_object(body.get(name)), inner, value) or None
    changed = {**body, name: value}
    return {key: member for key, member in changed.items() if key != name or member is not None}


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)

_REASONING: Final[Mapping[str, _Reader]] = {
    "effort": _one_of(*_EFFORTS),
    "max_tokens": _count,
    "summary": _one_of("auto", "concise", "detailed"),
    "enabled": _flag,
    "context": _one_of("auto", "all_turns", "current_turn"),
    "mode": _one_of("standard", "pro"),
}
_VERBOSITY: Final = _one_of("low", "medium", "high", "xhigh", "max")


def _described(value: Any) -> str | None:
    """A description; providers refuse the whole request for one that is not a text."""
    return value if isinstance(value, str) else None


def read_parameters(host: Mapping[str, Any], *, model: Model | None, model_id: str) -> Request:
    """Return the request for the parameters of one call, its input still empty.

    `host` is the body as Open WebUI sent it; its model, messages and stream are not read. `model` is the
    catalogue's entry, None when unknown: then it is taken to support everything. `model_id` is what is asked
    for, variant included.
    """
    offered = {key: value for key, value in host.items() if value is not None and key not in _NOT_PARAMETERS}
    # calls of earlier turns have the wire names whether or not the tools are sent
    tools, host_tool_names = read_tools(offered.get("tools"))
    tools = tools if _supports(model, "tools") else []
    combined = {
        "model": model_id,
        "tools": tools or None,
        "tool_choice": _read_tool_choice(offered.get("tool_choice")) if tools else None,
        "input": (),
        "include": _read_include(offered.get("include"), model, model_id),
        "reasoning": _read_reasoning(offered, model) or None,
        "text": _read_text(offered, model) or None,
    }
    read: dict[str, Any] = {}
    for each in PARAMETERS:
        if each.read is None:
            read[each.field] = combined[each.field]
        elif each.name in offered and each.field not in read:
            usable = not each.if_listed or _supports(model, each.name)
            read[each.field] = each.read(offered[each.name]) if usable else None
    body = {name: value for name, value in read.items() if value is not None}
    if model and model.max_output_tokens and "max_output_tokens" in body:
        body["max_output_tokens"] = min(body["max_output_tokens"], model.max_output_tokens)
    if dropped := sorted(key for key in offered if _FIELD_OF.get(key, key) not in body):
        _log.debug("parameters that %r does not take: %r", model_id, dropped)
    return Request(body, host_tool_names)


def _supports(model: Model | None, *parameters: str) -> bool:
    """Whether the model takes one of the parameters; one that lists none takes all, but no tools if it only draws."""
    if model and model.supported_parameters:
        return bool(model.supported_parameters & set(parameters))
    return model is None or model.writes or "tools" not in parameters


# --- fields that combine several parameters, or depend on the model


def read_tools(value: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the tools in their flat form and a fixed order, and the host's name for each that had to be changed.

    Tools stand at the very beginning of what a provider caches, and the host collects them from servers and toolkits
    that name them in any order: one that answers later than yesterday would make the whole chat be read anew. So the
    functions come by their names, of two of one name the same one, whichever comes first; then the tools that
    OpenRouter or a provider runs.

    `value` is a list of them, or a kept object that has them as its `tools`, which is read once.
    """
    return once(_read_tools, value if type(value) is Kept else {"tools": value})


def _read_tools(given_tools: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    functions: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    host_names: dict[str, str] = {}
    for given in map(as_object, as_list(given_tools["tools"])):
        function = as_object(given.get("function")) or given
        host_name = as_text(function.get("name"))
        if given.get("type") != "function" and isinstance(given.get("type"), str):
            others.append(in_order_of_keys(given))
        elif given.get("type") == "function" and host_name:
            name = wire_name(host_name)
            schema = as_object(in_order_of_keys(function.get("parameters")))
            read = {
                "type": "function",
                "name": name,
                "description": _described(function.get("description")),
                "parameters": schema or {"type": "object", "properties": {}},
                "strict": _flag(function.get("strict")),
            }
            functions.append(_present(read))
            if name != host_name:
                host_names[name] = host_name
    named: dict[str, dict[str, Any]] = {}
    for each in sorted(functions, key=lambda each: (each["name"], json.dumps(each, default=str))):
        named.setdefault(each["name"], each)
    others.sort(key=lambda each: (each["type"], json.dumps(each, default=str)))
    return [*map(Kept, (*named.values(), *others))], host_names


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read_tool_choice(value: Any) -> str | dict[str, Any] | None:
    if isinstance(value, str):
        return value if value in ("auto", "none", "required") else None
    given = as_object(value)
    if given.get("type") != "function":
        return given or None
    name = as_text((as_object(given.get("function")) or given).get("name"))
    return {"type": "function", "name": wire_name(name)} if name else None


def _read_include(value: Any, model: Model | None, model_id: str) -> list[str] | None:
    """Return what to include: sealed reasoning, unless the model does not reason, since OpenAI refuses that then.

    Of models that are not known, those are asked for it that cannot be OpenAI's: Google's take no result of a tool
    without it.
    """
    given = _texts(value, limit=10) or []
    others = [name for name in given if name != _ENCRYPTED_REASONING]
    if model is None and model_family(model_id) in {None, OPENAI}:
        return given or None
    reasons = model is None or model.reasons
    return [_ENCRYPTED_REASONING, *others] if reasons else others or None


def _read_reasoning(offered: Mapping[str, Any], model: Model | None) -> dict[str, Any] | None:
    """Return the settings of reasoning: summaries unless they are ruled out, and an effort that is supported."""
    if model and not model.reasons:
        return None
    given = {"summary": "auto" if model else None, **as_object(offered.get("reasoning"))}
    given["effort"] = given.get("effort") or offered.get("reasoning_effort")
    read = {name: reader(given.get(name)) for name, reader in _REASONING.items()}
    effort = read["effort"]
    supported = (model.supported_efforts or ()) if model else ()
    if effort == "none" and model and model.reasoning_is_mandatory:
        supported = supported or _EFFORTS[1:]
    if read["max_tokens"]:
        read["effort"] = None  # the two exclude each other
    elif effort and (effort != "none" or not model or model.reasoning_is_mandatory):
        # models list the efforts of thinking alone
        read["effort"] = nearest_effort(effort, supported) or effort
    return _present(read)


def nearest_effort(wanted: str, supported: Sequence[str]) -> Effort | None:
    """Return the supported effort that is nearest, of two the smaller one; None where none of them is known."""
    known = [name for name in _EFFORTS if name in supported]
    if wanted not in _EFFORTS or not known:
        return None
    index = _EFFORTS.index(wanted)
    return min(known, key=lambda name: abs(_EFFORTS.index(name) - index))


def _read_text(offered: Mapping[str, Any], model: Model | None) -> dict[str, Any]:
    given = as_object(offered.get("text"))
    read: dict[str, Any] = {}
    if _supports(model, "response_format", "structured_outputs"):
        read["format"] = _read_format(as_object(given.get("format") or offered.get("response_format")))
    if _supports(model, "verbosity"):
        read["verbosity"] = _VERBOSITY(given.get("verbosity") or offered.get("verbosity"))
    return _present(read)


def _read_format(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the output format; a schema nested as in Chat Completions is flattened."""
    if given.get("type") in ("text", "json_object"):
        return {"type": given["type"]}
    nested = as_object(given.get("json_schema")) or given
    schema = as_object(nested.get("schema"))
    if given.get("type") != "json_schema" or not schema:
        return None
    read = {
        "type": "json_schema",
        "name": wire_name(as_text(nested.get("name")) or "answer"),
        "description": _described(nested.get("description")),
        "schema": schema,
        "strict": _flag(nested.get("strict")),
    }
    return _present(read)


def in_order_of_keys(schema: Any, *, is_data: bool = False) -> Any:
    """Return a JSON schema, or plain data, with all its keys in order; what it says is the same.

    But a model reads the properties of a function in some order, and writes its arguments in it, so they are not simply
    sorted: those that are required come first, as the schema's list of them names them, which is a list and so has an
    order that its author chose.
    """
    if isinstance(schema, list):
        return [in_order_of_keys(each, is_data=is_data) for each in schema]
    if not isinstance(schema, dict):
        return schema
    ordered = {}
    for name in sorted(schema, key=str):
        value = schema[name]
        names = None
        if isinstance(value, dict) and not is_data and name == "properties":
            first = dict.fromkeys(key for key in as_list(schema.get("required")) if as_text(key) in value)
            names = [*first, *sorted(value.keys() - first.keys(), key=str)]
        elif isinstance(value, dict) and not is_data and name in _MAPS_OF_SCHEMAS:
            names = sorted(value, key=str)
        if names is None:
            ordered[name] = in_order_of_keys(value, is_data=is_data or name in _DATA)
        else:
            ordered[name] = {key: in_order_of_keys(value[key]) for key in names}
    return ordered
