"""Summaries: how they are asked for, what becomes of the answers, claims, waits and failures; see `summaries.txt`."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.conversation import build_conversation
from open_webui_openrouter_pipe.errors import (
    PaymentRequired,
    ProviderUnavailable,
    RateLimited,
    StoreUnavailable,
)
from open_webui_openrouter_pipe.ports import RequestOrigin
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.summaries.prompt import INSTRUCTION
from open_webui_openrouter_pipe.summaries.segments import Segment, SummaryTarget
from open_webui_openrouter_pipe.summaries.summary import EarlierState, Entry
from open_webui_openrouter_pipe.turn.summaries import (
    PAUSE_SECONDS,
    Summarizer,
    SummarizerState,
    SummaryModel,
)
from tests.support.chats import answer, call, history, output, reasoning, user
from tests.support.rows import rows
from tests.support.waiting import eventually
from tests.turn.summary_fakes import (
    COST,
    FIELDS,
    GOOD,
    FakeProvider,
    FakeRequests,
    Reply,
    cached_prefix,
    count_tokens,
    response,
    summary_writer,
    target,
    when_needed,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.ports import Summaries

pytestmark = [pytest.mark.anyio, pytest.mark.skips_time]

TABLES = Path(__file__).parent / "summaries.txt"
ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/chat")
ONE, TWO, THREE = (target(start=at) for at in (0, 4, 8))
PARTS = {"it": ONE, "its copy": target(), "another": TWO}


def saying(text: str) -> str:
    return json.dumps({**FIELDS, "summary_text": text, "key_facts": []})


SENTENCES = [each for each in re.split(r"(?<=[.:])\s+", INSTRUCTION) if len(each) > 60]
REPLIES: dict[str, Reply] = {
    "says two sentences of its prompt": saying(" ".join(["They talked.", *SENTENCES[:2]])),
    "says three sentences of its prompt": saying(" ".join(["They talked.", *SENTENCES[:3]])),
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
    "says its prompt": saying("what happened, in the order of events"),
    "no credits": PaymentRequired("pay"),
    "limited": RateLimited("wait"),
}


async def test_the_suffix_follows_the_cached_request() -> None:
    """It keeps its marks, so that its cached beginning is found; the bill and the size are returned."""
    provider, part = FakeProvider(GOOD), target()
    request = cached_prefix(part)
    (attempt,) = await summary_writer(provider).write(part, request, time_limit_seconds=5.0)
    (asked,) = provider.requests
    assert (asked["by"], asked["marks"]) == ("suffix", request.marks)
    assert tuple(asked["input"][:-1]) == request.items
    assert "Question 0." in asked["input"][-1]["content"][0]["text"]
    assert attempt.summary is not None
    assert attempt.summary.by_model.key_facts == (Entry("one fact"),)
    assert (attempt.failure, attempt.usage.cost, attempt.tokens > 0) == (None, COST, True)


@pytest.mark.parametrize(("cached", "options", "by"), rows(TABLES, "kinds", PARTS))
async def test_what_is_not_cached_is_asked_for_standalone(
    cached: tuple[SummaryTarget, int] | None, options: dict[str, Any], by: str
) -> None:
    """It has the transcript alone, as data behind an instruction."""
    provider, prefix = FakeProvider(GOOD), cached and cached_prefix(cached[0], tokens=cached[1])
    attempts = await summary_writer(provider, **options).write(PARTS["it"], prefix, time_limit_seconds=5.0)
    (asked,) = provider.requests
    assert (asked["by"], attempts[-1].summary is None) == (by, False)
    if by == "standalone":
        assert asked["marks"] is None
        assert [item["role"] for item in asked["input"]] == ["system", "user"]


@pytest.mark.parametrize("uses_suffix", [True, False])
async def test_what_earlier_parts_leave_open_is_shown(*, uses_suffix: bool) -> None:
    """In both kinds of requests, with the turns' own numbers; the answer may resolve it."""
    reply = json.dumps({**FIELDS, "resolved": [1], "decisions": [{"turn": 6, "text": "Go."}]})
    provider, part = FakeProvider(reply), replace(target(start=4), first_turn=5)
    earlier = EarlierState(open_points=(Entry("Why so late?", 2),))
    writer = summary_writer(provider, uses_suffix=uses_suffix)
    attempts = await writer.write(part, cached_prefix(part), earlier, time_limit_seconds=5.0)
    (asked,) = provider.requests
    text = asked["input"][-1]["content"][0]["text"]
    assert "1. Why so late?" in text
    assert ("- turn 5: Question 4." if uses_suffix else '<user turn="5">\nQuestion 4.') in text
    assert attempts[-1].summary is not None
    assert (attempts[-1].summary.resolved, attempts[-1].summary.first_turn) == (("Why so late?",), 5)
    assert attempts[-1].summary.by_model.decisions == (Entry("Go.", 6),)


