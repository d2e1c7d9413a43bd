"""The bodies of requests, at every turn of chats of all kinds, by models and settings: group one.

The chats are in `chats/*.ndjson`: what Open WebUI has sent (`capture`, `export`), those of benchmarks, and odd ones
that were drawn at random: markers, fences, folded blocks, parts of all kinds, broken calls, what the host adds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any

from open_webui_openrouter_pipe.valves import UserValves
from scripts.harness.page import Page
from tests.golden.cases import FOLDER, Texts, numbered
from tests.golden.network import Network, called, recorded, said, stream, thought
from tests.golden.subjects import Json, open_pipe

MODELS = {
    "explicit cache": "anthropic/claude-sonnet-4.5",
    "automatic cache": "openai/gpt-5.2",
    "no tools": "gryphe/mythomax-l2-13b",
    "draws": "google/gemini-3-flash-image",
    "not listed": "vendor/unknown",
    "searches": "x-ai/grok-4.1-fast:online",
    "small, automatic": "openai/gpt-small",
    "small, explicit": "anthropic/claude-small",
    "small": "deepseek/deepseek-small",
}
PLAYING = ("explicit cache", "automatic cache", "small, automatic", "small, explicit")
SETTINGS: dict[str, Json] = json.loads((FOLDER / "valves.json").read_text("utf-8"))
TRIED = {"capture": 8, "export": 16, "benchmark": 8, "odd": 4}
"""With how many of all pairs of a model and settings each chat is tried, by its kind."""


def texts() -> Texts:
    """Each chat with some of all models and settings."""
    pairs = list(product(MODELS.values(), SETTINGS))
    for kind, tried in TRIED.items():
        for number, (name, chat) in enumerate(chats(kind).items()):
            for model, setting in random.Random(number).sample(pairs, tried):
                yield f"{kind} {name} {model} {setting}", partial(_sent, chat, model, setting)
    for (name, script), model, setting in product(SCRIPTS.items(), PLAYING, ("plain", "text", "often")):
        yield f"played {name} {MODELS[model]} {setting}", partial(_played, script, MODELS[model], setting)


@cache
def chats(kind: str) -> dict[str, Json]:
    """The chats of a kind by name: all messages, the items that are stored for markers, and each call of the host."""
    lines = (FOLDER / "chats" / f"{kind}.ndjson").read_text("utf-8").splitlines()
    return {chat["name"]: chat for chat in map(json.loads, lines)}


def messages_of(chat: Json, call: Json) -> list[Any]:
    """The messages of a call: the first of the chat's, some of them as the host has changed them for this once."""
    changed = call.get("instead", {})
    return [changed.get(str(at), each) for at, each in enumerate(chat["messages"][: call["messages"]])]


async def _sent(chat: Json, model: str, setting: str) -> str:
    transport, lines = Network(), list[str]()
    stored = {
        ulid: (writer.replace("@model", model), item) for ulid, (writer, item) in chat["stored"].items()
    }
    async with open_pipe(transport, **SETTINGS[setting]) as opened:
        await opened.store("ada", stored)
        for number, call in enumerate(chat["calls"]):
            metadata = {"chat_id": "chat-1", "message_id": f"message-{number}", **call.get("metadata", {})}
            messages, body = messages_of(chat, call), call.get("body", {})
            events = await opened.events(model, messages, metadata, task=call.get("task"), **body)
            errors = [
                event["error"]["message"].partition(" (reference")[0] for event in events if "error" in event
            ]
            lines += [f"--- {number}", *transport.taken(), *errors]
    return "\n".join(lines)


# --- chats that are played: what is stored and marked comes back by itself


def _answer(number: int, **fields: str) -> Json:
    return said(f"Answer {number}.", f"msg_{number}", **fields)


def _round(number: int) -> list[Json]:
    if number % 3 == 0:
        return [thought(str(number)), _answer(number, phase="final_answer")]
    call = called(str(number), query=f"q{number}")
    return [thought(str(number)), _answer(number, phase="commentary"), call]


def _parallel(number: int) -> list[Json]:
    return [called(f"{number}{each}", query=each) for each in "ab"] if number % 2 else [_answer(number)]


SCRIPTS: dict[str, Callable[[Json, int], bytes]] = {
    "reasoning": lambda body, number: stream([thought(str(number)), _answer(number)], body),
    "rounds": lambda body, number: stream(_round(number), body),
    "parallel": lambda body, number: stream(_parallel(number), body),
    "recorded": lambda _, number: recorded()[number % len(recorded())][1],
}


async def _played(script: Callable[[Json, int], bytes], model: str, setting: str) -> str:
    transport, lines = Network(script), list[str]()
    async with open_pipe(transport, **SETTINGS[setting]) as opened:
        tools = {name: lambda arguments: json.dumps([arguments] * 60) for name in ("query", "get_weather")}
        page = Page(opened.pipe, model, tools=tools, user_id="ada", valves=UserValves())
        for number in range(6):
            answer = await page.ask(f"Question {number}: what is said of the harbour and its {number} ships?")
            await opened.settle()
            lines += [f"--- {number}", *transport.taken(), *answer.notices, answer.error or ""]
    return numbered("\n".join(lines))
