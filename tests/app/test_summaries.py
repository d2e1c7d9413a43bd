"""Summaries in the whole pipe: who writes them, how often, what survives them, and the status lines."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from open_webui_openrouter_pipe.conversation.facts import state_fact
from open_webui_openrouter_pipe.money.audit import Bill
from open_webui_openrouter_pipe.money.limits import limits_of, read_limits
from open_webui_openrouter_pipe.summaries.summary import render_part
from open_webui_openrouter_pipe.turn import bill as turn_bill
from tests.app.chat import LATE, Chat, NewChat, app_on, audit_of, stored_summaries, summary_claims
from tests.support.long_chats import (
    input_texts,
    last_request,
    questions_sent,
    summary_blocks,
    summary_requests,
    transcribed_questions,
    words,
)
from tests.support.rows import rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.app import App
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "standin/small"
LIMIT_TOKENS = 11_469
"""The small model's input budget."""
TURNS = 60
"""Of the default size they exceed a small window."""
OTHER = {"SUMMARY_MODEL": "openai/gpt-4.1-mini"}
OMITTED = re.compile(r"Earlier turns left out: \d+ of \d+, about [\d,]+ tokens\.")
SUMMARIZED_TURNS = 10


@pytest.fixture
def standin(byte_standin: StandIn) -> StandIn:
    """Its bills do not move the line at which a chat of short words is too large."""
    return byte_standin


# --- who writes them ---


async def test_summaries_replace_the_oldest_turns_in_one_block(long_chat: NewChat, standin: StandIn) -> None:
    """The block is the first input item."""
    chat = long_chat().grow(TURNS)
    assert (await chat.ask_next()).error is None
    sent = last_request(standin)
    assert (sent.status, sent.warnings, summary_blocks(sent)) == (200, [], [0])
    shown = questions_sent(sent)
    assert shown == list(range(shown[0], TURNS + 1))
    assert (sent.usage or {})["input_tokens"] < LIMIT_TOKENS
    parts = [part["text"] for part in sent.body["input"][0]["content"]]
    written = await stored_summaries(chat.app)
    assert parts[1].startswith("[What the user wrote in turns 1 to ")
    assert parts[2 : 2 + len(written)] == list(map(render_part, written)) != []


@pytest.mark.parametrize(
    ("kind", "reason", "said"),
    rows(
        Path(__file__).with_name("summaries.txt"),
        "what the stand-in does => the reason in the audit | what the user reads of it",
    ),
)
async def test_without_a_summary_the_chat_goes_on(
    long_chat: NewChat, standin: StandIn, kind: str, reason: str, said: str
) -> None:
    """The user waits once, and old turns are evicted, as is said.

    All but a time-out is tried twice. Then one is tried beside the chat: at once after a time-out, otherwise with the
    next turn; after that there is a pause.
    """
    standin.summarizer = kind
    notices, calls = list[tuple[str, ...]](), list[int]()
    chat = long_chat(SUMMARY_TIMEOUT_SECONDS=0.3 if kind == "hang" else 30.0).grow(TURNS)
    for _ in range(3):
        answer = await chat.ask_next()
        await chat.app.idle()
        notices.append(answer.notices[1:])
        calls.append(len(summary_requests(standin)))
        sent = last_request(standin)
        assert (answer.error, sent.status, sent.warnings, summary_blocks(sent)) == (None, 200, [], [])
        assert (sent.usage or {})["input_tokens"] < LIMIT_TOKENS
        text = "\n".join(input_texts(sent))
        assert not re.search(f"quite a conversation|{reason}|Write a summary that", text)
    failed = f"The conversation could not be summarized: {said}."
    others = [[line for line in lines if not OMITTED.fullmatch(line)] for lines in notices]
    assert others == [[failed], [], []]
    assert OMITTED.fullmatch(notices[0][1])
    rows = [row for row in await audit_of(chat.app) if row.purpose != "answer"]
    beside = [row.purpose for row in rows].count("summary_ahead")
    assert ({row.failure for row in rows}, beside) == ({reason}, 1 if kind == "hang" else 2)
    if kind != "hang":  # an attempt may be given up before the provider has seen it
        assert calls == [len(rows) - beside, len(rows), len(rows)]
    assert await stored_summaries(chat.app) == []


