"""Commands in the whole pipe: what is answered, what the next request holds, and what no model ever sees."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from open_webui_openrouter_pipe.history.markers import ANSWER_MARK
from tests.app.chat import LATE, NewChat, app_on, stored_summaries
from tests.support.long_chats import (
    input_texts,
    last_request,
    questions_sent,
    summary_blocks,
    summary_requests,
    words,
)
from tests.support.rows import rows

if TYPE_CHECKING:
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

TURNS = 20


@pytest.fixture
def standin(byte_standin: StandIn) -> StandIn:
    """Its bills do not move the line at which a chat of short words is too large."""
    return byte_standin


async def test_a_program_gets_commands_only_where_they_exist(long_chat: NewChat, standin: StandIn) -> None:
    """Its other words are meant for the model, in the last message and before."""
    chat = long_chat(chat_id="")
    helped = await chat.ask("/help")
    chat.messages = []
    for text in ("/think", "/foo"):
        chat.messages.append({"role": "user", "content": text})
    answer = await chat.ask("/deep")
    asked = await chat.ask("/context please")
    assert ("`/restore`" in helped.text, ANSWER_MARK in answer.text) == (True, False)
    assert asked.text.startswith(f"{ANSWER_MARK}`/context` cannot be used")
    refused = await long_chat(chat_id="", SPENDING_LIMITS="user: 0/day").ask("/think")
    assert "is used up" in (refused.error or "")
    (request,) = standin.responses
    assert [text.strip() for text in input_texts(request)] == ["/think", "/foo", "/deep"]


async def test_a_summary_is_written_when_it_is_commanded(long_chat: NewChat, standin: StandIn) -> None:
    """The answer says once what it did and cost; the next request holds it, and writes no other."""
    chat = long_chat().grow(TURNS)
    answer = await chat.ask("/summarize the numbers")
    assert answer.error is None
    assert answer.text.startswith(
        f"{ANSWER_MARK}The chat is summarized up to turn 18: the next request has about "
    )
    assert "The summaries cost \\$" in answer.text
    assert answer.notices[0].endswith(" This takes up to 60 seconds.")
    assert not any("Summarized" in line for line in answer.notices)
    assert all(wish("the numbers") in input_texts(each)[-1] for each in standin.responses)
    await chat.ask_next()
    sent = last_request(standin)
    assert [each.is_summary for each in standin.responses] == [True, True, False]
    assert (summary_blocks(sent), questions_sent(sent)) == ([0], [18, 19, 21])


def wish(text: str) -> str:
    """What a writer of summaries reads of the words behind a command."""
    return f"<user_request>\n{text}\n</user_request>"


async def test_a_summary_is_written_again_to_keep_something(long_chat: NewChat, standin: StandIn) -> None:
    """A branch uses those of another one, until they are not as the user wants them."""
    await long_chat().grow(TURNS).ask("/summarize")
    chat = long_chat().grow(TURNS)
    assert "existed already and cost nothing" in (await chat.ask("/summarize")).text
    assert len(standin.responses) == 2
    again = (await chat.ask("/summarize the names")).text
    assert again.startswith(f"{ANSWER_MARK}The chat is summarized up to turn 18")
    assert wish("the names") in input_texts(standin.responses[-1])[-1]


async def test_a_summary_of_omitted_turns_is_smaller_than_what_stood_for_them(long_chat: NewChat) -> None:
    """The answer compares the request with the one that had no room for these turns."""
    answer = await long_chat().grow(120).ask("/summarize the names")
    found = re.search(r"the next request has about ([\d,]+) tokens instead of ([\d,]+)\. The", answer.text)
    assert found
    after, before = (int(tokens.replace(",", "")) for tokens in found.groups())
    assert after < before


async def test_another_worker_goes_by_the_same_commands(tmp_path: Path, standin: StandIn) -> None:
    """They stand in the chat, and nowhere else."""
    async with app_on(tmp_path) as app, app_on(tmp_path) as other:
        chat = NewChat(app, standin)(**LATE).grow(TURNS)
        for text in ("/summarize", "/restore 2-3", "Question 22: on"):
            await chat.ask(text)
        first = last_request(standin)
        del chat.messages[-2:]
        chat.app = other
        await chat.ask("Question 22: on")
    assert questions_sent(first) == [1, 2, 18, 19, 22]
    assert last_request(standin).body["input"] == first.body["input"]
    assert len(summary_requests(standin)) == 2


async def test_a_discarded_summary_is_written_again(long_chat: NewChat, standin: StandIn) -> None:
    """Those of the named turns alone; nothing is written before the next message."""
    chat = long_chat().grow(TURNS)
    await chat.ask("/summarize")
    assert "Summaries discarded: 1." in (await chat.ask("/discard 3")).text
    assert "No summary stands" in (await chat.ask("/discard 19-20")).text
    assert (len(await stored_summaries(chat.app)), len(standin.responses)) == (1, 2)
    await chat.ask_next()
    assert [each.is_summary for each in standin.responses] == [True, True, True, False]
    assert len(await stored_summaries(chat.app)) == 2


async def test_a_summary_that_fails_is_said_and_written_by_the_next_messages(
    long_chat: NewChat, standin: StandIn
) -> None:
    """Beside the first of them, which is sent whole; the user may withdraw the command."""
    chat = long_chat().grow(TURNS)
    standin.summarizer = "text=Well."
    answer = await chat.ask("/summarize")
    assert "was not written: the model's answer did not have the expected form." in answer.text
    standin.summarizer = ""
    for blocks in ([], [0]):
        await chat.ask_next()
        assert (answer.error, summary_blocks(last_request(standin))) == (None, blocks)
        await chat.app.idle()


@pytest.mark.parametrize(
    ("chosen", "turns", "command", "line"),
    rows(
        Path(__file__).with_name("commands.txt"),
        "what the chat has | earlier turns | a command => a part of the answer",
    ),
)
async def test_every_command_says_what_it_does(
    long_chat: NewChat, standin: StandIn, chosen: dict[str, str], turns: int, command: str, line: str
) -> None:
    """In one answer, without a request."""
    answer = await long_chat(**chosen).grow(turns).ask(command)
    assert (answer.text.startswith(ANSWER_MARK), line in answer.text) == (True, True)
    assert standin.responses == []


@pytest.mark.parametrize(
    ("questions", "named_by"),
    [
        (("/help", "/context", "Hi", "And on"), ["Hi"]),
        (("/foo", "Hi"), ["Hi"]),
        (("Hi", "/help", "And on"), []),
        (("/help", "/context"), []),
    ],
)
async def test_a_chat_that_begins_with_commands_is_named_by_its_first_question(
    long_chat: NewChat, questions: tuple[str, ...], named_by: list[str]
) -> None:
    """Once; the page has the host name it by the first command alone."""
    named: list[str] = []

    async def name(text: str) -> None:
        named.append(text)

    chat = long_chat()
    for text in questions:
        chat.names = partial(name, text)
        await chat.ask(text)
        await chat.app.idle()
    assert named == named_by


async def test_a_turn_of_several_rounds_names_its_chat_once(long_chat: NewChat) -> None:
    """The host calls anew for each of them, with the same ids."""
    named: list[str] = []

    async def name(text: str) -> None:
        named.append(text)

    chat = long_chat()
    await chat.ask("/help")
    chat.messages.append({"role": "user", "content": "Hi"})
    for number in range(3):
        chat.names = partial(name, f"round {number}")
        assert [output async for output in chat.app.answer(chat.call(), chat.settings)]
    await chat.app.idle()
    assert named == ["round 0"]


async def test_a_report_knows_what_is_cached_and_what_it_has_cost(long_chat: NewChat) -> None:
    """After a request, its turns are expected in the cache of its provider."""
    chat = long_chat().grow(TURNS)
    await chat.ask_next()
    await chat.ask_next()
    await chat.app.worker.own.ledger.idle()
    text = (await chat.ask("/context")).text
    rows = [line.split(" | ") for line in text.splitlines() if " | word for word | " in line]
    assert [(row[0], row[-1]) for row in rows] == [
        *((f"| {number}", "yes |") for number in range(1, TURNS + 1)),
        (f"| {TURNS + 1}", rows[-2][-1]),
        (f"| {TURNS + 2}", "no |"),
    ]
    assert "This chat has cost \\$" in text
    assert "(requests: 2)" in text


async def test_long_results_of_restored_turns_are_said_to_stay_cut(long_chat: NewChat) -> None:
    """A turn with one is not called word for word, however much room there is; its other words are there again."""
    chat = long_chat()
    called = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    chat.messages += [
        {"role": "user", "content": "Question 0: look"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": words(4_000, "found")},
        {"role": "assistant", "content": "Answer 0: seen"},
    ]
    chat.grow(12)
    await chat.ask("/summarize")
    answer = (await chat.ask("/restore 1-2")).text
    assert "Turns sent word for word again, until the chat needs the room: 2. " in answer
    assert answer.endswith(
        "Turns sent word for word but for long tool results, which stay cut to their beginning and end: 1."
    )
    states = dict(
        re.findall(r"^\| (\d+) \|.* \| ([a-z ]+) \| \w+ \|$", (await chat.ask("/context")).text, re.MULTILINE)
    )
    assert (states["1"], states["2"]) == ("shortened", "word for word")
