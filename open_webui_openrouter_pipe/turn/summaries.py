"""The summaries that a plan requires: found, claimed, written by a model, and kept.

Owns the two kinds of request (a suffix to the cached request, or a standalone request with a prompt of its own), the
order in which they are tried, the time limit, the judgement of what comes back, and for how long a model is left alone
that fails repeatedly. Each summary is made once, whoever asks for it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from ..conversation.conversation import Conversation
from ..conversation.slash import covers
from ..errors import (
    AccessDenied,
    AuthenticationFailed,
    ConfigurationError,
    ModelNotFound,
    PaymentRequired,
    PipeError,
    RateLimited,
    SpendingLimitReached,
    StoreError,
    StreamBroken,
)
from ..money.audit import Bill, Purpose
from ..money.prices import NO_PRICES, Paid, Prices, paid
from ..planning.plan import CachedPrefix
from ..ports import Pauses, RequestBody, RequestOrigin, Requests, Responses, StoredSummary, Summaries
from ..responses.effects import Effect, ResponseFailed, ResponseFinished, Usage
from ..responses.items import Item, is_message
from ..responses.reducer import Reducer
from ..summaries.completion import complete_summary
from ..summaries.prompt import identifies_turns, standalone_request, suffix_instruction
from ..summaries.segments import Segment, SummaryTarget, summaries_before, summaries_within
from ..summaries.summary import (
    EarlierState,
    RefusalReason,
    Summary,
    SummaryRefused,
    message_text,
    parse_model_summary,
    render_summary,
    response_text,
)
from .memory import SeenOnce

MAX_ATTEMPTS: Final = 2
FAILURES_BEFORE_PAUSE: Final = 2
PAUSE_SECONDS: Final = 120.0
MAX_PAUSE_SECONDS: Final = 30 * 60.0
MODEL_SHARE: Final = 0.5
"""What of a summary's allowance the model may fill; the rest is for what is added from the chat."""
OUTPUT_SLACK: Final = 2
MIN_OUTPUT_TOKENS: Final = 1_024
"""Models keep to a length only roughly; entries that are too many for their allowance are omitted afterwards."""
THINKING_TOKENS: Final = 8_192
THINKING_SHARE: Final = 0.125
WINDOW_SHARE: Final = 0.8
MIN_SOURCE_SHARE: Final = 0.25
FINAL_ERRORS: Final = (
    AuthenticationFailed,
    PaymentRequired,
    AccessDenied,
    ModelNotFound,
    RateLimited,
    ConfigurationError,
)
"""After these every other request would fail at once as well."""

_MAX_CONCURRENT: Final = 3
_MAX_PREFETCHES: Final = 2
_POLL_SECONDS: Final = 0.5
_GRACE_SECONDS: Final = 2.0
_LEASE_SLACK_SECONDS: Final = 30.0

SummaryFailure: TypeAlias = (
    RefusalReason
    | Literal[
        "timed_out", "claimed_elsewhere", "database_unavailable", "provider", "limit", "unexpected_error"
    ]
)
"""Why there is no summary; its line is `summary_failure_{code}`."""

