"""Artifacts on their way back: a stored item made fit to be sent again, or found to be unfit.

Owns what each type of item must have. An item that is whole is given back as it is, with its key order;
mending touches only what the schema refuses. Source of the shapes: the input items of the OpenRouter
Responses schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..responses.items import Item
from ..responses.text import clean
from ..responses.tool_names import wire_name
from .parts import read_arguments, read_output, read_parts

Fields: TypeAlias = dict[str, Any]


class StoredItem(Protocol):
    """What a store gives back for a marker: the item, and the OpenRouter model id that wrote it."""

    @property
    def item(self) -> Item:
        """The item as the provider sent it."""

    @property
    def model(self) -> str | None:
        """The model that wrote it, None when unknown."""


@dataclass(frozen=True, slots=True)
class LoadedArtifact:
    """An item and the OpenRouter model id that wrote it, None when unknown."""

    item: Item
    model: str | None = None


MissingReason = Literal["missing", "unreadable", "too_large", "unavailable"]
"""No such row of this user, the seal does not open, over a size limit, or the store is unavailable."""


@dataclass(frozen=True, slots=True)
class MissingArtifact:
    """Why an artifact cannot be had, and its kind (the item's type) where the store knows it."""

    kind: str | None = None
    reason: MissingReason = "missing"


Artifacts: TypeAlias = Mapping[str, Item | StoredItem | MissingArtifact]
"""What was loaded, by the ULID of its marker. A plain item dict stands for one whose model is unknown."""


def normalize_persisted_item(item: Any) -> Item | None:
    """Make a stored item valid input, or None if what it needs is missing.

    Guarantees a type that the input schema knows, the fields it requires, arguments as JSON text of an
    object, a legal tool name and a legal status. A whole item comes back as the same object.
    """
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return None
    try:
        fields = _with_text_id(_without_nulls(clean(item)))
    except RecursionError:
        return None
    normal = _NORMALIZERS.get(fields["type"], _opaque)(fields)
    return cast("Item", _with_legal_status(normal)) if normal is not None else None


_NULLABLE = frozenset({"content", "encrypted_content", "signature", "format"})
"""Fields of a reasoning item in which a null may be sent back."""


def _without_nulls(item: Fields) -> Fields:
    if None not in item.values():
        return item
    kept = _NULLABLE if item["type"] == "reasoning" else frozenset()
    if not any(value is None and key not in kept for key, value in item.items()):
        return item
    return {key: value for key, value in item.items() if value is not None or key in kept}


def _with_text_id(item: Fields) -> Fields:
    if isinstance(item.get("id", ""), str):
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _reasoning(item: Fields) -> Fields | None:
    wanted: Fields = {}
    if not _is_word(item.get("id")):
        digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()
        wanted["id"] = f"rs_{digest[:32]}"
    if not _is_texts(item.get("summary"), "summary_text"):
        wanted["summary"] = _texts(item.get("summary"), "summary_text")
    if "content" in item and item["content"] is not None and not _is_texts(item["content"], "reasoning_text"):
        wanted["content"] = _texts(item["content"], "reasoning_text")
    for key in ("encrypted_content", "signature", "format"):
        seal = item.get(key)
        if seal is not None and not isinstance(seal, str):
            wanted[key] = None
    return {**item, **wanted} if wanted else item


def _function_call(item: Fields) -> Fields | None:
    if not _is_word(item.get("call_id")):
        return None
    given = item.get("name")
    name = wire_name(given if isinstance(given, str) else "")
    arguments = read_arguments(item.get("arguments"))
    if name == given and arguments == item.get("arguments"):
        return item
    return {**item, "name": name, "arguments": arguments}


def _function_call_output(item: Fields) -> Fields | None:
    if not _is_word(item.get("call_id")):
        return None
    output = item.get("output")
    mended = (read_parts(output) or "") if isinstance(output, list) else read_output(output)
    return item if mended == output else {**item, "output": mended}


def _opaque(item: Fields) -> Fields | None:
    """Any other item: sent as it is if its type is known to be accepted and its required fields are there."""
    required = REQUIRED_FIELDS.get(item["type"])
    if required is None or not all(
        key in item and isinstance(item[key], kind) for key, kind in required.items()
    ):
        return None
    return item


def _message(item: Fields) -> Fields | None:
    """A stored message stands for its phase; its text is in the chat."""
    return item if isinstance(item.get("phase"), str) else None


_NORMALIZERS: dict[str, Callable[[Fields], Fields | None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _function_call_output,
}

_SERVER_TOOLS = (
    "advisor", "apply_patch", "bash", "browser_use", "code_interpreter", "experimental__search_models",
    "file_search", "files", "fusion", "image_generation", "mcp", "memory", "shell", "subagent", "text_editor",
    "tool_search", "web_fetch", "web_search",
)  # fmt: skip

REQUIRED_FIELDS: Mapping[str, Mapping[str, type]] = {
    "apply_patch_call": {"call_id": str, "operation": dict, "status": str},
    "apply_patch_call_output": {"call_id": str, "status": str},
    "code_interpreter_call": {"id": str, "status": str},
    "compaction": {"encrypted_content": str},
    "computer_call": {"call_id": str, "pending_safety_checks": list, "status": str},
    "context_compaction": {},
    "custom_tool_call": {"call_id": str, "input": str, "name": str},
    "custom_tool_call_output": {"call_id": str, "output": object},
    "file_search_call": {"id": str, "queries": list, "status": str},
    "image_generation_call": {"id": str, "status": str},
    "local_shell_call": {"action": dict, "call_id": str, "id": str, "status": str},
    "mcp_approval_request": {"arguments": str, "id": str, "name": str, "server_label": str},
    "mcp_call": {"arguments": str, "id": str, "name": str, "server_label": str},
    "mcp_list_tools": {"id": str, "server_label": str, "tools": list},
    "openrouter:datetime": {"datetime": str, "status": str, "timezone": str},
    "shell_call": {"action": dict, "call_id": str},
    "shell_call_output": {"call_id": str, "output": list},
    "tool_search_call": {"call_id": str, "execution": str},
    "tool_search_output": {"call_id": str, "execution": str, "tools": list},
    "web_search_call": {"id": str, "status": str},
    **{f"openrouter:{tool}": {"status": str} for tool in _SERVER_TOOLS},
}
"""The other items that the input schema accepts, with what each requires."""

_STATUSES = ("in_progress", "completed", "incomplete")
_OTHER_STATUSES: Mapping[str, tuple[str, ...]] = {
    "apply_patch_call": ("in_progress", "completed"),
    "apply_patch_call_output": ("completed", "failed"),
    "file_search_call": ("in_progress", "completed", "failed"),
    "image_generation_call": ("in_progress", "completed", "failed"),
    "web_search_call": ("in_progress", "completed", "failed"),
}
_WITHOUT_STATUS = frozenset(
    {
        "compaction",
        "context_compaction",
        "custom_tool_call_output",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
    }
)


def _with_legal_status(item: Fields) -> Fields:
    """A status that the schema does not know says that something went wrong: incomplete, or failed."""
    if "status" not in item or item["type"] in _WITHOUT_STATUS:
        return item
    legal = _OTHER_STATUSES.get(item["type"], _STATUSES)
    return item if item["status"] in legal else {**item, "status": legal[-1]}


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Any, kind: str) -> bool:
    if not isinstance(value, list):
        return False
    for part in value:
        if not (isinstance(part, dict) and part.get("type") == kind and isinstance(part.get("text"), str)):
            return False
    return True


def _texts(value: Any, kind: str) -> list[Fields]:
    """What text there is, in the parts that the schema wants."""
    parts = value if isinstance(value, list) else [value]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [{"type": kind, "text": text} for text in texts if isinstance(text, str) and text]
