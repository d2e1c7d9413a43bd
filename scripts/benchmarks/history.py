"""How long a chat takes to become input, beside the time that merely writing the result as JSON takes.

The chat has 400 messages, 100 pairs of calls and outputs, and 199 reasoning artifacts, about 840 KB of input. The goal:
at most 2.5 times `json.dumps` plus one latency of the loader, and a flat cost per message.
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
from scripts.benchmarks._chats import call_and_output

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from open_webui_openrouter_pipe.history.turn import BuiltHistory

    Work = Callable[[], Awaitable[object]]

Messages: TypeAlias = tuple[list[dict[str, Any]], dict[str, LoadedArtifact]]

MODEL = "openai/gpt-5"
MESSAGES = 400
SIZES = (40, 400, 4_000)
LATENCY_SECONDS = 0.010
REPEATS = 30
_TEXT = 'The quick brown fox said "jumps" over the lazy dog, and then it wrote a report about it.\n'


async def measure_history() -> dict[str, float]:
    """Milliseconds, kilobytes and the ratio to `json.dumps`; the best of several repeats, as noise only adds."""
    one = chat(MESSAGES)
    items = (await _transform(one)).items

    async def write() -> str:
        return json.dumps(items)

    works: list[Work] = [write, partial(_transform, one), partial(_transform, one, LATENCY_SECONDS)]
    writing, instant, slow = await _best(works)
    times = await _best([partial(_transform, chat(size)) for size in SIZES])
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


def chat(messages: int) -> Messages:
    """Build a chat: every answer has reasoning, every second one a call and its output."""
    shown: list[dict[str, Any]] = []
    artifacts: dict[str, LoadedArtifact] = {}
    for turn in range(messages // 2):
        shown.append({"role": "user", "content": f"Question {turn}? " + _TEXT * 6})
        stored: list[Any] = [_reasoning(f"rs_{turn}")] if turn else []
        if turn % 2:
            arguments = {"query": f"foxes {turn}", "limit": 10}
            call, output = call_and_output(f"call_{turn}", "search", arguments, _TEXT * 18)
            stored += [{**call, "id": f"fc_{turn}"}, output]
        markers = [item_id(turn * 10 + index, 0) for index in range(len(stored))]
        artifacts |= {ulid: LoadedArtifact(item, MODEL) for ulid, item in zip(markers, stored, strict=True)}
        shown.append({"role": "assistant", "content": leading_markers(markers) + _TEXT * 14})
    return shown, artifacts


def _reasoning(item_id_: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": item_id_,
        "summary": [{"type": "summary_text", "text": _TEXT * 2}],
        "encrypted_content": "gAAAAABo" * 100,
        "format": "openai-responses-v1",
        "status": "completed",
    }


async def _transform(chat: Messages, latency_seconds: float = 0.0) -> BuiltHistory:
    messages, artifacts = chat

    async def load(_chat_id: str | None, _message_id: str | None, ulids: Sequence[str]) -> Mapping[str, Any]:
        if latency_seconds:
            await asyncio.sleep(latency_seconds)
        return {ulid: artifacts[ulid] for ulid in ulids}

    return await transform_messages_to_input(messages, artifact_loader=load, options=Options(model_id=MODEL))


async def _best(works: Sequence[Work]) -> list[float]:
    """Milliseconds of the fastest repeat of each; they take turns, so that all meet the same machine."""
    times = [[await _milliseconds(work) for work in works] for _ in range(REPEATS)]
    return list(map(min, zip(*times, strict=True)))


async def _milliseconds(work: Work) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1e3


BENCHMARKS = {"history": lambda: asyncio.run(measure_history())}
