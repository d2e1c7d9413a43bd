"""A chat with an App: plays the host, and keeps the messages and what came beside each answer."""

from __future__ import annotations

import secrets
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.ports import Failed, Notice, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.settings import Settings, read_settings
from open_webui_openrouter_pipe.turn.recorder import generate_item_id
from open_webui_openrouter_pipe.valves import Valves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords, as_messages, split_reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from open_webui_openrouter_pipe.host.call import Call
    from open_webui_openrouter_pipe.ports import Output
    from open_webui_openrouter_pipe.valves import UserValves
    from scripts.standin import StandIn

MODEL = "openai/gpt-5.2"


def settings(standin: StandIn, user: UserValves | None = None, /, **valves: Any) -> Settings:
    """Settings for the stand-in, with these valves of the administrator and the user."""
    fixed = {"API_KEY": "sk-or-test", "BASE_URL": standin.base_url, "COST_LINE": "off"}
    return read_settings(Valves(**{**fixed, **valves}), user)


class WithoutCatalogue(httpx.AsyncBaseTransport):
    """The network, on which the list of models cannot be had."""

    def __init__(self) -> None:
        self.network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/models"):
            return httpx.Response(500)
        return await self.network.handle_async_request(request)

    async def aclose(self) -> None:
        await self.network.aclose()


@asynccontextmanager
async def app_on(
    folder: Path,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    secret: str = "secret",
    records: FakeRecords | None = None,
    **host: Any,
) -> AsyncIterator[App]:
    """An app on a database file in the folder; `host` is what it gets of the host beside that."""
    resources = Host(open_database(url_in(folder)), records or FakeRecords(), secret, **host)
    async with aclosing(App(resources, transport=transport)) as app:
        yield app
        await app.idle()


def url_in(folder: Path) -> str:
    """The address of the database in a folder."""
    return f"sqlite:///{folder}/rows.db"


@dataclass(frozen=True, slots=True)
class Answer:
    """The visible text, the ids of the markers, the status lines, and the error if there was one."""

    text: str
    marked: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    error: str | None = None


@dataclass(slots=True)
class Chat:
    """One saved chat of one user, who answers the pipe's questions with `asks`."""

    app: App
    settings: Settings
    user_id: str = "ada"
    chat_id: str = field(default_factory=lambda: f"chat-{secrets.token_hex(4)}")
    messages: list[dict[str, Any]] = field(default_factory=list)
    model: str = MODEL
    role: str = "user"
    metadata: dict[str, Any] = field(default_factory=dict)
    asks: Callable[[str, str], Awaitable[bool | None]] | None = None

    def call(self, *, task: str | None = None, **parameters: Any) -> Call:
        """What the host passes for the messages so far, or for a task about them."""
        body = {
            "model": f"openrouter.{self.model}",
            "messages": list(self.messages),
            "stream": not task,
            **parameters,
        }
        ids = {"chat_id": self.chat_id, "message_id": None if task else f"message-{len(self.messages)}"}
        user = {"id": self.user_id, "role": self.role}
        return read_call(body, user=user, metadata={**ids, **self.metadata}, task=task, ask=self.asks)

    async def ask(self, text: str, **parameters: Any) -> Answer:
        """Send a question, with these parameters in its body, and return the whole answer."""
        self.messages.append({"role": "user", "content": text})
        call = self.call(**parameters)
        outputs = [output async for output in self.app.answer(call, self.settings)]
        writer = NativeWriter(new_id=generate_item_id, clock=time.monotonic)
        for output in outputs:
            writer.render(output)
        self.messages += as_messages(writer.items) or [{"role": "assistant", "content": ""}]
        return Answer(
            text="".join(output.delta for output in outputs if isinstance(output, TextDelta)),
            marked=tuple(
                ulid for output in outputs if isinstance(output, StoredMarkers) for ulid in output.ids
            ),
            notices=tuple(output.text for output in outputs if isinstance(output, Notice)),
            error=next(
                (split_reference(output.message)[0] for output in outputs if isinstance(output, Failed)), None
            ),
        )

    async def title(self, text: str = "### Task: a title") -> list[Output]:
        """What comes for a task of the host with this prompt; the chat stays as it is."""
        messages = [{"role": "user", "content": text}]
        call = self.call(task="title_generation", messages=messages)
        return [output async for output in self.app.answer(call, self.settings)]


@dataclass(frozen=True, slots=True)
class NewChat:
    """Begins chats in one app."""

    app: App
    standin: StandIn

    def __call__(self, **given: Any) -> Chat:
        """A chat with these fields and the user's valves as `user`, and the valves that are given by their names."""
        user = given.pop("user", None)
        fields = {name: value for name, value in given.items() if name.islower()}
        valves = {name: value for name, value in given.items() if not name.islower()}
        return Chat(self.app, settings(self.standin, user, **valves), **fields)


def sent(standin: StandIn) -> dict[str, Any]:
    """The body of the last request."""
    body: dict[str, Any] = standin.responses[-1].body
    return body


def sent_reasoning_ids(standin: StandIn) -> list[str]:
    """The ids of the reasoning items in the last request."""
    return [item["id"] for item in standin.responses[-1].body["input"] if item["type"] == "reasoning"]


def received_reasoning_ids(standin: StandIn) -> list[str]:
    """The ids of the reasoning items of all answers."""
    return [
        item["id"]
        for response in standin.responses
        for item in response.output
        if item["type"] == "reasoning"
    ]