@pytest.mark.parametrize(("replies", "failures"), rows(TABLES, "attempts", REPLIES))
@pytest.mark.parametrize("is_cached", [True, False], ids=["cached", "cold"])
async def test_an_answer_that_is_no_summary_is_asked_for_twice(
    replies: list[Reply], failures: list[str | None], *, is_cached: bool
) -> None:
    """The second time by itself; each attempt is returned with its reason, and only a success has a summary."""
    provider, part = FakeProvider(*replies), target()
    prefix = cached_prefix(part) if is_cached else None
    attempts = await summary_writer(provider).write(part, prefix, time_limit_seconds=5.0)
    assert [attempt.detail or attempt.failure for attempt in attempts] == failures
    assert [bool(attempt.detail) for attempt in attempts] == [each.failure == "provider" for each in attempts]
    assert [attempt.summary is None for attempt in attempts] == [failure is not None for failure in failures]
    kinds = ["suffix" if is_cached else "standalone", "standalone"]
    assert [body["by"] for body in provider.requests] == kinds[: len(failures)]


@pytest.mark.parametrize(("window_tokens", "least"), [(8_000, 2_500), (1_600, 350)])
async def test_a_transcript_is_truncated_to_a_small_window(window_tokens: int, least: int) -> None:
    """Its beginning and its end are summarized in one request; a quarter of the window is always for them."""
    provider = FakeProvider(GOOD)
    writer = summary_writer(provider, standalone_window=window_tokens)
    attempts = await writer.write(target(8, characters=8_000), None, time_limit_seconds=5.0)
    (request,) = provider.requests
    text = request["input"][1]["content"][0]["text"]
    assert ("Question 0." in text, "Question 4." in text) == (True, False)
    assert text.rstrip().endswith("Now answer with the JSON object.")
    assert "</assistant>\n</conversation>" in text
    assert least < count_tokens(text) < window_tokens
    assert attempts[-1].summary is not None


async def test_both_attempts_share_the_time_limit() -> None:
    """The second one has what the first has left of it."""
    start = asyncio.get_running_loop().time()
    attempts = await summary_writer(FakeProvider("no JSON", None)).write(
        target(), None, time_limit_seconds=4.0
    )
    assert [attempt.failure for attempt in attempts] == ["malformed", "timed_out"]
    assert asyncio.get_running_loop().time() - start == pytest.approx(4.0)


async def test_a_summary_as_long_as_its_source_is_refused() -> None:
    """In the form in which it would be sent, with what completion adds: it would make the request no smaller."""
    details = " ".join(f"order-{number:05}" for number in range(40))
    chat = history([user(details), answer("Noted.")], [user("Next?"), answer("Done.")])
    part = replace(target(), turns=build_conversation(chat.items, chat.turn_of_item).turns)
    writer = summary_writer(FakeProvider(GOOD))
    (whole,) = await writer.write(replace(part, source_tokens=900), None, time_limit_seconds=5.0)
    for source_tokens, failures in (
        (60, ["longer_than_its_source"] * 2),
        (whole.tokens, ["longer_than_its_source"] * 2),
        (whole.tokens + 1, [None]),
    ):
        small = replace(part, source_tokens=source_tokens)
        attempts = await writer.write(small, None, time_limit_seconds=5.0)
        assert [attempt.failure for attempt in attempts] == failures


@pytest.mark.parametrize(
    ("window_tokens", "summary_tokens", "answer", "with_thinking"),
    [(100_000, 100, 1_024, 1_024 + 8_192), (100_000, 600, 1_200, 1_200 + 8_192), (16_000, 600, 1_200, 3_200)],
)
async def test_the_length_of_an_answer_follows_from_the_summarys(
    window_tokens: int, summary_tokens: int, answer: int, with_thinking: int
) -> None:
    """Twice its length and no less than 1,024 tokens; thinking is at most an eighth of the window."""
    models = [SummaryModel("m", FakeRequests("m"), window_tokens, reasons) for reasons in (False, True)]
    assert [model.max_output_tokens(summary_tokens) for model in models] == [answer, with_thinking]


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


