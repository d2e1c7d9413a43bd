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

    from open_webui_openrouter_pipe.responses.failure import Failure

pytestmark = pytest.mark.anyio

CREATED: Event = {"type": "response.created", "response": {"id": "gen-1"}}
DELTA: Event = {"type": "response.output_text.delta", "delta": "Hi"}
DONE: Event = {"type": "response.completed", "response": {}}
OVERLOADED: Event = {"type": "response.failed", "response": {"error": {"code": 503, "message": "m"}}}
BODY: RequestBody = {
    "model": "m",
    "temperature": 0.5,
    "reasoning": {"effort": "xhigh", "summary": "auto"},
    "input": [],
}


def passing(error: PipeError) -> PipeError:
    error.passes = True
    return error


@dataclass
class World:
    """OpenRouter with an outcome for each attempt, the last one again, and a clock that only waits move."""

    outcomes: list[PipeError | list[Event | PipeError]]
    chance: float = 0.0
    now: float = 0.0
    attempt_seconds: float = 0.0
    bodies: list[RequestBody] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    open_streams: int = 0

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        outcome = self._next(body)
        if isinstance(outcome, PipeError):
            raise outcome
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
        outcome = self._next(body)
        if isinstance(outcome, PipeError):
            raise outcome
        return {"output": outcome}

    def _next(self, body: RequestBody) -> PipeError | list[Event | PipeError]:
        self.bodies.append(body)
        self.now += self.attempt_seconds
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def explain(self, failure: Failure) -> PipeError:
        return to_error(failure)

    async def sleep(self, seconds: float) -> None:
        assert self.open_streams == 0
        self.waits.append(seconds)
        self.now += seconds

    async def show(self, line: Notice) -> None:
        self.shown.append(line.text)

    def responses(self, limit_seconds: float = 30.0) -> RetryingResponses:
        chance = Chance(self.sleep, lambda: self.now, lambda: self.chance)
        return RetryingResponses(self, limit_seconds=limit_seconds, show=self.show, chance=chance)

    async def ask(self, limit_seconds: float = 30.0) -> list[Event]:
        async with self.responses(limit_seconds).stream(BODY) as events:
            return [event async for event in events]


def limited(seconds: float | None = None) -> PipeError:
    return passing(RateLimited("busy", retry_after_seconds=seconds))


GOOD: list[Event | PipeError] = [CREATED, DELTA, DONE]


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([passing(ConnectionFailed("no"))] * 2, [0.5, 1.0]),
        ([limited()] * 2, [2.0, 4.0]),
        ([limited(0.0)], [0.0]),
        ([limited(3.0)], [3.0]),
        ([passing(ProviderUnavailable("away"))], [2.0]),
        ([[CREATED, OVERLOADED]], [2.0]),
        ([[CREATED, passing(StreamBroken("lost"))]], [0.5]),
        ([[CREATED]], [0.5]),
        ([[]], [0.5]),
    ],
)
async def test_what_passes_is_asked_again(failures: list[Any], waits: list[float]) -> None:
    """Also inside a stream, as long as nothing of the answer has come; then the whole answer is handed on."""
    world = World([*failures, GOOD])
    assert (await world.ask(), world.waits) == (GOOD, waits)


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (limited(), 3),
        (limited(31.0), 1),
        (limited(16.0), 2),
        (PaymentRequired("no"), 1),
        (ConnectionFailed("silent"), 1),
    ],
)
async def test_the_attempts_and_the_whole_time_are_limited(failure: PipeError, attempts: int) -> None:
    """The last error is raised as it is, and nobody waits for what comes too late."""
    world = World([failure])
    with pytest.raises(type(failure)) as caught:
        await world.ask()
    assert (caught.value, len(world.bodies)) == (failure, attempts)


async def test_the_time_of_the_attempts_counts() -> None:
    """After a time-out of the gateway nobody wants to wait for another one."""
    world = World([limited()], attempt_seconds=29.0)
    with pytest.raises(RateLimited):
        await world.ask()
    assert len(world.bodies) == 1


async def test_without_a_limit_of_seconds_nothing_is_asked_again() -> None:
    """An administrator can switch it off."""
    world = World([limited(0.0), GOOD])
    with pytest.raises(RateLimited):
        await world.ask(limit_seconds=0.0)
    assert len(world.bodies) == 1


