"""Finds and makes the summaries that a plan asks for, each once in all workers.

Owns the search for what exists, the claims on what is being made, the wait for what another worker makes, how long
a user waits, the pause after failures, the audit of each request to a summary model, and the background jobs. How a
summary is written is the writer's business; when one is due is decided by planning alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..conversation.budget import Budget
from ..conversation.commands import covers
from ..conversation.content_cache import ContentCache
from ..conversation.conversation import Conversation
from ..errors import StoreError
from ..notices import notice
from ..planning.audit import AuditRow, SummaryOutcome, summary_row
from ..planning.plan import CachedPrefix
from ..ports import StoredSummary, Summaries
from ..summaries.judge import require_content
from ..summaries.segments import Segment, SummaryTarget, summaries_before, summaries_within
from ..summaries.summary import EarlierState, Summary, SummaryRefused
from .recorder import RequestOrigin
from .summary_writer import TIMED_OUT, SummaryWriter

FAILURES_BEFORE_PAUSE: Final = 2
PAUSE_SECONDS: Final = 120.0
MAX_PAUSE_SECONDS: Final = 30 * 60.0
MAX_DOUBLINGS: Final = 8
PROMPT_CACHE_SECONDS: Final = 240.0
"""For so long after a request its input may be expected in the provider's cache (Anthropic keeps it five minutes)."""
MAX_REMEMBERED: Final = 4_096

_MAX_CONCURRENT: Final = 3
_MAX_PREFETCHES: Final = 2
_POLL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2.0
_LEASE_SLACK_SECONDS: Final = 30.0

_FAILURE_NOTICES: Final[Mapping[str, str]] = {
    "empty": "summary_failure_empty",
    "malformed": "summary_failure_malformed",
    "longer than its source": "summary_failure_longer_than_its_source",
    "repeats its prompt": "summary_failure_repeats_its_prompt",
    "cut off": "summary_failure_cut_off",
    "calls a tool": "summary_failure_calls_a_tool",
    "reasoning only": "summary_failure_reasoning_only",
    "refused": "summary_failure_refused",
    "not grounded": "summary_failure_not_grounded",
    "no content": "summary_failure_no_content",
    "too short": "summary_failure_too_short",
    "not about its source": "summary_failure_not_about_its_source",
    TIMED_OUT: "summary_failure_timed_out",
    "claimed elsewhere": "summary_failure_claimed_elsewhere",
    "database unavailable": "summary_failure_database_unavailable",
    "unexpected error": "summary_failure_unexpected_error",
}
"""The user's line for each reason why there is no summary."""

log = logging.getLogger(__name__)


class Breaker:
    """Opens for a while after some failures in a row of the same name, longer each time; bounded."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._failures: ContentCache[tuple[int, float]] = ContentCache(limit=MAX_REMEMBERED)
        """How many there were in a row, and until when not to try again."""

    def is_open(self, name: str) -> bool:
        """Whether it is too early to try again."""
        _, retry_at_seconds = self._failures.get(name.encode()) or (0, 0.0)
        return self._clock() < retry_at_seconds

    def record_success(self, name: str) -> None:
        """Forget earlier failures."""
        self._failures.put(name.encode(), (0, 0.0))

    def record_failure(self, name: str) -> None:
        """Count a failure; from the second in a row on, each pause is twice as long as the one before."""
        self._count(name, at_least=1)

    def record_time_out(self, name: str) -> None:
        """Count a failure that took all the time there was: the first one begins a pause."""
        self._count(name, at_least=FAILURES_BEFORE_PAUSE)

    def _count(self, name: str, *, at_least: int) -> None:
        failures = max(at_least, (self._failures.get(name.encode()) or (0, 0.0))[0] + 1)
        doublings = min(failures - FAILURES_BEFORE_PAUSE, MAX_DOUBLINGS)
        pause_seconds = min(PAUSE_SECONDS * 2.0**doublings, MAX_PAUSE_SECONDS) if doublings >= 0 else 0.0
        self._failures.put(name.encode(), (failures, self._clock() + pause_seconds))


class PromptCacheClock:
    """What a worker remembers of when a chat was last sent to a model; bounded."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._sent: ContentCache[float] = ContentCache(limit=MAX_REMEMBERED)

    def note(self, chat_id: str, model: str) -> None:
        """Remember that the chat has just been sent."""
        self._sent.put(f"{model} {chat_id}".encode(), self._clock())

    def may_be_cached(self, chat_id: str, model: str) -> bool:
        """Whether the provider may still have the chat in its cache; never for a chat without an id."""
        sent = self._sent.get(f"{model} {chat_id}".encode())
        return bool(chat_id) and sent is not None and self._clock() - sent < PROMPT_CACHE_SECONDS


