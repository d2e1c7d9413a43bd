"""The summarizer: each summary once, whoever asks; what is claimed, awaited, recorded and given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.engine.recorder import RequestOrigin
from open_webui_openrouter_pipe.engine.summarizer import (
    ELSEWHERE,
    PAUSE_SECONDS,
    WARM_SECONDS,
    Breaker,
    PromptCacheClock,
    Summarizer,
    SummarizerState,
    SummaryBatch,
)
from open_webui_openrouter_pipe.errors import StoreUnavailable
from open_webui_openrouter_pipe.store.memory import MemorySummaries
from tests.engine.bureau import COST, GOOD, Bureau, Reply, live, scribe, stretch

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from open_webui_openrouter_pipe.planning.audit import AuditRow
    from open_webui_openrouter_pipe.ports import StoredSummary, Summaries
    from open_webui_openrouter_pipe.summaries.segments import Segment

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/chat")
ONE, TWO, THREE = (stretch(start=at) for at in (0, 4, 8))


class Office:
    """A worker's desk, and what was recorded at it."""

    def __init__(self, *replies: Reply, summaries: Summaries | None = None) -> None:
        self.bureau = Bureau(*replies)
        self.summaries = summaries or MemorySummaries()
        self.rows: list[AuditRow] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.seconds = 0.0
        self.desk = SummarizerState(self._start, self._clock, Breaker(clock=self._clock))

    def _clock(self) -> float:
        return self.seconds or asyncio.get_running_loop().time()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task

    def summarizer(self, seconds: float = 5.0, origin: RequestOrigin = ORIGIN) -> Summarizer:
        """For one call of the host."""
        return Summarizer(
            self.summaries,
            scribe(self.bureau, seconds=seconds),
            self.desk,
            origin=origin,
            time_limit_seconds=seconds,
            record=self.rows.append,
        )

    async def free(self, segment: Segment) -> bool:
        """Whether nobody has a claim on a segment."""
        free = await self.summaries.claim("ada", segment, seconds=1)
        if free:
            await self.summaries.release("ada", segment)
        return free


async def test_what_is_made_is_kept_and_recorded() -> None:
    """With what it cost; the claim is given back."""
    office = Office(GOOD)
    made = await office.summarizer().make([ONE, TWO], None)
    found = await office.summaries.find("ada", [b"0", b"4", b"8"], chat_id="chat")
    assert (made.summaries, made.cost, made.failure) == (found, 2 * COST, "")
    assert set(found) == {ONE.segment, TWO.segment}
    assert [(row.purpose, row.failure, row.cost, row.tokens_before) for row in office.rows] == [
        ("summary", "", COST, ONE.source_tokens)
    ] * 2
    assert all(row.tokens_sent > 0 for row in office.rows)
    assert [await office.free(each.segment) for each in (ONE, TWO)] == [True, True]


async def test_what_exists_is_not_made_again() -> None:
    """It may have been finished since the conversation's summaries were looked up."""
    office = Office(GOOD)
    await office.summarizer().make([ONE], None)
    made = await office.summarizer().make([ONE], None)
    assert (set(made.summaries), made.cost, len(office.bureau.asked)) == ({ONE.segment}, 0.0, 1)


async def test_who_comes_second_waits_for_the_first() -> None:
    """Both get the summary, and it is asked for once."""
    office = Office(GOOD)
    made = await asyncio.gather(*(office.summarizer().make([ONE], None) for _ in range(3)))
    assert [set(each.summaries) for each in made] == [{ONE.segment}] * 3
    assert sum(each.cost for each in made) == COST
    assert len(office.bureau.asked) == 1


async def test_who_waits_for_a_failure_tries_by_itself() -> None:
    """The claim is free again, and there is no summary."""
    office = Office("no JSON", "no JSON", GOOD)
    made = await asyncio.gather(*(office.summarizer().make([ONE], None) for _ in range(2)))
    assert [each.failure for each in made] == ["malformed", ""]
    assert len(office.bureau.asked) == 3


async def test_nobody_waits_for_ever() -> None:
    """A worker that died holds its claim longer than anybody waits."""
    office = Office(GOOD)
    await office.summaries.claim("ada", ONE.segment, seconds=1_000)
    assert await office.summarizer(seconds=0.01).make([ONE], None) == SummaryBatch(failure=ELSEWHERE)
    assert office.bureau.asked == []


async def test_other_users_do_not_wait() -> None:
    """Nor do they find anything."""
    office = Office(GOOD)
    await office.summaries.claim("ada", ONE.segment, seconds=1_000)
    made = await office.summarizer(origin=RequestOrigin("bob", "chat", "m", "vendor/chat")).make([ONE], None)
    assert (set(made.summaries), len(office.bureau.asked)) == ({ONE.segment}, 1)


async def test_some_are_made_at_the_same_time() -> None:
    """Three at most."""
    office = Office(GOOD)
    await office.summarizer().make([stretch(start=at) for at in range(0, 40, 4)], None)
    assert (len(office.bureau.asked), office.bureau.most_inside) == (10, 3)


