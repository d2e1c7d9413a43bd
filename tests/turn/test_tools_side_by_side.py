"""The host's tools, run by it or here side by side, through the whole pipe before the stand-in and its strict rules."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from open_webui_openrouter_pipe.host.native import INTERRUPTED
from open_webui_openrouter_pipe.host.switches import CHOSEN
from open_webui_openrouter_pipe.ports import Output, RequestOrigin, ToolAnswered
from open_webui_openrouter_pipe.turn.bill import answer_key
from open_webui_openrouter_pipe.turn.own_tools import (
    MAX_CALLS,
    MAX_TOOL_ROUNDS,
    TIMED_OUT,
    TOOL_FAILED,
    ToolRuns,
)
from open_webui_openrouter_pipe.words.lines import notice
from scripts.harness.page import PipeInProcess
from tests.support.files import PICTURES
from tests.support.host_tools import FakeMiddleware, ToolPage
from tests.support.waiting import eventually
from tests.turn.pipe import Router, call, message, open_pipe, stream
from tests.turn.test_calls import call as function_call
from tests.turn.test_own_tools import CAPPED, FIRST_TURN, ROWS, recall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from open_webui_openrouter_pipe.responses.items import FunctionCall
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

MODEL = "openai/gpt-5.2"
PNG = f"data:image/png;base64,{base64.b64encode(PICTURES['image/png']).decode()}"
MODES = ["host", "pipe"]


async def look(city: str = "") -> str:
    return f"It rains in {city}."


async def fail(city: str = "") -> str:
    raise ValueError(city)


async def draw(city: str = "") -> str:
    return PNG


async def count(city: str = "") -> Json:
    return {"city": city, "people": 3}


async def embed(city: str = "") -> str:
    return f"<html>{city}"


async def fetch_url(url: str) -> str:
    return f"The page {url} is empty."


async def hang(city: str = "") -> str:
    await asyncio.sleep(3)
    return "Too late."


def called(*names: str, **arguments: Any) -> str:
    """What makes the stand-in call tools."""
    given = json.dumps(arguments or {"city": "Paris"}, separators=(",", ":"))
    return " ".join(f"[[standin: call={name} args={given}]]" for name in names)


@asynccontextmanager
async def opened(
    folder: Path, standin: StandIn, mode: str, tools: Json, **valves: Any
) -> AsyncIterator[ToolPage]:
    host = PipeInProcess(folder, base_url=standin.base_url, TOOL_EXECUTION=mode, **valves)
    host.middleware = FakeMiddleware()
    async with host as pipe:
        yield ToolPage(pipe, MODEL, tools)


def bodies(standin: StandIn) -> list[Json]:
    return [each.body for each in standin.responses]


def outputs(items: list[Json]) -> list[Json]:
    return [item for item in items if item["type"] == "function_call_output"]


def without_ids(items: Any) -> Any:
    """As text, without what differs from call to call."""
    names = {"id", "call_id", "encrypted_content", "reasoning_details", "duration"}
    if isinstance(items, dict):
        if "arguments" in items:  # the host writes them anew
            items = {**items, "arguments": json.loads(items["arguments"])}
        return {name: without_ids(value) for name, value in items.items() if name not in names}
    return [without_ids(each) for each in items] if isinstance(items, list) else items


# --- both modes ---

KINDS: dict[str, tuple[Json, str]] = {
    "text": ({"look": look}, called("look")),
    "object": ({"count": count}, called("count")),
    "picture": ({"draw": draw}, called("draw")),
    "page": ({"embed": embed}, called("embed")),
    "sources": ({"fetch_url": {"callable": fetch_url, "spec": {"name": "fetch_url"}}}, "FETCH"),
    "failure": ({"fail": fail}, called("fail")),
    "three at once": ({"look": look, "draw": draw, "fail": fail}, called("look", "draw", "fail")),
    "thought before": ({"look": look}, f"[[standin: reasoning=encrypted]] {called('look', 'look')}"),
    "two rounds": ({"look": look}, f"[[standin: rounds=2]] {called('look')}"),
}


@pytest.mark.parametrize(("kind", "keeps"), [*((kind, True) for kind in KINDS), ("three at once", False)])
async def test_a_chat_is_the_same_whoever_runs_its_tools(
    tmp_path: Path, standin: StandIn, kind: str, *, keeps: bool
) -> None:
    """Items, sources and requests; each request begins with the bytes of the one before, in the next turn as well."""
    tools, text = KINDS[kind]
    if text == "FETCH":
        text = called("fetch_url", url="https://a.example")
        properties = {"properties": {"url": {"type": "string"}}}
        tools["fetch_url"]["spec"]["parameters"] = properties
    seen = []
    for mode in MODES:
        standin.reset()
        (folder := tmp_path / mode).mkdir()
        async with opened(folder, standin, mode, dict(tools), PERSIST_TOOL_RESULTS=keeps) as page:
            answers = [await page.ask(f"{text} What?"), await page.ask("And then?")]
        assert [each.error for each in answers] == [None, None]
        assert bool(page.run_by_host) == (mode == "host")
        sent = bodies(standin)
        for earlier, later in pairwise(json.dumps(each["input"])[:-1] for each in sent[1:]):
            assert later.startswith(earlier)
        answer = sorted(without_ids(answers[0].output), key=json.dumps)
        requests = [sorted(without_ids(each["input"]), key=json.dumps) for each in sent]
        seen.append((answer, requests, page.emitted))
    assert seen[0] == seen[1]
    (answer, requests, emitted), _ = seen
    assert len(requests) == (4 if kind == "two rounds" else 3)
    assert ("input_image" in json.dumps(requests[-1])) == ("draw" in text)
    assert ("embeds" in json.dumps(answer)) == (kind == "page")
    assert [each["type"] for each in emitted] == ["source"] * (kind == "sources")


# --- side by side ---


async def test_calls_run_at_once_and_are_shown_as_they_end(tmp_path: Path, standin: StandIn) -> None:
    """Each waits for the others to begin: one after the other none would end. The last one called ends first."""
    everybody, turn = asyncio.Barrier(3), asyncio.Condition()
    waiting = ["Rome", "Oslo", "Bern"]

    async def meet(city: str) -> str:
        await everybody.wait()
        async with turn:
            await turn.wait_for(lambda: waiting[-1] == city)
            waiting.pop()
            turn.notify_all()
        return city

    cities = [called("meet", city=city) for city in waiting]
    async with opened(tmp_path, standin, "pipe", {"meet": meet}, TOOL_TIMEOUT_SECONDS=60) as page:
        answer = await page.ask(f"{' '.join(cities)} Who?")
        await page.ask("And then?")
    added = [event["item"] for event in answer.events if event.get("type") == "response.output_item.added"]
    shown = [item for item in added if item["type"] != "reasoning"]
    assert [item["type"] for item in shown] == [
        *["function_call"] * 3,
        *["function_call_output"] * 3,
        "message",
    ]
    assert [item["output"][0]["text"] for item in outputs(shown)] == ["Bern", "Oslo", "Rome"]
    first, second = (json.dumps(each["input"]) for each in bodies(standin)[1:])
    assert second.startswith(first[:-1])


class Counted:
    """Tools that note which of them run, and end when they may."""

    most_rounds: int | None = None

    def __init__(self) -> None:
        self.running, self.ran = list[str](), list[str]()
        self.may_end = asyncio.Event()

    def can_run(self, calls: Any) -> bool:
        return True

    async def run(self, called: FunctionCall) -> ToolAnswered:
        self.running.append(called["call_id"])
        self.ran.append(called["call_id"])
        await self.may_end.wait()
        self.running.remove(called["call_id"])
        return ToolAnswered(called, "done")


@pytest.mark.parametrize(("places", "highest"), [(100, MAX_CALLS), (3, 3)])
async def test_no_more_run_at_once_than_may(places: int, highest: int) -> None:
    """Of one answer, and of all that a worker writes; each call runs once."""
    counted, put = Counted(), list[Output]()
    runs = ToolRuns(counted, asyncio.Semaphore(places), 60.0)

    async def keep(output: Output) -> None:
        put.append(output)

    running = asyncio.ensure_future(runs.run([function_call(f"c{n}") for n in range(20)], keep))
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(counted.running) == highest
    counted.may_end.set()
    assert [*await running] == [each.call["call_id"] for each in put if isinstance(each, ToolAnswered)]
    assert sorted(counted.ran) == sorted(f"c{n}" for n in range(20))


async def test_a_tool_has_so_much_time(tmp_path: Path, standin: StandIn) -> None:
    """Then the model reads that, and what the others have said."""
    async with opened(
        tmp_path, standin, "pipe", {"hang": hang, "look": look}, TOOL_TIMEOUT_SECONDS=0.05
    ) as page:
        answer = await page.ask(f"{called('hang', 'look')} What?")
        await page.ask("And then?")
    assert [answer.error, page.run_by_host] == [None, []]
    assert {item["output"] for item in outputs(bodies(standin)[-1]["input"])} == {
        TIMED_OUT.format(0.05),
        "It rains in Paris.",
    }
    statuses = {item["name"]: item["status"] for item in answer.output if item["type"] == "function_call"}
    assert statuses == {"hang": "failed", "look": "completed"}


async def test_a_tool_whose_own_connection_was_cancelled_has_failed(tmp_path: Path, standin: StandIn) -> None:
    """The answer goes on: nobody has stopped it."""

    async def drop(city: str = "") -> str:
        raise asyncio.CancelledError

    async with opened(tmp_path, standin, "pipe", {"drop": drop, "look": look}) as page:
        answer = await page.ask(f"{called('drop', 'look')} What?")
    assert answer.error is None
    said = [item["output"] for item in outputs(bodies(standin)[-1]["input"])]
    assert said == [TOOL_FAILED, "It rains in Paris."]


async def test_what_the_host_itself_raises_is_no_end(tmp_path: Path, standin: StandIn) -> None:
    """Such as by a result of a kind that it does not know."""
    middleware = FakeMiddleware()
    middleware.tool_result_content = lambda result: result["text"]  # type: ignore[method-assign]
    host = PipeInProcess(tmp_path, base_url=standin.base_url, TOOL_EXECUTION="pipe")
    host.middleware = middleware
    async with host as pipe:
        answer = await ToolPage(pipe, MODEL, {"look": look}).ask(f"{called('look')} What?")
    assert answer.error is None
    assert [item["output"] for item in outputs(bodies(standin)[-1]["input"])] == [TOOL_FAILED]


# --- what the host alone can do ---

ASKS = partial(look)
ASKS.__extra_params__ = {"__event_call__": None}  # type: ignore[attr-defined]
HOSTS: dict[str, tuple[Json, Json, str]] = {
    "an approval": ({"look": look}, {"params": {"tool_approval_mode": "ask"}}, called("look")),
    "a question": ({"look": {"callable": ASKS}}, {}, called("look")),
    "a question beside another": ({"look": {"callable": ASKS}, "count": count}, {}, called("count", "look")),
    "a tool of the page": ({"look": {"callable": look, "direct": True}}, {}, called("look")),
    "the user is asked": ({"ask_user": look}, {}, called("ask_user")),
    "agents": ({"delegate_task": look}, {}, called("delegate_task")),
}


@pytest.mark.parametrize("kind", HOSTS)
async def test_the_host_runs_what_it_alone_can(tmp_path: Path, standin: StandIn, kind: str) -> None:
    """The whole round, as if nothing was set; the next request is valid."""
    tools, metadata, text = HOSTS[kind]
    async with opened(tmp_path, standin, "pipe", dict(tools)) as page:
        page.metadata = {**page.metadata, **metadata}
        answer = await page.ask(f"{text} What?")
        await page.ask("And then?")
    assert (answer.error, len(page.run_by_host)) == (None, text.count("call="))
    assert len(bodies(standin)) == 3


@pytest.mark.parametrize(
    ("arguments", "by_host"),
    [("{}", False), ("", False), ("{'city': 'Rome'}", True), ("[]", True), ("{", True)],
)
async def test_arguments_that_are_no_object_are_the_hosts(
    tmp_path: Path, arguments: str, *, by_host: bool
) -> None:
    """It mends some, and says of others what is wrong."""
    router = Router(stream(call(arguments)), stream(message("Done.")))
    async with tool_pipe(tmp_path, router) as page, aclosing(page.stream("What?")) as events:
        async for _ in events:
            pass
    assert len(router.requests) == 1 + (not by_host)


@asynccontextmanager
async def tool_pipe(
    folder: Path, router: Router, tools: Any = None, **valves: Any
) -> AsyncIterator[ToolPage]:
    """The same before prepared answers."""
    host = open_pipe(folder, router, TOOL_EXECUTION="pipe", **valves)
    host.middleware = FakeMiddleware()
    async with host as pipe:
        yield ToolPage(pipe, MODEL, tools or {"look": look})


@pytest.mark.parametrize("middleware", [None, FakeMiddleware()])
async def test_an_older_host_runs_its_tools(tmp_path: Path, standin: StandIn, middleware: Any) -> None:
    """Where its functions are not what they are in 0.12."""
    host = PipeInProcess(tmp_path, base_url=standin.base_url, TOOL_EXECUTION="pipe")
    host.middleware = middleware
    async with host as pipe:
        page = ToolPage(pipe, MODEL, {"look": look})
        assert (await page.ask(f"{called('look')} What?")).error is None
    assert page.run_by_host == ["look"] * (middleware is None)


# --- beside our own tool ---


async def test_beside_a_look_up_the_host_runs_them(tmp_path: Path) -> None:
    """It is answered here, and the next turn begins with the same bytes."""
    both = stream(recall(turn=1), call(call_id="call_7", item_id="fc_7"))
    router = Router(
        *FIRST_TURN, both, stream(message("Done.")), stream(message("Yes.")), window_tokens=24_000
    )

    async def rows(city: str = "") -> str:
        return ROWS

    async with tool_pipe(tmp_path, router, {"look": rows}, **CAPPED) as page:
        answers = [await page.ask(text) for text in "123"]
    assert [each.error for each in answers] == [None] * 3
    assert page.run_by_host == ["look"]
    before, later = map(json.dumps, router.inputs[3:])
    assert later.startswith(before[:-1])
    assert len(outputs(router.inputs[-1])) == 3


# --- once ---


async def test_a_call_runs_once_whatever_becomes_of_the_next_request(tmp_path: Path) -> None:
    """A provider repeats the ids of calls, and is away for the moment when it is told what came of them."""
    ran = list[str]()

    async def note(city: str = "") -> str:
        ran.append(city)
        return city

    both = stream(call('{"city": "a"}'), call('{"city": "b"}', item_id="fc_2"))
    again = stream(call('{"city": "c"}'))
    router = Router(both, again, stream(message("Done.")), stream(message("Yes.")))
    answers, failures = router.__call__, [503, 503]

    async def flaky(request: Any) -> Any:
        import httpx

        if request.method != "GET" and len(router.requests) == 1 and failures:
            return httpx.Response(failures.pop(), json={"error": {"code": 503, "message": "busy"}})
        return await answers(request)

    async with tool_pipe(tmp_path, flaky, {"look": note}) as page:  # type: ignore[arg-type]
        answer = await page.ask("What?")
        await page.ask("And then?")
    assert (answer.error, failures) == (None, [])
    assert sorted(ran) == ["a", "b", "c"]
    calls = [item for item in router.inputs[-1] if item["type"] == "function_call"]
    assert len({item["call_id"] for item in calls}) == len(outputs(router.inputs[-1])) == 3


@pytest.mark.parametrize("most", [None, 2, 1_000])
async def test_only_so_many_rounds_of_a_turn_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    """The host, which has a limit of its own, runs the others; no more run here than it would run."""
    monkeypatch.setattr(FakeMiddleware, "CHAT_RESPONSE_MAX_TOOL_CALL_ITERATIONS", most, raising=False)
    runs_here = 2 if most == 2 else MAX_TOOL_ROUNDS
    rounds = [stream(call(call_id=f"call_{at}")) for at in range(runs_here + 2)]
    async with tool_pipe(tmp_path, Router(*rounds, stream(message("Done.")))) as page:
        answer = await page.ask("What?")
    assert (answer.error, answer.text) == (None, "Done.")
    assert len(page.run_by_host) == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dollars", [0.02, 0.01])
async def test_all_rounds_of_an_answer_share_its_dollars_for_openrouters_tools(
    tmp_path: Path, standin: StandIn, mode: str, dollars: float
) -> None:
    """Whoever runs the host's tools between them; with nothing left, only those of the host are offered."""
    valves = {"SERVER_TOOLS": "advisor", "SERVER_TOOL_DOLLARS": dollars}
    async with opened(tmp_path, standin, mode, {"look": look}, **valves) as page:
        page.parameters = {CHOSEN: {"advisor": "on"}}
        standin.script(f"[[standin: tool=advisor]] {called('look')}")
        assert (await page.ask("Which one?")).error is None
        assert page.run_by_host == (["look"] if mode == "host" else [])
    first, second = standin.responses
    assert first.usage
    left = dollars - first.usage["cost"]
    stops = [each.body.get("stop_server_tools_when", [{}])[0] for each in (first, second)]
    kept = {"type": "max_cost", "max_cost_in_dollars": pytest.approx(left, abs=1e-6)} if left > 0 else {}
    assert stops == [{"type": "max_cost", "max_cost_in_dollars": dollars}, kept]
    assert ["openrouter:advisor" in [each["type"] for each in body["tools"]] for body in bodies(standin)] == [
        True,
        left > 0,
    ]


