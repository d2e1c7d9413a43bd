"""Summaries in the whole pipe: who writes them, how often, what the model then reads, and what the user is told."""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from open_webui_openrouter_pipe.settings import UserValves
from scripts.standin.summarizers import PROSE
from tests.support.page import Json
from tests.support.talks import (
    Place,
    Talk,
    Worker,
    answered,
    asked_for_summaries,
    blocks,
    claims,
    kept,
    questions,
    recorded,
    texts,
    transcribed,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "standin/small"
LIMIT_TOKENS = 13_312
"""What is left of the small model's window for input."""
TURNS = 60
"""Of usual size they are more than a small window takes."""
LATER = {"SUMMARY_AHEAD_RATIO": 1.0}
"""Nothing is made ahead of time."""

FAILURES = {
    "junk": "malformed",
    "empty": "empty",
    "reasoning": "reasoning only",
    "truncated": "cut off",
    "calls": "calls a tool",
    "echo": "repeats its prompt",
    "long": "cut off",
    "hang": "timed out",
    "error=500": "provider unavailable",
    "fail=eof after=3": "provider unavailable",
    'refusal="I cannot do that."': "refused",
}
WORDS = {
    "malformed": "the model's answer did not have the expected form",
    "empty": "the model's answer was empty",
    "reasoning only": "the model only reasoned and did not answer",
    "cut off": "the model's answer was cut off",
    "calls a tool": "the model called a tool",
    "repeats its prompt": "the model repeated its instructions",
    "timed out": "the model took too long",
    "provider unavailable": "provider unavailable",
    "refused": "the model refused",
}
"""What the user reads of each reason."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A database of one's own."""
    return Place.in_folder(tmp_path)


@pytest.fixture
def served_place(postgres_server: Any) -> Place:
    """A schema of one's own on PostgreSQL."""
    schema = f"summaries_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    return Place(postgres_server.url, schema)


class Office:
    """Workers in one place, opened as they are needed."""

    def __init__(self, standin: StandIn, place: Place, folder: Path) -> None:
        self.standin, self.place, self._folder = standin, place, folder

    def worker(self, **valves: Any) -> Worker:
        """One more."""
        return Worker(self.place, self.standin, self._folder, **{**LATER, **valves})

    def calls(self) -> int:
        """How many requests for summaries there were."""
        return len(asked_for_summaries(self.standin))


@pytest.fixture
def office(standin: StandIn, place: Place, tmp_path: Path) -> Office:
    return Office(standin, place, tmp_path)


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that happens beside requests."""
    for _ in range(400):
        if true():
            return
        await asyncio.sleep(0.025)
    raise TimeoutError("it did not happen")


async def idle() -> None:
    """Wait until nothing is made beside the chat."""
    jobs = [task for task in asyncio.all_tasks() if "_prepare" in repr(task.get_coro())]
    if jobs:
        await asyncio.wait(jobs, timeout=10)


# --- who writes them ---


@pytest.mark.parametrize("kind", ["keep", "drop", "lie"])
async def test_summaries_stand_in_one_block(office: Office, standin: StandIn, kind: str) -> None:
    """Before everything else of the chat, whatever the summariser makes of its task."""
    standin.summarizer = kind
    async with office.worker() as pipe:
        answer = await Talk(pipe, SMALL).grow(TURNS).go_on()
    sent = answered(standin)
    assert (answer.error, sent.status, sent.warnings, blocks(sent)) == (None, 200, [], [0])
    shown = questions(sent)
    assert shown == list(range(shown[0], TURNS + 1))
    assert sent.usage is not None
    assert sent.usage["input_tokens"] < LIMIT_TOKENS
    assert len(sent.body["input"][0]["content"]) == 1 + len(await kept(office.place)) > 1


@pytest.mark.parametrize(("kind", "reason"), FAILURES.items(), ids=list(FAILURES))
async def test_without_a_summary_the_chat_goes_on(
    office: Office, standin: StandIn, kind: str, reason: str
) -> None:
    """Each is tried twice; old turns are left out instead. The next turn tries again, and then there is a pause."""
    standin.summarizer = kind
    told, calls = [], []
    seconds = 0.3 if kind == "hang" else 30.0
    async with office.worker(SUMMARY_TIMEOUT_SECONDS=seconds) as pipe:
        page = Talk(pipe, SMALL).grow(TURNS)
        for _ in range(3):
            answer = await page.go_on()
            told.append(answer.notices[1:])
            calls.append(office.calls())
            sent = answered(standin)
            assert (answer.error, sent.status, sent.warnings, blocks(sent)) == (None, 200, [], [])
            assert sent.usage is not None
            assert sent.usage["input_tokens"] < LIMIT_TOKENS
            assert not re.search(f"{re.escape(PROSE)}|{reason}|Write a summary that", "\n".join(texts(sent)))
    failed = f"The conversation could not be summarized: {WORDS[reason]}."
    assert (told, calls) == ([[failed], [failed], []], [calls[0], 2 * calls[0], 2 * calls[0]])
    assert (calls[0] >= 4, calls[0] % 2) == (True, 0)
    assert [row.failure for row in await recorded(office.place) if row.purpose != "answer"] == [
        reason
    ] * calls[-1]
    assert await kept(office.place) == []


async def test_a_summariser_that_recovers_is_used_at_the_next_turn(office: Office, standin: StandIn) -> None:
    """One failing turn costs one turn."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL).grow(TURNS)
        standin.summarizer = "junk"
        await page.go_on()
        standin.summarizer = "keep"
        await page.go_on()
    assert blocks(answered(standin)) == [0]


# --- how often ---


async def test_a_regenerated_answer_and_a_fork_cost_no_call(office: Office, standin: StandIn) -> None:
    """The summaries are found by what was said, in whichever chat of the user."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL).grow(TURNS)
        await page.go_on()
        first, calls = answered(standin), office.calls()
        page.turns.pop()
        await page.go_on()
        again = answered(standin)
        await Talk(pipe, SMALL, chat_id="fork").like(page, TURNS).go_on()
    assert office.calls() == calls > 0
    assert first.body["input"] == again.body["input"] == answered(standin).body["input"]


async def test_an_edit_keeps_the_segments_before_it(office: Office, standin: StandIn) -> None:
    """Nothing is summarised again but what holds the edited message or follows it."""
    async with office.worker(SUMMARY_MODEL="openai/gpt-4.1-mini") as pipe:
        page = Talk(pipe, SMALL).grow(TURNS)
        await page.go_on()
        calls = office.calls()
        edited = Talk(pipe, SMALL).like(page, 30).grow(TURNS - 30, seed="edited")
        await edited.go_on()
    anew = asked_for_summaries(standin)[calls:]
    assert 0 < len(anew) <= calls
    assert all(max(transcribed(request)) >= 30 for request in anew)
    assert blocks(answered(standin)) == [0]


async def test_another_user_finds_nothing(office: Office, standin: StandIn) -> None:
    """The same words of somebody else are summarised anew."""
    calls = []
    async with office.worker() as pipe:
        for user_id in ("ada", "bob"):
            await Talk(pipe, SMALL, user_id=user_id).grow(TURNS).go_on()
            calls.append(office.calls())
    assert calls[1] == 2 * calls[0] > 0
    ada, bob = [await kept(office.place, user_id) for user_id in ("ada", "bob")]
    assert len(ada) == len(bob) > 0


async def answer_together(office: Office) -> None:
    """Two workers are asked the same at the same time."""
    own = {"SUMMARY_MODEL": "openai/gpt-4.1-mini"}
    async with office.worker(**own) as one, office.worker(**own) as two:
        talks = [Talk(pipe, SMALL).grow(TURNS) for pipe in (one, two)]
        answers = await asyncio.gather(*(talk.go_on() for talk in talks))
    assert [answer.error for answer in answers] == [None, None]
    sent = [request for request in office.standin.responses if not request.is_summary]
    assert [blocks(request) for request in sent] == [[0], [0]]
    assert sent[0].body["input"] == sent[1].body["input"]
    asked = [tuple(transcribed(request)) for request in asked_for_summaries(office.standin)]
    assert len(set(asked)) == len(asked) == len(await kept(office.place))
    assert await claims(office.place) == []


async def test_two_workers_make_each_summary_once(office: Office, standin: StandIn) -> None:
    """Whoever comes second waits for the first, and both answer with all summaries."""
    standin.summarizer = "slow=0.2"
    await answer_together(office)


@pytest.mark.servers
async def test_two_workers_on_postgresql_make_each_summary_once(
    standin: StandIn, served_place: Place, tmp_path: Path
) -> None:
    """The same on a server."""
    standin.summarizer = "slow=0.2"
    await answer_together(Office(standin, served_place, tmp_path))


async def test_ten_turns_after_a_landing_nobody_waits(office: Office, standin: StandIn) -> None:
    """Turns of the same kind fit until the next summary is due, and that one is made ahead of time."""
    async with office.worker(SUMMARY_AHEAD_RATIO=0.6) as pipe:
        page = Talk(pipe, SMALL).grow(20)
        while not (landing := await page.go_on()).notices:
            await idle()
        for _ in range(10):
            await idle()
            assert (await page.go_on()).notices == []
    assert landing.notices[-1].startswith("Summarized: ")
    assert {row.purpose for row in await recorded(office.place)} == {"answer", "summary_ahead"}


# --- switching ---


async def test_a_larger_window_gets_the_originals_again(office: Office, standin: StandIn) -> None:
    """Back in the small one, the summaries are found."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL).grow(TURNS)
        await page.go_on()
        small, calls = answered(standin), office.calls()
        page.turns.pop()
        page.model = "standin/plain"
        await page.go_on()
        large = answered(standin)
        page.turns.pop()
        page.model = SMALL
        await page.go_on()
    assert (questions(large), blocks(large)) == (list(range(TURNS + 1)), [])
    assert answered(standin).body["input"] == small.body["input"]
    assert office.calls() == calls > 0


# --- who is not summarised, and by whom ---


async def test_a_temporary_chat_leaves_nothing(office: Office, standin: StandIn) -> None:
    """It is summarised in memory, once."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL, chat_id="temporary:1").grow(TURNS)
        await page.go_on()
        calls = office.calls()
        await page.go_on()
    assert (office.calls(), blocks(answered(standin))) == (calls, [0])
    assert (await kept(office.place), await claims(office.place)) == ([], [])


async def test_a_user_may_do_without(office: Office, standin: StandIn) -> None:
    """What does not fit is left out instead, for this user alone."""
    valves = UserValves(SUMMARY_BYPASS=True)
    async with office.worker() as pipe:
        answer = await Talk(pipe, SMALL, user_valves=valves).grow(TURNS).go_on()
    assert (answer.error, office.calls(), blocks(answered(standin))) == (None, 0, [])


async def test_a_task_is_never_summarised(office: Office, standin: StandIn) -> None:
    """Its prompt is sent as it is."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL).grow(50)
        body = {**page.body(), "stream": False}
        metadata = {"chat_id": "chat", "message_id": "message"}
        await pipe.pipe(body, __user__={"id": "user"}, __metadata__=metadata, __task__="title_generation")
    assert (office.calls(), questions(answered(standin))) == (0, list(range(50)))


async def test_a_model_of_its_own_writes_with_its_own_prompt(office: Office, standin: StandIn) -> None:
    """It gets the transcript alone, no tools, and is held to the five fields."""
    async with office.worker(SUMMARY_MODEL="openai/gpt-4.1-mini") as pipe:
        await Talk(pipe, SMALL).grow(TURNS).go_on()
    asked = asked_for_summaries(standin)
    assert {request.body["model"] for request in asked} == {"openai/gpt-4.1-mini"}
    assert [[item["role"] for item in request.body["input"]] for request in asked] == [
        ["system", "user"]
    ] * len(asked)
    forms = [request.body["text"]["format"] for request in asked]
    assert {(form["type"], form["strict"], len(form["schema"]["required"])) for form in forms} == {
        ("json_schema", True, 5)
    }
    assert [(request.status, request.warnings) for request in asked] == [(200, [])] * len(asked)
    assert blocks(answered(standin)) == [0]


async def test_a_small_summary_model_reads_both_ends(office: Office, standin: StandIn) -> None:
    """The transcript is truncated in its middle to fit the window."""
    async with office.worker(SUMMARY_MODEL="mistralai/mistral-small-8k", SUMMARY_TRIGGER_RATIO=0.25) as pipe:
        await Talk(pipe, "standin/plain").grow(31, tokens=1_000).go_on()
    (asked,) = asked_for_summaries(standin)
    assert (asked.status, asked.warnings, asked.error) == (200, [], "")
    read = transcribed(asked)
    assert 0 in read
    assert read != list(range(read[-1] + 1))
    assert (len(await kept(office.place)), blocks(answered(standin))) == (1, [0])


@pytest.mark.parametrize(
    ("model", "ratio"),
    [
        ("anthropic/claude-sonnet-128k", 0.25),
        ("anthropic/claude-sonnet-4.5", 0.03),
        ("openai/gpt-5.2", 0.075),
        ("google/gemini-3-flash", 0.03),
        ("deepseek/deepseek-v3.2", 0.2),
    ],
)
@pytest.mark.parametrize(
    "parameters", [{}, {"reasoning_effort": "high", "max_tokens": 16_000}], ids=["plain", "thinking"]
)
async def test_the_chats_own_model_reads_the_chat_from_its_cache(
    office: Office, standin: StandIn, model: str, ratio: float, parameters: Json
) -> None:
    """The request for a summary is the live one with the instruction behind it."""
    async with office.worker(SUMMARY_TRIGGER_RATIO=ratio) as pipe:
        page = Talk(pipe, model, parameters=parameters).grow(24, tokens=1_000)
        while not (await page.go_on(450)).notices:
            pass
    requests = asked_for_summaries(standin)
    assert requests
    for asked in requests:
        assert (asked.status, asked.warnings) == (200, [])
        assert asked.usage is not None
        assert asked.usage["input_tokens_details"]["cached_tokens"] >= 0.9 * asked.usage["input_tokens"]


# --- ahead of time ---


async def test_a_summary_is_ready_before_it_is_due(office: Office, standin: StandIn) -> None:
    """It is made after the answer; the turn that needs it finds it, and says so."""
    async with office.worker(SUMMARY_AHEAD_RATIO=0.6) as pipe:
        page = Talk(pipe, SMALL).grow(20)
        while not (answer := await page.go_on()).notices:
            await idle()
    assert blocks(answered(standin)) == [0]
    (told,) = answer.notices
    assert re.fullmatch(r"Summarized: [\d,]{5,} → [\d,]{5,} tokens", told)
    assert {row.purpose for row in await recorded(office.place)} == {"answer", "summary_ahead"}


async def test_a_worker_that_stops_gives_up_its_job_and_its_claim(office: Office, standin: StandIn) -> None:
    """The next worker need not wait."""
    standin.summarizer = "hang"
    async with office.worker(SUMMARY_AHEAD_RATIO=0.6) as pipe:
        page = Talk(pipe, SMALL).grow(20)
        while not office.calls():
            assert (await page.go_on()).notices == []
            await asyncio.sleep(0.05)
        assert await claims(office.place)
    await until(lambda: asked_for_summaries(standin)[0].disconnected)
    assert await claims(office.place) == []


# --- what the user is told ---


async def test_the_user_is_told_what_is_done_and_what_it_costs(office: Office, standin: StandIn) -> None:
    """One line before, one after; nothing at the next turn."""
    async with office.worker() as pipe:
        page = Talk(pipe, SMALL).grow(20)
        while not (due := await page.go_on()).notices:
            pass
        after = await page.go_on()
    started, ended = due.notices
    before = re.fullmatch(r"Summarizing conversation \(([\d,]+) tokens\)\.\.\.", started)
    figures = re.fullmatch(r"Summarized: ([\d,]+) → ([\d,]+) tokens \(\$(\d\.\d{4})\)", ended)
    assert after.notices == []
    assert before is not None
    assert figures is not None
    x, y = (int(figure.replace(",", "")) for figure in figures.groups()[:2])
    assert before[1] == figures[1]
    assert y < 0.45 * LIMIT_TOKENS < x < 0.75 * LIMIT_TOKENS
    rows = await recorded(office.place)
    paid = sum(row.cost for row in rows if row.purpose == "summary")
    assert float(figures[3]) == pytest.approx(paid, abs=5e-5)
