"""What is asked again, after which wait, with which words."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.errors import (
    ConnectionFailed,
    EffortRejected,
    ParameterRejected,
    PaymentRequired,
    PipeError,
    ProviderUnavailable,
    RateLimited,
    StreamBroken,
)
from open_webui_openrouter_pipe.openrouter.errors import to_error
from open_webui_openrouter_pipe.openrouter.retries import Chance, RetryingResponses
from open_webui_openrouter_pipe.ports import Event, Notice, RequestBody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

CREATED: Event = {"type": "response.created", "response": {"id": "gen-1"}}
DELTA: Event = {"type": "response.output_text.delta", "delta": "Hi"}
DONE: Event = {"type": "response.completed", "response": {}}
REASONING = {"effort": "xhigh", "summary": "auto"}
BODY: RequestBody = {"model": "m", "temperature": 0.5, "reasoning": REASONING, "input": []}


def passing(error: PipeError, **facts: Any) -> PipeError:
    """An error that says that it passes, unless the facts say otherwise."""
    for name, value in {"passes": True, **facts}.items():
        setattr(error, name, value)
    return error


def limited(seconds: float | None = None) -> PipeError:
    return passing(RateLimited("busy", retry_after_seconds=seconds))


def rejected_effort(*supported: str) -> PipeError:
    return passing(EffortRejected("no"), passes=False, supported_efforts=supported)


def ending(code: int, **usage: float) -> Event:
    """The end of a failed stream, with what it cost."""
    return {"type": "response.failed", "response": {"error": {"code": code, "message": "m"}, "usage": usage}}


GOOD: list[Event | PipeError] = [CREATED, DELTA, DONE]
LOST, AWAY = passing(StreamBroken("lost")), passing(ProviderUnavailable("away"))
UNREACHABLE = passing(ConnectionFailed("no"))
REJECTED = passing(ParameterRejected("no"), passes=False, parameter="temperature")


@dataclass
class World:
    """OpenRouter with an outcome for each attempt, the last one again, and a clock that only waits move."""

    outcomes: list[PipeError | list[Event | PipeError]]
    chance: float = 0.0
    attempt_seconds: float = 0.0
    limit_seconds: float = 30.0
    now: float = 0.0
    bodies: list[RequestBody] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    open_streams: int = 0
    explain = staticmethod(to_error)

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        outcome = self._next(body)
        self.open_streams += 1
        try:
            yield self._events(outcome)
        finally:
            self.open_streams -= 1

    async def _events(self, outcome: list[Event | PipeError]) -> AsyncIterator[Event]:
        for event in outcome:
            if isinstance(event, PipeError):
                raise event
            yield event

    async def create(self, body: RequestBody) -> dict[str, Any]:
        return {"output": self._next(body)}

    def _next(self, body: RequestBody) -> list[Event | PipeError]:
        self.bodies.append(body)
        self.now += self.attempt_seconds
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, PipeError):
            raise outcome
        return outcome

    async def sleep(self, seconds: float) -> None:
        assert self.open_streams == 0
        self.waits.append(seconds)
        self.now += seconds

    async def show(self, line: Notice) -> None:
        self.shown.append(line.text)

    def responses(self) -> RetryingResponses:
        chance = Chance(self.sleep, lambda: self.now, lambda: self.chance)
        return RetryingResponses(self, limit_seconds=self.limit_seconds, show=self.show, chance=chance)

    async def ask(self) -> list[Event | PipeError]:
        """What comes, with the error that ends it."""
        received: list[Event | PipeError] = []
        try:
            async with self.responses().stream(BODY) as events:
                async for event in events:
                    received.append(event)  # noqa: PERF401 - what came before the error counts
        except PipeError as error:
            received.append(error)
        return received


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([UNREACHABLE] * 2, [0.5, 1.0]),
        ([limited()] * 2, [2.0, 4.0]),
        ([limited(0.0)], [0.0]),
        ([limited(3.0)], [3.0]),
        ([AWAY], [2.0]),
        ([[CREATED, ending(503)]], [2.0]),
        ([[CREATED, LOST]], [0.5]),
        ([[CREATED]], [0.5]),
        ([[]], [0.5]),
    ],
)
async def test_what_passes_is_asked_again(failures: list[Any], waits: list[float]) -> None:
    """Also inside a stream, as long as nothing of the answer has come; then the whole answer is handed on."""
    world = World([*failures, GOOD])
    assert (await world.ask(), world.waits) == (GOOD, waits)


@pytest.mark.parametrize(
    ("outcome", "options", "attempts"),
    [
        (limited(), {}, 3),
        (limited(31.0), {}, 1),
        (limited(16.0), {}, 2),
        (limited(), {"attempt_seconds": 29.0}, 1),
        (limited(0.0), {"limit_seconds": 0.0}, 1),
        (PaymentRequired("no"), {}, 1),
        (ConnectionFailed("silent"), {}, 1),
        (REJECTED, {}, 2),
        (rejected_effort("low", "high"), {}, 2),
        ([CREATED, DELTA, ending(503)], {}, 1),
        ([CREATED, DELTA, LOST], {}, 1),
        ([CREATED, ending(402, cost=1)], {}, 1),
        ([CREATED, ending(503, input_tokens=9, output_tokens=0, cost=0.25)], {}, 1),
    ],
)
async def test_what_is_not_asked_again_is_handed_on_as_it_is(
    outcome: Any, options: dict[str, Any], attempts: int
) -> None:
    """Attempts, changes and the whole time are limited; what was read, or has a bill, is not paid for twice."""
    world = World([outcome], **options)
    assert await world.ask() == (outcome if isinstance(outcome, list) else [outcome])
    assert len(world.bodies) == attempts


async def test_chance_only_adds_to_a_wait() -> None:
    """The server's word is a minimum."""
    world = World([limited(4.0), GOOD], chance=1.0)
    await world.ask()
    assert sum(world.waits) == 5.0


