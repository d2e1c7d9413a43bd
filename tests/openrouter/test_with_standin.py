"""Client, request and reducer together against the stand-in for OpenRouter, over a real socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.errors import ProviderUnavailable, ReasoningRejected, StreamBroken
from open_webui_openrouter_pipe.openrouter.catalog import ModelCatalog
from open_webui_openrouter_pipe.openrouter.client import ClientSettings, OpenRouterClient
from open_webui_openrouter_pipe.openrouter.connections import Connections
from open_webui_openrouter_pipe.openrouter.errors import to_error
from open_webui_openrouter_pipe.openrouter.request import Composer
from open_webui_openrouter_pipe.responses.effects import Effect, ResponseFailed, ResponseFinished, TextDelta
from open_webui_openrouter_pipe.responses.reducer import Reducer
from scripts.standin import StandIn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = pytest.mark.anyio

MODEL = "openai/gpt-5.2"
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def running() -> Iterator[StandIn]:
    with StandIn() as standin:
        yield standin


@pytest.fixture
def standin(running: StandIn) -> StandIn:
    running.reset()
    return running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


class Caller:
    """Asks the stand-in as the pipe does."""

    def __init__(self, standin: StandIn, http: httpx.AsyncClient, *, key: str = "sk-or-good") -> None:
        self.client = OpenRouterClient(http, ClientSettings(base_url=standin.base_url, api_key=key))
        self.catalog = ModelCatalog(self.client.get, start=asyncio.create_task, base_url=standin.base_url)

    async def ask(self, *items: Any, model_id: str = MODEL, **host: Any) -> list[Effect]:
        await self.catalog.rows.current()
        composer = Composer(host, model=self.catalog.find(model_id), model_id=model_id)
        reducer = Reducer()
        effects: list[Effect] = []
        async with self.client.stream(composer.build(items).body) as events:
            async for event in events:
                effects += reducer.feed(event)
        return effects + reducer.close()


async def test_a_hundred_requests_and_a_new_key_share_a_connection(standin: StandIn) -> None:
    """Neither the one nor the other needs a new client."""
    async with httpx.AsyncClient(transport=Connections()) as http:
        for number in range(100):
            await Caller(standin, http, key="sk-or-old" if number < 50 else "sk-or-new").client.get("/key")
    assert len({request.account for request in standin.requests}) == 2
    assert len({request.connection for request in standin.requests}) == 1


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def said(effects: list[Effect]) -> str:
    return "".join(effect.delta for effect in effects if isinstance(effect, TextDelta))


def finish(effects: list[Effect]) -> ResponseFinished:
    end = effects[-1]
    assert isinstance(end, ResponseFinished), end
    return end


def kinds(effects: list[Effect]) -> list[str]:
    return [item["type"] for item in finish(effects).items]


@pytest.mark.parametrize(
    "wire",
    [
        "",
        "[[standin: wire=crlf split=1]]",
        "[[standin: wire=lf split=3 comments=4 bare=1]]",
        "[[standin: nodone]]",
    ],
)
async def test_an_answer_is_read_in_any_framing(standin: StandIn, http: httpx.AsyncClient, wire: str) -> None:
    """The text arrives whole, however the stream is framed and cut."""
    ask = user('[[standin: text="héllo 😀"]] [[standin: reasoning=summary]] ' + wire)
    effects = await Caller(standin, http).ask(ask)
    assert (said(effects), kinds(effects), [r.warnings for r in standin.responses]) == (
        "héllo 😀",
        ["reasoning", "message"],
        [[]],
    )


@pytest.mark.parametrize("late", ["", "[[standin: late=both]]"])
async def test_a_tool_call_and_its_result_make_two_rounds(
    standin: StandIn, http: httpx.AsyncClient, late: str
) -> None:
    """What one round gave is accepted back in the next: the reasoning sealed, the call with its output."""
    caller = Caller(standin, http)
    ask = user('[[standin: reasoning=summary]] [[standin: call=look args={"at": "it"}]] ' + late)
    first = finish(await caller.ask(ask, tools=[TOOL]))
    call: Any = first.items[-1]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "seen"}
    second = await caller.ask(ask, *first.items, output, tools=[TOOL])
    assert ([item["type"] for item in first.items], call["arguments"], kinds(second)[-1]) == (
        ["reasoning", "function_call"],
        '{"at": "it"}',
        "message",
    )


async def test_altered_reasoning_is_recognized(standin: StandIn, http: httpx.AsyncClient) -> None:
    """Reasoning that the provider does not accept is distinguished from other rejections."""
    caller = Caller(standin, http)
    ask = user("[[standin: reasoning=encrypted]]")
    thought: Any
    thought, *rest = finish(await caller.ask(ask)).items
    with pytest.raises(ReasoningRejected):
        await caller.ask(ask, {**thought, "encrypted_content": "x"}, *rest, user("more"))


@pytest.mark.parametrize("shape", ["failed", "response.error", "nested", "flat", "eof"])
async def test_failures_inside_a_stream(standin: StandIn, http: httpx.AsyncClient, shape: str) -> None:
    """The text until then is kept, and the failure has a line for the user."""
    effects = await Caller(standin, http).ask(
        user(f"[[standin: deltas=9]] [[standin: fail={shape} after=3]]"), model_id="standin/script"
    )
    end = effects[-1]
    assert isinstance(end, ResponseFailed)
    kind = StreamBroken if shape == "eof" else ProviderUnavailable
    assert (len(end.items), said(effects) != "", type(to_error(end.failure))) == (1, True, kind)


async def test_connections_are_reused(standin: StandIn, http: httpx.AsyncClient) -> None:
    """Two answers read to their end travel over one connection."""
    caller = Caller(standin, http)
    opened: list[str] = []

    async def trace(name: str, _info: dict[str, Any]) -> None:
        opened.append(name)

    async def watch(request: httpx.Request) -> None:
        request.extensions["trace"] = trace

    http.event_hooks = {"request": [watch]}
    await caller.ask(user("one"))
    await caller.ask(user("two"))
    assert opened.count("connection.connect_tcp.complete") == 1
