"""The last good answer to a GET: kept in memory and on disk, and fetched anew in the background.

Owns when it is fetched, how failures make the attempts rarer, and the files, of which there are only so many. It
fetches and reads through the functions that it is given, and knows neither HTTP nor what the answer means.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from ..errors import NotOpenRouter, PipeError
from ..notices import notice

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Begins and owns a task."""

_FRESH_SECONDS = 3600.0
_SHORTEST_BACKOFF_SECONDS = 30.0
_LONGEST_BACKOFF_SECONDS = 1800.0
FIRST_WAIT_SECONDS = 3.0
"""How long callers wait for the very first answer."""
_MAX_FILES: Final = 4
"""As many addresses have a file in a folder; of more, those go that were written longest ago."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds that never go back, and the time of day."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """Where an answer is kept, and what it belongs to; another owner's answer is not read."""

    path: Path
    owner: str


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
        file: KeptFile | None = None,
        fresh_seconds: float = _FRESH_SECONDS,
        clocks: Clocks = Clocks(),
    ) -> None:
        """`fetch` returns the JSON of the answer, `read` what it says, None if that is nothing; `start` owns tasks."""
        self._fetch, self._read, self._start = fetch, read, start
        self._file = file
        self._fresh_seconds = fresh_seconds
        self._clock, self._now = clocks.monotonic, clocks.now
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
                self._wait_until = self._clock() + FIRST_WAIT_SECONDS
            if (wait_seconds := self._wait_until - self._clock()) > 0:
                await asyncio.wait({task}, timeout=wait_seconds)
        return self.value

    async def load(self) -> None:
        """Read what is kept on disk, the first time."""
        if self.value is not None or self._looked_on_disk or self._file is None:
            return
        kept = await asyncio.to_thread(self._read_kept, self._file)
        self._looked_on_disk = True
        if self.value is None:
            self.value = kept

    def refresh(self, *, max_age_seconds: float | None = None) -> asyncio.Task[None] | None:
        """Fetch in the background if the next attempt is due; return the running fetch, None if none is due.

        With a `max_age_seconds` it is also due when the last attempt is as old as that.
        """
        if self._task is not None and not self._task.done():
            return self._task
        now = self._clock()
        is_old = max_age_seconds is not None and now - self._attempted >= max_age_seconds
        if now < self._next_attempt and not is_old:
            return None
        self._attempted, self._next_attempt = now, now + self._fresh_seconds
        self._task = self._start(self._refresh())
        return self._task

    async def _refresh(self) -> None:
        try:
            wire = await self._fetch()
            value = await asyncio.to_thread(self._read, wire)
            if value is None:
                raise NotOpenRouter(notice("not_openrouter"), detail="the answer is empty or unreadable")
        except PipeError as error:
            self._back_off(error)
            return
        self._failures, self.failure, self.value = 0, None, value
        self.fetches += 1
        if self._file is not None:
            await asyncio.to_thread(_write_file, self._file, wire)

    def _read_kept(self, file: KeptFile) -> _T | None:
        wire = _read_file(file)
        return None if wire is None else self._read(wire)

    def _back_off(self, error: PipeError) -> None:
        wait_seconds = min(_SHORTEST_BACKOFF_SECONDS * 2.0**self._failures, _LONGEST_BACKOFF_SECONDS)
        self._failures += 1
        self._next_attempt = self._clock() + wait_seconds
        self.failure = FetchFailure(error, self.failure.since if self.failure else self._now())
        _log.warning("OpenRouter was not read, next attempt in %.0f s: %s", wait_seconds, error)


def _read_file(file: KeptFile) -> Any:
    try:
        kept = json.loads(file.path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s is unreadable: %s", file.path.name, error)
        return None
    return kept.get("answer") if isinstance(kept, dict) and kept.get("owner") == file.owner else None


def _write_file(file: KeptFile, wire: Any) -> None:
    """Replace the file whole, so that a reader in another worker never sees half of it."""
    folder = file.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as temporary:
                json.dump({"owner": file.owner, "answer": wire}, temporary)
            Path(name).replace(file.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _remove_oldest(folder, file.path.name.partition("-")[0])
    except (OSError, ValueError) as error:
        _log.warning("%s could not be written: %s", file.path.name, error)


def _remove_oldest(folder: Path, kind: str) -> None:
    """Keep the newest files of a kind; another worker may remove the same."""
    by_age: list[tuple[float, Path]] = []
    for path in folder.glob(f"{kind}-*.json"):
        with suppress(FileNotFoundError):
            by_age.append((path.stat().st_mtime, path))
    for _, path in sorted(by_age)[:-_MAX_FILES]:
        path.unlink(missing_ok=True)
