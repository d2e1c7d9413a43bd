"""The whole pipe in process, against the stand-in for OpenRouter, with a page in front of it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.errors import ConfigurationError
from open_webui_openrouter_pipe.history.markers import erase_markers
from open_webui_openrouter_pipe.host.native import NOTICE
from open_webui_openrouter_pipe.host.switches import CHOSEN, SWITCHES
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Json, Page, PipeInProcess
from scripts.standin import StandIn
from scripts.standin.state import RecordedRequest
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SCRIPTED = "standin/script"
FAMILIES = ["openai/gpt-5.2", "anthropic/claude-sonnet-4.5", "google/gemini-3-pro", "deepseek/deepseek-v3.2"]
TOOLS = {"get_weather": lambda arguments: f"Weather in {arguments.get('city')}: 20 degrees"}
PARIS = '[[standin: call=get_weather args={"city": "Paris"}]]'


@pytest.fixture
async def pipe(standin: StandIn, tmp_path: Path) -> AsyncIterator[Pipe]:
    """A pipe on the stand-in, whose log begins with the first question."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        yield pipe


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the pipe's own module has logged."""
    return [record.getMessage() for record in caplog.records if record.name == Pipe.__module__]


def types_of(items: list[Json]) -> list[str]:
    return [item["type"] for item in items]


def assert_clean(standin: StandIn) -> None:
    """The stand-in accepted every request to the letter."""
    verdicts = [(request.status, request.warnings, request.error) for request in standin.responses]
    assert verdicts == [(200, [], "")] * len(verdicts)


@pytest.mark.parametrize("reads_slowly", [False, True])
async def test_every_delta_arrives_once_and_in_order(pipe: Pipe, *, reads_slowly: bool) -> None:
    """Two thousand make the text that the provider sent, live and stored alike; the engine waits for who pauses."""
    page, events = Page(pipe, SCRIPTED), 0
    async for _ in page.stream("[[standin: deltas=2000]] [[standin: unknown=both]]"):
        events += 1
        if reads_slowly and events % 5 == 0:
            await asyncio.sleep(0.02)
    _, answer = page.turns[-1]
    deltas = [e["delta"] for e in answer.events if e.get("type") == "response.output_text.delta"]
    assert "".join(deltas) == answer.text
    assert len(erase_markers(answer.text).split()) == 2000
    assert len(deltas) < 1000


class StoredPage(Page):
    """A page of a host that makes its user's valves of what is stored, unless it cannot read that."""

    stored: Json
    is_lost = False

    async def _call(self, body: Json, task: str | None = None) -> Any:
        valves = self._pipe.UserValves(**({} if self.is_lost else self.stored))
        settings = {"functions": {"valves": {"openrouter": self.stored}}}
        self.user = {"id": "ada", "valves": valves, "settings": settings}
        return await super()._call(body, task)


async def test_a_users_limits_follow_the_administrator(pipe: Pipe, standin: StandIn) -> None:
    """The host builds the form from the class on the instance; a status line says once what is not followed."""
    page = StoredPage(pipe, FAMILIES[0])
    page.stored = {"CLIP_LAST_MESSAGES": 1}
    seen = []
    for is_enabled in (False, False, True):
        update = {"CONTEXT_STRATEGY": "clip", "ENABLE_USER_OVERRIDE": is_enabled}
        pipe.valves = pipe.valves.model_copy(update=update)
        assert ("CLIP_LAST_MESSAGES" in pipe.UserValves.model_json_schema()["properties"]) is is_enabled
        notices = [line.rpartition(": ")[2] for line in (await page.ask("one")).notices]
        kinds = types_of(standin.responses[-1].body["input"])
        seen.append((notices, kinds.count("message")))
    assert seen == [(["CLIP_LAST_MESSAGES."], 1), ([], 3), (["1."], 1)]


HARDER, FASTER, SEARCHED = (
    {each.valve: each.value}
    for name in ("think_harder", "answer_fast", "web_search")
    for each in SWITCHES
    if each.name == name
)
REFUSED = "Without effect, since only administrators may set it: "