# --- stop ---


async def test_stop_ends_the_tools_and_leaves_pairs(tmp_path: Path, standin: StandIn) -> None:
    """Each that has not ended says so, to the user and to the model in the next turn; one that has keeps its result."""
    ended = list[str]()

    async def wait(city: str) -> str:
        try:
            await asyncio.sleep(0 if city == "Rome" else 10_000)
        finally:
            ended.append(city)
        return city

    calls = " ".join(called("wait", city=city) for city in ("Oslo", "Rome", "Bern"))

    async def read(page: ToolPage, seen: asyncio.Event) -> None:
        async for event in page.stream(f"{calls} Who?"):
            if "Rome" in json.dumps(event.get("item", {}).get("output", "")):
                seen.set()

    async with opened(tmp_path, standin, "pipe", {"wait": wait}) as page:
        running = asyncio.ensure_future(read(page, seen := asyncio.Event()))
        await seen.wait()
        assert ended == ["Rome"]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        answer = page.turns[-1][1]
        assert sorted(ended) == ["Bern", "Oslo", "Rome"]
        assert [item["output"][0]["text"] for item in outputs(answer.output)] == [
            "Rome",
            INTERRUPTED,
            INTERRUPTED,
        ]
        assert answer.notices.count(notice("tool_stopped", name="wait")) == 2
        assert (await page.ask("And then?")).error is None
    said = [item["output"] for item in outputs(bodies(standin)[-1]["input"])]
    assert said == ["Rome", INTERRUPTED, INTERRUPTED]


