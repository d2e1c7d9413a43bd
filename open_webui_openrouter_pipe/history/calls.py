"""Tool calls and their results within one turn, reported by several sources, matched into pairs.

The same call may be reported by our artifact, by the host's tool messages and by a block folded into text. Owns which
records are the same call, whose version is sent, and what is half and must not be sent. Call ids are compared within
one turn only: providers use the same ids again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from ..responses.items import CALL_TYPES, Item
from ..responses.values import as_text
from .parts import canonical_arguments
from .reading import CallSource, Origin

Fields: TypeAlias = Mapping[str, Any]

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

    `given_id` is the provider's own id of the call where the host has one of ours, `sent_as` its id on the wire, once
    the call is written; `output_came_first` says that its output must follow the call at once.
    """

    calls: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    outputs: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    given_id: str | None = None
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


class _SameId:
    """The pairs of one message that share a call id: one, unless a provider gave several calls the same id."""

    def __init__(self) -> None:
        self.pairs: list[ToolCallPair] = []
        self._sources: dict[tuple[int, int], set[CallSource]] = {}
        self._by_content: dict[str, ToolCallPair] = {}
        self._not_indexed: list[tuple[ToolCallRecord, ToolCallPair]] = []
        self._done: dict[tuple[str, CallSource], int] = {}

    def find(self, call: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair of which this record reports the call, perhaps again; None for another call.

        In another message it is the same call if this source has not reported the pair yet and the arguments are the
        same: the marker of a finished call may follow it.
        """
        for record, indexed in self._not_indexed:
            self._by_content.setdefault(_content(record.fields), indexed)
        self._not_indexed.clear()
        message = call.origin.message_part
        pair = self._by_content.get(_content(call.fields))
        if pair and (source not in pair.calls or pair.calls[source].origin.message_part == message):
            return pair
        if self._sources and message not in self._sources:
            return None
        return self.first_without("calls", source)

    def is_of_message(self, call: ToolCallRecord, source: CallSource) -> bool:
        """Whether the source gives the id to another call of the same message."""
        return source in self._sources.get(call.origin.message_part, ())

    def is_shown_elsewhere(self) -> bool:
        """Whether an artifact or the host has such a call: a folded block of it is at most a copy, never another."""
        return any(pair.calls.keys() - {"folded"} for pair in self.pairs[:1])

    def add(self, pair: ToolCallPair, call: ToolCallRecord, source: CallSource) -> None:
        pair.calls[source] = call
        self._sources.setdefault(call.origin.message_part, set()).add(source)
        self._not_indexed.append((call, pair))

    def first_without(self, half: Literal["calls", "outputs"], source: CallSource) -> ToolCallPair | None:
        """Return the first pair of which the source has not reported this half."""
        index = self._done.get((half, source), 0)
        while index < len(self.pairs) and source in getattr(self.pairs[index], half):
            index += 1
        self._done[half, source] = index
        return self.pairs[index] if index < len(self.pairs) else None


class ToolCallMatcher:
    """The pairs of one turn, in the order in which they were first reported."""

    def __init__(self) -> None:
        """Begin without pairs."""
        self.pairs: list[ToolCallPair] = []
        self._latest: dict[tuple[str, str], _SameId] = {}

    def add_call(self, call: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair that the call belongs to; None when the source has reported it before."""
        key = (call.fields["type"], call.fields["call_id"])
        same_id = self._latest.get(key)
        if same_id and source == "folded" and same_id.is_shown_elsewhere():
            pair = same_id.first_without("calls", source)
            if pair is not None:
                same_id.add(pair, call, source)
            return pair
        pair = same_id.find(call, source) if same_id else None
        if same_id is None or (pair is None and not same_id.is_of_message(call, source)):
            same_id = self._latest[key] = _SameId()
        pair = pair or self._add_pair(same_id)
        if source in pair.calls:
            return None
        same_id.add(pair, call, source)
        return pair

    def add_output(self, output: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair that the output belongs to; None when the source has reported it before.

        Calls of one id and message get their outputs in the order in which they come.
        """
        key = (CALL_TYPES[output.fields["type"]], output.fields["call_id"])
        same_id = self._latest.get(key)
        if same_id is None:
            same_id = self._latest[key] = _SameId()
            self._add_pair(same_id)
        pair = same_id.first_without("outputs", source)
        if pair is not None:
            pair.outputs[source] = output
        return pair

    def _add_pair(self, same_id: _SameId) -> ToolCallPair:
        pair = ToolCallPair()
        same_id.pairs.append(pair)
        self.pairs.append(pair)
        return pair


class CallIds:
    """The call ids of one request: one used before, or too long, is replaced, always in the same way."""

    def __init__(self) -> None:
        """Begin with no id taken."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def reserve(self, call_id: str) -> str:
        """Return the id, or one derived from it that nothing before uses."""
        reserved = base = call_id if len(call_id) <= _MAX_CALL_ID_CHARS else _digest(call_id)
        number = self._numbers.get(base, 1)
        while reserved in self._taken:
            number += 1
            reserved = f"{base}_{number}"
            if len(reserved) > _MAX_CALL_ID_CHARS:
                reserved = _digest(reserved)
        self._taken.add(reserved)
        self._numbers[base] = number
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


def _content(call: Fields) -> str:
    """Two function calls of one id and message differ if their names or arguments do; others are repetitions."""
    if call["type"] != "function_call":
        return ""
    return f"{call['name']} {canonical_arguments(call['arguments'])}"


def _best(records: Mapping[CallSource, ToolCallRecord]) -> ToolCallRecord:
    return records.get("artifact") or records.get("host") or records["folded"]


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
