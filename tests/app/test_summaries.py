"""Summaries in the whole pipe: who writes them, how often, what the model then reads, and the status lines."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.summaries.summary import render_part
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Json
from scripts.standin.summaries import PROSE
from tests.support.long_chats import (
    DatabaseAddress,
    LongChat,
    Worker,
    audit_rows,
    input_texts,
    last_request,
    questions_sent,
    stored_summaries,
    summary_blocks,
    summary_claims,
    summary_requests,
    transcribed_questions,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from scripts.harness.servers import PostgresServer
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "standin/small"
LIMIT_TOKENS = 11_469
"""The small model's input budget."""
TURNS = 60
"""Of the default size they exceed a small window."""
NO_PREFETCH = {"SUMMARY_AHEAD_RATIO": 1.0}
"""No summary is made before a request needs it."""

FAILURES = {
    "junk": ("malformed", "the model's answer did not have the expected form"),
    "empty": ("empty", "the model's answer was empty"),
    "reasoning": ("reasoning_only", "the model only reasoned and did not answer"),
    "truncated": ("cut_off", "the model's answer was cut off"),
    "calls": ("calls_a_tool", "the model called a tool"),
    "echo": ("repeats_its_prompt", "the model repeated its instructions"),
    "hang": ("timed_out", "the model took too long"),
    "error=500": ("provider unavailable", "the provider answered with an error"),
    "fail=eof after=3": ("provider unavailable", "the provider answered with an error"),
    'refusal="I cannot do that."': ("refused", "the model refused"),
}
"""What the stand-in does, the reason in the audit, and what the user reads of it."""


class Workers:
    """Workers on one database, opened as a test needs them."""

    def __init__(self, standin: StandIn, database: DatabaseAddress, folder: Path) -> None:
        self.standin, self.database, self._folder = standin, database, folder
        self._opened: list[Worker] = []

    def open(self, **valves: Any) -> Worker:
        """One more, to be entered as a context."""
        self._opened.append(Worker(self.database, self.standin, self._folder, **{**NO_PREFETCH, **valves}))
        return self._opened[-1]

    async def idle(self) -> None:
        """Wait until they prepare no summary beside the chat."""
        for worker in self._opened:
            await worker.app.idle()

    def summary_count(self) -> int:
        """The number of requests for summaries so far."""
        return len(summary_requests(self.standin))


@pytest.fixture
def standin(byte_standin: StandIn) -> StandIn:
    """Its bills do not move the line at which a chat of short words is too large."""
    return byte_standin


@pytest.fixture
def workers(standin: StandIn, tmp_path: Path) -> Workers:
    return Workers(standin, DatabaseAddress.in_folder(tmp_path), tmp_path)


# --- who writes them ---


async def test_summaries_replace_the_oldest_turns_in_one_block(workers: Workers, standin: StandIn) -> None:
    """The block is the first input item."""
    async with workers.open() as pipe:
        answer = await LongChat(pipe, SMALL).grow(TURNS).ask_next()
    sent = last_request(standin)
    assert (answer.error, sent.status, sent.warnings, summary_blocks(sent)) == (None, 200, [], [0])
    shown = questions_sent(sent)
    assert shown == list(range(shown[0], TURNS + 1))
    assert sent.usage is not None
    assert sent.usage["input_tokens"] < LIMIT_TOKENS
    parts = [part["text"] for part in sent.body["input"][0]["content"]]
    written = sorted(await stored_summaries(workers.database), key=lambda summary: summary.first_turn)
    assert parts[1].startswith("[What the user wrote in turns 1 to ")
    assert parts[2 : 2 + len(written)] == list(map(render_part, written)) != []


OMITTED = re.compile(r"\d+ of \d+ earlier turns were left out: about [\d,]+ tokens\.")


