"""Fitting: from a conversation to a plan, what the user is shown, what is learned and recorded."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import Conversation, digest_item
from open_webui_openrouter_pipe.history.build import BuiltHistory, Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Request, RequestOrigin
from open_webui_openrouter_pipe.responses.effects import ResponseFinished, Usage
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.turn.fit import Fitter, FitTerms, PlannerServices, about, is_large
from open_webui_openrouter_pipe.turn.round import Answer
from open_webui_openrouter_pipe.turn.summaries import Summarizer, SummarizerState
from tests.support.chats import system, user
from tests.support.services import FakeServices, ShownNotices, spending_of
from tests.support.waiting import LIMIT_SECONDS
from tests.turn.summary_fakes import GOOD, FakeProvider, Reply, summary_writer, when_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from open_webui_openrouter_pipe.conversation.budget import Strategy
    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.ports import Notice
    from open_webui_openrouter_pipe.responses.items import Item

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/model")
SYSTEM = {"role": "system", "content": "You are brief."}


def said(user: str, assistant: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def long_chat(turns: int, words: int = 600) -> Conversation:
    """A chat of about `words` tokens a turn, with the next question at its end."""
    messages = [SYSTEM, *(message for at in range(turns) for message in said(f"Q{at}", "word " * words))]
    return conversation([*messages, {"role": "user", "content": "and now?"}])


def conversation(messages: Sequence[dict[str, Any]]) -> Conversation:
    return transformed(messages).conversation


def transformed(messages: Sequence[dict[str, Any]], **options: Any) -> BuiltHistory:
    return build_input(read_history(messages), {}, Options(model_id="vendor/model", **options))


def last_item(chat: Conversation) -> Item:
    return list(chat.turns[-1].entries)[-1].item


async def fit(fitter: Fitter, chat: Conversation, screen: ShownNotices | None = None) -> Plan:
    return await fitter.fit(chat, screen or ShownNotices())


def new_fitter(books: FakeServices, **terms: Any) -> Fitter:
    return fitter_of(books.planner(), **terms)


def fitter_of(
    planner: PlannerServices,
    *,
    window: int | None = 10_000,
    strategy: Strategy = "prune",
    origin: RequestOrigin = ORIGIN,
) -> Fitter:
    """For one call; those of the same planner belong to the same worker."""
    terms = FitTerms(ContextSettings(context_strategy=strategy), ModelTerms("vendor/model", window))
    return Fitter(planner, terms, origin)


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
    """Nothing is shown, and not an item is changed."""
    whole, screen = transformed(messages), ShownNotices()
    plan = await fit(new_fitter(FakeServices()), whole.conversation, screen)
    assert (list(plan.items), screen.lines) == (whole.items, [])


@pytest.mark.parametrize("before", [[], said("one", "1")], ids=["first turn", "later turn"])
def test_what_the_host_adds_is_separated_from_the_instructions(before: list[dict[str, Any]]) -> None:
    """Retrieved text that the host wrote behind the system prompt stands before the current turn."""
    instructed = {"role": "system", "content": "You are brief.\nSOURCES: a, b"}
    question = {"role": "user", "content": "two"}
    whole = transformed([instructed, *before, question], base_system_prompt="You are brief.")
    chat = whole.conversation
    texts = [
        [entry.item["content"][0]["text"] for entry in entries]  # type: ignore[typeddict-item]
        for entries in (chat.instructions, chat.volatile, chat.turns[-1].entries)
    ]
    assert texts == [["You are brief."], ["SOURCES: a, b"], ["two"]]


async def test_a_chat_that_outgrows_its_window_is_shortened() -> None:
    """The oldest turns are dropped; the question and the instructions stay."""
    books, chat = FakeServices(), long_chat(20)
    plan = await fit(new_fitter(books), chat)
    assert plan.tokens <= plan.limit_tokens < plan.tokens_before
    assert (plan.items[0], plan.items[-1]) == (chat.instructions[0].item, last_item(chat))


CUT = re.compile(
    r"(?P<count>\d+) of \d+ earlier turns were "
    r"(?:(?P<shortened>shortened: about (?P<saved>[\d,]+) tokens less)|left out: about (?P<omitted>[\d,]+) tokens)\."
)


def cuts(lines: Sequence[str]) -> list[tuple[str, int, str]]:
    """What each line says: whether turns were shortened or omitted, how many, and of about which size."""
    found = [CUT.fullmatch(line) for line in lines]
    assert all(found), lines
    return [
        (
            "shortened" if each["shortened"] else "omitted",
            int(each["count"]),
            (each["saved"] or each["omitted"]).replace(",", ""),
        )
        for each in found
        if each
    ]


SAVED_TOKENS = {"shortened": 400, "omitted": 530}
"""The least of a turn of 562 tokens, of which an excerpt has 138; lines round by 5 % at most."""


async def test_the_user_is_shown_what_is_omitted_once_a_batch() -> None:
    """How many turns and tokens; not again with the turns that follow, until more is shortened or omitted."""
    planner, lacking, totals = FakeServices().planner(), dict[str, int](), list[int]()
    for turns in range(1, 44):
        screen = ShownNotices()
        plan = await fit(fitter_of(planner), long_chat(turns), screen)
        for kind, count, size in cuts(screen.lines):
            lacking[kind] = count
            assert int(size) > SAVED_TOKENS[kind] * count
            assert size[2:].strip("0") == ""
        totals += [sum(lacking.values())] if screen.lines else []
    assert set(lacking) == set(SAVED_TOKENS)
    assert totals == sorted(set(totals))
    assert 1 < len(totals) == len(plan.prefix_breaks) < turns / 2  # each has room for one more turn at least


async def test_a_switch_to_a_smaller_model_is_shown_at_any_turn() -> None:
    """Also where the same chat would have been cut long ago, had it always been with the smaller model."""
    planner, silent = FakeServices().planner(), list[int]()
    for turns in range(20, 40):
        screen = ShownNotices()
        await fit(fitter_of(planner, window=100_000), long_chat(turns - 1), screen)
        assert screen.lines == []
        plan = await fit(fitter_of(planner, window=10_000), long_chat(turns), screen)
        shown = [(kind, count) for kind, count, _ in cuts(screen.lines)]
        silent += [] if shown == [(each.kind, each.count) for each in plan.reductions] != [] else [turns]
    assert silent == []


async def test_the_way_back_to_a_larger_model_is_remembered() -> None:
    """There is nothing to say about the larger one; the smaller one cuts anew, and that is said anew."""
    planner, screen = FakeServices().planner(), ShownNotices()
    for window in (10_000, 100_000, 10_000, 10_000):
        await fit(fitter_of(planner, window=window), long_chat(30), screen)
    assert len(screen.lines) == 2
    assert screen.lines[0] == screen.lines[1]


async def test_further_requests_of_a_turn_show_nothing_again() -> None:
    """A regenerated answer, another round, another call of the host."""
    planner, screen, chat = FakeServices().planner(), ShownNotices(), long_chat(30)
    fitter = fitter_of(planner)
    for each in (fitter, fitter, fitter_of(planner)):
        await fit(each, chat, screen)
    assert len(screen.lines) == 1


async def test_each_user_chat_and_worker_is_shown_for_itself() -> None:
    """A worker that knows nothing of a chat says everything: once too often rather than never."""
    planner, screen, chat = FakeServices().planner(), ShownNotices(), long_chat(30)
    for origin in (ORIGIN, replace(ORIGIN, user_id="bob"), replace(ORIGIN, chat_id="other"), ORIGIN):
        await fit(fitter_of(planner, origin=origin), chat, screen)
    assert len(screen.lines) == 3
    await fit(fitter_of(FakeServices().planner()), chat, screen)
    assert len(screen.lines) == 4


async def test_chats_without_an_id_are_known_by_their_beginning() -> None:
    """Each temporary chat has its line, once."""
    planner, screen = FakeServices().planner(), ShownNotices()
    nameless = replace(ORIGIN, chat_id="")
    for chat in (long_chat(30), long_chat(30, words=601), long_chat(30), long_chat(31)):
        await fit(fitter_of(planner, origin=nameless), chat, screen)
    assert len(screen.lines) == 2


async def test_a_task_of_the_host_changes_nothing_that_was_shown() -> None:
    """It is sent whole, and is not a request of the chat."""
    planner, screen, chat = FakeServices().planner(), ShownNotices(), long_chat(30)
    await fit(fitter_of(planner), chat, screen)
    terms = FitTerms(
        ContextSettings(context_strategy="off"), ModelTerms("vendor/model", 10_000), recorded=False
    )
    await fit(Fitter(planner, terms, ORIGIN), chat, screen)
    await fit(fitter_of(planner), chat, screen)
    assert len(screen.lines) == 1


async def test_each_kind_of_cut_has_its_line() -> None:
    """The retrieved text with its size comes last, where the page shows it: the question is about it."""
    screen, chat = ShownNotices(), long_chat(30)
    sources = digest_item(system("word " * 8_000))
    await fit(new_fitter(FakeServices()), replace(chat, volatile=(sources,)), screen)
    *turns, retrieved = screen.lines
    assert [kind for kind, *_ in cuts(turns)] == ["shortened", "omitted"]
    assert re.fullmatch(
        r"The retrieved text was cut to its beginning: about [\d,]+ of its 7,\d+ tokens were left out\.",
        retrieved,
    )


async def test_a_clipped_chat_is_shown_once() -> None:
    """That only its last messages are sent stays true with every turn."""
    planner, screen = FakeServices().planner(), ShownNotices()
    for turns in range(1, 9):
        await fit(fitter_of(planner, strategy="clip"), long_chat(turns, words=9), screen)
    assert screen.lines == ["Only the last 4 messages of this chat are sent to the model."]


async def test_omitted_tools_are_reported_once_in_a_chat() -> None:
    """With their number, and not again in the next turn."""
    books, screen = FakeServices().planner(), ShownNotices()
    tools = tuple(
        {"name": name, "description": "word " * 4_000} for name in ("get_time", "search", "weather")
    )
    terms = FitTerms(
        ContextSettings(), ModelTerms("vendor/model", 10_000), tools, frozenset({"get_time", "search"})
    )
    for _ in range(2):
        fitter = Fitter(books, terms, ORIGIN)
        plan = await fit(fitter, long_chat(2), screen)
        assert plan.omitted_tools == {"get_time", "search"}
    (line,) = screen.lines
    assert line.startswith("Built-in tools of Open WebUI omitted to fit the model's window: 2,")


async def test_what_cannot_fit_is_refused_and_recorded() -> None:
    """The line for the user names the largest part and what to do about it."""
    books = FakeServices()
    with pytest.raises(ContextOverflow) as refused:
        await fit(new_fitter(books), conversation([{"role": "user", "content": "word " * 20_000}]))
    assert "The largest part that you can change is: latest message" in refused.value.user_message
    assert "Shorten your message" in refused.value.user_message
    (record,) = books.written
    assert (record.id, record.user_id, record.chat_id, record.message_id) == ("id0", "ada", "chat", "message")
    assert record.rejected


async def test_a_bill_is_recorded_and_learned_from() -> None:
    """What was billed, cached and paid stands beside what was estimated."""
    books = FakeServices()
    fitter = new_fitter(books)
    plan = await fit(fitter, long_chat(3))
    close(books, fitter, plan, finished(Usage(input_tokens=2000, cached_tokens=1500, cost=0.5)))
    (record,) = books.written
    assert (record.input_tokens, record.cached_tokens, record.cost) == (2000, 1500, 0.5)
    assert (record.tokens_sent, books.learned) == (plan.tokens, [("vendor/model", 2000)])


async def test_a_bill_for_several_readings_teaches_nothing() -> None:
    """The provider's own search reads the input once more in each of its rounds."""
    books = FakeServices()
    fitter = new_fitter(books)
    plan = await fit(fitter, long_chat(3))
    search: Any = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    close(books, fitter, plan, finished(Usage(input_tokens=9000), search))
    assert (len(books.written), books.learned) == (1, [])


