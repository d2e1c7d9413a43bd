"""A chat with an App: plays the host, and keeps the messages and what came beside each answer."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.app import App
from open_webui_openrouter_pipe.history.markers import leading_markers
from open_webui_openrouter_pipe.host.call import read_call
from open_webui_openrouter_pipe.ports import Failed, Notice, StoredMarkers
from open_webui_openrouter_pipe.responses.effects import TextDelta
from open_webui_openrouter_pipe.settings import Settings, Valves, read_settings

if TYPE_CHECKING:
    from scripts.standin import StandIn

MODEL = "openai/gpt-5.2"


def settings(standin: StandIn, **valves: Any) -> Settings:
    """Settings for the stand-in, with these valves."""
    return read_settings(Valves(API_KEY="sk-or-test", BASE_URL=standin.base_url, **valves))


@dataclass(frozen=True, slots=True)
class Answer:
    """The visible text, the ids of the markers, the status lines, and the error if there was one."""

    text: str
    marked: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    error: str | None = None


@dataclass(slots=True)
class Chat:
    """One saved chat of one user."""

    app: App
    settings: Settings
    user_id: str = "ada"
    chat_id: str = field(default_factory=lambda: f"chat-{secrets.token_hex(4)}")
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def ask(self, text: str) -> Answer:
        """Send a question and return the whole answer."""
        self.messages.append({"role": "user", "content": text})
        body = {"model": f"openrouter.{MODEL}", "messages": list(self.messages), "stream": True}
        metadata = {"chat_id": self.chat_id, "message_id": f"message-{len(self.messages)}"}
        call = read_call(body, user={"id": self.user_id}, metadata=metadata, task=None)
        outputs = [output async for output in self.app.answer(call, self.settings)]
        content = "".join(
            leading_markers(output.ids) if isinstance(output, StoredMarkers) else output.delta
            for output in outputs
            if isinstance(output, (StoredMarkers, TextDelta))
        )
        self.messages.append({"role": "assistant", "content": content})
        return Answer(
            text="".join(output.delta for output in outputs if isinstance(output, TextDelta)),
            marked=tuple(
                ulid for output in outputs if isinstance(output, StoredMarkers) for ulid in output.ids
            ),
            notices=tuple(output.text for output in outputs if isinstance(output, Notice)),
            error=next((output.message for output in outputs if isinstance(output, Failed)), None),
        )


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
