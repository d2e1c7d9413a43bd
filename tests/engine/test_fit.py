"""Fitting: from a history to a plan, what the user is told, what is learned and recorded."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.engine.fit import RequestFitter, RequestTerms, conversation_of, is_large
from open_webui_openrouter_pipe.engine.recorder import RequestOrigin
from open_webui_openrouter_pipe.engine.summarizer import Summarizer, SummarizerState
from open_webui_openrouter_pipe.history.build import Options, Transformed, build_input, read_history
from open_webui_openrouter_pipe.planning.overflow import ContextOverflow
from open_webui_openrouter_pipe.planning.plan import ModelTerms
from open_webui_openrouter_pipe.responses.effects import ResponseFinished
from open_webui_openrouter_pipe.responses.usage import Usage
from open_webui_openrouter_pipe.store.memory import MemorySummaries
from tests.engine.bureau import GOOD, Bureau, Reply, scribe
from tests.support.services import FakeServices as Books
from tests.support.services import ShownNotices as Screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.conversation.budget import Strategy
    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.responses.items import Item

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/model")
SYSTEM = {"role": "system", "content": "You are brief."}


def said(user: str, assistant: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def long_chat(turns: int, words: int = 600) -> Transformed:
    """A chat of about `words` tokens a turn, with the next question at its end."""
    messages = [SYSTEM, *(message for at in range(turns) for message in said(f"Q{at}", "word " * words))]
    return transformed([*messages, {"role": "user", "content": "and now?"}])


def transformed(messages: Sequence[dict[str, Any]], **options: Any) -> Transformed:
    return build_input(read_history(messages), {}, Options(model_id="vendor/model", **options))


async def fit(fits: RequestFitter, chat: Transformed, screen: Screen | None = None) -> Plan:
    return await fits.fit(chat, screen or Screen())


def fitting(books: Books, *, window: int = 10_000, strategy: Strategy = "prune") -> RequestFitter:
    terms = RequestTerms(ContextSettings(context_strategy=strategy), ModelTerms("vendor/model", window))
    return RequestFitter(books.planner(), terms, ORIGIN)


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "one"}],
        [SYSTEM, *said("one", "1"), {"role": "user", "content": "two"}],
        [SYSTEM, *said("one", "to be continued")],
        [SYSTEM],
    ],
    ids=["a question", "a chat", "an answer to continue", "instructions alone"],
)
async def test_a_chat_that_fits_is_sent_as_it_is(messages: list[dict[str, Any]]) -> None:
    """Nothing is told, and not an item is changed."""
    whole, screen = transformed(messages), Screen()
    plan = await fit(fitting(Books()), whole, screen)
    assert (list(plan.items), screen.lines) == (whole.items, [])


@pytest.mark.parametrize("before", [[], said("one", "1")], ids=["first turn", "later turn"])
def test_what_the_host_adds_is_told_from_the_instructions(before: list[dict[str, Any]]) -> None:
    """Retrieved text that the host wrote behind the system prompt stands before the current turn."""
    told = {"role": "system", "content": "You are brief.\nSOURCES: a, b"}
    question = {"role": "user", "content": "two"}
    whole = transformed([told, *before, question], base_system_prompt="You are brief.")
    chat = conversation_of(whole, ())
    texts = [
        [entry.item["content"][0]["text"] for entry in entries]  # type: ignore[typeddict-item]
        for entries in (chat.instructions, chat.volatile, chat.turns[-1].entries)
    ]
    assert texts == [["You are brief."], ["SOURCES: a, b"], ["two"]]


async def test_a_chat_that_outgrows_its_window_lands() -> None:
    """The oldest turns are left out; the question and the instructions stay."""
    books, chat = Books(), long_chat(20)
    plan = await fit(fitting(books), chat)
    assert plan.tokens <= plan.limit_tokens < plan.tokens_before
    assert (plan.items[0], plan.items[-1]) == (chat.items[0], chat.items[-1])


async def test_the_user_is_told_when_something_is_left_out() -> None:
    """Once for each time that the past changes, and not with the turns that follow."""
    books, screen = Books(), Screen()
    plans = [await fit(fitting(books), long_chat(turns), screen) for turns in range(1, 21)]
    left_out = "The oldest parts of this chat were left out to fit the model's window."
    assert screen.lines == [left_out] * len(plans[-1].epochs)
    assert 0 < len(screen.lines) < 10


async def test_what_cannot_fit_is_refused_and_recorded() -> None:
    """The line for the user names the largest part and what to do about it."""
    books = Books()
    with pytest.raises(ContextOverflow) as refused:
        await fit(fitting(books), transformed([{"role": "user", "content": "word " * 20_000}]))
    assert "The largest part is: latest message" in refused.value.user_message
    assert "Shorten your message" in refused.value.user_message
    (record,) = books.written
    assert (record.id, record.user_id, record.chat_id, record.message_id) == ("id0", "ada", "chat", "message")
    assert record.row.overflow_rejected


async def test_a_bill_is_recorded_and_learned_from() -> None:
    """What was billed, cached and paid stands beside what was estimated."""
    books = Books()
    fits = fitting(books)
    plan = await fit(fits, long_chat(3))
    fits.record_usage(plan, finished(Usage(input_tokens=2000, cached_tokens=1500, cost=0.5)))
    (record,) = books.written
    assert (record.row.billed_tokens, record.row.cached_tokens, record.row.cost) == (2000, 1500, 0.5)
    assert (record.row.tokens_after_landing, books.learned) == (plan.tokens, [("vendor/model", 2000)])


async def test_a_bill_for_several_readings_teaches_nothing() -> None:
    """The provider's own search reads the input once more in each of its rounds."""
    books = Books()
    fits = fitting(books)
    plan = await fit(fits, long_chat(3))
    search: Any = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    fits.record_usage(plan, finished(Usage(input_tokens=9000), search))
    assert (len(books.written), books.learned) == (1, [])


