"""The models that OpenRouter offers: read from GET /models, kept in memory and on disk, refreshed in the background.

Listing never waits, except the very first time when nothing is known yet, and then only briefly. Owns the
reading of the wire's rows, of which an unreadable one is skipped, and the choice of the models that are offered. It
fetches through the function it is given and knows no HTTP.
"""

from __future__ import annotations

import asyncio
import fnmatch
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AliasPath, BaseModel, BeforeValidator, Field, Strict, ValidationError

from ..errors import PipeError
from ..ports import Model
from ..responses.wire import as_list, as_number, as_object, as_text

MODELS_PATH: Final = "/models?output_modalities=text,image"
"""Where they are listed; without the parameter, models that only draw are omitted."""

_FRESH_SECONDS = 3600.0
_FIRST_WAIT_SECONDS = 3.0
_SHORTEST_BACKOFF_SECONDS = 30.0
_LONGEST_BACKOFF_SECONDS = 1800.0

_log = logging.getLogger(__name__)


def read_models(wire: Any) -> tuple[Model, ...]:
    """Read the response of GET /models; rows without a usable id are skipped, and so are repeated ids."""
    models: dict[str, Model] = {}
    for row in as_list(as_object(wire).get("data")):
        try:
            model = _Row.model_validate(row).model()
        except ValidationError:
            continue
        models[model.id] = model
    return tuple(models.values())


def offered_models(models: Iterable[Model], patterns: Sequence[str]) -> list[Model]:
    """Return the models that write text or draw, and that the patterns offer."""
    answering = (model for model in models if model.writes or model.draws)
    return [model for model in answering if is_offered(model.id, patterns)]


def is_offered(model_id: str, patterns: Sequence[str]) -> bool:
    """Return whether the patterns offer a model.

    The last pattern that matches its id decides; one with a leading `!` excludes. Exclusions alone start from all
    models.
    """
    offered = all(pattern.startswith("!") for pattern in patterns)
    for pattern in patterns:
        if fnmatch.fnmatchcase(model_id, pattern.removeprefix("!")):
            offered = not pattern.startswith("!")
    return offered


def account_digest(base_url: str, api_key: str) -> str:
    """Return what a list belongs to: another key may see other models. Says nothing about the key itself."""
    return hashlib.sha256(f"{base_url}\n{api_key}".encode()).hexdigest()[:16]


class ModelCatalog:
    """The list of models of one account (base URL and key).

    The list on disk carries the account's digest, so that another account's list is never shown.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Any]],
        *,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        account: str,
        path: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fetch` returns the JSON of GET /models, `start` begins and owns a task, `path` keeps the last good list."""
        self._fetch = fetch
        self._start = start
        self._account, self._path = account, path
        self._clock = clock
        self._models: dict[str, Model] = {}
        self._next_attempt = float("-inf")
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self.fetches = 0
        """How many lists have been fetched; while there is none, what is listed is what was kept on disk."""

    async def list(self, *, first_wait_seconds: float = _FIRST_WAIT_SECONDS) -> tuple[Model, ...]:
        """Return all models at once; only when nothing is known yet it waits for them, and not for long."""
        await self._read_disk()
        task = self.refresh()
        if not self._models and task is not None:
            await asyncio.wait({task}, timeout=first_wait_seconds)
        return tuple(self._models.values())

    def find(self, model_id: str) -> Model | None:
        """Return a model by its id; variants (`:free`, `@preset/x`) and `~` aliases fall back to a base."""
        plain = model_id.partition("@")[0]
        base = plain.partition(":")[0]
        names = (model_id, plain, base, base.removeprefix("~"), f"~{base}")
        return next((self._models[name] for name in names if name in self._models), None)

    def refresh(self) -> asyncio.Task[None] | None:
        """Fetch in the background if the list is due; return the running fetch, None if nothing is due."""
        if self._task is not None and not self._task.done():
            return self._task
        now = self._clock()
        if now < self._next_attempt:
            return None
        self._next_attempt = now + _FRESH_SECONDS
        self._task = self._start(self._refresh())
        return self._task

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
        self.fetches += 1
        await asyncio.to_thread(self._write, wire)

    def _back_off(self, reason: str) -> None:
        wait_seconds = min(_SHORTEST_BACKOFF_SECONDS * 2.0**self._failures, _LONGEST_BACKOFF_SECONDS)
        self._failures += 1
        self._next_attempt = self._clock() + wait_seconds
        _log.warning("models could not be listed, next attempt in %.0f s: %s", wait_seconds, reason)

    # --- the last good list

    async def _read_disk(self) -> None:
        if self._models:
            return
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


# --- rows, in which anything but the id may be missing or of another type


def _tokens(value: Any) -> int | None:
    number = as_number(value)
    return int(number) if number and number >= 1 else None


def _seconds(value: Any) -> int:
    return _tokens(value) or 0


def _price(value: Any) -> float | None:
    """Dollars per token from a decimal string; a negative price marks a router whose price varies."""
    number = as_number(value)
    return number if number is not None and number >= 0 else None


def _day(value: Any) -> str:
    """The day of an ISO date or time; empty for anything else."""
    day = as_text(value)[:10]
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        return ""


def _words(value: Any) -> list[str]:
    return [word for word in as_list(value) if isinstance(word, str)]


def _field_at(*path: str, default: Any = None) -> Any:
    return Field(default=default, validation_alias=AliasPath(*path))


_Tokens = Annotated[int | None, BeforeValidator(_tokens)]
_Price = Annotated[float | None, BeforeValidator(_price)]
_Words = Annotated[frozenset[str], BeforeValidator(_words)]


class _Row(BaseModel):
    """The fields of `Model`, by their path in a row, and those that it combines."""

    id: Annotated[str, Strict(), Field(min_length=1)]
    name: Annotated[str, BeforeValidator(as_text)] = ""
    max_output_tokens: _Tokens = _field_at("top_provider", "max_completion_tokens")
    input_modalities: _Words = _field_at("architecture", "input_modalities", default=frozenset())
    output_modalities: _Words = _field_at("architecture", "output_modalities", default=frozenset())
    supported_parameters: _Words = frozenset()
    price_input: _Price = _field_at("pricing", "prompt")
    price_output: _Price = _field_at("pricing", "completion")
    price_cache_read: _Price = _field_at("pricing", "input_cache_read")
    price_cache_write: _Price = _field_at("pricing", "input_cache_write")
    price_cache_write_1h: _Price = _field_at("pricing", "input_cache_write_1h")
    price_search: _Price = _field_at("pricing", "web_search")
    description: Annotated[str, BeforeValidator(as_text)] = ""
    created: Annotated[int, BeforeValidator(_seconds)] = 0
    expires: Annotated[str, BeforeValidator(_day)] = _field_at("expiration_date", default="")
    efforts: Annotated[tuple[str, ...], BeforeValidator(_words)] = _field_at(
        "reasoning", "supported_efforts", default=()
    )
    served_tokens: _Tokens = _field_at("top_provider", "context_length")
    model_tokens: _Tokens = _field_at("context_length")
    reasoning: Any = None

    def model(self) -> Model:
        return Model(
            **self.model_dump(exclude={"name", "efforts", "served_tokens", "model_tokens", "reasoning"}),
            name=self.name or self.id,
            context_tokens=self.served_tokens or self.model_tokens,
            reasons=isinstance(self.reasoning, dict)
            or bool(self.supported_parameters & {"reasoning", "include_reasoning"}),
            supported_efforts=self.efforts or None,
            reasoning_is_mandatory=as_object(self.reasoning).get("mandatory") is True,
        )