@pytest.mark.parametrize("end", [OVERLOADED, passing(StreamBroken("lost"))])
async def test_after_the_first_output_nothing_is_asked_again(end: Any) -> None:
    """The user would read it twice."""
    world = World([[CREATED, DELTA, end], GOOD])
    received: list[Event] = []
    try:
        async with world.responses().stream(BODY) as events:
            async for event in events:
                received.append(event)  # noqa: PERF401 - what came before the error counts
    except StreamBroken:
        received.append(end)
    assert (received, len(world.bodies), world.waits) == ([CREATED, DELTA, end], 1, [])


async def test_a_failure_that_does_not_pass_is_handed_on_with_its_bill() -> None:
    """What it cost stands in its event."""
    failed: Event = {"type": "response.failed", "response": {"error": {"code": 402}, "usage": {"cost": 1}}}
    assert await World([[CREATED, failed]]).ask() == [CREATED, failed]


async def test_a_failure_with_a_price_is_not_paid_for_twice() -> None:
    """It would pass, and its bill would be lost."""
    usage = {"input_tokens": 9, "output_tokens": 0, "cost": 0.25}
    failed = {**OVERLOADED, "response": {**OVERLOADED["response"], "usage": usage}}
    world = World([[CREATED, failed], GOOD])
    assert await world.ask() == [CREATED, failed]
    assert len(world.bodies) == 1


async def test_chance_only_adds_to_a_wait() -> None:
    """The server's word is a minimum."""
    world = World([limited(4.0), GOOD], chance=1.0)
    await world.ask()
    assert sum(world.waits) == 5.0


async def test_a_wait_counts_down() -> None:
    """Every few seconds, and the last line says that it is over."""
    world = World([limited(12.0), GOOD])
    await world.ask()
    assert world.shown == [
        "The provider is busy; trying again in 12 s (2 of 3)...",
        "The provider is busy; trying again in 7 s (2 of 3)...",
        "The provider is busy; trying again in 2 s (2 of 3)...",
        "Asked again (2 of 3).",
    ]
    assert world.waits == [5.0, 5.0, 2.0]


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (passing(ProviderUnavailable("m")), "The provider is not available;"),
        ([CREATED, passing(StreamBroken("m"))], "OpenRouter's answer broke off;"),
        (passing(ConnectionFailed("m")), "OpenRouter cannot be reached;"),
    ],
)
async def test_each_reason_has_its_words(failure: Any, line: str) -> None:
    """And what is hardly noticed is not shown."""
    world = World([failure, failure, GOOD])
    await world.ask()
    assert world.shown[-2].startswith(line)
    assert len(world.shown) == 2 * sum(wait >= 1 for wait in world.waits)


def rejected_effort(*supported: str) -> PipeError:
    error = EffortRejected("no")
    error.supported_efforts = supported
    return error


@pytest.mark.parametrize(
    ("supported", "reasoning", "line"),
    [
        (
            ("low", "high"),
            {"effort": "high", "summary": "auto"},
            "The model does not know the reasoning effort `xhigh`; asked again with `high`.",
        ),
        (
            (),
            {"summary": "auto"},
            "The model does not know the reasoning effort `xhigh`; asked again without it.",
        ),
    ],
)
async def test_the_nearest_effort_takes_the_place_of_a_refused_one(
    supported: tuple[str, ...], reasoning: dict[str, str], line: str
) -> None:
    """At once, in the same place of the body, and said; without a list it is omitted."""
    world = World([rejected_effort(*supported), GOOD])
    assert await world.ask() == GOOD
    assert [list(body) for body in world.bodies] == [list(BODY)] * 2
    assert (world.bodies[1]["reasoning"], world.shown, sum(world.waits)) == (reasoning, [line], 0)


async def test_a_refused_parameter_is_omitted_once() -> None:
    """One that is refused although it was omitted ends the attempts."""
    error = ParameterRejected("no")
    error.parameter = "temperature"
    world = World([error, GOOD])
    assert await world.ask() == GOOD
    assert "temperature" not in world.bodies[1]
    assert world.shown == ["The model does not take the parameter temperature; asked again without it."]
    with pytest.raises(ParameterRejected):
        await World([error]).ask()


async def test_an_answer_without_streaming_is_asked_for_again_too() -> None:
    """By the same rules."""
    world = World([limited(1.0), rejected_effort("low"), [DELTA]])
    assert await world.responses().create(BODY) == {"output": [DELTA]}
    assert [body["reasoning"].get("effort") for body in world.bodies] == ["xhigh", "xhigh", "low"]


async def test_an_effort_is_replaced_once() -> None:
    """Where the replacement is refused as well, the error is the user's."""
    world = World([rejected_effort("low", "high")])
    with pytest.raises(EffortRejected):
        await world.ask()
    assert [body["reasoning"]["effort"] for body in world.bodies] == ["xhigh", "high"]