async def test_a_request_that_never_ended_is_recorded_without_a_bill() -> None:
    """The user stopped it, or the provider failed."""
    books = FakeServices()
    fitter = new_fitter(books)
    close(books, fitter, await fit(fitter, long_chat(3)), None)
    assert [record.input_tokens for record in books.written] == [0]


async def test_a_provider_that_counts_more_gets_less() -> None:
    """The next plan is well below what was refused, and the count is learned from."""
    books, chat = FakeServices(), long_chat(9)
    fitter = new_fitter(books)
    refused = await fit(fitter, chat)
    lower = await fitter.refit_smaller(chat, refused)
    assert lower is not None
    assert lower.tokens < refused.tokens * 0.75
    assert lower.budget == refused.budget
    assert lower.items[-1] == last_item(chat)
    assert books.learned == [("vendor/model", 10_000)]


async def test_a_refusal_for_the_output_that_was_asked_for_teaches_nothing() -> None:
    """By our own count the request with its output is over the window: the tokens were counted well."""
    books, chat = FakeServices(), long_chat(9)
    model = ModelTerms("vendor/model", 10_000, output_tokens=8_000)
    fitter = Fitter(books.planner(), FitTerms(ContextSettings(), model), ORIGIN)
    assert await fitter.refit_smaller(chat, await fit(fitter, chat)) is not None
    assert books.learned == []


