"""What users do: one function an act, and how often each is drawn.

An act is told by its step alone, a plain object: whose it is, in which of their chats, and the numbers of what they
say. Each message has a word that no other has, by which it is known wherever it turns up.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.ports import FileContent
from scripts.faults.audit import MARKER
from scripts.standin.drawing import draw as draw_picture

from .host import DOCUMENT, Chat, Message, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .world import Worker, World

Json = dict[str, Any]

MODELS = (
    *("openai/gpt-5.2", "anthropic/claude-sonnet-4.5", "google/gemini-3-pro", "standin/small") * 2,
    *(
        "standin/reasoning",
        "standin/anthropic",
        "openai/gpt-oss-120b",
        "standin/own-key",
        "mistralai/mistral-small-8k",
    ),
    *("deepseek/deepseek-v3.2", "anthropic/claude-opus-4.8", "x-ai/grok-4.1-fast", "standin/hours"),
)
CODE = re.compile(r"The code of (keeper\d+) is (\d+)\.")
"""What each message says that no other does."""
SILENT = frozenset({"delete", "depart", "prompt", "valves", "rewrite"})
"""Acts in which nothing is asked."""
WITHOUT_CHAT = frozenset({"temporary", "program", "leave", "stop", "delete", "depart", "valves", "mention"})
"""Acts that are in no chat, or find theirs themselves."""
COMMANDS = (
    "/context",
    "/cost",
    "/summarize",
    "/restore",
    "/discard",
    "/aim thrifty",
    "/aim faithful",
    "/spending",
    "/help",
)
ACTS = {
    "ask": 34,
    "tools": 33,
    "again": 5,
    "edit": 5,
    "branch": 3,
    "stop": 4,
    "temporary": 3,
    "program": 3,
    "command": 3,
    "picture": 2,
    "document": 2,
    "look_up": 0.5,
    "side_by_side": 1.5,
    "fork": 1,
    "go_on": 1,
    "rewrite": 1,
    "delete": 1,
    "depart": 0.2,
    "prompt": 0.5,
    "valves": 0.5,
    "leave": 1,
    "mention": 1.5,
    "remember": 3,
    "paste": 1,
}
"""How often each is done."""
USER_VALVES: tuple[Json, ...] = (
    {},
    {"STATUS_LINES": "all"},
    {"COST_LINE": "all"},
    {"REASONING_EFFORT": "low"},
    {"PERSIST_REASONING_TOKENS": "disabled"},
)
_WORDS = str.split(
    "the keeper wrote of gulls and salt while ships went north past stones that nobody has counted since winter "
    "came early over quiet water and each lamp burned low before anyone asked why it should never be put out"
)
_LENGTHS = ((70, 3, 60), (22, 60, 400), (7, 400, 2_500), (1, 2_500, 9_000))
"""How often a message has between so many words."""


@dataclass
class Drawn:
    """How far the drawing of a story has come."""

    users: int
    messages: int = 0
    model_of: dict[int, str] = field(default_factory=dict)
    """Each user's, until they take another."""


def draw(chance: Random, drawn: Drawn) -> Json:
    """The next step of somebody."""
    user = chance.randrange(drawn.users)
    act = chance.choices([*ACTS], [*ACTS.values()])[0]
    if user not in drawn.model_of or chance.random() < 0.04:
        drawn.model_of[user] = chance.choice(MODELS)
    step: Json = {"user": user, "act": act, "model": drawn.model_of[user], "worker": chance.getrandbits(8)}
    step["chat"] = chance.choices((-1, chance.getrandbits(16), None), (72, 16, 12))[0]
    _, least, most = chance.choices(_LENGTHS, [share for share, *_ in _LENGTHS])[0]
    step["words"], step["number"] = chance.randrange(least, most), chance.getrandbits(32)
    step["orders"] = _orders(chance, act)
    drawn.messages += act not in SILENT
    return step


