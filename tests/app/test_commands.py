"""Commands in the whole pipe: what is answered, what the next request holds, and what no model ever sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.history.reading import ANSWER_MARK
from tests.support.long_chats import (
    DatabaseAddress,
    LongChat,
    Worker,
    input_texts,
    last_request,
    questions_sent,
    stored_summaries,
    summary_blocks,
    summary_requests,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

SMALL = "standin/small"
TURNS = 20


@pytest.fixture
def standin(byte_standin: StandIn) -> StandIn:
    """Its bills do not move the line at which a chat of short words is too large."""
    return byte_standin


def worker_in(folder: Path, standin: StandIn, **valves: Any) -> Worker:
    """A worker that makes no summary early."""
    return Worker(
        DatabaseAddress.in_folder(folder), standin, folder, **{"SUMMARY_AHEAD_RATIO": 1.0, **valves}
    )


@pytest.fixture
async def pipe(standin: StandIn, tmp_path: Path) -> AsyncIterator[Pipe]:
    """The pipe of such a worker."""
    async with worker_in(tmp_path, standin) as opened:
        yield opened


async def test_a_summary_is_written_when_it_is_commanded(pipe: Pipe, standin: StandIn) -> None:
    """The answer says what it did and cost; the next request holds it, and writes no other."""
    chat = LongChat(pipe, SMALL).grow(TURNS)
    answer = await chat.ask("/compact the numbers")
    assert answer.error is None
    assert answer.text.startswith(
        f"{ANSWER_MARK}The chat is summarized up to turn 18: the next request has about "
    )
    assert "The summaries cost $" in answer.text
    assert answer.notices[0].endswith(" This takes up to 60 seconds.")
    assert all(
        "<user_request>\nthe numbers\n</user_request>" in input_texts(each)[-1] for each in standin.responses
    )
    await chat.ask_next()
    assert [each.is_summary for each in standin.responses] == [True, True, False]
    assert (summary_blocks(last_request(standin)), questions_sent(last_request(standin))) == (
        [0],
        [18, 19, 21],
    )


async def test_a_summary_is_written_again_to_keep_something(pipe: Pipe, standin: StandIn) -> None:
    """Its turns are summarized already, but not as the user wants it."""
    chat = LongChat(pipe, SMALL).grow(TURNS)
    await chat.ask("/compact")
    before = len(summary_requests(standin))
    answer = await chat.ask("/compact the names")
    assert answer.text.startswith(f"{ANSWER_MARK}The chat is summarized up to turn 18")
    assert len(summary_requests(standin)) == before + 1
    assert "<user_request>\nthe names\n</user_request>" in input_texts(summary_requests(standin)[-1])[-1]


async def test_a_summary_of_omitted_turns_is_smaller_than_what_stood_for_them(pipe: Pipe) -> None:
    """The answer compares the request with the one that had no room for these turns."""
    answer = await LongChat(pipe, SMALL).grow(120).ask("/compact the names")
    found = re.search(r"the next request has about ([\d,]+) tokens instead of ([\d,]+)\. The", answer.text)
    assert found
    after, before = (int(tokens.replace(",", "")) for tokens in found.groups())
    assert after < before


async def test_another_worker_goes_by_the_same_commands(standin: StandIn, tmp_path: Path) -> None:
    """They stand in the chat, and nowhere else."""
    async with worker_in(tmp_path, standin) as pipe:
        chat = LongChat(pipe, SMALL).grow(TURNS)
        await chat.ask("/compact")
        await chat.ask("/restore 2-3")
        await chat.ask_next()
    first = last_request(standin)
    async with worker_in(tmp_path, standin) as pipe:
        other = LongChat(pipe, SMALL).copy_turns(chat, len(chat.turns) - 1)
        await other.ask(chat.turns[-1][0])
    assert questions_sent(first) == [1, 2, 18, 19, 22]
    assert last_request(standin).body["input"] == first.body["input"]
    assert len(summary_requests(standin)) == 2


async def test_what_is_to_be_kept_replaces_a_summary_that_does_not(pipe: Pipe, standin: StandIn) -> None:
    """A branch that has the same turns summarized with such a command gets summaries of its own."""
    await LongChat(pipe, SMALL).grow(TURNS).ask("/compact")
    again = await LongChat(pipe, SMALL).grow(TURNS).ask("/compact")
    assert "existed already and cost nothing" in again.text
    assert len(standin.responses) == 2
    await LongChat(pipe, SMALL).grow(TURNS).ask("/compact the numbers")
    assert len(standin.responses) == 4


async def test_a_discarded_summary_is_written_again(pipe: Pipe, standin: StandIn, tmp_path: Path) -> None:
    """Those of the named turns alone; nothing is written before the next message."""
    address = DatabaseAddress.in_folder(tmp_path)
    chat = LongChat(pipe, SMALL).grow(TURNS)
    await chat.ask("/compact")
    answer = await chat.ask("/discard 3")
    assert "Summaries discarded: 1." in answer.text
    assert "No summary stands" in (await chat.ask("/discard 19-20")).text
    assert len(await stored_summaries(address)) == 1
    assert len(standin.responses) == 2
    await chat.ask_next()
    assert [each.is_summary for each in standin.responses] == [True, True, True, False]
    assert len(await stored_summaries(address)) == 2


async def test_a_summary_that_fails_is_said_and_tried_again(pipe: Pipe, standin: StandIn) -> None:
    """The chat is sent whole until then."""
    chat = LongChat(pipe, SMALL).grow(TURNS)
    standin.summarizer = "junk"
    answer = await chat.ask("/compact")
    assert "was not written: the model's answer did not have the expected form." in answer.text
    standin.summarizer = "keep"
    again = await chat.ask("/compact")
    assert "The chat is summarized up to turn 18" in again.text
    assert answer.error is again.error is None


async def test_a_failed_command_is_carried_out_by_the_next_messages(pipe: Pipe, standin: StandIn) -> None:
    """Beside the first of them, which is sent whole; the user may withdraw it."""
    chat = LongChat(pipe, SMALL).grow(TURNS)
    standin.summarizer = "junk"
    await chat.ask("/compact")
    standin.summarizer = "keep"
    await chat.ask_next()
    assert summary_blocks(last_request(standin)) == []
    await pipe._running_app().idle()
    await chat.ask_next()
    assert summary_blocks(last_request(standin)) == [0]


async def test_nothing_is_summarized_where_that_is_switched_off(standin: StandIn, tmp_path: Path) -> None:
    """The answer says who can change it."""
    async with worker_in(tmp_path, standin, CONTEXT_STRATEGY="prune") as pipe:
        answer = await LongChat(pipe, SMALL).grow(TURNS).ask("/compact")
    assert "CONTEXT_STRATEGY" in answer.text
    assert standin.responses == []


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("/restore", "All of these turns are sent word for word already."),
        ("/restore 99", "This chat has no such turns: it has 3."),
        ("/compact", "Nothing was summarized: what came before the newest turns is too short"),
        ("/aim faithful", "The aim of this chat is `faithful` already."),
        ("/aim thrifty", "From now on, the aim of this chat is `thrifty`."),
        ("/aim low", "`/aim` cannot be used like this. `/aim faithful` sends"),
        ("/help", "The aim of this chat is `faithful`."),
    ],
)
async def test_every_command_says_what_it_does(pipe: Pipe, standin: StandIn, command: str, line: str) -> None:
    """In one answer, without a request."""
    answer = await LongChat(pipe, SMALL).grow(3).ask(command)
    assert answer.text.startswith(ANSWER_MARK)
    assert line in answer.text
    assert standin.responses == []


async def test_a_report_knows_what_is_cached_and_what_it_has_cost(pipe: Pipe) -> None:
    """After a request, its turns are expected in the cache of its provider."""
    chat = LongChat(pipe, SMALL).grow(TURNS)
    await chat.ask_next()
    await chat.ask_next()
    worker = pipe._running_app().worker
    await worker.own.ledger.idle()
    text = (await chat.ask("/context")).text
    rows = [line.split(" | ") for line in text.splitlines() if " | word for word | " in line]
    assert [row[0] for row in rows] == [f"| {number}" for number in range(1, TURNS + 3)]
    assert [row[-1] for row in rows[:TURNS]] == ["yes |"] * TURNS
    assert rows[-1][-1] == "no |"
    assert "This chat has cost $" in text
    assert "(requests: 2)" in text


async def test_a_model_that_only_draws_says_what_holds(pipe: Pipe, standin: StandIn) -> None:
    """Without a picture."""
    answer = await LongChat(pipe, "google/gemini-3-pro-image").ask("/help")
    assert "/context" in answer.text
    assert standin.responses == []
