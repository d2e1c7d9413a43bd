"""The pipe in this process behind a chat page, which does in short what Open WebUI does between both.

A page reduces the native events to items, runs the tools that a round calls, calls the pipe again with their
outputs, and sends the whole chat as messages on each call, as Open WebUI 0.12 does (`utils/response.py`,
`utils/middleware.py`, `utils/misc.py: convert_output_to_messages`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.conversation.masking import Secret
from open_webui_openrouter_pipe.errors import AttachmentNotFound
from open_webui_openrouter_pipe.history.folded import TOOL_IMAGES_TEXT
from open_webui_openrouter_pipe.host.native import FAILED, NOTICE
from open_webui_openrouter_pipe.host.wording import EventEmitter
from open_webui_openrouter_pipe.pipe import Pipe
from open_webui_openrouter_pipe.ports import FileContent, Files, Room
from open_webui_openrouter_pipe.store.cache import GuardedRedis
from open_webui_openrouter_pipe.store.database import Database
from open_webui_openrouter_pipe.valves import UserValves
from open_webui_openrouter_pipe.worker import Host
from scripts.harness.database import open_database

Json = dict[str, Any]
Tool = Callable[[Json], str]

KEY = "sk-or-v1-stand-in"
SECRET_KEY = "the host's secret"  # noqa: S105 - of a host that does not exist
IDLE_SECONDS = 600.0
PATIENT_SECONDS = 60.0
_MAX_ROUNDS = 8


class FakeRecords:
    """The records of a host in which every user and every chat exists."""

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """All of them."""
        return set(user_ids)

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """All of them."""
        return set(chat_ids)

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - a Protocol's
        """None of the chats holds a marker."""
        return {}


@dataclass
class KeptFiles:
    """The host's file storage in memory: each user's content once, as `kept` has it by id, with its owner."""

    kept: dict[str, tuple[str, FileContent]] = field(default_factory=dict)

    async def read(self, user_id: str, file_id: str, room: Room) -> FileContent:
        """Return a file that the user may read."""
        await asyncio.sleep(0)
        owner, file = self.kept.get(file_id, ("", None))
        if file is None or owner != user_id:
            raise AttachmentNotFound("there is no such file, or you may not read it")
        await room.take(len(file.content))
        return file

    def id_of(self, user_id: str, key: str) -> str:
        """Return the id of what is stored for a user under a key."""
        return hashlib.sha256(f"{user_id}/{key}".encode()).hexdigest()[:32]

    async def store(
        self,
        user_id: str,
        chat_id: str,  # noqa: ARG002 - a Protocol's
        message_id: str,  # noqa: ARG002 - a Protocol's
        file: FileContent,
        *,
        key: str | None = None,
    ) -> str:
        """Store a file under a key, its content where none is given, and return its id."""
        file_id = self.id_of(user_id, key or hashlib.sha256(file.content).hexdigest())
        self.kept.setdefault(file_id, (user_id, file))
        return file_id


class PipeInProcess:
    """A pipe on a database of its own, as a context; `transport` replaces the network, `clock` the time."""

    def __init__(
        self,
        directory: Path,
        *,
        base_url: str,
        transport: httpx.AsyncBaseTransport | None = None,
        files: Files | None = None,
        cache_folder: Path | None = None,
        clock: Callable[[], float] = time.time,
        **valves: Any,
    ) -> None:
        self.middleware: Any = None
        """The module of the host that runs tools."""
        self._transport = transport
        self._files = files
        self._cache_folder = cache_folder
        self._clock = clock
        self.database_url = f"sqlite:///{directory / 'rows.db'}"
        self.redis: GuardedRedis | None = None
        self._apps: list[App] = []
        self._database: Database | None = None
        self.pipe = Pipe(self._build)
        self.pipe.valves = Pipe.Valves(**{"API_KEY": KEY, "BASE_URL": base_url, "COST_LINE": "off", **valves})

    @property
    def app(self) -> App:
        """What the pipe was built on."""
        return self._apps[-1]

    def _build(self) -> App:
        self._database = open_database(self.database_url)
        resources = Host(
            self._database,
            FakeRecords(),
            Secret(SECRET_KEY),
            files=self._files,
            redis=self.redis,
            cache_folder=self._cache_folder,
            middleware=lambda: self.middleware,
        )
        self._apps.append(App(resources, transport=self._transport, clock=self._clock))
        return self.app

    async def __aenter__(self) -> Pipe:
        """Wait until the models are known: on a loaded machine that takes longer than the pipe lets users wait."""
        await self.pipe.pipes()
        for listing in self.app.worker.listings.values():
            if fetch := listing.rows.refresh():
                await asyncio.wait({fetch}, timeout=PATIENT_SECONDS)
        return self.pipe

    async def __aexit__(self, *_: object) -> None:
        if self._database is not None:
            async with asyncio.timeout(IDLE_SECONDS):
                await self.app.idle()  # SQLite's driver loses the connection of a sweep that is cancelled
            await self.app.aclose()
            await self._database.aclose()


@dataclass(slots=True)
class Answer:
    """One message of the assistant as Open WebUI stores it, and every event of the pipe that made it."""

    output: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    error: str | None = None
    """The line of an error, without its reference."""

    reference: str = ""

    @property
    def text(self) -> str:
        """What the user reads, markers included."""
        return "\n".join(_text_of(item) for item in self.output if item["type"] == "message")

    @property
    def notices(self) -> list[str]:
        """The lines about the answer, in it and above it, in the order in which they came."""
        return [line for event in self.events for line in lines_of(event)]

    @property
    def pictures(self) -> list[str]:
        """The addresses of the pictures that are shown."""
        return [file["url"] for data in self._data_of("files") for file in data["files"]]

    def _data_of(self, kind: str) -> list[Json]:
        events = [event["event"] for event in self.events if "event" in event]
        return [event["data"] for event in events if event["type"] == kind]


class Page:
    """One chat of one user with one pipe; `system` is the chat's system prompt."""

    def __init__(
        self,
        pipe: Pipe,
        model: str,
        *,
        tools: Mapping[str, Tool] | None = None,
        chat_id: str = "chat",
        user_id: str = "user",
        valves: UserValves | None = None,
    ) -> None:
        self._pipe = pipe
        self.system = ""
        self._tools = tools or {}
        self.model = model
        self.chat_id = chat_id
        self.user: Json = {"id": user_id, "valves": valves}
        self.attached: Sequence[Json] = ()
        """To the first message."""
        self.parameters: Mapping[str, Any] = {}
        self.builtin_tools: Sequence[str] = ()
        """Those of the tools that are the host's own."""
        self.metadata: Mapping[str, Any] = {}
        self.emit: EventEmitter | None = None
        """What shows events of the host's tools."""
        self.max_rounds = _MAX_ROUNDS
        """Of a question."""
        self.turns: list[tuple[str, Answer]] = []

    async def ask(self, text: str) -> Answer:
        """Send a message and return the answer once all its rounds are over."""
        answer = self._new_answer(text)
        for _ in range(self.max_rounds):
            await self._round(answer)
            if not await self._run_tools(answer):
                break
        return answer

    def stream(self, text: str) -> AsyncGenerator[Json]:
        """Send a message and return the pipe's own stream, which the caller closes."""
        return self._events(self._new_answer(text))

    async def title(self) -> None:
        """Ask for a title, as Open WebUI does after the first answer."""
        messages = [{"role": "user", "content": "### Task:\nGenerate a concise title for: Is it warm?"}]
        await self._call({**self.body(), "messages": messages, "stream": False}, "title_generation")

    async def complete(self, text: str) -> Json:
        """Send a message without streaming and return what the pipe returns."""
        self._new_answer(text)
        return cast("Json", await self._call({**self.body(), "stream": False}))

    def messages(self) -> list[Json]:
        """The chat as the host sends it to a pipe; the last answer as far as it is written."""
        messages: list[Json] = [{"role": "system", "content": self.system}] if self.system else []
        for text, answer in self.turns:
            messages += [{"role": "user", "content": text}, *as_messages(answer.output)]
        if self.attached:
            first = next(message for message in messages if message["role"] == "user")
            first["content"] = [{"type": "text", "text": first["content"]}, *self.attached]
        return messages

    def body(self) -> Json:
        """The request body that the pipe gets."""
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
        functions = [{"name": name, "description": name, "parameters": parameters} for name in self._tools]
        tools = [{"type": "function", "function": function} for function in functions]
        body = {"model": f"openrouter.{self.model}", "messages": self.messages(), "stream": True}
        return {**body, **({"tools": tools} if tools else {}), **self.parameters}

    def _new_answer(self, text: str) -> Answer:
        answer = Answer()
        self.turns.append((text, answer))
        return answer

    async def _events(self, answer: Answer) -> AsyncGenerator[Json]:
        events = await self._call(self.body())
        earlier, output = answer.output, list[Json]()
        async for event in cast("AsyncGenerator[Json]", events):
            answer.events.append(event)
            if "error" in event:
                answer.error, answer.reference = split_reference(event["error"]["message"])
            elif "event" not in event:
                output = reduced(output, json.loads(json.dumps(event)))
                answer.output = [*earlier, *output]
                if line := failure_of(event.get("item") or {}):
                    answer.error, answer.reference = split_reference(line)
            yield event

    async def _call(self, body: Json, task: str | None = None) -> Any:
        metadata: Json = {"chat_id": self.chat_id, "message_id": f"message-{len(self.turns)}"}
        metadata["tools"] = {name: {"type": "builtin"} for name in self.builtin_tools}
        metadata |= self.metadata
        return await self._pipe.pipe(
            body,
            __user__=self.user,
            __metadata__=metadata,
            __task__=task,
            __event_emitter__=self.emit,
        )

    async def _round(self, answer: Answer) -> None:
        async for _ in self._events(answer):
            pass
        if answer.output and answer.output[-1]["type"] == "message":
            part = answer.output[-1]["content"][-1]
            part["text"] = part["text"].strip()

    async def _run_tools(self, answer: Answer) -> bool:
        """Run every call without an output, whatever its status; return whether there was one."""
        done = {item["call_id"] for item in answer.output if item["type"] == "function_call_output"}
        calls = [
            item for item in answer.output if item["type"] == "function_call" and item["call_id"] not in done
        ]
        for call in calls:
            arguments = json.loads(call["arguments"])
            call["arguments"] = json.dumps(arguments, separators=(",", ":"))
            ids = {"id": f"fco_{call['call_id']}", "call_id": call["call_id"]}
            returned = await self.run_tool(call)
            call["status"] = returned["status"]
            answer.output.append({"type": "function_call_output", **ids, **returned})
        return bool(calls)

    async def run_tool(self, call: Json) -> Json:
        """Run the tool of a call, and return what its output has besides its ids."""
        text = self._tools[call["name"]](json.loads(call["arguments"]))
        return {"output": [{"type": "input_text", "text": text}], "status": "completed"}


