"""Bills that come later: when they are asked for, how often, of whom, and of how many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from open_webui_openrouter_pipe.errors import ModelNotFound
from open_webui_openrouter_pipe.responses.effects import Usage
from open_webui_openrouter_pipe.turn.late_bills import MAX_WAITING, LateBills

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]

BILL = Usage(10, cost=0.25)


@dataclass
class Told:
    """What OpenRouter tells, question by question; nothing is an answer without a cost, and then it is not found."""

    answers: list[Usage | None] = field(default_factory=list)
    asked: list[tuple[str, float]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)

    async def usage_of(self, generation: str) -> Usage | None:
        self.asked.append((generation, asyncio.get_running_loop().time() - 1))
        if not self.answers:
            raise ModelNotFound("not found")
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("answers", "asked", "bills"),
    [
        ([BILL], [10], [BILL]),
        ([None, BILL], [10, 60], [BILL]),
        ([None, None, BILL], [10, 60, 300], [BILL]),
        ([None], [10, 60, 300], []),
        ([], [10, 60, 300], []),
    ],
)
async def test_a_bill_is_asked_for_until_it_is_told(
    answers: list[Usage | None], asked: list[float], bills: list[Usage]
) -> None:
    """After 10 seconds, a minute and five; whatever is answered, and no longer."""
    told, found = Told(answers), list[Usage]()
    LateBills(asyncio.ensure_future).ask(told, "gen-1", found.append)
    await asyncio.sleep(1000)
    assert (told.asked, found) == ([("gen-1", at) for at in asked], bills)


@pytest.mark.parametrize("generation", ["", "chatcmpl-1"])
async def test_only_generations_of_openrouter_are_asked_for(generation: str) -> None:
    """What has another name, or none, has no such bill."""
    told = Told()
    LateBills(asyncio.ensure_future).ask(told, generation, print)
    await asyncio.sleep(1000)
    assert told.asked == []


async def test_so_many_wait_and_none_once_they_are_closed() -> None:
    """Of more, the first are asked for; one that is asked for twice counts once."""
    told, found = Told([BILL] * MAX_WAITING), list[Usage]()
    late = LateBills(asyncio.ensure_future)
    for number in range(MAX_WAITING + 5):
        late.ask(told, f"gen-{number}", found.append)
        late.ask(told, f"gen-{number}", found.append)
    await asyncio.sleep(11)
    asked = [name for name, _ in told.asked]
    assert sorted(asked) == sorted(f"gen-{number}" for number in range(MAX_WAITING))
    late.ask(told, "gen-x", found.append)
    late.close()
    await asyncio.sleep(1000)
    assert (len(told.asked), len(found)) == (MAX_WAITING, MAX_WAITING)
