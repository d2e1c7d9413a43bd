"""What a model's row in Open WebUI says of it, and which of that may be written over what the row says already.

Pure. A row keeps under a key of ours a digest of each field as we wrote it last: a field whose value differs from
that is an administrator's, and stays. Source: `ModelForm` and `ModelMeta` in `models/models.py` of Open WebUI 0.12,
and the capabilities in `utils/middleware.py` and `utils/tools.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ..ports import Model
from ..responses.wire import as_object, as_text
from .icons import icon

LONG_CONTEXT_TOKENS: Final = 500_000
"""From where on a model is tagged for its long context."""

WRITTEN: Final = "openrouter_pipe"
"""The key of a row's `meta` under which the digests are."""

_NAME: Final = "name"
_ICON: Final = "profile_image_url"
_CAPABILITY: Final = "capabilities."
_DESCRIPTION_CHARACTERS: Final = 300
_DEFAULT_ICON: Final = "/static/favicon.png"
"""What the page writes where a row has no icon, or where it has not loaded the row's own."""
_MARKUP: Final = re.compile(r"!?\[([^\[\]]*+)\]\((?:[^()]|\([^()]*+\))*+\)|<[^<>]*+>")
"""A link or a picture, of which the text is kept, and a tag."""


@dataclass(frozen=True, slots=True)
class RowInfo:
    """What is ours to fill of a row: its name, and its `meta` with all else that is in there."""

    name: str
    meta: Mapping[str, Any]


def model_fields(model: Model, defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a model's row, those inside the capabilities by `capabilities.NAME`.

    `defaults` are the capabilities that an administrator has set for all models: what is off there stays off.
    """
    slug = model.id.partition("/")[0].removeprefix("~") or model.id
    provider = (model.name.partition(": ")[0].strip() if ": " in model.name else "") or slug
    allowed = {name: can and defaults.get(name) is not False for name, can in _capabilities(model).items()}
    description = _description(model)
    return {
        _NAME: model.name,
        **({"description": description} if description else {}),
        _ICON: icon(slug, provider),
        "tags": [{"name": tag} for tag in _tags(model, provider)],
        **{f"{_CAPABILITY}{name}": can for name, can in allowed.items()},
    }


def new_row(fields: Mapping[str, Any]) -> RowInfo:
    """Return the row of a model that had none."""
    return _with_fields(RowInfo("", {}), fields, {})


def updated_row(row: RowInfo, fields: Mapping[str, Any]) -> RowInfo | None:
    """Return the row with the fields that nobody else has written, None where that changes nothing."""
    written = as_object(row.meta.get(WRITTEN))
    ours = {
        field: value
        for field, value in fields.items()
        if _is_ours(field, _value_of(row, field), written.get(field))
    }
    updated = _with_fields(row, ours, written)
    return updated if ours and updated != row else None


def _is_ours(field: str, value: Any, written: str | None) -> bool:
    """Whether nobody has written the field, or we have."""
    if value is None:
        return written is None or field == _ICON
    return _digest(value) == written


def _value_of(row: RowInfo, field: str) -> Any:
    """What stands in a field, None for all that means nothing."""
    if field == _NAME:
        return row.name or None
    if field.startswith(_CAPABILITY):
        return as_object(row.meta.get("capabilities")).get(field.removeprefix(_CAPABILITY))
    value = row.meta.get(field)
    if field == _ICON and as_text(value).endswith(_DEFAULT_ICON):
        return None
    return value or None


def _with_fields(row: RowInfo, fields: Mapping[str, Any], written: Mapping[str, Any]) -> RowInfo:
    capabilities = {
        field.removeprefix(_CAPABILITY): value
        for field, value in fields.items()
        if field.startswith(_CAPABILITY)
    }
    meta = {
        **row.meta,
        **{field: value for field, value in fields.items() if field != _NAME and "." not in field},
        **({"capabilities": as_object(row.meta.get("capabilities")) | capabilities} if capabilities else {}),
        WRITTEN: {**written, **{field: _digest(value) for field, value in fields.items()}},
    }
    return RowInfo(fields.get(_NAME, row.name), meta)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _capabilities(model: Model) -> dict[str, bool]:
    """What a chat with the model can do.

    Open WebUI gives its search, its interpreter and its other tools to a model by function calls. Documents reach
    every model: as they are, through OpenRouter's parser, or as the host's own text.
    """
    calls_tools = not model.supported_parameters or "tools" in model.supported_parameters
    return {
        "vision": model.reads("image"),
        "file_upload": True,
        "image_generation": model.draws or calls_tools,
        "web_search": calls_tools,
        "code_interpreter": calls_tools,
        "builtin_tools": calls_tools,
    }


def _tags(model: Model, provider: str) -> Iterator[str]:
    yield provider
    is_tagged = {
        "free": model.is_free,
        "reasoning": model.reasons,
        "vision": "image" in model.input_modalities,
        "tools": "tools" in model.supported_parameters,
        "images": model.draws,
        "long context": (model.context_tokens or 0) >= LONG_CONTEXT_TOKENS,
        "expiring": bool(model.expires),
    }
    yield from (tag for tag, is_so in is_tagged.items() if is_so)


def _description(model: Model) -> str:
    """Context, prices and the day of withdrawal, then the beginning of the catalogue's text, in one paragraph."""
    facts = []
    if model.context_tokens:
        facts.append(f"Context: {model.context_tokens:,} tokens.")
    if model.is_free:
        facts.append("Free.")
    elif model.price_input is not None and model.price_output:
        prices = f"{_per_million(model.price_input)} in, {_per_million(model.price_output)} out"
        facts.append(f"Price per million tokens: {prices}.")
    if model.expires:
        facts.append(f"Withdrawn on {model.expires}.")
    text = _beginning(_plain(model.description))
    return " ".join(part for part in (*facts, text) if part)


def _plain(text: str) -> str:
    """A text in one line for which no browser fetches anything: what is left of pictures and tags is broken up."""
    return " ".join(_MARKUP.sub(r"\1", text).replace("![", "! [").replace("<", "< ").split())


def _per_million(price: float) -> str:
    """Dollars, to three digits that count."""
    return f"${Decimal(f'{price * 1_000_000:.3g}'):f}"


def _beginning(text: str) -> str:
    """Whole sentences, or words if the first sentence is too long."""
    if len(text) <= _DESCRIPTION_CHARACTERS:
        return text
    head = text[: _DESCRIPTION_CHARACTERS - 1]
    sentences = head.rpartition(". ")[0]
    return f"{sentences}." if sentences else f"{head.rpartition(' ')[0] or head}…"
