"""The whole pipe before a provider that is a list of prepared streams: for answers that the stand-in never gives."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from scripts.harness.page import Page, PipeInProcess
from tests.support.wire import frames

Json = dict[str, Any]

MODEL = "openai/gpt-5.2"
TOOLS = {"look": lambda arguments: f"seen {arguments}"}
NOT_OVER = b"data: [DONE]\n\n"
"""How a stream ends that has ended."""


class Router:
    """Answers each request with the next prepared body, and keeps what was sent."""

    def __init__(
        self, *bodies: bytes | list[bytes | Exception], window_tokens: int = 200_000, model: str = MODEL
    ) -> None:
        """A list is a body whose portions are delivered until an error is raised."""
        self.model = model
        self.bodies = list(bodies)
        self.requests: list[Json] = []
        self.window_tokens = window_tokens

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            architecture = {"input_modalities": ["text", "image"], "output_modalities": ["text"]}
            model = {
                "id": self.model,
                "name": self.model,
                "context_length": self.window_tokens,
                "pricing": {},
            }
            parameters = {"supported_parameters": ["reasoning", "tools"], "architecture": architecture}
            return httpx.Response(200, json={"data": [{**model, **parameters}]})
        self.requests.append(json.loads(request.content))
        body = self.bodies.pop(0)
        portions = [body] if isinstance(body, bytes) else body
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=_delivered(portions)
        )

    @property
    def inputs(self) -> list[list[Json]]:
        """The items of each request."""
        return [request["input"] for request in self.requests]

    def sent(self, kind: str) -> list[list[Json]]:
        """The items of a type in each request."""
        return [[item for item in sent if item["type"] == kind] for sent in self.inputs]


async def _delivered(portions: Sequence[bytes | Exception]) -> AsyncIterator[bytes]:
    for portion in portions:
        if isinstance(portion, Exception):
            raise portion
        yield portion


def open_pipe(folder: Path, router: Router, **options: Any) -> PipeInProcess:
    """A pipe whose network is the router."""
    base_url, transport = "https://openrouter.test/api/v1", httpx.MockTransport(router)
    return PipeInProcess(folder, base_url=base_url, transport=transport, **options)


async def chat(
    folder: Path,
    router: Router,
    *questions: str,
    tools: Mapping[str, Any] = TOOLS,
    chat_id: str = "chat",
    **options: Any,
) -> Page:
    """Ask in one chat, and return its page."""
    async with open_pipe(folder, router, **options) as pipe:
        page = Page(pipe, MODEL, tools=tools, chat_id=chat_id)
        for question in questions:
            await page.ask(question)
    return page


def message(text: str, **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    head = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {**head, "content": [part], **more}


def reasoning(item_id: str, **more: Any) -> Json:
    sealed = f"sealed {item_id}"
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": sealed, **more}


def call(
    arguments: str = "{}", *, call_id: str = "call_0", item_id: str = "fc_1", name: str = "look"
) -> Json:
    head = {"type": "function_call", "id": item_id, "call_id": call_id, "name": name}
    return {**head, "arguments": arguments, "status": "completed"}


def opened(*items: Json) -> list[Json]:
    """Each item announced and done."""
    return [
        {"type": f"response.output_item.{kind}", "output_index": index, "item": item}
        for index, item in enumerate(items)
        for kind in ("added", "done")
    ]


def completed(*output: Json, **more: Any) -> Json:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output), **more}}


def stream(*items: Json, **more: Any) -> bytes:
    """A whole answer of these items."""
    return frames(*opened(*items), completed(*items, **more))


def delta(text: str) -> Json:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return {"type": "response.output_text.delta", **where, "delta": text}


def failed(error: str, code: int = 400) -> Json:
    """The end of an answer that fails."""
    return {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": code, "message": error}, "output": []},
    }


def calls_of(answer: Any) -> list[tuple[str, str]]:
    """The ids and arguments of the calls that the host keeps."""
    return [(item["call_id"], item["arguments"]) for item in answer.output if item["type"] == "function_call"]
