"""What OpenRouter says of its models and of a key: GET /models, GET /endpoints/zdr (who keeps no data), GET /key.

Owns the last good answers, in memory and on disk: asking for them never waits, except the very first time when nothing
is known yet, and then only briefly; and the reading of the wire's rows, of which an unreadable one is skipped. It
fetches through the function it is given, knows no HTTP, and does not choose which models are offered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from ..errors import ModelNotFound, NotOpenRouter, PipeError
from ..money.prices import read_prices
from ..ports import Endpoint, Model
from ..responses.values import as_list, as_number, as_object, as_text
from ..words.lines import notice

MODELS_PATH: Final = "/models?output_modalities=text,image,speech,transcription"
"""Where they are listed; without the parameter, only those that write are."""
OWN_MODELS_PATH: Final = MODELS_PATH.replace("/models", "/models/user")
"""Where those are listed that the settings of a key's account let answer."""
LISTS: Final[Mapping[Endpoint, str]] = {"videos": "/videos/models", "images": "/images/models"}
"""Where those are listed that an endpoint of their own serves; not every service has these lists."""
ZDR_PATH: Final = "/endpoints/zdr"
"""Where the endpoints are listed that keep no data ("zero data retention")."""
KEY_PATH: Final = "/key"
_NEVER: Final = "2098-12-31"
"""The day on which a model is withdrawn of which that is not planned."""
_PERIODS: Final = {"daily": "period_day", "weekly": "period_week", "monthly": "period_month"}

_BATCH: Final = ":batch"
_FRESH_SECONDS = 3600.0
_SHORTEST_BACKOFF_SECONDS = 30.0
_LONGEST_BACKOFF_SECONDS = 1800.0
FIRST_WAIT_SECONDS = 3.0
"""How long callers wait for the very first answer."""
_MAX_FILES: Final = 4
"""As many addresses have a file in a folder; of more, those go that were written longest ago."""


GONE_DAYS: Final = 90
"""How long a model is remembered that is not listed any more."""
OF_ACCOUNT: Final = "of_account"
"""In a response of GET /models that is kept: that it has what an account may use, and not all models."""
ENDPOINT: Final = "endpoint"
"""What a row of such a list says in the kept list of models: which endpoint serves it."""
UNREAD: Final = "unread"
"""In a response of GET /models that is kept: the endpoints whose lists could not be read, so that their rows stay."""
_MADE: Final[Mapping[str, str]] = {"videos": "video", "images": "image"}
"""The output of what an endpoint serves, whose list does not say it."""
_GONE: Final = "gone"
_GONE_SINCE: Final = "gone_since"
"""Where the kept list of models has the rows that OpenRouter's has no more, each with the day since when."""

Fetch = Callable[[str], Awaitable[Any]]
"""Returns the JSON at a path below the base URL; raises errors of the tree."""
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Begins and owns a task."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What a key may spend and has spent; None where there is no limit, or it is not known.

    `resets` is how often the limit begins anew ("daily", "weekly", "monthly"), `expires` the time at which the key
    ends (ISO 8601), both empty where there is none. On the free tier no credits have ever been bought.
    """

    limit: float | None
    remaining: float | None
    used: float | None
    used_this_month: float | None
    used_today: float | None
    resets: str = ""
    expires: str = ""
    is_free_tier: bool = False

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of its limit."""
        return self.remaining is not None and self.remaining <= 0

    def lines(self) -> list[str]:
        """Return what an administrator should know, one line for each thing."""
        month, today = self.used_this_month or 0, self.used_today or 0
        lines = [notice("key_used", total=self.used or 0, month=month, today=today)]
        remaining = self.remaining or 0
        if self.limit is None:
            lines.append(notice("key_without_limit"))
        elif self.resets:
            period = notice(_PERIODS[self.resets]) if self.resets in _PERIODS else self.resets
            lines.append(notice("key_limit_resets", limit=self.limit, remaining=remaining, period=period))
        else:
            lines.append(notice("key_limit", limit=self.limit, remaining=remaining))
        if self.is_free_tier:
            lines.append(notice("key_free_tier"))
        if self.expires:
            lines.append(notice("key_expires", time=self.expires))
        return lines


