"""Settles a noted turn: judges its reasoning, leaves out what is half, and writes the items.

Owns the rules that need the whole turn: a call is sent only with its output, reasoning only with what it
led to, and a provider's own item ids only where the reasoning that they are paired with is sent too.
Nothing here depends on later turns, so an earlier turn's bytes never change when a chat goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from ..responses.items import AssistantMessage, InputPart
from .entries import Origin
from .reasoning import ANTHROPIC, FORMAT_FAMILIES
from .slots import Draft, Rules, Slot, SlotKind, Written
from .tool_pairs import CallIds, Fields, Pair
from .turns import user_message

_ID_HEX_CHARS = 32
_DANGLES = "what it led to is not sent"


def settle_turn(draft: Draft, rules: Rules, written: Written, ids: CallIds) -> None:
    """Write the items of a noted turn; what is left out is noted among the draft's repairs."""
    reasoning = [slot for slot in draft.slots if slot.kind == "reasoning"]
    if reasoning:
        _judge_reasoning(reasoning, rules)
        _drop_dangling_reasoning(draft.slots)
    writer = _Writer(draft, written, ids)
    for slot in draft.slots:
        if slot.dropped:
            writer.leave_out(slot)
        else:
            _WRITERS[slot.kind](writer, slot)


def assistant_message(text: str, *, key: str, phase: str | None = None) -> AssistantMessage:
    """Make the item of what the assistant says; its id follows from the text and its place, the key."""
    digest = hashlib.sha256(f"{key}:{text}".encode()).hexdigest()[:_ID_HEX_CHARS]
    message: AssistantMessage = {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{digest}",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    if phase:
        message["phase"] = phase
    return message


def _judge_reasoning(reasoning: Sequence[Slot], rules: Rules) -> None:
    """Anthropic verifies a turn's thinking as a whole: one unsendable piece takes the others along."""
    is_whole = not any(slot.dropped for slot in reasoning)
    if is_whole or not (rules.target == ANTHROPIC or any(map(_is_anthropic, reasoning))):
        return
    for slot in reasoning:
        slot.dropped = slot.dropped or "other reasoning of the turn cannot be sent"


def _is_anthropic(slot: Slot) -> bool:
    return FORMAT_FAMILIES.get(slot.content.get("format") or "") == ANTHROPIC


def _drop_dangling_reasoning(slots: Sequence[Slot]) -> None:
    """Reasoning goes with what it led to: a call that is not sent, or nothing at all, takes it along."""
    run: list[Slot] = []
    is_broken = False
    for slot in slots:
        if slot.kind == "reasoning" and not slot.dropped:
            if is_broken:
                _drop(run)
                run, is_broken = [], False
            run.append(slot)
        elif slot.pair and slot.kind == "call" and not slot.pair.is_whole:
            is_broken = bool(run)
        elif slot.kind in {"text", "call", "opaque"} and not slot.dropped:
            run, is_broken = [], False
    _drop(run)


def _drop(reasoning: Sequence[Slot]) -> None:
    for slot in reasoning:
        slot.dropped = _DANGLES


class _Writer:
    """Writes a judged turn."""

    def __init__(self, draft: Draft, written: Written, ids: CallIds) -> None:
        self._draft = draft
        self._written = written
        self._ids = ids
        self._keeps_ids = False
        self._misses_reasoning = False
        self._messages = 0
        self._images: set[str] = set()

    def leave_out(self, slot: Slot) -> None:
        """Item ids after reasoning that cannot be sent would name a pair that is not there."""
        self._draft.repair(
            "reasoning" if slot.kind == "reasoning" else "artifact", slot.origin, slot.dropped or ""
        )
        if slot.kind == "reasoning" and slot.dropped != _DANGLES:
            self._misses_reasoning = True
            self._keeps_ids = False

    def ready(self, slot: Slot) -> None:
        self._add(slot.content, slot.origin)

    def text(self, slot: Slot) -> None:
        key = f"{self._draft.number}.{self._messages}"
        self._messages += 1
        self._add(assistant_message(slot.content, key=key, phase=slot.phase), slot.origin)

    def reasoning(self, slot: Slot) -> None:
        self._keeps_ids = not self._misses_reasoning
        self._add(slot.content, slot.origin)
        self._written.replayed.append((cast("str", slot.origin.marker), self._draft.number))

    def opaque(self, slot: Slot) -> None:
        """An item whose id is required gets one that points to no reasoning."""
        item = slot.content
        if "id" in item and not self._keeps_ids:
            prefix = item["id"].partition("_")[0]
            digest = hashlib.sha256(f"{self._draft.number}:{item['id']}".encode()).hexdigest()
            item = {**item, "id": f"{prefix[:8]}_{digest[:_ID_HEX_CHARS]}"}
        self._add(item, slot.origin)

    def call(self, slot: Slot) -> None:
        pair = cast("Pair", slot.pair)
        if not pair.is_whole:
            self._leave_out_call(pair)
            return
        call = pair.call
        pair.sent_as = call_id = self._ids.settle(call.fields["call_id"])
        if call_id != call.fields["call_id"]:
            self._draft.repair("call_id", call.origin, f"{call.fields['call_id']!r} is sent as {call_id}")
        fields = call.fields if self._keeps_ids else _without_id(call.fields)
        self._add(_with_call_id(fields, call_id), call.origin)
        if pair.output_waits:
            self._output(pair, call_id)

    def output(self, slot: Slot) -> None:
        pair = cast("Pair", slot.pair)
        if not pair.is_whole:
            self._draft.repair("output", slot.origin, "an output without its call")
        elif pair.sent_as:
            self._output(pair, pair.sent_as)
        else:
            self._draft.repair("output", slot.origin, "an output before its call")
            pair.output_waits = True

    def images(self, slot: Slot) -> None:
        """Images that an output of the turn holds already are not sent twice."""
        parts = [part for part in slot.content if part.get("image_url") not in self._images]
        if any(part["type"] == "input_image" for part in parts):
            self._add(user_message(parts), slot.origin)

    def _output(self, pair: Pair, call_id: str) -> None:
        output = pair.output
        self._add(_with_call_id(output.fields, call_id), output.origin)
        if output.fields["type"] == "function_call_output":
            self._images.update(_image_urls(output.fields["output"]))

    def _leave_out_call(self, pair: Pair) -> None:
        """A stored call whose stored result is lost is named; any other half is left out."""
        call = pair.call
        self._draft.repair("call", call.origin, "a call without its output")
        name = call.fields.get("name")
        if call.origin.marker and name and self._draft.has_holes:
            note = f"[The result of the tool {name} is no longer available.]"
            self.text(Slot("text", call.origin, note))

    def _add(self, item: Any, origin: Origin) -> None:
        self._written.items.append(item)
        self._written.turns.append(self._draft.number)
        self._written.origins.append(origin)


_WRITERS: Mapping[SlotKind, Callable[[_Writer, Slot], None]] = {
    "ready": _Writer.ready,
    "text": _Writer.text,
    "reasoning": _Writer.reasoning,
    "opaque": _Writer.opaque,
    "call": _Writer.call,
    "output": _Writer.output,
    "images": _Writer.images,
}


def _without_id(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if key != "id"} if "id" in fields else fields


def _with_call_id(fields: Fields, call_id: str) -> Fields:
    return fields if fields["call_id"] == call_id else {**fields, "call_id": call_id}


def _image_urls(output: str | Sequence[InputPart]) -> Iterator[str]:
    if not isinstance(output, str):
        yield from (part["image_url"] for part in output if part["type"] == "input_image")
