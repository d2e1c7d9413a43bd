"""The models that OpenRouter offers: read from GET /models, kept in memory and on disk, refreshed behind.

Listing never waits, except the very first time when nothing is known yet, and then only briefly. Owns the
reading of the wire's rows and the one background task; a row that cannot be read is skipped. It fetches
through the function it is given and knows no HTTP.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import PipeError
from ..ports import Model
from ..responses.wire import as_number

FRESH_SECONDS = 3600.0
FIRST_LISTING_SECONDS = 3.0

_SHORTEST_BACKOFF_SECONDS = 30.0
_LONGEST_BACKOFF_SECONDS = 1800.0

_log = logging.getLogger(__name__)


def read_models(wire: Any) -> tuple[Model, ...]:
    """Read the answer of GET /models; rows without a usable id are skipped, and so is an id's repetition."""
    rows = wire.get("data") if isinstance(wire, dict) else None
    models = {model.id: model for row in rows or () if (model := _read_model(row))} if _is_list(rows) else {}
    return tuple(models.values())


def account_digest(base_url: str, api_key: str) -> str:
    """What a list belongs to: another key may see other models. Says nothing about the key itself."""
    return hashlib.sha256(f"{base_url}\n{api_key}".encode()).hexdigest()[:16]


class ModelCatalog:
    """The list of models, and looking one up.

    One instance serves one account (base URL and key): the list on disk carries its digest, so that another
    account's list is never shown. Close it with `aclose`.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Any]],
        *,
        account: str,
        path: Path | None = None,
        fresh_seconds: float = FRESH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take how to fetch (`fetch` gives the JSON of GET /models) and where the last good list is kept."""
        self._fetch = fetch
        self._account = account
        self._path = path
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._models: dict[str, Model] = {}
        self._next_attempt = float("-inf")
        self._failures = 0
        self._is_disk_read = False
        self._task: asyncio.Task[None] | None = None

    async def list(self, *, first_wait_seconds: float = FIRST_LISTING_SECONDS) -> tuple[Model, ...]:
        """All models, at once; only when nothing is known yet it waits for an answer, and not for long."""
        await self._read_disk()
        task = self.refresh()
        if not self._models and task is not None:
            await asyncio.wait({task}, timeout=first_wait_seconds)
        return tuple(self._models.values())

    def find(self, model_id: str) -> Model | None:
        """Look a model up by its id; variants (`:free`, `@preset/x`) and `~` aliases fall back to a base."""
        return next((self._models[name] for name in _names(model_id) if name in self._models), None)

    def refresh(self) -> asyncio.Task[None] | None:
        """Fetch in the background if the list is due; gives the running fetch, None if nothing is due."""
        if self._task is not None and not self._task.done():
            return self._task
        now = self._clock()
        if now < self._next_attempt:
            return None
        self._next_attempt = now + self._fresh_seconds
        self._task = asyncio.create_task(self._refresh(), name="openrouter model catalogue")
        return self._task

    async def aclose(self) -> None:
        """Stop the background fetch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _refresh(self) -> None:
        try:
            wire = await self._fetch()
        except PipeError as error:
            self._back_off(str(error))
            return
        models = read_models(wire)
        if not models:
            self._back_off("the list of models is empty or unreadable")
            return
        self._failures = 0
        self._models = {model.id: model for model in models}
        await asyncio.to_thread(self._write, wire)

    def _back_off(self, reason: str) -> None:
        wait_seconds = min(_SHORTEST_BACKOFF_SECONDS * 2.0**self._failures, _LONGEST_BACKOFF_SECONDS)
        self._failures += 1
        self._next_attempt = self._clock() + wait_seconds
        _log.warning("models could not be listed, next attempt in %.0f s: %s", wait_seconds, reason)

    # --- the last good list

    async def _read_disk(self) -> None:
        if self._is_disk_read or self._models:
            return
        self._is_disk_read = True
        wire = await asyncio.to_thread(self._read)
        if not self._models:
            self._models = {model.id: model for model in read_models(wire)}

    def _read(self) -> Any:
        if self._path is None:
            return None
        try:
            kept = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("the kept list of models is unreadable: %s", error)
            return None
        return kept.get("models") if isinstance(kept, dict) and kept.get("account") == self._account else None

    def _write(self, wire: Any) -> None:
        """Replace the file whole, so that a reader in another worker never sees half of it."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"account": self._account, "models": wire}, file)
            Path(name).replace(self._path)
        except OSError as error:
            _log.warning("the list of models could not be kept: %s", error)


# --- ids


def _names(model_id: str) -> Iterator[str]:
    """The id and its bases, the most exact first: preset, then variant, then alias mark."""
    yield model_id
    base = model_id.partition("@")[0]
    yield base
    base = base.partition(":")[0]
    yield base
    yield base.removeprefix("~")
    yield f"~{base}"


# --- rows


def _read_model(row: Any) -> Model | None:
    if not isinstance(row, dict) or not isinstance(row.get("id"), str) or not row["id"]:
        return None
    architecture, pricing, top = (
        _object(row.get(key)) for key in ("architecture", "pricing", "top_provider")
    )
    parameters = _words(row.get("supported_parameters"))
    reasoning = row.get("reasoning")
    return Model(
        id=row["id"],
        name=row["name"] if isinstance(row.get("name"), str) and row["name"] else row["id"],
        context_tokens=_tokens(top.get("context_length")) or _tokens(row.get("context_length")),
        max_output_tokens=_tokens(top.get("max_completion_tokens")),
        input_modalities=_words(architecture.get("input_modalities")),
        output_modalities=_words(architecture.get("output_modalities")),
        supported_parameters=parameters,
        price_input=_price(pricing.get("prompt")),
        price_output=_price(pricing.get("completion")),
        price_cache_read=_price(pricing.get("input_cache_read")),
        price_cache_write=_price(pricing.get("input_cache_write")),
        reasons=isinstance(reasoning, dict) or bool(parameters & {"reasoning", "include_reasoning"}),
        supported_efforts=_efforts(_object(reasoning).get("supported_efforts")),
    )


def _efforts(value: Any) -> tuple[str, ...] | None:
    return tuple(word for word in value if isinstance(word, str)) or None if _is_list(value) else None


def _words(value: Any) -> frozenset[str]:
    return frozenset(word for word in value if isinstance(word, str)) if _is_list(value) else frozenset()


def _tokens(value: Any) -> int | None:
    number = as_number(value)
    return int(number) if number and number >= 1 else None


def _price(value: Any) -> float | None:
    """Dollars per token from a decimal string; a negative price marks a router whose price varies."""
    number = as_number(value)
    return number if number is not None and number >= 0 else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