async def test_a_refusal_without_numbers_shortens_only_what_was_refused() -> None:
    """The window stays unknown: the request is sent once more with less, and the next one whole again."""
    books, chat = FakeServices(), long_chat(30)
    fitter = new_fitter(books, window=None)
    refused = await fit(fitter, chat)
    lower = await fitter.refit_smaller(chat, refused)
    again = await fit(fitter, chat)
    assert (refused.tokens, again.tokens) == (refused.tokens_before, refused.tokens_before)
    assert lower is not None
    assert lower.tokens < refused.tokens * 0.75
    assert books.learned == []


@pytest.mark.parametrize("strategy", ["refuse", "off"])
async def test_strategies_that_drop_nothing_are_not_tried_again(strategy: Strategy) -> None:
    """The provider's own words reach the user."""
    fitter, chat = new_fitter(FakeServices(), strategy=strategy), long_chat(3)
    assert await fitter.refit_smaller(chat, await fit(fitter, chat)) is None


async def test_a_single_message_cannot_be_shortened() -> None:
    """There is nothing that may be dropped."""
    fitter, chat = new_fitter(FakeServices()), conversation([{"role": "user", "content": "word " * 5000}])
    assert await fitter.refit_smaller(chat, await fit(fitter, chat)) is None


class ThreadNotingBooks(FakeServices):
    """A tokenizer that notes in which thread it counts."""

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
    small, large = ThreadNotingBooks(), ThreadNotingBooks()
    await fit(new_fitter(small), long_chat(2))
    await fit(new_fitter(large, window=1_000_000), long_chat(40, words=2000))
    assert small.seen == {threading.get_ident()}
    assert large.seen
    assert threading.get_ident() not in large.seen


