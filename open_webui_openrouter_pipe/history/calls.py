"""Tool calls and their results within one turn, reported by several sources, matched into pairs.

The same call may be reported by our artifact, by the host's tool messages and by a block folded into text. Owns which
records are the same call, whose version is sent, and what is half and must not be sent. Call ids are compared within
one turn only: providers use the same ids again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
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

    `sent_as` is the call's id on the wire, once it is written; `output_came_first` says that its output must follow it
    at once, `is_output_lost` that the stored output is missing.
    """

    calls: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    outputs: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    sent_as: str | None = None
    output_came_first: bool = False
    is_output_lost: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether both the call and its output are known."""
        return bool(self.calls) and bool(self.outputs)

    @property
    def call(self) -> ToolCallRecord:
        """The call as the model wrote it if our artifact has it, otherwise as the host shows it."""
        return self.calls.get("artifact") or self.calls.get("host") or self.calls["folded"]

    @property
    def output(self) -> ToolCallRecord:
        """The whole output if our artifact has it, otherwise what the host shows of it."""
        return self.outputs.get("artifact") or self.outputs.get("host") or self.outputs["folded"]


@dataclass(slots=True)
class _SameId:
    """The pairs of one message that share a call id: one, unless a provider gave several calls the same id.

    `sources` are those of the calls of each message, `not_indexed` the calls that are not yet in `by_content`.
    """

    pairs: list[ToolCallPair] = field(default_factory=list)
    sources: dict[tuple[int, int], set[CallSource]] = field(default_factory=dict)
    by_content: dict[str, ToolCallPair] = field(default_factory=dict)
    not_indexed: list[tuple[ToolCallRecord, ToolCallPair]] = field(default_factory=list)
    done: dict[tuple[str, CallSource], int] = field(default_factory=dict)

    def find(self, call: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair of which this record reports the call, perhaps again; None for another call.

        In another message it is the same call if this source has not reported the pair yet and the arguments are the
        same: the marker of a finished call may follow it. Of a call that an artifact or the host has, a folded block is
        at most a copy.
        """
        message = call.origin.message_part
        is_of_message = not self.sources or message in self.sources
        if is_of_message and len(self.pairs) == 1 and source not in self.pairs[0].calls:
            return self.pairs[0]
        if source == "folded" and self.pairs[0].calls.keys() - {"folded"}:
            return self.first_without("calls", source) or self.pairs[0]
        for record, indexed in self.not_indexed:
            self.by_content.setdefault(_content(record.fields), indexed)
        self.not_indexed.clear()
        pair = self.by_content.get(_content(call.fields))
        if pair and (source not in pair.calls or pair.calls[source].origin.message_part == message):
            return pair
        return self.first_without("calls", source) if is_of_message else None

    def first_without(self, half: Literal["calls", "outputs"], source: CallSource) -> ToolCallPair | None:
        """Return the first pair of which the source has not reported this half."""
        index = self.done.get((half, source), 0)
        while index < len(self.pairs) and source in getattr(self.pairs[index], half):
            index += 1
        self.done[half, source] = index
        return self.pairs[index] if index < len(self.pairs) else None


class ToolCallMatcher:
    """The pairs of one turn, in the order in which they were first reported."""

    def __init__(self) -> None:
        """Begin without pairs."""
        self.pairs: list[ToolCallPair] = []
        self._latest: defaultdict[tuple[str, str], _SameId] = defaultdict(_SameId)

    def add_call(self, call: ToolCallRecord, source: CallSource, named: str = "") -> ToolCallPair | None:
        """Return the pair that the call belongs to; None when the source has reported it before.

        `named` is the id under which the host has the call, where that is not the provider's own.
        """
        key = (call.fields["type"], named or call.fields["call_id"])
        message, same_id = call.origin.message_part, self._latest[key]
        pair = same_id.find(call, source) if same_id.pairs else None
        if pair is None:
            if same_id.pairs and source not in same_id.sources.get(message, ()):
                same_id = self._latest[key] = _SameId()
            pair = self._add_pair(same_id)
        if source in pair.calls:
            return None
        pair.calls[source] = call
        same_id.sources.setdefault(message, set()).add(source)
        same_id.not_indexed.append((call, pair))
        return pair

    def add_output(self, output: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Return the pair that the output belongs to; None when the source has reported it before.

        Calls of one id and message get their outputs in the order in which they come.
        """
        same_id = self._latest[CALL_TYPES[output.fields["type"]], output.fields["call_id"]]
        pair = same_id.first_without("outputs", source) if same_id.pairs else self._add_pair(same_id)
        if pair is not None:
            pair.outputs[source] = output
        return pair

    def _add_pair(self, same_id: _SameId) -> ToolCallPair:
        pair = ToolCallPair()
        same_id.pairs.append(pair)
        self.pairs.append(pair)
        return pair


@dataclass(slots=True)
class CallIds:
    """The call ids of one request: one used before, or too long, is replaced, always in the same way."""

    _taken: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)

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


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