def _orders(chance: Random, act: str) -> str:
    """What the provider is to answer with, as directives of the stand-in."""
    said = [f"deltas={chance.choice((1, 3, 8, 20))}"]
    if act == "tools" or (act in {"again", "edit", "mention"} and chance.random() < 0.3):
        sizes = (30, 400, 3_000, 3_500, 12_000, 40_000)
        arguments = json.dumps(
            {"size": chance.choices(sizes, (4, 6, 5, 2, 3, 1))[0], "about": chance.choice(_WORDS)}
        )
        name = chance.choice(("look_up", "look_up", "count_things", "read_page"))
        said.append(f"call={name} args={arguments} times={chance.choice((1, 1, 1, 2))}")
        if chance.random() < 0.2:
            said.append(f"rounds={chance.choice((2, 3))}")
    if act == "stop":
        said.append("delay=0.3")
    return " ".join(f"[[standin: {each}]]" for each in said)


def text_of(world: World, step: Json) -> str:
    """What a user writes: a word that no other message has, then more."""
    chance, user = Random(step["number"]), world.user(step)  # noqa: S311 - no secret
    user.words += 1
    begin = chance.randrange(len(_WORDS))
    said = [_WORDS[(begin + at * (1 + at // 40)) % len(_WORDS)] for at in range(step["words"])]
    half = len(said) // 2
    said[half:half] = [f"The code of keeper{step['number'] % 10**7} is {step['number']}."]
    return f"canary-{user.id}-{user.words} {' '.join(said)} {step['orders']}"


def marks_of(output: list[Json]) -> list[str]:
    """The names of stored items in an answer."""
    return [name for found in MARKER.findall(json.dumps(output)) for name in found if name]


class Acts:
    """The acts of one step, on one of the host's workers."""

    chat: Chat

    def __init__(self, world: World, worker: Worker, step: Json) -> None:
        self.world, self.worker, self.step = world, worker, step
        self.host, self.user = world.host, world.user(step)

    async def run(self) -> None:
        """Do what the step says; in one chat, one thing after the other."""
        act: Callable[[], Awaitable[None]] = getattr(self, self.step["act"])
        if self.step["act"] in WITHOUT_CHAT:
            return await act()
        self.chat = self._chat()
        async with self.chat.lock:
            return await act()

    def _chat(self) -> Chat:
        """The chat that the step names, or a new one."""
        at, chats = self.step["chat"], self.host.chats_of(self.user.id)
        if at is None or not chats:
            chat = self.host.new_chat(self.user.id)
            if self.step["number"] % 5 == 0:
                chat.system = f"You are keeper {self.step['number'] % 97}. Be brief."
            return chat
        if at < 0:
            return max(chats, key=lambda chat: chat.touched)
        return chats[int(at) % len(chats)]

    async def _answer(
        self, chat: Chat, question: Message, model: str = "", *, expects: str = "", **options: Any
    ) -> None:
        model = model or self.step["model"]
        answer = chat.add(self.host.new_message("assistant", question.id, model=model))
        request = Request(chat, question, model, chat.tools, valves=dict(self.user.valves), expects=expects)
        await self.host.answer(self.worker, request, answer, **options)

    def _question(self, chat: Chat, text: str, parent: str | None, files: tuple[str, ...] = ()) -> Message:
        return chat.add(self.host.new_message("user", parent, text, files=files))

    async def ask(
        self, *, text: str = "", files: tuple[str, ...] = (), documents: tuple[str, ...] = (), **options: Any
    ) -> None:
        """Go on with a chat; the first answer of one gives it a title."""
        chat = self.chat
        is_new = not chat.messages
        question = self._question(chat, text or text_of(self.world, self.step), chat.leaf, files)
        question.documents = documents
        await self._answer(chat, question, **options)
        if is_new and self.step["number"] % 3 == 0:
            await self.host.task(self.worker.pipe, chat, self.step["model"])

    async def remember(self) -> None:
        """Ask for what an earlier message of the chat says."""
        told = [found for message in self.chat.questions if (found := CODE.search(message.text))]
        if not told:
            return await self.ask()
        keeper, code = told[self.step["number"] % len(told)].groups()
        text = f"canary-{self.user.id}-0 What is the code of {keeper}? {self.step['orders']}"
        return await self.ask(text=text, expects=code)

    async def paste(self) -> None:
        """Write what marks another user's answer of the same model into one's own, and go on.

        Not where thoughts stand within a text: they are found again by its characters, those of a mark among them.
        """
        others = [chat for chat in self.host.chats.values() if chat.user_id != self.user.id]
        answers = (answer for chat in others for answer in chat.answers)
        alike = (answer for answer in answers if answer.model == self.step["model"])
        marks = sorted({mark for answer in alike for mark in marks_of(answer.output)})
        whole = (answer.output for answer in self.chat.answers if '"after"' not in json.dumps(answer.output))
        texts = [item for output in whole for item in output if item["type"] == "message"]
        if marks and texts:
            part = texts[self.step["number"] % len(texts)]["content"][0]
            part["text"] = f"[{marks[self.step['number'] % len(marks)]}]: #\n{part['text']}"
            self.chat.sent = ()
        await self.ask()

    async def tools(self) -> None:
        """The same with tools, which the chat then has."""
        self.chat.tools = TOOL_NAMES
        await self.ask()

    async def again(self) -> None:
        """Have the last question answered once more."""
        chat = self.chat
        if chat.questions:
            await self._answer(chat, chat.questions[-1])
        else:
            await self.ask()

    async def edit(self) -> None:
        """Write an earlier question anew, which begins another branch."""
        chat = self.chat
        if not chat.questions:
            return await self.ask()
        old = chat.questions[self.step["number"] % len(chat.questions)]
        return await self._answer(chat, self._question(chat, text_of(self.world, self.step), old.parent))

    async def branch(self) -> None:
        """Go to another branch, and on from there."""
        chat = self.chat
        parents = {message.parent for message in chat.messages.values()}
        leaves = [m.id for m in chat.messages.values() if m.role == "assistant" and m.id not in parents]
        if leaves:
            chat.leaf = leaves[self.step["number"] % len(leaves)]
        question = self._question(chat, text_of(self.world, self.step), chat.leaf)
        await self._answer(chat, question)

    async def stop(self) -> None:
        """Stop an answer in the middle."""
        is_stopped, task = asyncio.Event(), asyncio.current_task()
        assert task

        def stop() -> None:
            is_stopped.set()
            task.cancel()

        timer = asyncio.get_running_loop().call_later(self.step["number"] % 400 / 100, stop)
        try:
            self.chat = self._chat()
            async with self.chat.lock:
                await self.ask(stop=is_stopped)
        except asyncio.CancelledError:
            if not is_stopped.is_set():
                raise
            task.uncancel()
        finally:
            timer.cancel()

    async def temporary(self) -> None:
        """A chat that is not saved, of one or two messages."""
        chat = self.host.new_chat(self.user.id, prefix="temporary:")
        for _ in range(1 + self.step["number"] % 2):
            await self._answer(chat, self._question(chat, text_of(self.world, self.step), chat.leaf))
        del self.host.chats[chat.id]

    async def program(self) -> None:
        """A program with the user's API key."""
        text = text_of(self.world, self.step)
        is_streamed = self.step["number"] % 2 == 0
        await self.host.program(self.worker, self.user.id, self.step["model"], text, stream=is_streamed)

    async def mention(self) -> None:
        """Mention a model in the channel in which all write."""
        tools = TOOL_NAMES if self.step["number"] % 3 == 0 else ()
        text = text_of(self.world, self.step)
        await self.host.mention(self.worker, self.user.id, self.step["model"], text, tools)

    async def leave(self) -> None:
        """A program that goes away in the middle."""
        task = asyncio.ensure_future(self.program())
        await asyncio.wait({task}, timeout=self.step["number"] % 300 / 100)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def command(self) -> None:
        """One of our commands."""
        await self.ask(text=COMMANDS[self.step["number"] % len(COMMANDS)])

    async def picture(self) -> None:
        """A message with a picture."""
        content = draw_picture(("red", "green", "blue")[self.step["number"] % 3])
        file_id = f"file-{self.host.number()}"
        self.host.files[file_id] = self.user.id, FileContent("picture.png", "image/png", content)
        await self.ask(files=(file_id,))

    async def document(self) -> None:
        """A message with a text document."""
        file_id, number = f"file-{self.host.number()}", self.step["number"]
        lines = (f"{file_id} of {self.user.id}, line {at}: a lamp." for at in range(1 + number % 200))
        content = "\n".join([f"{DOCUMENT}{file_id}", *lines]).encode()
        self.host.files[file_id] = self.user.id, FileContent(f"{file_id}.txt", "text/plain", content)
        await self.ask(documents=(file_id,))

    async def look_up(self) -> None:
        """Ask in a chat that has a collection of knowledge from then on."""
        self.chat.has_knowledge = True
        await self.ask()

    async def side_by_side(self) -> None:
        """Two models answer one question at once."""
        chat = self.chat
        question = self._question(chat, text_of(self.world, self.step), chat.leaf)
        other = MODELS[self.step["number"] % len(MODELS)]
        both = [self._answer(chat, question), self._answer(chat, question, other)]
        await asyncio.gather(*both)

    async def fork(self) -> None:
        """Copy a chat, and go on in the copy."""
        chat, copy = self.chat, self.host.new_chat(self.user.id)
        copy.system, copy.tools, copy.leaf = chat.system, chat.tools, chat.leaf
        copy.has_knowledge = chat.has_knowledge
        for message in chat.messages.values():
            fields = (message.id, message.parent, message.role, message.text, message.model)
            output = json.loads(json.dumps(message.output))
            rest = message.files, message.created, message.documents
            copy.messages[message.id] = Message(*fields, output, *rest)
        async with copy.lock:
            question = self._question(copy, text_of(self.world, self.step), copy.leaf)
            await self._answer(copy, question)

    async def go_on(self) -> None:
        """Have the last answer continued."""
        chat = self.chat
        if not chat.answers or not chat.answers[-1].output or chat.leaf != chat.answers[-1].id:
            return await self.ask()
        answer = chat.answers[-1]
        request = Request(chat, chat.messages[answer.parent or ""], answer.model, continues=answer)
        return await self.host.answer(self.worker, request, answer)

    async def rewrite(self) -> None:
        """Change the text of an answer by hand."""
        chat = self.chat
        texts = [item for answer in chat.answers for item in answer.output if item["type"] == "message"]
        if texts:
            part = texts[self.step["number"] % len(texts)]["content"][0]
            part["text"] = f"{part['text']} Changed {self.step['number'] % 1000}."
            chat.sent = ()

    async def delete(self) -> None:
        """Delete a chat."""
        chats = self.host.chats_of(self.user.id)
        if len(chats) > 3:
            self.host.delete_chat(chats[self.step["number"] % len(chats)].id)

    async def depart(self) -> None:
        """Have the user deleted, unless it is the administrator."""
        if not self.user.is_admin:
            self.world.replace_user(self.step)

    async def prompt(self) -> None:
        """Change a chat's system prompt."""
        self.chat.system = f"You are keeper {self.step['number'] % 89}. Say little."

    async def valves(self) -> None:
        """Change the user's own valves."""
        self.user.valves = dict(USER_VALVES[self.step["number"] % len(USER_VALVES)])


TOOL_NAMES = ("look_up", "count_things", "read_page")
