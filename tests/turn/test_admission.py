"""Who may run a request, and who is next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import TooBusy
from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.turn.admission import Admission, AdmissionSettings

pytestmark = pytest.mark.anyio


class Office:
    """Requests that hold their place until they may leave; a name is a user and a number."""

    def __init__(self, most: int, of_one: int = 0, **limits: Any) -> None:
        self.admission = Admission(**limits)
        self.admission.settings = AdmissionSettings(most, of_one)
        self.running: list[str] = []
        self.begun: list[str] = []
        self.shown: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def enter(self, *names: str) -> None:
        for name in names:
            self._leave[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(name))
            await self.let_others_run()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await self.tasks[name]
        await self.let_others_run()

    async def leave_all(self) -> None:
        while self.running:
            await self.leave(self.running[0])

    async def let_others_run(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def _run(self, name: str) -> None:
        async with self.admission.slot(name[0], is_task=name.endswith("task"), show=self.show):
            self.running.append(name)
            self.begun.append(name)
            await self._leave[name].wait()
            self.running.remove(name)

    async def show(self, line: Notice) -> None:
        self.shown.append(line.text)


@pytest.mark.parametrize(
    ("names", "begun"),
    [
        ("a1 a2 a3 a4 b1 b2 c1", "a1 b1 c1 a2 b2 a3 a4"),
        ("a1 b1-task c1-task a2 d1", "a1 d1 a2 b1-task c1-task"),
    ],
    ids=["users", "tasks"],
)
async def test_users_take_turns_before_all_tasks(names: str, begun: str) -> None:
    """However many requests one of them has, each in their order; nobody looks at a title while an answer is due."""
    office = Office(1)
    await office.enter(*names.split())
    await office.leave_all()
    assert office.begun == begun.split()


async def test_one_user_cannot_take_all_places() -> None:
    """The places that are left are for others."""
    office = Office(3, of_one=2)
    await office.enter("a1", "a2", "a3", "b1")
    assert office.running == ["a1", "a2", "b1"]
    await office.leave("b1")
    assert office.running == ["a1", "a2"]
    await office.leave("a1")
    assert office.running == ["a2", "a3"]
    await office.leave_all()


async def test_whoever_waits_reads_it() -> None:
    """And when it is over; nobody else does, such as where there is no limit, which is what 0 means."""
    office = Office(0)
    await office.enter(*(f"a{number}" for number in range(50)))
    assert (len(office.running), office.shown) == (50, [])
    await office.leave_all()
    office = Office(1)
    await office.enter("a1")
    assert office.shown == []
    await office.enter("b1")
    await office.leave("a1")
    assert office.shown == [
        "Many requests are running at the moment; this one waits for its turn...",
        "The wait is over.",
    ]
    await office.leave_all()


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"max_waiting": 0}, "too many requests are waiting"),
        ({"max_wait_seconds": 0.0}, "has waited 0 seconds"),
    ],
)
async def test_a_queue_that_is_full_or_too_slow_is_a_clear_error(limits: dict[str, Any], reason: str) -> None:
    """Whoever is turned away takes no place from those who come later; an administrator reads the valves' names."""
    office = Office(1, **limits)
    await office.enter("a1", "b1")
    with pytest.raises(TooBusy, match=reason) as caught:
        await office.tasks["b1"]
    assert "MAX_REQUESTS" in caught.value.admin_message
    await office.leave("a1")
    await office.enter("c1")
    assert office.running == ["c1"]
    await office.leave_all()


async def test_whoever_gives_up_leaves_the_queue() -> None:
    """A user who presses Stop while waiting holds up nobody, nor does one who is cancelled while running."""
    office = Office(1)
    await office.enter("a1", "b1", "c1")
    for name in ("b1", "a1"):
        office.tasks[name].cancel()
        await asyncio.wait({office.tasks[name]})
    await office.let_others_run()
    assert office.begun == ["a1", "c1"]
    await office.leave("c1")


async def test_a_place_is_left_to_others_during_a_question() -> None:
    """And waits for one again; who gives up meanwhile, or in the second wait, holds up nobody."""
    office, back, may_end = Office(1), asyncio.Event(), asyncio.Event()
    running: list[str] = []

    async def ask() -> None:
        async with office.admission.slot("z", is_task=False, show=office.show) as away:
            async with away():
                await back.wait()
            running.append("z")
            await may_end.wait()

    first = asyncio.create_task(ask())
    await office.let_others_run()
    await office.enter("a1", "b1")
    back.set()
    await office.let_others_run()
    assert (office.running, running) == (["a1"], [])
    await office.leave_all()
    assert running == ["z"]
    back.clear()
    others = [asyncio.create_task(ask()) for _ in range(2)]
    may_end.set()
    await first
    await office.let_others_run()
    others[0].cancel()
    await office.enter("c1")
    back.set()
    await office.let_others_run()
    others[1].cancel()
    await asyncio.wait(others)
    assert office.running == ["c1"]
    await office.leave("c1")
    await office.enter("d1")
    assert (office.running, running) == (["d1"], ["z"])
    await office.leave_all()
