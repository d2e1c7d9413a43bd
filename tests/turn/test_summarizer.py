"""The summarizer: each summary is made once, whoever asks; claims, waits, records and failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.ports import RequestOrigin, StoredSummary
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.summaries.segments import Segment
from open_webui_openrouter_pipe.summaries.summary import Summary
from open_webui_openrouter_pipe.turn.summaries import (
    PAUSE_SECONDS,
    Summarizer,
    SummarizerState,
    SummaryBatch,
)
from tests.support.chats import user
from tests.support.waiting import eventually
from tests.turn.summary_fakes import (
    COST,
    FIELDS,
    GOOD,
    FakeProvider,
    Reply,
    cached_prefix,
    summary_writer,
    target,
    when_needed,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.ports import Summaries

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]

ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/chat")
ONE, TWO, THREE = (target(start=at) for at in (0, 4, 8))
MALFORMED: Final = "malformed"
SLOW: Final = "timed_out"


class FakeWorker:
    """One worker's summarizers, and what was recorded by them."""

    def __init__(self, *replies: Reply, summaries: Summaries | None = None) -> None:
        self.provider = FakeProvider(*replies)
        self.summaries = summaries or MemorySummaries()
        self.rows: list[Bill] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.state = SummarizerState(self._start, lambda: asyncio.get_running_loop().time())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(work))
        return self.tasks[-1]

    def summarizer(self, seconds: float = 5.0, origin: RequestOrigin = ORIGIN) -> Summarizer:
        """The summarizer of one call of the host."""
        return Summarizer(
            self.summaries,
            when_needed(summary_writer(self.provider)),
            self.state,
            origin=origin,
            time_limit_seconds=seconds,
            record=self.rows.append,
        )

    async def is_unclaimed(self, segment: Segment) -> bool:
        """Whether nobody has a claim on a segment."""
        claimed = await self.summaries.claim("ada", segment, seconds=1)
        if claimed:
            await self.summaries.release("ada", segment)
        return claimed


async def test_a_summary_that_is_made_is_kept_and_recorded() -> None:
    """The record has its cost; the claim is released."""
    worker = FakeWorker(GOOD)
    batch = await worker.summarizer().make([ONE, TWO], None)
    found = await worker.summaries.find("ada", [b"0", b"4", b"8"], chat_id="chat")
    assert (batch.summaries, batch.cost, batch.failure) == (found, 2 * COST, None)
    assert set(found) == {ONE.segment, TWO.segment}
    assert [(row.purpose, row.failure, row.cost, row.tokens_before) for row in worker.rows] == [
        ("summary", "", COST, ONE.source_tokens)
    ] * 2
    assert all(row.tokens_sent > 0 for row in worker.rows)
    assert [await worker.is_unclaimed(each.segment) for each in (ONE, TWO)] == [True, True]


async def test_a_summary_that_exists_is_not_made_again() -> None:
    """It may have been finished since the conversation's summaries were looked up."""
    worker = FakeWorker(GOOD)
    await worker.summarizer().make([ONE], None)
    batch = await worker.summarizer().make([ONE], None)
    assert (set(batch.summaries), batch.cost, len(worker.provider.requests)) == ({ONE.segment}, 0.0, 1)


async def test_concurrent_calls_make_a_summary_once() -> None:
    """All of them get the summary, and the model is asked once."""
    worker = FakeWorker(GOOD)
    batches = await asyncio.gather(*(worker.summarizer().make([ONE], None) for _ in range(3)))
    assert [set(each.summaries) for each in batches] == [{ONE.segment}] * 3
    assert sum(each.cost for each in batches) == COST
    assert len(worker.provider.requests) == 1


async def test_a_call_that_waited_for_a_failure_tries_by_itself() -> None:
    """The claim is released, and there is no summary."""
    worker = FakeWorker("no JSON", "no JSON", GOOD)
    batches = await asyncio.gather(*(worker.summarizer().make([ONE], None) for _ in range(2)))
    assert [batch.failure for batch in batches] == [MALFORMED, None]
    assert len(worker.provider.requests) == 3