@pytest.mark.parametrize(
    ("items", "large"),
    [([user("x")], False), ([user("x" * 200_001)], True), ([user("x")] * 201, True)],
    ids=["small", "long text", "many items"],
)
def test_a_chat_is_large_by_its_text_or_its_items(items: list[Item], large: bool) -> None:  # noqa: FBT001
    """Deep inside parts as well."""
    assert is_large(items) is large


async def test_counts_are_cached_by_family() -> None:
    """Images cost differently in each; a tokenizer that came later counts anew."""
    services = FakeServices().planner()
    models = ("openai/a", "openai/b", "anthropic/a")
    counters = [await services.counter(model_id) for model_id in models]
    assert counters[0].counts is counters[1].counts
    assert counters[0].counts is not counters[2].counts
    later = replace(services, tokenizer=ThreadNotingBooks())
    assert (await later.counter("openai/a")).counts is not counters[0].counts


def close(books: FakeServices, fitter: Fitter, plan: Plan, end: ResponseFinished | None) -> None:
    """A request has ended."""
    answer = Answer(end=end)
    fitter.record(plan, answer, spending_of(books.planner(), ORIGIN).close(plan, answer))


async def close_request(planner: PlannerServices, plan: Plan, end: ResponseFinished) -> None:
    """A request was sent and has ended."""
    spending = spending_of(planner, ORIGIN)
    await spending.open(plan, Request({}), ShownNotices())
    spending.close(plan, Answer(end=end))


