"""What recorded streams and answers of the pipe's own become for each kind of caller: group five."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.golden import bodies, network, subjects
from tests.golden.cases import numbered
from tests.golden.network import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CALLERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "page": ({"stream": True}, {"chat_id": "chat-1", "message_id": "message"}),
    "channel": ({"stream": True}, {"chat_id": "channel:1", "message_id": "message"}),
    "chunks": ({"stream": True, "stream_options": {"include_usage": True}}, {}),
    "completion": ({"stream": False}, {}),
    "page, whole": ({"stream": False}, {"chat_id": "chat-1", "message_id": "message"}),
}
"""What each of the four writers is for, by the body and the metadata of a call."""
COMMANDS = (
    ("/context", "en"),
    ("/help", "en"),
    ("/restore 1-2", "en"),
    ("/aim thrifty", "en"),
    ("/context", "de"),
    ("/context", "ja"),
)


def texts() -> Iterator[tuple[str, Callable[[], str]]]:
    """The streams, then the commands."""
    for name, content in network.recorded():
        yield f"stream {name}", partial(_rendered, content)
    for command, language in COMMANDS:
        yield f"command {command} {language}", partial(_commanded, command, language)


def _rendered(content: bytes) -> str:
    async def ask() -> str:
        lines: list[str] = []
        async with subjects.open_pipe(Network(lambda *_: content), RETRY_SECONDS=0.0) as opened:
            for name, (body, metadata) in CALLERS.items():
                lines += [f"--- {name}", *await _received(opened, body, metadata)]
        async with subjects.open_pipe(
            Network(lambda *_: content), RETRY_SECONDS=0.0, MARKER_CARRIER="text"
        ) as opened:
            lines += ["--- page, markers in text", *await _received(opened, *CALLERS["page"])]
        return numbered("\n".join(lines))

    return str(subjects.run(ask))


async def _received(
    opened: subjects.Opened, body: Mapping[str, Any], metadata: Mapping[str, Any]
) -> list[str]:
    whole = {"model": "openrouter.openai/gpt-5.2", "messages": [{"role": "user", "content": "What?"}], **body}
    return [as_line(event) for event in await opened.events(whole, dict(metadata))]


def as_line(event: Any) -> str:
    """An event as JSON, or a part of a response as it is."""
    return json.dumps(event, ensure_ascii=False) if isinstance(event, dict) else str(event)


def _commanded(command: str, language: str) -> str:
    async def ask() -> str:
        chat = bodies.chats("benchmark")["plain"]
        after = [
            *chat["messages"],
            {"role": "assistant", "content": "So it is."},
            {"role": "user", "content": command},
        ]
        async with subjects.open_pipe(Network()) as opened:
            for message_id, messages in (("first", chat["messages"]), ("second", after)):
                body = {"model": "openrouter.anthropic/claude-small", "messages": messages, "stream": True}
                named = {
                    "chat_id": "chat-1",
                    "message_id": message_id,
                    "variables": {"{{USER_LANGUAGE}}": language},
                }
                events = await opened.events(body, named)
                await opened.written()
        return numbered("\n".join(map(as_line, events)))

    return str(subjects.run(ask))