async def test_the_wait_for_another_worker_ends() -> None:
    """A worker that died holds its claim longer than anybody waits."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", ONE.segment, seconds=1_000)
    assert await worker.summarizer(seconds=0.01).make([ONE], None) == SummaryBatch(
        failure="claimed_elsewhere"
    )
    assert worker.provider.requests == []


async def test_a_claim_of_another_user_does_not_matter() -> None:
    """Users neither wait for each other nor find each other's summaries."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", ONE.segment, seconds=1_000)
    batch = await worker.summarizer(origin=RequestOrigin("bob", "chat", "m", "vendor/chat")).make([ONE], None)
    assert (set(batch.summaries), len(worker.provider.requests)) == ({ONE.segment}, 1)


async def test_three_summaries_are_made_at_the_same_time() -> None:
    """Others wait for their turn."""
    worker = FakeWorker(GOOD)
    await worker.summarizer().make([target(start=at) for at in range(0, 40, 4)], None)
    assert (len(worker.provider.requests), worker.provider.max_running) == (10, 3)


async def test_the_newest_is_written_last_and_shown_what_the_others_leave() -> None:
    """Each one is shown what the stored summaries before it leave open."""
    with_question = json.dumps({**FIELDS, "open_questions": [{"turn": 2, "text": "Which door?"}]})
    worker = FakeWorker(with_question, GOOD)
    newest = replace(TWO, first_turn=5, chains_before=(b"0", b"4"))
    batch = await worker.summarizer().make([ONE, newest], None)
    texts = [body["input"][-1]["content"][0]["text"] for body in worker.provider.requests]
    assert set(batch.summaries) == {ONE.segment, TWO.segment}
    assert ["Which door?" in text for text in texts] == [False, True]
    assert worker.provider.max_running == 1


async def test_a_failing_older_one_does_not_hold_up_the_newest() -> None:
    """Unless all of the others fail: then the model is not asked again."""
    worker = FakeWorker("no JSON", GOOD, "no JSON", GOOD)
    batch = await worker.summarizer().make([ONE, TWO, THREE], None)
    assert (set(batch.summaries), batch.failure) == ({TWO.segment, THREE.segment}, MALFORMED)
    worker = FakeWorker("no JSON")
    await worker.summarizer().make([ONE, TWO, THREE], None)
    assert len(worker.provider.requests) == 4


async def test_a_batch_names_the_first_failure() -> None:
    """What could be made later is made all the same, and every attempt is recorded."""
    worker = FakeWorker("no JSON", "no JSON", GOOD)
    summarizer = worker.summarizer()
    failed = await summarizer.make([ONE], None)
    batch = await worker.summarizer().make([TWO], None)
    assert (failed.summaries, failed.failure, failed.cost) == ({}, MALFORMED, 2 * COST)
    assert set(batch.summaries) == {TWO.segment}
    assert [row.failure for row in worker.rows] == ["malformed", "malformed", ""]


async def test_two_failed_batches_open_the_breaker() -> None:
    """However many summaries each of them asked for; nothing is tried again in the call that failed."""
    worker = FakeWorker("no JSON")
    first, second = worker.summarizer(), worker.summarizer()
    await first.make([ONE, TWO, THREE], None)
    assert (first.may_try, second.may_try) == (False, True)
    first.prefetch([ONE], None)
    assert worker.tasks == []
    await second.make([ONE], None)
    assert not worker.summarizer().may_try
    await asyncio.sleep(PAUSE_SECONDS)
    assert worker.summarizer().may_try


async def test_a_time_out_costs_the_user_one_time_limit() -> None:
    """One attempt for each, none while the breaker is open; beside the chat it is tried once more."""
    worker = FakeWorker(None)
    summarizer = worker.summarizer(seconds=2.0)
    batch = await summarizer.make([ONE, TWO, THREE, target(start=12)], None)
    assert (batch.failure, len(worker.provider.requests)) == (SLOW, 3)
    assert not worker.summarizer().may_try
    await asyncio.gather(*worker.tasks)
    assert len(worker.provider.requests) == 4
    assert [row.purpose for row in worker.rows] == [*["summary"] * 3, "summary_ahead"]
    later = worker.summarizer()
    assert (later.may_wait, later.may_try, len(worker.tasks)) == (False, False, 1)


