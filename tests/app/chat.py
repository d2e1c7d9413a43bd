"""A chat with an App: plays the host, and keeps the messages and what came beside each answer."""

from __future__ import annotations

import secrets
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import httpx
import sqlalchemy as sa

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.host.native import NativeWriter
from open_webui_openrouter_pipe.ports import Failed, Notice, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.settings import Settings, read_settings
from open_webui_openrouter_pipe.store.kept import SealedSummaries
from open_webui_openrouter_pipe.store.sealing import Keyring
from open_webui_openrouter_pipe.turn.recorder import generate_item_id
from open_webui_openrouter_pipe.valves import UserValves, Valves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database
from scripts.harness.page import FakeRecords, as_messages, split_reference
from tests.support.audited import audited
from tests.support.long_chats import words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from pathlib import Path

    from open_webui_openrouter_pipe.host.call import Call
    from open_webui_openrouter_pipe.money.audit import Bill
    from open_webui_openrouter_pipe.ports import Output
    from open_webui_openrouter_pipe.summaries.summary import Summary
    from open_webui_openrouter_pipe.words.lines import Language
    from scripts.standin import StandIn

MODEL = "openai/gpt-5.2"
LATE = {"model": "standin/small", "SUMMARY_AHEAD_RATIO": 1.0}
"""A model with a small window; no summary is made before a request needs it."""


def settings(standin: StandIn, user: UserValves | None = None, /, **valves: Any) -> Settings:
    """Settings for the stand-in, with these valves of the administrator and the user, who by default sees all lines."""
    fixed = {"API_KEY": "sk-or-test", "BASE_URL": standin.base_url, "COST_LINE": "off"}
    return read_settings(Valves(**{**fixed, **valves}), user or UserValves(STATUS_LINES="all"))


class Broken(httpx.AsyncHTTPTransport):
    """The network, on which some paths do not work: they get this answer, or no connection."""

    def __init__(self, *paths: str, answer: httpx.Response | None = None) -> None:
        super().__init__()
        self.paths, self.answer = paths, answer
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1").replace("/models/user", "/models")
        self.asked.append(path)
        if path not in self.paths:
            return await super().handle_async_request(request)
        if self.answer is None:
            raise httpx.ConnectError("refused", request=request)
        return self.answer


def without_catalogue() -> Broken:
    """The network, on which the list of models cannot be had."""
    return Broken("/models", answer=httpx.Response(500))


@asynccontextmanager
async def app_on(
    folder: Path,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    secret: str = "secret",
    records: FakeRecords | None = None,
    clock: Callable[[], float] = time.time,
    **host: Any,
) -> AsyncIterator[App]:
    """An app on a database file in the folder; `host` is what it gets of the host beside that."""
    resources = Host(open_database(url_in(folder)), records or FakeRecords(), Secret(secret), **host)
    async with aclosing(App(resources, transport=transport, clock=clock)) as app:
        yield app
        await app.idle()


def url_in(folder: Path) -> str:
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
    language: Language | None = None
    """That of the page."""
    names: Callable[[], Coroutine[Any, Any, None]] | None = None

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
        call = read_call(body, user=user, metadata={**ids, **self.metadata}, task=task, ask=self.asks)
        return replace(call, language=self.language, name_chat=self.names)

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
            text="".join(
                each.delta for each in outputs if isinstance(each, TextDelta) and each.kind == "output_text"
            ),
            marked=tuple(
                ulid for output in outputs if isinstance(output, StoredMarkers) for ulid in output.ids
            ),
            notices=tuple(output.text for output in outputs if isinstance(output, Notice) and output.text),
            error=next(
                (split_reference(output.message)[0] for output in outputs if isinstance(output, Failed)), None
            ),
        )

    def instruct(self, prompt: str) -> None:
        """Have the host begin the chat with this system prompt; "" is none."""
        said = [each for each in self.messages if each["role"] != "system"]
        self.messages = [*([{"role": "system", "content": prompt}] if prompt else []), *said]
        self.metadata = {**self.metadata, "base_system_prompt": prompt or None}

    def grow(self, turns: int, *, tokens: int = 240, seed: str = "") -> Self:
        """Add earlier turns of about so many tokens each."""
        for number in range(self.turns, self.turns + turns):
            for role, kind in (("user", "Question"), ("assistant", "Answer")):
                said = words(tokens // 2 - 10, f"{seed}{kind[0].lower()}{number}")
                self.messages.append({"role": role, "content": f"{kind} {number}: {said}"})
        return self

    @property
    def turns(self) -> int:
        return sum(message["role"] == "user" for message in self.messages)

    async def ask_next(self, tokens: int = 120, **parameters: Any) -> Answer:
        """Ask the next question, of about so many tokens."""
        number = self.turns
        return await self.ask(f"Question {number}: {words(tokens - 10, f'q{number}')}", **parameters)

    async def title(self, text: str = "### Task: a title") -> list[Output]:
        """What comes for a task of the host with this prompt; the chat stays as it is."""
        messages = [{"role": "user", "content": text}]
        call = self.call(task="title_generation", messages=messages)
        return [output async for output in self.app.answer(call, self.settings)]


@dataclass(frozen=True, slots=True)
class NewChat:
    """Begins chats in one app; each has what is always given, unless it is given otherwise."""

    app: App
    standin: StandIn
    always: dict[str, Any] = field(default_factory=dict)

    def __call__(self, **given: Any) -> Chat:
        """A chat with these fields and the user's valves as `user`, and the valves that are given by their names."""
        given = {**self.always, **given}
        user = given.pop("user", None)
        fields = {name: value for name, value in given.items() if name.islower()}
        valves = {name: value for name, value in given.items() if not name.islower()}
        return Chat(self.app, settings(self.standin, user, **valves), **fields)


async def audit_of(app: App) -> list[Bill]:
    """The audit, the oldest first."""
    await app.idle()
    await app.worker.own.ledger.idle()
    return (await audited(app.worker.host.database, limit=10_000))[::-1]


async def stored_summaries(app: App, user_id: str = "ada") -> list[Summary]:
    """All summaries of a user in the database, in the order of their turns."""
    database = app.worker.host.database
    table = database.tables.summary
    query = sa.select(table.c.start_chain, table.c.end_chain).where(table.c.user_id == user_id)
    ends = [bytes.fromhex(end) for pair in await database.fetch(query) for end in pair]
    found = await SealedSummaries(database, Keyring(["secret"])).find(user_id, ends, chat_id="")
    return sorted(found.values(), key=lambda summary: summary.first_turn)


async def summary_claims(app: App) -> list[str]:
    """The claims on summaries that some worker holds."""
    database = app.worker.host.database
    names = [row.name for row in await database.fetch(sa.select(database.tables.lease))]
    return [name for name in names if name.startswith("summary:")]


def sent(standin: StandIn) -> dict[str, Any]:
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
