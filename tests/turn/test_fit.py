"""Fitting: from a conversation to a plan, what the user is shown, what is learned; tables in `fit.txt`."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.conversation.budget import Calibration, ContextOverflow, ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import Conversation, digest_item
from open_webui_openrouter_pipe.errors import ContextTooLong
from open_webui_openrouter_pipe.history.build import Options, build_input
from open_webui_openrouter_pipe.history.reading import read_history
from open_webui_openrouter_pipe.planning.planner import ModelTerms
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.ports import Request, RequestOrigin
from open_webui_openrouter_pipe.responses.effects import ResponseFinished, Usage
from open_webui_openrouter_pipe.store.kept import MemorySummaries
from open_webui_openrouter_pipe.threads import is_large
from open_webui_openrouter_pipe.turn.fit import Fitter, FitTerms, PlannerServices, about
from open_webui_openrouter_pipe.turn.round import Answer
from open_webui_openrouter_pipe.turn.summaries import Summarizer, SummarizerState
from tests.support.chats import simulated_requests, system, user
from tests.support.rows import rows
from tests.support.services import FakeServices, ShownNotices, spending_of
from tests.support.waiting import LIMIT_SECONDS
from tests.turn.summary_fakes import GOOD, FakeProvider, Reply, summary_writer, when_needed

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.planning.plan import Plan
    from open_webui_openrouter_pipe.ports import Notice
    from open_webui_openrouter_pipe.responses.items import Item

pytestmark = pytest.mark.anyio

ORIGIN = RequestOrigin("ada", "chat", "message", "vendor/model")
TABLES = Path(__file__).parent / "fit.txt"
TOOLS = tuple({"name": name, "description": "word " * 4_000} for name in ("get_time", "search", "weather"))


def long_chat(turns: int, words: int = 600) -> Conversation:
    """A chat of about `words` tokens a turn, with the next question at its end."""
    messages = [{"role": "system", "content": "You are brief."}]
    for at in range(turns):
        messages += [{"role": "user", "content": f"Q{at}"}, {"role": "assistant", "content": "word " * words}]
    messages.append({"role": "user", "content": "and now?" if turns else "word " * words})
    return build_input(read_history(messages), {}, Options(model_id="vendor/model")).conversation()


async def fit(fitter: Fitter, chat: Conversation, screen: ShownNotices | None = None) -> Plan:
    return await fitter.fit(chat, screen or ShownNotices())


def fitter_of(
    planner: PlannerServices,
    *,
    window: int | None = 10_000,
    strategy: Any = "prune",
    output: int | None = None,
    tools: bool = False,
    **terms: Any,
) -> Fitter:
    """For one call; those of the same planner belong to the same worker."""
    named = [name for name in ("user_id", "chat_id", "is_admin") if name in terms]
    origin = replace(ORIGIN, **{name: terms.pop(name) for name in named})
    settings = ContextSettings(context_strategy=strategy)
    model = ModelTerms("vendor/model", window, output_tokens=output)
    if tools:
        terms.update(tools=TOOLS, optional_tools=("get_time", "search"))
    return Fitter(planner, FitTerms(settings, model, **terms), origin)


CUT = re.compile(r"Earlier turns (shortened|left out): (\d+) of \d+, about ([\d,]+) tokens(?: less)?\.")


async def test_the_user_is_shown_what_is_omitted_once_a_batch() -> None:
    """How many turns and tokens; not again with the turns that follow, until more is shortened or omitted."""
    # a turn has 562 tokens, an excerpt of it 138; lines round by 5 %
    least_tokens = {"shortened": 400, "left out": 530}
    planner, lacking, totals = FakeServices().planner(), dict[str, int](), list[int]()
    for turns in range(1, 44):
        screen = ShownNotices()
        plan = await fit(fitter_of(planner), long_chat(turns), screen)
        for shown in screen.lines:
            cut = CUT.fullmatch(shown)
            assert cut
            lacking[cut[1]], size = int(cut[2]), int(cut[3].replace(",", ""))
            assert size == about(size) > least_tokens[cut[1]] * int(cut[2])
        totals += [sum(lacking.values())] if screen.lines else []
    assert set(lacking) == set(least_tokens)
    assert totals == sorted(set(totals))
    assert 1 < len(totals) == len(plan.prefix_breaks) < turns / 2  # each has room for one more turn at least
    retrieved = replace(long_chat(30), volatile=(digest_item(system("word " * 8_000)),))
    await fit(fitter_of(FakeServices().planner()), retrieved, screen := ShownNotices())
    assert [bool(CUT.fullmatch(shown)) for shown in screen.lines] == [True, True, False]
    assert re.fullmatch(
        r"Retrieved text cut to its beginning: [\d,]+ of 7,\d+ tokens left out\.",
        screen.lines[2],
    )


@pytest.mark.parametrize(("requests", "told"), rows(TABLES, "told"))
async def test_a_line_is_shown_where_nobody_has_read_it(
    requests: list[dict[str, Any]], told: list[int]
) -> None:
    """By worker, user and chat, when a request lacks what the chat's last one did not."""
    planners = [FakeServices().planner() for _ in range(2)]
    shown = []
    for request in requests:
        chat = long_chat(request.pop("turns", 30), request.pop("words", 600))
        screen = ShownNotices()
        await fit(fitter_of(planners[request.pop("worker", 0)], **request), chat, screen)
        shown.append(len(screen.lines))
    assert shown == told


