"""How long a chat takes to become input, beside the time that merely writing the result as JSON takes.

The chat: 400 messages, 100 pairs of calls and outputs, 199 reasoning artifacts, about 840 KB of input.
Times are the best of several repeats in milliseconds, so that another program's noise counts little. The
goal: at most 2.5 times `json.dumps` of the result plus one latency of the loader, and a flat cost per
message.
"""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from open_webui_openrouter_pipe.history.artifacts import LoadedArtifact
from open_webui_openrouter_pipe.history.build import Options
from open_webui_openrouter_pipe.history.markers import item_id, leading_markers
from open_webui_openrouter_pipe.replay.exports import transform_messages_to_input

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from open_webui_openrouter_pipe.history.build import BuiltHistory

NAME = "history"

Chat: TypeAlias = tuple[list[dict[str, Any]], dict[str, LoadedArtifact]]

MODEL = "openai/gpt-5"
MESSAGES = 400
SIZES = (40, 400, 4_000)
LATENCY_SECONDS = 0.010
REPEATS = 30
_TEXT = 'The quick brown fox said "jumps" over the lazy dog, and then it wrote a report about it.\n'


def run() -> dict[str, float]:
    """Measure, and give milliseconds, kilobytes and the ratio to `json.dumps`."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    one = chat(MESSAGES)
    items = (await _transform(one)).items

    async def write() -> str:
        return json.dumps(items)

    writing, instant, slow = await _best(
        write, partial(_transform, one), partial(_transform, one, LATENCY_SECONDS)
    )
    times = await _best(*(partial(_transform, chat(size)) for size in SIZES))
    results = {
        "items": float(len(items)),
        "payload_kb": len(json.dumps(items)) / 1e3,
        "json_dumps_ms": writing,
        "instant_loader_ms": instant,
        "instant_loader_per_json_dumps": instant / writing,
        "slow_loader_ms": slow,
    }
    for size, taken in zip(SIZES, times, strict=True):
        results[f"microseconds_per_message_of_{size}"] = taken / size * 1e3
    return {name: round(value, 3) for name, value in results.items()}


def chat(messages: int) -> Chat:
    """Build a chat: every answer has reasoning, every second one a call and its output."""
    shown: list[dict[str, Any]] = []
    artifacts: dict[str, LoadedArtifact] = {}
    for turn in range(messages // 2):
        shown.append({"role": "user", "content": f"Question {turn}? " + _TEXT * 6})
        stored = [_reasoning(f"rs_{turn}")] if turn else []
        stored += _pair(turn) if turn % 2 else []
        markers = [_keep(artifacts, turn * 10 + index, item) for index, item in enumerate(stored)]
        shown.append({"role": "assistant", "content": leading_markers(markers) + _TEXT * 14})
    return shown, artifacts


def _pair(turn: int) -> list[dict[str, Any]]:
    call_id = f"call_{turn}"
    arguments = json.dumps({"query": f"foxes {turn}", "limit": 10})
    return [
        {
            "type": "function_call",
            "id": f"fc_{turn}",
            "call_id": call_id,
            "name": "search",
            "arguments": arguments,
        },
        {"type": "function_call_output", "call_id": call_id, "output": _TEXT * 18},
    ]


def _keep(artifacts: dict[str, LoadedArtifact], number: int, item: Any) -> str:
    ulid = item_id(number, 0)
    artifacts[ulid] = LoadedArtifact(item, MODEL)
    return ulid


def _reasoning(item_id_: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": item_id_,
        "summary": [{"type": "summary_text", "text": _TEXT * 2}],
        "encrypted_content": "gAAAAABo" * 100,
        "format": "openai-responses-v1",
        "status": "completed",
    }


async def _transform(chat: Chat, latency_seconds: float = 0.0) -> BuiltHistory:
    messages, artifacts = chat

    async def load(_chat_id: str | None, _message_id: str | None, ulids: Sequence[str]) -> Mapping[str, Any]:
        if latency_seconds:
            await asyncio.sleep(latency_seconds)
        return {ulid: artifacts[ulid] for ulid in ulids}

    return await transform_messages_to_input(messages, artifact_loader=load, options=Options(model_id=MODEL))


async def _best(*works: Callable[[], Awaitable[object]]) -> list[float]:
    """Milliseconds of the fastest repeat of each; they take turns, so that all meet the same machine."""
    times = [float("inf")] * len(works)
    for _ in range(REPEATS):
        for index, work in enumerate(works):
            started = time.perf_counter()
            await work()
            times[index] = min(times[index], time.perf_counter() - started)
    return [taken * 1e3 for taken in times]


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name:40} {value:12.3f}")
