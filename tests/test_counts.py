"""Work grows with the number of things and not with its square, on every way through the package.

Instructions of the package are counted, and no clock is read. What C does at once (a list that is copied, a text that
is searched) is not among them: the thorough test compares processor time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from open_webui_openrouter_pipe.context.page import context_page
from open_webui_openrouter_pipe.context.report import ChatRecord, context_text, report_context
from open_webui_openrouter_pipe.conversation.budget import ContextSettings
from open_webui_openrouter_pipe.conversation.conversation import ContentCache
from open_webui_openrouter_pipe.conversation.tokens import TokenCounter
from open_webui_openrouter_pipe.errors import ContextBudgetExceeded
from open_webui_openrouter_pipe.history.build import Options, build_input, present_prompt
from open_webui_openrouter_pipe.history.reading import answers_without_items, read_history
from open_webui_openrouter_pipe.host.chunks import ChunkWriter
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.maintenance.removal import marker_ids, without_markers
from open_webui_openrouter_pipe.media.choice import MediaSettings, choose, find_attachments
from open_webui_openrouter_pipe.money.prefix import digests_of
from open_webui_openrouter_pipe.openrouter.catalog import read_models, with_gone
from open_webui_openrouter_pipe.openrouter.offer import OfferSettings, offered_models
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.openrouter.wire import encode_body
from open_webui_openrouter_pipe.planning.planner import (
    AvailableSummaries,
    ModelTerms,
    PlanCaches,
    may_be_shortened,
    plan,
)
from open_webui_openrouter_pipe.planning.simulate import CachePrices
from open_webui_openrouter_pipe.responses.reducer import Reducer
from open_webui_openrouter_pipe.store.artifacts import RunningRows, SealedArtifacts, UnsavedRows
from open_webui_openrouter_pipe.turn.memory import SeenOnce
from open_webui_openrouter_pipe.turn.remedies import in_words
from tests.store.contract import KEYRING, artifact, row
from tests.support.chats import summary_of
from tests.support.profiling import counted
from tests.support.shapes import ARTIFACTS, MARKED, MODEL, SHAPES, joined, message, ulid, user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.support.shapes import Shape

STEP = 4
"""By what the larger number is larger: work grows by 4 when linear and by 16 when quadratic."""
MAX_GROWTH = 5.0
SMALLEST = 30
"""Things; four times as many are enough for a square to show beside what each of them costs."""
LEAST_INSTRUCTIONS = 30_000
"""Where less is done, nothing follows."""
MANY = 1_000
"""Things of which processor time is measured, and what is not worth looking at."""
LEAST_SECONDS = 0.05
ATTEMPTS = 3

WHOLE = ContextSettings(recall_tool=True)
ROOMY = (WHOLE, ModelTerms(MODEL, 10**9, prices=CachePrices(0.1, 1.25)))
SMALL = replace(ROOMY[1], window_tokens=2_000)
CROWDED: Mapping[str, tuple[ContextSettings, ModelTerms]] = {
    "summarized": (WHOLE, SMALL),
    "thrifty": (replace(WHOLE, context_aim="thrifty"), SMALL),
    "recalled": (replace(WHOLE, recall=True), SMALL),
    "clipped": (replace(WHOLE, context_strategy="clip"), SMALL),
}
"""Where a request is shortened; for what is counted, see `planning/test_growing_chats.py`."""


class Stages:
    """What each stage of a way takes: instructions, or seconds of processor time."""

    def __init__(self, *, in_seconds: bool = False) -> None:
        self.taken: dict[str, float] = {}
        self._in_seconds = in_seconds

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add what runs meanwhile to the stage."""
        if self._in_seconds:
            gc.disable()  # a collection looks at all that there is, whoever causes it
            begin = time.thread_time()
            try:
                yield
            finally:
                self.taken[name] = self.taken.get(name, 0.0) + time.thread_time() - begin
                gc.enable()
            return
        work: list[int] = []
        with counted(work):
            yield
        self.taken[name] = self.taken.get(name, 0.0) + work[-1]


# --- the ways


