"""A turn: what is loaded, stored, marked, retried, reported and forgotten, in which order; tables in `turns.txt`."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from open_webui_openrouter_pipe.errors import (
    ConnectionFailed,
    ContextTooLong,
    InvalidHistory,
    PaymentRequired,
    PipeError,
    ReasoningRejected,
    RequestRejected,
    StreamBroken,
)
from open_webui_openrouter_pipe.history.markers import name_call, read_call_name
from open_webui_openrouter_pipe.history.parts import text_part
from open_webui_openrouter_pipe.history.turn import input_message
from open_webui_openrouter_pipe.ports import (
    AnswerCost,
    Event,
    Failed,
    FilledItems,
    Notice,
    Output,
    StoredMarkers,
)
from open_webui_openrouter_pipe.responses.effects import (
    ItemAmended,
    ItemFinished,
    ItemStarted,
    ResponseFailed,
    ResponseFinished,
    TextDelta,
)
from open_webui_openrouter_pipe.responses.failure import Failure
from open_webui_openrouter_pipe.responses.items import Item
from open_webui_openrouter_pipe.turn.channel import OutputChannel
from open_webui_openrouter_pipe.turn.memory import Memory
from open_webui_openrouter_pipe.turn.round import Answer, waiting_line
from open_webui_openrouter_pipe.turn.runner import report_failure
from open_webui_openrouter_pipe.words.lines import for_admins, notice
from tests.support.rows import rows
from tests.turn.pipe import call, completed, delta, message, opened, reasoning
from tests.turn.turns import FIRST_TURN, OLD, OLD_REASONING, FakeOpenRouter, StoreState, TurnSetup

pytestmark = pytest.mark.anyio

THOUGHT, TEXT, CALL = reasoning("rs_1"), message("Hi"), call(name="a_b")
ASKED = {"id": name_call(OLD), "type": "function", "function": {"name": "f", "arguments": "{}"}}
ANSWERED = {"role": "assistant", "content": f"[{OLD}]: #\n\nHi"}
CHATS: dict[str, list[dict[str, Any]]] = {
    "first": FIRST_TURN,
    "second": [*FIRST_TURN, ANSWERED, {"role": "user", "content": "two"}],
    "continued": [*FIRST_TURN, ANSWERED],
    "called": [
        *FIRST_TURN,
        {"role": "assistant", "content": "", "tool_calls": [ASKED]},
        {"role": "tool", "tool_call_id": ASKED["id"], "content": "9"},
    ],
}
TURN = [{"role": "user", "content": "question"}, {"role": "assistant", "content": "word " * 2000}]
LONG_CHAT = [*TURN * 30, {"role": "user", "content": "and now?"}]


def answer(*items: dict[str, Any]) -> list[Event]:
    """A stream in which each item arrives whole."""
    return [*opened(*items), completed(*items)]


BILL = {"input_tokens": 700, "output_tokens": 5, "total_tokens": 705, "cost": 0.25}
CUT_OFF = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [TEXT]}
_thinking, _calling, _telling = answer(THOUGHT, TEXT), answer(CALL), answer(TEXT)
STREAMED: dict[str, Any] = {
    "thought begins": _thinking[0],
    "thought ends": _thinking[1],
    "text begins": _thinking[2],
    "text ends": _thinking[3],
    "end of both": _thinking[4],
    "end of text": _telling[2],
    "call begins": _calling[0],
    "call ends": _calling[1],
    "end of call": _calling[2],
    "text delta": delta("Hi"),
    "failed": {
        "type": "response.failed",
        "response": {"id": "gen-7", "error": {"code": "server_error", "message": "boom"}, "usage": BILL},
    },
    "cut off": {"type": "response.incomplete", "response": CUT_OFF},
    "lost": StreamBroken("The connection was lost."),
    "bug": RuntimeError("a bug"),
    "unreachable": ConnectionFailed("No way."),
    "rejected": ReasoningRejected("no"),
    "OLD": OLD,
}
TABLES = Path(__file__).parent / "turns.txt"
LINES = {
    "unsaved": notice("answer_not_saved"),
    "unavailable": "Stored items not reloaded: 1 (the database is unavailable).",
    "unreadable": "Stored items not reloaded: 1 (1 encrypted with another key, or damaged).",
}


def kinds(outputs: Sequence[Any]) -> list[str]:
    """All but what only says how much it has cost."""
    return [type(output).__name__ for output in outputs if not isinstance(output, tuple | AnswerCost)]


def line(outputs: Sequence[Output]) -> str:
    """The line of an error, without its reference."""
    said = [output.message for output in outputs if isinstance(output, Failed)]
    return re.sub(r" \(reference [A-Z]{6}\)$", "", said[-1]) if said else ""


def notices(outputs: Sequence[Output]) -> list[str]:
    return [output.text for output in outputs if isinstance(output, Notice)]


@pytest.mark.parametrize(("stream", "shown", "said", "tokens"), rows(TABLES, "endings", STREAMED))
async def test_however_a_stream_ends_the_turn_ends_in_order(
    stream: list[Event], shown: str, said: str, tokens: int
) -> None:
    """What is open is closed, the last line says why, and what was billed is recorded once."""
    setup = TurnSetup(FIRST_TURN, stream)
    outputs = await setup.run()
    started = [output.index for output in outputs if isinstance(output, ItemStarted)]
    finished = [output.index for output in outputs if isinstance(output, ItemFinished)]
    assert (kinds(outputs), line(outputs), started) == (shown.split(), said, finished)
    billed = [0 if record.estimated else record.input_tokens for record in setup.books.written]
    assert billed == [tokens]


@pytest.mark.parametrize(("reasoning", "turns", "said"), rows(TABLES, "the store"))
async def test_what_the_store_cannot_do_is_said_once_and_costs_no_answer(
    reasoning: Any, turns: list[tuple[str, StoreState]], said: list[list[str]]
) -> None:
    """The text arrives, and no marker is shown of what is not saved."""
    memory, shown = Memory(), []
    for chat, state in turns:
        setup = TurnSetup(CHATS[chat], answer(THOUGHT, TEXT), reasoning=reasoning, memory=memory, store=state)
        outputs = await setup.run()
        shown.append(notices(outputs))
        assert ("TextDelta" in kinds(outputs), kinds(outputs)[-1]) == (True, "ResponseFinished")
        assert ("StoredMarkers" in kinds(outputs)) == (state in {"", "missing"})
    assert shown == [[LINES[name] for name in names] for names in said]


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        ("broken", ["1 stored items are not loaded", "not all items of this answer are stored"]),
        ("breaks as it deletes", ["1 stored items are not deleted"]),
    ],
)
async def test_a_fault_of_the_store_is_in_the_log(
    state: StoreState, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever it raises what it never promised to."""
    setup = TurnSetup(
        CHATS["second"], answer(THOUGHT, TEXT), reasoning="next_reply", store=state, has_old_reasoning=True
    )
    await setup.run()
    assert [message.partition(":")[0] for message in caplog.messages] == lines
    assert caplog.messages[-1].endswith(": RuntimeError: a bug of the store")


