"""Runs a chat in a whole Open WebUI or in the pipe alone, and hands over every request that is made.

Owns the stand-in's part as the model, and the hosts. It must not price anything.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from scripts.benchmarks._chats import TOOL, Chat
from scripts.harness.page import Page, PipeInProcess
from scripts.standin import StandIn
from scripts.standin.prompt import input_items, text_of
from scripts.standin.summaries import FIELDS, is_summary_request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from open_webui_openrouter_pipe.pipe import Pipe
    from scripts.harness.openwebui import OpenWebUI

Json = dict[str, Any]
Pay = Callable[["Sent"], None]

SUMMARY_WORDS = 780
"""What one summary says, whoever asks for it: about 790 tokens. Open WebUI allows 1,000 by default."""
HOST_TASK = "### Task:\nSummarize the conversation history"
MANY_ROUNDS = 1_000_000
"""A call stands in each line that says so, however many calls the request holds."""
BACKGROUND_SECONDS = 0.1
BACKGROUND_LOOKS = 100

HOSTED_VALVES = {"CONTEXT_STRATEGY": "off", "TOOL_OUTPUT_PRUNING": "off"}
HOSTED_MODEL_ID = "anthropic/claude-sonnet-128k"
"""Requests to it carry cache breakpoints, which cost nothing where they mean nothing."""
HOSTED_MODEL: Json = {
    "base_model_id": None,
    "name": "The chat's model",
    "params": {},
    "meta": {"capabilities": {"builtin_tools": False}},
}
"""Open WebUI's own tools would be some thousands of tokens more in each request."""
TOOLKIT = '''
import json
from pathlib import Path


class Tools:
    def query(self, query: str) -> str:
        """
        Query the database.

        :param query: The query.
        """
        return json.loads(Path("{outputs}").read_text("utf-8"))[query]
'''


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as the provider gets it; `summary_tokens` is what it says when it is one for a summary."""

    body: Json
    summary_tokens: int = 0


def asks_for_summary(body: Json) -> bool:
    """Whether a request is one for a summary, of the pipe's kind or of Open WebUI's."""
    return is_summary_request(body) or _asks_as_host(body)


def _asks_as_host(body: Json) -> bool:
    return text_of(input_items(body)[-1]).startswith(HOST_TASK)


class Actor(StandIn):
    """A stand-in whose model says a chat's lines, whatever the request holds, and sums up when asked to."""

    def __init__(self, chat: Chat) -> None:
        super().__init__()
        self._chat = chat
        self._lines: Iterator[str] = iter(())
        self._rand = random.Random(7)  # noqa: S311 - a seeded simulation
        self._app.add_middleware(_Prompter, actor=self)

    def turn(self, number: int) -> None:
        """The next requests belong to this turn."""
        queries = (
            json.dumps({"query": f"select {number} {at}"})
            for at in range(len(self._chat.turns[number].outputs))
        )
        calls = [
            f"[[standin: call={TOOL} args={each}]] [[standin: rounds={MANY_ROUNDS}]]" for each in queries
        ]
        self._lines = iter([*calls, f"text={json.dumps(self._chat.turns[number].answer)}"])

    def prompt(self, body: Json) -> None:
        """Lay out what the model says to a request that is about to be answered."""
        self.script(self._summary(body) if asks_for_summary(body) else next(self._lines))

    def finish(self, pay: Pay) -> None:
        """Pay for the requests that have come to their end, once the turn is over, and forget them.

        Raises:
            ValueError: Not all lines were said, so the host took another way.
        """
        left = list(self._lines)
        failed = [record.error for record in self.responses if record.error]
        if left or failed:
            raise ValueError(f"{len(left)} lines were not said; errors: {failed}")
        for record in self.responses:
            if record.usage:
                said_tokens: int = record.usage["output_tokens"]
                pay(Sent(record.body, said_tokens if asks_for_summary(record.body) else 0))
                self.service.requests.remove(record)

    def _summary(self, body: Json) -> str:
        text = " ".join(self._rand.choices(self._chat.system.split(), k=SUMMARY_WORDS))
        fields = {FIELDS[0]: text, **{name: [] for name in FIELDS[1:]}}
        said = text if _asks_as_host(body) else json.dumps(fields)
        return f"text={json.dumps(said)}"