def request(
    messages: Sequence[Any],
    stored: Callable[[Sequence[str]], Mapping[str, Any]],
    terms: tuple[ContextSettings, ModelTerms],
    stage: Stages,
) -> None:
    """From the host's messages to the bytes that are sent, and to what `/context` shows."""
    settings, model = terms
    with stage("read"):
        folded = answers_without_items(messages)
        history = read_history(messages, prompt="Why?", without_items=folded)
        present_prompt(history, "")
    artifacts = stored(history.wanted)
    with stage("build"):
        options = Options(MODEL, base_system_prompt="", base_user_prompt="Why?")
        built = build_input(history, artifacts, options)
    with stage("choose attachments"):
        attachments = find_attachments(built.items, built.turns)
        choose(attachments, built.turns[-1], MediaSettings(), None, {each.source: 1 for each in attachments})
    with stage("name"):
        conversation = built.conversation()
    counter, caches = TokenCounter(ContentCache()), PlanCaches()
    terms_of_plan: dict[str, Any] = {"model": model, "counter": counter, "caches": caches}
    with stage("may need summaries"):
        may_be_shortened(conversation, settings, **terms_of_plan)
    try:
        with stage("plan"):
            sent = plan(conversation, settings, **terms_of_plan, summaries=AvailableSummaries({}, "skip"))
    except ContextBudgetExceeded:
        return
    composer = Composer({}, model=None, model_id="anthropic/claude-sonnet-4.5")
    with stage("compose"):
        body = composer.build(sent.items, sent.marks).body
    with stage("say in words"):
        in_words(sent.items, sent.marks.current)
    with stage("encode"):
        asyncio.run(encode_body(body))
    with stage("digest"):
        digests_of(body, sent, [0.0] * (len(sent.items) + 1), answer="1")
    with stage("report"):
        report = report_context(sent, ChatRecord(), model="A model", settings=settings)
        context_page(report)
        context_text(report)


def stream(events: Sequence[Mapping[str, Any]], stage: Stages) -> None:
    """From the provider's events to the host's, and to a bare caller's."""
    reducer, head = Reducer(), {"id": "1", "object": "", "created": 1, "model": MODEL}
    with stage("reduce"):
        effects = [*joined(map(reducer.feed, events)), *reducer.close()]
    native, chunks = NativeWriter(new_id=str, clock=float), ChunkWriter(head, include_usage=True)
    for name, writer in (("render", native), ("write chunks", chunks)):
        with stage(name):
            for effect in effects:
                writer.render(effect)


def tools(given: list[Any], stage: Stages) -> None:
    """From the host's tools to those that are sent."""
    with stage("compose"):
        composer = Composer({"tools": given}, model=None, model_id=MODEL)
        composer.build([], omitted_tools={"tool_1"})
    with stage("count"):
        TokenCounter(ContentCache()).tools(composer.tools)


