"""What holds for every valve: a text that says its default, unit and range, and how what is stored is read.

Open WebUI shows title and description of a field, but neither its default nor its limits. A field's
`json_schema_extra` may name its `unit`, and what an empty or zero default `stands_for`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_EXPLAINED = 5
"""How many errors are explained: a line of more is not read."""

_OWN_KEYS = ("unit", "stands_for")


def _complete(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Have the schema that Open WebUI shows say each default and range, and keep what is ours out of it."""
    for name, field in model.model_fields.items():
        shown = schema["properties"][name]
        limits = _limits(field)
        default = f"{default_of(field)}{f' ({limits})' if limits else ''}"
        shown["description"] = f"{field.description} **Default:** {default}."
        for key in _OWN_KEYS:
            shown.pop(key, None)


class ValveFields(BaseModel):
    """The base of the classes of valves."""

    model_config = ConfigDict(
        hide_input_in_errors=True,  # the host logs them, and an input may be a key
        allow_inf_nan=False,
        json_schema_extra=_complete,
    )
    _unreadable: tuple[str, ...] = PrivateAttr(default=())

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The names of stored values that could not be read, and have their defaults."""
        return self._unreadable


def default_of(field: FieldInfo) -> str:
    """Return a field's default for people to read, with its unit, such as `90 days`."""
    value, stands_for = field.default, _extra(field, "stands_for")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        unit = _extra(field, "unit")
        return f"{value:g}{' ' if unit else ''}{unit}{', ' if stands_for else ''}{stands_for}"
    return stands_for or f"`{value}`"


def _limits(field: FieldInfo) -> str:
    """The range of a number, "" for anything else."""
    kinds: dict[type, Any] = {type(each): each for each in field.metadata}
    low, above, high = kinds.get(Ge), kinds.get(Gt), kinds.get(Le)
    if above:
        return f"above {above.gt:g}" + (f", up to {high.le:g}" if high else "")
    if low:
        return f"{low.ge:g} to {high.le:g}" if high else f"{low.ge:g} or more"
    return ""


def _extra(field: FieldInfo, key: str) -> str:
    extra = field.json_schema_extra
    return cast("str", extra.get(key, "")) if isinstance(extra, dict) else ""


def allowed(field: FieldInfo) -> str:
    """Return which values a field takes, as words."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(field.annotation)))
    words = {bool: "true or false", int: "a whole number", float: "a number"}
    limits = _limits(field)
    return words.get(cast("type", field.annotation), "text") + (f", {limits}" if limits else "")


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Return what is wrong: each field by name, with what it takes, and no value."""
    errors = error.errors(include_url=False, include_input=False)
    more = [f"and {len(errors) - _EXPLAINED} more"] if len(errors) > _EXPLAINED else []
    return "; ".join([*(_wrong(each, model) for each in errors[:_EXPLAINED]), *more])


def _wrong(error: ErrorDetails, model: type[BaseModel]) -> str:
    name = str(error["loc"][0])
    if error["type"] == "value_error":
        return f"{name}: {error['ctx']['error']}"
    if error["type"] != "extra_forbidden":
        return f"{name} takes {allowed(model.model_fields[name])}"
    known = difflib.get_close_matches(name[:100].upper(), model.model_fields, n=1)
    return f"there is no {name[:100]} here" + (f", perhaps {known[0]}" if known else "")


def readable(model: type[BaseModel], stored: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return those of the stored values that the class takes, and the names of the others."""
    try:
        model.model_validate(stored)
    except ValidationError as error:
        wrong = tuple(dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_input=False)))
        return {name: value for name, value in stored.items() if name not in wrong}, wrong
    return dict(stored), ()
