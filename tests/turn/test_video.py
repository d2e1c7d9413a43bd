"""How often a job is asked for, and when that ends; `tests/app/test_video.py` has what comes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from open_webui_openrouter_pipe.creation.video import Job
from open_webui_openrouter_pipe.errors import ConnectionFailed, ProviderError
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.turn.video import MOST_FAILURES, VideoRunner, _Running

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]


@dataclass
class Service:
    """Tells these states one after the other, and the last one again; an exception is raised."""

    answers: list[Any]
    asked_seconds: list[float] = field(default_factory=list)

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/videos/gen-1"
        self.asked_seconds.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"id": "another", "status": answer}


async def watched(service: Service, state: str) -> tuple[_Running, list[float]]:
    """A job in a state, followed to its end, and how long after its beginning it was asked for."""
    now = asyncio.get_running_loop().time
    begun = now()
    running = _Running(Bill(id="b"), int(begun), Job("gen-1", state, ""))
    runner: Any = SimpleNamespace(parts=SimpleNamespace(service=service), _now=now)
    assert running.job
    try:
        await VideoRunner._watch(runner, running, running.job)
    except ProviderError as error:
        running.error = error
    return running, [each - begun for each in service.asked_seconds]


async def test_a_job_is_asked_for_every_half_minute() -> None:
    """Its first state came with its beginning, and one of no known name goes on."""
    service = Service(["in_progress", "", 7, ConnectionFailed("down"), "completed"])
    running, asked = await watched(service, "pending")
    assert asked == [30, 60, 90, 120, 150]
    assert running.job is not None
    assert (running.job.id, running.job.end, running.told.qsize()) == ("gen-1", "done", 4)


async def test_a_job_that_is_taken_up_is_asked_for_at_once() -> None:
    """And then as any other."""
    _, asked = await watched(Service(["pending", "failed"]), "")
    assert asked == [0, 30]


@pytest.mark.parametrize(
    ("answer", "count"), [(ConnectionFailed("down"), MOST_FAILURES), ("pending", 6 * 120 + 1)]
)
async def test_nobody_asks_for_ever(answer: Any, count: int) -> None:
    """Neither what cannot be reached, nor what never ends."""
    running, asked = await watched(Service([answer]), "pending")
    assert (len(asked), isinstance(running.error, ProviderError)) == (count, True)