async def test_a_page_that_goes_away_leaves_no_half(tmp_path: Path, standin: StandIn) -> None:
    """Where nothing can be said any more, the host forgets the calls; the tools are stopped all the same."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def wait(city: str = "") -> str:
        began.set()
        try:
            await asyncio.sleep(10_000)
        finally:
            stopped.set()
        raise AssertionError

    async with opened(tmp_path, standin, "pipe", {"wait": wait}) as page:
        async with aclosing(page.stream(f"{called('wait')} Who?")) as events:
            async for event in events:
                item = event.get("item", {})
                if (item.get("type"), item.get("status")) == ("function_call", "completed"):
                    await began.wait()
                    break
        async with asyncio.timeout(60):
            await stopped.wait()
        assert outputs(page.turns[-1][1].output) == []
        assert (await page.ask("And then?")).error is None
    assert outputs(bodies(standin)[-1]["input"]) == []


async def test_while_tools_run_nothing_else_waits(tmp_path: Path, standin: StandIn) -> None:
    """The request is over: its place is another user's, who keeps it to the end, and what it has cost is known."""
    began, answered = asyncio.Event(), asyncio.Event()

    async def wait(city: str = "") -> str:
        began.set()
        await answered.wait()
        return city

    host = PipeInProcess(tmp_path, base_url=standin.base_url, TOOL_EXECUTION="pipe", MAX_REQUESTS=1)
    host.middleware = FakeMiddleware()
    async with host as pipe:
        page = ToolPage(pipe, MODEL, {"wait": wait})
        other = ToolPage(pipe, MODEL, {"wait": wait}, chat_id="other", user_id="other")
        waiting = asyncio.ensure_future(page.ask(f"{called('wait')} What?"))
        await began.wait()
        cost = host.app.worker.spending.turns.get(answer_key(origin_of(page)))
        assert cost
        assert cost.requests == 1
        talking = asyncio.ensure_future(other.ask("[[standin: slow=1]] Hello?"))
        await eventually(lambda: len(standin.responses) == 2)
        answered.set()
        answers = await asyncio.gather(talking, waiting)
    assert [each.error for each in answers] == [None, None]
    assert answers[0].notices == []


def origin_of(page: ToolPage) -> RequestOrigin:
    """Whose the page's answer is."""
    return RequestOrigin(page.user["id"], page.chat_id, f"message-{len(page.turns)}", MODEL)