async def test_what_was_late_is_made_beside_the_chat() -> None:
    """The next turn finds it, and waits for others again."""
    worker = FakeWorker(None, GOOD)
    batch = await worker.summarizer(seconds=2.0).make([ONE, TWO], None)
    assert batch == SummaryBatch(failure=SLOW)
    await asyncio.gather(*worker.tasks)
    found = await worker.summaries.find("ada", [b"0", b"4", b"8"], chat_id="chat")
    assert (set(found), worker.summarizer().may_wait) == ({ONE.segment, TWO.segment}, True)


async def test_after_a_failure_nobody_waits_in_that_chat() -> None:
    """Other chats wait as before; a success beside the chat ends it."""
    worker = FakeWorker("no JSON", "no JSON", GOOD)
    await worker.summarizer().make([ONE], None)
    other = worker.summarizer(origin=RequestOrigin("ada", "other", "message", "vendor/chat"))
    summarizer = worker.summarizer()
    assert (summarizer.may_wait, summarizer.may_try, other.may_wait, worker.tasks) == (False, True, True, [])
    summarizer.prefetch([ONE], None)
    await asyncio.gather(*worker.tasks)
    assert worker.summarizer().may_wait


async def test_a_part_that_fails_ends_the_waiting_in_that_chat() -> None:
    """The model works, and is asked again, but not while the user waits."""
    worker = FakeWorker(GOOD, None)
    batch = await worker.summarizer(seconds=2.0).make([ONE, TWO], None)
    assert (set(batch.summaries), batch.failure) == ({ONE.segment}, SLOW)
    summarizer = worker.summarizer()
    assert (summarizer.may_wait, summarizer.may_try) == (False, True)


class SlowClaims(MemorySummaries):
    """A store that takes so many seconds to say that another worker has a claim, which has then ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._left = seconds

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        await asyncio.sleep(self._left)
        is_free, self._left = self._left == 0.0, 0.0
        return is_free and await super().claim(user_id, segment, seconds=seconds)


@pytest.mark.parametrize(("elapsed_seconds", "requests"), [(999.48, 1), (999.75, 0), (1_000.0, 0)])
async def test_the_wait_for_another_worker_is_part_of_the_time_limit(
    elapsed_seconds: float, requests: int
) -> None:
    """The model has what is left of it; when nothing is, it is not asked."""
    worker = FakeWorker(None, summaries=SlowClaims(elapsed_seconds))
    start = asyncio.get_running_loop().time()
    batch = await worker.summarizer(seconds=1_000.0).make([ONE], None)
    assert asyncio.get_running_loop().time() - start == pytest.approx(1_000.0)
    assert batch.failure in {SLOW, "claimed_elsewhere"}
    assert len(worker.provider.requests) == requests


class WaitingClaims(MemorySummaries):
    """A store that makes its first claim when it may, whoever has left meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.may_go_on = asyncio.Event()

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        async def work() -> bool:
            await self.may_go_on.wait()
            return await MemorySummaries.claim(self, user_id, segment, seconds=seconds)

        self.asked += 1
        return await asyncio.shield(asyncio.create_task(work()))


class UnavailableSummaries(MemorySummaries):
    """A store that is unavailable, for claims or only for keeping; or that raises another error where it keeps."""

    def __init__(self, *, claims: bool, error: Exception | None = None) -> None:
        super().__init__()
        self._can_claim = claims
        self._error = error or StoreUnavailable("away")

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        if not self._can_claim:
            raise StoreUnavailable("away")
        return await super().claim(user_id, segment, seconds=seconds)

    async def keep(self, stored: StoredSummary) -> None:
        raise self._error


class BrokenSummaries(MemorySummaries):
    """A store that raises, though it promised not to, where it looks summaries up."""

    async def find(self, user_id: str, chains: Sequence[bytes], *, chat_id: str) -> Mapping[Segment, Summary]:
        raise RuntimeError("a bug of the store")


