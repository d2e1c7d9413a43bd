"""Judges an input by the official SDK of OpenRouter, where that is installed.

Owns the recipe that makes the SDK's models refuse what the service refuses: strict mode, the class of the item's own
type, and a round trip that must keep every key, since the models drop what they do not know. It adds the rules that no
model has: pairs of calls and outputs, names, lengths and empty messages. It imports the SDK only when asked to, since
nothing else of the package needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

_MAX_CALL_ID_CHARACTERS = 64
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with an input, and where: `path` such as `input[3].name`."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Judge:
    """The SDK's models by the type of item that each describes."""

    models: Mapping[str, Sequence[TypeAdapter[Any]]]

    def issues(self, items: Sequence[Mapping[str, Any]]) -> list[Issue]:
        """Everything that the service would refuse in this input; empty when all is well."""
        found = [issue for index, item in enumerate(items) for issue in self._item(item, f"input[{index}]")]
        return found or list(_pairing_issues(items))

    def _item(self, item: Mapping[str, Any], path: str) -> list[Issue]:
        candidates = self.models.get(item.get("type", "message"), ())
        if not candidates:
            return [Issue(f"{path}.type", f"unknown type {item.get('type')!r}")]
        fewest = min((_schema_issues(model, item, path) for model in candidates), key=len)
        return fewest or list(_rule_issues(item, path))


def sdk_judge() -> Judge | None:
    """Make a judge of the installed SDK; None when it is not installed."""
    try:
        from openrouter.components.inputs_union import InputsUnion1
    except ImportError:
        return None
    models: dict[str, list[TypeAdapter[Any]]] = {}
    for model in get_args(InputsUnion1.__value__):
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        for kind in _literals(model.model_fields["type"].annotation):
            models.setdefault(kind, []).append(adapter)
    return Judge(models)


def _literals(annotation: Any) -> list[str]:
    if isinstance(annotation, str):
        return [annotation]
    inner = getattr(annotation, "__value__", annotation)
    return [name for part in get_args(inner) for name in _literals(part)]


def _schema_issues(model: TypeAdapter[Any], item: Mapping[str, Any], path: str) -> list[Issue]:
    try:
        parsed = model.validate_json(json.dumps(item), strict=True)
    except ValidationError as error:
        issues = []
        for found in error.errors():
            steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in found["loc"])
            issues.append(Issue(path + "".join(steps), found["msg"]))
        return issues
    return list(_round_trip_issues(item, model.dump_python(parsed, by_alias=True, mode="json"), path))


def _round_trip_issues(sent: Any, back: Any, path: str) -> Iterator[Issue]:
    if isinstance(sent, dict) and isinstance(back, dict):
        for key, value in sent.items():
            if key in back:
                yield from _round_trip_issues(value, back[key], f"{path}.{key}")
            else:
                yield Issue(f"{path}.{key}", "must not be null" if value is None else "unknown key or value")
    elif isinstance(sent, list) and isinstance(back, list) and len(sent) == len(back):
        for index, (one, other) in enumerate(zip(sent, back, strict=True)):
            yield from _round_trip_issues(one, other, f"{path}[{index}]")
    elif sent != back or isinstance(sent, bool) is not isinstance(back, bool):
        yield Issue(path, "is not what the schema makes of it")


def _rule_issues(item: Mapping[str, Any], path: str) -> Iterator[Issue]:
    if "call_id" in item and not 1 <= len(item["call_id"]) <= _MAX_CALL_ID_CHARACTERS:
        yield Issue(f"{path}.call_id", f"must have 1 to {_MAX_CALL_ID_CHARACTERS} characters")
    if item.get("type") == "function_call" and not _TOOL_NAME.fullmatch(item["name"]):
        yield Issue(f"{path}.name", "is not a legal name of a tool")
    if item.get("type", "message") != "message":
        return
    content = item.get("content")
    kinds = {part["type"] for part in content} if isinstance(content, list) else set()
    if not content:
        yield Issue(f"{path}.content", "must not be empty")
    if item["role"] == "assistant" and any(kind.startswith("input_") for kind in kinds):
        yield Issue(f"{path}.content", "an assistant's parts are output_text or refusal")
    if kinds & {"output_text", "refusal"} and "status" not in item:
        yield Issue(f"{path}.status", "is required")


def _pairing_issues(items: Sequence[Mapping[str, Any]]) -> Iterator[Issue]:
    """Each call has one later output, each output one earlier call."""
    calls: dict[str, int] = {}
    answered: set[str] = set()
    for index, item in enumerate(items):
        call_id, path = item.get("call_id", ""), f"input[{index}].call_id"
        if item.get("type") == "function_call":
            if call_id in calls:
                yield Issue(path, f"the call {call_id} was made before")
            calls.setdefault(call_id, index)
        elif item.get("type") == "function_call_output":
            if call_id not in calls:
                yield Issue(path, f"there is no call {call_id} before this output")
            if call_id in answered:
                yield Issue(path, f"the call {call_id} was answered before")
            answered.add(call_id)
    for call_id, index in calls.items():
        if call_id not in answered:
            yield Issue(f"input[{index}].call_id", f"the call {call_id} has no output")
