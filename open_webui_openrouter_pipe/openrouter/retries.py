"""Asks again, before anything was shown, what may succeed the second time; a wrapper of the port `Responses`.

What passes by itself is asked again after a wait, by the server's word or by one that doubles, with a limit on the
whole time and a line that counts down. What a model does not take is asked at once without it, or with what is nearest,
and an answer that the credits do not last for with the limit that they do; both are said. From the first output on
everything is handed on as it comes, and nothing is asked again: the user would read it twice, and pay for it twice.
"""

from __future__ import annotations

import logging
import math
from asyncio import CancelledError, sleep
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from random import random
from time import monotonic
from typing import Any, Final, TypeAlias

from ..errors import (
    ConnectionFailed,
    EffortRejected,
    ParameterRejected,
    PaymentRequired,
    PipeError,
    RateLimited,
    StreamBroken,
)
from ..ports import WAITED, Event, Notice, RequestBody, Responses, Show
from ..responses.effects import read_usage
from ..responses.failure import Failure, has_output, is_failure, read_event_failure
from ..responses.values import as_count, as_object
from ..words.lines import notice
from .fields import nearest_effort, value_at, with_value

ATTEMPTS: Final = 3
MAX_CHANGES: Final = 3
"""How many parameters are changed or omitted in one request, one after the other."""
LEAST_ANSWER_TOKENS: Final = 512
"""An answer that the credits are enough for; below, one would end before it says anything."""
LEAST_THINKING_TOKENS: Final = 1_024
"""Anthropic's least; a model that thinks needs it besides, unless the request says how much it thinks."""
MOST_RAISED_TOKENS: Final = 64
"""Up to here, an answer that may not be so short may be longer than was asked for."""
JITTER_SHARE: Final = 0.25
"""Added by chance, so that those who were turned away together do not come back together."""
SHOWN_FROM_SECONDS: Final = 1.0
COUNTDOWN_SECONDS: Final = 5.0

_PASSING: Final[tuple[tuple[type[PipeError], str, float], ...]] = (
    (RateLimited, "retry_busy", 2.0),
    (PaymentRequired, "retry_in_flight", 2.0),
    (ConnectionFailed, "retry_unreachable", 0.5),
    (StreamBroken, "retry_lost", 0.5),
    (PipeError, "retry_unavailable", 2.0),
)
"""What passes, the line that is shown meanwhile, and the seconds before the second attempt: what is lost need not
recover. Each further wait is twice as long."""

_Change: TypeAlias = tuple[str, Any, str]
"""A path in the body, what stands there from now on (nothing for None), and what is said of it."""

_log = logging.getLogger(__name__)