# --- how often ---


async def test_a_summary_is_written_once_for_its_turns(long_chat: NewChat, standin: StandIn) -> None:
    """However often they are sent: again, after a larger window had the originals, and in a fork of the chat.

    An edit has only the segments summarized again that hold the edited message or follow it.
    """
    earlier = long_chat().grow(TURNS).messages
    inputs = []
    for chat_id, model in (("one", SMALL), ("one", "standin/plain"), ("one", SMALL), ("fork", SMALL)):
        await long_chat(chat_id=chat_id, messages=list(earlier), **{**OTHER, "model": model}).ask_next()
        sent = last_request(standin)
        inputs.append(sent.body["input"])
        is_whole = questions_sent(sent) == list(range(TURNS + 1))
        assert (summary_blocks(sent), is_whole) == (([0], False) if model == SMALL else ([], True))
    first = summary_requests(standin)
    await long_chat(messages=earlier[:60], **OTHER).grow(30, seed="edited").ask_next()
    again = summary_requests(standin)[len(first) :]
    assert inputs == [inputs[0], inputs[1], inputs[0], inputs[0]]
    asked = [(each.body["model"], each.status, each.warnings) for each in first]
    assert asked == [(OTHER["SUMMARY_MODEL"], 200, [])] * len(first)
    assert len({tuple(transcribed_questions(each)) for each in first}) == len(first) >= len(again) > 0
    assert all(max(transcribed_questions(each)) >= 30 for each in again)
    assert summary_blocks(last_request(standin)) == [0]


async def test_two_workers_make_each_summary_once(tmp_path: Path, standin: StandIn) -> None:
    """The second worker waits for the first, and both answer with all summaries."""
    standin.summarizer = "delay=0 first=0.2"
    async with app_on(tmp_path) as one, app_on(tmp_path) as two:
        chats = [NewChat(app, standin)(**LATE, **OTHER).grow(TURNS) for app in (one, two)]
        answers = await asyncio.gather(*(chat.ask_next() for chat in chats))
        stored = await stored_summaries(one)
        assert await summary_claims(one) == []
    assert [answer.error for answer in answers] == [None, None]
    sent = [request for request in standin.responses if not request.is_summary]
    assert [summary_blocks(request) for request in sent] == [[0], [0]]
    assert sent[0].body["input"] == sent[1].body["input"]
    asked = [tuple(transcribed_questions(request)) for request in summary_requests(standin)]
    assert len(set(asked)) == len(asked) == len(stored)


async def test_prefetched_summaries_spare_every_turn_a_wait(long_chat: NewChat, standin: StandIn) -> None:
    """Each summary is used without waiting, and at least three quiet turns follow it.

    A turn adds about 255 tokens; a summary is due at 70 % of 11,469 tokens (8,028), which 8,226 tokens in 32 turns and
    a question are. A segment has nine turns, and the newest turns stay that hold two fifths of the room, 18 of them:
    one segment is summarized, four turns later the next, and then one in seven to nine turns.
    """
    chat, notices = long_chat(SUMMARY_AHEAD_RATIO=0.6, RECALL=False, RECALL_TOOL=False).grow(30), {}
    for turn in range(30, 58):
        if said := (await chat.ask_next()).notices:
            notices[turn] = said
            assert summary_blocks(last_request(standin)) == [0]
        await chat.app.idle()
    assert list(notices) == [32, 36, 45, 52]
    lines = [re.sub(r"[\d,]{5,}", "N", line) for said in notices.values() for line in said]
    assert lines == ["Summarized: N → N tokens"] * 4
    assert {row.purpose for row in await audit_of(chat.app)} == {"answer", "summary_ahead"}