@pytest.mark.parametrize(
    ("own", "parameters", "switched", "reasoning", "searches"),
    [
        ({}, {}, HARDER, {"effort": "high"}, False),
        ({"REASONING_EFFORT": "low"}, {}, HARDER, {"effort": "high"}, False),
        ({}, {"reasoning_effort": "low"}, FASTER, {"effort": "none"}, False),
        (
            {},
            {"reasoning": {"max_tokens": 9, "summary": "detailed"}},
            HARDER,
            {"effort": "high", "summary": "detailed"},
            False,
        ),
        ({}, {"reasoning_effort": "low"}, SEARCHED, {"effort": "low"}, True),
        ({"WEB_SEARCH": "off"}, {}, {**HARDER, **SEARCHED}, {"effort": "high"}, True),
        ({}, {}, {"REASONING_EFFORT": "xhigh"}, {}, False),
        ({}, {}, "anything", {}, False),
    ],
)
async def test_a_switch_beside_the_message_field_goes_before_all_else(
    pipe: Pipe,
    standin: StandIn,
    own: Json,
    parameters: Json,
    switched: Any,
    reasoning: Json,
    *,
    searches: bool,
) -> None:
    """While it is on: before the user's valves and the parameters of the chat; no body holds its note."""
    page = StoredPage(pipe, FAMILIES[0])
    page.stored = own
    for on in (True, False):
        page.parameters = {**parameters, **({CHOSEN: switched} if on else {})}
        await page.ask("Hello")
    first, second = (request.body for request in standin.responses)
    assert first["reasoning"] == {"summary": "auto", **reasoning}
    assert any("web_search" in tool["type"] for tool in first.get("tools", ())) is searches
    assert second["reasoning"]["summary"] == parameters.get("reasoning", {}).get("summary", "auto")
    assert (CHOSEN in first, "tools" in second) == (False, False)


async def test_a_switch_does_nothing_that_users_may_not_set(pipe: Pipe, standin: StandIn) -> None:
    """A line says once which; the others hold."""
    page = Page(pipe, FAMILIES[0])
    seen = []
    for allowed in ("none", "WEB_SEARCH"):
        pipe.valves = pipe.valves.model_copy(update={"USER_CONTROLS": allowed})
        page.parameters = {CHOSEN: {**HARDER, **SEARCHED}}
        notices = (await page.ask("Hello")).notices
        seen.append(
            ([line for line in notices if line.startswith(REFUSED)], "tools" in standin.responses[-1].body)
        )
        assert "effort" not in standin.responses[-1].body["reasoning"]
    assert seen == [([f"{REFUSED}Think harder, Web search."], False), ([f"{REFUSED}Think harder."], True)]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_valves_that_cannot_be_read_are_not_lost(
    pipe: Pipe, standin: StandIn, caplog: pytest.LogCaptureFixture, *, is_lost: bool
) -> None:
    """One that no longer fits leaves the others; where zero data retention itself is lost, it is on."""
    page = StoredPage(pipe, FAMILIES[1])
    page.is_lost, page.stored = is_lost, {"ZDR": True, "REASONING_EFFORT": "huge"}
    (line,) = (await page.ask("one")).notices
    assert ("REASONING_EFFORT" in line, standin.responses[-1].body["provider"]) == (True, {"zdr": True})
    page.stored = {"ZDR": "perhaps"}
    (line,) = (await page.ask("two")).notices
    assert ("`ZDR`: it cannot be read." in line, standin.responses[-1].body["provider"]) == (
        True,
        {"zdr": True},
    )
    assert logged(caplog) == [
        f"a user's valves cannot be read: {name}" for name in ("REASONING_EFFORT", "ZDR")
    ]


async def test_an_administrator_s_valves_that_cannot_be_read_are_logged_once(
    pipe: Pipe, caplog: pytest.LogCaptureFixture
) -> None:
    """By name and without values, as long as they are the same, though the host makes them anew for each call."""
    stored = pipe.valves.model_dump(exclude_unset=True)
    for strategy in ("shrink", "shrivel", "prune"):
        pipe.valves = pipe.Valves(**stored, CONTEXT_STRATEGY=strategy)
        await pipe.pipes()
    lines = [
        f"valves cannot be read, and have no effect: {each}" for each in ("CONTEXT_STRATEGY", "none any more")
    ]
    assert logged(caplog) == lines
    assert "shri" not in caplog.text


