"""What a worker keeps of chats, tools and settings changes no byte of what it sends."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.media.memory import MEGABYTE
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.responses.values import Kept
from scripts.harness.page import Answer, Page, PipeInProcess
from tests.test_legal_chats import CALLED, TOOLS, VALVES, LegalChat, weather

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

CHATS, CHATS_OF_A_RUN = 60, 4
TURNS = 7
LONG_MESSAGES = 400
VALUES = {**VALVES, "PERSIST_REASONING_TOKENS": ("next_reply", "conversation")}
"""Other reasoning a worker has in memory alone."""


class Sent(httpx.AsyncBaseTransport):
    """The network, which notes the bytes of all requests for answers; where it does not `answers`, it breaks then."""

    def __init__(self, *, answers: bool) -> None:
        self.bodies: list[bytes] = []
        self._answers = answers
        self._network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Note a request and send it."""
        if request.method == "POST":
            self.bodies.append(await request.aread())
            if not self._answers:
                raise httpx.ConnectError("nothing answers here")
            request = httpx.Request(
                request.method, request.url, headers=request.headers, content=self.bodies[-1]
            )
        return await self._network.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._network.aclose()


class Twin:
    """A warm pipe; what a worker that has kept nothing would send is compared before each of its calls."""

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder, self.base_url = folder, base_url
        self.sent = Sent(answers=True)
        (folder / "warm").mkdir()
        self.warm = PipeInProcess(folder / "warm", base_url=base_url, transport=self.sent)
        self.compared = 0
        self.valves: dict[str, Any] = {}

    async def pipe(self, body: dict[str, Any], **given: Any) -> Any:
        """Call both with values of their own; a task is not compared."""
        if given.get("__task__"):
            return await self.warm.pipe.pipe(body, **given)
        fixed = {"API_KEY": self.warm.pipe.valves.API_KEY, "BASE_URL": self.base_url, "RETRY_SECONDS": 0}
        valves = {"COST_LINE": "off", **fixed, **self.valves}
        expected = await self._cold(valves, deepcopy((body, given)))
        self.warm.pipe.valves = Pipe.Valves(**valves)
        begun = len(self.sent.bodies)
        events = [event async for event in await self.warm.pipe.pipe(body, **given)]
        assert self.sent.bodies[begun : begun + 1] == expected
        self.compared += len(expected)
        return _each(events)

    async def _cold(self, valves: dict[str, Any], call: tuple[Any, Any]) -> list[bytes]:
        """The first request of a worker on the same database that has kept nothing, if there is one."""
        warm = self.warm.app
        await warm.idle()
        await warm.worker.own.calibrations.idle()
        folder, sent = self.folder / "cold", Sent(answers=False)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "warm", folder)
        cold = PipeInProcess(folder, base_url=self.base_url, transport=sent, **valves)
        body, given = call
        async with cold as pipe:
            worker = cold.app.worker
            worker.memory = deepcopy(warm.worker.memory)  # what it has been refused is no cache
            windows = warm.worker.planner.named_windows
            worker.planner = replace(worker.planner, memory=worker.memory, named_windows=windows)
            async for _ in await pipe.pipe(body, **given):
                pass
        return sent.bodies[:1]


async def _each(events: list[Any]) -> AsyncGenerator[Any]:
    for event in events:
        yield event