Hold: TypeAlias = Callable[[Bill, RequestBody], Awaitable[Bill]]
"""Names the bill of a request, and holds the most that this may cost. Raises SpendingLimitReached."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that writes summaries, and how to ask it; the window is in tokens."""

    model: str
    requests: Requests
    window_tokens: int
    reasons: bool = False
    prices: Prices = NO_PRICES
    ratio: float = 1.0
    """Billed tokens for each that we count, at most."""

    def max_output_tokens(self, summary_tokens: int) -> int:
        """How large an answer with so large a summary may be, including the thinking of a model that reasons."""
        thinking_tokens = min(THINKING_TOKENS, int(self.window_tokens * THINKING_SHARE))
        answer_tokens = max(MIN_OUTPUT_TOKENS, summary_tokens * OUTPUT_SLACK)
        return answer_tokens + thinking_tokens if self.reasons else answer_tokens

    def room_tokens(self, output_tokens: int) -> int:
        """How much by our count fits beside so large an answer; the share left free makes up for most ratios."""
        room_tokens = self.window_tokens * WINDOW_SHARE - output_tokens
        return int(room_tokens / max(1.0, self.ratio * WINDOW_SHARE))

    def request(
        self,
        target: SummaryTarget,
        items: Sequence[Item],
        output_tokens: int,
        prefix: CachedPrefix | None = None,
    ) -> tuple[Bill, RequestBody]:
        """Return a request for a summary, behind the prefix if there is one, and its bill by our own count."""
        input_tokens = self.window_tokens - output_tokens
        bill = Bill(
            model=self.model,
            window_tokens=self.window_tokens,
            budget_tokens=input_tokens,
            limit_tokens=input_tokens,
            tokens_before=target.source_tokens,
            input_tokens=prefix.tokens if prefix else target.source_tokens,
        )
        return bill, self.requests.build_summary_request(
            (*prefix.items, *items) if prefix else items,
            prefix.marks if prefix else None,
            output_tokens=output_tokens,
            omitted_tools=prefix.unoffered_tools if prefix else (),
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to a summary model: its bill, and the summary, or why there is none.

    The bill of one that failed at the provider names its error.
    """

    bill: Bill
    summary: Summary | None = None
    failure: SummaryFailure | None = None


@dataclass(frozen=True, slots=True, repr=False)
class SummaryWriter:
    """Writes summaries for one call of the host.

    `suffix_model` is asked as the chat asks its model, None where that costs more.
    """

    responses: Responses
    named: list[str]
    """The ids of its responses that have begun."""
    suffix_model: SummaryModel | None
    standalone_model: SummaryModel
    count: Callable[[str], int]
    clock: Callable[[], float]
    """Epoch seconds, by which prices go."""
    hold: Hold

    async def write(
        self,
        target: SummaryTarget,
        cached_prefix: CachedPrefix | None,
        *,
        time_limit_seconds: float,
        purpose: Purpose = "summary",
        record: Callable[[Bill], None] = lambda _: None,
    ) -> tuple[Attempt, ...]:
        """Ask for a summary of the target, after the cached prefix if that is possible; twice at most.

        Both attempts together have so many seconds, and none follows one that took too long. Each bill is recorded at
        once: whoever asked may leave.
        """
        until_seconds = asyncio.get_running_loop().time() + time_limit_seconds
        attempts: list[Attempt] = []
        requests = self._requests(target, cached_prefix)
        while request := await asyncio.to_thread(next, requests, None):
            model, (bill, body) = request
            counted = replace(bill, purpose=purpose)
            attempt, is_final = await self._attempt(model, (counted, body), target, until_seconds, record)
            attempts.append(attempt)
            record(attempt.bill)
            if is_final:
                break
        return tuple(attempts)

    async def _attempt(
        self,
        model: SummaryModel,
        request: tuple[Bill, RequestBody],
        target: SummaryTarget,
        until_seconds: float,
        record: Callable[[Bill], None],
    ) -> tuple[Attempt, bool]:
        """Ask once; return what came of it, and whether that is the end of it."""
        (counted, body), sent_seconds = request, self.clock()
        cost = model.prices.cost(Usage(counted.input_tokens), seconds=sent_seconds).total
        unknown = replace(counted, cost=cost, estimated=True, failure="timed_out")
        try:
            unknown = await self.hold(unknown, body)
        except SpendingLimitReached as error:
            log.info("a summary is not asked for: %s", error)
            return Attempt(replace(counted, input_tokens=0, failure="limit"), failure="limit"), True
        bill = replace(unknown, input_tokens=0, cost=0.0, estimated=False, failure="")
        self.named.clear()
        try:
            async with asyncio.timeout_at(until_seconds):
                end = await self._ask(body)
            usage = end.usage or Usage()
            listed = model.prices.cost(usage, seconds=sent_seconds).total
            total = paid(usage, 0.0 if isinstance(end, ResponseFailed) else listed)
            unknown = bill = replace(
                bill,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_tokens,
                cost=total.openrouter,
                provider_cost=total.provider,
                generation=end.response_id or "",
            )
            summary, tokens = await asyncio.to_thread(self._complete, target, end)
            return Attempt(replace(bill, tokens_sent=tokens, details_omitted=summary.omitted), summary), True
        except SummaryRefused as refused:
            return Attempt(replace(bill, failure=refused.reason), failure=refused.reason), False
        except TimeoutError:
            return Attempt(self._named(unknown), failure="timed_out"), True
        except PipeError as error:
            log.warning("a summary was not written: %s", error)
            words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__).lower()
            lost = self._named(unknown)
            bill = replace(lost if lost.generation else bill, failure=words)
            return Attempt(bill, failure="provider"), isinstance(error, FINAL_ERRORS)
        except BaseException:  # left, or a bug of ours: what is held ends with its bill
            record(self._named(unknown))
            raise

    async def _ask(self, body: RequestBody) -> ResponseFinished | ResponseFailed:
        """Return the end of a response, read as a stream: that has an id at once, and ends when it is left.

        Raises the error tree's errors, also for one that was cut.
        """
        reducer, effects = Reducer(), list[Effect]()
        try:
            async with self.responses.stream(body) as events:
                async for event in events:
                    effects += reducer.feed(event)
        except StreamBroken:
            if not (effects and isinstance(effects[-1], ResponseFinished)):  # else it was complete before
                raise
        cut = reducer.close()
        end = [*effects, *cut][-1]
        assert isinstance(end, ResponseFinished | ResponseFailed)
        if cut and isinstance(end, ResponseFailed):
            raise self.responses.explain(end.failure)
        return end

    def _named(self, bill: Bill) -> Bill:
        """The bill of a request that was left or cut, with its id if it has begun."""
        return replace(bill, generation=self.named[-1]) if self.named and bill.estimated else bill

    def _requests(
        self, target: SummaryTarget, prefix: CachedPrefix | None
    ) -> Iterator[tuple[SummaryModel, tuple[Bill, RequestBody]]]:
        """Yield who is asked what at the first attempt, and at the second."""
        summary_tokens = int((target.max_tokens + target.max_state_tokens) * MODEL_SHARE)
        attempts, model = MAX_ATTEMPTS, self.suffix_model
        if model is not None and prefix is not None and _contains(prefix, target):
            output_tokens = model.max_output_tokens(summary_tokens)
            suffix = suffix_instruction(target, max_tokens=summary_tokens)
            input_tokens = prefix.tokens + self.count(message_text(suffix))
            if input_tokens <= model.room_tokens(output_tokens):
                attempts -= 1
                yield model, model.request(target, [suffix], output_tokens, prefix)
        model = self.standalone_model
        output_tokens = model.max_output_tokens(summary_tokens)
        min_tokens = int(model.window_tokens * MIN_SOURCE_SHARE)
        max_source_tokens = max(model.room_tokens(output_tokens), min_tokens)
        items = standalone_request(
            target, max_tokens=summary_tokens, count=self.count, max_source_tokens=max_source_tokens
        )
        yield from [(model, model.request(target, items, output_tokens))] * attempts

    def _complete(self, target: SummaryTarget, end: ResponseFinished | ResponseFailed) -> tuple[Summary, int]:
        """Return the summary in its final form, and its tokens.

        Raises SummaryRefused when the answer is not one, and the error of a response that failed.
        """
        if isinstance(end, ResponseFailed):
            raise self.responses.explain(end.failure)
        model_summary = parse_model_summary(
            response_text(end.items, complete=end.status == "completed"),
            source_tokens=target.source_tokens,
            count=self.count,
        )
        summary = complete_summary(model_summary, target, count=self.count, max_tokens=target.max_tokens)
        tokens = self.count(render_summary(summary))
        if tokens >= target.source_tokens:
            raise SummaryRefused("longer_than_its_source")
        return summary, tokens


def _contains(prefix: CachedPrefix, target: SummaryTarget) -> bool:
    """Whether the prefix holds the turns themselves, not an earlier summary, so that a suffix can name them.

    What a user says may be said again, and is then the same item; an answer has an id that tells where it stands.
    """
    items = (entry.item for turn in target.turns for entry in turn.entries)
    first = next((item for item in items if is_message(item) and item["role"] == "assistant"), None)
    return any(item is first for item in prefix.items) and identifies_turns(target.turns, prefix.items)


class SummarizerState:
    """What all summarizers of a worker share."""

    def __init__(
        self, start: Callable[[Coroutine[Any, Any, None]], object], clock: Callable[[], float]
    ) -> None:
        """`start` begins a task whose owner waits for it or cancels it; `clock` gives monotonic seconds."""
        self.start = start
        self.clock = clock
        self.pauses = Pauses(
            clock=clock,
            failures=FAILURES_BEFORE_PAUSE,
            first_seconds=PAUSE_SECONDS,
            longest_seconds=MAX_PAUSE_SECONDS,
        )
        self.failing = SeenOnce()
        """Models and chats: the last summaries that the chat required of it could not be had in time."""
        self.prefetches = asyncio.Semaphore(_MAX_PREFETCHES)


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """The summaries that were made, by segment, and what was paid for them.

    `failure` is why the first of the others failed.
    """

    summaries: Mapping[Segment, Summary] = field(default_factory=dict)
    paid: Paid = field(default_factory=Paid)
    failure: SummaryFailure | None = None


@dataclass(slots=True, eq=False, repr=False)
class Summarizer:
    """Finds and makes the summaries of one call of the host.

    `origin` is whose they are: a model that fails in one user's chats is not asked again for these alone.
    """

    summaries: Summaries
    writer: Callable[[], Awaitable[SummaryWriter]]
    """Returns what writes, which most calls do not need."""
    state: SummarizerState
    origin: RequestOrigin
    time_limit_seconds: float
    record: Callable[[Bill], None]
    _failed: bool = field(default=False, init=False)

    @property
    def may_try(self) -> bool:
        """Whether the model has neither failed in this call nor repeatedly a short while ago."""
        return not (self._failed or self.state.pauses.remaining_seconds(self._model_name))

    @property
    def may_wait(self) -> bool:
        """Whether the user may be kept waiting: not in a chat whose last summaries could not be had in time."""
        return self.may_try and not self.state.failing.contains(self.origin.user_id, self._chat_name)

    @property
    def _model_name(self) -> str:
        return f"{self.origin.user_id} {self.origin.model}"

    @property
    def _chat_name(self) -> str:
        return f"{self.origin.model} {self.origin.chat_id}"

    def retry(self) -> None:
        """Forget that the last summaries could not be had, and wait for them again: the user asks for one."""
        self._failed = False
        self.state.failing.forget(self.origin.user_id, self._chat_name)
        self.state.pauses.record_success(self._model_name)

    async def available(self, conversation: Conversation) -> Mapping[Segment, Summary]:
        """Return all summaries of the user that fit the conversation; never raises."""
        try:
            return await self._find(conversation.chains)
        except Exception:  # a summary is never worth an answer
            log.exception("summaries could not be read, and this request goes on without")
            return {}

    async def discard(self, conversation: Conversation, turns: Sequence[range]) -> int:
        """Discard the summaries of any of these turns, counted from 1, or all; return how many. Raises StoreError."""
        chains = conversation.chains
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

        try:
            async with asyncio.timeout(self.time_limit_seconds + _GRACE_SECONDS):
                async with asyncio.TaskGroup() as group:
                    for target in targets[:-1]:
                        group.create_task(make_next(target))
                if targets and (not batches or any(batch.summaries for batch in batches)):
                    batches.append(
                        await self._make_one(targets[-1], cached_prefix, until_seconds=until_seconds)
                    )
        except TimeoutError:
            batches.append(SummaryBatch(failure="timed_out"))
        combined = SummaryBatch(
            {segment: summary for batch in batches for segment, summary in batch.summaries.items()},
            Paid.total(batch.paid for batch in batches),
            next((batch.failure for batch in batches if batch.failure), None),
        )
        self._record_outcome(combined)
        if combined.failure == "timed_out":
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
        failing, user_id = self.state.failing, self.origin.user_id
        if batch.failure:
            failing.add(user_id, [self._chat_name])
        elif batch.summaries:
            failing.forget(user_id, self._chat_name)
        if batch.summaries:
            self.state.pauses.record_success(self._model_name)
        elif batch.failure and batch.failure != "claimed_elsewhere":
            self._failed = True
            # what took all the time there was has cost as much as anybody may have to wait
            self.state.pauses.record_failure(self._model_name, pauses=batch.failure == "timed_out")

    async def _make_one(
        self, target: SummaryTarget, cached_prefix: CachedPrefix | None, *, until_seconds: float | None
    ) -> SummaryBatch:
        """Make one summary under a claim, or wait until then for whoever has the claim; None when nobody waits."""
        segment, user_id, clock = target.segment, self.origin.user_id, self.state.clock
        lease_seconds = self.time_limit_seconds + _LEASE_SLACK_SECONDS
        try:
            while not await self._claim(segment, lease_seconds):
                if until_seconds is None:
                    return SummaryBatch()
                if clock() >= until_seconds:
                    return SummaryBatch(failure="claimed_elsewhere")
                await asyncio.sleep(min(_POLL_SECONDS, until_seconds - clock()))
            try:
                # Whoever had the claim before may have finished after the conversation's summaries were looked up.
                own_chains = (segment.start, *(turn.chain for turn in target.turns[:-1]), segment.end)
                found = await self._find([*target.chains_before, *own_chains])
                if segment in found:
                    return SummaryBatch({segment: found[segment]})
                earlier = EarlierState.after(summaries_before(target, found), summaries_within(target, found))
                target = replace(target, earlier=earlier)
                return await self._write(target, cached_prefix, until_seconds=until_seconds)
            finally:
                await self.summaries.release(user_id, segment)
        except StoreError as error:
            log.warning("a summary was not made: %s", error)
            return SummaryBatch(failure="database_unavailable")
        except Exception:  # a summary is never worth an answer
            log.exception("a summary was not made")
            return SummaryBatch(failure="unexpected_error")

    async def _claim(self, segment: Segment, seconds: float) -> bool:
        """Claim a segment's summary; who is cancelled meanwhile leaves no claim behind."""
        claiming = asyncio.create_task(self.summaries.claim(self.origin.user_id, segment, seconds=seconds))

        async def give_back() -> None:
            with suppress(StoreError):
                if await claiming:
                    await self.summaries.release(self.origin.user_id, segment)

        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            self.state.start(give_back())
            raise

    async def _find(self, chains: Sequence[bytes]) -> Mapping[Segment, Summary]:
        return await self.summaries.find(self.origin.user_id, chains, chat_id=self.origin.chat_id)

    async def _write(
        self,
        target: SummaryTarget,
        cached_prefix: CachedPrefix | None,
        *,
        until_seconds: float | None,
    ) -> SummaryBatch:
        """Write and keep a summary, and record each request; the last one with the summary's size and omissions."""
        left_seconds = (
            self.time_limit_seconds if until_seconds is None else until_seconds - self.state.clock()
        )
        if left_seconds <= 0:
            return SummaryBatch(failure="timed_out")
        writer = await self.writer()
        attempts = await writer.write(
            target,
            cached_prefix,
            time_limit_seconds=left_seconds,
            purpose="summary_ahead" if until_seconds is None else "summary",
            record=self.record,
        )
        last, origin = attempts[-1], self.origin
        bills = [attempt.bill for attempt in attempts]
        total = Paid.total(Paid(bill.cost, bill.provider_cost) for bill in bills)
        if last.summary is None:
            return SummaryBatch(paid=total, failure=last.failure)
        kept = (target.segment, last.summary, last.bill.model, target.source_tokens)
        try:
            await self.summaries.keep(StoredSummary(origin.user_id, origin.chat_id, *kept))
        except Exception as error:  # noqa: BLE001 - it is written, and of use at least now
            log.warning("a summary serves this request alone: %s: %s", type(error).__name__, error)
        return SummaryBatch({target.segment: last.summary}, total)