async def test_summaries_of_a_temporary_chat_are_not_stored(long_chat: NewChat, standin: StandIn) -> None:
    """They are kept in memory, and made once."""
    chat = long_chat(chat_id="temporary:1").grow(TURNS + 4)
    await chat.ask_next()
    await chat.ask_next()
    calls = len(summary_requests(standin))
    await chat.ask_next()
    assert (len(summary_requests(standin)), summary_blocks(last_request(standin))) == (calls, [0])
    assert (await stored_summaries(chat.app), await summary_claims(chat.app)) == ([], [])


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
    long_chat: NewChat, standin: StandIn, model: str, parameters: dict[str, Any]
) -> None:
    """The request for a summary is the chat's own request with the instruction appended.

    The first question brings 30 turns to the cache; the second one is the 31st turn after which a summary is due.
    """
    chat = long_chat(model=model, SUMMARY_TURN_TRIGGER=31).grow(30, tokens=1_000)
    assert (await chat.ask_next(450, **parameters)).notices == ()
    answer = await chat.ask_next(450, **parameters)
    assert [notice for notice in answer.notices if notice.startswith("Summarized: ")]
    requests = summary_requests(standin)
    assert [(asked.status, asked.warnings) for asked in requests] == [(200, [])] * len(requests) != []
    for asked in requests:
        usage = asked.usage or {}
        assert usage["input_tokens_details"]["cached_tokens"] >= 0.9 * usage["input_tokens"]


async def test_a_worker_that_stops_releases_its_claim(long_chat: NewChat, standin: StandIn) -> None:
    """Its request is cancelled, and the next worker need not wait."""
    standin.summarizer = "hang"
    chat = long_chat(SUMMARY_AHEAD_RATIO=0.6).grow(20)
    while not summary_requests(standin):
        assert (await chat.ask_next()).notices == ()
        await asyncio.sleep(0.05)
    assert await summary_claims(chat.app)
    await chat.app.aclose()
    await eventually(lambda: summary_requests(standin)[0].disconnected)
    assert await summary_claims(chat.app) == []


async def held(app: App) -> list[tuple[str, float]]:
    """For what something is held, and how many dollars."""
    table = app.worker.host.database.tables.hold
    rows = await app.worker.host.database.fetch(sa.select(table.c.estimate, table.c.amount))
    return [(json.loads(row.estimate).get("purpose", "answer"), row.amount) for row in rows]


async def test_under_a_limit_a_summary_is_held_until_its_bill(long_chat: NewChat, standin: StandIn) -> None:
    """The most that it may cost; of a worker that stops meanwhile, the estimate is its bill."""
    standin.summarizer = "hang"
    chat = long_chat(SUMMARY_AHEAD_RATIO=0.6, SPENDING_LIMITS="user: 90/day").grow(20)
    while not summary_requests(standin):
        assert (await chat.ask_next()).notices == ()
        await asyncio.sleep(0.05)
    await chat.app.worker.own.ledger.idle()
    ((purpose, dollars),) = await held(chat.app)
    await chat.app.aclose()
    ended, bills = await held(chat.app), await audit_of(chat.app)
    (bill,) = [each for each in bills if each.purpose != "answer"]
    assert (purpose, bill.purpose, bill.estimated, ended) == ("summary_ahead", "summary_ahead", True, [])
    assert 0 < bill.cost < dollars


