"""What is asked again, after which wait, with which words."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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
from open_webui_openrouter_pipe.openrouter import retries
from open_webui_openrouter_pipe.openrouter.errors import to_error
from open_webui_openrouter_pipe.openrouter.retries import RetryingResponses
from open_webui_openrouter_pipe.ports import Event, Notice, RequestBody
from open_webui_openrouter_pipe.responses.failure import read_failure
from tests.openrouter.test_errors import TABLES
from tests.support.rows import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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


REJECTED = passing(ParameterRejected("no"), passes=False, parameter="temperature")
OUTCOMES: Final[dict[str, PipeError | list[Event | PipeError]]] = {
    "an answer": [CREATED, DELTA, DONE],
    "busy": limited(),
    **{f"busy for {seconds} s": limited(seconds) for seconds in (0, 3, 4, 12, 16, 31)},
    "away": passing(ProviderUnavailable("away")),
    "unreachable": passing(ConnectionFailed("no")),
    "silent": ConnectionFailed("silent"),
    "no credits": PaymentRequired("no"),
    "refused": REJECTED,
    "refused effort": rejected_effort("low", "high"),
    "refused effort without another": rejected_effort(),
    "nothing": [],
    "nothing but its beginning": [CREATED],
    "lost": [CREATED, passing(StreamBroken("lost"))],
    "lost behind text": [CREATED, DELTA, passing(StreamBroken("lost"))],
    "failed": [CREATED, ending(503)],
    "failed behind text": [CREATED, DELTA, ending(503)],
    "failed for good": [CREATED, ending(402, cost=1)],
    "failed with a bill": [CREATED, ending(503, input_tokens=9, output_tokens=0, cost=0.25)],
}


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

    @contextmanager
    def responses(self) -> Iterator[RetryingResponses]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retries, "sleep", self.sleep)
            patch.setattr(retries, "monotonic", lambda: self.now)
            patch.setattr(retries, "random", lambda: self.chance)
            yield RetryingResponses(self, limit_seconds=self.limit_seconds, show=self.show)

    async def ask(self, body: RequestBody = BODY) -> list[Event | PipeError]:
        """What comes, with the error that ends it."""
        received: list[Event | PipeError] = []
        try:
            with self.responses() as responses:
                async with responses.stream(body) as events:
                    async for event in events:
                        received.append(event)  # noqa: PERF401 - what came before the error counts
        except PipeError as error:
            received.append(error)
        return received


@pytest.mark.parametrize(("outcomes", "options", "attempts", "waits", "lines"), rows(TABLES, "retries"))
async def test_what_passes_is_asked_again(
    outcomes: str, options: dict[str, Any], attempts: int, waits: list[float], lines: list[str]
) -> None:
    """Then the last outcome is handed on as it is; what was read, or has a bill, is not paid for twice."""
    expected = [OUTCOMES[name] for name in outcomes.split(", ")]
    world = World([*expected], **options)
    received = await world.ask()
    assert received == (expected[-1] if isinstance(expected[-1], list) else [expected[-1]])
    assert (len(world.bodies), world.waits, world.shown) == (attempts, waits, lines)


@pytest.mark.parametrize(
    ("refusal", "changed"),
    [
        ("refused effort", {"reasoning": {**REASONING, "effort": "high"}}),
        ("refused effort without another", {"reasoning": {"summary": "auto"}}),
        ("refused", {"temperature": None}),
    ],
)
async def test_what_a_model_refuses_is_changed_or_omitted(refusal: str, changed: dict[str, Any]) -> None:
    """At once, in the same place of the body; the nearest effort takes the place of a refused one."""
    world = World([OUTCOMES[refusal], OUTCOMES["an answer"]])
    assert await world.ask() == OUTCOMES["an answer"]
    expected = [(name, value) for name, value in {**BODY, **changed}.items() if value is not None]
    assert [*world.bodies[1].items()] == expected


@pytest.mark.parametrize(("title", "error", "body", "sent", "line"), rows(TABLES, "changed requests"))
async def test_what_is_refused_is_asked_for_as_it_may_be(
    title: str, error: dict[str, Any], body: dict[str, Any], sent: dict[str, Any] | None, line: str
) -> None:
    """At once and once, and said; not where the answer would say nothing, or cost more than was asked for."""
    refusal = to_error(read_failure(error.get("code", 400), {"error": error}))
    world = World([refusal, OUTCOMES["an answer"]])
    received = await world.ask(body)
    assert (received == OUTCOMES["an answer"]) == (sent is not None), title
    assert world.bodies[1:] == ([sent] if sent is not None else [])
    assert world.shown == ([line] if line else [])
    world = World([refusal])
    assert await world.ask(body) == [refusal]
    assert len(world.bodies) == 1 + (sent is not None)


async def test_a_shorter_answer_is_asked_for_once() -> None:
    """However little is left a moment later."""
    refusals = [
        to_error(
            read_failure(
                402, {"error": {"message": f"You requested up to 9000 tokens, but can only afford {left}."}}
            )
        )
        for left in (800, 700)
    ]
    world = World([*refusals, OUTCOMES["an answer"]])
    assert await world.ask({}) == [refusals[1]]
    assert world.bodies == [{}, {"max_output_tokens": 800}]


async def test_who_waits_for_the_credits_of_others_is_told_so() -> None:
    """By the server's word, or after two seconds."""
    in_flight = to_error(
        read_failure(
            402, {"error": {"message": "m", "metadata": {"limit_source": "openrouter_in_flight_budget"}}}
        ),
        retry_after_seconds=3.0,
    )
    world = World([in_flight, OUTCOMES["an answer"]])
    assert await world.ask() == OUTCOMES["an answer"]
    assert (world.waits, len(world.bodies)) == ([3.0], 2)
    assert world.shown == [
        "Other requests are using the credits; trying again in 3 s (2 of 3)...",
        "Asked again (2 of 3)...",
    ]


async def test_three_parameters_of_a_request_are_omitted_and_no_more() -> None:
    """The fourth refusal is handed on."""
    names = ["temperature", "top_p", "stop", "metadata"]
    refusals = [passing(ParameterRejected("no"), passes=False, parameter=name) for name in names]
    world = World([*refusals, OUTCOMES["an answer"]])
    assert await world.ask(dict.fromkeys(names, 1)) == [refusals[3]]
    assert [[*body] for body in world.bodies] == [names, names[1:], names[2:], names[3:]]