def split_reference(line: str) -> tuple[str, str]:
    """Return the line of an error without its reference, and the reference, "" where it has none."""
    found = re.search(r" \(reference ([A-Z]{6})\)$", line)
    return (line[: found.start()], found[1]) if found else (line, "")


def reduced(output: list[Json], event: Json) -> list[Json]:
    """The items after one native event, by Open WebUI's own rules."""
    kind, index = event["type"], event.get("output_index", 0)
    if kind == "response.completed":
        return event["response"].get("output") or output
    if kind == "response.output_item.added":
        return [*output[:index], event["item"], *output[index:]]
    if kind == "response.output_item.done":
        return [*output[:index], event["item"], *output[index + 1 :]]
    item = output[index]
    if kind == "response.output_text.delta":
        item["content"][0]["text"] += event["delta"]
    if kind == "response.function_call_arguments.delta":
        item["arguments"] += event["delta"]
    return output


def lines_of(event: Json) -> list[str]:
    """The lines about an answer that a native event shows, as plain text."""
    status = event.get("event", {})
    if status.get("type") == "status" and not status["data"].get("hidden"):
        return [status["data"]["description"]]
    is_added = event.get("type") == "response.output_item.added"
    return lines_in(event["item"]) if is_added and FAILED not in event["item"] else []