def read_key(wire: Any) -> KeyFacts | None:
    """Read the response of GET /key; None when it says nothing of a key."""
    data = as_object(as_object(wire).get("data"))
    if not data:
        return None
    return KeyFacts(
        limit=as_number(data.get("limit")),
        remaining=as_number(data.get("limit_remaining")),
        used=as_number(data.get("usage")),
        used_this_month=as_number(data.get("usage_monthly")),
        used_today=as_number(data.get("usage_daily")),
        resets=as_text(data.get("limit_reset")),
        expires=as_text(data.get("expires_at")),
        is_free_tier=data.get("is_free_tier") is True,
    )


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """Why the last attempt failed, and since when all have."""

    error: PipeError
    since: datetime


class LastGood(Generic[_T]):
    """The last good answer; `value` is None while none is known, `failure` None unless the last attempt failed.

    `fetches` counts the good answers since the start: with none, the value is what was kept on disk.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Any]],
        read: Callable[[Any], _T | None],
        *,
        start: Start,
        path: Path | None = None,
        join: Callable[[Any, Any], Any] | None = None,
        fresh_seconds: float = _FRESH_SECONDS,
    ) -> None:
        """`fetch` returns the JSON of the answer, `read` what it says, None if that is nothing; `start` owns tasks.

        `path` is the file in which the answer is kept, None where it is not; `join` puts into an answer what stays of
        the one that was kept, None for none.
        """
        self._fetch, self._read, self._start = fetch, read, start
        self._path, self._join = path, join
        self._fresh_seconds = fresh_seconds
        self.value: _T | None = None
        self.failure: FetchFailure | None = None
        self.fetches = 0
        self._looked_on_disk = False
        self._attempted = self._next_attempt = self._wait_until = float("-inf")
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    async def current(self) -> _T | None:
        """Return the value at once; only when none has ever been known it waits, and not for long.

        The wait counts from the first attempt on, so that a server that is slow delays the first callers alone.
        """
        await self.load()
        task = self.refresh()
        if self.value is None and task is not None:
            if self._wait_until == float("-inf"):
                self._wait_until = monotonic() + FIRST_WAIT_SECONDS
            if (wait_seconds := self._wait_until - monotonic()) > 0:
                await asyncio.wait({task}, timeout=wait_seconds)
        return self.value

    async def load(self) -> None:
        """Read what is kept on disk, the first time."""
        if self.value is not None or self._looked_on_disk or self._path is None:
            return
        kept = await asyncio.to_thread(lambda path: self._read(_load(path)), self._path)
        self._looked_on_disk = True
        if self.value is None:
            self.value = kept

    def refresh(self, *, max_age_seconds: float | None = None) -> asyncio.Task[None] | None:
        """Fetch in the background if the next attempt is due; return the running fetch, None if none is due.

        With a `max_age_seconds` it is also due when the last attempt is as old as that.
        """
        if self._task is not None and not self._task.done():
            return self._task
        now = monotonic()
        is_old = max_age_seconds is not None and now - self._attempted >= max_age_seconds
        if now < self._next_attempt and not is_old:
            return None
        self._attempted, self._next_attempt = now, now + self._fresh_seconds
        self._task = self._start(self._refresh())
        return self._task

    async def _refresh(self) -> None:
        try:
            wire, value = await asyncio.to_thread(self._joined, await self._fetch())
            if value is None:
                raise NotOpenRouter(notice("not_openrouter"), detail="the answer is empty or unreadable")
        except PipeError as error:
            wait_seconds = min(_SHORTEST_BACKOFF_SECONDS * 2.0**self._failures, _LONGEST_BACKOFF_SECONDS)
            self._failures += 1
            self._next_attempt = monotonic() + wait_seconds
            self.failure = FetchFailure(error, self.failure.since if self.failure else datetime.now(UTC))
            _log.warning("OpenRouter was not read, next attempt in %.0f s: %s", wait_seconds, error)
            return
        self._failures, self.failure, self.value = 0, None, value
        self.fetches += 1
        if self._path is not None:
            await asyncio.to_thread(_write_file, self._path, wire)

    def _joined(self, wire: Any) -> tuple[Any, _T | None]:
        """The answer with what stays of the kept one, and what it says."""
        if self._join and self._path:
            wire = self._join(wire, _load(self._path))
        return wire, self._read(wire)


def _load(path: Path) -> Any:
    """What a file holds, None where that cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s is unreadable: %s", path.name, error)
    return None