@pytest.mark.parametrize(
    ("replies", "failures", "requests"),
    [([GOOD], [None, None, None], 1), (["no JSON", "no JSON", GOOD], ["malformed", None, None], 3)],
    ids=["all of them get it", "who waited for a failure tries by itself"],
)
async def test_concurrent_calls_make_a_summary_once(
    replies: list[Reply], failures: list[str | None], requests: int
) -> None:
    """Whoever fails releases the claim, and there is no summary."""
    worker = FakeWorker(*replies)
    batches = await asyncio.gather(*(worker.summarizer().make([ONE], None) for _ in range(3)))
    assert [each.failure for each in batches] == failures
    assert [set(each.summaries) for each in batches] == [
        set() if each else {ONE.segment} for each in failures
    ]
    assert (sum(each.cost for each in batches), len(worker.provider.requests)) == (COST * requests, requests)


async def test_a_bill_says_why_there_is_no_summary_and_what_it_omits() -> None:
    """An error of the provider by its name; of tool calls, those for which there was no room."""
    calls = [
        each for at in range(200) for each in (call(f"c{at}", f'{{"q": {at}}}'), output(f"c{at}", "rows"))
    ]
    chat = history([user("Look."), *calls, answer("Done.")], [user("Next?"), answer("Done.")])
    turns = build_conversation(chat.items, chat.turn_of_item).turns
    worker = FakeWorker(ProviderUnavailable("away"), GOOD)
    await worker.summarizer().make([replace(ONE, turns=turns)], None)
    assert [row.failure for row in worker.rows] == ["provider unavailable", ""]
    (summary,) = (await worker.summaries.find("ada", [b"0", b"4"], chat_id="chat")).values()
    assert [row.details_omitted for row in worker.rows] == [0, summary.omitted]
    assert summary.omitted > 0


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
    """The model has what is left of it; when nothing is, it is not asked."""
    worker = FakeWorker(None, summaries=Claims(elapsed_seconds))
    start = asyncio.get_running_loop().time()
    batch = await worker.summarizer(seconds=1_000.0).make([ONE], None)
    assert asyncio.get_running_loop().time() - start == pytest.approx(1_000.0)
    assert batch.failure in {"timed_out", "claimed_elsewhere"}
    assert len(worker.provider.requests) == requests


@pytest.mark.parametrize(("user_id", "waits"), [("ada", True), ("bob", False)])
async def test_a_worker_that_died_is_not_waited_for_longer(user_id: str, *, waits: bool) -> None:
    """Its claim lasts longer than anybody waits; users neither wait for each other nor find each other's summaries."""
    worker = FakeWorker(GOOD)
    await worker.summaries.claim("ada", ONE.segment, seconds=1_000)
    summarizer = worker.summarizer(0.02, replace(ORIGIN, user_id=user_id))
    batch = await summarizer.make([ONE], None)
    assert (batch.failure, summarizer.may_try) == ("claimed_elsewhere" if waits else None, True)
    assert len(worker.provider.requests) == (not waits)


async def test_a_claim_outlasts_all_attempts() -> None:
    """Which share one time limit, with time to store the summary: else a second worker would pay for the same one."""
    summaries = Claims()
    await FakeWorker(GOOD, summaries=summaries).summarizer(60.0).make([ONE], None)
    assert summaries.leases_seconds == [pytest.approx(60.0 + 30.0)]


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
        ("find", AWAY, "database_unavailable"),
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
    assert (set(batch.summaries), batch.cost) == ((set(), 0.0) if failure else ({ONE.segment}, COST))


async def test_summaries_that_cannot_be_looked_up_are_none() -> None:
    """An answer is worth more than the summaries that it would use."""
    conversation = build_conversation([user("one")], [0])
    summarizer = FakeWorker(GOOD, summaries=failing("find", BUG)).summarizer()
    assert await summarizer.available(conversation) == {}


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
        (call,) = worker.tasks
    else:
        call = asyncio.create_task(worker.summarizer().make([ONE, TWO], None))  # type: ignore[arg-type]
    await eventually(lambda: worker.provider.running)
    assert not await worker.is_unclaimed(ONE.segment)
    call.cancel()
    await asyncio.wait({call})
    assert [await worker.is_unclaimed(each.segment) for each in (ONE, TWO)] == [True, True]
    assert worker.provider.running == 0


async def test_a_call_that_is_cancelled_while_it_claims_leaves_no_claim() -> None:
    """The database does what it was told, so the claim is given back when it has."""
    summaries = Claims()
    summaries.may_go_on.clear()
    worker = FakeWorker(None, summaries=summaries)
    call = asyncio.create_task(worker.summarizer().make([ONE], None))
    await eventually(lambda: summaries.leases_seconds)
    call.cancel()
    await asyncio.wait({call})
    summaries.may_go_on.set()
    await asyncio.gather(*worker.tasks)
    assert await worker.is_unclaimed(ONE.segment)