async def test_a_failed_response_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """By OpenRouter's name for it; what fails at once has brought nothing, so that no speed is learned of it."""
    await TurnSetup(FIRST_TURN, [STREAMED["failed"]]).run()
    assert caplog.messages[-1].endswith("; generation gen-7")
    failed, answered = ResponseFailed(Failure(message="boom")), Answer()
    answered.note(failed, 1.0)
    answered.note(TextDelta(0, 0, "Hi"), 2.0)
    answered.note(TextDelta(0, 0, "!"), 3.0)
    assert (answered.first_seconds, answered.characters) == (2.0, 3)


@pytest.mark.parametrize(
    ("chat", "stream", "sent", "deleted", "prefetched"), rows(TABLES, "ended turns", STREAMED)
)
async def test_only_a_complete_turn_deletes_and_prefetches(
    chat: str, stream: list[Event], sent: list[str], deleted: list[str], prefetched: int
) -> None:
    """Old reasoning is replayed untouched before the text that it led to, and then has had its reply."""
    setup = TurnSetup(CHATS[chat], stream, reasoning="next_reply", has_old_reasoning=True)
    await setup.run()
    (body,) = setup.router.bodies
    assert [item["type"] for item in body["input"]] == sent
    assert (body["input"][1], setup.store.loads) == (OLD_REASONING, 1)
    gone = [entry[1] for entry in setup.log if isinstance(entry, tuple) and entry[0] == "delete"]
    assert (gone, len(setup.prefetched)) == ([deleted] if deleted else [], prefetched)


