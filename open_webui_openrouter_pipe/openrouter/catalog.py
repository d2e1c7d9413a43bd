"""The models that OpenRouter offers: GET /models, and GET /endpoints/zdr for those whose providers keep no data.

Listing never waits, except the very first time when nothing is known yet, and then only briefly. Owns the reading of
the wire's rows, of which an unreadable one is skipped. It fetches through the function it is given, knows no HTTP,
and does not choose which models are offered.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..ports import Model
from ..responses.wire import as_list, as_number, as_object, as_text
from .last_good import FetchFailure, KeptFile, LastGood, Start

MODELS_PATH: Final = "/models?output_modalities=text,image"
"""Where they are listed; without the parameter, models that only draw are omitted."""
ZDR_PATH: Final = "/endpoints/zdr"
"""Where the endpoints are listed that keep no data ("zero data retention")."""

_NO_MODELS: Final[Mapping[str, Model]] = MappingProxyType({})

Fetch = Callable[[str], Awaitable[Any]]
"""Returns the JSON at a path below the base URL; raises errors of the tree."""


def read_models(wire: Any) -> tuple[Model, ...]:
    """Read the response of GET /models; rows without a usable id are skipped, and so are repeated ids."""
    rows = map(_read_row, as_list(as_object(wire).get("data")))
    return tuple({row.id: row for row in rows if row}.values())


def read_zdr_ids(wire: Any) -> frozenset[str] | None:
    """Read the names of models in the response of GET /endpoints/zdr: ids, or canonical ids; None if there are none."""
    rows = map(as_object, as_list(as_object(wire).get("data")))
    return frozenset(name for row in rows if (name := as_text(row.get("model_id")))) or None


class ModelCatalog:
    """The lists of one base URL: the last good ones on disk serve every key, and are there after a restart."""

    def __init__(self, fetch: Fetch, *, start: Start, base_url: str, folder: Path | None = None) -> None:
        """`start` begins and owns a task, `folder` keeps the last good lists; None keeps nothing."""
        self._models = LastGood(
            lambda: fetch(MODELS_PATH),
            _models_by_id,
            start=start,
            file=_kept_file(folder, "models", base_url),
        )
        self._zdr_ids = LastGood(
            lambda: fetch(ZDR_PATH), read_zdr_ids, start=start, file=_kept_file(folder, "zdr", base_url)
        )

    @property
    def models(self) -> Mapping[str, Model]:
        """The models by their ids, empty while none is known; another object after each successful fetch."""
        return self._models.value or _NO_MODELS

    @property
    def fetches(self) -> int:
        """How many lists have been fetched; while there is none, what is listed is what was kept on disk."""
        return self._models.fetches

    async def list(self) -> tuple[Model, ...]:
        """Return all models at once; only when nothing is known yet it waits for them, and not for long."""
        await self._models.current()
        return tuple(self.models.values())

    async def load(self) -> None:
        """Read what is kept on disk, the first time."""
        await self._models.load()

    def refresh(self, *, max_age_seconds: float | None = None) -> asyncio.Task[None] | None:
        """Fetch the models in the background if they are due; return the running fetch, None if they are not."""
        return self._models.refresh(max_age_seconds=max_age_seconds)

    async def zdr_ids(self) -> frozenset[str] | None:
        """Return the names of the models that some endpoint serves without keeping data, None while that is unknown."""
        return await self._zdr_ids.current()

    def find(self, model_id: str) -> Model | None:
        """Return a model by its id; variants (`:free`, `@preset/x`) and `~` aliases fall back to a base."""
        plain = model_id.partition("@")[0]
        base = plain.partition(":")[0]
        names = (model_id, plain, base, base.removeprefix("~"), f"~{base}")
        return next((self.models[name] for name in names if name in self.models), None)

    @property
    def failure(self) -> FetchFailure | None:
        """Why the models could not be fetched, None unless the last attempt failed."""
        return self._models.failure

    @property
    def has_zdr_ids(self) -> bool:
        """Whether it is known which models keep no data."""
        return self._zdr_ids.value is not None

    @property
    def zdr_failure(self) -> FetchFailure | None:
        """Why that could not be fetched, None unless the last attempt failed."""
        return self._zdr_ids.failure


def _models_by_id(wire: Any) -> dict[str, Model] | None:
    return {model.id: model for model in read_models(wire)} or None


def _kept_file(folder: Path | None, kind: str, base_url: str) -> KeptFile | None:
    digest = hashlib.sha256(base_url.encode("utf-8", "surrogatepass")).hexdigest()
    return KeptFile(folder / f"{kind}-{digest[:16]}.json", digest) if folder else None


# --- rows, in which anything but the id may be missing or of another type


def _tokens(value: Any) -> int | None:
    number = as_number(value)
    return int(number) if number and number >= 1 else None


def _price(value: Any) -> float | None:
    """Dollars per token from a decimal string; a negative price marks a router whose price varies."""
    number = None if value is None else as_number(value)
    return number if number is not None and number >= 0 else None


def _day(value: Any) -> str:
    """The day of an ISO date or time; empty for anything else."""
    if not (day := as_text(value)[:10]):
        return ""
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        return ""


def _words(value: Any) -> list[str]:
    return [word for word in as_list(value) if isinstance(word, str)]


def _read_row(row: Any) -> Model | None:
    """Read a row of the catalogue; None without an id. By hand: a validator takes three times as long for them all."""
    fields = as_object(row)
    if not (model_id := as_text(fields.get("id"))):
        return None
    architecture, pricing = as_object(fields.get("architecture")), as_object(fields.get("pricing"))
    served, reasoning = as_object(fields.get("top_provider")), as_object(fields.get("reasoning"))
    parameters = _words(fields.get("supported_parameters"))
    return Model(
        id=model_id,
        name=as_text(fields.get("name")) or model_id,
        context_tokens=_tokens(served.get("context_length")) or _tokens(fields.get("context_length")),
        max_output_tokens=_tokens(served.get("max_completion_tokens")),
        input_modalities=frozenset(_words(architecture.get("input_modalities"))),
        output_modalities=frozenset(_words(architecture.get("output_modalities"))),
        supported_parameters=frozenset(parameters),
        price_input=_price(pricing.get("prompt")),
        price_output=_price(pricing.get("completion")),
        price_cache_read=_price(pricing.get("input_cache_read")),
        price_cache_write=_price(pricing.get("input_cache_write")),
        price_cache_write_1h=_price(pricing.get("input_cache_write_1h")),
        price_search=_price(pricing.get("web_search")),
        reasons=isinstance(fields.get("reasoning"), dict)
        or not {"reasoning", "include_reasoning"}.isdisjoint(parameters),
        supported_efforts=tuple(_words(reasoning.get("supported_efforts"))) or None,
        reasoning_is_mandatory=reasoning.get("mandatory") is True,
        description=as_text(fields.get("description")),
        created=_tokens(fields.get("created")) or 0,
        expires=_day(fields.get("expiration_date")),
        canonical_id=as_text(fields.get("canonical_slug")),
        price_request=_price(pricing.get("request")),
    )