def _write_file(path: Path, wire: Any) -> None:
    """Replace the file whole, so that a reader in another worker never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as temporary:
                temporary.write(json.dumps(wire))  # json.dump is slow: all Python
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _remove_oldest(path.parent, path.name.partition("-")[0])
    except (OSError, ValueError) as error:
        _log.warning("%s could not be written: %s", path.name, error)


def _remove_oldest(folder: Path, kind: str) -> None:
    """Keep the newest files of a kind; another worker may remove the same."""
    by_age: list[tuple[float, Path]] = []
    for path in folder.glob(f"{kind}-*.json"):
        with suppress(FileNotFoundError):
            by_age.append((path.stat().st_mtime, path))
    for _, path in sorted(by_age)[:-_MAX_FILES]:
        path.unlink(missing_ok=True)


def read_models(wire: Any) -> dict[str, Model] | None:
    """Read the response of GET /models by their ids, of which each counts once; None if there are none.

    Behind them come those that are listed no more, as `with_gone` has kept them.
    """
    listed, gone = (map(_read_row, as_list(as_object(wire).get(name))) for name in ("data", _GONE))
    rows = dict[str, Model]()
    for row in filter(None, listed):
        known = rows.get(row.id)
        if row.endpoint == "responses" or known is None or known.endpoint != "responses":
            rows[row.id] = row
    return {**rows, **{row.id: row for row in gone if row and row.id not in rows}} if rows else None


def with_gone(wire: Any, kept: Any) -> Any:
    """Return the response of GET /models with the rows that the kept one had and this one has not.

    They have the day of today; those that were missing there before keep theirs, as long as models are remembered. What
    an account may use says nothing about the list of all models, nor that about it.
    """
    response, last, today = as_object(wire), as_object(kept), datetime.now(UTC).date()
    if not has_rows(response):
        return wire
    unread = as_list(response.get(UNREAD))
    stay = [row for row in as_list(last.get("data")) if as_object(row).get(ENDPOINT) in unread]
    response = {**response, "data": [*as_list(response.get("data")), *stay]}
    listed = {as_text(as_object(row).get("id")) for row in as_list(response.get("data"))}
    oldest = (today - timedelta(days=GONE_DAYS)).isoformat()
    earlier = [row for row in as_list(last.get(_GONE)) if _day(as_object(row).get(_GONE_SINCE)) > oldest]
    before = as_list(last.get("data")) if response.get(OF_ACCOUNT) == last.get(OF_ACCOUNT) else ()
    left = [{**as_object(row), _GONE_SINCE: today.isoformat()} for row in before]
    gone = [row for row in (*left, *earlier) if as_text(row.get("id")) not in listed]
    return {**response, _GONE: gone} if gone else response


class ListsBeside:
    """The lists of models that endpoints of their own serve."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._rows: dict[Endpoint, list[dict[str, Any]] | None] = {}
        """What was read last, None of a list that the service does not have: it is not asked for again."""

    async def joined(self, rows: Sequence[Any]) -> Mapping[str, Any]:
        """Return the rows with those of these lists, as GET /models is kept; a list that fails stays as it was."""
        asked = [endpoint for endpoint in LISTS if self._rows.get(endpoint, ()) is not None]
        await asyncio.gather(*map(self._read, asked))
        beside = [row for of_endpoint in self._rows.values() for row in of_endpoint or ()]
        return {"data": [*rows, *beside], UNREAD: [each for each in LISTS if each not in self._rows]}

    async def _read(self, endpoint: Endpoint) -> None:
        try:
            rows = as_list(as_object(await self._fetch(LISTS[endpoint])).get("data"))
            self._rows[endpoint] = [{**as_object(row), ENDPOINT: endpoint} for row in rows]
        except ModelNotFound:
            self._rows[endpoint] = None
        except PipeError as error:
            _log.warning("%s was not read: %s", LISTS[endpoint], error)