async def test_calls_are_stored_at_the_end_of_their_round() -> None:
    """In one batch with their reasoning; the host gets the name that it gave the tool, the store the provider's."""
    setup = TurnSetup(FIRST_TURN, answer(THOUGHT, CALL))
    outputs = await setup.run()
    assert StoredMarkers(("id1", "id2"), of_calls=frozenset({"id2"})) in outputs
    assert ("put", ["reasoning", "function_call"]) in setup.log
    called = [dict(each.item) for each in outputs if isinstance(each, ItemStarted | ItemFinished)]
    assert [item["name"] for item in called if "name" in item] == ["a.b", "a.b"]


async def test_stop_while_the_store_writes_ends_the_turn() -> None:
    """No marker or text behind it is shown before; no task is left, and the request is recorded with an estimate."""
    setup, channel = TurnSetup(FIRST_TURN, answer(THOUGHT, TEXT)), OutputChannel(interval_seconds=0)
    setup.store.may_write.clear()
    turn = asyncio.create_task(setup.turn(channel).run())
    await setup.store.put_began.wait()
    turn.cancel()
    shown = [output async for output in channel.drain()]
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert kinds(shown) == ["ItemStarted", "ItemFinished"]
    assert [record.estimated for record in setup.books.written] == [True]


@pytest.mark.parametrize("store", ["", "away"])
async def test_a_call_that_is_not_stored_names_no_artifact(store: StoreState) -> None:
    """Its id changes with the end of its response, before the host runs it; what was shown of it is amended."""
    setup = TurnSetup(FIRST_TURN, answer(THOUGHT, CALL), store=store)
    outputs = await setup.run(map("{:020}".format, range(1, 100)).__next__)
    amended = [output.item for output in outputs if isinstance(output, ItemAmended)]
    (end,) = (output for output in outputs if isinstance(output, ResponseFinished))
    call: Any = end.items[-1]
    name = read_call_name(call["call_id"])
    assert (name is None, amended) == ((True, [call]) if store else (False, []))
    assert name is None or name.ulid in setup.store.artifacts


async def test_an_unexpected_error_of_our_own_closes_what_is_open() -> None:
    """Also the item that could not be finished because of it."""
    ids = iter(list[str]())  # the first raises: that of the reasoning's artifact
    outputs = await TurnSetup(FIRST_TURN, answer(THOUGHT, CALL)).run(lambda: next(ids))
    finished = [output.item for output in outputs if isinstance(output, ItemFinished)]
    assert [(item["type"], item.get("status")) for item in finished] == [("reasoning", "incomplete")]
    assert line(outputs) == notice("unexpected_error")


@pytest.mark.parametrize("still", [False, True])
async def test_a_request_that_is_too_long_is_sent_once_more_with_less(*, still: bool) -> None:
    """The user reads of it, and both are recorded; refused again, the first refusal is all that is left to read."""
    again = [ContextTooLong("still too long")] if still else answer(TEXT)
    setup = TurnSetup(LONG_CHAT, [ContextTooLong("too long")], again)
    outputs = await setup.run()
    first, second = (body["input"] for body in setup.router.bodies)
    assert len(str(second)) < 0.75 * len(str(first))
    assert (second[-1], len(setup.books.written)) == (first[-1], 2)
    wait, *said = [output for output in outputs if isinstance(output, Notice)]
    why = notice("asked_shorter")
    assert (wait, said[1:]) == (Notice(why, done=False), [] if still else [Notice(why)])
    assert all(re.fullmatch(r".*: \d+ of .* less\.", line.text) for line in said[:1])
    assert bool(said) is not still
    assert line(outputs) == ("too long" if still else "")
    assert kinds(outputs)[-1] == ("Failed" if still else "ResponseFinished")


async def test_a_bill_for_words_alone_teaches_nothing() -> None:
    """It is for less than was planned and counted; the same bill for all of it would teach."""
    refusal = RequestRejected("no")
    refusal.remedy = "words"
    usage = {"input_tokens": 5000, "output_tokens": 5}
    billed = [*opened(TEXT), completed(TEXT, usage=usage)]
    for streams, learned in (([billed], [5000]), ([[refusal], billed], [])):
        setup = TurnSetup(CHATS["called"], *streams)
        await setup.run()
        assert [tokens for _, tokens in setup.books.learned] == learned
        assert setup.books.written[-1].input_tokens == 5000