@pytest.mark.parametrize("kind", FAILURES)
async def test_without_a_summary_the_chat_goes_on(workers: Workers, standin: StandIn, kind: str) -> None:
    """The user waits once, and old turns are evicted, as is said.

    All but a time-out is tried twice. Then one is tried beside the chat: at once after a time-out, otherwise with the
    next turn; after that there is a pause.
    """
    standin.summarizer = kind
    (reason, said), notices, calls = FAILURES[kind], [], []
    seconds = 0.3 if kind == "hang" else 30.0
    async with workers.open(SUMMARY_TIMEOUT_SECONDS=seconds) as pipe:
        page = LongChat(pipe, SMALL).grow(TURNS)
        for _ in range(3):
            answer = await page.ask_next()
            await workers.idle()
            notices.append(answer.notices[1:])
            calls.append(workers.summary_count())
            sent = last_request(standin)
            assert (answer.error, sent.status, sent.warnings, summary_blocks(sent)) == (None, 200, [], [])
            assert sent.usage is not None
            assert sent.usage["input_tokens"] < LIMIT_TOKENS
            assert not re.search(
                f"{re.escape(PROSE)}|{reason}|Write a summary that", "\n".join(input_texts(sent))
            )
    failed = f"The conversation could not be summarized: {said}."
    others = [[line for line in lines if not OMITTED.fullmatch(line)] for lines in notices]
    assert others == [[failed], [], []]
    assert OMITTED.fullmatch(notices[0][1])
    rows = [row for row in await audit_rows(workers.database) if row.purpose != "answer"]
    beside = [row.purpose for row in rows].count("summary_ahead")
    assert ({row.failure for row in rows}, beside) == ({reason}, 1 if kind == "hang" else 2)
    if kind != "hang":  # an attempt may be given up before the provider has seen it
        assert calls == [len(rows) - beside, len(rows), len(rows)]
    assert await stored_summaries(workers.database) == []


async def test_a_summary_model_that_recovers_is_used_again(workers: Workers, standin: StandIn) -> None:
    """The turn after a failure has the summaries made beside it, and the one after that uses them."""
    blocks = []
    async with workers.open() as pipe:
        page = LongChat(pipe, SMALL).grow(TURNS)
        for kind in ("junk", "keep", "keep"):
            standin.summarizer = kind
            await page.ask_next()
            await workers.idle()
            blocks.append(summary_blocks(last_request(standin)))
    assert blocks == [[], [], [0]]


# --- how often ---


async def test_a_regenerated_answer_and_a_fork_cost_no_call(workers: Workers, standin: StandIn) -> None:
    """Summaries are keyed by the content of the turns, in every chat of the user."""
    async with workers.open() as pipe:
        page = LongChat(pipe, SMALL).grow(TURNS)
        await page.ask_next()
        first, calls = last_request(standin), workers.summary_count()
        page.turns.pop()
        await page.ask_next()
        again = last_request(standin)
        await LongChat(pipe, SMALL, chat_id="fork").copy_turns(page, TURNS).ask_next()
    assert workers.summary_count() == calls > 0
    assert first.body["input"] == again.body["input"] == last_request(standin).body["input"]


async def test_an_edit_keeps_the_segments_before_it(workers: Workers, standin: StandIn) -> None:
    """Only segments that hold the edited message or follow it are summarized again."""
    async with workers.open(SUMMARY_MODEL="openai/gpt-4.1-mini") as pipe:
        page = LongChat(pipe, SMALL).grow(TURNS)
        await page.ask_next()
        calls = workers.summary_count()
        edited = LongChat(pipe, SMALL).copy_turns(page, 30).grow(TURNS - 30, seed="edited")
        await edited.ask_next()
    anew = summary_requests(standin)[calls:]
    assert 0 < len(anew) <= calls
    assert all(max(transcribed_questions(request)) >= 30 for request in anew)
    assert summary_blocks(last_request(standin)) == [0]


@pytest.mark.parametrize("where", ["sqlite", pytest.param("postgres", marks=pytest.mark.servers)])
async def test_two_workers_make_each_summary_once(
    standin: StandIn, tmp_path: Path, request: pytest.FixtureRequest, where: str
) -> None:
    """The second worker waits for the first, and both answer with all summaries."""
    address = DatabaseAddress.in_folder(tmp_path)
    if where == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        address = DatabaseAddress(server.url, request.getfixturevalue("postgres_schema"))
    workers, own = Workers(standin, address, tmp_path), {"SUMMARY_MODEL": "openai/gpt-4.1-mini"}
    standin.summarizer = "slow=0.2"
    async with workers.open(**own) as one, workers.open(**own) as two:
        talks = [LongChat(pipe, SMALL).grow(TURNS) for pipe in (one, two)]
        answers = await asyncio.gather(*(talk.ask_next() for talk in talks))
    assert [answer.error for answer in answers] == [None, None]
    sent = [request for request in standin.responses if not request.is_summary]
    assert [summary_blocks(request) for request in sent] == [[0], [0]]
    assert sent[0].body["input"] == sent[1].body["input"]
    asked = [tuple(transcribed_questions(request)) for request in summary_requests(standin)]
    assert len(set(asked)) == len(asked) == len(await stored_summaries(address))
    assert await summary_claims(address) == []


