"""The tools of a request in one order, so that the same tools are the same bytes in whatever order they come.

Pure. Tools stand at the very beginning of what a provider caches, and the host collects them from servers and toolkits
that name them in any order: one that answers later than yesterday would make the whole chat be read anew.

The order says nothing to a model. Tools are called, chosen (`tool_choice`) and omitted by their names, and JSON
objects have no order of their keys. But a model does read the properties of a function in some order, and writes its
arguments in it, so they are not simply sorted: those that are required come first, as the schema's list of them names
them, which is a list and so has an order that its author chose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticUseDefault

from ..ports import Model
from ..responses.items import Item, is_function_call
from ..responses.values import as_list, as_number, as_object, as_text, wire_name

_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose object has names of the author's own as keys, each with a schema."""
_DATA: Final = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords whose value is no schema, whatever it looks like."""


def in_order(functions: Iterable[Mapping[str, Any]], others: Iterable[Any]) -> list[Any]:
    """Return the functions by their names, each name once, and then the tools that OpenRouter or a provider runs.

    Of two functions of one name the same one is taken whichever comes first.
    """
    named: dict[str, Mapping[str, Any]] = {}
    for function in sorted(functions, key=lambda each: (str(each["name"]), _text(each))):
        named.setdefault(str(function["name"]), function)
    return [*named.values(), *sorted(others, key=lambda each: (str(each.get("type")), _text(each)))]


def in_order_of_keys(schema: Any) -> Any:
    """Return a JSON schema with all its keys in order; what it says is the same."""
    if isinstance(schema, list):
        return [in_order_of_keys(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _member(schema, name) for name in sorted(schema, key=str)}


def _member(schema: Mapping[str, Any], name: str) -> Any:
    """Return the value of a keyword, in order as far as it is made of schemas or is data."""
    value = schema[name]
    if isinstance(value, dict) and name == "properties":
        first = dict.fromkeys(key for key in as_list(schema.get("required")) if as_text(key) in value)
        names = [*first, *sorted(value.keys() - first.keys(), key=str)]
        return {key: in_order_of_keys(value[key]) for key in names}
    if isinstance(value, dict) and name in _MAPS_OF_SCHEMAS:
        return {key: in_order_of_keys(value[key]) for key in sorted(value, key=str)}
    return _in_order_of_names(value) if name in _DATA else in_order_of_keys(value)


def _in_order_of_names(value: Any) -> Any:
    """Return plain JSON data with the keys of all its objects in order."""
    if isinstance(value, list):
        return [_in_order_of_names(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _in_order_of_names(value[name]) for name in sorted(value, key=str)}


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


_ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
_NOT_PARAMETERS: Final = frozenset({"model", "messages", "stream", "input", "instructions"})
BEFORE_TOOLS: Final = frozenset({"model", "models"})
"""The fields of a body that stand before its tools."""
_OUTPUT_LIMITS: Final = ("max_output_tokens", "max_completion_tokens", "max_tokens")
"""The host's names for one field; the first one that is present counts."""
_FIELD_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OUTPUT_LIMITS, "max_output_tokens"),
    "reasoning_effort": "reasoning",
    "response_format": "text",
    "verbosity": "text",
}
"""Host parameters that go into a field of another name."""
_IF_LISTED: Final = frozenset(
    {
        "tools",
        "temperature",
        "top_p",
        "top_k",
        "top_logprobs",
        "presence_penalty",
        "frequency_penalty",
        "stop",
    }
)
"""Sent only to a model whose catalogue row lists them."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The body of all requests of one call, its input still empty.

    `dropped` names the host's parameters that are not in it, `host_tool_names` the host's name for each function
    name that had to be changed.
    """

    body: Mapping[str, Any]
    dropped: tuple[str, ...] = ()
    host_tool_names: Mapping[str, str] = field(default_factory=dict)

    def with_input(self, items: Sequence[Item]) -> dict[str, Any]:
        """Return the body for this input; calls in it name their function as the tools do."""
        named = [
            {**item, "name": wire_name(item["name"])} if is_function_call(item) else item for item in items
        ]
        return {**self.body, "input": named}