class _Prompter:
    """Lets the actor see each request before the stand-in does."""

    def __init__(self, app: ASGIApp, actor: Actor) -> None:
        self._app = app
        self._actor = actor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/responses"):
            await self._app(scope, receive, send)
            return
        raw = await Request(scope, receive).body()
        self._actor.prompt(json.loads(raw))

        replayed = iter(({"type": "http.request", "body": raw, "more_body": False},))

        async def again() -> Message:
            return next(replayed, None) or await receive()

        await self._app(scope, again, send)


def hosted(chat: Chat, pay: Pay) -> None:
    """The chat in a real Open WebUI with its own compaction on, through this pipe without a strategy."""
    from scripts.harness.openwebui import OpenWebUI

    with tempfile.TemporaryDirectory() as folder, Actor(chat) as actor:
        host = OpenWebUI(Path(folder) / "host", {"ENABLE_CONTEXT_COMPACTION": "true"})
        try:
            _converse(host, chat, actor, pay)
        finally:
            host.close()


def _converse(host: OpenWebUI, chat: Chat, actor: Actor, pay: Pay) -> None:
    from scripts import build
    from scripts.launch import pipe

    content = build.build(target=host.data / "dist").read_text("utf-8")
    pipe.install(host.admin.api, content, pipe.Upstream(pipe.STANDIN_KEY, actor.base_url))
    host.admin.api.set_valves(pipe.FUNCTION_ID, HOSTED_VALVES)
    outputs = host.data / "outputs.json"
    outputs.write_text(json.dumps(chat.outputs()), "utf-8")
    host.add_tool(TOOL, TOOLKIT.format(outputs=str(outputs)))
    model = f"{pipe.FUNCTION_ID}.{HOSTED_MODEL_ID}"
    host.admin.api.post("/api/v1/models/create", {"id": model, **HOSTED_MODEL})
    host.admin.api.models()
    instructions = {"role": "system", "content": chat.system}
    fields: Json = {"messages": [instructions], "tool_ids": [TOOL] if chat.outputs() else []}
    sent = None
    for number, turn in enumerate(chat.turns):
        actor.turn(number)
        sent, _ = host.admin.ask(model, turn.text, after=sent, **fields)
        actor.finish(pay)


def piped(chat: Chat, pay: Pay, *, model_id: str, valves: Json) -> None:
    """The chat through the pipe in this process; prices, and so its decisions, are the model's."""
    asyncio.run(_piped(chat, pay, model_id, valves))


async def _piped(chat: Chat, pay: Pay, model_id: str, valves: Json) -> None:
    with tempfile.TemporaryDirectory() as folder, Actor(chat) as actor:
        async with PipeInProcess(Path(folder), base_url=actor.base_url, **valves) as pipe:
            page = page_of(chat, pipe, model_id)
            for number, turn in enumerate(chat.turns):
                actor.turn(number)
                await page.ask(turn.text)
                for _ in range(BACKGROUND_LOOKS):  # the user reads, and what the pipe does meanwhile ends
                    await asyncio.sleep(BACKGROUND_SECONDS)
                    if all(record.usage for record in actor.responses):
                        break
                actor.finish(pay)


def page_of(chat: Chat, pipe: Pipe, model_id: str) -> Page:
    """An empty page with a chat's system prompt and its tool."""
    outputs = chat.outputs()
    page = Page(pipe, model_id, tools={TOOL: lambda given: outputs[given["query"]]} if outputs else {})
    page.system = chat.system
    return page
