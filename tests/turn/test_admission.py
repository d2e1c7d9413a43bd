"""Who may run a request, and who is next; the table is `queues.txt`."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_webui_openrouter_pipe.errors import TooBusy
from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.turn.admission import Admission, AdmissionSettings
from open_webui_openrouter_pipe.words.lines import for_admins
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

    def refused(self) -> list[str]:
        """Those who were turned away."""
        return [name for name, task in self.tasks.items() if task.done() and task.exception()]

    def waiting(self) -> list[str]:
        """Those who are neither running nor over, in the order in which they came."""
        return [name for name, task in self.tasks.items() if not task.done() and name not in self.running]

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
    assert "MAX_REQUESTS" in for_admins(caught.value.user_message)
    await office.do("-a1 +c1")
    assert office.running == ["c1"]
    await office.do("-*")


async def test_a_full_queue_refuses_those_of_who_fills_it() -> None:
    """The newest request of the user with most of them waiting; the first of another user finds room."""
    office = Office(max_waiting=4)
    await office.do("+a1 +a2 +a3 +a4 +a5 +b1 +b2 +b3 +c1")
    assert office.refused() == ["a4", "a5", "b2", "b3"]
    await office.do("-*")
    assert office.begun == ["a1", "b1", "c1", "a2", "a3"]


@given(
    most=st.integers(1, 7),
    of_one=st.integers(0, 4),
    max_waiting=st.integers(0, 8),
    steps=st.lists(st.tuples(st.sampled_from("aaaabcd"), st.booleans(), st.integers(0, 9)), max_size=40),
)
def test_any_arrivals_are_served_fairly(
    most: int, of_one: int, max_waiting: int, steps: list[tuple[str, bool, int]]
) -> None:
    """No place stays empty, nobody gets more than half before others, and a full queue refuses who has most in it."""

    async def serve() -> None:
        office = Office(most, of_one, max_waiting=max_waiting)
        for number, (user, comes, which) in enumerate(steps):
            waiting, running, refused = office.waiting(), list(office.running), office.refused()
            if comes:
                name = f"{user}{number}{'-task' if which > 7 else ''}"
                waiting.append(name)
                await office.do(f"+{name}")
            elif running:
                await office.do(f"-{running.pop(which % len(running))}")
            held = Counter(name[0] for name in running)
            able = [name for name in waiting if not of_one or held[name[0]] < of_one]
            begun = [name for name in office.running if name not in running]
            assert len(begun) == min(len(able), most - len(running), 1)
            for name in begun:
                waiting.remove(name)
                if {other[0] for other in able} != {name[0]}:
                    assert held[name[0]] < max(1, most // 2) or all(
                        held[other[0]] >= max(1, most // 2) for other in able
                    )
            in_queue = Counter(name[0] for name in waiting)
            lost = [name for name in office.refused() if name not in refused]
            assert len(lost) == max(0, len(waiting) - max_waiting)
            for name in lost:
                own = [other for other in waiting if other[0] == name[0]]
                assert (name, len(own)) == (own[-1], max(in_queue.values()))
        await office.do("-*")
        assert office.waiting() == []

    asyncio.run(serve())