async def test_prefetched_summaries_spare_every_turn_a_wait(workers: Workers, standin: StandIn) -> None:
    """Each summary is used without waiting, and at least five quiet turns follow it.

    A turn adds about 255 tokens; a summary is due at 70 % of 11,469 tokens (8,028), which 8,226 tokens in 32 turns and
    a question are. A segment has nine turns, and the newest ten stay: two segments are summarized. What replaces them
    counts with the most it may take: up to 1,146 tokens of what the user wrote, 500 for each summary, 250 for how
    things stand. So there is room for eight turns, and later for five.
    """
    async with workers.open(SUMMARY_AHEAD_RATIO=0.6, RECALL=False, RECALL_TOOL=False) as pipe:
        page = LongChat(pipe, SMALL).grow(30)
        answers = []
        for _ in range(28):
            answers.append(await page.ask_next())
            await workers.idle()
    noticed = [len(page.turns) - len(answers) + at for at, answer in enumerate(answers) if answer.notices]
    assert noticed == [32, 41, 47, 53]
    assert all(
        notice.startswith("Summarized: ") and len(answer.notices) == 1
        for answer in answers
        for notice in answer.notices
    )
    assert {row.purpose for row in await audit_rows(workers.database)} == {"answer", "summary_ahead"}


# --- switching ---


async def test_a_larger_window_gets_the_originals_again(workers: Workers, standin: StandIn) -> None:
    """Back with the small window, the stored summaries are used."""
    async with workers.open() as pipe:
        page = LongChat(pipe, SMALL).grow(TURNS)
        await page.ask_next()
        small, calls = last_request(standin), workers.summary_count()
        page.turns.pop()
        page.model = "standin/plain"
        await page.ask_next()
        large = last_request(standin)
        page.turns.pop()
        page.model = SMALL
        await page.ask_next()
    assert (questions_sent(large), summary_blocks(large)) == (list(range(TURNS + 1)), [])
    assert last_request(standin).body["input"] == small.body["input"]
    assert workers.summary_count() == calls > 0


# --- which chats are summarized, and by which model ---


async def test_summaries_of_a_temporary_chat_are_not_stored(workers: Workers, standin: StandIn) -> None:
    """They are kept in memory, and made once."""
    async with workers.open() as pipe:
        page = LongChat(pipe, SMALL, chat_id="temporary:1").grow(TURNS)
        await page.ask_next()
        calls = workers.summary_count()
        await page.ask_next()
    assert (workers.summary_count(), summary_blocks(last_request(standin))) == (calls, [0])
    assert (await stored_summaries(workers.database), await summary_claims(workers.database)) == ([], [])


async def test_a_user_may_bypass_summaries(workers: Workers, standin: StandIn) -> None:
    """What does not fit is evicted instead, for this user alone."""
    valves = UserValves(SUMMARY_BYPASS=True)
    async with workers.open(ENABLE_USER_OVERRIDE=True) as pipe:
        answer = await LongChat(pipe, SMALL, user_valves=valves).grow(TURNS).ask_next()
    assert (answer.error, workers.summary_count(), summary_blocks(last_request(standin))) == (None, 0, [])


async def test_a_task_is_never_summarized(workers: Workers, standin: StandIn) -> None:
    """Its prompt is sent as it is."""
    async with workers.open() as pipe:
        page = LongChat(pipe, SMALL).grow(50)
        body = {**page.body(), "stream": False}
        metadata = {"chat_id": "chat", "message_id": "message"}
        await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata, __task__="title_generation")
    assert (workers.summary_count(), questions_sent(last_request(standin))) == (0, list(range(50)))


async def test_a_configured_summary_model_gets_its_own_prompt(workers: Workers, standin: StandIn) -> None:
    """It gets the transcript alone, no tools, and a schema with all fields."""
    async with workers.open(SUMMARY_MODEL="openai/gpt-4.1-mini") as pipe:
        await LongChat(pipe, SMALL).grow(TURNS).ask_next()
    for asked in summary_requests(standin):
        form, roles = asked.body["text"]["format"], [item["role"] for item in asked.body["input"]]
        assert (asked.body["model"], roles) == ("openai/gpt-4.1-mini", ["system", "user"])
        assert (form["type"], form["strict"], len(form["schema"]["required"])) == ("json_schema", True, 10)
        assert (asked.status, asked.warnings, "tools" in asked.body) == (200, [], False)
    assert summary_blocks(last_request(standin)) == [0]


