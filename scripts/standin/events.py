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
ECHOED: dict[str, Any] = {
    "max_output_tokens": None,
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_logprobs": 0,
    "max_tool_calls": None,
    "metadata": {},
    "background": False,
    "safety_identifier": None,
    "prompt_cache_key": None,
    "prompt_cache_options": None,
    "instructions": None,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}},
}
"""The fields of a request that its response shows, as they are where the request does not say."""


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
                {**tool, "strict": tool.get("strict")} if tool["type"] == "function" else tool
                for tool in self.body.get("tools") or []
                if not tool["type"].startswith("openrouter:")  # a capture and the SDK show none of these
            ],
            **ECHOED,
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
    terminal = "response.completed" if response.plan.ending == "completed" else "response.incomplete"
    yield from _breaking(response, cut) if cut else [{"type": terminal, "response": response.finished()}]


def _breaking(response: Response, cut: Break) -> Iterator[Event]:
    """How a stream breaks: with one event, numbered or not, or with none."""
    error: Event = {"code": cut.code, "message": cut.message}
    events: dict[str, Event] = {
        "failed": {"type": "response.failed", "response": response.failed(cut)},
        "response.error": {"type": "response.error", "error": error, "unnumbered": True},
        "nested": {"type": "error", "error": error, "unnumbered": True},
        "flat": {"type": "error", **error, "param": None},
    }
    if cut.kind in events:
        yield events[cut.kind]


def is_delta(event: Event) -> bool:
    """Whether an event carries a piece of text, before which a delivery may pause."""
    return str(event["type"]).endswith(".delta")


def _body(response: Response) -> Iterator[Event]:
    delivery = response.plan.delivery
    for index, item in enumerate(response.output):
        shown = item if delivery.late_seals else response.sealed(item)
        for event in ITEMS.get(item["type"], _unknown)(shown, delivery):
            head = {"type": event.pop("type"), "output_index": index}
            yield {**head, **event}


# --- how each item comes to be; the events lack their output_index ---


def _whole(item: Item, begun: Item, *between: Event) -> Iterator[Event]:
    """The item as it begins, the events in between, and the item at its end."""
    yield {"type": "response.output_item.added", "item": {**begun, "status": "in_progress"}}
    yield from ({**event, "type": f"response.{event['type']}"} for event in between)
    yield {"type": "response.output_item.done", "item": item}


def _bare(item: Item) -> Item:
    return {"id": item["id"], "type": item["type"]}


def _part(part: Item, at: Item, part_event: str, text_event: str) -> Iterator[Event]:
    """A part of an item: its text in deltas, then its annotations."""
    field = "refusal" if part["type"] == "refusal" else "text"
    probabilities: Event = {"logprobs": []} if "logprobs" in part else {}
    empty = {key: [] if isinstance(value, list) else "" for key, value in part.items()}
    yield {"type": f"{part_event}.added", **at, "part": {**empty, "type": part["type"]}}
    for piece in WORD.findall(part[field]):
        yield {"type": f"{text_event}.delta", **at, "delta": piece, **probabilities}
    for index, annotation in enumerate(part.get("annotations", [])):
        shown = {"annotation_index": index, "annotation": annotation}
        yield {"type": f"{text_event}.annotation.added", **at, **shown}
    yield {"type": f"{text_event}.done", **at, field: part[field], **probabilities}
    yield {"type": f"{part_event}.done", **at, "part": part}


def _reasoning(item: Item, _delivery: Delivery) -> Iterator[Event]:
    events: list[Event] = []
    for index, part in enumerate(item["summary"]):
        at = {"item_id": item["id"], "summary_index": index}
        events += _part(part, at, "reasoning_summary_part", "reasoning_summary_text")
    for index, part in enumerate(item.get("content", [])):
        events += _part(
            part, {"item_id": item["id"], "content_index": index}, "content_part", "reasoning_text"
        )
    return _whole(item, {**_bare(item), "summary": []}, *events)


def _message(item: Item, _delivery: Delivery) -> Iterator[Event]:
    part, at = item["content"][0], {"item_id": item["id"], "content_index": 0}
    return _whole(item, {**item, "content": []}, *_part(part, at, "content_part", part["type"]))


def _call(item: Item, delivery: Delivery) -> Iterator[Event]:
    arguments = "" if delivery.late_arguments else item["arguments"]
    kind = "function_call_arguments"
    deltas = [
        {"type": f"{kind}.delta", "item_id": item["id"], "delta": arguments[at : at + ARGUMENT_PIECE_CHARS]}
        for at in range(0, len(arguments), ARGUMENT_PIECE_CHARS)
    ]
    done = {"type": f"{kind}.done", "item_id": item["id"], "name": item["name"], "arguments": arguments}
    return _whole({**item, "arguments": arguments}, {**item, "arguments": ""}, *deltas, done)


def _native_search(item: Item, _delivery: Delivery) -> Iterator[Event]:
    stages = [f"web_search_call.{stage}" for stage in ("in_progress", "searching", "completed")]
    return _whole(item, _bare(item), *({"type": stage, "item_id": item["id"]} for stage in stages))


def _server_tool(item: Item, _delivery: Delivery) -> Iterator[Event]:
    return _whole(item, _bare(item))


def _image(item: Item, _delivery: Delivery) -> Iterator[Event]:
    partial = {"partial_image": {"partial_image_b64": item["result"], "partial_image_index": 0}}
    stages = ("in_progress", "generating", "partial_image", "completed")
    kind = "image_generation_call"
    events = [{"type": f"{kind}.{one}", "item_id": item["id"], **partial.get(one, {})} for one in stages]
    return _whole(item, {**_bare(item), "result": None}, *events)


def _unknown(item: Item, _delivery: Delivery) -> Iterator[Event]:
    return _whole(item, item)


ITEMS: dict[str, Callable[[Item, Delivery], Iterator[Event]]] = {
    "reasoning": _reasoning,
    "message": _message,
    "function_call": _call,
    "web_search_call": _native_search,
    "openrouter:web_search": _server_tool,
    "openrouter:web_fetch": _server_tool,
    "image_generation_call": _image,
}
