"""Asks again, before anything was shown, what may succeed the second time; a wrapper of the port `Responses`.

What passes by itself is asked again after a wait, by the server's word or by one that doubles, with a limit on the
whole time and a line that counts down. What a model does not take is asked at once without it, or with what is nearest,
and said. From the first output on everything is handed on as it comes, and nothing is asked again: the user would read
it twice, and pay for it twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionFailed,
    EffortRejected,
    ParameterRejected,
    PaymentRequired,
    PipeError,
    ProviderError,
    RateLimited,
    StreamBroken,
)
from ..ports import Event, Notice, RequestBody, Responses, Show
from ..responses.failure import Failure, has_output, is_failure, read_failure
from ..responses.values import as_number, as_object, as_text
from ..words.lines import notice
from .fields import nearest_effort

_LINES: Final[Mapping[type[AuthenticationFailed | PaymentRequired], str]] = {
    AuthenticationFailed: "own_key_rejected",
    PaymentRequired: "own_key_without_credits",
}


class OwnKeyResponses:
    """Another `Responses` whose errors about the key and its credits speak to its owner."""

    def __init__(self, responses: Responses) -> None:
        self._responses = responses

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream, as the port does."""
        try:
            async with self._responses.stream(body) as events:
                yield events
        except PipeError as error:
            raise _to_owner(error) from error

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        """Return the response object, as the port does."""
        try:
            return await self._responses.create(body)
        except PipeError as error:
            raise _to_owner(error) from error

    def explain(self, failure: Failure) -> PipeError:
        """Return the error that a failure inside a stream is."""
        return _to_owner(self._responses.explain(failure))


def require_usable(key: str | None) -> None:
    """Raise ConfigurationError for a key that is lost, which the empty text stands for, or that no header can hold."""
    if key == "":
        raise ConfigurationError(notice("own_key_unreadable"))
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError(notice("own_key_rejected"))


def _to_owner(error: PipeError) -> PipeError:
    for kind, line in _LINES.items():
        if isinstance(error, kind):
            spoken = kind(notice(line), detail=error.detail)
            spoken.generation_id = error.generation_id
            return spoken
    return error


ATTEMPTS: Final = 3
MAX_CHANGES: Final = 3
"""How many parameters are changed or omitted in one request, one after the other."""
FIRST_WAITS_SECONDS: Final[Mapping[type[PipeError], float]] = {ConnectionFailed: 0.5, StreamBroken: 0.5}
"""Of what need not recover; the others wait longer. Each further wait is twice as long."""
FIRST_WAIT_SECONDS: Final = 2.0
JITTER_SHARE: Final = 0.25
"""Added by chance, so that those who were turned away together do not come back together."""
SHOWN_FROM_SECONDS: Final = 1.0
COUNTDOWN_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chance:
    """What retries need of the world: a pause in seconds, monotonic seconds, and a number from 0 to 1."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random


class RetryingResponses:
    """The port `Responses` over another one. Retries of one request may take `limit_seconds` in all; 0 is none."""

    def __init__(
        self,
        inner: Responses,
        *,
        limit_seconds: float,
        show: Show | None = None,
        chance: Chance | None = None,
    ) -> None:
        """`show` gets the lines about waits and changes; without it nobody waits for the answer."""
        self._inner = inner
        self._limit_seconds = limit_seconds
        self._show = show
        self._chance = chance or Chance()

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream; the same as the inner one's, but for failures before the first output that passed."""
        attempts = self._attempts(body)
        while True:
            async with AsyncExitStack() as stack:
                try:
                    events = await stack.enter_async_context(self._inner.stream(attempts.body))
                    beginning, failure = await _read_beginning(events)
                except PipeError as error:
                    attempts.take(error)
                else:
                    is_final = (
                        failure is None
                        or _is_billed(beginning[-1])
                        or not attempts.may_pass(self._inner.explain(failure))
                    )
                    if is_final:
                        async with aclosing(_joined(beginning, events)) as joined:
                            yield joined
                        return
            await attempts.prepare()

    async def create(self, body: RequestBody) -> Mapping[str, Any]:
        """Return the response object, as the inner port does."""
        attempts = self._attempts(body)
        while True:
            try:
                return await self._inner.create(attempts.body)
            except PipeError as error:
                attempts.take(error)
            await attempts.prepare()

    def explain(self, failure: Failure) -> PipeError:
        """Turn a failure inside a stream into an error."""
        return self._inner.explain(failure)

    def _attempts(self, body: RequestBody) -> _Attempts:
        return _Attempts(body, self._limit_seconds, self._show, self._chance, self._chance.clock())


