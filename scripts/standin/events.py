"""The events by which a response comes to be.

Owns the sequence of stream events: from the finished items of a plan back to the deltas that build them.
Pure: items in, events out. It knows neither bytes nor time; the order follows the service's documented
streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plan import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plan import Break, Plan

Event = dict[str, Any]
Item = dict[str, Any]

WORD = re.compile(r"\s*\S+|\s+")
ARGUMENT_PIECE_CHARS = 8
ECHOED = (
    "max_output_tokens",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "max_tool_calls",
    "metadata",
    "background",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "instructions",
    "tool_choice",
    "parallel_tool_calls",
    "truncation",
    "text",
)
DEFAULTS: dict[str, Any] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "metadata": {},
    "background": False,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}},
}


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response: its head, its finished items, the seals of its reasoning, and its bill."""

    id: str
    created_at: int
    body: dict[str, Any]
    model: str
    output: tuple[Item, ...]
    seals: dict[str, Item]
    usage: dict[str, Any]
    plan: Plan

    def head(self, status: str, **more: Any) -> Item:
        """The response object without its output."""
        given = {key: self.body[key] for key in ECHOED if self.body.get(key) is not None}
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "model": self.model,
            "status": status,
            "completed_at": None,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "tools": [
                _shown_tool(tool)
                for tool in self.body.get("tools") or []
                if not tool["type"].startswith("openrouter:")  # a capture and the SDK show none of these
            ],
            **dict.fromkeys(ECHOED),
            **DEFAULTS,
            **given,
            "previous_response_id": None,
            "service_tier": "auto" if status == "in_progress" else "default",
            "store": False,
            "reasoning": self.body.get("reasoning"),
            "usage": None,
            **more,
        }

    def finished(self) -> Item:
        """The response object at its regular end."""
        reason = self.plan.ending
        done: Item = {
            "completed_at": self.created_at + 1,
            "output": [self.sealed(item) for item in self.output],
            "usage": self.usage,
        }
        if reason == "completed":
            return self.head("completed", **done)
        return self.head("incomplete", **done, incomplete_details={"reason": reason})

    def failed(self, cut: Break) -> Item:
        """The response object when the provider fails."""
        error = {"code": cut.code, "message": cut.message}
        return self.head("failed", error=error, error_type=cut.error_type)

    def whole(self) -> Item:
        """The response object as a request without a stream gets it."""
        return self.failed(self.plan.cut) if self.plan.cut else self.finished()

    def sealed(self, item: Item) -> Item:
        """An item with its seal, where it has one."""
        return {**item, **self.seals.get(item.get("id", ""), {})}


def stream(response: Response) -> Iterator[Event]:
    """All events of a response in order, numbered; a plan's break ends them early."""
    for number, event in enumerate(_unnumbered(response)):
        yield event if event.pop("unnumbered", False) else {**event, "sequence_number": number}


def _unnumbered(response: Response) -> Iterator[Event]:
    delivery, cut = response.plan.delivery, response.plan.cut
    padding = {"instructions": "x" * delivery.big_bytes} if delivery.big_bytes else {}
    yield {"type": "response.created", "response": response.head("in_progress", **padding)}
    yield {"type": "response.in_progress", "response": response.head("in_progress", **padding)}
    if delivery.unknown_event:
        yield {"type": "response.standin_novelty.delta", "delta": "unforeseen"}
    deltas = 0
    for event in _body(response):
        if cut and deltas >= cut.after_deltas:
            break
        deltas += is_delta(event)
        yield event
    if cut:
        yield from BREAKS[cut.kind](response, cut)
        return
    terminal = "response.completed" if response.plan.ending == "completed" else "response.incomplete"
    yield {"type": terminal, "response": response.finished()}


def is_delta(event: Event) -> bool:
    """Whether an event carries a piece of text, before which a delivery may pause."""
    return str(event["type"]).endswith(".delta")


def _body(response: Response) -> Iterator[Event]:
    delivery = response.plan.delivery
    for index, item in enumerate(response.output):
        shown = item if delivery.late_seals else response.sealed(item)
        for event in ITEMS.get(item["type"], _plain)(shown, delivery):
            head = {"type": event.pop("type"), "output_index": index}
            yield {**head, **event}


# --- how each item comes to be; the events lack their output_index ---


def _reasoning(item: Item, _delivery: Delivery) -> Iterator[Event]:
    bare = {"id": item["id"], "type": "reasoning", "status": "in_progress", "summary": []}
    yield {"type": "response.output_item.added", "item": bare}
    for index, part in enumerate(item["summary"]):
        yield from _summary_part(item["id"], index, part["text"])
    for index, part in enumerate(item.get("content", [])):
        at = {"item_id": item["id"], "content_index": index}
        yield {"type": "response.content_part.added", **at, "part": {"type": "reasoning_text", "text": ""}}
        for piece in WORD.findall(part["text"]):
            yield {"type": "response.reasoning_text.delta", **at, "delta": piece}
        yield {"type": "response.reasoning_text.done", **at, "text": part["text"]}
        yield {"type": "response.content_part.done", **at, "part": part}
    yield {"type": "response.output_item.done", "item": item}