@pytest.mark.parametrize("is_back", [False, True])
async def test_no_limit_is_lost_with_the_database(tmp_path: Path, standin: StandIn, *, is_back: bool) -> None:
    """Where the host cannot read the valves it has none: they are read again, or nothing is sent."""
    driver = PipeInProcess(tmp_path, base_url=standin.base_url)
    async with driver as pipe:
        stored = {**pipe.valves.model_dump(exclude_unset=True), "SPENDING_LIMITS": "user: 0/day"}
        host, asked = driver.app.worker.host, list[str]()

        async def stored_valves(function_id: str) -> Json | None:
            asked.append(function_id)
            return stored if is_back else None

        driver.app.worker.host = replace(host, stored_valves=stored_valves)
        pipe.valves = Pipe.Valves()
        said: Any = await Page(pipe, SCRIPTED).complete("one")
        error = said["error"]["detail"] if is_back else str(said.body)
        assert ("Your spending limit" if is_back else "Nothing was sent") in error
        assert (asked, standin.responses) == (["openrouter"], [])
        pipe.valves = Pipe.Valves(**{**stored, "SPENDING_LIMITS": ""})
        assert (await Page(pipe, SCRIPTED).ask("one")).error is None
        assert asked == ["openrouter"]


async def test_a_task_gets_a_plain_completion(pipe: Pipe, standin: StandIn) -> None:
    """Its prompt shows the model no marker, and its answer holds none."""
    messages = [{"role": "user", "content": f"Name this chat: [{'0' * 19}A]: #\n\nHello"}]
    body = {"model": f"openrouter.{FAMILIES[0]}", "messages": messages, "stream": False}
    user, metadata = {"id": "user"}, {"chat_id": "chat"}
    completion: Any = await pipe.pipe(body, __user__=user, __metadata__=metadata, __task__="title_generation")
    assert "]: #" not in json.dumps(standin.responses[-1].body)
    assert completion["choices"][0]["message"]["content"].startswith("You said: Name this chat:")
    assert "output" not in completion


STATUSES = (400, 401, 402, 403, 404, 413, 500, 502, 524)
ERRORS = [f"error={status} family={family}" for status in STATUSES for family in "AB"]


@pytest.mark.parametrize("directive", [*ERRORS, "error=500 family=C", "error=502 family=html", "error=529"])
async def test_every_refusal_is_one_clear_line(pipe: Pipe, standin: StandIn, directive: str) -> None:
    """No secret, no markup, no empty answer; the page gets nothing but the line, as the answer's text."""
    pipe.valves = pipe.Valves(**pipe.valves.model_dump(exclude_unset=True), RETRY_SECONDS=0.0)
    standin.script(directive, times=3)
    answer = await Page(pipe, SCRIPTED).ask("one")
    assert [event["type"] for event in answer.events] == ["response.output_item.added"]
    assert not re.search(r"^$|sk-or|[\n<>{}]|Traceback", answer.error or "")


@pytest.mark.parametrize(
    ("after", "state"),
    [
        (5, [("reasoning", "incomplete")]),
        (15, [("reasoning", "completed"), ("message", "incomplete")]),
        (18, [("reasoning", "completed"), ("message", "completed")]),
    ],
    ids=["thinking", "writing", "calling"],
)
@pytest.mark.parametrize("model", FAMILIES)
async def test_a_chat_goes_on_after_any_break(
    pipe: Pipe, standin: StandIn, model: str, after: int, state: list[tuple[str, str]]
) -> None:
    """Wherever thinking, text or calls broke off, the next request is valid."""
    page = Page(pipe, model, tools=TOOLS)
    standin.script(f'[[standin: say="Let me look."]] {PARIS} [[standin: fail=eof after={after}]]')
    broken = await page.ask("one")
    answer = await page.ask("and now?")
    assert (bool(broken.error), answer.error) == (True, None)
    assert [(item["type"], item["status"]) for item in broken.output] == [*state, (NOTICE, "completed")]
    assert_clean(standin)


def _input_text(request: RecordedRequest) -> str:
    """The input without its closing bracket and without cache breakpoints, which no model reads."""
    return json.dumps(request.body["input"])[:-1].replace(
        ', "prompt_cache_breakpoint": {"mode": "explicit"}', ""
    )