@dataclass(slots=True)
class _Attempts:
    """Those of one request, which began at `begin_seconds`: the body to send now, and what to do before."""

    body: RequestBody
    limit_seconds: float
    show: Show | None
    chance: Chance
    begin_seconds: float
    count: int = 1
    changed: set[str] = field(default_factory=set)
    wait_seconds: float = 0.0
    line: str = ""
    reason: str = ""

    def take(self, error: PipeError) -> None:
        """Plan the next attempt; raises the error if there is none."""
        if not self.may_pass(error):
            raise error

    def may_pass(self, error: PipeError) -> bool:
        """Plan the next attempt after this error; return whether there is one."""
        self.wait_seconds, self.line, self.reason = 0.0, "", ""
        if isinstance(error, EffortRejected | ParameterRejected) and len(self.changed) < MAX_CHANGES:
            return self._change(error)
        wait_seconds = self._wait_before_next(error)
        whole_seconds = self.chance.clock() - self.begin_seconds + wait_seconds
        if (
            not (error.passes and self.limit_seconds)
            or self.count >= ATTEMPTS
            or whole_seconds > self.limit_seconds
        ):
            return False
        self.count += 1
        self.wait_seconds, self.reason = wait_seconds, _reason(error)
        _log.info("attempt %d of %d in %.1f s: %s", self.count, ATTEMPTS, wait_seconds, error)
        return True

    async def prepare(self) -> None:
        """Wait as planned, and show that; a wait that is hardly noticed is not shown."""
        if self.show is None or self.wait_seconds < SHOWN_FROM_SECONDS:
            await self.chance.sleep(self.wait_seconds)
        else:
            await self._count_down(self.show, self.wait_seconds)
        if self.show and self.line:
            await self.show(Notice(self.line))

    async def _count_down(self, show: Show, remaining_seconds: float) -> None:
        while remaining_seconds > 0:
            seconds = math.ceil(remaining_seconds)
            line = notice(self.reason, seconds=seconds, attempt=self.count, attempts=ATTEMPTS)
            await show(Notice(line, done=False))
            await self.chance.sleep(min(remaining_seconds, COUNTDOWN_SECONDS))
            remaining_seconds -= COUNTDOWN_SECONDS
        self.line = notice("retrying", attempt=self.count, attempts=ATTEMPTS)

    def _wait_before_next(self, error: PipeError) -> float:
        """The server's word is a minimum; without one the wait doubles."""
        requested = error.retry_after_seconds if isinstance(error, ProviderError) else None
        if requested is None:
            first = next(
                (seconds for kind, seconds in FIRST_WAITS_SECONDS.items() if isinstance(error, kind)),
                FIRST_WAIT_SECONDS,
            )
            requested = first * 2.0 ** (self.count - 1)
        return requested * (1 + JITTER_SHARE * self.chance.random())

    def _change(self, error: EffortRejected | ParameterRejected) -> bool:
        """Change the body; False when it does not hold what the error names, or no longer."""
        path = error.parameter if isinstance(error, ParameterRejected) else "reasoning.effort"
        asked = _value_at(self.body, path)
        if asked is None or path in self.changed:
            return False
        self.changed.add(path)
        used = None
        if isinstance(error, EffortRejected):
            used = nearest_effort(as_text(asked), [name for name in error.supported_efforts if name != asked])
            name = "effort_replaced" if used else "effort_omitted"
            self.line = notice(name, asked=asked, used=used)
        else:
            self.line = notice("parameter_omitted", name=path)
        self.body = _with_value(self.body, path, used)
        _log.info("asked again without what was refused, %s: %s", path, error)
        return True


async def _read_beginning(events: AsyncIterator[Event]) -> tuple[list[Event], Failure | None]:
    """Return the events up to the first that shows or ends something, and the failure if that is one.

    Raises:
        StreamBroken: There is none.
    """
    beginning: list[Event] = []
    async for event in events:
        beginning.append(event)
        if is_failure(event):
            return beginning, read_failure(None, as_object(event.get("response")) or event)
        if has_output(event):
            return beginning, None
    broken = StreamBroken(notice("stream_incomplete"))
    broken.passes = True
    raise broken


def _is_billed(failed: Event) -> bool:
    """Whether the failed attempt has a price, whose bill is then handed on."""
    return bool(as_number(as_object(as_object(failed.get("response")).get("usage")).get("cost")))


async def _joined(beginning: list[Event], events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
    for event in beginning:
        yield event
    async for event in events:
        yield event


def _reason(error: PipeError) -> str:
    """The line that is shown while this error passes."""
    match error:
        case RateLimited():
            return "retry_busy"
        case ConnectionFailed():
            return "retry_unreachable"
        case StreamBroken():
            return "retry_lost"
        case _:
            return "retry_unavailable"


def _value_at(body: RequestBody, path: str) -> Any:
    """What the body holds at a path of one or two names; None where there is nothing."""
    name, _, inner = path.partition(".")
    return as_object(body.get(name)).get(inner) if inner else body.get(name)


def _with_value(body: RequestBody, path: str, value: Any) -> RequestBody:
    """The body with another value at a path, in the same place; None omits it."""
    name, _, inner = path.partition(".")
    if inner:
        value = _with_value(as_object(body.get(name)), inner, value)
    changed = {**body, name: value}
    return {key: member for key, member in changed.items() if key != name or member is not None}
