"""OpenRouter as a transport: a fixed list of models, an answer by rule, and every request word for word."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Json = dict[str, Any]

MODELS = (Path(__file__).parent / "models.json").read_bytes()
STREAMS = (Path(__file__).parent / "streams", Path(__file__).parents[1] / "data" / "sse")
_WORD = re.compile(r"[^\W\d_]{2,}")
_TRANSCRIPT = re.compile(r"<conversation>(.*)</conversation>", re.DOTALL)


class Network(httpx.AsyncBaseTransport):
    """Answers each request with what `reply` gives for its body and its number, summaries by themselves."""

    def __init__(self, reply: Callable[[Json, int], bytes] | None = None) -> None:
        self.sent: list[bytes] = []
        self._reply = reply or (lambda body, _: stream([said("So it is.")], body))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            is_key = request.url.path.endswith("/key")
            content = b'{"data": {"label": "sk", "usage": 1.5, "is_free_tier": false}}' if is_key else MODELS
            return httpx.Response(200, content=content, headers={"Content-Type": "application/json"})
        raw = await request.aread()
        self.sent.append(raw)
        body = json.loads(raw)
        summary = _summary(body)
        if not body.get("stream"):
            content = json.dumps(_response(summary or [said("A title")], body)).encode()
            return httpx.Response(200, content=content, headers={"Content-Type": "application/json"})
        content = stream(summary, body) if summary else self._reply(body, len(self.sent))
        return httpx.Response(200, content=content, headers={"Content-Type": "text/event-stream"})

    def taken(self) -> list[str]:
        """The bodies since the last call; summaries may be asked for side by side, so in the order of their bytes."""
        taken, self.sent = sorted(self.sent), []
        return [raw.decode("utf-8", "surrogatepass") for raw in taken]


def said(text: str, name: str = "msg_1", **fields: Any) -> Json:
    """A message of the model."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": name,
        "role": "assistant",
        "status": "completed",
        "content": [part],
        **fields,
    }


def thought(name: str) -> Json:
    """Its reasoning, as OpenAI seals it."""
    summary = [{"type": "summary_text", "text": f"Thinking of {name}."}]
    sealed = {"encrypted_content": f"sealed-{name}", "format": "openai-responses-v1", "status": "completed"}
    return {"type": "reasoning", "id": f"rs_{name}", "summary": summary, **sealed}


def called(name: str, **arguments: Any) -> Json:
    """A call of a tool."""
    fields = {"id": f"fc_{name}", "call_id": f"call_{name}", "name": "query", "status": "completed"}
    return {"type": "function_call", **fields, "arguments": json.dumps(arguments)}


def stream(items: Sequence[Json], body: Json) -> bytes:
    """The events by which these items come."""
    response = _response(items, body)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        empty: Json = {name: type(item[name])() for name in ("content", "arguments") if name in item}
        added = {**item, "status": "in_progress", **empty}
        events.append({"type": "response.output_item.added", "output_index": index, "item": added})
        if item["type"] == "message":
            words = re.findall(r"\s*\S+|\s+$", item["content"][0]["text"])
            kind = {"type": "response.output_text.delta", **place, "content_index": 0}
            events += [{**kind, "delta": word} for word in words]
        elif item["type"] == "function_call":
            kind = {"type": "response.function_call_arguments.delta", **place}
            events.append({**kind, "delta": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"


@cache
def recorded() -> list[tuple[str, bytes]]:
    """Every recorded stream by its name."""
    return [(path.stem, path.read_bytes()) for folder in STREAMS for path in sorted(folder.glob("*.sse"))]


def _response(items: Sequence[Json], body: Json) -> Json:
    tokens = len(json.dumps(body["input"])) // 4
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": tokens // 2},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 20,
        "cost": tokens / 2**20,
    }
    fixed = {"id": "gen-1", "object": "response", "created_at": 1_790_000_000, "model": body["model"]}
    return {**fixed, "status": "completed", "output": list(items), "error": None, "usage": usage}


def _summary(body: Json) -> list[Json]:
    """A summary in words of what is to be summarized, where the request asks for one."""
    texts = [
        str(part.get("text", ""))
        for item in body["input"]
        for part in item.get("content") or []
        if isinstance(part, dict)
    ]
    if "summary_text" not in "".join(texts):
        return []
    found = _TRANSCRIPT.search(texts[-1]) or _TRANSCRIPT.search("\n".join(texts))
    words = _WORD.findall(found[1] if found else "\n".join(texts[1:-3]))
    entries = [{"turn": 1, "text": " ".join(words[at : at + 12])} for at in range(0, 48, 12)]
    lists = ("key_facts", "open_questions", "decisions", "action_items", "dead_ends", "done")
    value = {name: entries[at % 4 : at % 4 + 1] for at, name in enumerate(lists)}
    text = " ".join(words[:: max(1, len(words) // 90)][:90])
    whole = {"summary_text": text, "goal": " ".join(words[:6]), "constraints": [], "resolved": [], **value}
    return [said(json.dumps(whole))]