async def test_a_request_that_never_ended_is_recorded_without_a_bill() -> None:
    """The user stopped it, or the provider failed."""
    books = Books()
    fits = fitting(books)
    fits.record_usage(await fit(fits, long_chat(3)), None)
    assert [record.row.billed_tokens for record in books.written] == [0]


async def test_a_provider_that_counts_more_gets_less() -> None:
    """The next plan lands below what was refused, and the count is learned from."""
    books, chat = Books(), long_chat(9)
    fits = fitting(books)
    refused = await fit(fits, chat)
    lower = await fits.refit_smaller(chat, refused)
    assert lower is not None
    assert lower.tokens < refused.tokens * 0.75
    assert lower.items[-1] == chat.items[-1]
    assert books.learned == [("vendor/model", 10_000)]


@pytest.mark.parametrize("strategy", ["refuse", "off"])
async def test_strategies_that_drop_nothing_are_not_tried_again(strategy: Strategy) -> None:
    """The provider's own words reach the user."""
    fits, chat = fitting(Books(), strategy=strategy), long_chat(3)
    assert await fits.refit_smaller(chat, await fit(fits, chat)) is None


async def test_a_single_message_cannot_be_lowered() -> None:
    """There is nothing that may be left out."""
    fits, chat = fitting(Books()), transformed([{"role": "user", "content": "word " * 5000}])
    assert await fits.refit_smaller(chat, await fit(fits, chat)) is None


