"""Which reasoning may be sent back to which model.

Reasoning is sealed by the provider that wrote it, and another one refuses the whole request over it. Owns
the rules: families of models, what a seal needs, and what goes with a piece that has to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

_ALIASES = {"meta-llama": "meta"}


def family(model_id: str | None) -> str | None:
    """Give the family of a model: the author part of its id, None when it has none.

    Variants (`:free`), presets (`@preset/...`) and the `~` of moving aliases make no difference.
    """
    author, slash, _slug = (model_id or "").partition("/")
    author = author.removeprefix("~").lower()
    return _ALIASES.get(author, author) if slash and author and "@" not in author else None


def unusable(item: Mapping[str, Any], *, writer: str | None, target: str | None) -> str | None:
    """Say why reasoning cannot be sent to a model of the family `target`; None when it can.

    `writer` is the family of the model that wrote it. Without any clue of who wrote it, it is trusted.
    """
    seal_family = FORMAT_FAMILIES.get(item.get("format") or "")
    if not _same_family(writer, seal_family, target):
        return "written by another family of models"
    style = seal_family or writer
    if style == ANTHROPIC and not _is_sealed(item):
        return "has no signature"
    if style == OPENAI and not (_has_seal(item, "encrypted_content") or item.get("content")):
        return "has no encrypted content"
    if not (_is_sealed(item) or item.get("content") or item.get("summary")):
        return "is empty"
    return None


def _same_family(writer: str | None, seal: str | None, target: str | None) -> bool:
    if target is None:
        return True
    if target == ROUTER:
        return seal is None
    if writer is not None and writer != ROUTER:
        return writer == target
    return seal is None or seal == target


def _is_sealed(item: Mapping[str, Any]) -> bool:
    return _has_seal(item, "signature") or _has_seal(item, "encrypted_content")


def _has_seal(item: Mapping[str, Any], key: str) -> bool:
    """A blank seal counts as none."""
    seal = item.get(key)
    return isinstance(seal, str) and bool(seal.strip())
