"""The events by which a response comes to be.

Owns the sequence of stream events: from the finished items of a plan back to the deltas that build them.
Pure: items in, events out. It knows neither bytes nor time; the order follows the service's documented
streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .catalogue import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .output import Bill
    from .plan import Break, Plan

Event = dict[str, Any]
Item = dict[str, Any]

WORD = re.compile(r"\s*\S+|\s+")
ARGUMENT_PIECE_CHARS = 8
ECHOED: dict[str, Any] = DATA["echoed"]
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
    bill: Bill
    plan: Plan
    metadata: dict[str, Any] | None = None
    """Who served it, where the request asks for that."""

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
            "usage": self.bill.whole,
            **({"openrouter_metadata": self.metadata} if self.metadata else {}),
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
    cut = response.plan.cut
    yield {"type": "response.created", "response": response.head("in_progress")}
    yield {"type": "response.in_progress", "response": response.head("in_progress")}
    if response.plan.unknown_event:
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
    """Whether an event carries a piece of text."""
    return str(event["type"]).endswith(".delta")


def takes_time(event: Event) -> bool:
    """Whether a delivery may pause before an event: a piece of text, or the end of a tool's call."""
    ends = event["type"] == "response.output_item.done" and event["item"]["type"].startswith("openrouter:")
    return is_delta(event) or bool(ends)


def _body(response: Response) -> Iterator[Event]:
    for index, item in enumerate(response.output):
        whole = response.sealed(item)
        if response.plan.late:
            whole = {**item, "arguments": ""} if "arguments" in item else item
        begun, between = _parts_of(whole)
        added = {"type": "output_item.added", "item": {**begun, "status": "in_progress"}}
        for event in (added, *between, {"type": "output_item.done", "item": whole}):
            yield {**event, "type": f"response.{event['type']}", "output_index": index}


# --- how each item comes to be; the events lack their output_index and the beginning of their type ---


def _parts_of(item: Item) -> tuple[Item, list[Event]]:
    """An item as it begins, and the events until it is done."""
    at, bare = {"item_id": item["id"]}, {"id": item["id"], "type": item["type"]}
    match item["type"]:
        case "reasoning":
            events: list[Event] = []
            for index, part in enumerate(item["summary"]):
                names = ("reasoning_summary_part", "reasoning_summary_text")
                events += _part(part, {**at, "summary_index": index}, *names)
            for index, part in enumerate(item.get("content", [])):
                events += _part(part, {**at, "content_index": index}, "content_part", "reasoning_text")
            return {**bare, "summary": []}, events
        case "message":
            part = item["content"][0]
            return {**item, "content": []}, [
                *_part(part, {**at, "content_index": 0}, "content_part", part["type"])
            ]
        case "function_call" as kind:
            arguments, kind = item["arguments"], f"{kind}_arguments"
            pieces = [
                arguments[start : start + ARGUMENT_PIECE_CHARS]
                for start in range(0, len(arguments), ARGUMENT_PIECE_CHARS)
            ]
            deltas = [{"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces]
            done = {"type": f"{kind}.done", **at, "name": item["name"], "arguments": arguments}
            return {**item, "arguments": ""}, [*deltas, done]
        case "image_generation_call" as kind:
            partial = {"partial_image_b64": item["result"], "partial_image_index": 0}
            stages = {"in_progress": {}, "generating": {}, "partial_image": partial, "completed": {}}
            events = [{"type": f"{kind}.{stage}", **at, **more} for stage, more in stages.items()]
            return {**bare, "result": None}, events
        case kind:
            is_bare = kind.startswith("openrouter:") and kind != "openrouter:datetime"  # which lacks no field
            return bare if is_bare else item, []


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
