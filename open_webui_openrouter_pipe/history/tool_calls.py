"""Calls and their answers within one turn, told by several sources, merged into pairs.

The same call may be told by our artifact, by the host's tool messages and by a block folded into text. Owns
which mentions are the same call, whose words win, and what is half and must not be sent. Call ids are
compared within one turn only: providers use the same ids again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..responses.items import Item
from .entries import CallSource, Origin
from .parts import same_arguments

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
class Classified:
    """The call ids of function calls by whether they can be sent."""

    paired: frozenset[str]
    calls_without_output: frozenset[str]
    outputs_without_call: frozenset[str]


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """A call or an output in one source's words, and the place where it says so."""

    fields: Fields
    origin: Origin


@dataclass(slots=True)
class ToolCallPair:
    """One call and its output, in the words of each source. It can be sent only when it is whole.

    `sent_as` is its call id on the wire, once the call is written; `output_waits` says that its output came first.
    """

    calls: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    outputs: dict[CallSource, ToolCallRecord] = field(default_factory=dict)
    sent_as: str | None = None
    output_waits: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether both the call and its output are known."""
        return bool(self.calls) and bool(self.outputs)

    @property
    def call(self) -> ToolCallRecord:
        """The call as the model wrote it if our artifact has it, otherwise as the host tells it."""
        return _best(self.calls)

    @property
    def output(self) -> ToolCallRecord:
        """The whole output if our artifact has it, otherwise what the host shows of it."""
        return _best(self.outputs)

    def matches(self, call: ToolCallRecord, source: CallSource) -> bool:
        """Tell whether this mention of the same id is this very call, and not a later one.

        Within one message it is. From another message it is if this source has not told of the pair yet and
        says the same: the marker of a finished call may follow it.
        """
        places = {told: mention.origin.place for told, mention in self.calls.items()}
        if not places or places.get(source) == call.origin.place:
            return True
        if source in places:
            return False
        return call.origin.place in places.values() or _says_the_same(self.call.fields, call.fields)


class ToolCallMatcher:
    """The pairs of one turn."""

    def __init__(self) -> None:
        """Begin without pairs."""
        self._pairs: dict[tuple[str, str], list[ToolCallPair]] = {}

    def add_call(self, call: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Note a call; None when it only repeats what the source has told."""
        pairs = self._pairs.setdefault((call.fields["type"], call.fields["call_id"]), [])
        if not pairs or not pairs[-1].matches(call, source):
            pairs.append(ToolCallPair())
        if source in pairs[-1].calls:
            return None
        pairs[-1].calls[source] = call
        return pairs[-1]

    def add_output(self, output: ToolCallRecord, source: CallSource) -> ToolCallPair | None:
        """Note an output; None when it only repeats what the source has told."""
        pairs = self._pairs.setdefault((CALL_TYPES[output.fields["type"]], output.fields["call_id"]), [])
        if not pairs:
            pairs.append(ToolCallPair())
        if source in pairs[-1].outputs:
            return None
        pairs[-1].outputs[source] = output
        return pairs[-1]


class CallIds:
    """The call ids of one request: one used before, or too long, is replaced, always in the same way."""

    def __init__(self) -> None:
        """Begin with no id taken."""
        self._taken: set[str] = set()

    def settle(self, call_id: str) -> str:
        """Give the id, or one derived from it that nothing before uses."""
        settled = base = call_id if len(call_id) <= _MAX_CALL_ID_CHARS else _digest(call_id)
        number = 1
        while settled in self._taken:
            number += 1
            settled = f"{base}_{number}"
            if len(settled) > _MAX_CALL_ID_CHARS:
                settled = _digest(settled)
        self._taken.add(settled)
        return settled


def classify_function_call_artifacts(items: Iterable[Item]) -> Classified:
    """Sort the call ids of function calls and outputs into pairs and halves. A half is never sent."""
    ids: dict[str, set[str]] = {"function_call": set(), "function_call_output": set()}
    for item in items:
        call_id = item.get("call_id")
        if item["type"] in ids and isinstance(call_id, str) and call_id:
            ids[item["type"]].add(call_id)
    calls, outputs = ids["function_call"], ids["function_call_output"]
    return Classified(frozenset(calls & outputs), frozenset(calls - outputs), frozenset(outputs - calls))


def _best(told: Mapping[CallSource, ToolCallRecord]) -> ToolCallRecord:
    return told.get("artifact") or told.get("host") or told["folded"]


def _says_the_same(one: Fields, other: Fields) -> bool:
    if one["type"] != "function_call":
        return False
    return bool(one["name"] == other["name"] and same_arguments(one["arguments"], other["arguments"]))


def _digest(text: str) -> str:
    return f"call_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
