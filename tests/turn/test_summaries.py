"""Summaries: how they are asked for, what becomes of the answers, claims, waits and failures; see `summaries.txt`."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.errors import (
    PaymentRequired,
    ProviderUnavailable,
    RateLimited,
    SpendingLimitReached,
    StoreUnavailable,
    StreamBroken,
)
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.prices import Prices
from open_webui_openrouter_pipe.planning.plan import CachedPrefix, CacheMarks
from open_webui_openrouter_pipe.ports import RequestOrigin
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import EarlierState, Entry
from open_webui_openrouter_pipe.turn.summaries import (
    PAUSE_SECONDS,
    Summarizer,
    SummarizerState,
)
from tests.support.chats import answer, call, history, output, reasoning, user
from tests.support.rows import rows
from tests.support.waiting import eventually
from tests.turn.summary_fakes import (
    COST,
    FIELDS,
    GOOD,
    FakeProvider,
    Reply,
    cached_prefix,
    response,
    summary_writer,
    target,
    when_needed,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from open_webui_openrouter_pipe.ports import Event, RequestBody, Summaries

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]

TABLES = Path(__file__).parent / "summaries.txt"
ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/chat")
ONE, TWO, THREE = (target(start=at) for at in (0, 4, 8))
PARTS = {"it": replace(ONE, first_turn=5), "its copy": target(), "another": TWO}


def chat_part(*turns: Any) -> SummaryTarget:
    """A target of these turns."""
    chat = history(*turns)
    return replace(ONE, turns=build_conversation(chat.items, chat.turn_of_item).turns)


def saying(text: str) -> str:
    return json.dumps({**FIELDS, "summary_text": text, "key_facts": []})


REPLIES: dict[str, Reply] = {
    "GOOD": GOOD,
    "only thinks": response(reasoning()),
    "calls a tool": response(call("c")),
    "is cut off": {
        **response(),
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    },
    "failed": {**response(), "status": "failed", "error": {"code": "x", "message": "boom"}},
    "away": ProviderUnavailable("away"),
    "says nothing": saying("..."),
    "is JSON in JSON": saying('{"summary_text": "They talked."}'),
    "no credits": PaymentRequired("pay"),
    "limited": RateLimited("wait"),
}


@pytest.mark.parametrize(("cached", "options", "by"), rows(TABLES, "kinds", PARTS))
async def test_a_suffix_follows_what_is_cached(
    cached: tuple[SummaryTarget, int] | None, options: dict[str, Any], by: str
) -> None:
    """It keeps its marks, so that its cached beginning is found; all else is asked for with the transcript alone."""
    reply = json.dumps({**FIELDS, "resolved": [1], "decisions": [{"turn": 6, "text": "Go."}]})
    provider, prefix = FakeProvider(reply), cached and cached_prefix(cached[0], tokens=cached[1])
    earlier = EarlierState(open_points=(Entry("Why so late?", 2),))
    writer = summary_writer(provider, **options)
    target = replace(PARTS["it"], earlier=earlier)
    (attempt,) = await writer.write(target, prefix, time_limit_seconds=5.0)
    (asked,) = provider.requests
    text = asked["input"][-1]["content"][0]["text"]
    assert (asked["by"], "1. Why so late?" in text) == (by, True)
    if by == "suffix":
        assert prefix
        assert (asked["marks"], tuple(asked["input"][:-1])) == (prefix.marks, prefix.items)
        assert "- turn 5: Question 0." in text
    else:
        assert (asked["marks"], [item["role"] for item in asked["input"]]) == (None, ["system", "user"])
        assert '<user turn="5">\nQuestion 0.' in text
    summary = attempt.summary
    assert summary
    assert (summary.resolved, summary.first_turn) == (("Why so late?",), 5)
    assert (summary.by_model.decisions, summary.by_model.key_facts) == (
        (Entry("Go.", 6),),
        (Entry("one fact"),),
    )
    assert (attempt.failure, attempt.bill.cost, attempt.bill.tokens_sent > 0) == (None, COST, True)


@pytest.mark.parametrize(("replies", "failures"), rows(TABLES, "attempts", REPLIES))
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "cold"])
async def test_an_answer_that_is_no_summary_is_asked_for_twice(
    replies: list[Reply], failures: list[str | None], *, is_cached: bool
) -> None:
    """The second time by itself; each attempt is returned with its reason, and only a success has a summary."""
    provider, part = FakeProvider(*replies), target()
    prefix = cached_prefix(part) if is_cached else None
    attempts = await summary_writer(provider).write(part, prefix, time_limit_seconds=5.0)
    assert [attempt.bill.failure or None for attempt in attempts] == failures
    assert all(each.failure in {"provider", each.bill.failure or None} for each in attempts)
    assert [attempt.summary is None for attempt in attempts] == [failure is not None for failure in failures]
    kinds = ["suffix" if is_cached else "standalone", "standalone"]
    assert [body["by"] for body in provider.requests] == kinds[: len(failures)]


async def test_both_attempts_share_the_time_limit() -> None:
    """The second one has what the first has left of it."""
    start = asyncio.get_running_loop().time()
    attempts = await summary_writer(FakeProvider("no JSON", None)).write(
        target(), None, time_limit_seconds=4.0
    )
    assert [attempt.failure for attempt in attempts] == ["malformed", "timed_out"]
    assert asyncio.get_running_loop().time() - start == pytest.approx(4.0)


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "timed out"])
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "cold"])
async def test_what_nobody_waited_for_is_billed_as_an_estimate(*, is_left: bool, is_cached: bool) -> None:
    """By our own count of what was sent, beside the bill of the attempt before; also where the user has left."""
    part, bills = target(), list[Bill]()
    prefix = cached_prefix(part, tokens=10_000) if is_cached else None
    writer = summary_writer(FakeProvider(None))
    own, live = (
        replace(each, prices=Prices(input=1e-6))
        for each in (writer.standalone_model, writer.suffix_model)
        if each
    )
    writer = replace(writer, standalone_model=own, suffix_model=live)
    writing = writer.write(part, prefix, time_limit_seconds=4.0, record=bills.append)
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0 if is_left else 9.0):
            await writing
    tokens = 10_000 if is_cached else part.source_tokens
    assert [(bill.estimated, bill.input_tokens, bill.generation) for bill in bills] == [
        (True, tokens, "gen-1")
    ]
    assert bills[0].cost == pytest.approx(tokens * 1e-6)


@pytest.mark.parametrize("billed", [{}, {"cost": 0.5}], ids=["without a bill", "billed"])
async def test_what_has_failed_costs_its_bill_alone(billed: dict[str, float]) -> None:
    """Not what the list says of its tokens."""
    usage = {"input_tokens": 900, "output_tokens": 90, "total_tokens": 990, **billed}
    writer = summary_writer(FakeProvider({**response(), "status": "failed", "usage": usage}))
    own = replace(writer.standalone_model, prices=Prices(input=1e-3))
    attempts = await replace(writer, standalone_model=own).write(target(), None, time_limit_seconds=5.0)
    assert [each.bill.cost for each in attempts] == [billed.get("cost", 0.0)] * 2


async def test_what_a_limit_leaves_no_room_for_is_not_asked() -> None:
    """Neither by the suffix nor by itself; the row says so, and costs nothing."""
    part, bills, held = target(), list[Bill](), list[Bill]()
    writer = summary_writer(provider := FakeProvider(GOOD))

    async def refuse(bill: Bill, _body: RequestBody) -> Bill:
        held.append(bill)
        raise SpendingLimitReached("no")

    writer = replace(writer, hold=refuse)
    (attempt,) = await writer.write(part, cached_prefix(part), time_limit_seconds=5.0, record=bills.append)
    assert (attempt.failure, provider.requests) == ("limit", [])
    assert [(bill.failure, bill.cost, bill.estimated) for bill in bills] == [("limit", 0.0, False)]
    assert [(bill.purpose, bill.estimated) for bill in held] == [("summary", True)]


async def test_a_summary_as_long_as_its_source_is_refused() -> None:
    """In the form in which it would be sent, with what completion adds: it would make the request no smaller."""
    details = " ".join(f"order-{number:05}" for number in range(40))
    part = chat_part([user(details), answer("Noted.")], [user("Next?"), answer("Done.")])
    writer = summary_writer(FakeProvider(GOOD))
    (whole,) = await writer.write(replace(part, source_tokens=900), None, time_limit_seconds=5.0)
    too_long, tokens = ["longer_than_its_source"] * 2, whole.bill.tokens_sent
    for source_tokens, failures in ((60, too_long), (tokens, too_long), (tokens + 1, [None])):
        small = replace(part, source_tokens=source_tokens)
        attempts = await writer.write(small, None, time_limit_seconds=5.0)
        assert [attempt.failure for attempt in attempts] == failures


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

    def calling(self, targets: list[SummaryTarget]) -> asyncio.Task[Any]:
        """A call that makes summaries meanwhile."""
        return asyncio.create_task(self.summarizer().make(targets, None))

    async def is_unclaimed(self, segment: Segment) -> bool:
        """Whether nobody has a claim on a segment."""
        claimed = await self.summaries.claim("ada", segment, seconds=1)
        if claimed:
            await self.summaries.release("ada", segment)
        return claimed

    async def kept(self) -> set[Segment]:
        """The segments of all summaries that are kept."""
        chains = [b"%d" % at for at in range(0, 20, 4)]
        return set(await self.summaries.find("ada", chains, chat_id="chat"))


@pytest.mark.parametrize(
    ("replies", "calls", "outcomes", "waited", "may", "requests", "kept", "may_wait"),
    rows(TABLES, "calls", REPLIES),
)
async def test_calls_get_what_could_be_made_and_the_first_failure(
    replies: list[Reply],
    calls: list[list[int]],
    *,
    outcomes: list[list[Any]],
    waited: int,
    may: list[bool],
    requests: int,
    kept: list[int],
    may_wait: bool,
) -> None:
    """Each attempt is recorded with its cost, every claim is released, and what was late is made beside the chat."""
    worker, found = FakeWorker(*replies), []
    for starts in calls:
        batch = await worker.summarizer(2.0).make([target(start=at) for at in starts], None)
        found.append([sorted(int(segment.start) for segment in batch.summaries), batch.failure])
    asked, summarizer = len(worker.provider.requests), worker.summarizer()
    assert (found, asked) == (outcomes, waited)
    assert [summarizer.may_wait, summarizer.may_try] == may
    await asyncio.gather(*worker.tasks)
    assert (len(worker.provider.requests), len(worker.rows)) == (requests, requests)
    assert {int(segment.start) for segment in await worker.kept()} == set(kept)
    assert worker.summarizer().may_wait == may_wait
    assert [row.purpose for row in worker.rows[waited:]] == ["summary_ahead"] * (requests - waited)
    for row in worker.rows:
        assert (row.tokens_before, row.tokens_sent > 0) == (ONE.source_tokens, not row.failure)
        assert row.cost == (0.0 if row.failure == "timed_out" else COST)
    segments = {target(start=at).segment for starts in calls for at in starts}
    assert all([await worker.is_unclaimed(segment) for segment in segments])


async def test_a_bill_says_why_there_is_no_summary_and_what_it_omits() -> None:
    """An error of the provider by its name; of tool calls, those for which there was no room."""
    numbered = ((call(f"c{at}", f'{{"q": {at}}}'), output(f"c{at}", "rows")) for at in range(200))
    calls = [each for pair in numbered for each in pair]
    part = chat_part([user("Look."), *calls, answer("Done.")], [user("Next?"), answer("Done.")])
    worker = FakeWorker(ProviderUnavailable("away"), GOOD)
    (summary,) = (await worker.summarizer().make([part], None)).summaries.values()
    assert [row.failure for row in worker.rows] == ["provider unavailable", ""]
    assert [row.details_omitted for row in worker.rows] == [0, summary.omitted]
    assert summary.omitted > 0


async def test_what_a_user_says_again_is_not_taken_for_turns_that_are_summarized() -> None:
    """Their question is in the prefix, where another answer follows it: they are asked for by themselves."""
    question, more = user("Go on."), user("Next?")
    part = chat_part([question, answer("One. " * 500)], [more, answer("Done.")])
    prefix = CachedPrefix((question, answer("Two."), more, answer("Three.")), CacheMarks(0, 0, 0, 0), 100)
    worker = FakeWorker(GOOD)
    await worker.summarizer().make([part], prefix)
    assert [body["by"] for body in worker.provider.requests] == ["standalone"]


class Losing(FakeProvider):
    """Loses the connection behind the end of each answer."""

    @asynccontextmanager
    async def stream(self, body: RequestBody) -> AsyncIterator[AsyncIterator[Event]]:
        """Answer a request."""
        async with super().stream(body) as events:

            async def cut() -> AsyncIterator[Event]:
                async for event in events:
                    yield event
                raise StreamBroken("lost")

            yield cut()


async def test_a_whole_summary_counts_though_its_stream_breaks_behind_it() -> None:
    """It is paid for, and not asked for again."""
    worker = FakeWorker(GOOD)
    worker.provider = Losing(GOOD)
    batch = await worker.summarizer().make([ONE], None)
    assert (set(batch.summaries), [row.cost for row in worker.rows]) == ({ONE.segment}, [COST])


async def test_a_bug_of_ours_leaves_a_bill() -> None:
    """With it ends what was held for the request, which else would be renewed as long as the worker lives."""
    worker = FakeWorker(RuntimeError("a bug"))
    batch = await worker.summarizer().make([ONE], None)
    assert (batch.failure, [row.estimated for row in worker.rows]) == ("unexpected_error", [True])


async def test_the_newest_is_written_last_and_shown_what_the_others_leave() -> None:
    """Each one is shown what the stored summaries before it leave open."""
    with_question = json.dumps({**FIELDS, "open_questions": [{"turn": 2, "text": "Which door?"}]})
    worker = FakeWorker(with_question, GOOD)
    newest = replace(TWO, first_turn=5, chains_before=(b"0", b"4"))
    await worker.summarizer().make([ONE, newest], None)
    texts = [body["input"][-1]["content"][0]["text"] for body in worker.provider.requests]
    assert ["Which door?" in text for text in texts] == [False, True]
    assert worker.provider.max_running == 1


async def test_a_failure_counts_for_its_call_and_its_chat() -> None:
    """The call asks nothing more, other chats wait as before, and the pause ends by itself."""
    worker = FakeWorker("no JSON")
    first = worker.summarizer()
    await first.make([ONE], None)
    first.prefetch([ONE], None)
    other = worker.summarizer(origin=replace(ORIGIN, chat_id="other"))
    assert (first.may_try, other.may_wait, worker.tasks) == (False, True, [])
    await worker.summarizer().make([ONE], None)
    assert not other.may_try
    await asyncio.sleep(PAUSE_SECONDS)
    assert worker.summarizer().may_try


class Claims(MemorySummaries):
    """Notes for how long claims are wanted, and may be slow to say that another worker has one, or wait for leave."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.leases_seconds: list[float] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self._left = seconds

    async def claim(self, user_id: str, segment: Segment, *, seconds: float) -> bool:
        self.leases_seconds.append(seconds)
        await asyncio.sleep(self._left)
        is_free, self._left = self._left == 0.0, 0.0

        async def work() -> bool:
            await self.may_go_on.wait()
            return await MemorySummaries.claim(self, user_id, segment, seconds=seconds)

        return is_free and await asyncio.shield(asyncio.create_task(work()))