async def test_a_summary_that_a_limit_has_no_room_for_is_not_asked(
    long_chat: NewChat, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said why, and nothing is waited for but the place of the answer."""
    monkeypatch.setattr(turn_bill, "WAIT_SECONDS", 0.0)
    limits = "user: 0.2/day"
    chat = long_chat(SPENDING_LIMITS=limits).grow(TURNS)
    under = limits_of("ada", (), read_limits(limits), is_admin=False)
    for name, amount in (("other", 0.19), ("more", 0.05)):
        await chat.app.worker.own.ledger.hold(Bill(id=name), amount, under)
    answer = await chat.ask_next()
    reason = "the spending limit does not leave enough for it"
    assert f"The conversation could not be summarized: {reason}." in answer.notices
    assert summary_requests(standin) == []
    assert await held(chat.app) == [("answer", 0.19), ("answer", 0.05)]


async def test_the_status_lines_show_sizes_and_cost(long_chat: NewChat) -> None:
    """One line before summarizing, one after it; none at the next turn."""
    chat = long_chat(RECALL=False).grow(20)
    while not (due := await chat.ask_next()).notices:
        pass
    assert (await chat.ask_next()).notices == ()
    size = r"([\d,]+)"
    shown = (
        rf"Summarizing conversation \({size} tokens\)\.\.\.\nSummarized: {size} → {size} tokens \(\$(.+)\)"
    )
    found = re.fullmatch(shown, "\n".join(due.notices))
    assert found
    announced, before, after = (int(each.replace(",", "")) for each in found.groups()[:3])
    assert after < 0.65 * LIMIT_TOKENS < before == announced < 0.75 * LIMIT_TOKENS
    paid = sum(row.cost for row in await audit_of(chat.app) if row.purpose == "summary")
    assert float(found[4]) == pytest.approx(paid, rel=0.05)  # two digits


# --- what survives them, whichever model writes them


def planted(turn: int) -> list[str]:
    """The paths and links of a turn."""
    numbers = range(4 * turn, 4 * turn + 4)
    links = [f"https://example.org/tickets/{at + 10_000}?view=all" for at in numbers]
    return [*(f"/srv/data/part{at}/table_{at}.csv" for at in numbers), *links]


def rule(turn: int) -> str:
    """The rule that the user states in a turn."""
    return f"You must never drop column c{turn} of table t{turn}."


def tool_output(turn: int) -> str:
    """What the tool returns in a turn."""
    rows = [f'{{"city": "address{turn}-{at}", "degrees": {turn * 10 + at}.5}}' for at in range(3)]
    return f'{{"rows": [{", ".join(rows)}], "took_ms": {700 + turn}}}'


def filled(chat: Chat) -> Chat:
    """A chat of sixty turns with all facts, half of them said by the user; a call in each, a rule in every second."""
    for turn in range(TURNS):
        facts = planted(turn)
        said, replied = (", ".join(facts[start::2]) for start in (0, 1))
        function = {"name": "measure", "arguments": f'{{"turn": {turn}}}'}
        called = {"id": f"call{turn}", "type": "function", "function": function}
        question = f"Question {turn}: {words(20, turn)}: {said}. Go on."
        chat.messages += [
            {"role": "user", "content": question if turn % 2 else f"{question}\n{rule(turn)}"},
            {"role": "assistant", "content": "", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": called["id"], "content": tool_output(turn)},
            {"role": "assistant", "content": f"Answer {turn}: {words(20, -turn)}: {replied}. Done."},
        ]
    return chat


FACT_LINES = {f'measure({{"turn": {turn}}}): {state_fact(tool_output(turn))}' for turn in range(TURNS)}
RULES = [rule(turn) for turn in range(0, TURNS, 2)]


@pytest.mark.parametrize("provider", ["standin_session", "byte_standin_session"])
async def test_ten_summaries_in_a_row_lose_nothing_silently(
    tmp_path: Path, request: pytest.FixtureRequest, provider: str
) -> None:
    """Each is made from the original turns, so that nothing erodes.

    Constraints that the model names stay word for word or are counted as omitted, and lines about tools hold the tools'
    own numbers. One provider bills as the pipe counts, and one less, so that a summary stands for many others.
    """
    standin: StandIn = request.getfixturevalue(provider)
    standin.reset()
    summarized_turns = 0
    async with app_on(tmp_path) as app:
        chat = filled(NewChat(app, standin)(**LATE))
        while summarized_turns < SUMMARIZED_TURNS:
            answer = await chat.ask_next()
            chat.grow(6)
            if not any(line.startswith("Summarized: ") for line in answer.notices):
                continue
            summarized_turns += 1
            sent = last_request(standin)
            assert (answer.error, sent.status, summary_blocks(sent)) == (None, 200, [0])
            shown = "\n".join(input_texts(sent))
            used = [each for each in await stored_summaries(app) if render_part(each) in shown]
            missing = [each for each in RULES if each not in shown]
            assert len(missing) <= sum(summary.omitted for summary in used)
            if summarized_turns == 1:
                found = [each for summary in used for each in summary.constraints]
                stated = [(each, 2 * at + 1) for at, each in enumerate(RULES)]
                named = [(each.quote, each.turn) for each in found]
                assert named == [each for each in stated if each in named] != []
                lines = [line for summary in used for line in summary.tool_facts]
                assert set(lines) <= FACT_LINES
                assert lines or any(summary.omitted for summary in used)