async def test_without_the_database_no_summary_is_made() -> None:
    """Nobody could know whether another worker makes it."""
    worker = FakeWorker(GOOD, summaries=UnavailableSummaries(claims=False))
    assert await worker.summarizer().make([ONE], None) == SummaryBatch(failure="database_unavailable")
    assert worker.provider.requests == []


async def test_summaries_that_cannot_be_looked_up_are_none() -> None:
    """An answer is worth more than the summaries that it would use."""
    conversation = build_conversation([user("one")], [0])
    assert await FakeWorker(GOOD, summaries=BrokenSummaries()).summarizer().available(conversation) == {}


@pytest.mark.parametrize("error", [StoreUnavailable("away"), RuntimeError("a bug of the store")])
async def test_a_summary_that_cannot_be_kept_serves_this_request(error: Exception) -> None:
    """It was paid for."""
    worker = FakeWorker(GOOD, summaries=UnavailableSummaries(claims=True, error=error))
    batch = await worker.summarizer().make([ONE], None)
    assert (set(batch.summaries), batch.cost, batch.failure) == ({ONE.segment}, COST, None)


async def test_summaries_are_prefetched_one_after_the_other() -> None:
    """They are recorded as such, and asked for after the request that was just sent."""
    worker = FakeWorker(GOOD)
    worker.summarizer().prefetch([ONE, TWO, THREE], cached_prefix(ONE, TWO))
    await asyncio.gather(*worker.tasks)
    assert [body["by"] for body in worker.provider.requests] == ["suffix", "suffix", "standalone"]
    assert (worker.provider.max_running, [row.purpose for row in worker.rows]) == (1, ["summary_ahead"] * 3)


async def test_prefetching_does_not_wait_for_another_worker() -> None:
    """A claimed summary is left to whoever has the claim."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", ONE.segment, seconds=1_000)
    worker.summarizer().prefetch([ONE, TWO], None)
    await asyncio.gather(*worker.tasks)
    assert set(await worker.summaries.find("ada", [b"0", b"4", b"8"], chat_id="")) == {TWO.segment}


async def test_a_failure_ends_a_prefetch() -> None:
    """The other summaries would fail as well; no job starts without a target, nor while the breaker is open."""
    worker = FakeWorker("no JSON")
    worker.summarizer().prefetch([], None)
    for _ in range(3):
        worker.summarizer().prefetch([ONE, TWO], None)
        await asyncio.gather(*worker.tasks)
    assert (len(worker.tasks), len(worker.provider.requests)) == (2, 4)


async def test_a_cancelled_prefetch_releases_its_claim() -> None:
    """The next call need not wait."""
    worker = FakeWorker(None)
    worker.summarizer().prefetch([ONE], None)
    await eventually(lambda: worker.provider.running)
    assert not await worker.is_unclaimed(ONE.segment)
    (job,) = worker.tasks
    job.cancel()
    await asyncio.wait({job})
    assert (await worker.is_unclaimed(ONE.segment), worker.provider.running) == (True, 0)


async def test_a_cancelled_call_releases_all_claims() -> None:
    """All requests under way end."""
    worker = FakeWorker(None)
    call = asyncio.create_task(worker.summarizer().make([ONE, TWO], None))
    await eventually(lambda: worker.provider.running)
    call.cancel()
    await asyncio.wait({call})
    assert [await worker.is_unclaimed(each.segment) for each in (ONE, TWO)] == [True, True]
    assert worker.provider.running == 0


async def test_a_call_that_is_cancelled_while_it_claims_leaves_no_claim() -> None:
    """The database does what it was told, so the claim is given back when it has."""
    summaries = WaitingClaims()
    worker = FakeWorker(None, summaries=summaries)
    call = asyncio.create_task(worker.summarizer().make([ONE], None))
    await eventually(lambda: summaries.asked)
    call.cancel()
    await asyncio.wait({call})
    summaries.may_go_on.set()
    await asyncio.gather(*worker.tasks)
    assert await worker.is_unclaimed(ONE.segment)
