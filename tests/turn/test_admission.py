"""Who may run a request, and who is next; the table is `queues.txt`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import TooBusy
from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.turn.admission import Admission, AdmissionSettings
from tests.support.rows import rows

pytestmark = pytest.mark.anyio


class Office:
    """Requests that hold their place until they may leave; a name is a user and a number."""

    def __init__(self, most: int = 1, of_one: int = 0, **limits: Any) -> None:
        self.admission = Admission(**limits)
        self.admission.settings = AdmissionSettings(most, of_one)
        self.running: list[str] = []
        self.begun: list[str] = []
        self.shown: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def do(self, steps: str) -> None:
        """Let happen what `queues.txt` explains."""
        for step in steps.split():
            name = step[1:]
            if step[0] in "+?":
                self.tasks[name] = asyncio.create_task(self._run(name, asks=step[0] == "?"))
            elif step[0] == "x":
                self.tasks[name].cancel()
            elif step == "-*":
                while self.running:
                    await self.do(f"-{self.running[0]}")
            else:
                (self._answered if step[0] == "!" else self._ended)[name].set()
            for _ in range(10):
                await asyncio.sleep(0)

    async def _run(self, name: str, *, asks: bool) -> None:
        async with self.admission.slot(name[0], is_task=name.endswith("task"), show=self._show) as away:
            if asks:
                self.begun.append(name)
                async with away():
                    await self._answered[name].wait()
            self.running.append(name)
            self.begun.append(name)
            try:
                await self._ended[name].wait()
            finally:
                self.running.remove(name)

    async def _show(self, line: Notice) -> None:
        self.shown.append(line.text)


@pytest.mark.parametrize(
    ("most", "of_one", "steps", "begun", "running"),
    rows(Path(__file__).with_name("queues.txt"), "queues"),
)
async def test_places_are_given_to_users_by_turns(
    most: int, of_one: int, steps: str, begun: str, running: str
) -> None:
    """To each user's requests in their order, and to tasks last."""
    office = Office(most, of_one)
    await office.do(steps)
    assert (office.begun, office.running) == (begun.split(), running.split())
    await office.do("-*")


async def test_whoever_waits_reads_it() -> None:
    """And when it is over; nobody else does."""
    office = Office()
    await office.do("+a1")
    assert office.shown == []
    await office.do("+b1 -a1 -b1")
    assert office.shown == [
        "Many requests are running at the moment; this one waits for its turn...",
        "The wait is over.",
    ]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_waiting": 0}, "too many requests are waiting"),
        ({"max_wait_seconds": 0.0}, "has waited 0 seconds"),
    ],
)
async def test_a_queue_that_is_full_or_too_slow_is_a_clear_error(limits: dict[str, Any], reason: str) -> None:
    """Whoever is turned away takes no place from those who come later; an administrator reads the valves' names."""
    office = Office(**limits)
    await office.do("+a1 +b1")
    with pytest.raises(TooBusy, match=reason) as caught:
        await office.tasks["b1"]
    assert "MAX_REQUESTS" in caught.value.admin_message
    await office.do("-a1 +c1")
    assert office.running == ["c1"]
    await office.do("-*")
