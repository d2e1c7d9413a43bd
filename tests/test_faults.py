"""The pipe behind a network that breaks at any byte of an answer, in any way.

`FAULT_POSITIONS=500 pytest tests/test_faults.py` tries as many bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from open_webui_openrouter_pipe.history.markers import erase_markers
from scripts.harness.page import Page, PipeInProcess
from tests.support.faults import KINDS, Fault, FaultProxy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

POSITIONS = int(os.environ.get("FAULT_POSITIONS", "150"))
SILENCE_SECONDS = 0.2
"""How long the pipe waits for the next byte while nothing else than a stall can be the reason for it."""
MAX_TURN_SECONDS = 60.0
"""Far more than a turn takes on a slow machine: a hang is a failure."""
WORDS = [f"w{number}" for number in range(40)]
ORDER = f'[[standin: reasoning=summary text="I think."]] [[standin: text="{" ".join(WORDS)}"]]'


async def test_no_fault_of_the_network_hangs_or_loses_what_was_written(
    standin: StandIn, tmp_path: Path
) -> None:
    """Each turn ends; its text is how the answer begins; no task and no connection is left; the next turn works."""
    chance = random.Random(14)
    port = urlsplit(standin.url).port
    assert port
    async with FaultProxy(port) as proxy:
        behind_proxy = standin.base_url.replace(standin.url, proxy.url)
        async with PipeInProcess(tmp_path, base_url=behind_proxy, RETRY_SECONDS=0.0) as pipe:
            length = await length_of_answer(pipe, proxy)
            for seconds in (SILENCE_SECONDS, MAX_TURN_SECONDS):
                set_patience(pipe, seconds)
                await pipe.pipes()  # a list that falls silent is given up after five minutes
            before = running()
            endings: Counter[tuple[str, bool]] = Counter()
            for number in range(POSITIONS):
                proxy.fault = Fault.at_random(chance, within_bytes=length)
                endings[(proxy.fault.kind, await ends_well(pipe, proxy, f"chat-{number}"))] += 1
            await eventually(lambda: running() <= before and proxy.open_connections <= 1)
    assert {kind for kind, _ in endings} == set(KINDS)
    assert all(endings[kind, False] for kind in KINDS if kind != "garbage")


async def length_of_answer(pipe: Pipe, proxy: FaultProxy) -> int:
    """How many bytes a whole answer has, its headers and its end included."""
    answer = await Page(pipe, "standin/script", chat_id="whole").ask(ORDER)
    assert (answer.error, erase_markers(answer.text)) == (None, " ".join(WORDS))
    return proxy.answer_bytes


def set_patience(pipe: Pipe, seconds: float) -> None:
    """Let the pipe wait so long for the next byte."""
    advanced = json.loads(pipe.valves.ADVANCED) | {"REQUEST_TIMEOUT_SECONDS": seconds}
    pipe.valves = pipe.valves.model_copy(update={"ADVANCED": json.dumps(advanced)})


async def ends_well(pipe: Pipe, proxy: FaultProxy, chat_id: str) -> bool:
    """Ask over the broken network, then once more over one that works; return whether the answer was whole."""
    page = Page(pipe, "standin/script", chat_id=chat_id)
    fault = proxy.fault
    assert fault
    wait_seconds = SILENCE_SECONDS if fault.kind == "stall" else MAX_TURN_SECONDS
    set_patience(pipe, wait_seconds)
    async with asyncio.timeout(MAX_TURN_SECONDS):
        broken = await page.ask(ORDER)
    text, whole = erase_markers(broken.text).strip(), " ".join(WORDS)
    assert whole.startswith(text) or fault.kind == "garbage", text
    assert (text == whole) or broken.error, "part of an answer was taken for the whole"
    assert not broken.error or "\n" not in broken.error
    proxy.fault = None
    set_patience(pipe, MAX_TURN_SECONDS)
    answer = await page.ask("and now?")
    assert (answer.error, answer.text != "") == (None, True)
    return broken.error is None


def running() -> Counter[str]:
    """How many tasks of each kind run, but for those of the proxy, which counts its connections itself."""
    names = Counter[str]()
    for task in asyncio.all_tasks():
        name = getattr(task.get_coro(), "__qualname__", "")
        names[name] += not task.done() and not name.startswith(("FaultProxy.", "_pass_on"))
    return names


async def test_a_busy_provider_is_waited_for_and_shown(standin: StandIn, tmp_path: Path) -> None:
    """Through the whole pipe: the wait is a status line, the answer comes, and no error is shown."""
    standin.script("error=429 retry_after=1")
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        answer = await Page(pipe, "standin/script").ask("one")
    assert (answer.error, [request.status for request in standin.responses]) == (None, [429, 200])
    assert answer.notices[-1] == "Asked again (2 of 3)."
    assert answer.notices[0].startswith("The provider is busy; trying again in 2 s (2 of 3)")


async def test_a_refused_parameter_and_a_refused_effort_are_said(standin: StandIn, tmp_path: Path) -> None:
    """The answer comes all the same."""
    order = "[[standin: refuse=temperature]] [[standin: refuse=reasoning.effort values=minimal,low]] one"
    body = {"temperature": 0.5, "reasoning_effort": "high"}
    async with PipeInProcess(tmp_path, base_url=standin.base_url) as pipe:
        answer = await ParameterPage(pipe, body).ask(order)
    sent = [
        (request.body.get("temperature"), request.body["reasoning"].get("effort"))
        for request in standin.responses
    ]
    assert sent == [(0.5, "high"), (0.5, "low"), (None, "low")]
    assert (answer.error, len(answer.notices), answer.text != "") == (None, 2, True)


class ParameterPage(Page):
    """A page that sends parameters."""

    def __init__(self, pipe: Pipe, parameters: dict[str, object]) -> None:
        super().__init__(pipe, "standin/script")
        self._parameters = parameters

    def body(self) -> dict[str, object]:
        return {**super().body(), **self._parameters}


async def test_an_address_that_is_down_is_named_with_the_next_try(tmp_path: Path) -> None:
    """After some failures nothing is sent, and the user reads for how long."""
    sent = Counter[str]()

    def refuse(request: httpx.Request) -> httpx.Response:
        sent[request.url.path] += 1
        raise httpx.ConnectError("refused")

    transport = httpx.MockTransport(refuse)
    url = "https://down.test/api/v1"
    async with PipeInProcess(tmp_path, base_url=url, transport=transport, RETRY_SECONDS=0.0) as pipe:
        lines = [
            (await Page(pipe, "standin/script", chat_id=f"{n}").ask("one")).error or "" for n in range(8)
        ]
    assert "could not be reached" in lines[0]
    assert "The next try is in" in lines[-1]
    assert 0 < sent["/api/v1/responses"] < len(lines)


async def test_requests_of_one_user_wait_for_each_other(standin: StandIn, tmp_path: Path) -> None:
    """A second chat of the same user begins when the first has ended, and says that it waits."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, MAX_REQUESTS_PER_USER=1) as pipe:
        first = Page(pipe, "standin/script", chat_id="one").stream("[[standin: slow=30]]")
        await anext(first)
        page = Page(pipe, "standin/script", chat_id="two")
        second = page.stream("two")
        await anext(second)
        assert len(standin.responses) == 1
        await first.aclose()
        async for _ in second:
            pass
    _, answer = page.turns[-1]
    assert (answer.error, len(standin.responses)) == (None, 2)
    assert answer.notices == [
        "Many requests are running at the moment; this one waits for its turn...",
        "The wait is over.",
    ]


async def test_a_new_key_needs_no_restart(standin: StandIn, tmp_path: Path) -> None:
    """Valves are read with each request; an administrator reads what to do about a wrong key."""
    async with PipeInProcess(tmp_path, base_url=standin.base_url, API_KEY="sk-or-bad") as pipe:
        refused = await Page(pipe, "standin/script", chat_id="one").ask("one")
        pipe.valves = pipe.valves.model_copy(update={"API_KEY": "sk-or-good"})
        answer = await Page(pipe, "standin/script", chat_id="two").ask("two")
    assert (refused.error, answer.error) == (
        "OpenRouter did not accept the API key of this server. Please tell your administrator.",
        None,
    )