class Threads(Books):
    """A vocabulary that writes down in which thread it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[int] = set()

    async def encode(self) -> Any:
        return self._encode

    def _encode(self, text: str) -> list[int]:
        self.seen.add(threading.get_ident())
        return [0] * (len(text) // 4)


async def test_a_large_chat_is_planned_beside_the_event_loop() -> None:
    """Small ones are not worth a thread."""
    small, large = Threads(), Threads()
    await fit(fitting(small), long_chat(2))
    await fit(fitting(large, window=1_000_000), long_chat(40, words=2000))
    assert small.seen == {threading.get_ident()}
    assert large.seen
    assert threading.get_ident() not in large.seen


def test_a_chat_is_large_by_its_text_or_its_items() -> None:
    """Deep inside parts as well."""
    item: Any = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "x" * 200_001}],
    }
    few: Any = {"type": "message", "role": "user", "content": []}
    assert [is_large([few]), is_large([item]), is_large([few] * 201)] == [False, True, True]


async def test_counts_are_remembered_by_family() -> None:
    """Pictures cost differently in each; a vocabulary that came later counts anew."""
    books = Books()
    means = books.planner()
    models = ("openai/a", "openai/b", "anthropic/a")
    counters = [await means.counter(model_id) for model_id in models]
    assert counters[0].counts is counters[1].counts
    assert counters[0].counts is not counters[2].counts
    assert (await replace(means, vocabulary=Threads()).counter("openai/a")).counts is not counters[0].counts


def finished(usage: Usage, *items: Item) -> ResponseFinished:
    return ResponseFinished("completed", None, "resp_1", "vendor/model", items, usage)


class Shop:
    """Fittings of one chat, call after call, with a bureau that writes the summaries."""

    def __init__(self, *replies: Reply) -> None:
        self.bureau = Bureau(*replies)
        self.books = Books()
        self.means = self.books.planner()
        self.summaries = MemorySummaries()
        self.jobs: list[asyncio.Task[None]] = []
        self.desk = SummarizerState(lambda work: self.jobs.append(asyncio.create_task(work)), time.monotonic)

    def fitting(self, **changes: Any) -> RequestFitter:
        """For the next call."""
        summarizer = Summarizer(
            self.summaries,
            scribe(self.bureau),
            self.desk,
            origin=ORIGIN,
            time_limit_seconds=5.0,
            record=partial(self.means.record, ORIGIN),
        )
        settings = ContextSettings(**{"summary_ahead_ratio": 1.0, **changes})
        terms = RequestTerms(settings, ModelTerms("vendor/model", 20_000))
        return RequestFitter(self.means, terms, ORIGIN, summarizer=summarizer)


def is_block(item: Any) -> bool:
    return item["type"] == "message" and str(item["content"][0]["text"]).startswith("[Earlier parts")


async def test_old_turns_are_told_behind_the_system_prompt() -> None:
    """The user hears of it before and after; the request for the summary is recorded beside that for the answer."""
    shop, chat, screen = Shop(GOOD), long_chat(40), Screen()
    plan = await fit(shop.fitting(), chat, screen)
    assert (plan.items[0], is_block(plan.items[1]), plan.items[-1]) == (chat.items[0], True, chat.items[-1])
    assert plan.tokens <= 0.7 * plan.limit_tokens
    begun, ended = screen.lines
    assert begun.startswith("Summarizing conversation (")
    assert ended.startswith("Summarized: ")
    assert {record.row.purpose for record in shop.books.written} == {"summary"}


async def test_the_next_call_finds_the_summaries() -> None:
    """It sends the same, and asks nobody."""
    shop, chat, screen = Shop(GOOD), long_chat(40), Screen()
    first = await fit(shop.fitting(), chat)
    asked = len(shop.bureau.asked)
    second = await fit(shop.fitting(), chat, screen)
    assert (second.items, len(shop.bureau.asked)) == (first.items, asked)
    assert [line for line in screen.lines if line.startswith("Summarizing")] == []


async def test_without_a_summary_old_turns_are_left_out() -> None:
    """The user hears why, and nothing that failed is sent."""
    shop, chat, screen = Shop("Sorry."), long_chat(40), Screen()
    plan = await fit(shop.fitting(), chat, screen)
    assert plan.tokens <= plan.limit_tokens
    assert not any(map(is_block, plan.items))
    assert screen.lines[1:2] == ["The conversation could not be summarized: malformed."]


async def turns_until_told(shop: Shop, *, is_sent: bool = False) -> int:
    """How many turns a chat has that grows turn by turn when the first of them are told."""
    for turns in range(1, 40):
        screen, fits = Screen(), shop.fitting()
        plan = await fit(fits, long_chat(turns), screen)
        if screen.lines:
            return turns
        if is_sent:
            fits.record_usage(plan, finished(Usage(input_tokens=10)))
    raise AssertionError("nothing was ever told")


@pytest.mark.parametrize(("is_sent", "by"), [(True, "live"), (False, "own")], ids=["warm", "cold"])
async def test_a_chat_that_was_just_sent_is_asked_about_in_place(is_sent: bool, by: str) -> None:  # noqa: FBT001
    """It is in the provider's cache; one that was never sent is not."""
    shop = Shop(GOOD)
    await turns_until_told(shop, is_sent=is_sent)
    assert [body["by"] for body in shop.bureau.asked] == [by] * len(shop.bureau.asked)
    assert shop.bureau.asked


async def test_the_next_summary_is_made_beside_the_chat() -> None:
    """The call that needs it says what was won, and nobody waits."""
    turns = await turns_until_told(Shop(GOOD))
    shop, screen = Shop(GOOD), Screen()
    fits = shop.fitting(summary_ahead_ratio=0.4)
    fits.prefetch(await fit(fits, long_chat(turns - 1), screen))
    await asyncio.gather(*shop.jobs)
    asked = len(shop.bureau.asked)
    plan = await fit(shop.fitting(), long_chat(turns), screen)
    assert (is_block(plan.items[1]), len(shop.bureau.asked), asked > 0) == (True, asked, True)
    assert [line.split(":")[0] for line in screen.lines] == ["Summarized"]
