"""Tool calls and their results within one turn, reported by several sources, matched into pairs.

The same call may be reported by our artifact, by the host's tool messages and by a block folded into text. Owns which
records are the same call, whose version is sent, and what is half and must not be sent. Call ids are compared within
one turn only: providers use the same ids again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ..responses.items import Item
from ..responses.wire import as_text
from .parts import same_arguments
from .reading import CallSource, Origin

Fields: TypeAlias = Mapping[str, Any]

OUTPUT_TYPES: Mapping[str, str] = {
    "apply_patch_call": "apply_patch_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "function_call": "function_call_output",
    "shell_call": "shell_call_output",
    "tool_search_call": "tool_search_output",
}
"""The item types that come in pairs joined by `call_id`: call → output."""

CALL_TYPES: Mapping[str, str] = {output: call for call, output in OUTPUT_TYPES.items()}

_MAX_CALL_ID_CHARS = 64


@dataclass(frozen=True, slots=True)
class ClassifiedCalls:
    """The call ids of function calls by whether they can be sent."""

    paired: frozenset[str]
    calls_without_output: frozenset[str]
    outputs_without_call: frozenset[str]


class ToolCallRecord(NamedTuple):
    """A call or an output as one source reports it, and where it does so."""

    fields: Fields
    origin: Origin


@dataclass(slots=True)
class ToolCallPair:
    """One call and its output, as each source reports them. It can be sent only when it is whole.

    `sent_as` is its call id on the wire, once the call is written; `output_came_first` says that its output must follow
    the call at once.
    """

    calls: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    outputs: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    sent_as: str | None = None
    output_came_first: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether both the call and its output are known."""
        return bool(self.calls) and bool(self.outputs)

    @property
    def call(self) -> ToolCallRecord:
        """The call as the model wrote it if our artifact has it, otherwise as the host shows it."""
        return _best(self.calls)

    @property
    def output(self) -> ToolCallRecord:
        """The whole output if our artifact has it, otherwise what the host shows of it."""
        return _best(self.outputs)

    def matches(self, call: ToolCallRecord, source: CallSource) -> bool:
        """Whether this record of the same id is this very call, and not a later one.

        Within one message it is. From another message it is if this source has not reported the pair yet and the
        arguments are the same: the marker of a finished call may follow it.
        """
        message = call.origin.message_part
        if not self.calls:
            return True
        if source in self.calls:
            return self.calls[source].origin.message_part == message
        same_message = any(record.origin.message_part == message for record in self.calls.values())
        one, other = self.call.fields, call.fields
        return same_message or (
            one["type"] == "function_call"
            and one["name"] == other["name"]
            and same_arguments(one["arguments"], other["arguments"])
        )


class ToolCallMatcher:
    """The pairs of one turn, in the order in which they were first reported."""

    def __init__(self) -> None:
        """Begin without pairs."""
        self.pairs: list[ToolCallPair] = []
        self._by_id: dict[tuple[str, str], ToolCallPair] = {}

    def add_call(self, call: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair that the call belongs to; None when the source has reported it before."""
        key = (call.fields["type"], call.fields["call_id"])
        pair = self._by_id.get(key)
        if pair is None or not pair.matches(call, source):
            pair = self._add_pair(key)
        if source in pair.calls:
            return None
        pair.calls[source] = call
        return pair

    def add_output(self, output: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair that the output belongs to; None when the source has reported it before."""
        key = (CALL_TYPES[output.fields["type"]], output.fields["call_id"])
        pair = self._by_id.get(key) or self._add_pair(key)
        if source in pair.outputs:
            return None
        pair.outputs[source] = output
        return pair

    def _add_pair(self, key: tuple[str, str]) -> ToolCallPair:
        pair = self._by_id[key] = ToolCallPair()
        self.pairs.append(pair)
        return pair


class CallIds:
    """The call ids of one request: one used before, or too long, is replaced, always in the same way."""

    def __init__(self) -> None:
        """Begin with no id taken."""
        self._taken: set[str] = set()

    def reserve(self, call_id: str) -> str:
        """Return the id, or one derived from it that nothing before uses."""
        reserved = base = call_id if len(call_id) <= _MAX_CALL_ID_CHARS else _digest(call_id)
        number = 1
        while reserved in self._taken:
            number += 1
            reserved = f"{base}_{number}"
            if len(reserved) > _MAX_CALL_ID_CHARS:
                reserved = _digest(reserved)
        self._taken.add(reserved)
        return reserved


def classify_function_call_artifacts(items: Iterable[Item]) -> ClassifiedCalls:
    """Sort the call ids of function calls and outputs into pairs and halves, as the builder matches them."""
    matcher = ToolCallMatcher()
    for index, item in enumerate(items):
        if not as_text(item.get("call_id")):
            continue
        record = ToolCallRecord(item, Origin(index, "assistant"))
        if item["type"] == "function_call":
            matcher.add_call(record, "artifact")
        elif item["type"] == "function_call_output":
            matcher.add_output(record, "artifact")
    halves = [pair for pair in matcher.pairs if not pair.is_whole]
    return ClassifiedCalls(
        frozenset(pair.call.fields["call_id"] for pair in matcher.pairs if pair.is_whole),
        frozenset(pair.call.fields["call_id"] for pair in halves if pair.calls),
        frozenset(pair.output.fields["call_id"] for pair in halves if pair.outputs),
    )


def _best(records: Mapping[CallSource, ToolCallRecord]) -> ToolCallRecord:
    return records.get("artifact") or records.get("host") or records["folded"]


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
