"""Rows that were sealed once, as hex in `rows.sql`, and must still open: group four.

`python -m tests.golden --rows` seals them anew, where the form of what is stored was changed on purpose.
"""

from __future__ import annotations

import re
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any

from open_webui_openrouter_pipe.history.markers import item_id
from tests.golden import bodies, subjects
from tests.golden.cases import FOLDER, as_json
from tests.golden.network import Network, called, thought

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.golden.cases import Texts

ROWS = FOLDER / "rows.sql"
MODEL = "anthropic/claude-small"
PASSPHRASE: Mapping[str, Any] = {"ARTIFACT_ENCRYPTION_KEY": "correct horse battery staple"}
SIGNING: Mapping[str, Any] = {"ENCRYPT_ALL": False}
KEPT: tuple[tuple[Mapping[str, Any], Mapping[int, Any]], ...] = (
    ({}, {1: thought("1"), 2: called("2", query="x" * 9_000), 3: called("3", query="ü\ud83d")}),
    (SIGNING, {4: called("4", query="signed"), 5: called("5", query="y" * 9_000), 6: thought("6")}),
    (PASSPHRASE, {7: thought("7"), 8: called("8", query="behind a passphrase")}),
)
"""What is stored under which settings: sealed, signed, each also compressed, and with a key from a passphrase."""
OWN_KEYS = {"anybody's": "", "ada's": "ada"}
_OWN_KEY = "-- own key of "
_MOVE = """
INSERT INTO openrouter_pipe_artifact SELECT 'bob', id, chat_id, message_id, kind, model, key_id, packing, payload,
created, last_used FROM openrouter_pipe_artifact;
"""
"""Somebody has given all rows to another user, for whom they must not open."""


def texts() -> Texts:
    """What is sent of stored rows, by their user and settings."""
    for user in ("ada", "bob"):
        for name, valves in (("plain", {}), ("signing", SIGNING), ("passphrase", PASSPHRASE)):
            yield f"items {user} {name}", partial(_items, user, valves)
    yield "summaries and prompt", _continued
    yield "own keys", _own_keys


async def _items(user: str, valves: Mapping[str, Any]) -> str:
    transport = Network()
    text = "\n".join(f"[{item_id(number, 0)}]: #\n\nText {number}." for number in range(1, 9))
    names = [item["call_id"] for _, items in KEPT for item in items.values() if "call_id" in item]
    query = {"type": "function", "function": {"name": "query", "arguments": "{}"}}
    calls = [{"id": name, **query} for name in names]
    results = [{"role": "tool", "tool_call_id": name, "content": "out"} for name in names]
    answer = {"role": "assistant", "content": text, "tool_calls": calls}
    messages = [{"role": "user", "content": "A?"}, answer, *results, {"role": "user", "content": "B?"}]
    async with subjects.open_pipe(transport, _rows() + _MOVE, **valves) as opened:
        events = await _asked_of(opened, "chat-1", "openai/gpt-5.2", messages, user)
    return "\n".join([*transport.taken(), *events])


async def _continued() -> str:
    """The chat's next request: it has its summaries, and its first system prompt."""
    transport = Network()
    async with subjects.open_pipe(transport, _rows()) as opened:
        await _asked_of(opened, "plain", MODEL, _messages("It is noon."))
    return "\n".join(transport.taken())


def _messages(prompt: str) -> list[Any]:
    return [{"role": "system", "content": prompt}, *bodies.chats("benchmark")["plain"]["messages"][1:]]


async def _asked_of(
    opened: subjects.Opened, chat_id: str, model: str, messages: list[Any], user: str = "ada"
) -> list[str]:
    """Ask, and return the status lines."""
    prompt = messages[0]["content"] if messages[0]["role"] == "system" else ""
    metadata = {"chat_id": chat_id, "message_id": "message", "base_system_prompt": prompt}
    shown = [each.get("event", {}) for each in await opened.events(model, messages, metadata, user=user)]
    return [each["data"]["description"] for each in shown if each.get("type") == "status"]


def _own_keys() -> str:
    keys = re.findall(rf"^{_OWN_KEY}(.*?): (.*)$", _rows(), re.MULTILINE)
    return as_json(
        {name: [subjects.opened_key(key, owner) for owner in ("", "ada", "bob")] for name, key in keys}
    )


def _rows() -> str:
    return ROWS.read_text("utf-8")


def seal_rows() -> None:
    """Seal all rows anew and write them down."""
    keys = "".join(
        f"{_OWN_KEY}{name}: {subjects.sealed_key('sk-or-own', owner)}\n" for name, owner in OWN_KEYS.items()
    )
    ROWS.write_text(keys + str(subjects.run(_sealed, days_later=0)), "utf-8")


async def _sealed() -> str:
    rows = ""
    for valves, items in KEPT:
        async with subjects.open_pipe(Network(), rows, **valves) as opened:
            stored = {item_id(number, 0): ("openai/gpt-5.2", item) for number, item in items.items()}
            await opened.store("ada", stored)
            if not valves:
                await _asked_of(opened, "plain", MODEL, _messages("It is ten."))
            await opened.close()
            with sqlite3.connect(opened.path) as connection:
                rows = "".join(f"{line}\n" for line in connection.iterdump())
            connection.close()
    return rows
