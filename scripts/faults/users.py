"""Who chats: saved and temporary chats, tools, stops, regenerations, API keys, and clients that leave."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import httpx
import socketio

from scripts.launch.api import Api, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scripts.harness.openwebui import Account, Sent

    Json = dict[str, Any]

Act = Literal["ask", "tools", "again", "temporary", "api", "leave", "stop", "cut"]

ACTS: dict[Act, int] = {"ask": 9, "tools": 4, "again": 2, "temporary": 3, "api": 3, "leave": 2}
"""How often a turn is which, beside the faults among them: stopped by its user, and cut by the provider."""
MODELS = ("openai/gpt-5.2", "anthropic/claude-sonnet-4.5", "google/gemini-3-pro", "standin/own-key")
CALL = '[[standin: call=get_weather args={"city": "Paris"}]]'
LONGEST_SECONDS = 90.0
POLL_SECONDS = 2.0
REFUSED_SECONDS = 2.0
MOST_TURNS = 6
"""Of one chat."""
OUTAGES = (ApiError, httpx.HTTPError, socketio.exceptions.SocketIOError, TimeoutError)
"""What a server says, or does not, whose database or Redis is away."""


@dataclass
class Turns:
    """The turns of all users in their order, each with what happens in it; counts what came of them."""

    plan: list[Act]
    begun: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    deadline: float = float("inf")

    def take(self) -> int | None:
        """The next one, None after the last."""
        with self.lock:
            if self.begun >= len(self.plan) or time.monotonic() > self.deadline:
                return None
            self.begun += 1
            return self.begun - 1

    def count(self, what: str) -> None:
        """Note that something has happened."""
        with self.lock:
            self.counts[what] += 1


@dataclass
class User:
    """One user, with one chat at a time; `key` is their API key."""

    account: Account
    key: str
    model: str
    turns: Turns
    seed: int
    tool: str
    latest: Sent | None = None
    before: Sent | None = None
    length: int = 0

    def run(self) -> None:
        """Take turns until there are none."""
        acts: dict[str, Callable[[str, Random], None]] = {
            "temporary": self._temporary,
            "api": self._api,
            "leave": self._api,
        }
        while (number := self.turns.take()) is not None:
            act, chance = self.turns.plan[number], Random(f"{self.seed} {number}")  # noqa: S311 - no secret
            try:
                acts.get(act, self._chat)(act, chance)
            except OUTAGES as error:
                self.turns.count(f"refused: {getattr(error, 'status', type(error).__name__)}")
                self.latest = self.before = None
                time.sleep(REFUSED_SECONDS)
            else:
                self.turns.count(f"turn: {act}")

    def _text(self, act: str, chance: Random) -> str:
        deltas = chance.choice((5, 10, 20, 100))
        words = f"[[standin: reasoning=encrypted]] [[standin: deltas={deltas}]] {uuid.uuid4()}"
        if act == "tools":
            words = f"{CALL} {words}"
        if act == "cut":
            kind = chance.choice(("failed", "response.error", "nested", "flat", "eof"))
            words = f"[[standin: deltas=30]] [[standin: fail={kind} after={chance.randrange(20)}]]"
        return words

    def _chat(self, act: str, chance: Random) -> None:
        """A question of a saved chat, or another answer to its last one."""
        if self.length >= MOST_TURNS:
            self.latest, self.before, self.length = None, None, 0
        after = self.before if act == "again" else self.latest
        fields: Json = {"tool_ids": [self.tool]} if act == "tools" else {}
        if self.latest is None and chance.random() < 0.3:
            fields["background_tasks"] = {"title_generation": True, "tags_generation": True}
        model = f"openrouter.{self.model}"
        sent = self.account.send(model, self._text(act, chance), after=after, **fields)
        if act == "stop":
            time.sleep(chance.choice((0.0, 0.2, 0.5, 1.0, 2.0)))
            self.account.stop(sent)
        self._wait(sent)
        self.before, self.latest, self.length = after, sent, self.length + 1

    def _wait(self, sent: Sent) -> None:
        deadline = time.monotonic() + LONGEST_SECONDS
        while time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            if not self.account.api.get(f"/api/tasks/chat/{sent.chat_id}")["task_ids"]:
                return
        self.turns.count("not answered in time")
        self.account.stop(sent)

    def _temporary(self, act: str, chance: Random) -> None:
        """A question of a temporary chat."""
        with self.account.session() as tab:
            name, question = str(uuid.uuid4()), str(uuid.uuid4())
            message: Json = {"id": question, "parentId": None, "childrenIds": [], "role": "user"}
            message["content"] = self._text(act, chance)
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

    def _api(self, act: str, chance: Random) -> None:
        """A request of a program, which may leave in the middle."""
        body = {
            "model": f"openrouter.{self.model}",
            "stream": True,
            "messages": [{"role": "user", "content": self._text(act, chance)}],
        }
        lines = chance.randrange(1, 12) if act == "leave" else 10**9
        headers = {"Authorization": f"Bearer {self.key}"}
        with (
            httpx.Client(base_url=self.account.api.base_url, headers=headers, timeout=60.0) as client,
            client.stream("POST", "/api/chat/completions", json=body) as answer,
        ):
            if not answer.is_success:
                raise ApiError(answer.status_code, "refused")
            for _ in zip(range(lines), answer.iter_lines(), strict=False):
                pass


def key_of(api: Api) -> str:
    """A user's API key."""
    return str(api.post("/api/v1/auths/api_key")["api_key"])