@pytest.mark.parametrize(
    ("turns", "terms", "told"),
    [
        (0, {}, [1, 0]),
        (0, {"is_admin": False}, [0, 0]),
        (0, {"is_task": True}, [0, 0]),
        (0, {"chat_id": ""}, [0, 0]),
        (0, {"optional_tools": ("small",)}, [0, 0]),
        (2, {}, [0, 0]),
    ],
)
async def test_an_administrator_is_told_once_what_the_tools_take(
    turns: int, terms: dict[str, Any], told: list[int]
) -> None:
    """With a chat's first message, of tools that nobody has chosen and that are more than a few."""
    planner, shown = FakeServices().planner(), []
    of_chat = {"is_admin": True, "tools": False, "optional_tools": ("get_time", "search"), **terms}
    for _ in told:
        fitter = fitter_of(planner, window=100_000, **of_chat)
        small = {"name": "small", "description": "Small."}
        fitter.terms = replace(fitter.terms, tools=(*TOOLS, small))
        await fit(fitter, long_chat(turns, words=5), screen := ShownNotices())
        shown.append(
            [
                line
                for line in screen.lines
                if line.startswith("Open WebUI's built-in tools take about 7,400 tokens of each request")
            ]
        )
    assert [len(lines) for lines in shown] == told


async def test_what_cannot_fit_is_refused_and_recorded() -> None:
    """The line for the user says what to do about it."""
    books = FakeServices()
    with pytest.raises(ContextOverflow, match="Shorten your message"):
        await fit(fitter_of(books.planner()), long_chat(0, words=20_000))
    (record,) = books.written
    named = (record.id, record.user_id, record.chat_id, record.message_id, record.rejected)
    assert named == ("id0", "ada", "chat", "message", True)


@pytest.mark.parametrize(("billed", "kind", "calibrates", "learned"), rows(TABLES, "bills"))
async def test_a_bill_is_recorded_and_learned_from(
    billed: int | None, kind: str, *, calibrates: bool, learned: int | None
) -> None:
    """What was billed and cached stands beside what was estimated; only what was read once teaches."""
    books, item = FakeServices(), {"type": kind, "id": "item", "status": "completed"}
    fitter = fitter_of(books.planner(), calibrates=calibrates)
    plan = await fit(fitter, long_chat(3))
    usage = Usage(input_tokens=billed or 0, cached_tokens=1500, cost=0.5)
    answer = Answer(end=finished(usage, item) if billed else None)
    spending = spending_of(books.planner(), ORIGIN)
    await spending.open(plan, Request({}), ShownNotices())
    spending.close(plan, answer)
    fitter.learn(plan, answer)
    (record,) = books.written
    paid = (record.input_tokens, record.cached_tokens, record.cost, record.tokens_sent)
    assert paid == ((billed, 1500, 0.5, plan.tokens) if billed else (0, 0, 0, plan.tokens))
    assert books.learned == ([("vendor/model", learned)] if learned else [])


def finished(usage: Usage, *items: Any) -> ResponseFinished:
    return ResponseFinished(items=items, usage=usage)


@pytest.mark.parametrize(("turns", "terms", "is_sent_again", "learned"), rows(TABLES, "refused"))
async def test_a_provider_that_counts_more_gets_less(
    turns: int, terms: dict[str, Any], *, is_sent_again: bool, learned: int | None
) -> None:
    """At most three quarters of what was refused, or of the window; the budget that is shown stays the model's."""
    books, chat = FakeServices(), long_chat(turns, terms.pop("words", 600))
    known = terms.pop("known", None)
    books.known = Calibration(ratio=known, bills=9) if known and known < 1 else Calibration()
    fitter, window = fitter_of(books.planner(), **terms), terms.get("window", 10_000)
    refused = await fit(fitter, chat)
    books.known = Calibration(ratio=known, bills=9) if known else Calibration()
    unsure = await fitter.refit_smaller(chat, refused, None)
    assert ((unsure is not None) == is_sent_again, books.learned) == (True, [])
    lower = await fitter.refit_smaller(chat, refused, ContextTooLong("no"))
    assert (lower is not None) == is_sent_again
    assert books.learned == ([("vendor/model", learned)] if learned else [])
    if lower is not None:
        least = min(refused.tokens, refused.limit_tokens, window or refused.tokens)
        assert lower.tokens <= 0.75 * least
        assert [*lower.items][-1] == [*refused.items][-1]
        smaller = int(window * least / refused.limit_tokens * 0.75) if window else None
        expected = await fit(fitter_of(books.planner(), **{**terms, "window": smaller}), chat)
        assert not window or (lower.budget, lower.limit_tokens) == (refused.budget, expected.limit_tokens)
    if window is None:
        assert (await fit(fitter, chat)).tokens == refused.tokens == refused.tokens_before