def finished(usage: Usage, *items: Item) -> ResponseFinished:
    return ResponseFinished("completed", None, "resp_1", "vendor/model", items, usage)


@dataclass(frozen=True, slots=True)
class CountingPrices(CachePrices):
    """Counts the simulated requests: each is priced once."""

    priced: list[int] = field(default_factory=list)

    def waiting_cost(self, prunable_tokens: int) -> float:
        """Count."""
        self.priced.append(prunable_tokens)
        return 0.0


class Worker:
    """Fits one chat, call after call, with a fake provider that writes the summaries."""

    def __init__(self, *replies: Reply) -> None:
        self.provider = FakeProvider(*replies)
        self.books = FakeServices()
        self.services = self.books.planner()
        self.summaries = MemorySummaries()
        self.jobs: list[asyncio.Task[None]] = []
        self.state = SummarizerState(lambda work: self.jobs.append(asyncio.create_task(work)), time.monotonic)
        self.prices = CountingPrices(0.1, 1.25)

    def new_fitter(self, *, window: int = 20_000, origin: RequestOrigin = ORIGIN, **changes: Any) -> Fitter:
        """For the next call."""
        summarizer = Summarizer(
            self.summaries,
            when_needed(summary_writer(self.provider)),
            self.state,
            origin=origin,
            time_limit_seconds=LIMIT_SECONDS,
            record=partial(self.services.record, origin),
        )
        settings = ContextSettings(**{"summary_ahead_ratio": 1.0, **changes})
        terms = FitTerms(settings, ModelTerms("vendor/model", window, prices=self.prices))
        return Fitter(self.services, terms, origin, summarizer=summarizer)

    def simulations(self, turns: int) -> float:
        """How often a chat of so many turns was simulated since the last look."""
        priced = len(self.prices.priced)
        self.prices.priced.clear()
        return priced / (turns + 1)


def is_summary(item: Any) -> bool:
    return item["type"] == "message" and str(item["content"][0]["text"]).startswith("[Earlier parts")


async def test_old_turns_are_replaced_by_summaries_behind_the_system_prompt() -> None:
    """The user is shown it before and after; the request for the summary is recorded beside that for the answer."""
    worker, chat, screen = Worker(GOOD), long_chat(40), ShownNotices()
    plan = await fit(worker.new_fitter(), chat, screen)
    assert (plan.items[0], plan.items[-1]) == (chat.instructions[0].item, last_item(chat))
    assert is_summary(plan.items[1])
    assert plan.tokens <= 0.7 * plan.limit_tokens
    begun, ended = screen.lines
    assert begun.startswith("Summarizing conversation (")
    assert ended.startswith("Summarized: ")
    assert {record.purpose for record in worker.books.written} == {"summary"}


async def test_the_next_call_finds_the_summaries() -> None:
    """It sends the same, and requests none."""
    worker, chat, screen = Worker(GOOD), long_chat(40), ShownNotices()
    first = await fit(worker.new_fitter(), chat)
    asked = len(worker.provider.requests)
    second = await fit(worker.new_fitter(), chat, screen)
    assert (second.items, len(worker.provider.requests)) == (first.items, asked)
    assert [line for line in screen.lines if line.startswith("Summarizing")] == []


async def test_without_a_summary_old_turns_are_dropped() -> None:
    """The user is shown why, and nothing that failed is sent."""
    worker, chat, screen = Worker("Sorry."), long_chat(40), ShownNotices()
    plan = await fit(worker.new_fitter(), chat, screen)
    assert plan.tokens <= plan.limit_tokens
    assert not any(map(is_summary, plan.items))
    assert screen.lines[1].startswith("The conversation could not be summarized: ")


async def test_the_user_waits_in_vain_once() -> None:
    """The next turn does without, while the summaries are made beside it; the one after that has them.

    An answer is asked for twice, and after the oldest segment's summary has failed no other is begun.
    """
    worker, chat, screen = Worker("Sorry.", "Sorry.", GOOD), long_chat(40), ShownNotices()
    plan = await fit(worker.new_fitter(), chat, screen)
    assert screen.lines[1].startswith("The conversation could not be summarized: ")
    screen.lines.clear()
    again = await fit(worker.new_fitter(), chat, screen)
    assert (again.items, [line for line in screen.lines if "ummariz" in line]) == (plan.items, [])
    await asyncio.gather(*worker.jobs)
    third = await fit(worker.new_fitter(), chat, screen)
    assert (is_summary(third.items[1]), any(map(is_summary, plan.items))) == (True, False)


