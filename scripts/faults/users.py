"""Who chats, and how: saved and temporary chats, tools, pictures, channels, API keys, and people who leave or stop.

What each question was, and what came before it, is kept for the audit.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import httpx
import socketio

from scripts.faults.upstream import tag
from scripts.launch.api import Api, ApiError
from scripts.standin.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.harness.openwebui import Account, Sent

    Json = dict[str, Any]

Act = Literal[
    "ask",
    "tools",
    "edit",
    "regenerate",
    "picture",
    "temporary",
    "api",
    "leave",
    "close",
    "channel",
    "stop",
    "cut",
]

ACTS: dict[Act, int] = {
    "ask": 9,
    "tools": 4,
    "edit": 1,
    "regenerate": 1,
    "picture": 1,
    "temporary": 3,
    "api": 3,
    "leave": 2,
    "close": 1,
    "channel": 1,
}
"""How often a turn is which, beside the faults among them: stopped by its user, and cut by the provider."""
MODELS = (
    "openai/gpt-5.2",
    "anthropic/claude-sonnet-4.5",
    "google/gemini-3-pro",
    "standin/own-key",
    "mistralai/mistral-small-8k",
)
NARROW = frozenset({"mistralai/mistral-small-8k"})
"""Models whose window a long chat does not fit."""
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
LONGEST_SECONDS = 90.0
POLL_SECONDS = 2.0
REFUSED_SECONDS = 2.0
OUTAGES = (ApiError, httpx.HTTPError, socketio.exceptions.SocketIOError, TimeoutError)
"""What a server says, or does not, whose database or Redis is away."""


@dataclass
class Asked:
    """A question: who asked it, after which others of its chat, and what is known of its answer.

    Questions are known by their numbers; the first of a chat is its own path's first. `heard` is what a program has
    read of its answer, None where the host keeps it.
    """

    number: int
    user: str
    path: tuple[int, ...]
    model: str
    acts: set[str] = field(default_factory=set)
    """What was done with it; a question that is answered again has several."""
    heard: str | None = None


@dataclass
class Turns:
    """The turns of all users in their order, each with what happens in it; keeps what came of them.

    A chat has `length` questions at most, and users rest `pause` seconds between two turns on average.
    """

    plan: list[Act]
    begun: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    asked: dict[int, Asked] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    """How long the turns took that ended well."""
    wrong: list[str] = field(default_factory=list)
    """What a page has shown that it must not."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    deadline: float = float("inf")
    length: int = 6
    pause: float = 0.0

    def take(self) -> int | None:
        """The next one, None after the last."""
        with self.lock:
            if self.begun >= len(self.plan) or time.monotonic() > self.deadline:
                return None
            self.begun += 1
            return self.begun - 1

    def stop(self) -> None:
        """Let no more begin."""
        self.deadline = 0.0

    def count(self, what: str) -> None:
        """Note that something has happened."""
        with self.lock:
            self.counts[what] += 1

    def end(self, what: str, began: float) -> None:
        """Note that a turn has ended well that began then, by the monotonic clock."""
        with self.lock:
            self.counts[f"turn: {what}"] += 1
            self.seconds.append(time.monotonic() - began)

    def note(self, asked: Asked) -> Asked:
        """Keep a question for the audit."""
        with self.lock:
            self.asked[asked.number] = asked
        return asked

    def rest(self, chance: Random) -> None:
        """Let somebody read an answer."""
        time.sleep(chance.uniform(0.0, 2 * self.pause))