async def test_a_large_chat_is_planned_beside_the_event_loop() -> None:
    """One is large by its text, deep inside parts as well, or by its items; small ones are not worth a thread."""
    threads: list[set[int]] = []
    for turns, words, window in ((2, 600, 10_000), (40, 2000, 1_000_000)):
        books = Tokenizing()
        await fit(fitter_of(books.planner(), window=window), long_chat(turns, words))
        threads.append(books.threads)
    small, large = threads
    assert (small, threading.get_ident() in large, len(large) > 0) == ({threading.get_ident()}, False, True)
    chats: list[list[Item]] = [[user("x")], [user("x" * 200_001)], [user("x")] * 201]
    assert [is_large(items) for items in chats] == [False, True, True]
    assert [about(tokens) for tokens in (0, 7, 94, 312, 3_149, 22_511)] == [0, 7, 94, 310, 3_100, 23_000]


async def test_counts_are_cached_by_family() -> None:
    """Images cost differently in each; a tokenizer that came later counts anew."""
    services = FakeServices().planner()
    models = ("openai/a", "openai/b", "anthropic/a")
    counters = [await services.counter(model_id) for model_id in models]
    assert counters[0].counts is counters[1].counts
    assert counters[0].counts is not counters[2].counts
    later = replace(services, tokenizer=Tokenizing().encode)
    assert (await later.counter("openai/a")).counts is not counters[0].counts


class Tokenizing(FakeServices):
    """Has a tokenizer, and notes in which threads it counts."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = set[int]()

    async def encode(self) -> Any:
        return self._encode

    def _encode(self, text: str) -> list[int]:
        self.threads.add(threading.get_ident())
        return [0] * (len(text) // 4)


class Worker:
    """Fits one chat, call after call, with a fake provider that writes the summaries."""

    def __init__(self, *replies: Reply) -> None:
        self.provider = FakeProvider(*replies)
        self.books = FakeServices()
        self.services = self.books.planner()
        self.summaries = MemorySummaries()
        self.state = SummarizerState(lambda work: work.close(), time.monotonic)

    def new_fitter(self, *, window: int = 20_000, origin: RequestOrigin = ORIGIN) -> Fitter:
        """For the next call."""
        summarizer = Summarizer(
            self.summaries,
            when_needed(summary_writer(self.provider)),
            self.state,
            origin=origin,
            time_limit_seconds=LIMIT_SECONDS,
            record=partial(self.services.record, origin),
        )
        model = ModelTerms("vendor/model", window, prices=CachePrices(0.1, 1.25))
        return Fitter(
            self.services,
            FitTerms(ContextSettings(summary_ahead_ratio=1.0), model),
            origin,
            summarizer=summarizer,
        )


async def test_a_part_that_could_not_be_summarized_is_named() -> None:
    """Beside what the others have saved."""
    worker, screen = Worker(GOOD, "Sorry."), ShownNotices()
    await fit(worker.new_fitter(), long_chat(60), screen)
    saved, _, failed = screen.lines[1].partition("; ")
    assert saved.startswith("Summarized: ")
    assert failed.startswith(
        "one part could not be summarized: the model's answer did not have the expected form"
    )


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
    ("turns", "reply", "simulations", "next_simulations"), rows(TABLES, "simulated", {"GOOD": GOOD})
)
async def test_a_chat_is_simulated_once_and_once_more_without_its_summaries(
    turns: int, reply: Reply, simulations: int, next_simulations: int
) -> None:
    """Not at all where it plainly fits; the next call goes on from what the last one has decided."""
    worker, chat = Worker(reply), long_chat(turns)
    with simulated_requests() as found:
        await fit(worker.new_fitter(), chat)
        assert len(found) / (turns + 1) == simulations
        for _ in range(2):
            worker.state.pauses.record_failure(f"{ORIGIN.user_id} {ORIGIN.model}")
        found.clear()
        await fit(worker.new_fitter(), chat)
        assert len(found) / (turns + 1) == next_simulations


async def test_summaries_that_exist_are_shown_when_they_are_used_anew() -> None:
    """On the way back from a larger model; with the answers that follow, and regenerated ones, they are known."""
    worker, chat, screen = Worker(GOOD), long_chat(40), ShownNotices()
    await fit(worker.new_fitter(), chat, screen)
    saved = screen.lines[-1].split(" tokens")[0]
    for window in (20_000, 100_000, 20_000, 20_000):
        await fit(worker.new_fitter(window=window), chat, screen)
    assert len(screen.lines) == 3
    assert screen.lines[2] == f"{saved} tokens"
