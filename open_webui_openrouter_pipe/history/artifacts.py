"""Artifacts on their way back: a stored item made valid to be sent again, or rejected, and to whom reasoning may go.

Owns the repair of items, and the rules for sealed reasoning: it is sealed by the provider that wrote it, and another
one refuses the whole request over it. A whole item is returned as it is, with its key order; repairs touch
only what the schema refuses. Source of the shapes: the input items of the OpenRouter Responses schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..responses.items import PHASES, Item, kind_of
from ..responses.values import as_text, clean, wire_name
from .parts import read_arguments, read_output, read_parts

Fields: TypeAlias = dict[str, Any]


class StoredItem(Protocol):
    """What a store returns for a marker: the item, and the OpenRouter model id that wrote it."""

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
"""No such row of this user, the seal does not open or the item is not valid, over a size limit, or the store is
unavailable.
"""


@dataclass(frozen=True, slots=True)
class MissingArtifact:
    """Why an artifact cannot be loaded, and its kind (the item's type) where it is known."""

    kind: str | None = None
    reason: MissingReason = "missing"


Artifacts: TypeAlias = Mapping[str, Item | StoredItem | MissingArtifact]
"""What was loaded, by the ULID of its marker. A plain item dict stands for one whose model is unknown."""


def normalize_persisted_item(item: Any) -> Item | None:
    """Make a stored item valid input, or None if what it needs is missing.

    Guarantees a type that the input schema knows, the fields it requires, arguments as JSON text of an
    object, a legal tool name and a legal status. A whole item is returned as the same object.
    """
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return None
    try:
        fields = clean(item)
    except RecursionError:
        return None
    if None in fields.values():
        nullable = _NULLABLE if fields["type"] == "reasoning" else ()
        kept = {key: value for key, value in fields.items() if value is not None or key in nullable}
        fields = kept if len(kept) < len(fields) else fields
    if not isinstance(fields.get("id", ""), str):
        fields = {key: value for key, value in fields.items() if key != "id"}
    normal = _NORMALIZERS.get(fields["type"], _normal_other)(fields)
    if normal is None:
        return None
    legal = kind_of(normal["type"]).statuses
    if legal and "status" in normal and normal["status"] not in legal:
        # What the schema does not know means that something went wrong: incomplete, or failed.
        normal = {**normal, "status": legal[-1]}
    return cast("Item", normal)


_NULLABLE = frozenset({"content", "encrypted_content", "signature", "format"})
"""Fields of a reasoning item in which a null may be sent back."""


def _normal_reasoning(item: Fields) -> Fields | None:
    repaired: Fields = {}
    if _is_blank(item.get("id")):
        digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()
        repaired["id"] = f"rs_{digest[:32]}"
    if not _are_texts(item.get("summary"), "summary_text"):
        repaired["summary"] = _text_parts(item.get("summary"), "summary_text")
    content = item.get("content")
    if content is not None and not _are_texts(content, "reasoning_text"):
        repaired["content"] = _text_parts(content, "reasoning_text")
    for key in ("encrypted_content", "signature", "format"):
        seal = item.get(key)
        if seal is not None and not isinstance(seal, str):
            repaired[key] = None
    return {**item, **repaired} if repaired else item


def _normal_call(item: Fields) -> Fields | None:
    if _is_blank(item.get("call_id")):
        return None
    name = wire_name(as_text(item.get("name")))
    arguments = read_arguments(item.get("arguments"))
    if name == item.get("name") and arguments == item.get("arguments"):
        return item
    return {**item, "name": name, "arguments": arguments}


def _normal_output(item: Fields) -> Fields | None:
    if _is_blank(item.get("call_id")):
        return None
    output = item.get("output")
    repaired = (read_parts(output) or "") if isinstance(output, list) else read_output(output)
    return item if repaired == output else {**item, "output": repaired}


def _normal_other(item: Fields) -> Fields | None:
    """Any other item: sent as it is if its type is known to be accepted and its required fields are there."""
    required = kind_of(item["type"]).required
    if required is None or not all(
        key in item and isinstance(item[key], kind) for key, kind in required.items()
    ):
        return None
    return None if any(_is_blank(item[key]) for key in ("id", "call_id") if key in required) else item


_NORMALIZERS: dict[str, Callable[[Fields], Fields | None]] = {
    # A stored message keeps its phase; its text is in the chat.
    "message": lambda item: item if item.get("phase") in PHASES else None,
    "reasoning": _normal_reasoning,
    "function_call": _normal_call,
    "function_call_output": _normal_output,
}


def _is_blank(value: Any) -> bool:
    return not isinstance(value, str) or not value or value.isspace()


def _are_texts(value: Any, kind: str) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, dict) and part.get("type") == kind and isinstance(part.get("text"), str)
        for part in value
    )


def _text_parts(value: Any, kind: str) -> list[Fields]:
    """What text there is, in the parts that the schema requires."""
    parts = value if isinstance(value, list) else [value]
    texts = [as_text(part.get("text") if isinstance(part, dict) else part) for part in parts]
    return [{"type": kind, "text": text} for text in texts if text]


ANTHROPIC = "anthropic"
OPENAI = "openai"
ROUTER = "openrouter"
"""Author of the ids behind which any model may answer."""

FORMAT_FAMILIES: Mapping[str, str] = {
    "anthropic-claude-v1": ANTHROPIC,
    "azure-openai-responses-v1": OPENAI,
    "bedrock-openai-responses-v1": OPENAI,
    "bedrock-xai-responses-v1": "x-ai",
    "google-gemini-v1": "google",
    "meta-responses-v1": "meta",
    "openai-responses-v1": OPENAI,
    "xai-responses-v1": "x-ai",
}
"""Who seals reasoning of a `format`; the other formats are plain text."""

_FAMILY_ALIASES = {"meta-llama": "meta"}


def model_family(model_id: str | None) -> str | None:
    """Return the family of a model: the author part of its id, None when it has none.

    Variants (`:free`), presets (`@preset/...`) and the `~` of moving aliases make no difference.
    """
    author, slash, _slug = (model_id or "").partition("/")
    author = author.removeprefix("~").lower()
    return _FAMILY_ALIASES.get(author, author) if slash and author and "@" not in author else None


def reasoning_problem(item: Mapping[str, Any], *, writer: str | None, target: str | None) -> str | None:
    """Return why reasoning cannot be sent to a model of the family `target`; None when it can.

    `writer` is the family of the model that wrote it. Without any clue of who wrote it, it is trusted.
    """
    seal_family = FORMAT_FAMILIES.get(item.get("format") or "")
    known_writer = writer if writer not in {None, ROUTER} else seal_family
    # Behind a router, who reads it is unknown: only what nobody has sealed may be sent.
    is_accepted = seal_family is None if target == ROUTER else known_writer in {None, target}
    if target is not None and not is_accepted:
        return "written by another family of models"
    style = seal_family or writer
    is_encrypted = not _is_blank(item.get("encrypted_content"))
    is_sealed = is_encrypted or not _is_blank(item.get("signature"))
    if style == ANTHROPIC and not is_sealed:
        return "has no signature"
    if style == OPENAI and not (is_encrypted or item.get("content")):
        return "has no encrypted content"
    if not (is_sealed or item.get("content") or item.get("summary")):
        return "is empty"
    return None