@pytest.mark.parametrize(("elapsed_seconds", "requests"), [(999.48, 1), (999.75, 0), (1_000.0, 0)])
async def test_the_wait_for_another_worker_is_part_of_the_time_limit(
    elapsed_seconds: float, requests: int
) -> None:
    """The model has what is left of it; when nothing is, it is not asked. A claim outlasts all, and the storing."""
    summaries = Claims(elapsed_seconds)
    worker = FakeWorker(None, summaries=summaries)
    start = asyncio.get_running_loop().time()
    batch = await worker.summarizer(seconds=1_000.0).make([ONE], None)
    assert asyncio.get_running_loop().time() - start == pytest.approx(1_000.0)
    assert batch.failure in {"timed_out", "claimed_elsewhere"}
    assert len(worker.provider.requests) == requests
    assert {*summaries.leases_seconds} == {1_000.0 + 30.0}


@pytest.mark.parametrize(("user_id", "waits"), [("ada", True), ("bob", False)])
async def test_a_worker_that_died_is_not_waited_for_longer(user_id: str, *, waits: bool) -> None:
    """Its claim lasts longer than anybody waits; users neither wait for each other nor find each other's summaries."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", ONE.segment, seconds=1_000)
    summarizer = worker.summarizer(0.02, replace(ORIGIN, user_id=user_id))
    batch = await summarizer.make([ONE], None)
    assert (batch.failure, summarizer.may_try) == ("claimed_elsewhere" if waits else None, True)
    assert len(worker.provider.requests) == (not waits)


def failing(method: str, error: Exception) -> MemorySummaries:
    """A store that raises an error in a method: that it is unavailable, or what it promised not to raise."""

    async def fail(*args: Any, **options: Any) -> Any:
        raise error

    summaries = MemorySummaries()
    setattr(summaries, method, fail)
    return summaries


AWAY, BUG = StoreUnavailable("away"), RuntimeError("a bug of the store")


@pytest.mark.parametrize(
    ("method", "error", "failure"),
    [
        ("claim", AWAY, "database_unavailable"),
        ("claim", BUG, "unexpected_error"),
        ("find", BUG, "unexpected_error"),
        ("keep", AWAY, None),
        ("keep", BUG, None),
    ],
)
async def test_without_the_database_only_what_is_paid_for_is_used(
    method: str, error: Exception, failure: str | None
) -> None:
    """Nobody could know whether another worker makes it; one that cannot be kept serves this request."""
    worker = FakeWorker(GOOD, summaries=failing(method, error))
    batch = await worker.summarizer().make([ONE], None)
    assert (batch.failure, len(worker.provider.requests)) == (failure, 1 if failure is None else 0)
    assert (set(batch.summaries), batch.paid.openrouter) == (
        (set(), 0.0) if failure else ({ONE.segment}, COST)
    )
    assert await worker.summarizer().available(build_conversation([user("one")], [0])) == {}


async def test_summaries_are_prefetched_one_after_the_other() -> None:
    """They are recorded as such, and asked for after the request that was sent; claimed ones are left to others."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", target(start=12).segment, seconds=1_000)
    worker.summarizer().prefetch([target(start=12), ONE, TWO, THREE], cached_prefix(ONE, TWO))
    await asyncio.gather(*worker.tasks)
    assert [body["by"] for body in worker.provider.requests] == ["suffix", "suffix", "standalone"]
    assert (worker.provider.max_running, [row.purpose for row in worker.rows]) == (1, ["summary_ahead"] * 3)