def read_parameters(host: Mapping[str, Any], *, model: Model | None, model_id: str) -> RequestTemplate:
    """Read the parameters of one call.

    `host` is the body as Open WebUI sent it; its model, messages and stream are not read. `model` is the
    catalogue's entry, None when unknown: then it is taken to support everything. `model_id` is what is asked
    for, variant included.
    """
    offered = {key: value for key, value in host.items() if value is not None and key not in _NOT_PARAMETERS}
    usable = {key: offered[key] for key in offered if key not in _IF_LISTED or _supports(model, key)}
    # calls of earlier turns have the wire names whether or not the tools are sent
    tools, host_tool_names = read_tools(offered.get("tools"))
    tools = tools if "tools" in usable else []
    read = _Body.model_validate(
        {
            **usable,
            "model": model_id,
            "tools": tools or None,
            "tool_choice": _read_tool_choice(offered.get("tool_choice")) if tools else None,
            "include": _read_include(offered.get("include"), model),
            "reasoning": _read_reasoning(offered, model),
            "text": _read_text(offered, model),
        }
    )
    if model and model.max_output_tokens and read.max_output_tokens:
        read.max_output_tokens = min(read.max_output_tokens, model.max_output_tokens)
    body = read.model_dump(exclude_none=True)
    dropped = tuple(sorted(key for key in offered if _FIELD_OF.get(key, key) not in body))
    return RequestTemplate(body, dropped, host_tool_names)


def _supports(model: Model | None, *parameters: str) -> bool:
    """Whether the model takes one of the parameters; a model that lists none is taken to support all."""
    return not model or not model.supported_parameters or bool(model.supported_parameters & set(parameters))


# --- how values are read: None for what cannot be read


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


def _metadata(value: Any) -> dict[str, str] | None:
    """At most 16 pairs, keys of at most 64 characters without brackets, values of at most 512."""
    valid = [
        (key, text[:512])
        for key, text in as_object(value).items()
        if isinstance(text, str) and re.fullmatch(r"[^\[\]{}()]{1,64}", key)
    ]
    return dict(valid[:16]) or None


_Object = Annotated[dict[str, Any] | None, BeforeValidator(lambda value: as_object(value) or None)]
_Objects = Annotated[
    list[dict[str, Any]] | None,
    BeforeValidator(lambda value: [one for one in as_list(value) if isinstance(one, dict)] or None),
]
_Identifier = Annotated[str | None, BeforeValidator(lambda value: as_text(value)[:256] or None)]
_Flag = Annotated[bool | None, BeforeValidator(_flag)]
_Count = Annotated[int | None, BeforeValidator(_count)]
_Number = float | int | None
_Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
_EFFORTS: Final[tuple[_Effort, ...]] = get_args(_Effort)


# --- what is sent, in this order


class _WireObject(BaseModel):
    """Fields of a wire object; a value that is not one of those known is as good as absent."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _read_or_default(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value)
        except ValidationError:
            raise PydanticUseDefault from None


class _Reasoning(_WireObject):
    effort: _Effort | None = None
    max_tokens: _Count = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    enabled: _Flag = None
    context: Literal["auto", "all_turns", "current_turn"] | None = None
    mode: Literal["standard", "pro"] | None = None


class _Function(_WireObject):
    type: Literal["function"] = "function"
    name: str
    description: str | None = None
    parameters: Annotated[dict[str, Any], Field(min_length=1)] = {"type": "object", "properties": {}}
    strict: _Flag = None


class _JsonSchema(_WireObject):
    type: Literal["json_schema"] = "json_schema"
    name: str
    description: str | None = None
    content: dict[str, Any] = Field(default={}, alias="schema")
    strict: _Flag = None


class _Text(_WireObject):
    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class _Body(_WireObject):
    model: str
    models: Annotated[list[str] | None, BeforeValidator(partial(_texts, limit=3))] = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    input: tuple[()] = ()
    include: list[str] | None = None
    reasoning: _Object = None
    text: _Object = None
    max_output_tokens: _Count = Field(default=None, validation_alias=AliasChoices(*_OUTPUT_LIMITS))
    max_tool_calls: _Count = None
    stop_server_tools_when: _Objects = None
    parallel_tool_calls: _Flag = None
    temperature: Annotated[_Number, BeforeValidator(partial(_number, low=0, high=2))] = None
    top_p: Annotated[_Number, BeforeValidator(partial(_number, low=0, high=1))] = None
    top_k: Annotated[int | None, BeforeValidator(partial(_count, low=0))] = None
    top_logprobs: Annotated[int | None, BeforeValidator(partial(_count, low=0, high=20))] = None
    presence_penalty: Annotated[_Number, BeforeValidator(partial(_number, low=-2, high=2))] = None
    frequency_penalty: Annotated[_Number, BeforeValidator(partial(_number, low=-2, high=2))] = None
    stop: Annotated[
        str | list[str] | None, BeforeValidator(lambda value: as_text(value) or _texts(value, limit=4))
    ] = None
    modalities: Annotated[list[str] | None, BeforeValidator(partial(_texts, known=("text", "image")))] = None
    image_config: _Object = None
    provider: _Object = None
    plugins: _Objects = None
    service_tier: Literal["auto", "default", "fast", "flex", "priority", "scale", "ultrafast"] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt_cache_key: _Identifier = None
    prompt_cache_options: _Object = None
    cache_control: _Object = None
    session_id: _Identifier = None
    user: _Identifier = None
    safety_identifier: _Identifier = None
    metadata: Annotated[dict[str, str] | None, BeforeValidator(_metadata)] = None
    trace: _Object = None


# --- fields that combine several parameters, or depend on the model


def read_tools(value: Any) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the tools in their flat form and a fixed order, and the host's name for each that had to be changed."""
    functions: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    host_names: dict[str, str] = {}
    for given in map(as_object, as_list(value)):
        function = as_object(given.get("function")) or given
        host_name = as_text(function.get("name"))
        if given.get("type") != "function" and isinstance(given.get("type"), str):
            others.append(in_order_of_keys(given))
        elif given.get("type") == "function" and host_name:
            name = wire_name(host_name)
            parameters = in_order_of_keys(function.get("parameters"))
            read = _Function.model_validate({**function, "name": name, "parameters": parameters})
            functions.append(read.model_dump(exclude_none=True))
            if name != host_name:
                host_names[name] = host_name
    return in_order(functions, others), host_names