async def test_a_part_that_could_not_be_summarized_is_named() -> None:
    """Beside what the others have saved."""
    worker, screen = Worker(GOOD, "Sorry."), ShownNotices()
    await fit(worker.new_fitter(), long_chat(60), screen)
    ended = screen.lines[1]
    assert ended.startswith("Summarized: ")
    assert "; one part could not be summarized: the model's answer did not have the expected form" in ended


async def test_no_turn_is_lost_when_the_limit_moves_while_summaries_are_made() -> None:
    """Another chat teaches a model's calibration meanwhile: what then lacks a summary is sent or evicted openly."""
    worker, chat = Worker(GOOD), long_chat(40)
    fitter = worker.new_fitter()

    async def notify(shown: Notice) -> None:
        if not shown.done:
            worker.books.known = Calibration(ratio=2.0, bills=5)

    plan = await fitter.fit(chat, notify)
    assert (plan.required_summaries, plan.tokens <= plan.limit_tokens) == ((), True)


@pytest.mark.parametrize(
    ("turns", "reply", "simulations", "next_simulations"),
    [(3, GOOD, 0, 0), (40, GOOD, 2, 1), (40, "Sorry.", 2, 1)],
    ids=["fits", "requires summaries", "does without"],
)
async def test_a_chat_is_simulated_once_and_once_more_for_its_summaries(
    turns: int, reply: Reply, simulations: int, next_simulations: int
) -> None:
    """Not at all where it plainly fits. The next call finds the summaries, or knows that the model has just failed."""
    worker, chat = Worker(reply), long_chat(turns)
    await fit(worker.new_fitter(), chat)
    assert worker.simulations(turns) == simulations
    worker.state.pauses.record_failure(f"{ORIGIN.user_id} {ORIGIN.model}")
    worker.state.pauses.record_failure(f"{ORIGIN.user_id} {ORIGIN.model}")
    await fit(worker.new_fitter(), chat)
    assert worker.simulations(turns) == next_simulations


async def test_summaries_that_exist_are_shown_when_they_are_used_anew() -> None:
    """On the way back from a larger model; with the answers that follow, and regenerated ones, they are known."""
    worker, chat, screen = Worker(GOOD), long_chat(40), ShownNotices()
    await fit(worker.new_fitter(), chat, screen)
    saved = screen.lines[-1].split(" tokens")[0]
    for window in (20_000, 100_000, 20_000, 20_000):
        await fit(worker.new_fitter(window=window), chat, screen)
    assert len(screen.lines) == 3
    assert screen.lines[2] == f"{saved} tokens"


async def test_a_copy_of_a_chat_is_shown_the_line_of_when_its_summaries_were_created() -> None:
    """What the new ones of this request save, not what all of them do; nothing is paid again."""
    worker, screen, batches = Worker(GOOD), ShownNotices(), list[int]()
    for turns in range(1, 41):
        before = len(screen.lines)
        await fit(worker.new_fitter(), long_chat(turns), screen)
        batches += [turns] if len(screen.lines) > before else []
    asked, copied = len(worker.provider.requests), ShownNotices()
    copy = worker.new_fitter(origin=replace(ORIGIN, chat_id="copy"))
    await fit(copy, long_chat(batches[-1]), copied)
    assert len(batches) > 1
    assert copied.lines == [screen.lines[-1].split(" (")[0]]
    assert len(worker.provider.requests) == asked


def test_sizes_are_rounded_to_two_digits() -> None:
    """As one would say them."""
    assert [about(tokens) for tokens in (0, 7, 94, 312, 3_149, 22_511)] == [0, 7, 94, 310, 3_100, 23_000]