async def test_a_failure_ends_a_prefetch() -> None:
    """The other summaries would fail as well; no job starts without a target, nor while the model is left alone."""
    worker = FakeWorker("no JSON")
    worker.summarizer().prefetch([], None)
    for _ in range(3):
        worker.summarizer().prefetch([ONE, TWO], None)
        await asyncio.gather(*worker.tasks)
    assert (len(worker.tasks), len(worker.provider.requests)) == (2, 4)


@pytest.mark.parametrize("is_beside", [True, False], ids=["beside the chat", "in a call"])
async def test_who_is_cancelled_releases_all_claims(*, is_beside: bool) -> None:
    """All requests under way end, and the next call need not wait."""
    worker = FakeWorker(None)
    if is_beside:
        worker.summarizer().prefetch([ONE], None)
    work: Any = worker.tasks[0] if is_beside else worker.calling([ONE, TWO])
    await eventually(lambda: worker.provider.running)
    assert not await worker.is_unclaimed(ONE.segment)
    work.cancel()
    await asyncio.wait({work})
    assert [await worker.is_unclaimed(each.segment) for each in (ONE, TWO)] == [True, True]
    assert worker.provider.running == 0


async def test_a_call_that_is_cancelled_while_it_claims_leaves_no_claim() -> None:
    """The database does what it was told, so the claim is given back when it has."""
    summaries = Claims()
    summaries.may_go_on.clear()
    worker = FakeWorker(None, summaries=summaries)
    work = worker.calling([ONE])
    await eventually(lambda: summaries.leases_seconds)
    work.cancel()
    await asyncio.wait({work})
    summaries.may_go_on.set()
    await asyncio.gather(*worker.tasks)
    assert await worker.is_unclaimed(ONE.segment)