class RetryingResponses:
    """The port `Responses` over another one. Retries of one request may take `limit_seconds` in all; 0 is none."""

    def __init__(
        self,
        inner: Responses,
        *,
        limit_seconds: float,
        show: Show | None = None,
        attempt: Callable[[RequestBody], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`show` gets the lines about waits and changes; without it nobody waits for the answer.

        Within an `attempt` with a body it is asked, until the first output or a failure, which is raised there.
        """
        self._inner = inner
        self._limit_seconds = limit_seconds
        self._show = show
        self._attempt = attempt

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncGenerator[AsyncIterator[Event]]:
        """Open a stream; the same as the inner one's, but for failures before the first output that passed."""
        attempts = Attempts(body, self._limit_seconds, self._show, monotonic())
        while True:
            beginning: list[Event] = []
            is_over = True
            async with AsyncExitStack() as stack:
                try:
                    with self._attempt(attempts.body):
                        events = await stack.enter_async_context(self._inner.stream(attempts.body))
                        beginning, failure = await _read_beginning(events)
                        if failure:
                            raise self._inner.explain(failure)
                except PipeError as error:
                    # a failure with a bill is handed on with it
                    is_over = _is_billed(beginning) or not attempts.may_pass(error)
                    if is_over and not beginning:
                        raise
                if is_over:
                    async with aclosing(_joined(beginning, events)) as joined:
                        yield joined
                    return
            await attempts.prepare()

    def explain(self, failure: Failure) -> PipeError:
        """Turn a failure inside a stream into an error."""
        return self._inner.explain(failure)


@dataclass(slots=True)
class Attempts:
    """Those of one request, which began at `begin_seconds`: the body to send now, and what to do before."""

    body: RequestBody
    limit_seconds: float
    show: Show | None
    begin_seconds: float
    count: int = 1
    changed: set[str] = field(default_factory=set)
    wait_seconds: float = 0.0
    line: str = ""
    reason: str = ""

    def may_pass(self, error: PipeError) -> bool:
        """Plan the next attempt after this error; return whether there is one."""
        self.wait_seconds, self.line, self.reason = 0.0, "", ""
        if len(self.changed) < MAX_CHANGES and (change := self._change_for(error)):
            path, used, self.line = change
            self.changed.add(path)
            self.body = with_value(self.body, path, used)
            _log.info("asked again with %r for %s: %s", used, path, error)
            return True
        if not (error.passes and self.limit_seconds) or self.count >= ATTEMPTS:
            return False
        reason, first_seconds = next((line, wait) for kind, line, wait in _PASSING if isinstance(error, kind))
        wait_seconds = error.retry_after_seconds
        if wait_seconds is None:
            wait_seconds = first_seconds * 2.0 ** (self.count - 1)
        wait_seconds *= 1 + JITTER_SHARE * random()  # noqa: S311 - no secret; and the server's word is a minimum
        if monotonic() - self.begin_seconds + wait_seconds > self.limit_seconds:
            return False
        self.count += 1
        self.wait_seconds, self.reason = wait_seconds, reason
        _log.info("attempt %d of %d in %.1f s: %s", self.count, ATTEMPTS, wait_seconds, error)
        return True

    async def prepare(self) -> None:
        """Wait as planned; a cancellation says so."""
        try:
            await self._wait()
        except CancelledError as stopped:
            stopped.args = (WAITED,)
            raise

    async def _wait(self) -> None:
        """Wait, and count that down; a wait that is hardly noticed is not shown."""
        remaining_seconds = self.wait_seconds
        if self.show is None or remaining_seconds < SHOWN_FROM_SECONDS:
            await sleep(remaining_seconds)
        else:
            while remaining_seconds > 0:
                seconds = math.ceil(remaining_seconds)
                line = notice(self.reason, seconds=seconds, attempt=self.count, attempts=ATTEMPTS)
                await self.show(Notice(line, done=False))
                await sleep(min(remaining_seconds, COUNTDOWN_SECONDS))
                remaining_seconds -= COUNTDOWN_SECONDS
            line = notice("retrying", attempt=self.count, attempts=ATTEMPTS)
            await self.show(Notice(line, done=False))
        if self.show and self.line:
            await self.show(Notice(self.line))

    def _change_for(self, error: PipeError) -> _Change | None:
        """Return what to change; None where the body does not hold what the error names, or where it was changed."""
        if isinstance(error, PaymentRequired):
            return self._affordable(error.affordable_tokens or 0)
        path = error.parameter if isinstance(error, ParameterRejected) else ""
        if isinstance(error, EffortRejected):
            path = "reasoning.effort" if value_at(self.body, "reasoning.effort") else "reasoning.enabled"
        asked = value_at(self.body, path)
        if asked is None or path in self.changed:
            return None
        if isinstance(error, ParameterRejected):
            return _replaced(path, asked, error.value)
        effort = asked if isinstance(asked, str) else "none"
        supported = getattr(error, "supported_efforts", ())
        used = nearest_effort(effort, [name for name in supported if name != effort])
        return _replaced(path, effort, used)

    def _affordable(self, tokens: int) -> _Change | None:
        """Return the limit of an answer that the credits are enough for, if it would say anything."""
        path, reasoning = "max_output_tokens", as_object(self.body.get("reasoning"))
        thinks = (
            bool(reasoning) and reasoning.get("effort") != "none" and reasoning.get("enabled") is not False
        )
        thinking_tokens = (as_count(reasoning.get("max_tokens")) or LEAST_THINKING_TOKENS) if thinks else 0
        asked = as_count(self.body.get(path))
        is_enough = tokens >= LEAST_ANSWER_TOKENS + thinking_tokens and (asked is None or tokens < asked)
        if path in self.changed or not is_enough:
            return None
        return path, tokens, notice("output_affordable", used=tokens)


def _replaced(path: str, asked: Any, value: Any) -> _Change | None:
    """Return what is asked for in the place of a value; None where that would be dearer."""
    if value is None:
        return path, None, notice("parameter_omitted", name=path)
    if isinstance(value, Mapping):
        return path, value, notice("thinking_omitted")
    if isinstance(value, int) and value > max(asked, MOST_RAISED_TOKENS):
        return None
    return path, value, notice("parameter_replaced", name=path, asked=asked, used=value)


async def _read_beginning(events: AsyncIterator[Event]) -> tuple[list[Event], Failure | None]:
    """Return the events up to the first that shows or ends something, and the failure if that is one.

    Raises:
        StreamBroken: There is none.
    """
    beginning: list[Event] = []
    async for event in events:
        beginning.append(event)
        if is_failure(event):
            return beginning, read_event_failure(event)
        if has_output(event):
            return beginning, None
    broken = StreamBroken(notice("stream_broken"))
    broken.passes = True
    raise broken


def _is_billed(beginning: Sequence[Event]) -> bool:
    end = beginning[-1] if beginning else {}
    usage = read_usage(as_object(end.get("response")).get("usage"))
    return bool(usage and usage.is_billed)


async def _joined(beginning: list[Event], events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
    for event in beginning:
        yield event
    async for event in events:
        yield event