def _summary_part(item_id: str, index: int, text: str) -> Iterator[Event]:
    at = {"item_id": item_id, "summary_index": index}
    kind = "response.reasoning_summary"
    yield {"type": f"{kind}_part.added", **at, "part": {"type": "summary_text", "text": ""}}
    for piece in WORD.findall(text):
        yield {"type": f"{kind}_text.delta", **at, "delta": piece}
    yield {"type": f"{kind}_text.done", **at, "text": text}
    yield {"type": f"{kind}_part.done", **at, "part": {"type": "summary_text", "text": text}}


def _message(item: Item, _delivery: Delivery) -> Iterator[Event]:
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "content": []}}
    part = item["content"][0]
    at = {"item_id": item["id"], "content_index": 0}
    yield from (_refusal if part["type"] == "refusal" else _text)(part, at)
    yield {"type": "response.content_part.done", **at, "part": part}
    yield {"type": "response.output_item.done", "item": item}


def _text(part: Item, at: Item) -> Iterator[Event]:
    empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield {"type": "response.content_part.added", **at, "part": empty}
    for piece in WORD.findall(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    for index, annotation in enumerate(part["annotations"]):
        kind = "response.output_text.annotation.added"
        yield {"type": kind, **at, "annotation_index": index, "annotation": annotation}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}


def _refusal(part: Item, at: Item) -> Iterator[Event]:
    yield {"type": "response.content_part.added", **at, "part": {"type": "refusal", "refusal": ""}}
    for piece in WORD.findall(part["refusal"]):
        yield {"type": "response.refusal.delta", **at, "delta": piece}
    yield {"type": "response.refusal.done", **at, "refusal": part["refusal"]}


def _call(item: Item, delivery: Delivery) -> Iterator[Event]:
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress", "arguments": ""}}
    arguments = "" if delivery.late_arguments else item["arguments"]
    kind = "response.function_call_arguments"
    for start in range(0, len(arguments), ARGUMENT_PIECE_CHARS):
        piece = arguments[start : start + ARGUMENT_PIECE_CHARS]
        yield {"type": f"{kind}.delta", "item_id": item["id"], "delta": piece}
    yield {"type": f"{kind}.done", "item_id": item["id"], "name": item["name"], "arguments": arguments}
    yield {"type": "response.output_item.done", "item": {**item, "arguments": arguments}}


def _native_search(item: Item, _delivery: Delivery) -> Iterator[Event]:
    bare = {key: value for key, value in item.items() if key != "action"} | {"status": "in_progress"}
    yield {"type": "response.output_item.added", "item": bare}
    for stage in ("in_progress", "searching", "completed"):
        yield {"type": f"response.web_search_call.{stage}", "item_id": item["id"]}
    yield {"type": "response.output_item.done", "item": item}


def _server_tool(item: Item, _delivery: Delivery) -> Iterator[Event]:
    bare = {"id": item["id"], "type": item["type"], "status": "in_progress"}
    yield {"type": "response.output_item.added", "item": bare}
    yield {"type": "response.output_item.done", "item": item}


def _image(item: Item, _delivery: Delivery) -> Iterator[Event]:
    bare = {"id": item["id"], "type": item["type"], "status": "in_progress", "result": None}
    kind = "response.image_generation_call"
    yield {"type": "response.output_item.added", "item": bare}
    yield {"type": f"{kind}.in_progress", "item_id": item["id"]}
    yield {"type": f"{kind}.generating", "item_id": item["id"]}
    partial = {"partial_image_b64": item["result"], "partial_image_index": 0}
    yield {"type": f"{kind}.partial_image", "item_id": item["id"], **partial}
    yield {"type": f"{kind}.completed", "item_id": item["id"]}
    yield {"type": "response.output_item.done", "item": item}


def _plain(item: Item, _delivery: Delivery) -> Iterator[Event]:
    yield {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}}
    yield {"type": "response.output_item.done", "item": item}


ITEMS: dict[str, Callable[[Item, Delivery], Iterator[Event]]] = {
    "reasoning": _reasoning,
    "message": _message,
    "function_call": _call,
    "web_search_call": _native_search,
    "openrouter:web_search": _server_tool,
    "openrouter:web_fetch": _server_tool,
    "image_generation_call": _image,
}

# --- how a stream breaks ---


def _failed(response: Response, cut: Break) -> Iterator[Event]:
    yield {"type": "response.failed", "response": response.failed(cut)}


def _response_error(_response: Response, cut: Break) -> Iterator[Event]:
    yield {"type": "response.error", "error": {"code": cut.code, "message": cut.message}, "unnumbered": True}


def _nested(_response: Response, cut: Break) -> Iterator[Event]:
    yield {"type": "error", "error": {"code": cut.code, "message": cut.message}, "unnumbered": True}


def _flat(_response: Response, cut: Break) -> Iterator[Event]:
    yield {"type": "error", "code": cut.code, "message": cut.message, "param": None}


def _eof(_response: Response, _cut: Break) -> Iterator[Event]:
    yield from ()


BREAKS: dict[str, Callable[[Response, Break], Iterator[Event]]] = {
    "failed": _failed,
    "response.error": _response_error,
    "nested": _nested,
    "flat": _flat,
    "eof": _eof,
}


def _shown_tool(tool: Item) -> Item:
    return {**tool, "strict": tool.get("strict")} if tool["type"] == "function" else tool
