"""A real Open WebUI for tests: started the way scripts/start does, driven over HTTP and its websocket.

`OpenWebUI` is one server with its own data, `Account` is one of its users, `Session` the websocket of a tab.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import socketio

from scripts.harness.servers import unused_port
from scripts.launch import openwebui
from scripts.launch.api import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from scripts.launch.process import Program

    Json = dict[str, Any]

ANSWER_SECONDS = 900.0
POLL_SECONDS = 0.1
TOOL = "weather"
WEATHER = '''
class Tools:
    def get_weather(self, city: str = "Paris") -> str:
        """
        Tell the weather of a city.

        :param city: The city.
        """
        return f"Weather in {city}: 20 degrees"
'''
PASSWORD = "a password for tests"  # noqa: S105 - of accounts that a test makes


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent: its chat, and the id of the answer that is being written."""

    chat_id: str
    message_id: str


@dataclass(slots=True)
class Session:
    """The websocket of one tab: keeps the events that Open WebUI emits, in order, and answers its calls.

    `replies` maps the type of a call (`confirmation`, `input`, `execute`) to what the user would answer.
    """

    url: str
    token: str
    replies: dict[str, Any] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    _client: Any = field(default_factory=lambda: socketio.Client(reconnection=False))
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        self._client.on("events", self._receive)
        auth = {"token": self.token}
        self._client.connect(self.url, socketio_path="/ws/socket.io", auth=auth, transports=["websocket"])
        self._client.call("user-join", {"auth": auth})
        return self

    def __exit__(self, *_: object) -> None:
        self._client.shutdown()

    @property
    def id(self) -> str:
        """What a chat request names as its session."""
        return str(self._client.get_sid())

    def of_type(self, kind: str) -> list[Any]:
        """The data of all events of one type so far."""
        return [event["data"].get("data") for event in self.events if event["data"]["type"] == kind]

    def wait_for(self, kind: str, count: int = 1, seconds: float = ANSWER_SECONDS) -> list[Any]:
        """The data of the events of one type, once there are this many."""
        self.wait_until(lambda: len(self.of_type(kind)) >= count, seconds, f"{count} {kind} events")
        return self.of_type(kind)

    def wait_until(self, condition: Callable[[], bool], seconds: float, name: str = "so") -> None:
        """Wait until the condition holds, which is looked at with each event; `name` is for who waited in vain."""
        with self._arrived:
            if not self._arrived.wait_for(condition, seconds):
                kinds = dict(Counter(event["data"]["type"] for event in self.events))
                raise TimeoutError(f"not {name} after {seconds} s; there are {kinds}")

    def _receive(self, event: Json) -> Any:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()
        return self.replies.get(event["data"]["type"])


