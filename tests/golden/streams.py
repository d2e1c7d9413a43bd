"""What recorded streams and answers of the pipe's own become for each kind of caller: group five."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.golden import bodies, network, subjects
from tests.golden.cases import numbered
from tests.golden.network import Network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.golden.cases import Texts

CALLERS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "page": ({"stream": True}, {"chat_id": "chat-1", "message_id": "message"}),
    "channel": ({"stream": True}, {"chat_id": "channel:1", "message_id": "message"}),
    "chunks": ({"stream": True, "stream_options": {"include_usage": True}}, {}),
    "completion": ({"stream": False}, {}),
    "page, whole": ({"stream": False}, {"chat_id": "chat-1", "message_id": "message"}),
}
"""What each of the four writers is for, by the body and the metadata of a call."""
_SECONDS = re.compile(r'(?<="seconds": )[\d.]+')
COMMANDS = (
    *((command, "en") for command in ("/context", "/help", "/restore 1-2", "/aim thrifty")),
    *(("/context", language) for language in ("de", "ja")),
)


def texts() -> Texts:
    """The streams, then the commands."""
    for name, content in network.recorded():
        yield f"stream {name}", partial(_rendered, content)
    for command, language in COMMANDS:
        yield f"command {command} {language}", partial(_commanded, command, language)


async def _rendered(content: bytes) -> str:
    lines: list[str] = []
    for carrier, callers in (("", CALLERS), ("markers in text", {"page": CALLERS["page"]})):
        valves: dict[str, Any] = {"RETRY_SECONDS": 0.0, **({"MARKER_CARRIER": "text"} if carrier else {})}
        async with subjects.open_pipe(Network(lambda *_: content), **valves) as opened:
            for name, (body, metadata) in callers.items():
                title = ", ".join(filter(None, (name, carrier)))
                lines += [f"--- {title}", *await _received(opened, body, metadata)]
    return numbered("\n".join(lines))


async def _received(
    opened: subjects.Opened, body: Mapping[str, Any], metadata: Mapping[str, Any]
) -> list[str]:
    messages = [{"role": "user", "content": "What?"}]
    return list(map(as_line, await opened.events("openai/gpt-5.2", messages, metadata, **body)))


def as_line(event: Any) -> str:
    """An event as JSON, or a part of a response as it is; how long the answer took is not of its bytes."""
    line = json.dumps(event, ensure_ascii=False) if isinstance(event, dict) else str(event)
    return _SECONDS.sub("0.0", line)


async def _commanded(command: str, language: str) -> str:
    chat = bodies.chats("benchmark")["plain"]
    said, asked = {"role": "assistant", "content": "So it is."}, {"role": "user", "content": command}
    named = {"chat_id": "chat-1", "variables": {"{{USER_LANGUAGE}}": language}}
    async with subjects.open_pipe(Network()) as opened:
        for message_id, more in (("first", []), ("second", [said, asked])):
            messages, metadata = [*chat["messages"], *more], {**named, "message_id": message_id}
            events = await opened.events("anthropic/claude-small", messages, metadata)
            await opened.written()
    return numbered("\n".join(map(as_line, events)))
