"""Open WebUI in short: users, chats as trees of messages, files, and what it does between a page and a pipe.

Chats are kept as Open WebUI 0.12 keeps them (`models/chats.py`, `utils/middleware.py`, `utils/response.py`): the items
of an answer as they were streamed, a branch of the tree as messages in each request, tools run between two calls.
What a process that dies has not written is lost.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

from starlette.responses import StreamingResponse

from open_webui_openrouter_pipe.host.call import AttachedFile
from open_webui_openrouter_pipe.host.call import Call as HostCall
from open_webui_openrouter_pipe.money.limits import Group, Person
from open_webui_openrouter_pipe.ports import FileContent
from scripts.faults.audit import ULID
from scripts.harness.page import as_messages, failure_of, lines_of, reduced
from scripts.standin.plan import plain_text

from .services import CALL, Call

if TYPE_CHECKING:
    from open_webui_openrouter_pipe.pipe import Pipe

Json = dict[str, Any]

FUNCTION = "openrouter"
"""The id of the function, which begins the ids of its models."""
MAX_ROUNDS = 8
MARKED = re.compile(rf"^\[{ULID}\]: #$", re.MULTILINE)
"""A marker in a text."""
ZONE = "Europe/Berlin"
CHANNEL = "channel:"
"""How the id of a channel begins, where a chat's is expected."""
MOST_POSTS = 12
"""Of a thread, before the next one is begun."""
KNOWLEDGE = "The book"
"""How an excerpt begins that the host has found in its one collection."""
DOCUMENT = "Document "
"""How the text of each document begins."""
TOOL_SECONDS = 0.3
"""What a tool takes where the pipe runs it."""


@dataclass(slots=True)
class User:
    """One of the host's users, with what is stored of their valves."""

    id: str
    is_admin: bool = False
    is_deleted: bool = False
    valves: Json = field(default_factory=dict)
    words: int = 0
    """How many messages they have written: each has a word of its own."""


@dataclass(slots=True)
class Message:
    """One message of a chat; `files` and `documents` are the ids of the pictures and texts that its user attached."""

    id: str
    parent: str | None
    role: str
    text: str = ""
    model: str = ""
    output: list[Json] = field(default_factory=list)
    files: tuple[str, ...] = ()
    created: float = 0.0
    documents: tuple[str, ...] = ()


