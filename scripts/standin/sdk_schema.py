"""The official SDK as a strict judge of wire values.

Owns the recipe that makes the SDK's models refuse what the service refuses: strict mode, the concrete class
instead of an open union, and a round trip that must bring every key back unchanged. A plain
``model_validate`` proves nothing, since open enums, dropped keys and the all-swallowing ``Unset`` let bad
values pass in silence. It must not know the limits and rules that the models do not carry; those stand in
``validate``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, get_args

from openrouter.components.inputs_union import InputsUnion1
from openrouter.components.outputitems import _OUTPUT_ITEMS_VARIANTS
from openrouter.components.responsesrequest import ResponsesRequest, ResponsesRequestToolUnion
from openrouter.components.streamevents import _STREAM_EVENTS_VARIANTS
from pydantic import BaseModel, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Issue = dict[str, Any]
Path = tuple[str | int, ...]
Classes = Mapping[str, tuple[type[BaseModel], ...]]

KNOWN_ITEMS = 2_000
"""How many items are not judged anew: a chat sends its old ones again with each request."""
NULLABLE_BY_DOCUMENTATION = frozenset({"previous_response_id"})
REQUEST_FIELDS = frozenset(
    field.alias or name for name, field in ResponsesRequest.model_fields.items() if name != "STORE"
) | {"store"}


def request_issues(body: dict[str, Any]) -> list[Issue]:
    """What is wrong with a request; unknown top-level keys are not judged."""
    known = {key: value for key, value in body.items() if key in REQUEST_FIELDS}
    given, tools = known.pop("input", None), known.pop("tools", [])
    issues = against(ResponsesRequest, known, ())
    if not isinstance(given, str | list):
        issues.append(issue(("input",), "Expected string or array"))
    if not isinstance(tools, list):
        issues.append(issue(("tools",), "Expected array"))
    for index, item in enumerate(given if isinstance(given, list) else []):
        issues += [
            {**each, "path": ["input", index, *each["path"]]} for each in _known_issues(json.dumps(item))
        ]
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        issues += _tagged(tool, ("tools", index), _tool_classes())
    return issues


@lru_cache(KNOWN_ITEMS)
def _known_issues(item: str) -> list[Issue]:
    return item_issues(json.loads(item))


def item_issues(item: Any) -> list[Issue]:
    """What is wrong with one input item."""
    return _tagged(item, (), _input_classes(), default="message")


def event_issues(event: Any) -> list[Issue]:
    """What is wrong with one stream event."""
    return _tagged(event, (), {kind: (model,) for kind, model in _STREAM_EVENTS_VARIANTS.items()})


def output_item_issues(item: Any) -> list[Issue]:
    """What is wrong with one output item."""
    return _tagged(item, (), {kind: (model,) for kind, model in _OUTPUT_ITEMS_VARIANTS.items()})


def against(model: Any, value: Any, at: Path) -> list[Issue]:
    """What is wrong with a value meant for one class of the SDK: zod-like issues, empty when all is well."""
    try:
        parsed = _adapter(model).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return [issue((*at, *found["loc"]), found["msg"], code=found["type"]) for found in error.errors()]
    shown = _adapter(model).dump_python(parsed, by_alias=True, mode="json")
    return list(_lost(value, shown, at))


def _tagged(value: Any, at: Path, classes: Classes, *, default: str | None = None) -> list[Issue]:
    kind = value.get("type", default) if isinstance(value, dict) else None
    judged = [against(model, value, at) for model in classes.get(str(kind), ())]
    invalid = issue((*at, "type"), f"Invalid discriminator {kind!r}", code="invalid_union_discriminator")
    return min(judged, key=len, default=[invalid])


def _lost(sent: Any, back: Any, at: Path) -> Iterator[Issue]:
    """What the SDK drops or changes; a number may come back as another kind of number, a boolean may not."""
    match sent, back:
        case dict(), dict():
            for key, value in sent.items():
                if key in back:
                    yield from _lost(value, back[key], (*at, key))
                elif value is not None or at or key not in NULLABLE_BY_DOCUMENTATION:
                    yield issue((*at, key), "Unrecognized key or invalid value")
        case list(), list() if len(sent) == len(back):
            for index, pair in enumerate(zip(sent, back, strict=True)):
                yield from _lost(*pair, (*at, index))
        case _ if sent != back or isinstance(sent, bool) is not isinstance(back, bool):
            yield issue(at, "Invalid value", code="invalid_value")


def issue(path: Path, message: str, *, code: str = "invalid_union") -> Issue:
    """One fault as the service names it: its code, where it is, and what is wrong."""
    return {"code": code, "path": list(path), "message": message}


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


@cache
def _input_classes() -> Classes:
    return _by_type(get_args(InputsUnion1.__value__))


@cache
def _tool_classes() -> Classes:
    return _by_type(get_args(member)[0] for member in get_args(get_args(ResponsesRequestToolUnion)[0]))


def _by_type(models: Iterable[type[BaseModel]]) -> Classes:
    grouped: dict[str, tuple[type[BaseModel], ...]] = {}
    for model in models:
        for kind in _literals(model.model_fields["type"].annotation):
            grouped[kind] = (*grouped.get(kind, ()), model)
    return grouped


def _literals(annotation: Any) -> list[str]:
    if isinstance(annotation, str):
        return [annotation]
    inner = getattr(annotation, "__value__", annotation)
    return [name for part in get_args(inner) for name in _literals(part)]
