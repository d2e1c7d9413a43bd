"""The output items of a response, built from the steps of its plan.

Owns the items' finished form, their ids and their tokens. It must not know events: ``events`` tells how an
item comes to be, this module what it is in the end.
"""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .plan import Call, Image, Message, Plan, Reasoning, Search, Unknown
from .seal import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .catalogue import Model
    from .plan import Step
    from .tokens import Tokenizer

Item = dict[str, Any]

ENCRYPTED_TOKENS = 64
IMAGE_OUTPUT_TOKENS = 1290
CALL_OVERHEAD_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes items for one model; ``new_id`` gives a fresh id for a prefix."""

    model: Model
    new_id: Callable[[str], str]
    tokenizer: Tokenizer

    def make(self, step: Step, status: str) -> Item:
        """The item as it stands in ``response.output``, its reasoning not yet sealed."""
        return MAKERS[type(step)](self, step, status)

    def tokens(self, step: Step) -> int:
        """The output tokens that a step is billed at."""
        match step:
            case Reasoning(kind="encrypted"):
                return ENCRYPTED_TOKENS
            case Reasoning():
                return len(self.tokenizer.encode(step.text()))
            case Message(text):
                return len(self.tokenizer.encode(text))
            case Call(name, arguments):
                return CALL_OVERHEAD_TOKENS + len(self.tokenizer.encode(name + arguments))
            case Image():
                return IMAGE_OUTPUT_TOKENS
        return 0

    def limited(self, plan: Plan, limit: int | None) -> Plan:
        """The plan cut to an output limit in tokens, and halved where its ending asks for it."""
        left, steps = math.inf if limit is None else limit, list[Any]()
        if plan.ending != "completed":
            total = sum(self.tokens(step) for step in plan.steps[:-1])
            left = min(left, total + max(1, self.tokens(plan.steps[-1]) // 2))
        for step in plan.steps:
            cost = self.tokens(step)
            if cost > left:
                cut = _shortened(step, left / cost)
                ending = "max_output_tokens" if plan.ending == "completed" else plan.ending
                return replace(plan, steps=(*steps, *([cut] if cut else [])), ending=ending)
            steps.append(step)
            left -= cost
        return plan


def _shortened(step: Step, part: float) -> Step | None:
    match step:
        case Message(text) if text[: int(len(text) * part)]:
            return replace(step, text=text[: int(len(text) * part)])
        case Reasoning(parts=(first, *_)) if first[: int(len(first) * part)]:
            return replace(step, parts=(first[: int(len(first) * part)],))
    return None


def citations_of(message: Message) -> list[Item]:
    """The annotations of a message: each source is named in the text, or stands for its last character."""
    annotations: list[Item] = []
    for citation in message.citations:
        start = message.text.find(citation.url)
        start = start if start >= 0 else max(0, len(message.text) - 1)
        end = min(len(message.text), start + len(citation.url))
        place = {"start_index": start, "end_index": end}
        annotations.append({"type": "url_citation", "url": citation.url, "title": citation.title, **place})
    return annotations


def tiny_png() -> str:
    """A one-pixel PNG as base64."""
    chunks = [
        (b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0])),
        (b"IDAT", zlib.compress(b"\0\xff\0\0")),
    ]
    body = b"".join(_chunk(name, data) for name, data in [*chunks, (b"IEND", b"")])
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def _reasoning(maker: Maker, step: Reasoning, status: str) -> Item:
    native = "rs_" if maker.model.family == "openai" else "rs_tmp_"
    item: Item = {"id": maker.new_id(native), "type": "reasoning", "status": status, "summary": []}
    if step.kind == "summary":
        item["summary"] = [{"type": "summary_text", "text": text} for text in step.parts]
    if step.kind == "raw":
        item["content"] = [{"type": "reasoning_text", "text": text} for text in step.parts]
    return {**item, "format": FORMATS[maker.model.family]}


def _message(maker: Maker, step: Message, status: str) -> Item:
    part: Item = {"type": "output_text", "text": step.text, "annotations": citations_of(step), "logprobs": []}
    if step.refused:
        part = {"type": "refusal", "refusal": step.text}
    return {
        "id": maker.new_id("msg_tmp_"),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
        "phase": step.phase,
    }


def _call(maker: Maker, step: Call, status: str) -> Item:
    prefix = "toolu_" if maker.model.family == "anthropic" else "call_"
    return {
        "id": maker.new_id("fc_tmp_"),
        "type": "function_call",
        "status": status,
        "call_id": maker.new_id(prefix),
        "name": step.name,
        "arguments": step.arguments,
    }


def _search(maker: Maker, step: Search, _status: str) -> Item:
    action: Item = {"type": "search", "query": step.query}
    if step.kind == "native":
        return {"id": maker.new_id("ws_"), "type": "web_search_call", "status": "completed", "action": action}
    action["sources"] = [{"type": "url", "url": step.url}]
    return {
        "id": maker.new_id("st_tmp_"),
        "type": "openrouter:web_search",
        "status": "completed",
        "action": action,
    }


def _image(maker: Maker, step: Image, _status: str) -> Item:
    return {
        "id": maker.new_id("ig_"),
        "type": "image_generation_call",
        "status": "completed",
        "prompt": step.prompt,
        "result": tiny_png(),
    }


def _unknown(maker: Maker, step: Unknown, status: str) -> Item:
    return {"id": maker.new_id("new_"), "type": step.type, "status": status, "novelty": {"unforeseen": True}}


MAKERS: dict[type, Callable[[Maker, Any, str], Item]] = {
    Reasoning: _reasoning,
    Message: _message,
    Call: _call,
    Search: _search,
    Image: _image,
    Unknown: _unknown,
}
