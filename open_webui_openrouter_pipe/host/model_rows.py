"""The rows that Open WebUI keeps of our models: what they say, who may use them, and when they are written.

What an administrator edits stays theirs: beside the values that we have written a row holds their digests. Owns the
icons, and reads the parameters that administrators set: the host merges them with the user's own before it calls a
pipe, so that the body does not say whose they are. Source: `main.py: chat_completion`, `utils/misc.py:
merge_model_params` and `utils/payload.py` of Open WebUI 0.12.
"""

from __future__ import annotations

import asyncio
import base64
import colorsys
import hashlib
import io
import json
import logging
import re
import sys
import time
import uuid
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal, Protocol

from sqlalchemy.exc import SQLAlchemyError

from ..errors import StoreUnavailable
from ..ports import Model
from ..responses.values import as_object, as_text, read_json
from .call import Call
from .switches import AUTHOR, SWITCHES, with_switches

AccessFor = Literal["new", "all"]
Grant = tuple[str, ...]
"""Kind and id of whom it is for, and what is permitted."""

PRIVATE: Final = "private"
PUBLIC: Final = "public"

_LEASE: Final = "model rows"
_LEASE_SECONDS: Final = 10 * 60.0
_RETRY_SECONDS: Final = 60.0
_PAGE_ROWS: Final = 50
"""So many rows that no transaction holds up a chat for long."""
_GRANT_FIELDS: Final = ("principal_type", "principal_id", "permission")
_COMMENT: Final = "From OpenRouter's list of models"
"""What the row's history in Open WebUI says of our versions."""

WRITTEN: Final = "openrouter_pipe"
"""The key of a row's `meta` under which the digests are."""
MARKED_PRICES: Final = (1.0, 3.0)
"""Dollars for a million tokens of input up to which a model is marked "$" and "$$": median and upper quartile of the
priced models whose rows were recorded.
"""
LONG_CONTEXT_TOKENS: Final = 500_000
"""From where on a model is tagged for its long context."""

_NAME: Final = "name"
_ICON: Final = "profile_image_url"
_HIDDEN: Final = "hidden"
_CAPABILITY: Final = "capabilities."
_DESCRIPTION_CHARACTERS: Final = 300
_DOLLAR: Final = "$\u2060"
"""With a word joiner, so that the page does not take two of them for the ends of a formula."""
_DEFAULT_ICON: Final = "/static/favicon.png"
"""What the page writes where a row has no icon, or where it has not loaded the row's own."""
_MARKUP: Final = re.compile(r"!?\[([^\[\]]*+)\]\((?:[^()]|\([^()]*+\))*+\)|<[^<>]*+>")
"""A link or a picture, of which the text is kept, and a tag."""

SIZE_PIXELS: Final = 48

_LETTER_PIXELS: Final = 30
_SHADES: Final = 16
"""As many as four bits can number, from the colour alone to white."""
_UNKNOWN: Final = "-"

_COLOURS: Final = {
    "amazon": "e68a00",
    "anthropic": "d07250",
    "cohere": "3e6b58",
    "deepseek": "4d6bfe",
    "google": "3b7ded",
    "meta-llama": "0a6ae8",
    "microsoft": "0078d4",
    "minimax": "e0384a",
    "mistralai": "f4660f",
    "moonshotai": "2b3350",
    "nvidia": "6a9f10",
    "openai": "0f8a6d",
    "openrouter": "6467f2",
    "perplexity": "20808d",
    "qwen": "615ced",
    "x-ai": "3a3a3c",
    "z-ai": "2d5bff",
}
"""Near the colour by which a provider is known; others get one of their name."""

_log = logging.getLogger(__name__)