def _read_tool_choice(value: Any) -> str | dict[str, Any] | None:
    if isinstance(value, str):
        return value if value in ("auto", "none", "required") else None
    given = as_object(value)
    if given.get("type") != "function":
        return given or None
    name = as_text((as_object(given.get("function")) or given).get("name"))
    return {"type": "function", "name": wire_name(name)} if name else None


def _read_include(value: Any, model: Model | None) -> list[str] | None:
    """Return what to include; sealed reasoning only where the model reasons, since others refuse the request."""
    given = _texts(value, limit=10) or []
    if model is None:
        return given or None
    others = [name for name in given if name != _ENCRYPTED_REASONING]
    return [_ENCRYPTED_REASONING, *others] if model.reasons else others or None


def _read_reasoning(offered: Mapping[str, Any], model: Model | None) -> dict[str, Any] | None:
    """Return the settings of reasoning: summaries unless they are ruled out, and an effort that is supported."""
    if model and not model.reasons:
        return None
    given = as_object(offered.get("reasoning"))
    effort = given.get("effort") or offered.get("reasoning_effort")
    read = _Reasoning.model_validate({"summary": "auto" if model else None, **given, "effort": effort})
    supported = (model.supported_efforts or ()) if model else ()
    if read.effort == "none" and model and model.reasoning_is_mandatory:
        supported = supported or _EFFORTS[1:]
    if read.max_tokens:
        read.effort = None  # the two exclude each other
    elif read.effort == "none" and model and not model.reasoning_is_mandatory:
        pass  # models list the efforts of thinking alone
    elif read.effort:
        read.effort = nearest_effort(read.effort, supported) or read.effort
    return read.model_dump(exclude_none=True)


def nearest_effort(wanted: str, supported: Sequence[str]) -> _Effort | None:
    """Return the supported effort that is nearest, of two the smaller one; None where none of them is known."""
    known = [name for name in _EFFORTS if name in supported]
    if wanted not in _EFFORTS or not known:
        return None
    index = _EFFORTS.index(wanted)
    return min(known, key=lambda name: abs(_EFFORTS.index(name) - index))


def _read_text(offered: Mapping[str, Any], model: Model | None) -> dict[str, Any]:
    given = as_object(offered.get("text"))
    wanted: dict[str, Any] = {}
    if _supports(model, "response_format", "structured_outputs"):
        wanted["format"] = _read_format(as_object(given.get("format") or offered.get("response_format")))
    if _supports(model, "verbosity"):
        wanted["verbosity"] = given.get("verbosity") or offered.get("verbosity")
    return _Text.model_validate(wanted).model_dump(exclude_none=True)


def _read_format(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the output format; a schema nested as in Chat Completions is flattened."""
    if given.get("type") in ("text", "json_object"):
        return {"type": given["type"]}
    nested = as_object(given.get("json_schema")) or given
    if given.get("type") != "json_schema" or not as_object(nested.get("schema")):
        return None
    name = wire_name(as_text(nested.get("name")) or "answer")
    return _JsonSchema.model_validate({**nested, "name": name}).model_dump(exclude_none=True, by_alias=True)