class Account:
    """A user who chats, in the frontend's way (`send`) or over the bare API (`complete`, `stream`)."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def session(self, replies: Mapping[str, Any] | None = None) -> Session:
        """A tab of this user, to be entered as a context."""
        return Session(self.api.base_url, self.api.token, dict(replies or {}))

    def send(self, model: str, text: str, *, after: Sent | None = None, **fields: Any) -> Sent:
        """Send a message in a new chat, or `after` an answer in its chat; do not wait for the answer.

        `files` are attached to the message; with the request go the chat's documents, these among them. Other fields
        join the request as the frontend would send them: session_id, params, features, tool_ids, background_tasks.
        """
        files = fields.pop("files", [])
        earlier = (self.chat(after.chat_id).get("files") or []) if after else []
        documents = [*earlier, *(file for file in files if not _is_image(file) and file not in earlier)]
        message_id, user_message = str(uuid.uuid4()), self._user_message(model, text, after, files)
        body = {
            "stream": True,
            "model": model,
            "session_id": f"no-tab-{uuid.uuid4()}",
            "id": message_id,
            "message_ids": [{"model_id": model, "message_id": message_id, "modelIdx": 0}],
            "parent_id": after.message_id if after else None,
            "user_message": user_message,
            **({"chat_id": after.chat_id} if after else {}),
            **({"files": documents} if documents else {}),
            **fields,
        }
        answer = self.api.post("/api/chat/completions", body)
        return Sent(answer["chat_id"], message_id)

    def send_again(self, sent: Sent, model: str, *, message_id: str, **fields: Any) -> Sent:
        """Have an answered question answered once more, as Regenerate and Continue do; do not wait for the answer."""
        messages = self.chat(sent.chat_id)["history"]["messages"]
        question = messages[messages[sent.message_id]["parentId"]]
        body = {
            "stream": True,
            "model": model,
            "chat_id": sent.chat_id,
            "session_id": f"no-tab-{uuid.uuid4()}",
            "id": message_id,
            "message_ids": [{"model_id": model, "message_id": message_id, "modelIdx": 0}],
            "parent_id": question["parentId"],
            "user_message": question,
            **fields,
        }
        self.api.post("/api/chat/completions", body)
        return Sent(sent.chat_id, message_id)

    def wait(self, sent: Sent, seconds: float = ANSWER_SECONDS) -> Json:
        """The answer as Open WebUI stored it, once it is done."""
        deadline = time.monotonic() + seconds
        while not (message := self.message(sent)).get("done"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer is not done after {seconds} s: {json.dumps(message)[:2000]}")
            time.sleep(POLL_SECONDS)
        return message

    def ask(self, model: str, text: str, *, after: Sent | None = None, **fields: Any) -> tuple[Sent, Json]:
        """Send, and wait for the answer."""
        sent = self.send(model, text, after=after, **fields)
        return sent, self.wait(sent)

    def message(self, sent: Sent) -> Json:
        """The answer as it stands now."""
        message: Json = self.chat(sent.chat_id)["history"]["messages"][sent.message_id]
        return message

    def chat(self, chat_id: str) -> Json:
        """A chat as Open WebUI stored it: title, history and all."""
        chat: Json = self.api.get(f"/api/v1/chats/{chat_id}")["chat"]
        return chat

    def upload(self, name: str, content: bytes, media_type: str) -> Json:
        """Store a file as the page does, and return what it then attaches to a message."""
        row = self.api.upload(name, content, media_type, process=not media_type.startswith("image/"))
        uploaded = {"type": "file", "id": row["id"], "url": row["id"], "name": name, "status": "uploaded"}
        return {**uploaded, "file": row, "size": len(content), "content_type": media_type}

    def stop(self, sent: Sent) -> None:
        """Press Stop."""
        self.api.post(f"/api/tasks/chat/{sent.chat_id}/stop")

    def complete(self, model: str, messages: Sequence[Json], **fields: Any) -> Json:
        """One answer over the bare API, without streaming."""
        body = {"model": model, "messages": list(messages), "stream": False, **fields}
        answer: Json = self.api.post("/api/chat/completions", body)
        return answer

    def stream(self, model: str, messages: Sequence[Json], **fields: Any) -> list[Json]:
        """The chunks of one streamed answer over the bare API, without the final `[DONE]`."""
        body = {"model": model, "messages": list(messages), "stream": True, **fields}
        lines = self.api.lines("/api/chat/completions", body)
        frames = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(frame) for frame in frames if frame != "[DONE]"]

    def _user_message(self, model: str, text: str, after: Sent | None, files: Sequence[Json]) -> Json:
        return {
            "id": str(uuid.uuid4()),
            "parentId": after.message_id if after else None,
            "childrenIds": [],
            "role": "user",
            "content": text,
            "timestamp": int(time.time()),
            "models": [model],
            **({"files": list(files)} if files else {}),
        }


class OpenWebUI:
    """One Open WebUI server on a port of its own, with its data in a directory of its own.

    It may be stopped and started again; address and data stay the same. `variables` join its environment, for
    instance DATABASE_URL or REDIS_URL.
    """

    def __init__(self, directory: Path, variables: Mapping[str, str] | None = None) -> None:
        self.data = directory
        login = openwebui.Secrets.of(directory)
        self._address = openwebui.Address(unused_port())
        self._variables = dict(variables or {})
        self._program: Program | None = None
        self._connections = contextlib.ExitStack()
        self.start()
        self.admin = self.sign_in(login.email, login.password)
        self.admin.api.post("/api/v1/users/user/settings/update", {"ui": {"showChangelog": False}})

    @property
    def url(self) -> str:
        """What a browser opens."""
        return self._address.url

    @property
    def log(self) -> Path:
        """The server's own log."""
        return self.data / "open-webui.log"

    @property
    def pid(self) -> int:
        """The process that was started, whose children serve where there are several workers; it must run."""
        assert self._program is not None
        return self._program.pid

    def start(self) -> None:
        """Start it and wait until it answers. Starting twice does no harm."""
        if self._program is None:
            self._program = openwebui.start(
                self._address, self.data, report=lambda _: None, variables=self._variables
            )

    def stop(self) -> None:
        """Stop it and wait until it is gone. Stopping twice does no harm."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def close(self) -> None:
        """Stop it for good, and close the connections of all accounts."""
        self._connections.close()
        self.stop()

    def sign_in(self, email: str, password: str = PASSWORD) -> Account:
        """An existing user."""
        with Api(self.url) as anyone:
            return Account(self._connections.enter_context(anyone.sign_in(email, password)))

    def add_user(self, name: str) -> Account:
        """A new user with the role `user`, signed in; the e-mail address is `NAME@localhost`."""
        email = f"{name}@localhost"
        form = {"name": name, "email": email, "password": PASSWORD, "role": "user"}
        self.admin.api.post("/api/v1/auths/add", form)
        return self.sign_in(email)

    def add_tool(self, tool_id: str, content: str) -> None:
        """A toolkit that every user may use, named like its id."""
        everyone = {"principal_type": "user", "principal_id": "*", "permission": "read"}
        form = {"id": tool_id, "name": tool_id, "content": content, "meta": {"description": tool_id}}
        self.admin.api.post("/api/v1/tools/create", {**form, "access_grants": [everyone]})


def _is_image(file: Json) -> bool:
    """Whether the server puts it into the message itself, so that the page does not send it with the documents."""
    return file["type"] == "image" or str(file.get("content_type")).startswith("image/")
