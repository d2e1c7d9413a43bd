"""The last good answer: when it is fetched, what is kept, and what a caller waits for."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import ConnectionFailed, NotOpenRouter, PipeError
from open_webui_openrouter_pipe.openrouter.catalog import Clocks, KeptFile, LastGood

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

pytestmark = pytest.mark.anyio

FIRST_WAIT = "open_webui_openrouter_pipe.openrouter.catalog.FIRST_WAIT_SECONDS"
OLD, NEW = {"data": "old"}, {"data": "new"}
DOWN = ConnectionFailed("down")
NOON = datetime(2026, 11, 22, 12, 4, tzinfo=UTC)


class FakeSource:
    """Returns one response after the other, then the last one again; counts the fetches, and can be held up."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.fetches = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> Any:
        self.fetches += 1
        await self.gate.wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeClock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def read(wire: Any) -> str | None:
    """The answer's text."""
    return wire.get("data") if isinstance(wire, dict) else None


def last_good(source: FakeSource, **options: Any) -> LastGood[str]:
    """One that fetches from the source, in tasks of the running loop."""
    return LastGood(source, read, start=asyncio.create_task, **options)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_the_first_caller_waits_for_the_answer() -> None:
    """Knowing nothing, it waits, so that it does not get nothing."""
    assert await last_good(FakeSource(OLD)).current() == "old"


async def test_nobody_waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer delays the first callers alone, and the fetch goes on."""
    clock, source = FakeClock(), FakeSource(OLD)
    source.gate.clear()
    answers = last_good(source, clocks=Clocks(clock))
    monkeypatch.setattr(FIRST_WAIT, 0.01)
    first = await answers.current()
    clock.now = 0.02
    monkeypatch.setattr(FIRST_WAIT, 1e6)
    second = await asyncio.wait_for(answers.current(), timeout=10)
    source.gate.set()
    task = answers.refresh()
    assert task is not None
    await task
    assert (first, second, await answers.current(), source.fetches) == (None, None, "old", 1)


async def test_later_callers_never_wait() -> None:
    """A stale answer is returned at once while the next one is fetched."""
    clock, source = FakeClock(), FakeSource(OLD, NEW)
    answers = last_good(source, clocks=Clocks(clock))
    await answers.current()
    clock.now = 4000.0
    source.gate.clear()
    stale = await answers.current()
    source.gate.set()
    task = answers.refresh()
    assert task is not None
    await task
    assert (stale, await answers.current(), source.fetches) == ("old", "new", 2)


async def test_one_fetch_at_a_time() -> None:
    """Many callers at once make one fetch, and a fresh answer none."""
    source = FakeSource(OLD)
    answers = last_good(source)
    assert await asyncio.gather(*(answers.current() for _ in range(20))) == ["old"] * 20
    await answers.current()
    assert source.fetches == 1


async def test_who_wants_something_newer_gets_a_fetch() -> None:
    """Also before it is due, but not while the last attempt is as young as that."""
    clock, source = FakeClock(), FakeSource(OLD)
    answers = last_good(source, clocks=Clocks(clock))
    await answers.current()
    due = []
    for seconds in (9.0, 10.0, 11.0):
        clock.now = seconds
        if task := answers.refresh(max_age_seconds=10):
            due.append(seconds)
            await task
    assert due == [10.0]


@pytest.mark.parametrize(
    ("failure", "error"), [(DOWN, ConnectionFailed), ({"data": None}, NotOpenRouter), (None, NotOpenRouter)]
)
async def test_failures_back_off(failure: Any, error: type[PipeError]) -> None:
    """The attempts grow rarer, the last good answer stays, and the failure says since when."""
    clock, source = FakeClock(), FakeSource(OLD, failure)
    times = iter([NOON, *[datetime(2030, 1, 1, tzinfo=UTC)] * 9])
    answers = last_good(source, clocks=Clocks(clock, lambda: next(times)))
    await answers.current()
    attempts = []
    for seconds in range(4000, 4200, 10):
        clock.now = float(seconds)
        task = answers.refresh()
        if task:
            attempts.append(seconds)
            await task
    assert (attempts, await answers.current()) == ([4000, 4030, 4090], "old")
    assert answers.failure is not None
    assert (type(answers.failure.error), answers.failure.since) == (error, NOON)


async def test_a_success_ends_the_failure() -> None:
    """And the next failure begins anew."""
    clock, source = FakeClock(), FakeSource(DOWN, DOWN, OLD, DOWN)
    answers = last_good(source, clocks=Clocks(clock))
    failed = []
    for seconds in (0.0, 30.0, 90.0, 4000.0, 4029.0, 4030.0):
        clock.now = seconds
        if task := answers.refresh():
            await task
            failed.append(answers.failure is not None)
    assert failed == [True, True, False, True, True]


async def test_the_answer_survives_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last good one is on disk, and is there at once even if OpenRouter is unavailable."""
    file = KeptFile(tmp_path / "very" / "deep" / "models-a.json", "a")
    await last_good(FakeSource(OLD), file=file).current()
    source = FakeSource(DOWN)
    source.gate.clear()
    second = last_good(source, file=file)
    monkeypatch.setattr(FIRST_WAIT, 1e6)
    assert await asyncio.wait_for(second.current(), timeout=10) == "old"
    source.gate.set()
    assert names_in(file.path.parent) == ["models-a.json"]


@pytest.mark.parametrize(
    "kept",
    [b"", b"{", b"[]", b"\xff", json.dumps({"owner": "b", "answer": OLD}).encode(), b'{"owner":"a"}'],
)
async def test_an_unusable_file_is_ignored(tmp_path: Path, kept: bytes) -> None:
    """A corrupt file, or another owner's, is as good as none."""
    file = KeptFile(tmp_path / "models-a.json", "a")
    file.path.write_bytes(kept)
    assert await last_good(FakeSource(DOWN), file=file).current() is None


async def test_an_unwritable_disk_does_no_harm(tmp_path: Path) -> None:
    """An answer that cannot be kept is still used."""
    (tmp_path / "file").write_text("")
    answers = last_good(FakeSource(OLD), file=KeptFile(tmp_path / "file" / "models-a.json", "a"))
    assert await answers.current() == "old"


async def test_only_so_many_files_are_kept(tmp_path: Path) -> None:
    """Of one kind the four that were written last; other files stay."""
    (tmp_path / "zdr-x.json").write_text("")
    for number, name in enumerate("abcdef"):
        path = tmp_path / f"models-{name}.json"
        if name != "f":
            path.write_text("")
            os.utime(path, (number, number))
    file = KeptFile(tmp_path / "models-f.json", "f")
    task = last_good(FakeSource(OLD), file=file).refresh()
    assert task is not None
    await task
    assert names_in(tmp_path) == [
        *(f"models-{name}.json" for name in "cdef"),
        "zdr-x.json",
    ]


async def test_the_fetch_runs_in_a_task_of_the_owner() -> None:
    """None is begun here, so whoever owns the task can cancel it."""
    started: list[asyncio.Task[None]] = []

    def start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        started.append(asyncio.create_task(work))
        return started[-1]

    task = LastGood(FakeSource(OLD), read, start=start).refresh()
    assert started == [task]
    await started[0]