@pytest.mark.parametrize("model", FAMILIES)
async def test_each_request_begins_with_the_bytes_of_the_one_before(
    pipe: Pipe, standin: StandIn, model: str
) -> None:
    """Six turns with thinking and tools: all accepted, and each input a prefix of the next."""
    looks = f'[[standin: say="Let me look."]] {PARIS} [[standin: rounds=2]]'
    texts = ["word " * 2_000, f"{PARIS} two", "three", looks, f"{PARIS} {PARIS}", "six"]
    page = Page(pipe, model, tools=TOOLS)
    assert [(await page.ask(text)).error for text in texts] == [None] * 6
    assert_clean(standin)
    inputs = list(map(_input_text, standin.responses))
    assert all(later.startswith(earlier) for earlier, later in pairwise(inputs))
    given = [item for request in standin.responses[:-1] for item in request.output]
    sent = standin.responses[-1].body["input"]
    kept = [[json.dumps(item) for item in items if item["type"] == "reasoning"] for items in (sent, given)]
    assert kept[0] == kept[1]


TAGGED = {"params": {"function_calling": "legacy"}, "features": {"code_interpreter": True}}
"""Of a chat in which the host runs code between tags."""
BROKEN, UNANSWERED = "[[standin: slow=30]]", "[[standin: delay=0 first=30]] one"


async def _stop_while_awaiting(events: AsyncIterator[Json], standin: StandIn) -> None:
    """Stop while the pipe waits for the provider: the host cancels the task that iterates."""

    async def exhaust() -> None:
        async for _ in events:
            pass

    answered = len(standin.responses)
    task = asyncio.create_task(exhaust())
    await eventually(lambda: len(standin.responses) > answered)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("metadata", [{}, TAGGED])
@pytest.mark.parametrize("is_shown", [True, False])
async def test_who_stops_an_answer_is_handed_its_price(
    pipe: Pipe, standin: StandIn, metadata: Json, *, is_shown: bool
) -> None:
    """By our own count: for the button in any case, and above the answer where costs stand there."""
    pipe.valves = pipe.valves.model_copy(update={"COST_LINE": "cost" if is_shown else "off"})
    page = Page(pipe, SCRIPTED)
    page.metadata = metadata
    await _stop_while_awaiting(page.stream(UNANSWERED), standin)
    _, answer = page.turns[-1]
    usage = answer.events[-1]["response"]["usage"]
    assert usage["price"].startswith("~$0.0")
    assert usage["input_tokens"] > 0
    stopped, *costs = answer.notices
    assert stopped == "Stopped."
    assert [line.startswith("stopped; about $0.0") for line in costs] == [True] * is_shown