@cache
def icon(provider: str, name: str) -> str:
    """Return a data URL of the icon of a provider, by its part of model ids and its displayed name; "" without one."""
    try:
        from PIL import Image, ImageDraw, ImageFont

        font = ImageFont.load_default(_LETTER_PIXELS)
    except (ImportError, OSError):
        return ""
    letter = next(
        (character for character in name.upper() if character.isascii() and character.isalnum()), _UNKNOWN
    )
    colour = bytes.fromhex(_COLOURS.get(provider, ""))
    if not colour:  # a hue of the name, always dark enough for white letters
        hue = int.from_bytes(hashlib.sha256(provider.encode("utf-8", "surrogatepass")).digest()[:2], "big")
        colour = bytes(round(channel * 255) for channel in colorsys.hls_to_rgb(hue / 65536, 0.4, 0.5))
    drawn = Image.new("L", (SIZE_PIXELS, SIZE_PIXELS))
    middle = SIZE_PIXELS / 2, SIZE_PIXELS / 2
    ImageDraw.Draw(drawn).text(middle, letter, fill=255, font=font, anchor="mm")
    image = drawn.point([level * (_SHADES - 1) // 255 for level in range(256)])
    image.putpalette(
        [channel + (255 - channel) * shade // (_SHADES - 1) for shade in range(_SHADES) for channel in colour]
    )
    written = io.BytesIO()
    image.save(written, "PNG", optimize=True, bits=4)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


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
    description = _description(model)
    # Open WebUI gives its search, its interpreter and its other tools to a model by function calls. Documents reach
    # every model: as they are, through OpenRouter's parser, or as the host's own text.
    capabilities = {
        "vision": model.reads("image"),
        "file_upload": True,
        "image_generation": model.draws or model.calls_tools,
        **dict.fromkeys(("web_search", "code_interpreter", "builtin_tools"), model.calls_tools),
    }
    return {
        _NAME: model.name,
        **({"description": description} if description else {}),
        _ICON: icon(slug, provider),
        "tags": [{"name": tag} for tag in (provider, *_tags(model))],
        **({_HIDDEN: True} if model.gone_since else {}),
        **{
            f"{_CAPABILITY}{name}": can and defaults.get(name) is not False
            for name, can in capabilities.items()
        },
    }


def _tags(model: Model) -> list[str]:
    """What a model's tags say of it."""
    tags = {
        "free": model.is_free,
        "reasoning": model.reasons,
        "vision": "image" in model.input_modalities,
        "tools": "tools" in model.supported_parameters,
        "images": model.draws,
        "long context": (model.context_tokens or 0) >= LONG_CONTEXT_TOKENS,
        "expiring": bool(model.expires),
    }
    return [tag for tag, is_so in tags.items() if is_so]


def updated_row(row: RowInfo, fields: Mapping[str, Any]) -> RowInfo | None:
    """Return the row with the fields that nobody else has written, None where that changes nothing.

    What was hidden by us is shown again once its fields do not hide it.
    """
    written, meta = as_object(row.meta.get(WRITTEN)), row.meta
    if shows_again := _HIDDEN in written and _HIDDEN not in fields:
        meta = {name: value for name, value in meta.items() if name != _HIDDEN}
        written = {name: value for name, value in written.items() if name != _HIDDEN}
    ours = {name: value for name, value in fields.items() if _is_ours(row, name, written.get(name))}
    capabilities = {
        name.removeprefix(_CAPABILITY): can for name, can in ours.items() if name.startswith(_CAPABILITY)
    }
    meta = {
        **meta,
        **{name: value for name, value in ours.items() if name != _NAME and "." not in name},
        **({"capabilities": as_object(meta.get("capabilities")) | capabilities} if capabilities else {}),
        WRITTEN: {**written, **{name: _digest(value) for name, value in ours.items()}},
    }
    updated = RowInfo(ours.get(_NAME, row.name), meta)
    return updated if (ours or shows_again) and updated != row else None


def _is_ours(row: RowInfo, name: str, written: str | None) -> bool:
    """Whether nobody has written the field, or we have; the page's own default icon is nobody's."""
    if name.startswith(_CAPABILITY):
        value = as_object(row.meta.get("capabilities")).get(name.removeprefix(_CAPABILITY))
        return written is None if value is None else _digest(value) == written
    value = row.name if name == _NAME else row.meta.get(name)
    if name == _ICON and (not value or as_text(value).endswith(_DEFAULT_ICON)):
        return True
    return _digest(value) == written if value else written is None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def _description(model: Model) -> str:
    """What it costs, context, prices and the day of withdrawal, then the beginning of the catalogue's text.

    That is whole sentences, or words if the first sentence is too long. No browser fetches anything for it: what is
    left of pictures and tags is broken up.
    """
    facts, price = [], model.prices.input or 0.0
    mark = _DOLLAR * (1 + bisect_left(MARKED_PRICES, round(price * 1_000_000, 6))) if price else ""
    first = ["free" if model.is_free else mark]
    if model.context_tokens:
        first.append(_short(model.context_tokens))
    if not model.is_free and model.prices.input is not None and model.prices.output:
        prices = f"{_per_million(model.prices.input)} in, {_per_million(model.prices.output)} out"
        first.append(f"{prices} per million tokens")
    if line := " · ".join(filter(None, first)):
        facts.append(f"{line}.")
    if model.expires:
        facts.append(f"Withdrawn on {model.expires}.")
    plain = _MARKUP.sub(r"\1", model.description).replace("![", "! [").replace("<", "< ")
    text = " ".join(plain.split())
    if len(text) > _DESCRIPTION_CHARACTERS:
        head = text[: _DESCRIPTION_CHARACTERS - 1]
        sentences = head.rpartition(". ")[0]
        text = f"{sentences}." if sentences else f"{head.rpartition(' ')[0] or head}…"
    return " ".join(filter(None, (*facts, text)))


def _short(tokens: int) -> str:
    """A window as people call it: "200k", "1M"."""
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2g}M"
    return f"{tokens // 1000}k" if tokens >= 1000 else f"{tokens}"


def _per_million(price: float) -> str:
    """Dollars, to three digits that count, and with two decimals if with any."""
    whole, _, part = f"{Decimal(f'{price * 1_000_000:.3g}'):f}".partition(".")
    return f"${whole}.{part:0<2}" if part else f"${whole}"


async def admin_parameters(call: Call) -> Mapping[str, Any]:
    """Return the parameters set for all models, in this model's row, and by the chosen options of its controls.

    An arena does not say which of its models was picked, that is which presets: the row is taken that most of the
    call's parameters come from. Raises StoreUnavailable.
    """
    from open_webui.models.config import Config
    from open_webui.models.models import Models

    try:
        rows = [await Models.get_model_by_id(call.model_row_id)]
        if call.in_arena:
            rows += [row for row in await Models.get_models() if row.base_model_id == call.model_row_id]
        defaults = as_object(await Config.get("models.default_params", {}))
    except SQLAlchemyError as error:
        raise StoreUnavailable("The database cannot be reached.", detail=type(error).__name__) from error
    fields = [row.params.model_dump() if row and row.params else {} for row in rows]
    candidates = [merge_parameters(defaults, params, call.model_controls) for params in fields]
    return max(candidates, key=lambda found: sum(call.parameters.get(key) == found[key] for key in found))


def merge_parameters(
    defaults: Mapping[str, Any], row: Mapping[str, Any], choices: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the parameters as they arrive in a body to which the user adds nothing.

    Custom parameters win over the fields of the same name, those of a model over those for all; texts of JSON are read.
    """
    custom = {**as_object(defaults.get("custom_params")), **as_object(row.get("custom_params"))}
    for key, control in as_object(row.get("model_controls")).items():
        options = as_object(as_object(control).get("options"))
        choice = choices.get(key, as_object(control).get("default"))
        custom = _deep_update(custom, as_object(as_object(options.get(as_text(choice))).get("params")))
    read = {
        key: read_json(value, value) if isinstance(value, str) else value for key, value in custom.items()
    }
    return _deep_update({**defaults, **row}, read)


def _deep_update(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    nested = {
        key: _deep_update(as_object(base.get(key)), value) if isinstance(value, dict) else value
        for key, value in changes.items()
    }
    return {**base, **nested}


@dataclass(frozen=True, slots=True)
class ModelRowSettings:
    """Whether rows are filled; who may use models (`private`, `public`, or names of groups), and which of them.

    That is decided once for each new model, or with `all` for every model, at each pass.
    """

    sync_info: bool = True
    access: tuple[str, ...] = (PRIVATE,)
    access_for: AccessFor = "new"

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of groups; `private` and `public` are none where they stand alone."""
        return () if self.access in ((PRIVATE,), (PUBLIC,)) else self.access


class Claims(Protocol):
    """What lets one worker at a time do something. Both methods may raise anything."""

    async def take(self, name: str, seconds: float) -> bool:
        """Return whether this worker may; a claim ends by itself."""

    async def release(self, name: str) -> None:
        """Give the claim back."""


Write = Callable[[str, Sequence[Model], ModelRowSettings], Awaitable[None]]
Offer = tuple[Sequence[Model], ModelRowSettings, int]


@dataclass(slots=True)
class ModelRows:
    """The passes of one worker. `start` begins work in the background, `clock` is in seconds, `write` is a pass."""

    claims: Claims
    start: Callable[[Coroutine[Any, Any, None]], object]
    clock: Callable[[], float]
    write: Write
    _done: dict[str, Offer] = field(default_factory=dict)
    _next_attempts: dict[str, float] = field(default_factory=dict)

    def offer(
        self, function_id: str, models: Sequence[Model], settings: ModelRowSettings, *, listing: int
    ) -> None:
        """Have the rows of the models that a function offers written, if that was not done; returns at once.

        `listing` numbers the lists that were fetched: each of them is worth a pass.
        """
        offer, now = (models, settings, listing), self.clock()
        if self._done.get(function_id) == offer or now < self._next_attempts.get(function_id, now):
            return
        self._done[function_id] = offer
        self.start(self._write(function_id, models, settings))

    async def _write(self, function_id: str, models: Sequence[Model], settings: ModelRowSettings) -> None:
        try:
            if await self.claims.take(_LEASE, _LEASE_SECONDS):
                try:
                    await self.write(function_id, models, settings)
                finally:
                    await self.claims.release(_LEASE)
                return
        except Exception:  # noqa: BLE001 - the host may raise anything, and the next attempt may succeed
            _log.warning("the model rows were not all written", exc_info=True)
        self._done.pop(function_id, None)
        self._next_attempts[function_id] = self.clock() + _RETRY_SECONDS


def function_id(pipe: object) -> str | None:
    """Return the id under which the running host has loaded a pipe; None while it has not, and elsewhere.

    That very object is looked for: two functions may hold the same code, and an old pipe may still be running.
    """
    main = sys.modules.get("open_webui.main")
    loaded = getattr(getattr(getattr(main, "app", None), "state", None), "FUNCTIONS", None)
    return next((name for name, function in as_object(loaded).items() if function is pipe), None)


async def write_model_rows(function_id: str, models: Sequence[Model], settings: ModelRowSettings) -> None:
    """Write the rows of a function's models that differ; may raise anything."""
    from open_webui.models.config import Config

    by_row_id = {f"{function_id}.{model.id}": model for model in models if not re.search(r"\s", model.id)}
    rows = await _read_rows(function_id)
    defaults: Any = await Config.get("models.default_metadata", {}) if settings.sync_info else {}
    missing: dict[str, RowInfo] = {}
    outdated: dict[str, Mapping[str, Any]] = {}

    def compare() -> None:
        capabilities = as_object(as_object(defaults).get("capabilities"))
        for row_id, model in by_row_id.items():
            fields = model_fields(model, capabilities) if settings.sync_info else {}
            row = rows.get(row_id, RowInfo("", {}))
            updated = updated_row(row, fields) if row else None
            if row_id not in rows:
                missing[row_id] = updated or RowInfo(model.name, {})
            elif updated:
                outdated[row_id] = fields

    await asyncio.to_thread(compare)  # icons are drawn
    grants = await _grants(settings.access)
    if missing and (installed := await _installed_switches()):
        missing = {
            row_id: replace(info, meta=with_switches(info.meta, installed, _tags(by_row_id[row_id])))
            for row_id, info in missing.items()
        }
    if missing and (settings.sync_info or grants):
        await _create(missing, function_id, grants)
    for row_id, fields in outdated.items():
        await _update(row_id, fields)
    if settings.access_for == "all":
        await _set_access([row_id for row_id in by_row_id if rows.get(row_id)], grants)
        if not (settings.sync_info or grants):  # otherwise an administrator may have closed a single model
            await _remove_empty(
                [row_id for row_id, model in by_row_id.items() if rows.get(row_id) == RowInfo(model.name, {})]
            )


async def _installed_switches() -> frozenset[str]:
    """The ids of the filters that are ours, switched on or off."""
    from open_webui.models.functions import Functions

    found = await Functions.get_functions_by_ids([each.id for each in SWITCHES])
    return frozenset(each.id for each in found if as_object(each.meta.manifest).get("author") == AUTHOR)


async def _read_rows(function_id: str) -> dict[str, RowInfo | None]:
    """The rows of a function's models, in one query; None for a workspace's own model that has such an id."""
    import sqlalchemy as sa
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.models import Model as Row

    of_function = Row.id.startswith(f"{function_id}.", autoescape=True)
    query = sa.select(Row.id, Row.base_model_id, Row.name, Row.meta).where(of_function)
    async with get_async_db_context() as session:
        found = (await session.execute(query)).all()
    said = {
        row_id: {key: each for key, each in as_object(meta).items() if each is not None}
        for row_id, _, _, meta in found
    }
    return {
        row_id: RowInfo(name, said[row_id]) if base_id is None else None for row_id, base_id, name, _ in found
    }


async def _create(infos: Mapping[str, RowInfo], function_id: str, grants: frozenset[Grant]) -> None:
    """Create rows, each with its first version, for the administrator who installed the function.

    The host's own way, row by row, keeps a worker busy for seconds; here a page is a transaction, of which nothing is
    left where somebody else creates one of its rows too. Before 0.12, rows had no versions.
    """
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.access_grants import AccessGrant
    from open_webui.models.functions import Functions
    from open_webui.models.models import Model as Row
    from open_webui.models.models import ModelForm
    from sqlalchemy.exc import IntegrityError

    try:
        from open_webui.models.model_history import ModelHistories, model_snapshot
    except ImportError:
        ModelHistories = None  # noqa: N806 - the host's name, of what it does not have
    function, created = await Functions.get_function_by_id(function_id), int(time.time())
    owner_id = function.user_id if function else ""
    row_ids = [*infos]
    for start in range(0, len(row_ids), _PAGE_ROWS):
        page = row_ids[start : start + _PAGE_ROWS]
        async with get_async_db_context() as session:
            for row_id in page:
                info = infos[row_id]
                form = ModelForm.model_validate(
                    {"id": row_id, "name": info.name, "meta": info.meta, "params": {}}
                )
                content = form.model_dump(exclude={"access_grants", "commit_message"})
                row = Row(**content, user_id=owner_id, created_at=created, updated_at=created)
                if ModelHistories:
                    version = ModelHistories.new_entry(
                        row_id, model_snapshot(content), owner_id, commit_message=_COMMENT
                    )
                    row.version_id = version.id
                    session.add(version)
                session.add(row)
                session.add_all(
                    AccessGrant(
                        **dict(zip(_GRANT_FIELDS, grant, strict=True)),
                        id=str(uuid.uuid4()),
                        resource_type="model",
                        resource_id=row_id,
                        created_at=created,
                    )
                    for grant in sorted(grants)
                )
            try:
                await session.commit()
            except IntegrityError as error:
                await session.rollback()
                _log.debug("rows were created by somebody else: %s", error)


async def _update(row_id: str, fields: Mapping[str, Any]) -> None:
    """Update a row as it is now, unless that is no longer due, or somebody else edits it at this moment."""
    from fastapi import HTTPException
    from open_webui.models.models import ModelForm, Models

    row = await Models.get_model_by_id(row_id)
    content = row.model_dump(exclude={"access_grants"}) if row else {}
    updated = updated_row(RowInfo(row.name, content["meta"]), fields) if row else None
    if updated is None:
        return
    changes = {"name": updated.name, "meta": updated.meta, "commit_message": _COMMENT}
    try:
        await Models.update_model_by_id(row_id, ModelForm.model_validate({**content, **changes}))
    except HTTPException as error:
        if error.status_code != 409:
            raise


async def _remove_empty(row_ids: Sequence[str]) -> None:
    """Remove those of the rows without fields that say no more than none would: they are read at each call."""
    from open_webui.models.models import Models

    for row_id in row_ids:
        row = await Models.get_model_by_id(row_id)
        if row and row.is_active and not (row.access_grants or row.params.model_dump()):
            await Models.delete_model_by_id(row_id)


async def _grants(access: Sequence[str]) -> frozenset[Grant]:
    """Whom the models are opened to; a group that does not exist opens nothing."""
    from open_webui.models.groups import Groups

    if access == (PRIVATE,):
        return frozenset()
    if access == (PUBLIC,):
        return frozenset({("user", "*", "read")})
    ids = {group.name: group.id for group in await Groups.get_all_groups()}
    if unknown := [name for name in access if name not in ids]:
        _log.warning("NEW_MODEL_ACCESS names groups that Open WebUI does not have: %s", ", ".join(unknown))
    return frozenset(("group", ids[name], "read") for name in access if name in ids)


async def _set_access(row_ids: Sequence[str], grants: frozenset[Grant]) -> None:
    """Give the rows exactly these grants."""
    from open_webui.models.access_grants import AccessGrants

    present = await AccessGrants.get_grants_by_resources("model", list(row_ids))
    wanted = [dict(zip(_GRANT_FIELDS, grant, strict=True)) for grant in sorted(grants)]
    for row_id in row_ids:
        held = {tuple(getattr(each, name) for name in _GRANT_FIELDS) for each in present.get(row_id, ())}
        if held != grants:
            await AccessGrants.set_access_grants("model", row_id, wanted)