async def test_what_is_omitted_for_want_of_a_summary_is_shown_as_well() -> None:
    """Why there is none, and then what became of the chat."""
    worker, screen = Worker("Sorry."), ShownNotices()
    await fit(worker.new_fitter(), long_chat(40), screen)
    assert screen.lines[1].startswith("The conversation could not be summarized: ")
    assert [kind for kind, *_ in cuts(screen.lines[2:])] == ["shortened", "omitted"]


TRIGGER_TURNS = 18
"""Turns of about 563 tokens that fill 70 % of the budget: of the 20,000 tokens, 14,000 are for input."""


@pytest.mark.parametrize(("is_sent", "by"), [(True, "suffix"), (False, "standalone")], ids=["warm", "cold"])
async def test_summaries_are_requested_after_the_cached_chat(is_sent: bool, by: str) -> None:  # noqa: FBT001
    """Where it was just sent, it is in the provider's cache; one that was never sent is not."""
    worker = Worker(GOOD)
    fitter = worker.new_fitter()
    plan = await fit(fitter, long_chat(TRIGGER_TURNS - 1))
    assert worker.provider.requests == []
    if is_sent:
        await close_request(worker.services, plan, finished(Usage(input_tokens=10)))
    await fit(worker.new_fitter(), long_chat(TRIGGER_TURNS))
    assert {body["by"] for body in worker.provider.requests} == {by}


async def test_the_next_summary_is_made_in_the_background() -> None:
    """The call that requires it says what was freed, and the user does not wait."""
    worker, screen = Worker(GOOD), ShownNotices()
    fitter = worker.new_fitter(summary_ahead_ratio=0.6)
    fitter.prefetch(await fit(fitter, long_chat(TRIGGER_TURNS - 1), screen))
    await asyncio.gather(*worker.jobs)
    asked = len(worker.provider.requests)
    plan = await fit(worker.new_fitter(), long_chat(TRIGGER_TURNS), screen)
    assert (is_summary(plan.items[1]), len(worker.provider.requests), asked > 0) == (True, asked, True)
    assert [line.split(":")[0] for line in screen.lines] == ["Summarized"]


async def test_a_bill_with_added_input_teaches_nothing() -> None:
    """Plugins read and write input of their own, and tasks carry none of the tools that the constant is for."""
    books = FakeServices()
    terms = FitTerms(ContextSettings(), ModelTerms("vendor/model", 10_000), calibrates=False)
    fitter = Fitter(books.planner(), terms, ORIGIN)
    close(books, fitter, await fit(fitter, long_chat(3)), finished(Usage(input_tokens=2_000)))
    assert (len(books.written), books.learned) == (1, [])


async def test_the_calibration_is_read_once_a_fit() -> None:
    """However often the chat is planned: a bill in between moves nothing."""

    class ReadingBooks(FakeServices):
        reads = 0

        async def find(self, model_id: str) -> Calibration | None:
            self.reads += 1
            return await super().find(model_id)

    worker, books = Worker(GOOD), ReadingBooks()
    worker.services = books.planner()
    await fit(worker.new_fitter(), long_chat(40))
    assert (len(books.written) > 0, books.reads) == (True, 1)


async def test_what_a_provider_rejects_is_tried_again_with_three_quarters() -> None:
    """Of what was rejected, or of the window where a factor below one let more through."""
    chat = long_chat(9)
    for known in (None, Calibration(ratio=0.47, bills=9)):
        books = FakeServices()
        books.known = known
        fitter = new_fitter(books)
        rejected = await fit(fitter, chat)
        lower = await fitter.refit_smaller(chat, rejected)
        assert lower is not None
        least = min(rejected.tokens, rejected.limit_tokens, 10_000)
        smaller = new_fitter(books, window=int(10_000 * least / rejected.limit_tokens * 0.75))
        assert lower.limit_tokens == (await fit(smaller, chat)).limit_tokens
        assert lower.tokens <= 0.75 * 10_000


async def test_a_rejection_teaches_only_what_was_not_expected() -> None:
    """A request that was known to be over the window says nothing new of the tokenizer."""
    chat, books = long_chat(9), FakeServices()
    fitter = new_fitter(books, strategy="off")
    rejected = await fit(fitter, chat)
    books.known = Calibration(ratio=2.4, bills=9)
    await fitter.refit_smaller(chat, rejected)
    assert books.learned == []