async def _close_while_yielding(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """Stop while the pipe is suspended at `yield`: another task closes the generator."""
    _ = [await anext(events) for _ in range(3)]
    await asyncio.create_task(cast("Any", events).aclose())


async def _drop(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """The host forgets the generator; the event loop's hook closes it."""
    _ = [await anext(events) for _ in range(3)]
    del events


async def _leave_in_a_cancelled_scope(events: AsyncIterator[Json], _standin: StandIn) -> None:
    """A client of the bare API goes away: each await in a `finally` is cancelled anew."""
    with anyio.CancelScope() as scope:
        async for _ in events:
            scope.cancel()


@pytest.mark.parametrize(
    ("leave", "plot"),
    [
        (_stop_while_awaiting, BROKEN),
        (_close_while_yielding, BROKEN),
        (_drop, BROKEN),
        (_leave_in_a_cancelled_scope, BROKEN),
        (_stop_while_awaiting, UNANSWERED),
    ],
)
async def test_leaving_the_stream_cancels_the_work(
    pipe: Pipe, standin: StandIn, leave: Any, plot: str
) -> None:
    """The stream to the provider is closed, no task is left behind, and the chat goes on; also where nothing came."""
    await Page(pipe, SCRIPTED, chat_id="another").ask("warm up")
    before = asyncio.all_tasks()
    page = Page(pipe, SCRIPTED)
    await leave(page.stream(plot), standin)
    await eventually(lambda: all(task.done() for task in asyncio.all_tasks() - before))
    await eventually(lambda: standin.responses[-1].disconnected)
    # Where nothing came, the plot stands beside the next question.
    answer = await page.ask("[[standin: delay=0 first=0]] go on")
    assert (answer.error, standin.responses[-1].status) == (None, 200)


@pytest.mark.parametrize(("shown", "said"), [("all", ["Stopped."]), ("none", [])])
async def test_an_answer_that_was_stopped_before_its_first_word_says_so(
    pipe: Pipe, standin: StandIn, shown: str, said: list[str]
) -> None:
    """The page would show nothing at all; who has switched lines off has none."""
    page = Page(pipe, SCRIPTED, valves=UserValves(STATUS_LINES=shown))
    await _stop_while_awaiting(page.stream(UNANSWERED), standin)
    assert page.turns[-1][1].notices == said


async def test_an_answer_that_was_stopped_later_needs_no_line(pipe: Pipe) -> None:
    """Its reader sees where it ends."""
    page = Page(pipe, SCRIPTED)
    is_begun = asyncio.Event()

    async def read() -> None:
        async for event in page.stream(BROKEN):
            if event.get("type") == "response.output_text.delta":
                is_begun.set()

    task = asyncio.create_task(read())
    await is_begun.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert page.turns[-1][1].notices == []


@pytest.mark.parametrize(
    ("plot", "types"),
    [
        ("[[standin: refusal=No.]]", []),
        ("[[standin: search=x]] [[standin: cite=https://a.example]]", ["web_search_call"]),
        ("[[standin: reasoning=summary items=2]]", ["reasoning", "reasoning"]),
        ("[[standin: reasoning=encrypted]] [[standin: unknown=event]]", ["reasoning"]),
        ("[[standin: late]] [[standin: call=get_weather]]", ["function_call"]),
        ("[[standin: incomplete=max_output_tokens]] [[standin: text=abcd]]", []),
        ('[[standin: image="a cat"]]', []),
    ],
)
async def test_every_kind_of_answer_is_stored_clean_and_goes_on(
    pipe: Pipe, standin: StandIn, plot: str, types: list[str]
) -> None:
    """What the page keeps has no null and nothing sealed, and the next turn is accepted."""
    page = Page(pipe, SCRIPTED, tools=TOOLS)
    answer = await page.ask(plot)
    stored = json.dumps(answer.output)
    kinds = [kind for kind in types_of(answer.output) if kind != NOTICE]
    assert (answer.error, kinds[-1]) == (None, "message")
    assert [kind for kind in kinds if kind not in {"message", "function_call_output"}] == types
    assert not re.search(r"null|encrypted_content|signature", stored)
    assert (await page.ask("and now?")).error is None
    assert_clean(standin)


async def test_reasoning_before_what_nobody_takes_back_is_not_sent(pipe: Pipe, standin: StandIn) -> None:
    """It would be refused without the item that it led to; the chat goes on without both."""
    page = Page(pipe, SCRIPTED)
    texts = ["[[standin: reasoning=encrypted]] [[standin: unknown=item]]", "two", "three"]
    answers = [await page.ask(text) for text in texts]
    assert [(answer.error, bool(answer.text)) for answer in answers] == [(None, True)] * 3
    assert [len(answer.notices) for answer in answers] == [0, 0, 0]
    assert [request.status for request in standin.responses] == [200, 200, 200]


async def test_an_app_that_cannot_be_built_is_one_clear_line() -> None:
    """Whatever breaks outside the engine is reported like any other error, streamed or not."""

    def build() -> App:
        raise ConfigurationError("Nothing to stand on.")

    pipe = Pipe(build)
    pipe.valves = Pipe.Valves(API_KEY="sk-or-x")
    page = Page(pipe, SCRIPTED)
    answer = await page.ask("one")
    completion = await page.complete("one")
    assert (answer.error, len(answer.events)) == ("Nothing to stand on.", 1)
    assert completion == {"error": {"detail": "Nothing to stand on."}}


@pytest.mark.parametrize("trouble", ["", "error=400", "fail=failed after=3", "fail=eof after=3"])
async def test_the_log_holds_neither_words_of_the_chat_nor_the_key(
    pipe: Pipe, standin: StandIn, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    """Not even at the finest level, whatever happens."""
    if trouble:
        standin.script(trouble, times=3)
    with caplog.at_level(logging.DEBUG, logger="open_webui_openrouter_pipe"):
        await Page(pipe, FAMILIES[0]).ask("heronsong")
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("open_webui_openrouter_pipe")]
    assert ours
    assert not re.search(r"heronsong|sk-or|the last one matters", "\n".join(ours))
