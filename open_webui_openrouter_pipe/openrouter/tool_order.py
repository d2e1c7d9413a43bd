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
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..responses.wire import as_list, as_text

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