@dataclass
class User:
    """One user, with one chat at a time; `key` is their API key, `channel` the path of the channel's messages."""

    name: str
    account: Account
    key: str
    model: str
    turns: Turns
    seed: int
    tool: str
    channel: str
    chat: list[tuple[Sent, Asked]] = field(default_factory=list)
    """The questions of the chat, each with its answer."""

    def run(self) -> None:
        """Take turns until there are none."""
        acts: dict[str, Callable[[int, str, Random], None]] = {
            "temporary": self._temporary,
            "api": self._api,
            "leave": self._api,
            "channel": self._channel,
            "regenerate": self._regenerate,
        }
        while (number := self.turns.take()) is not None:
            act, chance = self.turns.plan[number], Random(f"{self.seed} {number}")  # noqa: S311 - no secret
            began = time.monotonic()
            try:
                acts.get(act, self._chat)(number, act, chance)
            except OUTAGES as error:
                self.turns.count(f"refused: {getattr(error, 'status', type(error).__name__)}")
                self.chat.clear()
                time.sleep(REFUSED_SECONDS)
            else:
                self.turns.end(act, began)
            self.turns.rest(chance)

    def note_asked(self, number: int, act: str, path: tuple[int, ...] = ()) -> Asked:
        """Keep what is asked for the audit, after the questions of a path."""
        return self.turns.note(Asked(number, self.name, (*path, number), self.model, {act}))

    def _chat(self, number: int, act: str, chance: Random) -> None:
        """A question of a saved chat, or another one in place of its last."""
        if len(self.chat) >= self.turns.length:
            self.chat.clear()
        if act == "edit" and self.chat:
            self.chat.pop()
        after, before = self.chat[-1] if self.chat else (None, None)
        fields: Json = {"tool_ids": [self.tool]} if act == "tools" else {}
        if after is None and chance.random() < 0.3:
            tasks = ("title_generation", "tags_generation", "follow_up_generation")
            fields["background_tasks"] = dict.fromkeys(tasks, True)
        if act == "picture":
            fields["files"] = [self.account.upload("boat.png", draw(tag(number)), "image/png")]
        asked = self.note_asked(number, act, before.path if before else ())
        text, model = text_of(number, act, chance), f"openrouter.{self.model}"
        if act == "close":
            with self.account.session() as tab:
                sent = self.account.send(model, text, after=after, session_id=tab.id, **fields)
                time.sleep(chance.choice((0.0, 0.5, 2.0)))
        else:
            sent = self.account.send(model, text, after=after, **fields)
        if act == "stop":
            time.sleep(chance.choice((0.0, 0.2, 0.5, 1.0, 2.0)))
            self.account.stop(sent)
        self._wait(sent)
        self.chat.append((sent, asked))

    def _regenerate(self, number: int, act: str, chance: Random) -> None:
        """Another answer to the last question; where there is none, a question."""
        if not self.chat:
            self._chat(number, "ask", chance)
            return
        sent, asked = self.chat.pop()
        fields: Json = {"tool_ids": [self.tool]} if "tools" in asked.acts else {}
        asked.acts.add(act)
        name, model = str(uuid.uuid4()), f"openrouter.{self.model}"
        again = self.account.send_again(sent, model, message_id=name, **fields)
        self._wait(again)
        self.chat.append((again, asked))

    def _wait(self, sent: Sent) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            if not self.account.api.get(f"/api/tasks/chat/{sent.chat_id}")["task_ids"]:
                return
        self.turns.count("not answered in time")
        self.account.stop(sent)

    def _temporary(self, number: int, act: str, chance: Random) -> None:
        """A question of a temporary chat."""
        with self.account.session() as tab:
            name, question = str(uuid.uuid4()), str(uuid.uuid4())
            message: Json = {"id": question, "parentId": None, "childrenIds": [], "role": "user"}
            self.note_asked(number, act)
            message["content"] = text_of(number, act, chance)
            body: Json = {
                "stream": True,
                "model": f"openrouter.{self.model}",
                "session_id": tab.id,
                "chat_id": f"temporary:{tab.id}",
                "id": name,
                "message_ids": [{"model_id": f"openrouter.{self.model}", "message_id": name, "modelIdx": 0}],
                "parent_id": None,
                "user_message": message,
                "messages": [message],
            }
            self.account.api.post("/api/chat/completions", body)
            tab.wait_for("chat:active", count=2, seconds=LONGEST_SECONDS)

    def _api(self, number: int, act: str, chance: Random) -> None:
        """A request of a program, which may leave in the middle."""
        asked, heard = self.note_asked(number, act), list[str]()
        body = {
            "model": f"openrouter.{self.model}",
            "stream": True,
            "messages": [{"role": "user", "content": text_of(number, act, chance)}],
        }
        lines = chance.randrange(1, 12) if act == "leave" else 10**9
        headers = {"Authorization": f"Bearer {self.key}"}
        with (
            httpx.Client(base_url=self.account.api.base_url, headers=headers, timeout=60.0) as client,
            client.stream("POST", "/api/chat/completions", json=body) as answer,
        ):
            if not answer.is_success:
                raise ApiError(answer.status_code, "refused")
            for _, line in zip(range(lines), answer.iter_lines(), strict=False):
                heard.append(line)
        asked.heard = said_in(heard)

    def _channel(self, number: int, act: str, chance: Random) -> None:
        """A model that is mentioned in the channel; its answer comes below."""
        asked = self.note_asked(number, act)
        form = {"content": f"<@M:openrouter.{self.model}|Model> {text_of(number, act, chance)}"}
        name = self.account.api.post(f"{self.channel}/post", form)["id"]
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            thread = self.account.api.get(f"{self.channel}/{name}/thread")
            done = [each["content"] for each in thread if (each["meta"] or {}).get("done")]
            if done:
                asked.heard = done[0]
                return
        asked.acts.add("leave")
        raise TimeoutError


def text_of(number: int, act: str, chance: Random) -> str:
    """What is written in a turn: its tag, and what the stand-in is to do."""
    deltas = chance.choice((5, 10, 20, 100))
    words = f"[[standin: reasoning=encrypted]] [[standin: deltas={deltas}]]"
    if act == "tools":
        words = f"{CALL} {words}"
    if act == "slow":
        words = "[[standin: slow=60]]"
    if act == "cut":
        kind = chance.choice(("failed", "response.error", "nested", "flat", "eof"))
        words = f"[[standin: deltas=30]] [[standin: fail={kind} after={chance.randrange(20)}]]"
    return f"{tag(number)} {words} {uuid.uuid4()}"


def said_in(lines: list[str]) -> str:
    """The text of a streamed answer by its lines, those of server-sent events."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    deltas = [choice["delta"] for line in data for choice in json.loads(line).get("choices", ())]
    return "".join(delta.get("content") or "" for delta in deltas)


def key_of(api: Api) -> str:
    """A user's API key."""
    return str(api.post("/api/v1/auths/api_key")["api_key"])