async def test_a_wait_counts_down() -> None:
    """Every few seconds, and the last line says that it is over."""
    world = World([limited(12.0), GOOD])
    await world.ask()
    lines = [f"The provider is busy; trying again in {seconds} s (2 of 3)..." for seconds in (12, 7, 2)]
    assert (world.shown, world.waits) == ([*lines, "Asked again (2 of 3)."], [5.0, 5.0, 2.0])


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (AWAY, "The provider is not available;"),
        ([CREATED, LOST], "OpenRouter's answer broke off;"),
        (UNREACHABLE, "OpenRouter cannot be reached;"),
    ],
)
async def test_each_reason_has_its_words(failure: Any, line: str) -> None:
    """And what is hardly noticed is not shown."""
    world = World([failure, failure, GOOD])
    await world.ask()
    assert world.shown[-2].startswith(line)
    assert len(world.shown) == 2 * sum(wait >= 1 for wait in world.waits)


OF_EFFORT = "The model does not know the reasoning effort `xhigh`; asked again"


@pytest.mark.parametrize(
    ("refusal", "changed", "line"),
    [
        (
            rejected_effort("low", "high"),
            {"reasoning": {**REASONING, "effort": "high"}},
            f"{OF_EFFORT} with `high`.",
        ),
        (rejected_effort(), {"reasoning": {"summary": "auto"}}, f"{OF_EFFORT} without it."),
        (
            REJECTED,
            {"temperature": None},
            "The model does not take the parameter temperature; asked again without it.",
        ),
    ],
)
async def test_what_a_model_refuses_is_changed_or_omitted(
    refusal: PipeError, changed: dict[str, Any], line: str
) -> None:
    """At once, in the same place of the body, and said; the nearest effort takes the place of a refused one."""
    world = World([refusal, GOOD])
    assert await world.ask() == GOOD
    expected = [(name, value) for name, value in {**BODY, **changed}.items() if value is not None]
    assert [*world.bodies[1].items()] == expected
    assert (world.shown, sum(world.waits)) == ([line], 0)


async def test_an_answer_without_streaming_is_asked_for_again_too() -> None:
    """By the same rules."""
    world = World([limited(1.0), rejected_effort("low"), [DELTA]])
    assert await world.responses().create(BODY) == {"output": [DELTA]}
    assert [body["reasoning"].get("effort") for body in world.bodies] == ["xhigh", "xhigh", "low"]