class ChangingChat(LegalChat):
    """A chat that is also edited, branched and answered anew, with tools and settings that change."""

    async def turn(self, minute: int, strategy: str) -> None:
        """Change something, now and then, and ask."""
        page, chosen = self.page, self.chosen
        change = chosen.choice(("none", "none", "answer anew", "edit", "branch", "tools"))
        if change == "tools":
            names = [*CALLED, *chosen.sample(sorted({*TOOLS} - {*CALLED}), k=chosen.randint(0, 2))]
            page._tools = dict.fromkeys(names, weather)
        if page.turns and change == "answer anew":
            text, _ = page.turns.pop()
            await page.ask(text)
            return
        if page.turns and change == "edit":
            del page.turns[chosen.randrange(len(page.turns)) :]
        if page.turns and change == "branch":
            whole = [*page.turns]
            del page.turns[-1:]
            await super().turn(minute, strategy)
            page.turns = whole
        await super().turn(minute, strategy)

    def _refusal(self) -> str:
        return ""


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[] if n < CHATS_OF_A_RUN else [pytest.mark.thorough]) for n in range(CHATS)],
)
async def test_a_warm_worker_sends_what_a_cold_one_would(
    tmp_path: Path, standin: StandIn, number: int
) -> None:
    """Over edits, branches, answers that are asked anew, changes of models, tools, prompts and settings."""
    chosen = random.Random(f"kept chat {number}")
    twin = Twin(tmp_path, standin.base_url)
    async with twin.warm:
        page = Page(twin, "openai/gpt-5.2", tools=TOOLS)  # type: ignore[arg-type]  # it calls `pipe` alone
        chat = ChangingChat(page, chosen)
        for minute in range(TURNS):
            if chosen.random() < 0.3:
                twin.valves = {name: chosen.choice(values) for name, values in VALUES.items()}
            with suppress(IndexError):
                await chat.turn(minute, "summarize")
    assert twin.compared >= TURNS


class CountingExecutor(ThreadPoolExecutor):
    """Threads for what takes long, counted."""

    works = 0

    def submit(self, *given: Any, **more: Any) -> Any:
        """Count what is done in a thread."""
        self.works += 1
        return super().submit(*given, **more)


async def test_a_long_chat_needs_no_thread_on_a_warm_worker(tmp_path: Path, standin: StandIn) -> None:
    """Four hundred messages, of which all but the last two were seen before."""
    executor = CountingExecutor()
    asyncio.get_running_loop().set_default_executor(executor)
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        page = Page(pipe, "openai/gpt-5.2", tools=TOOLS)
        for number in range(LONG_MESSAGES // 2):
            text = f"{number}: " + "some words of a usual length follow here. " * 7
            part = {"type": "output_text", "text": text, "annotations": []}
            answer = Answer([{"type": "message", "role": "assistant", "content": [part]}])
            page.turns.append((text, answer))
        await page.ask("Go on.")
        cold, executor.works = executor.works, 0
        await page.ask("And then?")
    assert (cold > 0, executor.works) == (True, 0)


async def test_what_is_kept_of_chats_gives_way_where_memory_is_short(
    tmp_path: Path, standin: StandIn
) -> None:
    """Also while nobody sends files: all caches together are within the administrator's limit."""
    driver = PipeInProcess(tmp_path, base_url=standin.base_url, MAX_MEMORY_MB=64)
    async with driver as pipe:
        page = Page(pipe, "openai/gpt-5.2")
        await page.ask("Go on.")
        worker = driver.app.worker
        for name in (b"one", b"two"):
            worker.kept.put(name, Kept({}, 30 * MEGABYTE))
        worker.planner.caches.facts.put(b"fact", "x" * 4 * MEGABYTE)
        before = worker.encoded_files.budget.used_bytes
        await page.ask("And then?")
        after = worker.encoded_files.budget.used_bytes
    assert after <= 64 * MEGABYTE < before


async def test_requests_follow_settings_and_tools_that_change(tmp_path: Path, standin: StandIn) -> None:
    """Within one chat, whose parameters stay the same."""
    sent, found = Sent(answers=True), list[Any]()
    async with PipeInProcess(tmp_path, base_url=standin.base_url, transport=sent) as pipe:
        page, given = Page(pipe, "openai/gpt-5.2", tools=TOOLS), {**dict(pipe.valves)}
        for effort, tools in (("low", TOOLS), ("high", TOOLS), ("high", {"look": weather}), ("low", TOOLS)):
            pipe.valves = Pipe.Valves(**{**given, "REASONING_EFFORT": effort})
            page._tools = tools
            await page.ask("Go on.")
            body = json.loads(sent.bodies[-1])
            names = {tool["name"] for tool in body["tools"]} & {"look", "get_weather"}
            found.append((body["reasoning"]["effort"], *names))
    assert found == [
        ("low", "get_weather"),
        ("high", "get_weather"),
        ("high", "look"),
        ("low", "get_weather"),
    ]