class SummarizerState:
    """What all summarizers of a worker share."""

    def __init__(
        self, start: Callable[[Coroutine[Any, Any, None]], object], clock: Callable[[], float]
    ) -> None:
        """`start` begins a task whose owner waits for it or cancels it; `clock` gives monotonic seconds."""
        self.start = start
        self.clock = clock
        self.breaker = Breaker(clock=clock)
        self.failing: ContentCache[bool] = ContentCache(limit=MAX_REMEMBERED)
        """By user, model and chat: whether the last summaries that the chat required could not be had in time."""
        self.prefetches = asyncio.Semaphore(_MAX_PREFETCHES)


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """The summaries that were made, by segment, their cost in dollars, and why the first of the others failed.

    `failure` is in plain words for the user, "" when nothing failed.
    """

    summaries: Mapping[Segment, Summary] = field(default_factory=dict)
    cost: float = 0.0
    failure: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Summarizer:
    """Finds and makes the summaries of one call of the host.

    `origin` is whose they are: a model that fails in one user's chats is not asked again for these alone.
    """

    summaries: Summaries
    writer: SummaryWriter
    state: SummarizerState
    origin: RequestOrigin
    time_limit_seconds: float
    record: Callable[[AuditRow], None]
    _failed: bool = field(default=False, init=False)

    @property
    def may_try(self) -> bool:
        """Whether the model has neither failed in this call nor repeatedly a short while ago."""
        return not (self._failed or self.state.breaker.is_open(self._breaker_name))

    @property
    def may_wait(self) -> bool:
        """Whether the user may be kept waiting: not in a chat whose last summaries could not be had in time."""
        return self.may_try and not self.state.failing.get(self._chat_name)

    @property
    def _breaker_name(self) -> str:
        return f"{self.origin.user_id} {self.origin.model}"

    @property
    def _chat_name(self) -> bytes:
        return f"{self._breaker_name} {self.origin.chat_id}".encode("utf-8", "surrogatepass")

    def retry(self) -> None:
        """Forget that the last summaries could not be had."""
        self._failed = False
        self.state.failing.put(self._chat_name, value=False)
        self.state.breaker.record_success(self._breaker_name)

    async def available(self, conversation: Conversation) -> Mapping[Segment, Summary]:
        """Return all summaries of the user that fit the conversation; never raises."""
        try:
            return await self._find([conversation.before, *(turn.chain for turn in conversation.turns)])
        except Exception:  # a summary is never worth an answer
            log.exception("summaries could not be read, and this request goes on without")
            return {}

    async def discard(self, conversation: Conversation, turns: Sequence[range]) -> int:
        """Discard the summaries of any of these turns, counted from 1, or all; return how many. Raises StoreError."""
        chains = [conversation.before, *(turn.chain for turn in conversation.turns)]
        number = {chain: index for index, chain in enumerate(chains)}
        found = await self._find(chains)
        unwanted = [
            (segment, summary)
            for segment, summary in found.items()
            if any(covers(turns, turn) for turn in range(number[segment.start], number[segment.end]))
        ]
        for segment, summary in unwanted:
            await self.summaries.discard(self.origin.user_id, segment, summary)
        return len(unwanted)

    async def make(
        self, targets: Sequence[SummaryTarget], cached_prefix: CachedPrefix | None
    ) -> SummaryBatch:
        """Make the summaries, or wait for them where another worker makes them.

        The newest (the last target) is written after the others, because it is shown what these leave open. All of
        them together have as long as one may take. After a failure no other is begun, but the newest is as long as
        any other succeeded. What was not ready in time is then made beside the chat.
        """
        until_seconds = self.state.clock() + self.time_limit_seconds
        limit, batches = asyncio.Semaphore(_MAX_CONCURRENT), list[SummaryBatch]()

        async def make_next(target: SummaryTarget) -> None:
            async with limit:
                if not any(batch.failure for batch in batches):
                    batches.append(await self._make_one(target, cached_prefix, until_seconds=until_seconds))

        async def make_all() -> None:
            async with asyncio.TaskGroup() as group:
                for target in targets[:-1]:
                    group.create_task(make_next(target))
            if targets and (not batches or any(batch.summaries for batch in batches)):
                batches.append(await self._make_one(targets[-1], cached_prefix, until_seconds=until_seconds))

        try:
            async with asyncio.timeout(self.time_limit_seconds + _GRACE_SECONDS):
                await make_all()
        except TimeoutError:
            batches.append(SummaryBatch(failure=_failure_text(TIMED_OUT)))
        combined = SummaryBatch(
            {segment: summary for batch in batches for segment, summary in batch.summaries.items()},
            sum(batch.cost for batch in batches),
            next((batch.failure for batch in batches if batch.failure), ""),
        )
        self._record_outcome(combined)
        if combined.failure == _failure_text(TIMED_OUT):
            late = [target for target in targets if target.segment not in combined.summaries]
            self.state.start(self._prefetch(late, cached_prefix))
        return combined

    def prefetch(self, targets: Sequence[SummaryTarget], cached_prefix: CachedPrefix | None) -> None:
        """Have the summaries made beside the chat, one after the other."""
        if targets and self.may_try:
            self.state.start(self._prefetch(targets, cached_prefix))

    async def _prefetch(self, targets: Sequence[SummaryTarget], cached_prefix: CachedPrefix | None) -> None:
        async with self.state.prefetches:
            for target in targets:
                batch = await self._make_one(target, cached_prefix, until_seconds=None)
                self._record_outcome(batch)
                if batch.failure:
                    return

    def _record_outcome(self, batch: SummaryBatch) -> None:
        """Note a success or a failure; a batch in which something succeeded is not a failure of the model."""
        if batch.failure or batch.summaries:
            self.state.failing.put(self._chat_name, bool(batch.failure))
        if batch.summaries:
            self.state.breaker.record_success(self._breaker_name)
        elif batch.failure and batch.failure != _failure_text("claimed elsewhere"):
            self._failed = True
            if batch.failure == _failure_text(TIMED_OUT):
                self.state.breaker.record_time_out(self._breaker_name)
            else:
                self.state.breaker.record_failure(self._breaker_name)

    async def _make_one(
        self, target: SummaryTarget, cached_prefix: CachedPrefix | None, *, until_seconds: float | None
    ) -> SummaryBatch:
        """Make one summary under a claim, or wait until then for whoever has the claim; None when nobody waits."""
        segment, user_id, clock = target.segment, self.origin.user_id, self.state.clock
        lease_seconds = self.time_limit_seconds + _LEASE_SLACK_SECONDS
        try:
            while not await self.summaries.claim(user_id, segment, seconds=lease_seconds):
                if until_seconds is None:
                    return SummaryBatch()
                if clock() >= until_seconds:
                    return SummaryBatch(failure=_failure_text("claimed elsewhere"))
                await asyncio.sleep(min(_POLL_SECONDS, until_seconds - clock()))
            try:
                # Whoever had the claim before may have finished after the conversation's summaries were looked up.
                own_chains = (segment.start, *(turn.chain for turn in target.turns[:-1]), segment.end)
                found = await self._find([*target.chains_before, *own_chains])
                if segment in found:
                    return SummaryBatch({segment: found[segment]})
                earlier = EarlierState.after(summaries_before(target, found), summaries_within(target, found))
                return await self._write(target, cached_prefix, earlier, until_seconds=until_seconds)
            finally:
                await self.summaries.release(user_id, segment)
        except StoreError as error:
            log.warning("a summary was not made: %s", error)
            return SummaryBatch(failure=_failure_text("database unavailable"))
        except Exception:  # a summary is never worth an answer
            log.exception("a summary was not made")
            return SummaryBatch(failure=_failure_text("unexpected error"))

    async def _find(self, chains: Sequence[bytes]) -> Mapping[Segment, Summary]:
        """Find the user's summaries; those without content are deleted, so that others can be made."""
        found = await self.summaries.find(self.origin.user_id, chains, chat_id=self.origin.chat_id)
        usable: dict[Segment, Summary] = {}
        for segment, summary in found.items():
            try:
                require_content(summary)
                usable[segment] = summary
            except SummaryRefused as refused:
                log.warning("a stored summary is discarded: %s", refused.reason)
                await self._discard(segment, summary)
        return usable

    async def _discard(self, segment: Segment, summary: Summary) -> None:
        try:
            await self.summaries.discard(self.origin.user_id, segment, summary)
        except StoreError as error:
            log.warning("it stays in the database, and is not used: %s", error)

    async def _write(
        self,
        target: SummaryTarget,
        cached_prefix: CachedPrefix | None,
        earlier: EarlierState,
        *,
        until_seconds: float | None,
    ) -> SummaryBatch:
        """Write and keep a summary, and record each request; the last one with the summary's size and omissions."""
        left_seconds = (
            self.time_limit_seconds if until_seconds is None else until_seconds - self.state.clock()
        )
        if left_seconds <= 0:
            return SummaryBatch(failure=_failure_text(TIMED_OUT))
        result = await self.writer.write(target, cached_prefix, earlier, time_limit_seconds=left_seconds)
        last, summary, origin = result.attempts[-1], result.summary, self.origin
        for attempt in result.attempts:
            is_success = summary is not None and attempt is last
            outcome = SummaryOutcome(
                source_tokens=target.source_tokens,
                summary_tokens=result.tokens if is_success else 0,
                details_omitted=summary.omitted_count if summary and is_success else 0,
                failure=attempt.failure,
            )
            model, budget = attempt.model, Budget(attempt.model.window_tokens, attempt.output_tokens, 0)
            self.record(
                summary_row(
                    model.model, outcome, ahead=until_seconds is None, budget=budget, usage=attempt.usage
                )
            )
        cost = sum(attempt.usage.cost for attempt in result.attempts if attempt.usage)
        if summary is None:
            return SummaryBatch(cost=cost, failure=_failure_text(last.failure))
        ids, model_id = (origin.user_id, origin.chat_id), last.model.model
        try:
            await self.summaries.keep(
                StoredSummary(*ids, target.segment, summary, model_id, target.source_tokens)
            )
        except Exception as error:  # noqa: BLE001 - it is written, and of use at least now
            log.warning("a summary serves this request alone: %s: %s", type(error).__name__, error)
        return SummaryBatch({target.segment: summary}, cost)


def _failure_text(reason: str) -> str:
    """Return why a summary failed in words for the user; the names of errors are for the log and the audit."""
    return notice(_FAILURE_NOTICES.get(reason, "summary_failure_provider")) if reason else ""