def lines_in(item: Json) -> list[str]:
    """The lines about an answer that an item has, as plain text."""
    paragraphs = item["content"][0]["text"].split("\n>\n") if item["type"] == NOTICE else []
    plain = [re.sub(r"\[[^\]]*\]\(([^)]*)\)", r"\1", each.removeprefix("> ")) for each in paragraphs]
    return [re.sub(r"\\(?=[\W_])", "", each) for each in plain]


def failure_of(item: Json) -> str:
    """The line of the error that an item of an answer is, "" for any other."""
    return "".join(lines_in(item)) if FAILED in item else ""


def _text_of(item: Json) -> str:
    return "".join(part["text"] for part in item["content"] if part["type"] == "output_text")


def as_messages(output: Sequence[Json]) -> list[Json]:
    """Return stored items as messages: one assistant message for each round, then its tool results."""
    completed = {item["call_id"] for item in output if item["type"] == "function_call_output"}
    rounds: list[tuple[list[Json], list[Json]]] = [([], [])]
    for item in output:
        if item["type"] == "function_call_output":
            rounds[-1][1].append(item)
            continue
        if rounds[-1][1]:
            rounds.append(([], []))
        rounds[-1][0].append(item)
    return [message for items, results in rounds for message in _round_messages(items, results, completed)]


def _round_messages(
    items: Sequence[Json], results: Sequence[Json], completed: AbstractSet[str]
) -> list[Json]:
    texts = [text for item in items if item["type"] == "message" and (text := _text_of(item))]
    functions = {
        item["call_id"]: {"name": item["name"], "arguments": item["arguments"]}
        for item in items
        if item["type"] == "function_call"
        and item["call_id"] in completed
        and item["status"] in {"completed", "failed"}
    }
    calls = [{"id": each, "type": "function", "function": function} for each, function in functions.items()]
    details = [detail for item in items for detail in item.get("reasoning_details") or []]
    more = {name: value for name, value in (("tool_calls", calls), ("reasoning_details", details)) if value}
    message = {"role": "assistant", "content": "\n".join(texts), **more}
    tool_messages: list[Json] = [
        {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"][0]["text"]}
        for item in results
    ]
    pictures = [part["image_url"] for item in results for part in item["output"][1:]]
    if pictures:
        parts = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
        said = {"type": "text", "text": TOOL_IMAGES_TEXT}
        tool_messages.append({"role": "user", "content": [said, *parts]})
    return [message, *tool_messages] if texts or more else tool_messages