def catalogue(listed: list[Any], stage: Stages) -> None:
    """From the provider's list of models to the host's."""
    with stage("read"):
        models = read_models(with_gone({"data": listed}, {"data": listed[: len(listed) // 2]})) or {}
    with stage("offer"):
        offered_models(models.values(), OfferSettings(), zdr_ids=None)


def artifacts(count: int, stage: Stages) -> None:
    """Into the store, and back."""

    async def keep_and_load() -> None:
        store = SealedArtifacts(UnsavedRows(), KEYRING)
        kept = [artifact(number) for number in range(count)]
        await store.put(kept)
        await store.load(kept[0].user_id, [each.id for each in kept])
        await store.delete(kept[0].user_id, [each.id for each in kept])

    with stage("keep"):
        asyncio.run(keep_and_load())


def memory(count: int, stage: Stages) -> None:
    """So many users, each with a chat, in one worker."""

    async def keep() -> None:
        running, seen = RunningRows(), SeenOnce()
        for number in range(count):
            of_user = row(number, user_id=f"user {number}", chat_id=f"chat {number}")
            await running.put([of_user])
            await running.load(of_user.user_id, [of_user.id])
            seen.add(of_user.user_id, [of_user.chat_id])

    with stage("keep"):
        asyncio.run(keep())


def summaries(count: int, stage: Stages) -> None:
    """A chat that needs so many summaries, with all of them, and with none of the last ones."""
    messages = joined(
        [user("Why? " * 300), {"role": "assistant", "content": "So. " * 700}] for _ in range(count)
    )
    conversation = build_input(read_history([*messages, user("Why?")]), {}, Options(MODEL)).conversation()
    counter, caches, known = TokenCounter(ContentCache()), PlanCaches(), dict[Any, Any]()
    fit = partial(plan, conversation, WHOLE, model=replace(SMALL, window_tokens=8_000), counter=counter)
    for _ in range(3):
        wanted = fit(caches=caches, summaries=AvailableSummaries(known, "request")).required_summaries
        known |= {target.segment: summary_of(target) for target in wanted}
    assert known
    with stage("plan"):
        fit(caches=PlanCaches(), summaries=AvailableSummaries(known, "request"))


def cleaning(count: int, stage: Stages) -> None:
    """A stored answer with so many markers, items and references."""
    said = "".join(f"t{number}\n[{ulid(number)}]: #\n" for number in range(count))
    references = [{"type": "openrouter_pipe.artifact", "id": ulid(number)} for number in range(count)]
    thought = {"type": "reasoning", "reasoning_details": references}
    stored = {"role": "assistant", "content": said, "output": [thought, *map(message, range(count))]}
    with stage("clean"):
        without_markers(stored, {*marker_ids(stored)}, is_our_answer=True)


# --- what goes these ways


def added(index: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {"id": f"i{index}", "status": "in_progress", **fields},
    }


def done(index: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "response.output_item.done",
        "output_index": index,
        "item": {"id": f"i{index}", "status": "completed", **fields},
    }


def delta(
    index: int = 0, part: int = 0, kind: str = "output_text", key: str = "content_index"
) -> dict[str, Any]:
    named = {"output_index": index, "item_id": f"i{index}", key: part}
    return {"type": f"response.{kind}.delta", "delta": "word ", **named}


def ended(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": [*items]}}


def said(parts: Sequence[Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [*parts]}


def spoken(text: str, notes: Sequence[Any] = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [*notes]}


def cited(number: int) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url": f"https://example.org/{number}",
        "title": "",
        "start_index": 0,
        "end_index": 1,
    }


def called(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"}


def thought(number: int) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": f"t{number}"}]}


def annotation(number: int) -> dict[str, Any]:
    event = "response.output_text.annotation.added"
    return {
        "type": event,
        "output_index": 0,
        "item_id": "i0",
        "content_index": 0,
        "annotation": cited(number),
    }


def opened_and_ended(make: Callable[[int], dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Items that begin and end one after the other, and all of them at the end."""
    events = joined([added(at, **make(at)), done(at, **make(at))] for at in range(count))
    return [*events, ended(*({"id": f"i{at}", **make(at)} for at in range(count)))]


STREAMS: Mapping[str, Callable[[int], list[dict[str, Any]]]] = {
    "deltas": lambda n: [
        added(0, **said([])),
        *(delta() for _ in range(n)),
        ended(said([spoken("word " * n)])),
    ],
    "deltas of arguments": lambda n: [
        added(0, **called(0)),
        *(delta(kind="function_call_arguments") for _ in range(n)),
        ended(),
    ],
    "texts": lambda n: [
        added(0, **said([])),
        *(delta(part=at) for at in range(n)),
        ended(said([spoken("word ")] * n)),
    ],
    "parts of reasoning": lambda n: [
        added(0, type="reasoning", summary=[]),
        *(delta(0, at, "reasoning_summary_text", "summary_index") for at in range(n)),
        ended(),
    ],
    "messages": lambda n: opened_and_ended(lambda at: said([spoken(f"t{at}")]), n),
    "calls": lambda n: opened_and_ended(called, n),
    "reasoning": lambda n: opened_and_ended(thought, n),
    "calls at the end alone": lambda n: [ended(*map(called, range(n)))],
    "calls under other ids at the end": lambda n: [
        *joined([added(at, **called(at)), done(at, **called(at))] for at in range(n)),
        ended(*({"id": f"other{at}", **called(at)} for at in range(n))),
    ],
    "messages under other ids at the end": lambda n: [
        *joined([added(at, **said([])), delta(at)] for at in range(n)),
        ended(*({"id": f"other{at}", **said([spoken("word ")])} for at in range(n))),
    ],
    "annotations": lambda n: [
        added(0, **said([])),
        delta(),
        *map(annotation, range(n)),
        ended(said([spoken("word ", [*map(cited, range(n))])])),
    ],
}


def tool(number: int, properties: int = 1) -> dict[str, Any]:
    named = {f"p{at}": {"type": "string"} for at in range(properties)}
    parameters = {"type": "object", "properties": named, "required": [*named]}
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": parameters}}


def model_row(number: int) -> dict[str, Any]:
    return {
        "id": f"maker/model-{number}",
        "canonical_slug": f"maker/model-{number}-2026",
        "name": f"Model {number}",
        "context_length": 1_000,
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "pricing": {"prompt": "0.1", "completion": "0.2"},
    }


Way: TypeAlias = "Callable[[int, Stages], None]"


def _send(
    make: Shape, stored: Any, count: int, stage: Stages, terms: tuple[ContextSettings, ModelTerms] = ROOMY
) -> None:
    request(make(count), stored, terms, stage)


def _receive(make: Callable[[int], list[dict[str, Any]]], count: int, stage: Stages) -> None:
    stream(make(count), stage)


def _ways() -> Iterator[tuple[str, Way]]:
    """Yield each thing on each of its ways, by a name."""
    for name, make in SHAPES.items():
        for kind in ARTIFACTS if name in MARKED else ("missing",):
            yield f"{name}, {kind}" if name in MARKED else name, partial(_send, make, ARTIFACTS[kind])
    for name, make in STREAMS.items():
        yield f"stream of {name}", partial(_receive, make)
    yield "tools", lambda count, stage: tools([*map(tool, range(count))], stage)
    yield "properties of a tool", lambda count, stage: tools([tool(1, count)], stage)
    yield "models", lambda count, stage: catalogue([*map(model_row, range(count))], stage)
    yield "artifacts", artifacts
    yield "users", memory
    yield "summaries", summaries
    yield "markers of a stored answer", cleaning


WAYS: Mapping[str, Way] = dict(_ways())


def too_fast(way: Way) -> dict[str, tuple[float, float]]:
    """The stages whose work grows too fast, with both of its sizes."""
    fewer, more = Stages(), Stages()
    way(SMALLEST, fewer)
    way(SMALLEST * STEP, more)
    return {
        name: (fewer.taken.get(name, 0.0), work)
        for name, work in more.taken.items()
        if work > max(LEAST_INSTRUCTIONS, MAX_GROWTH * fewer.taken.get(name, work))
    }


@pytest.mark.parametrize("name", WAYS)
def test_work_grows_with_the_number(name: str) -> None:
    """Four times as many things cost at most five times as many instructions, at each stage."""
    assert too_fast(WAYS[name]) == {}


CROWDED_WAYS: Mapping[str, Way] = {
    f"{name}, {how}": partial(_send, SHAPES[name], ARTIFACTS["missing"], terms=terms)
    for name in ("users in a row", "turns", "commands", "rounds", "calls", "pictures in a row")
    for how, terms in CROWDED.items()
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*WAYS, *CROWDED_WAYS])
def test_processor_time_grows_with_the_number(name: str) -> None:
    """Also what C does at once; the least of several attempts, which a busy machine does not change."""
    grown: dict[str, tuple[float, float]] = {}
    for _ in range(ATTEMPTS):
        fewer, more = Stages(in_seconds=True), Stages(in_seconds=True)
        way = {**WAYS, **CROWDED_WAYS}[name]
        way(MANY, fewer)
        way(MANY * STEP, more)
        for each, seconds in more.taken.items():
            before = grown.get(each, (float("inf"), float("inf")))
            grown[each] = min(before[0], fewer.taken.get(each, float("inf"))), min(before[1], seconds)
    slow = {each: (few, many) for each, (few, many) in grown.items() if many > LEAST_SECONDS}
    assert {each: pair for each, pair in slow.items() if pair[1] > 2 * MAX_GROWTH * pair[0]} == {}


def test_the_law_finds_a_search_for_each() -> None:
    """What looks through all others once for each is found."""

    def look_through_all(count: int, stage: Stages) -> None:
        history = read_history(SHAPES["calls"](count))
        with stage("search"):
            for _ in history.turns[0]:
                read_history(SHAPES["users in a row"](count))

    assert too_fast(look_through_all)
