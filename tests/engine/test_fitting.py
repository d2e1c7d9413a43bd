"""Fitting: from a history to a plan, what the user is told, what is learned and recorded."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.context.overflow import ContextOverflow
from open_webui_openrouter_pipe.context.plan import ModelTerms
from open_webui_openrouter_pipe.context.settings import ContextSettings
from open_webui_openrouter_pipe.engine.fitting import (
    Fitting,
    Means,
    Terms,
    conversation_of,
    is_large,
    notices,
)
from open_webui_openrouter_pipe.engine.recorder import Origin
from open_webui_openrouter_pipe.history.transform import Options, Transformed, build_input, read_history
from open_webui_openrouter_pipe.ports import Notice
from open_webui_openrouter_pipe.responses.effects import ResponseFinished
from open_webui_openrouter_pipe.responses.usage import Usage
from tests.support.books import Books

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.context.settings import Strategy
    from open_webui_openrouter_pipe.responses.items import Item

pytestmark = pytest.mark.anyio

ORIGIN = Origin("ada", "chat", "message", "vendor/model")
SYSTEM = {"role": "system", "content": "You are brief."}


def said(user: str, assistant: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def long_chat(turns: int, words: int = 600) -> Transformed:
    """A chat of about `words` tokens a turn, with the next question at its end."""
    messages = [SYSTEM, *(message for at in range(turns) for message in said(f"Q{at}", "word " * words))]
    return transformed([*messages, {"role": "user", "content": "and now?"}])


def transformed(messages: Sequence[dict[str, Any]], **options: Any) -> Transformed:
    return build_input(read_history(messages), {}, Options(model_id="vendor/model", **options))


def fitting(books: Books, *, window: int = 10_000, strategy: Strategy = "prune") -> Fitting:
    means = Means(books, books, books, lambda: f"id{len(books.written)}")
    terms = Terms(ContextSettings(context_strategy=strategy), ModelTerms("vendor/model", window))
    return Fitting(means, terms, ORIGIN)


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
    whole = transformed(messages)
    plan = await fitting(Books()).fit(whole)
    assert (list(plan.items), notices(plan)) == (whole.items, [])


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
    plan = await fitting(books).fit(chat)
    assert plan.tokens <= plan.limit_tokens < plan.tokens_before
    assert (plan.items[0], plan.items[-1]) == (chat.items[0], chat.items[-1])


async def test_the_user_is_told_when_something_is_left_out() -> None:
    """Once for each time that the past changes, and not with the turns that follow."""
    fits = fitting(Books())
    plans = [await fits.fit(long_chat(turns)) for turns in range(1, 21)]
    told = [notice for plan in plans for notice in notices(plan)]
    left_out = Notice("The oldest parts of this chat were left out to fit the model's window.")
    assert told == [left_out] * len(plans[-1].epochs)
    assert 0 < len(told) < 10


async def test_what_cannot_fit_is_refused_and_recorded() -> None:
    """The line for the user names the largest part and what to do about it."""
    books = Books()
    with pytest.raises(ContextOverflow) as refused:
        await fitting(books).fit(transformed([{"role": "user", "content": "word " * 20_000}]))
    assert "The largest part is: latest message" in refused.value.user_message
    assert "Shorten your message" in refused.value.user_message
    (record,) = books.written
    assert (record.id, record.user_id, record.chat_id, record.message_id) == ("id0", "ada", "chat", "message")
    assert record.row.overflow_rejected


async def test_a_bill_is_recorded_and_learned_from() -> None:
    """What was billed, cached and paid stands beside what was estimated."""
    books = Books()
    fits = fitting(books)
    plan = await fits.fit(long_chat(3))
    fits.settle(plan, finished(Usage(input_tokens=2000, cached_tokens=1500, cost=0.5)))
    (record,) = books.written
    assert (record.row.billed_tokens, record.row.cached_tokens, record.row.cost) == (2000, 1500, 0.5)
    assert (record.row.tokens_after_landing, books.learned) == (plan.tokens, [("vendor/model", 2000)])


async def test_a_bill_for_several_readings_teaches_nothing() -> None:
    """The provider's own search reads the input once more in each of its rounds."""
    books = Books()
    fits = fitting(books)
    plan = await fits.fit(long_chat(3))
    search: Any = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    fits.settle(plan, finished(Usage(input_tokens=9000), search))
    assert (len(books.written), books.learned) == (1, [])


async def test_a_request_that_never_ended_is_recorded_without_a_bill() -> None:
    """The user stopped it, or the provider failed."""
    books = Books()
    fits = fitting(books)
    fits.settle(await fits.fit(long_chat(3)), None)
    assert [record.row.billed_tokens for record in books.written] == [0]


async def test_a_provider_that_counts_more_gets_less() -> None:
    """The next plan lands below what was refused, and the count is learned from."""
    books, chat = Books(), long_chat(9)
    fits = fitting(books)
    refused = await fits.fit(chat)
    lower = await fits.fit_lower(chat, refused)
    assert lower is not None
    assert lower.tokens < refused.tokens * 0.75
    assert lower.items[-1] == chat.items[-1]
    assert books.learned == [("vendor/model", 10_000)]


@pytest.mark.parametrize("strategy", ["refuse", "off"])
async def test_strategies_that_drop_nothing_are_not_tried_again(strategy: Strategy) -> None:
    """The provider's own words reach the user."""
    fits, chat = fitting(Books(), strategy=strategy), long_chat(3)
    assert await fits.fit_lower(chat, await fits.fit(chat)) is None


async def test_a_single_message_cannot_be_lowered() -> None:
    """There is nothing that may be left out."""
    fits, chat = fitting(Books()), transformed([{"role": "user", "content": "word " * 5000}])
    assert await fits.fit_lower(chat, await fits.fit(chat)) is None


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
    await fitting(small).fit(long_chat(2))
    await fitting(large, window=1_000_000).fit(long_chat(40, words=2000))
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
    means = Means(books, books, books, str)
    models = ("openai/a", "openai/b", "anthropic/a")
    counters = [await means.counter(model_id) for model_id in models]
    assert counters[0].counts is counters[1].counts
    assert counters[0].counts is not counters[2].counts
    assert (await replace(means, vocabulary=Threads()).counter("openai/a")).counts is not counters[0].counts


def finished(usage: Usage, *items: Item) -> ResponseFinished:
    return ResponseFinished("completed", None, "resp_1", "vendor/model", items, usage)