async def test_a_small_summary_model_reads_both_ends(workers: Workers, standin: StandIn) -> None:
    """The transcript is truncated in its middle to fit the window."""
    async with workers.open(SUMMARY_MODEL="mistralai/mistral-small-8k", SUMMARY_TRIGGER_RATIO=0.25) as pipe:
        await LongChat(pipe, "standin/plain").grow(124, tokens=250).ask_next()
    (asked,) = summary_requests(standin)
    assert (asked.status, asked.warnings, asked.error) == (200, [], "")
    beginning, _, end = input_texts(asked)[-1].partition("characters omitted ...]")
    assert beginning.startswith('<conversation>\n<user turn="1">\nQuestion 0:')
    assert "\n</assistant>\n</conversation>" in end
    assert (len(await stored_summaries(workers.database)), summary_blocks(last_request(standin))) == (1, [0])


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-sonnet-128k",
        "anthropic/claude-sonnet-4.5",
        "openai/gpt-5.2",
        "google/gemini-3-flash",
        "deepseek/deepseek-v3.2",
    ],
)
@pytest.mark.parametrize(
    "parameters", [{}, {"reasoning_effort": "high", "max_tokens": 16_000}], ids=["plain", "thinking"]
)
async def test_the_chats_own_model_reads_the_chat_from_its_cache(
    workers: Workers, standin: StandIn, model: str, parameters: Json
) -> None:
    """The request for a summary is the chat's own request with the instruction appended.

    The first question brings 30 turns to the cache; the second one is the 31st turn after which a summary is due.
    """
    async with workers.open(SUMMARY_TURN_TRIGGER=31) as pipe:
        page = LongChat(pipe, model, parameters=parameters).grow(30, tokens=1_000)
        assert (await page.ask_next(450)).notices == []
        assert (await page.ask_next(450)).notices[-1].startswith("Summarized: ")
    requests = summary_requests(standin)
    assert requests
    for asked in requests:
        assert (asked.status, asked.warnings) == (200, [])
        assert asked.usage is not None
        assert asked.usage["input_tokens_details"]["cached_tokens"] >= 0.9 * asked.usage["input_tokens"]


# --- before they are due ---


async def test_a_summary_is_ready_before_it_is_due(workers: Workers, standin: StandIn) -> None:
    """It is made after an answer; the turn that needs it finds it, and its notice says so."""
    async with workers.open(SUMMARY_AHEAD_RATIO=0.6) as pipe:
        page = LongChat(pipe, SMALL).grow(20)
        while not (answer := await page.ask_next()).notices:
            await workers.idle()
    assert summary_blocks(last_request(standin)) == [0]
    (notice,) = answer.notices
    assert re.fullmatch(r"Summarized: [\d,]{5,} → [\d,]{5,} tokens", notice)
    assert {row.purpose for row in await audit_rows(workers.database)} == {"answer", "summary_ahead"}


async def test_a_worker_that_stops_releases_its_claim(workers: Workers, standin: StandIn) -> None:
    """Its request is cancelled, and the next worker need not wait."""
    standin.summarizer = "hang"
    worker = workers.open(SUMMARY_AHEAD_RATIO=0.6)
    async with worker as pipe:
        page = LongChat(pipe, SMALL).grow(20)
        while not workers.summary_count():
            assert (await page.ask_next()).notices == []
            await asyncio.sleep(0.05)
        assert await summary_claims(workers.database)
        await worker.app.aclose()
    await eventually(lambda: summary_requests(standin)[0].disconnected)
    assert await summary_claims(workers.database) == []


# --- status lines ---


async def test_the_status_lines_show_sizes_and_cost(workers: Workers, standin: StandIn) -> None:
    """One line before summarizing, one after it; none at the next turn."""
    async with workers.open(RECALL=False) as pipe:
        page = LongChat(pipe, SMALL).grow(20)
        while not (due := await page.ask_next()).notices:
            pass
        after = await page.ask_next()
    started, ended = due.notices
    before_line = re.fullmatch(r"Summarizing conversation \(([\d,]+) tokens\)\.\.\.", started)
    after_line = re.fullmatch(r"Summarized: ([\d,]+) → ([\d,]+) tokens \(\$(\d\.\d+)\)", ended)
    assert after.notices == []
    assert before_line is not None
    assert after_line is not None
    tokens_before, tokens_after = (int(number.replace(",", "")) for number in after_line.groups()[:2])
    assert before_line[1] == after_line[1]
    assert tokens_after < 0.5 * LIMIT_TOKENS < tokens_before < 0.75 * LIMIT_TOKENS
    rows = await audit_rows(workers.database)
    paid = sum(row.cost for row in rows if row.purpose == "summary")
    assert float(after_line[3]) == pytest.approx(paid, rel=0.05)  # two digits