def has_rows(wire: Any) -> bool:
    """Whether a response lists anything."""
    return bool(as_list(as_object(wire).get("data")))


def read_zdr_ids(wire: Any) -> frozenset[str] | None:
    """Read the names of models in the response of GET /endpoints/zdr: ids, or canonical ids; None if there are none."""
    rows = map(as_object, as_list(as_object(wire).get("data")))
    return frozenset(name for row in rows if (name := as_text(row.get("model_id")))) or None


# --- rows, in which anything but the id may be missing or of another type


def _tokens(value: Any) -> int | None:
    number = as_number(value)
    return int(number) if number and number >= 1 else None


def _day(value: Any) -> str:
    """The day of an ISO date or time; empty for anything else."""
    if (day := as_text(value)[:10]) in {"", _NEVER}:
        return ""
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        return ""


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


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
    endpoint = _endpoint(fields, pricing, architecture)
    inputs, outputs = (_words(architecture.get(f"{way}put_modalities")) for way in ("in", "out"))
    if made := _MADE.get(endpoint):
        inputs, outputs = inputs or ["text", "image"], outputs or [made]
    return Model(
        id=model_id,
        name=as_text(fields.get("name")) or model_id,
        context_tokens=_tokens(served.get("context_length")) or _tokens(fields.get("context_length")),
        max_output_tokens=_tokens(served.get("max_completion_tokens")),
        input_modalities=frozenset(inputs),
        output_modalities=frozenset(outputs),
        supported_parameters=frozenset(parameters),
        prices=read_prices(fields.get("pricing")),
        reasons=isinstance(fields.get("reasoning"), dict)
        or not {"reasoning", "include_reasoning"}.isdisjoint(parameters),
        supported_efforts=tuple(_words(reasoning.get("supported_efforts"))) or None,
        reasoning_is_mandatory=_flag(reasoning.get("mandatory")),
        description=as_text(fields.get("description")),
        created=_tokens(fields.get("created")) or 0,
        expires=_day(fields.get("expiration_date")),
        gone_since=_day(fields.get(_GONE_SINCE)),
        canonical_id=as_text(fields.get("canonical_slug")),
        alias_of=as_text(as_object(fields.get("alias_target")).get("slug")),
        endpoint=endpoint,
        row={} if endpoint == "responses" else fields,
    )


def _endpoint(
    fields: Mapping[str, Any], pricing: Mapping[str, Any], architecture: Mapping[str, Any]
) -> Endpoint:
    """Which endpoint serves a row.

    A list of its own says so; speech has voices, and transcription no price of an output. None answers for batches,
    which are done within a day, and for pictures and videos without a price by tokens, unless such a list has them.
    """
    outputs = _words(architecture.get("output_modalities"))
    if named := next((each for each in LISTS if each == fields.get(ENDPOINT)), None):
        return named
    if as_text(fields.get("id")).endswith(_BATCH):
        return ""
    if as_list(fields.get("supported_voices")) or "speech" in outputs:
        return "speech"
    if "transcription" in outputs or ("prompt" in pricing and "completion" not in pricing):
        return "transcriptions"
    has_no_price = bool(outputs and pricing) and "text" not in outputs and "prompt" not in pricing
    return "" if has_no_price else "responses"
