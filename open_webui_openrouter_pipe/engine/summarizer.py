"""Keeps what fails again and again from being tried with each request.

Owns the count of failures in a row and the pause that follows. It knows nothing of what is tried.

Carries out the summaries that a plan asks for, each once in all workers.

Owns the finding of what exists, the claims on what is to be made, waiting for what another worker makes, the
pause after failures, what is recorded of each request to a writer, and the jobs that run beside the chat. How a
summary is written is the scribe's; when one is due is decided in `context` alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..conversation.budget import Budget
from ..conversation.content_cache import ContentCache
from ..conversation.conversation import Conversation
from ..errors import StoreError
from ..planning.audit import AuditRow, SummaryOutcome, summary_row
from ..planning.plan import CachedPrefix
from ..ports import StoredSummary, Summaries
from ..summaries.segments import Segment, SummaryTarget
from ..summaries.summary import Summary
from .recorder import RequestOrigin
from .summary_writer import ATTEMPTS, SummaryWriter, WriterResult

FAILURES = 2
PAUSE_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 30 * 60.0
MOST_DOUBLINGS = 8


@dataclass(frozen=True, slots=True)
class _Trouble:
    failures: int
    until_seconds: float


class Breaker:
    """Opens for a while after some failures in a row of the same name, for longer each further time."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Everything may be tried; `clock` gives monotonic seconds."""
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    def is_open(self, name: str) -> bool:
        """Whether it is too early to try again."""
        trouble = self._troubles.get(name)
        return trouble is not None and self._clock() < trouble.until_seconds

    def succeeded(self, name: str) -> None:
        """Forget earlier failures."""
        self._troubles.pop(name, None)

    def failed(self, name: str) -> None:
        """Count a failure; from the second in a row on, the next try has to wait."""
        before = self._troubles.get(name)
        failures = before.failures + 1 if before else 1
        self._troubles[name] = _Trouble(failures, self._clock() + _pause_seconds(failures))


def _pause_seconds(failures: int) -> float:
    """How long to wait after so many failures in a row: twice as long each time, up to a limit."""
    if failures < FAILURES:
        return 0.0
    doublings = min(failures - FAILURES, MOST_DOUBLINGS)
    return min(PAUSE_SECONDS * 2.0**doublings, LONGEST_PAUSE_SECONDS)


WARM_SECONDS: Final = 240.0
"""For so long after a request its input may be expected in the provider's cache (Anthropic keeps it five minutes)."""

_AT_ONCE: Final = 3
_POLL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2.0
_LEASE_SLACK_SECONDS: Final = 30.0

ELSEWHERE: Final = "another worker is still at it"

log = logging.getLogger(__name__)


