"""The host's tasks, such as titles: nothing that is chosen for them makes them fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from open_webui_openrouter_pipe.ports import Failed
from open_webui_openrouter_pipe.responses.effects import ResponseFinished, TextDelta
from tests.app.chat import MODEL, NewChat, app_on
from tests.support.wire import frames

if TYPE_CHECKING:
    from pathlib import Path

    from open_webui_openrouter_pipe.ports import Output
    from scripts.standin import StandIn

pytestmark = pytest.mark.anyio

TITLE, EMOJI = 1_000, 4
"""The limits of output that Open WebUI sets."""
MOST_REQUESTS = 3
MANDATORY = "Reasoning is mandatory for this endpoint and cannot be disabled."
TOO_SMALL = (
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 4 instead."
)
BUDGET = "`max_tokens` must be greater than `thinking.budget_tokens`."


async def ask(chat: Any, max_tokens: int) -> list[Output]:
    """What comes for a task with this limit."""
    messages = [{"role": "user", "content": "### Task: a title"}]
    call = chat.call(task="title_generation", messages=messages, max_tokens=max_tokens)
    return [output async for output in chat.app.answer(call, chat.settings)]


def is_answered(outputs: list[Output]) -> bool:
    """Whether a task has its text, and no error."""
    said = any(isinstance(each, TextDelta) and each.kind == "output_text" for each in outputs)
    return said and isinstance(outputs[-1], ResponseFinished)


class Strict(httpx.AsyncHTTPTransport):
    """The network to providers of one kind: a refusal for each body that breaks one of their rules."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.bodies: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return await super().handle_async_request(request)
        body = json.loads(await request.aread())
        self.bodies.append(body)
        if line := self._refusal(body.get("reasoning", {}).get("effort"), body["max_output_tokens"]):
            raw = json.dumps({"error": {"message": line, "type": "invalid_request_error"}})
            error = {"code": 400, "message": "Provider returned error", "metadata": {"raw": raw}}
            return httpx.Response(400, json={"error": error})
        return await super().handle_async_request(request)

    def _refusal(self, effort: str | None, output_tokens: int) -> str:
        if output_tokens < 16:
            return TOO_SMALL
        if self.kind == "always thinks":
            budget = max(1_024, output_tokens // 5)
            return MANDATORY if effort == "none" else BUDGET if output_tokens <= budget else ""
        return "Something that nobody has seen before." if self.kind == "odd" and effort else ""


class Failing(httpx.AsyncHTTPTransport):
    """The network to a provider that refuses in a stream, with a bill of this cost."""

    def __init__(self, cost: float) -> None:
        super().__init__()
        self.cost, self.requests = cost, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return await super().handle_async_request(request)
        self.requests += 1
        usage = {"input_tokens": 9, "output_tokens": 0, "cost": self.cost}
        error = {"code": 400, "message": "Provider returned error"}
        end = {"status": "failed", "error": error, "output": [], "usage": usage}
        headers = {"content-type": "text/event-stream"}
        event = {"type": "response.failed", "response": end}
        return httpx.Response(200, headers=headers, content=frames(event))


@pytest.mark.parametrize(
    ("kind", "model", "efforts"),
    [
        ("usual", MODEL, ["none"]),
        ("usual", "openai/gpt-4.1-mini", [None]),
        ("usual", "anthropic/claude-sonnet-4.5", ["none"]),
        ("usual", "openrouter/auto", ["low"]),
        ("always thinks", MODEL, ["none", None]),
        ("always thinks", "openrouter/auto", ["low"]),
        ("odd", MODEL, ["none", None]),
    ],
)
@pytest.mark.parametrize("max_tokens", [TITLE, EMOJI])
async def test_a_task_is_answered_whatever_its_provider_refuses(
    tmp_path: Path, standin: StandIn, kind: str, model: str, efforts: list[str | None], max_tokens: int
) -> None:
    """Thinking is off where the catalogue says that it can be, and what is refused is left to the model."""
    network = Strict(kind)
    async with app_on(tmp_path, network) as app:
        outputs = await ask(NewChat(app, standin)(model=model), max_tokens)
    assert is_answered(outputs)
    asked = [body.get("reasoning", {}).get("effort") for body in network.bodies]
    assert list(dict.fromkeys(asked)) == efforts
    assert len(asked) <= MOST_REQUESTS


@pytest.mark.parametrize(
    ("model", "cost", "requests"), [(MODEL, 0.0, 2), (MODEL, 0.01, 1), ("openai/gpt-4.1-mini", 0.0, 1)]
)
async def test_a_refusal_in_a_stream_is_asked_again_where_that_costs_nothing_and_may_help(
    tmp_path: Path, standin: StandIn, model: str, cost: float, requests: int
) -> None:
    """What has a bill is the last word, and so is the refusal of a body to which nothing was added."""
    network = Failing(cost)
    async with app_on(tmp_path, network) as app:
        outputs = await ask(NewChat(app, standin)(model=model), 8_000)
    assert (isinstance(outputs[-1], Failed), network.requests) == (True, requests)


async def test_a_refusal_of_something_else_is_no_loop(new_chat: NewChat, standin: StandIn) -> None:
    """It is asked once more, and then the host does without."""
    chat = new_chat()
    standin.script("error=400", times=3)
    outputs = await ask(chat, TITLE)
    assert isinstance(outputs[-1], Failed)
    assert len(standin.responses) == 2
