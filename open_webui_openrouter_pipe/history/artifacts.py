"""Artifacts on their way back: a stored item made valid to be sent again, or rejected, and to whom reasoning may go.

Owns the repair of items, and the rules for sealed reasoning: it is sealed by the provider that wrote it, and another
one refuses the whole request over it. A whole item is returned as it is, with its key order; repairs touch
only what the schema refuses. Source of the shapes: the input items of the OpenRouter Responses schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from ..conversation.conversation import content_digest
from ..responses.items import PHASES, Item, kind_of
from ..responses.values import as_object, as_text, clean, wire_name
from .parts import read_arguments, read_output, read_parts

Fields: TypeAlias = dict[str, Any]

_NAME_CHARACTERS = 16


class StoredItem(Protocol):
    """What a store returns for a marker: the item, and who wrote it under which instructions."""

    @property
    def item(self) -> Item:
        """The item as the provider sent it."""

    @property
    def model(self) -> str | None:
        """The OpenRouter id of the model that wrote it, None when unknown."""

    @property
    def provider(self) -> str:
        """The provider that served that model, "" when unknown."""

    @property
    def prompt(self) -> str:
        """The name of the system prompt that it was written under (`prompt_name`), "" when unknown."""

    @property
    def before(self) -> str:
        """The chain digest before its turn, in hexadecimal digits, "" when unknown."""


@dataclass(frozen=True, slots=True)
class LoadedArtifact:
    """An item and who wrote it, as `StoredItem` says."""

    item: Item
    model: str | None = None
    provider: str = ""
    prompt: str = ""
    before: str = ""


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

PROVIDER_BOUND = frozenset({"google"})
"""Makers whose signatures hold at the provider alone that wrote them: Vertex does not take those of AI Studio.

Their models refuse a running turn's calls without them.
"""

_FAMILY_ALIASES = {"meta-llama": "meta"}


def model_family(model_id: str | None) -> str | None:
    """Return the family of a model: the author part of its id, None when it has none.

    Variants (`:free`), presets (`@preset/...`) and the `~` of moving aliases make no difference.
    """
    author, slash, _slug = (model_id or "").partition("/")
    author = author.removeprefix("~").lower()
    return _FAMILY_ALIASES.get(author, author) if slash and author and "@" not in author else None


def plain_id(model_id: str | None) -> str:
    """Return the id of a model without variant and preset, "" for none."""
    return (model_id or "").partition("@")[0].partition(":")[0]


def maker_of(item: Any) -> str | None:
    """Return the family that seals reasoning of this item's format, None for plain text and unknown formats."""
    return FORMAT_FAMILIES.get(as_text(as_object(item).get("format")))


def prompt_name(instructions: Sequence[Item]) -> str:
    """Return the name of a system prompt as it is sent: a digest of its content."""
    return content_digest(list(instructions)).hex()[:_NAME_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads reasoning: the model that is asked, or one of the `fallbacks` in its place.

    `never_reasons` is what the catalogue says of the model that is asked, `prompt` the name of the system prompt that
    is sent, `provider` who served last under another one, "" where they are unknown.
    """

    model_id: str | None = None
    fallbacks: tuple[str, ...] = ()
    never_reasons: bool = False
    prompt: str = ""
    provider: str = ""

    @property
    def family(self) -> str | None:
        """The family of the model that is asked, None where reasoning is not judged by it."""
        return model_family(self.model_id)

    def may_be(self, writer: str | None) -> bool:
        """Whether the model that wrote may be the one that reads: the same, or any behind a router or a preset."""
        if writer == self.model_id or self.family in {None, ROUTER}:
            return True
        asked = () if self.never_reasons else (self.model_id,)
        family = model_family(writer)
        return family is not None and family in map(model_family, (*asked, *self.fallbacks))

    def problem(self, stored: StoredItem, *, is_running: bool) -> str | None:
        """Return why stored reasoning cannot be sent; None when it can.

        In the running turn it goes back to whoever may have written it: a provider refuses a tool result whose call
        lacks its reasoning. Without any clue of who wrote it, it is trusted.
        """
        item: Mapping[str, Any] = stored.item
        goes_back = is_running and self.may_be(stored.model)
        problem = None if goes_back else self._refusal(stored, maker_of(item))
        return problem or _incomplete(item, self.writer_family(stored.model))

    def writer_family(self, model: str | None) -> str | None:
        """Return the family of a model that wrote; of the model that is asked, as its id is judged here."""
        return self.family if model is not None and model == self.model_id else model_family(model)

    def _refusal(self, stored: StoredItem, maker: str | None) -> str | None:
        """Why the model would refuse it. Formats decide, and names of families only where a format is not known."""
        if self.family is not None and self.never_reasons:
            return "for a model that does not reason"
        family = self.writer_family(stored.model)
        known = maker or (None if family == ROUTER else family)
        # of an answer that broke off nobody has said which of the fallbacks wrote it
        others = {*map(model_family, self.fallbacks)} - {self.family, None}
        is_same = plain_id(stored.model) == plain_id(self.model_id) and maker not in others
        # Behind a router, who reads it is unknown: only what nobody has sealed may be sent.
        is_accepted = maker is None if self.family == ROUTER else is_same or known in {None, self.family}
        if self.family is not None and not is_accepted:
            return "written by another family of models"
        is_open = maker is None and stored.item.get("content") and not _is_sealed(stored.item)
        if is_open and self.family == family == OPENAI and not is_same:
            return "shown openly by another model"
        # With the system prompt all that follows is read anew, so that nothing is lost with what cannot be valid.
        if "" in {stored.prompt, self.prompt} or stored.prompt == self.prompt:
            return None
        if maker == ANTHROPIC:  # it binds thinking to the system prompt
            return "written under another system prompt"
        is_elsewhere = maker in PROVIDER_BOUND and "" not in {stored.provider, self.provider}
        return "sealed at another provider" if is_elsewhere and stored.provider != self.provider else None


def _is_sealed(item: Mapping[str, Any]) -> bool:
    return not all(map(_is_blank, map(item.get, ("encrypted_content", "signature"))))


def _incomplete(item: Mapping[str, Any], writer: str | None) -> str | None:
    """What reasoning lacks that its provider asks for; `writer` is the family of the model that wrote it."""
    maker = maker_of(item)
    style = maker or writer
    is_sealed = _is_sealed(item)
    if not is_sealed and (style == ANTHROPIC or maker in PROVIDER_BOUND):
        return "has no signature"
    if (maker or style == OPENAI) and not (is_sealed or item.get("content")):
        return "has no encrypted content"
    if not (is_sealed or item.get("content") or item.get("summary")):
        return "is empty"
    return None