class PromptCacheClock:
    """What a worker remembers of when a chat was last sent to a model, bounded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._sent: ContentCache[float] = ContentCache(limit=4_096)

    def note(self, chat_id: str, model: str) -> None:
        """The chat has just been sent."""
        self._sent.put(f"{model} {chat_id}".encode(), self._clock())

    def is_warm(self, chat_id: str, model: str) -> bool:
        """Whether the provider may still have it in its cache."""
        sent = self._sent.get(f"{model} {chat_id}".encode())
        return bool(chat_id) and sent is not None and self._clock() - sent < WARM_SECONDS


@dataclass(frozen=True, slots=True)
class SummarizerState:
    """What all summarizers of a worker share.

    `start` begins work that goes on beside the chat and is given up when the worker stops.
    """

    start: Callable[[Coroutine[Any, Any, None]], object]
    clock: Callable[[], float]
    breaker: Breaker = field(default_factory=Breaker)
    ahead: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """What came of an order: the summaries by segment, what they cost, and why the first of the others failed."""

    summaries: Mapping[Segment, Summary] = field(default_factory=dict)
    cost: float = 0.0
    failure: str = ""


class Summarizer:
    """Finds and makes the summaries of one call of the host."""

    def __init__(
        self,
        summaries: Summaries,
        scribe: SummaryWriter,
        desk: SummarizerState,
        *,
        origin: RequestOrigin,
        time_limit_seconds: float,
        record: Callable[[AuditRow], None],
    ) -> None:
        """`origin` is whose they are: a model that fails in one user's chats is left alone in these."""
        self._summaries = summaries
        self._scribe = scribe
        self._desk = desk
        self._origin = origin
        self._patience_seconds = ATTEMPTS * time_limit_seconds
        self._record = record
        self._failed = False
        self._name = f"{origin.user_id} {origin.model}"

    @property
    def may_try(self) -> bool:
        """Whether the model has failed neither in this call nor again and again a moment ago."""
        return not (self._failed or self._desk.breaker.is_open(self._name))

    async def available(self, chat: Conversation) -> Mapping[Segment, Summary]:
        """All summaries of the user that fit the conversation; never raises."""
        chains = [chat.before, *(turn.chain for turn in chat.turns)]
        return await self._summaries.find(self._origin.user_id, chains, chat_id=self._origin.chat_id)

    async def make(self, stretches: Sequence[SummaryTarget], live: CachedPrefix | None) -> SummaryBatch:
        """Have the summaries made, or wait for them where another worker is at it.

        All of them together have as long as one may take; after a failure no other is begun.
        """
        limit, made = asyncio.Semaphore(_AT_ONCE), list[SummaryBatch]()

        async def one(stretch: SummaryTarget) -> None:
            async with limit:
                if not any(each.failure for each in made):
                    made.append(await self._one(stretch, live, ahead=False))

        tasks = [asyncio.create_task(one(stretch)) for stretch in stretches]
        try:
            _, late = await asyncio.wait(tasks, timeout=self._patience_seconds + _GRACE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        together = _together([*made, SummaryBatch(failure="timed out")] if late else made)
        self._judge(together)
        return together

    def prefetch(self, stretches: Sequence[SummaryTarget], live: CachedPrefix | None) -> None:
        """Have the summaries made beside the chat, one after the other."""
        if stretches and self.may_try:
            self._desk.start(self._prepare(stretches, live))

    async def _prepare(self, stretches: Sequence[SummaryTarget], live: CachedPrefix | None) -> None:
        try:
            async with self._desk.ahead:
                for stretch in stretches:
                    made = await self._one(stretch, live, ahead=True)
                    self._judge(made)
                    if made.failure:
                        return
        except Exception:  # nobody awaits this task, and the next request may still ask for the summary
            log.exception("a summary was not prepared")

    def _judge(self, made: SummaryBatch) -> None:
        """Note a success or a failure; an order that came to something is no failure."""
        if made.summaries:
            self._desk.breaker.succeeded(self._name)
        elif made.failure and made.failure != ELSEWHERE:
            self._failed = True
            self._desk.breaker.failed(self._name)

    async def _one(self, stretch: SummaryTarget, live: CachedPrefix | None, *, ahead: bool) -> SummaryBatch:
        """One summary: made under a claim, or, unless it is not needed yet, awaited from whoever has the claim."""
        until = self._desk.clock() + self._patience_seconds / ATTEMPTS
        try:
            while not await self._claim(stretch.segment):
                if ahead:
                    return SummaryBatch()
                if self._desk.clock() >= until:
                    return SummaryBatch(failure=ELSEWHERE)
                await asyncio.sleep(_POLL_SECONDS)
        except StoreError as error:
            log.warning("a summary was not made: %s", error)
            return SummaryBatch(failure="the database is away")
        try:
            # Whoever had the claim before may have finished since the conversation's summaries were looked up.
            return await self._found(stretch.segment) or await self._write(stretch, live, ahead=ahead)
        except Exception:  # a summary is never worth an answer
            log.exception("a summary was not made")
            return SummaryBatch(failure="unexpected error")
        finally:
            await self._summaries.release(self._origin.user_id, stretch.segment)

    async def _claim(self, segment: Segment) -> bool:
        lease_seconds = self._patience_seconds + _LEASE_SLACK_SECONDS
        return await self._summaries.claim(self._origin.user_id, segment, seconds=lease_seconds)

    async def _write(self, stretch: SummaryTarget, live: CachedPrefix | None, *, ahead: bool) -> SummaryBatch:
        written = await self._scribe.write(stretch, live)
        self._record_attempts(stretch, written, ahead=ahead)
        cost = sum(attempt.usage.cost for attempt in written.attempts if attempt.usage)
        summary = written.summary
        if summary is None:
            return SummaryBatch(cost=cost, failure=written.attempts[-1].failure)
        origin, model = self._origin, written.attempts[-1].writer.model
        stored = StoredSummary(
            origin.user_id, origin.chat_id, stretch.segment, summary, model, stretch.source_tokens
        )
        try:
            await self._summaries.keep(stored)
        except StoreError as error:
            log.warning("a summary serves this request alone: %s", error)
        return SummaryBatch({stretch.segment: summary}, cost)

    async def _found(self, segment: Segment) -> SummaryBatch | None:
        origin = self._origin
        found = await self._summaries.find(
            origin.user_id, [segment.start, segment.end], chat_id=origin.chat_id
        )
        return SummaryBatch({segment: found[segment]}) if segment in found else None

    def _record_attempts(self, stretch: SummaryTarget, written: WriterResult, *, ahead: bool) -> None:
        """A row for each request; what the last one came to stands in its row."""
        for attempt in written.attempts:
            gave = attempt is written.attempts[-1] and written.summary is not None
            summarized = SummaryOutcome(
                source_tokens=stretch.source_tokens,
                summary_tokens=written.tokens if gave else 0,
                facts_lost=len(written.summary.lost) if gave and written.summary else 0,
                failure=attempt.failure,
            )
            budget = Budget(attempt.writer.window_tokens, attempt.output_tokens, 0)
            model = attempt.writer.model
            self._record(summary_row(model, summarized, ahead=ahead, budget=budget, usage=attempt.usage))


def _together(made: Sequence[SummaryBatch]) -> SummaryBatch:
    """What came of several orders as one."""
    return SummaryBatch(
        {segment: summary for each in made for segment, summary in each.summaries.items()},
        sum(each.cost for each in made),
        next((each.failure for each in made if each.failure), ""),
    )