@dataclass(slots=True)
class Chat:
    """A tree of messages, and which of them the page shows last."""

    id: str
    user_id: str
    system: str = ""
    tools: Sequence[str] = ()
    has_knowledge: bool = False
    """Whether the host looks for each question in a collection."""
    messages: dict[str, Message] = field(default_factory=dict)
    leaf: str | None = None
    sent: tuple[Any, ...] = ()
    """What the last request was made of."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of whoever writes in it."""

    def branch(self, leaf: str | None) -> list[Message]:
        """The messages up to one of them, oldest first."""
        found: list[Message] = []
        while leaf is not None:
            found.append(self.messages[leaf])
            leaf = found[-1].parent
        return found[::-1]

    def add(self, message: Message) -> Message:
        """Add a message, which the page then shows."""
        self.messages[message.id] = message
        self.leaf = message.id
        return message

    @property
    def touched(self) -> float:
        """When somebody last wrote in it."""
        return max((message.created for message in self.messages.values()), default=0.0)

    @property
    def answers(self) -> list[Message]:
        """Those of the branch that is shown."""
        return [message for message in self.branch(self.leaf) if message.role == "assistant"]

    @property
    def questions(self) -> list[Message]:
        """The user's on that branch."""
        return [message for message in self.branch(self.leaf) if message.role == "user"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What its user saw of one turn, and of what it was made.

    `messages` are the user's words on its branch, oldest first; `before` all that its last request must have of that
    branch and of its tools, word for word; `output` the stored items as JSON; `lines` what was said about the answer;
    `ended` is "whole", "stopped" or "killed". `appended` says that it went on where the chat's last turn ended, with
    the same model, tools and valves; `expects` is a word that its request must have, and `worker` the name of the
    process in which it was asked.
    """

    call: Call
    messages: tuple[str, ...]
    output: str
    lines: tuple[str, ...] = ()
    error: str = ""
    ended: str = "whole"
    appended: bool = False
    expects: str = ""
    before: tuple[str, ...] = ()
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A user ("user_id") or a chat ("chat_id") that is no more, by its id, and since when, in true epoch seconds."""

    column: str
    id: str
    when: float


@dataclass(slots=True)
class Request:
    """What is asked of the pipe for one answer."""

    chat: Chat
    question: Message
    model: str
    tools: Sequence[str] = ()
    valves: Json = field(default_factory=dict)
    """The user's."""
    continues: Message | None = None
    expects: str = ""
    number: int = 0
    """Of all."""


class Process(Protocol):
    """One of the host's processes."""

    name: str
    pipe: Pipe
    is_dead: bool


class Host:
    """All that the host keeps, whichever of its processes does the work."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.users: dict[str, User] = {}
        self.groups: dict[str, frozenset[str]] = {}
        """The users of each, by its name."""
        self.chats: dict[str, Chat] = {}
        self.thread: list[str] = []
        """What all have written in the channel, with their names."""
        self.deleted: list[Deleted] = []
        """Users and chats whose rows were not looked for yet."""
        self.files: dict[str, tuple[str, FileContent]] = {}
        self.valves: Json = {}
        """The administrator's, as they are stored."""
        self.has_changed = False
        """Whether they were others before."""
        self.own_valves: dict[Pipe, Json] = {}
        """Those that one process alone has: it has not seen yet what was changed."""
        self.answers: list[Shown] = []
        """Those that were not judged yet."""
        self.log: Callable[..., None] = lambda *_: None
        self.tools_run: Counter[str] = Counter()
        """How many were run "tools_by_host", and how many "tools_by_pipe"."""
        self._numbers = 0

    def number(self) -> int:
        """A number that nothing else has."""
        self._numbers += 1
        return self._numbers

    def new_chat(self, user_id: str, *, prefix: str = "") -> Chat:
        """Begin a chat; a prefix makes it one that is not saved."""
        chat = Chat(f"{prefix}chat-{self.number()}", user_id)
        self.chats[chat.id] = chat
        return chat

    def chats_of(self, user_id: str) -> list[Chat]:
        """A user's saved chats, oldest first."""
        return [chat for chat in self.chats.values() if chat.user_id == user_id and ":" not in chat.id]

    def delete_chat(self, chat_id: str) -> None:
        """Delete a chat."""
        del self.chats[chat_id]
        self.deleted.append(Deleted("chat_id", chat_id, self.clock()))

    def delete_user(self, user_id: str) -> None:
        """Delete a user with their chats; who asks something just then gets an answer."""
        self.users[user_id].is_deleted = True
        self.deleted.append(Deleted("user_id", user_id, self.clock()))
        for chat in self.chats_of(user_id):
            self.delete_chat(chat.id)

    def new_message(self, role: str, parent: str | None, text: str = "", **fields: Any) -> Message:
        """A message that is in no chat as yet."""
        return Message(f"message-{self.number()}", parent, role, text, created=self.clock(), **fields)

    # --- a turn

    async def answer(
        self, process: Process, request: Request, answer: Message, stop: asyncio.Event | None = None
    ) -> None:
        """Have a question answered, with all rounds of tools, and keep what came, unless the process dies."""
        turn = _Turn(self, process.pipe, request, answer)
        ended = "killed"
        try:
            ended = await turn.run()
        except asyncio.CancelledError:
            ended = "stopped" if stop and stop.is_set() else "killed"
            raise
        finally:
            ended = "killed" if process.is_dead else ended
            if ended != "killed":
                answer.output = turn.output
            self._note(process, request, turn, ended)

    def _note(self, process: Process, request: Request, turn: _Turn, ended: str) -> None:
        said = tuple(message.text for message in turn.path if message.role == "user")
        results = (item for item in turn.output if item["type"] == "function_call_output")
        before = (*turn.before, *words_of(results))
        output, lines = json.dumps(turn.output), tuple(turn.lines)
        self.log("answer", request.chat.id, turn.answer.id, ended, output, turn.lines, turn.error)
        expects = request.expects if self.valves_of(process.pipe).get("RECALL", True) else ""
        asked = turn.appended, expects, before, process.name
        self.answers.append(Shown(turn.call, said, output, lines, turn.error, ended, *asked))

    async def mention(
        self, process: Process, user_id: str, model: str, text: str, tools: Sequence[str] = ()
    ) -> None:
        """Have a model answer that a user has mentioned in the channel (`routers/channels.py`)."""
        if len(self.thread) >= MOST_POSTS:
            self.thread.clear()
        self.thread.append(f"{user_id}: {plain_text(text)}")
        system = f"You are {model}, participating in a threaded conversation. Be concise and conversational."
        history = "\n\n".join(self.thread)
        system += (
            f"Here's the thread history:\n\n\n{history}\n\n\nContinue the conversation naturally as {model}."
        )
        chat = Chat(f"{CHANNEL}general", user_id, system, tools)
        question = chat.add(self.new_message("user", None, f"{user_id}: {text}"))
        answer = chat.add(self.new_message("assistant", question.id, model=model))
        await self.answer(process, Request(chat, question, model, tools), answer)
        self.thread.append(f"{model}: {' '.join(words_of(answer.output))}")

    async def task(self, pipe: Pipe, chat: Chat, model: str, kind: str = "title_generation") -> None:
        """Ask for a title, as after a first answer."""
        question = f"### Task:\nGenerate a concise title for:\n{plain_text(chat.questions[0].text)[:400]}"
        CALL.set(Call(chat.user_id, chat.id, "", task=kind))
        body = {
            "model": f"{FUNCTION}.{model}",
            "messages": [{"role": "user", "content": question}],
            "stream": False,
        }
        metadata: Json = {"chat_id": chat.id, "message_id": None, "task_body": {"messages": []}}
        said = await self._call(pipe, chat.user_id, body, metadata, kind)
        self.log("task", chat.id, json.dumps(said))

    async def program(self, process: Process, user_id: str, model: str, text: str, *, stream: bool) -> None:
        """Ask as a program does, with an API key."""
        call = Call(user_id, "", "", task="")
        CALL.set(call)
        body = {
            "model": f"{FUNCTION}.{model}",
            "messages": [{"role": "user", "content": text}],
            "stream": stream,
        }
        chunks: list[Any] = []
        said = await self._call(process.pipe, user_id, body, {"chat_id": ""}, None)
        if isinstance(said, StreamingResponse):
            async with aclosing(cast("AsyncGenerator[Any]", said.body_iterator)) as pieces:
                chunks += [
                    piece if isinstance(piece, str) else bytes(piece).decode() async for piece in pieces
                ]
        else:
            chunks.append(said if isinstance(said, dict) else bytes(said.body).decode())
        output = json.dumps(chunks)
        self.log("program", user_id, output)
        error = output if any('"error"' in str(chunk) or "error" in chunk for chunk in chunks) else ""
        self.answers.append(Shown(call, (text,), output, (), error, worker=process.name))

    async def _call(self, pipe: Pipe, user_id: str, body: Json, metadata: Json, task: str | None) -> Any:
        user = self.users[user_id]
        pipe.valves = pipe.Valves(**self.valves_of(pipe))
        given = {
            "id": user.id,
            "name": user.id,
            "role": "admin" if user.is_admin else "user",
            "valves": pipe.UserValves(**user.valves),
        }
        options: Json = {"__user__": given, "__metadata__": metadata, "__task__": task}
        return await pipe.pipe(body, **options, __event_emitter__=_nowhere)

    def valves_of(self, pipe: Pipe) -> Json:
        """The administrator's valves, as a process has them."""
        return {**self.valves, **self.own_valves.get(pipe, {})}

    def image_url(self, file_id: str) -> str:
        """A stored picture as the host writes it into messages."""
        import base64

        _, file = self.files[file_id]
        return f"data:{file.media_type};base64,{base64.b64encode(file.content).decode()}"

    # --- what the pipe asks of its host

    async def existing_users(self, user_ids: Sequence[str]) -> AbstractSet[str]:
        """Those who exist."""
        return {each for each in user_ids if each in self.users and not self.users[each].is_deleted}

    async def existing_chats(self, chat_ids: Sequence[str]) -> AbstractSet[str]:
        """Those that exist."""
        return {each for each in chat_ids if each in self.chats}

    async def naming_chats(self, user_id: str, ids: Sequence[str]) -> Mapping[str, str]:
        """A chat of the user for each id that one names."""
        texts = [
            (chat.id, json.dumps([m.output for m in chat.messages.values()]))
            for chat in self.chats_of(user_id)
        ]
        return {each: chat_id for chat_id, text in texts for each in ids if each in text}

    def document(self, file_id: str) -> str:
        """The text of a document."""
        return self.files[file_id][1].content.decode()

    async def attached_documents(self, call: HostCall) -> Mapping[int, tuple[AttachedFile, ...]]:
        """The documents of a chat by the index of their message, each once."""
        chat, found, known = self.chats.get(call.chat_id), dict[int, tuple[AttachedFile, ...]](), set[str]()
        asked = chat.branch(call.user_message_id) if chat and call.documents else []
        users = [at for at, message in enumerate(call.messages) if message.get("role") == "user"]
        for at, message in zip(users, (each for each in asked if each.role == "user"), strict=False):
            new = [each for each in message.documents if each not in known]
            known.update(new)
            if new:
                found[at] = tuple(AttachedFile(each, f"{each}.txt", "text/plain", None) for each in new)
        return found

    async def pauses(self, call: HostCall) -> Sequence[float]:
        """The seconds between the user's messages of a chat."""
        chat = self.chats.get(call.chat_id)
        times = [message.created for message in chat.questions] if chat else []
        return [after - before for before, after in pairwise(times)]

    async def groups_of(self, user_id: str) -> Sequence[Group]:
        """A user's groups."""
        return [Group(name, name) for name, users in self.groups.items() if user_id in users]

    async def people(self) -> Mapping[str, Person]:
        """All users."""
        there = (user for user in self.users.values() if not user.is_deleted)
        return {user.id: Person(user.id, user.is_admin) for user in there}

    async def stored_valves(self, _: str) -> Mapping[str, Any]:
        """The administrator's valves."""
        return self.valves


class _Turn:
    """One answer while it comes."""

    def __init__(self, host: Host, pipe: Pipe, request: Request, answer: Message) -> None:
        self.host, self.pipe, self.request, self.answer = host, pipe, request, answer
        chat, question = request.chat, request.question
        self.call = Call(chat.user_id, chat.id, answer.id, task="", valves=request.valves)
        self.path, self.system = chat.branch(question.id), chat.system
        documents = dict.fromkeys(each for message in self.path for each in message.documents)
        self.documents = {each: host.document(each) for each in documents}
        found = f"{KNOWLEDGE} of {question.id}: nobody has counted the stones."
        self.excerpt = found if chat.has_knowledge else ""
        # another answer of the branch may be on its way
        self.before = (*_words_of(self.path), *self.documents.values(), *filter(None, [self.excerpt]))
        self.output: list[Json] = list(request.continues.output) if request.continues else []
        self.lines: list[str] = []
        self.error = ""
        valves = json.dumps([host.valves, host.own_valves.get(pipe), request.valves])
        state = (request.model, tuple(request.tools), chat.system, valves)
        names = tuple((message.id, len(message.output)) for message in self.path)
        before, known = chat.sent or ((), ())
        self.appended = bool(chat.sent) and before == state and names[: len(known)] == known
        self._sent = state, names

    async def run(self) -> str:
        """Go through all rounds; returns how it ended."""
        CALL.set(self.call)
        for _ in range(MAX_ROUNDS):
            await self._round()
            if self.error or not self._run_tools():
                break
        state, names = self._sent
        self.request.chat.sent = (state, (*names, (self.answer.id, len(self.output))))
        return "whole"

    async def _round(self) -> None:
        earlier, output = self.output, list[Json]()
        events = await self.host._call(  # noqa: SLF001 - its own
            self.pipe, self.request.chat.user_id, self._body(), self._metadata(), None
        )
        async for event in cast("AsyncGenerator[Json]", events):
            self.lines += lines_of(event)
            if "error" in event:
                self.error = event["error"]["message"]
            elif "event" not in event:
                kept = event if "delta" in event else json.loads(json.dumps(event))
                output = reduced(output, kept)
                self.output = [*earlier, *output]
                self.error = failure_of(event.get("item") or {}) or self.error
        if self.output and self.output[-1]["type"] == "message":
            part = self.output[-1]["content"][-1]
            part["text"] = part["text"].strip()
            if self.call.chat_id.startswith(CHANNEL) and part["text"].startswith("> "):
                self.error = part["text"]

    def _body(self) -> Json:
        tools = [{"type": "function", "function": _spec(name)} for name in self.request.tools]
        body: Json = {
            "model": f"{FUNCTION}.{self.request.model}",
            "messages": self._messages(),
            "stream": True,
        }
        return {**body, **({"tools": tools} if tools else {})}

    def _messages(self) -> list[Json]:
        messages: list[Json] = [{"role": "system", "content": self.system}] if self.system else []
        for message in self.path:
            if message.role == "user":
                messages.append({"role": "user", "content": self._content(message)})
            else:
                messages += as_messages(_of_model(message.output, message.model == self.request.model))
        return messages + as_messages(self.output)

    def _sources(self) -> list[Json]:
        """What the host has found for the question: excerpts of the chat's documents, and of its knowledge."""
        found = [(_item(each), text) for each, text in self.documents.items()]
        if self.excerpt:
            found.append(({"type": "collection", "id": "collection", "name": "Book"}, self.excerpt))
        return [
            {"source": item, "document": [text], "metadata": [{"source": item["id"]}]} for item, text in found
        ]

    def _content(self, message: Message) -> str | list[Json]:
        text = message.text
        if message is self.request.question and (sources := self._sources()):
            written = (
                f'<source id="{at}" name="{each["source"]["name"]}">{each["document"][0]}</source>'
                for at, each in enumerate(sources, 1)
            )
            text = "\n".join(("### Task:\nUse the context.\n\n<context>", *written, "</context>\n", text))
        if not message.files:
            return text
        urls = [self.host.image_url(each) for each in message.files]
        pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        return [{"type": "text", "text": text}, *pictures]

    def _metadata(self) -> Json:
        chat, question = self.request.chat, self.request.question
        return {
            "chat_id": chat.id,
            "message_id": self.answer.id,
            "session_id": "session",
            "user_message_id": question.id,
            "user_message": {
                "id": question.id,
                "role": "user",
                "content": question.text,
                "files": [*map(_item, question.documents)],
            },
            "files": [*map(_item, self.documents)],
            "sources": self._sources(),
            "base_system_prompt": self.system or None,
            "base_user_prompt": question.text,
            "variables": {} if chat.id.startswith(CHANNEL) else {"{{CURRENT_TIMEZONE}}": ZONE},
            "model": {"id": f"{FUNCTION}.{self.request.model}"},
            "tools": {name: self._tool(name) for name in self.request.tools},
        }

    def _tool(self, name: str) -> Json:
        """One of the tools, as a pipe may run it."""

        async def call(**given: Any) -> str:
            self.host.tools_run["tools_by_pipe"] += 1
            await asyncio.sleep(TOOL_SECONDS)
            return tool_result(name, given)

        return {"tool_id": name, "spec": _spec(name), "callable": call}

    def _run_tools(self) -> bool:
        """Run every call without an output; return whether there was one."""
        done = {item["call_id"] for item in self.output if item["type"] == "function_call_output"}
        calls = [
            each for each in self.output if each["type"] == "function_call" and each["call_id"] not in done
        ]
        self.host.tools_run["tools_by_host"] += len(calls)
        for call in calls:
            call["arguments"] = json.dumps(json.loads(call["arguments"] or "{}"), separators=(",", ":"))
            call["status"] = "completed"
            said = [{"type": "input_text", "text": tool_result(call["name"], json.loads(call["arguments"]))}]
            ids = {"id": f"fco_{call['call_id']}", "call_id": call["call_id"]}
            self.output.append({"type": "function_call_output", **ids, "output": said, "status": "completed"})
        return bool(calls)


def _item(file_id: str) -> Json:
    """A document as the page names it."""
    return {"type": "file", "id": file_id, "name": f"{file_id}.txt", "content_type": "text/plain"}


def _of_model(output: list[Json], is_same: bool) -> list[Json]:  # noqa: FBT001 - of the message
    """What the host sends of stored items: thoughts of another model stay behind."""
    if is_same:
        return output
    return [{name: value for name, value in item.items() if name != "reasoning_details"} for item in output]


def _words_of(path: Sequence[Message]) -> Iterator[str]:
    """The texts and the results of tools on a branch, but for commands and what was said to them."""
    is_command = False
    for message in path:
        if message.role == "user":
            is_command = message.text.startswith("/")
        if not is_command:
            yield from filter(None, (message.text, *words_of(message.output)))


def words_of(output: Iterable[Json]) -> Iterator[str]:
    """The texts of stored items, without markers, and the results of tools."""
    for item in output:
        if item["type"] == "message":
            for part in item["content"]:
                yield from map(str.strip, MARKED.split(part.get("text", "")))
        elif item["type"] == "function_call_output":
            yield item["output"][0]["text"]


class Middleware:
    """What a pipe uses of `utils/middleware.py` to run tools itself; all of them return a text."""

    CITATION_TOOL_NAMES = ()
    UserModel = SimpleNamespace

    async def execute_tool_call(self, _: Json, metadata: Json, __: None, called: Json) -> tuple[Any, ...]:
        """Run one, and return with what it was called, its result, itself, its kind, and where it runs."""
        name, given = called["function"]["name"], json.loads(called["function"]["arguments"])
        tool = metadata["tools"][name]
        return given, await tool["callable"](**given), tool, "", False

    async def process_tool_result(self, _: Any, __: str, result: str, *___: Any) -> tuple[Any, ...]:
        """A result with its files and pages."""
        return result, [], []

    async def convert_url_images_to_base64(self, form_data: Json, user: Any) -> Json:  # noqa: ARG002 - the host's
        """The same, without pictures."""
        return form_data

    async def terminal_event_handler(self, *_: Any) -> None:
        """No tool is a terminal's."""

    def build_terminal_file_tool_result(self, *_: Any) -> None:
        """No tool is a terminal's."""

    def tool_result_content(self, result: str) -> str:
        """What the model reads."""
        return result

    def _is_tool_result_error(self, text: str) -> bool:
        return text.startswith("Error:")


async def _nowhere(_: Json) -> None:
    """Take an event for a page that does not look."""


def _spec(name: str) -> Json:
    properties = {"size": {"type": "integer"}, "about": {"type": "string"}}
    return {"name": name, "description": name, "parameters": {"type": "object", "properties": properties}}


def tool_result(name: str, arguments: Mapping[str, Any]) -> str:
    """What a tool answers: lines or rows of about as many characters as it is asked for."""
    size, about = int(arguments.get("size", 100)), str(arguments.get("about", ""))
    if name == "count_things":
        rows = [
            {"id": number, "name": f"{about} {number}", "count": number * 7 % 13}
            for number in range(size // 50 + 1)
        ]
        return json.dumps(rows)
    if name == "read_page" and size % 7 == 0:
        return f"Error: the page {about} cannot be read"
    line = f"{about}: the keeper wrote entry %d of the log at noon and nobody signed it."
    return "\n".join(line % number for number in range(size // 70 + 1))