async def test_the_first_reason_of_a_failure_is_told() -> None:
    """What could be made is there all the same, and every attempt is recorded."""
    office = Office("no JSON", "no JSON", GOOD)
    summarizer = office.summarizer()
    failed = await summarizer.make([ONE], None)
    made = await office.summarizer().make([TWO], None)
    assert (failed.summaries, failed.failure, failed.cost) == ({}, "malformed", 2 * COST)
    assert set(made.summaries) == {TWO.segment}
    assert [row.failure for row in office.rows] == ["malformed", "malformed", ""]


async def test_two_failing_orders_make_a_pause() -> None:
    """However many summaries each of them asked for; nothing is tried again in the call that failed."""
    office = Office("no JSON")
    first, second = office.summarizer(), office.summarizer()
    await first.make([ONE, TWO, THREE], None)
    assert (first.may_try, second.may_try) == (False, True)
    first.prefetch([ONE], None)
    assert office.tasks == []
    await second.make([ONE], None)
    assert not office.summarizer().may_try
    office.seconds = asyncio.get_running_loop().time() + PAUSE_SECONDS
    assert office.summarizer().may_try


class Away(MemorySummaries):
    """A store that cannot be reached, to claim or to keep."""

    def __init__(self, *, claims: bool) -> None:
        super().__init__()
        self._claims_work = claims

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        if not self._claims_work:
            raise StoreUnavailable("away")
        return await super().claim(user_id, segment, seconds=seconds)

    async def keep(self, stored: StoredSummary) -> None:
        raise StoreUnavailable("away")


async def test_without_the_database_nothing_is_made() -> None:
    """Nobody could know who else is at it."""
    office = Office(GOOD, summaries=Away(claims=False))
    assert await office.summarizer().make([ONE], None) == SummaryBatch(failure="the database is away")
    assert office.bureau.asked == []


async def test_what_cannot_be_kept_serves_once() -> None:
    """It was paid for."""
    office = Office(GOOD, summaries=Away(claims=True))
    made = await office.summarizer().make([ONE], None)
    assert (set(made.summaries), made.cost, made.failure) == ({ONE.segment}, COST, "")


async def test_ahead_of_time_one_after_the_other() -> None:
    """Recorded as such, after the request that was just sent."""
    office = Office(GOOD)
    office.summarizer().prefetch([ONE, TWO, THREE], live(ONE, TWO))
    await asyncio.gather(*office.tasks)
    assert [body["by"] for body in office.bureau.asked] == ["live", "live", "own"]
    assert (office.bureau.most_inside, [row.purpose for row in office.rows]) == (1, ["summary_ahead"] * 3)


async def test_ahead_of_time_nobody_waits_for_another_worker() -> None:
    """What is claimed is left to who has it."""
    office = Office(GOOD)
    await office.summaries.claim("ada", ONE.segment, seconds=1_000)
    office.summarizer().prefetch([ONE, TWO], None)
    await asyncio.gather(*office.tasks)
    assert set(await office.summaries.find("ada", [b"0", b"4", b"8"], chat_id="")) == {TWO.segment}


async def test_ahead_of_time_a_failure_ends_the_job() -> None:
    """The others would fail as well; nothing is started without something to do, nor during a pause."""
    office = Office("no JSON")
    office.summarizer().prefetch([], None)
    for _ in range(3):
        office.summarizer().prefetch([ONE, TWO], None)
        await asyncio.gather(*office.tasks)
    assert (len(office.tasks), len(office.bureau.asked)) == (2, 4)


async def test_a_job_that_is_stopped_gives_its_claim_back() -> None:
    """Whoever comes next need not wait."""
    office = Office(None)
    office.summarizer().prefetch([ONE], None)
    await asyncio.sleep(0.05)
    assert not await office.free(ONE.segment)
    (job,) = office.tasks
    job.cancel()
    await asyncio.wait({job})
    assert (await office.free(ONE.segment), office.bureau.inside) == (True, 0)


async def test_a_user_who_stops_waiting_gives_all_claims_back() -> None:
    """All requests under way end."""
    office = Office(None)
    order = asyncio.create_task(office.summarizer().make([ONE, TWO], None))
    await asyncio.sleep(0.05)
    order.cancel()
    await asyncio.wait({order})
    assert [await office.free(each.segment) for each in (ONE, TWO)] == [True, True]
    assert office.bureau.inside == 0


def test_a_chat_is_warm_for_a_while() -> None:
    """For the model that it was sent to; a chat without a name never is."""
    now = [0.0]
    warmth = PromptCacheClock(lambda: now[0])
    warmth.note("chat", "m")
    warmth.note("", "m")
    known = [warmth.is_warm(chat, model) for chat, model in (("chat", "m"), ("chat", "n"), ("", "m"))]
    now[0] = WARM_SECONDS
    assert (known, warmth.is_warm("chat", "m")) == ([True, False, False], False)