class Slow:
    """Attachments of which nothing is sent, and which arrive when they may."""

    def __init__(self) -> None:
        self.begun, self.arrived, self.ended = (asyncio.Event() for _ in range(3))

    async def fill(self, items: Sequence[Item], turns: Sequence[int]) -> FilledItems:
        self.begun.set()
        try:
            await self.arrived.wait()
        finally:
            self.ended.set()
        omitted = input_message("user", [text_part("[Image: a.png no longer shown]")])
        return FilledItems([omitted for _ in items])


SHOWING = [
    {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    }
]


class Silent(FakeOpenRouter):
    """Says nothing for nine seconds."""

    async def _events(self, prepared: Sequence[Event | Exception]) -> AsyncIterator[Event]:
        await asyncio.sleep(9)
        async for event in super()._events(prepared):
            yield event


@pytest.mark.skips_time
async def test_a_provider_is_waited_for_from_the_request_on() -> None:
    """Not while something else takes its time before."""

    async def fill(items: Sequence[Item], _: Sequence[int]) -> FilledItems:
        await asyncio.sleep(30)
        return FilledItems(items)

    setup, channel = TurnSetup(SHOWING, fill=fill), OutputChannel(waiting_line=waiting_line)
    setup.router = Silent(answer(TEXT))
    began = asyncio.get_running_loop().time()
    task = asyncio.create_task(replace(setup.turn(channel), shown_from_seconds=600.0).run())
    outputs = [(asyncio.get_running_loop().time() - began, each) async for each in channel.drain()]
    await task
    (said,) = [(round(at), each.text) for at, each in outputs if isinstance(each, Notice)]
    assert said == (38, "Waiting for the model... 8 s. Stop is safe.")


async def test_a_wait_for_attachments_is_shown_and_ends() -> None:
    """Then comes the answer; a turn is named by what was attached, sent or not: its summary is of both."""
    slow, channel = Slow(), OutputChannel(interval_seconds=0)
    setup, other = (TurnSetup(SHOWING, answer(TEXT), fill=fill) for fill in (slow.fill, None))
    task = asyncio.create_task(replace(setup.turn(channel), shown_from_seconds=0.0).run())
    outputs = channel.drain()
    assert await anext(outputs) == Notice("Reading the attachments of this chat...", done=False)
    slow.arrived.set()
    assert await anext(outputs) == Notice("The wait is over.")
    assert not line([output async for output in outputs])
    await task
    await other.run()
    omitted, shown = (each.fitted[0].turns[0] for each in (setup, other))
    assert shown.chain == omitted.chain
    assert [entry.item for entry in shown.entries] != [entry.item for entry in omitted.entries]


@pytest.mark.parametrize("shown_from_seconds", [0.0, 600.0])
async def test_a_wait_for_attachments_is_given_up_with_the_turn(shown_from_seconds: float) -> None:
    """Whether it was shown or not."""
    slow, channel = Slow(), OutputChannel(interval_seconds=0)
    runner = TurnSetup(SHOWING, answer(TEXT), fill=slow.fill).turn(channel)
    task = asyncio.create_task(replace(runner, shown_from_seconds=shown_from_seconds).run())
    await asyncio.wait_for(slow.begun.wait(), 600)
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await asyncio.wait_for(slow.ended.wait(), 600)


POOR = notice("key_limit_reached")


def refused() -> PipeError:
    error = PaymentRequired(POOR, detail="402 | poor")
    error.generation_id = "gen-7"
    return error


@pytest.mark.parametrize(("for_admin", "line"), [(False, POOR), (True, for_admins(POOR))])
async def test_each_reads_what_they_can_do(
    *, for_admin: bool, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With six letters of its own that the log has as well; what the user alone can mend has none."""
    failed = report_failure(refused(), for_admin=for_admin)
    found = re.fullmatch(rf"{re.escape(line)} \(reference ([A-Z]{{6}})\)", failed.message)
    assert found
    assert caplog.messages == [f"{found[1]}: {POOR} (402 | poor); generation gen-7"]
    assert report_failure(refused(), for_admin=for_admin) != failed
    assert report_failure(InvalidHistory("No messages."), for_admin=False).message == "No messages."


async def test_a_fault_of_ours_is_in_the_log_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The user reads nothing of it but the reference."""
    failed = report_failure(RuntimeError("secret words"), for_admin=True)
    (record,) = caplog.records
    assert (record.levelno, record.exc_info is not None, "secret" in failed.message) == (
        logging.ERROR,
        True,
        False,
    )
    assert record.getMessage()[:6] in failed.message
